# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Finds complete, valid frames in a chunk: the fast half of `Decoder`. Every other frame is judged by the slow half.

The contract. `look` reads only bytes of `text[at:size]`, each at most twice, and only those of the frame that begins
at `at`. It returns True only for a frame that the Python decoder accepts, too, with the same offsets. False does not
mean that the frame is wrong: it may be unfinished or only unusual. The `Dialect`, the `Limits`, the `Rules` and the
`Keep` say, as data, what is valid. tests/wire/test_scan.py compares this module with the Python decoder, and
tests/journal/test_runs.py compares what is kept of runs with what is kept of their frames.
"""

cimport cython

from functools import lru_cache
from types import MemberDescriptorType

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from stomprelay.wire._marks cimport first_of, marks_in

from stomprelay.wire.dialect import ESCAPES, V1_0
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BODIES, CONTENT_LENGTH, SEND
from stomprelay.wire.run import Run

cdef extern from *:
    """
    #include <stdint.h>

    /* Returns the number whose bytes in memory are those of `number`, the lowest byte first. */
    static inline uint32_t little(uint32_t number)
    {
    #if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        return __builtin_bswap32(number);
    #else
        return number;
    #endif
    }
    """
    uint32_t little(uint32_t number) noexcept nogil

cdef extern from "structmember.h":
    object PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t items)
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

ctypedef const unsigned char *Text

cdef enum:
    COMMANDS = 16       # the most commands that are allowed
    NAMES = 32          # the most header names in a rule
    WANTS = 8           # the most headers whose values a rule wants
    DIGITS = 18         # the most digits of a content-length
    SECRETS = 32        # the most names of headers whose values are not recorded
    GATHERED = 1024     # the most bytes that are kept before they are copied to a bytearray
    SIZES = 3 * 256     # sizes of frames of a recorded run, before they are copied to a bytearray

cdef Py_ssize_t _MOST = 1 << 62


cdef struct Name:
    Text text
    Py_ssize_t size
    int want            # the place of its value among the wanted values; -1: the relay has to look at the frame
    Py_ssize_t begins   # how many bytes `text` has behind the colon: only a value that begins with these needs the look


cdef struct Command:
    PyObject *name      # bytes
    PyObject *rule      # NULL: none
    Text text
    Py_ssize_t size
    bint body           # its frames may have a body
    bint shared         # frames with equal heads share one object, see `Frame.memo`
    bint plain
    bint needs
    bint parts
    bint sure
    int wants
    int count
    uint64_t lengths    # a bit for the length of each name in the rule, and of content-length
    Name[NAMES] names


cdef struct Span:
    Py_ssize_t start, end


cdef struct Found:
    const Command *command
    Py_ssize_t head, body, end, after
    Py_ssize_t seen     # the end of the bytes that were looked at
    Py_ssize_t need     # the size of the whole frame if its body is incomplete; otherwise 0
    bint plain
    bint barred         # the relay has to look at the frame because of a header
    Span[WANTS] values  # start is 0 for a header that the frame lacks


@cython.final
cdef class Facts:
    """Limits, dialect, commands, rules and `Keep` as tables in C. Scanners with equal arguments share one object."""

    cdef Py_ssize_t headers, header_line, longest
    cdef Py_ssize_t bodies      # how many bytes of each body are kept
    cdef bint keeps             # runs are recorded
    cdef int secret_count
    cdef Name[SECRETS] secrets
    cdef uint64_t[256] starts, ends     # for each octet: a bit for the length of each secret's name that starts (ends) with it
    cdef bint strict, padded, crlf, raw_cr, utf8, escapes
    cdef bint[256] letters
    cdef int count
    cdef Command[COMMANDS] commands
    cdef object kept

    def __init__(self, limits, dialect, commands, rules, keep):
        if len(commands) > COMMANDS:
            raise ValueError("more commands than there are")
        self.headers = min(limits.headers, _MOST)
        self.header_line = min(limits.header_line, _MOST)
        self.longest = min(limits.body, _MOST)
        self.strict = dialect.strict
        self.padded = dialect.padded
        self.crlf = dialect.crlf
        self.raw_cr = dialect.raw_cr
        self.utf8 = dialect.utf8
        self.escapes = bool(dialect.reads)
        for byte in dialect.reads | {b"\\"}:
            self.letters[ESCAPES[byte][1]] = True
        # The tables point into these objects.
        self.kept = tuple(commands), rules, keep
        if keep is not None:
            self.keep(keep)
        ruled = {rule.command: rule for rule in rules}
        for command in self.kept[0]:
            self.add(command, ruled.get(command))

    cdef keep(self, keep):
        cdef bytes name
        if len(keep.secrets) > SECRETS:
            raise ValueError("secrets of too many names")
        self.keeps = True
        self.bodies = min(keep.bodies, _MOST)
        self.longest = min(self.longest, 0xffffffff)
        for name in keep.secrets:
            self.secrets[self.secret_count] = Name(<Text>PyBytes_AS_STRING(name), len(name), -1, 0)
            self.secret_count += 1
            for octet in {*name[:1].lower(), *name[:1].upper()}:
                self.starts[octet] |= bit(len(name))
            for octet in {*name[len(name) - 1 :].lower(), *name[len(name) - 1 :].upper()}:
                self.ends[octet] |= bit(len(name))

    cdef add(self, bytes text, rule):
        cdef Command *command = &self.commands[self.count]
        cdef bytes name
        self.count += 1
        command.name = <PyObject *>text
        command.text = <Text>PyBytes_AS_STRING(text)
        command.size = len(text)
        command.body = text in BODIES
        command.shared = text == SEND
        command.lengths = bit(len(CONTENT_LENGTH))
        if rule is None:
            return
        if len(rule.wants) > WANTS or len(rule.unless) + len(rule.wants) > NAMES:
            raise ValueError("a rule of too many names")
        command.rule = <PyObject *>rule
        command.plain = rule.plain
        command.needs = rule.needs
        command.parts = rule.parts
        command.sure = rule.sure
        command.wants = len(rule.wants)
        for want, name in [*enumerate(rule.wants), *((-1, name) for name in rule.unless)]:
            colon = name.find(b":")
            size = len(name) if colon < 0 else colon
            command.names[command.count] = Name(<Text>PyBytes_AS_STRING(name), size, want, max(0, len(name) - size - 1))
            command.count += 1
            command.lengths |= bit(size)


_facts = lru_cache(Facts)


cdef inline uint64_t bit(Py_ssize_t length) noexcept nogil:
    return (<uint64_t>1) << (length if length < 63 else 63)


cdef inline bint veiled(Facts facts, Text text, Py_ssize_t line, Py_ssize_t colon, uint64_t length) noexcept nogil:
    """Whether the value of a header line may have to be left out of the record; `length`: the bit of its name's length.
    Returns True if in doubt.
    """
    cdef unsigned char first = text[line], last = text[colon - 1]
    return (facts.starts[first] & facts.ends[last] & length and secret(facts, text + line, colon - line)) or (
        first <= c" " or last <= c" "
    )


cdef inline unsigned char lower(unsigned char octet) noexcept nogil:
    """Return a letter in lower case, and any other octet unchanged."""
    return octet | 0x20 if c"A" <= octet <= c"Z" else octet


cdef bint alike(Text text, Text name, Py_ssize_t size) noexcept nogil:
    """Whether the two texts of this size are equal if upper and lower case are not distinguished."""
    cdef Py_ssize_t i
    for i in range(size):
        if lower(text[i]) != lower(name[i]):
            return False
    return True


cdef bint secret(Facts facts, Text text, Py_ssize_t size) noexcept nogil:
    """Whether this is the name of a header whose value is a secret, in upper or lower case."""
    cdef int number
    for number in range(facts.secret_count):
        if facts.secrets[number].size == size and alike(text, facts.secrets[number].text, size):
            return True
    return False


cdef bint unsure(
    const Command *command, Text text, Py_ssize_t line, Py_ssize_t colon, const Found *found
) noexcept nogil:
    """Whether a broker may read this line as content-length or as a header of the rule, unlike the scanner: see
    `Rule.sure`.
    """
    cdef Py_ssize_t size = colon - line
    cdef const Name *name
    cdef int number
    if text[line] <= c" " or text[colon - 1] <= c" ":
        return True
    if size == 14 and alike(text + line, <Text><const char *>b"content-length", 14):
        return memcmp(text + line, <const char *>b"content-length", 14) != 0
    for number in range(command.count):
        name = &command.names[number]
        if name.size == size and alike(text + line, name.text, size):
            return name.want < 0 or found.values[name.want].start != colon + 1
    return False


cdef bint look(Facts facts, Text text, Py_ssize_t at, Py_ssize_t size, Found *found) noexcept nogil:
    """Whether the frame at `at` is complete and valid, UTF-8 not checked. `found` gets the places of its parts."""
    # The loop uses local variables because the compiler cannot know that the fields of `facts` stay the same.
    cdef bint strict = facts.strict, padded = facts.padded, keeps = facts.keeps
    cdef Py_ssize_t header_line = facts.header_line, lines = facts.headers
    cdef const Command *command = NULL
    cdef Py_ssize_t line, colon = -1, second = -1, place = at, i
    cdef Span length
    cdef uint64_t marks, lengths, known
    cdef bint crlf, plain = True
    cdef unsigned char octet
    cdef int number
    found.seen = at
    found.need = 0
    for number in range(facts.count):
        command = &facts.commands[number]
        if size - at <= command.size or text[at] != command.text[0]:
            continue
        if memcmp(text + at, command.text, command.size) == 0:
            place = at + command.size
            if text[place] == c"\n" or (text[place] == c"\r" and size - place > 1 and text[place + 1] == c"\n"):
                break
    else:
        return False
    crlf = text[place] == c"\r"
    lengths = command.lengths
    line = found.head = found.body = place + 1 + crlf
    length.start = 0
    found.command = command
    found.barred = False
    for number in range(command.wants):
        found.values[number].start = 0
    place = line
    while found.body == found.head:
        if place >= size:
            return False
        marks = marks_in(text + place, size - place)
        found.seen = place + 64 if size - place > 64 else size
        while marks:
            i = place + first_of(marks)
            marks &= marks - 1
            octet = text[i]
            if octet == c":":
                if colon >= 0:
                    plain = False
                    continue
                if i == line and strict:
                    return False
                colon = i
                if padded and (text[i - 1] == c" " or (i + 1 < size and text[i + 1] == c" ")):
                    plain = False
            elif octet == c"\n":
                if i - line > header_line:
                    return False
                if i == line or (i == line + 1 and text[line] == c"\r"):
                    if i > line and strict and not (crlf or facts.crlf):
                        return False
                    found.body = i + 1
                    break
                lines -= 1
                if lines < 0:
                    return False
                if padded and text[i - 1] == c" ":
                    plain = False
                if colon < 0:
                    if strict:
                        return False
                    plain = False
                else:
                    known = bit(colon - line)
                    if lengths & known and not named(command, text, line, colon, i, &length, found):
                        return False
                    if keeps and veiled(facts, text, line, colon, known):
                        found.barred = True
                    if command.sure and unsure(command, text, line, colon, found):
                        found.barred = True
                line = i + 1
                colon = -1
            elif octet == c"\\":
                plain = False
                if keeps and colon < 0:
                    found.barred = True
                if i != second and strict and facts.escapes:
                    if i + 1 >= size or not facts.letters[text[i + 1]]:
                        return False
                    if text[i + 1] == c"\\":
                        second = i + 1
            elif octet == c"\r":
                plain = False
                if strict and not facts.raw_cr and (i + 1 >= size or text[i + 1] != c"\n"):
                    return False
            else:
                return False
        place += 64
    found.plain = plain
    return bounded(facts, text, at, size, crlf, &length, found)


cdef bint named(
    const Command *command, Text text, Py_ssize_t line, Py_ssize_t colon, Py_ssize_t end, Span *length, Found *found
) noexcept nogil:
    """Record a line of content-length or of a header in the rule. Return False for a second content-length."""
    cdef Py_ssize_t size = colon - line
    cdef const Name *name
    cdef int number
    if size == 14 and memcmp(text + line, <const char *>b"content-length", 14) == 0:
        if length.start:
            return False
        length.start = colon + 1
        length.end = end
    for number in range(command.count):
        name = &command.names[number]
        if name.size == size and name.text[0] == text[line] and memcmp(text + line, name.text, size) == 0:
            if name.want < 0:
                if end - colon > name.begins and memcmp(text + colon + 1, name.text + size + 1, name.begins) == 0:
                    found.barred = True
            elif not found.values[name.want].start:
                found.values[name.want] = Span(colon + 1, end)
    return True


cdef bint bounded(
    Facts facts, Text text, Py_ssize_t at, Py_ssize_t size, bint crlf, Span *length, Found *found
) noexcept nogil:
    """Whether the body is complete and valid: of `content-length` bytes, or up to its NUL. `found` gets its end."""
    cdef Py_ssize_t end = 0, i
    cdef const void *nul
    if length.start:
        i = length.start
        end = length.end
        if end > i and text[end - 1] == c"\r" and (crlf or facts.crlf):
            end -= 1
        if facts.padded:
            while i < end and text[i] == c" ":
                i += 1
            while i < end and text[end - 1] == c" ":
                end -= 1
        if i == end or end - i > DIGITS:
            return False
        length.start = 0
        while i < end:
            if not c"0" <= text[i] <= c"9":
                return False
            length.start = 10 * length.start + text[i] - c"0"
            i += 1
        if length.start > facts.longest:
            return False
        if length.start >= size - found.body:
            if found.command.body:
                found.need = found.body + length.start + 1 - at
            return False
        found.end = found.body + length.start
        if text[found.end] != 0 or (length.start and not found.command.body):
            return False
    elif not found.command.body:
        if found.body >= size or text[found.body] != 0:
            return False
        found.end = found.body
    else:
        i = size - found.body
        if i > facts.longest:
            i = facts.longest + 1
        found.seen = found.body + i
        nul = memchr(text + found.body, 0, i)
        if nul == NULL:
            return False
        found.end = <Text>nul - text
    found.after = found.seen = found.end + 1
    if found.after < size and text[found.after] == c"\n":
        found.after += 1
    return True


cdef bint is_utf8(Text text, Py_ssize_t size) noexcept:
    """Whether `bytes.decode` accepts these bytes as UTF-8."""
    cdef unsigned char high = 0
    cdef Py_ssize_t i
    for i in range(size):
        high |= text[i]
    if high < 0x80:
        return True
    try:
        (<char *>text)[:size].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


cdef bint passes(const Found *found) noexcept nogil:
    """Whether a rule lets the frame pass in a run."""
    cdef const Command *command = found.command
    cdef int number
    if command.rule == NULL or found.barred or (command.plain and not found.plain):
        return False
    if command.needs:
        for number in range(command.wants):
            if not found.values[number].start:
                return False
    return True


# Frames and runs are made here without calling Python code. The descriptors of their classes say at which offset of the
# object each slot is.


cdef struct FrameSlots:
    Py_ssize_t command, data, start, head, body, end, after, plain, memo


cdef struct RunSlots:
    Py_ssize_t rule, data, start, after, count, last, head, values, plain, parts, instead, kept


cdef struct Parts:
    Py_ssize_t head, body, after


cdef struct Gathered:
    Py_ssize_t size
    unsigned char[GATHERED] text


cpdef Py_ssize_t place_of(kind, name) except -1:
    """Return the offset of the slot of this name in objects of this class. Raises `TypeError` if it is no slot."""
    slot = kind.__dict__[name]
    if type(slot) is not MemberDescriptorType:
        raise TypeError(f"{name} is no slot")
    return (<PyMemberDescrObject *>slot).d_member.offset


cdef FrameSlots _FRAME = FrameSlots(
    command=place_of(Frame, "command"), data=place_of(Frame, "data"), start=place_of(Frame, "start"),
    head=place_of(Frame, "head"), body=place_of(Frame, "body"), end=place_of(Frame, "end"),
    after=place_of(Frame, "after"), plain=place_of(Frame, "plain"), memo=place_of(Frame, "memo"),
)
cdef RunSlots _RUN = RunSlots(
    rule=place_of(Run, "rule"), data=place_of(Run, "data"), start=place_of(Run, "start"),
    after=place_of(Run, "after"), count=place_of(Run, "count"), last=place_of(Run, "last"),
    head=place_of(Run, "head"), values=place_of(Run, "values"), plain=place_of(Run, "plain"), parts=place_of(Run, "parts"),
    instead=place_of(Run, "instead"), kept=place_of(Run, "kept"),
)


cdef inline object blank(kind):
    """Return a new object of a class, with no slot set."""
    return PyType_GenericAlloc(<PyTypeObject *>kind, 0)


cdef inline void put(made, Py_ssize_t place, value):
    """Set a slot of an object that `blank` returned; the slot must not be set yet."""
    Py_INCREF(value)
    (<PyObject **>(<char *><PyObject *>made + place))[0] = <PyObject *>value


cdef inline object slot(frame, Py_ssize_t place):
    """Return the object in a slot of a frame or a run, without calling Python code."""
    return <object>(<PyObject **>(<char *><PyObject *>frame + place))[0]


cdef inline int append(bytearray to, Text text, Py_ssize_t size) except -1:
    cdef Py_ssize_t known = PyByteArray_GET_SIZE(to)
    PyByteArray_Resize(to, known + size)
    memcpy(PyByteArray_AS_STRING(to) + known, text, size)
    return 0


cdef inline int gather(Gathered *last, bytearray to, Text text, Py_ssize_t size) except -1:
    """Append with few changes of `to`: the last bytes stay in `last`, which the caller has to append at the end."""
    if size > GATHERED - last.size:
        append(to, last.text, last.size)
        last.size = 0
        if size > GATHERED:
            return append(to, text, size)
    memcpy(last.text + last.size, text, size)
    last.size += size
    return 0


def kept_of(run):
    cdef bytes data = run.data, sizes = run.kept
    cdef Py_ssize_t at = run.start, after = run.after, count = PyBytes_GET_SIZE(sizes) // 12, total = 0, head, i
    cdef Text text = <Text>PyBytes_AS_STRING(data)
    cdef const uint32_t *size = <const uint32_t *>PyBytes_AS_STRING(sizes)
    cdef bytes payload
    cdef char *into
    for i in range(0, 3 * count, 3):
        total += <Py_ssize_t>little(size[i]) + little(size[i + 1])
    payload = PyBytes_FromStringAndSize(NULL, total)
    into = PyBytes_AS_STRING(payload)
    for i in range(0, 3 * count, 3):
        head = little(size[i])
        into = copied(into, <const char *>text + at, head + little(size[i + 1]))
        at += head + little(size[i + 2]) + 1
        at += at < after and text[at] == c"\n"
    return payload


@cython.final
cdef class Scanner:
    """Finds the complete, valid frames of a chunk, and puts those that the rules let pass into runs."""

    cdef Facts facts
    cdef bytes memo
    cdef readonly Py_ssize_t seen, need
    cdef readonly bint trails

    def __init__(self, limits, dialect, commands, rules=(), keep=None):
        self.facts = _facts(limits, dialect, commands, rules, keep)
        self.memo = b""
        self.seen = 0

    def scan(self, bytes data not None, Py_ssize_t at):
        found = self.some(data, at, _MOST, 1)
        return found if type(found) is Run else found[0] if found else None

    def some(self, bytes data not None, Py_ssize_t at, Py_ssize_t most, Py_ssize_t few):
        cdef Found found
        cdef Text text = <Text>PyBytes_AS_STRING(data)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        cdef list made = []
        place = at
        while len(made) < few and 0 <= at < size and self.good(text, at, size, &found):
            if passes(&found):
                return made or self.run(data, text, at, size, most, &found)
            after = found.after
            made.append(self.frame(data, text, at, place, after, &found))
            at, place = found.after, after
        return made

    def offsets(self, data, Py_ssize_t at):
        cdef Found found
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if not self.good(<Text>view.buf, at, view.len, &found):
                return None
        finally:
            PyBuffer_Release(&view)
        return found.head, found.body, found.end, found.after, found.plain

    cdef bint good(self, Text text, Py_ssize_t at, Py_ssize_t size, Found *found) noexcept:
        """Whether a complete, valid frame begins at `at`. `found` gets the places of its parts."""
        cdef bint good = look(self.facts, text, at, size, found)
        self.seen += found.seen - at
        self.need = 0 if good else found.need
        if (good or self.need) and self.facts.utf8:
            if not is_utf8(text + found.head, found.body - found.head):
                good, self.need = False, 0
        if not good:
            self.need = self.need or -1
            return False
        self.trails |= found.after > found.end + 1
        return True

    cdef run(self, bytes data, Text text, Py_ssize_t at, Py_ssize_t size, Py_ssize_t most, Found *found):
        """Return the run that begins with the frame in `found`, of at most `most` frames."""
        cdef const Command *command = found.command
        cdef Py_ssize_t start = at, last = at, head = found.head, after = at, count = 0
        cdef Parts place
        cdef Gathered last_values, last_parts
        cdef bytearray values = bytearray()
        cdef bytearray parts = bytearray() if command.parts else None
        cdef bint plain = True
        cdef Span *span
        cdef int number
        cdef bytearray aside = None
        cdef uint32_t sizes[SIZES]
        cdef int known = 0
        last_values.size = last_parts.size = 0
        while True:
            for number in range(command.wants):
                span = &found.values[number]
                if span.start:
                    gather(&last_values, values, text + span.start, span.end + 1 - span.start)
            if command.parts:
                place = Parts(found.head, found.body, found.after)
                gather(&last_parts, parts, <Text>&place, sizeof(place))
            if self.facts.keeps:
                if known == SIZES:
                    if aside is None:
                        aside = bytearray()
                    append(aside, <Text>sizes, sizeof(sizes))
                    known = 0
                sizes[known] = little(found.body - at)
                sizes[known + 1] = little(min(found.end - found.body, self.facts.bodies))
                sizes[known + 2] = little(found.end - found.body)
                known += 3
            count += 1
            plain = plain and found.plain
            last, head, after = at, found.head, found.after
            at = after
            if count == most or at >= size or not self.good(text, at, size, found):
                break
            if found.command != command or not passes(found):
                break
        append(values, last_values.text, last_values.size)
        if command.parts:
            append(parts, last_parts.text, last_parts.size)
        kept = None
        if aside is not None:
            append(aside, <Text>sizes, 4 * known)
            kept = bytes(aside)
        elif self.facts.keeps:
            kept = PyBytes_FromStringAndSize(<const char *>sizes, 4 * known)
        made = blank(Run)
        put(made, _RUN.rule, <object>command.rule)
        put(made, _RUN.data, data)
        put(made, _RUN.start, start)
        put(made, _RUN.after, after)
        put(made, _RUN.count, count)
        put(made, _RUN.last, last)
        put(made, _RUN.head, head)
        put(made, _RUN.values, bytes(values))
        put(made, _RUN.plain, True if plain else False)
        put(made, _RUN.parts, parts)
        put(made, _RUN.instead, None)
        put(made, _RUN.kept, kept)
        return made

    cdef frame(self, bytes data, Text text, Py_ssize_t at, start, after, const Found *found):
        """Return the frame in `found`. `start` and `after` are given as objects, which neighbouring frames share."""
        cdef Py_ssize_t size = found.body - at
        memo = None
        if found.command.shared:
            if PyBytes_GET_SIZE(self.memo) != size or memcmp(text + at, PyBytes_AS_STRING(self.memo), size) != 0:
                self.memo = PyBytes_FromStringAndSize(<char *>text + at, size)
            memo = self.memo
        made = blank(Frame)
        put(made, _FRAME.command, <object>found.command.name)
        put(made, _FRAME.data, data)
        put(made, _FRAME.start, start)
        put(made, _FRAME.head, found.head)
        put(made, _FRAME.body, found.body)
        put(made, _FRAME.end, found.end)
        put(made, _FRAME.after, after)
        put(made, _FRAME.plain, True if found.plain else False)
        put(made, _FRAME.memo, memo)
        return made


def with_header(bytes data not None, Py_ssize_t start, parts, bytes name not None, list values not None):
    cdef const unsigned char[::1] offsets = parts
    cdef const Parts *part = <const Parts *>&offsets[0]
    cdef Py_ssize_t count = len(values), size = 0, at = start, i
    cdef const char *text = PyBytes_AS_STRING(data)
    cdef bytes value
    cdef char *out
    if offsets.shape[0] != count * <Py_ssize_t>sizeof(Parts):
        raise ValueError("not as many values as frames")
    for i in range(count):
        value = values[i]
        if not 0 <= at <= part[i].head <= part[i].after <= PyBytes_GET_SIZE(data):
            raise ValueError("parts of other data")
        at = part[i].after
        size += PyBytes_GET_SIZE(name) + PyBytes_GET_SIZE(value) + 2
    made = PyBytes_FromStringAndSize(NULL, size + at - start)
    out = PyBytes_AS_STRING(made)
    for i in range(count):
        value = values[i]
        out = copied(out, text + start, part[i].head - start)
        out = copied(out, PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        out = copied(out, b":", 1)
        out = copied(out, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
        out = copied(out, b"\n", 1)
        start = part[i].after
        out = copied(out, text + part[i].head, start - part[i].head)
    return made


cdef inline char *copied(char *out, const char *text, Py_ssize_t size) noexcept nogil:
    memcpy(out, text, size)
    return out + size


@cython.final
cdef class Secrets:
    """Masks secret values in heads, as `capture.Secrets` does, for header names that all versions spell alike."""

    cdef Facts facts
    cdef bytes mask

    def __init__(self, keep, bytes mask not None):
        self.facts = _facts(Limits(), V1_0, frozenset(), (), keep)
        self.mask = mask

    def masked(self, frame not None):
        if type(frame) is not Frame:
            raise TypeError("not a frame")
        cdef bytes data = slot(frame, _FRAME.data)
        cdef Text text = <Text>PyBytes_AS_STRING(data)
        cdef Text colon
        cdef Text end
        cdef Py_ssize_t start = slot(frame, _FRAME.start), body = slot(frame, _FRAME.body)
        cdef Py_ssize_t line = slot(frame, _FRAME.head), first, last
        cdef bytearray made = None
        if not 0 <= start <= line <= body <= PyBytes_GET_SIZE(data):
            raise ValueError("a head of other data")
        while True:
            end = <Text>memchr(text + line, c"\n", body - line)
            if end is NULL:
                break
            colon = <Text>memchr(text + line, c":", end - (text + line))
            if colon is not NULL:
                first, last = line, colon - text
                while first < last and (text[first] == c" " or text[first] == c"\t"):
                    first += 1
                while first < last and (text[last - 1] == c" " or text[last - 1] == c"\t"):
                    last -= 1
                if secret(self.facts, text + first, last - first):
                    if made is None:
                        made = bytearray()
                    append(made, text + start, colon + 1 - (text + start))
                    append(made, <Text>PyBytes_AS_STRING(self.mask), PyBytes_GET_SIZE(self.mask))
                    start = end - text
                    if text + start > colon + 1 and text[start - 1] == c"\r":
                        start -= 1
            line = end + 1 - text
        if made is None:
            return PyBytes_FromStringAndSize(<const char *>text + start, body - start)
        append(made, text + start, body - start)
        return bytes(made)

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `columns.FrameColumns` that writes Arrow's buffers at once.

The contract. `found` reads bytes of one head alone, each at most twice, and says yes only to a head whose command and
headers are what `heads.read` returns, too; no says nothing, and `heads.read` reads the head in its place. What a
backslash means is told by the `Dialect`, which header is for which column by `heads.NAMED`, as data.
tests/pipeline/read/test_columns.py holds the two against each other.
"""

cimport cython

from functools import lru_cache

import pyarrow as pa

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from stomprelay.wire._marks cimport first_of, marks_in

from stomprelay.journal.block import SIZES as _PER_FRAME
from stomprelay.pipeline.read import heads
from stomprelay.pipeline.read.columns import headers_of
from stomprelay.pipeline.spark import arrow
from stomprelay.wire.names import UNESCAPED

ctypedef const unsigned char *Text

cdef enum:
    HEADERS = 32        # of a head that is read here
    NAMED = 6           # columns that hold headers
    KINDS = 16          # of commands that the tables name
    SIZES = 3           # numbers of a frame
    LEAST = 4096        # bytes that a buffer begins with
    COMMAND = 0         # the columns: this, those that hold headers,
    FIRST = 1
    BODY = 7
    NAMES = 8           # and what the maps of headers hold
    VALUES = 9
    COLUMNS = 10

if len(heads.COLUMNS) != NAMED or _PER_FRAME != SIZES:
    raise ImportError("built for other columns")


cdef struct Buffer:
    char *start
    Py_ssize_t size, room


cdef struct Column:
    Buffer data, ends, valid
    Py_ssize_t nulls


cdef struct Word:
    Text text
    Py_ssize_t size     # -1: there is none


cdef struct Kind:
    Word command
    bint plain          # its headers have no escapes
    Word[NAMED] names


cdef struct Header:
    Word name, value
    bint escaped


cdef struct Head:
    Word command
    const Kind *kind
    int count
    Header[HEADERS] headers


cdef Kind[KINDS] _kinds
cdef Kind _usual
cdef int _kind_count = 0
cdef list _words = []   # the tables point into these


cdef inline Word word_of(text) noexcept:
    """What is in bytes, as long as they are kept; or None."""
    return Word(NULL, -1) if text is None else Word(<Text>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef int describe(Kind *kind, command, named) except -1:
    cdef int number
    _words.append((command, named))
    kind.command = word_of(command)
    kind.plain = command in UNESCAPED
    for number in range(NAMED):
        kind.names[number] = word_of(named[number])
    return 0


describe(&_usual, None, heads.USUAL)
for _command in {*heads.NAMED, *UNESCAPED}:
    if _kind_count == KINDS:
        raise ImportError("built for fewer commands")
    describe(&_kinds[_kind_count], _command, heads.NAMED.get(_command, heads.USUAL))
    _kind_count += 1


cdef inline bint same(const Word *one, const Word *other) noexcept nogil:
    return one.size == other.size and memcmp(one.text, other.text, one.size) == 0


cdef inline const Kind *kind_for(const Word *command) noexcept nogil:
    cdef int number
    for number in range(_kind_count):
        if same(&_kinds[number].command, command):
            return &_kinds[number]
    return &_usual


@cython.final
cdef class Facts:
    """What of a dialect matters here."""

    cdef bint padded, escapes
    cdef int[256] letters       # the byte that a backslash and this one stand for; -1: both stand as they are

    def __init__(self, spoken):
        self.padded = spoken.padded
        self.escapes = bool(spoken.reads)
        for octet in range(256):
            meant = spoken.decode(b"", b".\\" + bytes([octet]) + b".")
            self.letters[octet] = meant[1] if len(meant) == 3 else -1


_facts = lru_cache(Facts)


cdef int room(Buffer *to, Py_ssize_t more) except -1:
    """Have room for so many bytes more."""
    cdef Py_ssize_t wanted
    cdef char *start
    if to.room - to.size < more:
        wanted = max(2 * to.room, to.size + more, <Py_ssize_t>LEAST)
        start = <char *>realloc(to.start, wanted)
        if start == NULL:
            raise MemoryError
        to.start = start
        to.room = wanted
    return 0


cdef inline int put(Buffer *to, const void *what, Py_ssize_t size) except -1:
    room(to, size)
    memcpy(to.start + to.size, what, size)
    to.size += size
    return 0


cdef inline int put_end(Buffer *ends, Py_ssize_t end) except -1:
    """Add where a value ends, which Arrow has in 4 bytes."""
    cdef int32_t number = <int32_t>end
    if end > INT32_MAX:
        raise OverflowError("more than 2 GiB in a column")
    return put(ends, &number, sizeof(number))


cdef inline int put_bit(Buffer *bits, Py_ssize_t row, bint value) except -1:
    if row >> 3 >= bits.size:
        room(bits, 1)
        bits.start[bits.size] = 0
        bits.size += 1
    bits.start[row >> 3] |= <char>(value << (row & 7))
    return 0


cdef inline int put_word(Column *to, Py_ssize_t row, Word value) except -1:
    """Add a value to a column with nulls."""
    if value.size >= 0:
        put(&to.data, value.text, value.size)
    else:
        to.nulls += 1
    put_bit(&to.valid, row, value.size >= 0)
    return put_end(&to.ends, to.data.size)


cdef inline int put_name(Column *to, Word name) except -1:
    """Add a value to a column without nulls."""
    put(&to.data, name.text, name.size)
    return put_end(&to.ends, to.data.size)


cdef int put_value(Column *to, const Header *header, Facts facts) except -1:
    """Add the value that a header's stands for to a column without nulls."""
    cdef Text text = header.value.text
    cdef Text end = text + header.value.size
    cdef char *into
    cdef int meant
    if not header.escaped:
        return put_name(to, header.value)
    room(&to.data, header.value.size)
    into = to.data.start + to.data.size
    while text < end:
        meant = facts.letters[text[1]] if text[0] == c"\\" and text + 1 < end else -1
        if meant >= 0:
            into[0] = <char>meant
            text += 2
        elif text[0] == c"\\" and text + 1 < end:
            into[0] = text[0]
            into[1] = text[1]
            into += 1
            text += 2
        else:
            into[0] = text[0]
            text += 1
        into += 1
    to.data.size = into - to.data.start
    return put_end(&to.ends, to.data.size)


cdef bint found(Facts facts, Text text, Py_ssize_t size, Head *head) noexcept nogil:
    """Take a head apart, if there is nothing unusual in it."""
    cdef Py_ssize_t place = 0, i, line = 0, colon = -1
    cdef bint escaped = False, first = True
    cdef uint64_t marks
    cdef unsigned char octet
    cdef Header *header
    cdef int number
    head.count = 0
    if size < 2 or text[size - 1] != c"\n" or text[size - 2] != c"\n":
        return False
    while place < size - 1:
        marks = marks_in(text + place, size - 1 - place)
        while marks:
            i = place + first_of(marks)
            marks &= marks - 1
            octet = text[i]
            if octet == c":":
                if colon < 0:
                    colon = i
            elif octet == c"\n":
                if first:
                    head.command = Word(text, i)
                    first = False
                else:
                    if colon < 0 or head.count == HEADERS:
                        return False
                    header = &head.headers[head.count]
                    header.name = Word(text + line, colon - line)
                    header.value = Word(text + colon + 1, i - colon - 1)
                    header.escaped = escaped
                    for number in range(head.count):
                        if same(&head.headers[number].name, &header.name):
                            return False
                    head.count += 1
                line = i + 1
                colon = -1
                escaped = False
            elif octet == c"\\":
                if first or (colon < 0 and facts.escapes):
                    return False
                escaped = facts.escapes
            elif octet == c"\r":
                return False
        place += 64
    head.kind = kind_for(&head.command)
    for number in range(head.count):
        header = &head.headers[number]
        if head.kind.plain and (header.escaped or facts.padded):
            return False
        if facts.padded:
            while header.value.size and header.value.text[0] == c" ":
                header.value.text += 1
                header.value.size -= 1
            if header.value.size and header.value.text[header.value.size - 1] == c" ":
                return False
    return True


cdef bytes bytes_of(const Buffer *data):
    return PyBytes_FromStringAndSize(data.start, data.size)


cdef class FrameColumns:
    """The twin of `columns.FrameColumns`."""

    cdef Py_ssize_t rows, entries       # entries: of all maps
    cdef Column[COLUMNS] columns
    cdef Buffer ends, sizes, body_sizes

    def __init__(self):
        cdef int number
        for number in range(COLUMNS):
            put_end(&self.columns[number].ends, 0)
        put_end(&self.ends, 0)

    def __dealloc__(self):
        cdef int number
        for number in range(COLUMNS):
            free(self.columns[number].data.start)
            free(self.columns[number].ends.start)
            free(self.columns[number].valid.start)
        free(self.ends.start)
        free(self.sizes.start)
        free(self.body_sizes.start)

    def add(self, bytes payload not None, sizes, spoken):
        cdef tuple numbers = tuple(sizes)
        cdef Facts facts = _facts(spoken)
        cdef Text text = <Text>PyBytes_AS_STRING(payload)
        cdef Py_ssize_t at = 0, left = PyBytes_GET_SIZE(payload), index, size, kept
        cdef int64_t whole, body
        cdef Head head
        for index in range(0, len(numbers), SIZES):
            size, kept, body = numbers[index], numbers[index + 1], numbers[index + 2]
            if not (0 <= size <= left and 0 <= kept <= left - size):
                raise ValueError("sizes of another payload")
            if found(facts, text + at, size, &head):
                self.read(&head, facts)
            else:
                self.judged(payload[at : at + size], spoken)
            put_word(&self.columns[BODY], self.rows, Word(text + at + size, kept if kept else -1))
            whole = size + body + 1
            self.end_row(whole, body)
            at += size + kept
            left -= size + kept

    def blank(self):
        cdef int number
        for number in range(NAMES):
            put_word(&self.columns[number], self.rows, Word(NULL, -1))
        self.end_row(0, 0)

    cdef int end_row(self, int64_t size, int64_t body_size) except -1:
        put(&self.sizes, &size, sizeof(size))
        put(&self.body_sizes, &body_size, sizeof(body_size))
        put_end(&self.ends, self.entries)
        self.rows += 1
        return 0

    cdef int read(self, const Head *head, Facts facts) except -1:
        """Add the command and the headers of a head that was taken apart."""
        cdef Column *values = &self.columns[VALUES]
        cdef Py_ssize_t[HEADERS] starts
        cdef Word value
        cdef int number, column
        put_word(&self.columns[COMMAND], self.rows, head.command)
        for number in range(head.count):
            starts[number] = values.data.size
            put_name(&self.columns[NAMES], head.headers[number].name)
            put_value(values, &head.headers[number], facts)
        for column in range(NAMED):
            value = Word(NULL, -1)
            for number in range(head.count):
                if same(&head.headers[number].name, &head.kind.names[column]):
                    value.text = <Text>values.data.start + starts[number]
                    value.size = (starts[number + 1] if number + 1 < head.count else values.data.size) - starts[number]
            put_word(&self.columns[FIRST + column], self.rows, value)
        self.entries += head.count
        return 0

    cdef judged(self, bytes head, spoken):
        """Add the command and the headers of any head."""
        cdef bytes command, name, value
        cdef dict headers
        cdef int column
        command, headers = heads.read(head, spoken)
        put_word(&self.columns[COMMAND], self.rows, word_of(command))
        for name, value in headers.items():
            put_name(&self.columns[NAMES], word_of(name))
            put_name(&self.columns[VALUES], word_of(value))
        for column, value in enumerate(heads.fields(command, headers), FIRST):
            put_word(&self.columns[column], self.rows, word_of(value))
        self.entries += len(headers)

    def arrays(self):
        command = arrow.text(self.array(COMMAND, self.rows))
        made = {"command": command}
        for number, name in enumerate(heads.COLUMNS, FIRST):
            made[name] = arrow.text(self.array(number, self.rows))
        made["size"] = self.numbers(&self.sizes)
        made["body_size"] = self.numbers(&self.body_sizes)
        made["body"] = self.array(BODY, self.rows)
        ends = pa.Array.from_buffers(pa.int32(), self.rows + 1, [None, pa.py_buffer(bytes_of(&self.ends))])
        made["headers"] = headers_of(command, ends, self.array(NAMES, self.entries), self.array(VALUES, self.entries))
        return made

    cdef valid(self, int number):
        """The bits that say which values of a column are there; None where all are."""
        cdef Column *column = &self.columns[number]
        return pa.py_buffer(bytes_of(&column.valid)) if column.nulls else None

    cdef array(self, int number, Py_ssize_t count):
        cdef Column *column = &self.columns[number]
        buffers = [self.valid(number), pa.py_buffer(bytes_of(&column.ends)), pa.py_buffer(bytes_of(&column.data))]
        return pa.Array.from_buffers(pa.binary(), count, buffers, column.nulls)

    cdef numbers(self, const Buffer *numbers):
        """A column of numbers, which only frames have."""
        buffers = [self.valid(COMMAND), pa.py_buffer(bytes_of(numbers))]
        return pa.Array.from_buffers(pa.int64(), self.rows, buffers, self.columns[COMMAND].nulls)

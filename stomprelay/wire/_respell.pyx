# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Writes frames of a run again: with new headers in front, without some headers, and in another dialect's spelling.

The contract. The tables of `Spelling` say how each byte and each escape of a value is written. Only the bytes that
`_marks` looks for may be written differently. `frames` reads only bytes of the run, each at most five times. It
writes no more bytes than it counted before. It knows no version and checks nothing. If the tables lack a byte or an
escape of a frame, `Bridge` has to write all of the run.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.string cimport memchr, memcmp, memcpy

from stomprelay.wire._marks cimport first_of, marks_in

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *content, Py_ssize_t size) except NULL
    char *text_of "PyBytes_AS_STRING"(PyObject *chunk)
    int _PyBytes_Resize(PyObject **chunk, Py_ssize_t size) except -1
    void drop_reference "Py_DECREF"(PyObject *chunk)

ctypedef const unsigned char *Text

cdef enum:
    NAMES = 16
    GROWTH = 2          # the most bytes that are written for one byte of a value


cdef struct Parts:
    Py_ssize_t head, body, after


cdef struct Piece:
    bint known
    int size
    unsigned char[2 * GROWTH] text


cdef struct Name:
    Text text
    Py_ssize_t size


cdef int fill(Piece[256] pieces, spelled, int read) except -1:
    """Fill a table with the spelling of each byte (`read` is 1), or of a backslash and each byte (`read` is 2)."""
    cdef int octet, i
    for octet in range(256):
        text = spelled[octet]
        pieces[octet].known = text is not None
        if text is None:
            continue
        if len(text) > read * GROWTH:
            raise ValueError("a byte becomes too many")
        pieces[octet].size = len(text)
        for i in range(len(text)):
            pieces[octet].text[i] = text[i]
    return 0


cdef int point(Name[NAMES] names, texts) except -1:
    """Let `names` point at these texts, which must live as long as `names`. Return the number of texts."""
    cdef int count = 0
    if len(texts) > NAMES:
        raise ValueError("too many names")
    for text in texts:
        names[count] = Name(<Text>PyBytes_AS_STRING(text), len(text))
        count += 1
    return count


cdef bint among(const Name[NAMES] names, int count, Text text, Py_ssize_t size) noexcept nogil:
    cdef int i
    for i in range(count):
        if names[i].size == size and memcmp(names[i].text, text, size) == 0:
            return True
    return False


cdef class Speller:
    """Writes frames for another dialect. `octets`: the spelling of each byte of a value. `escapes`: the spelling of a
    backslash followed by each byte; None if a backslash begins no escape. An entry is None if the caller has to look at
    the value. `padded`: blanks in front of a value are not written, nor blanks behind the value of a header `stripped`.
    `alike`: only a CR and a backslash may be written differently.
    """

    cdef Piece[256] octets
    cdef Piece[256] escapes
    cdef bint[256] ordinary
    cdef bint escaped, padded, alike
    cdef int count
    cdef Name[NAMES] stripped
    cdef object kept

    def __init__(self, octets, escapes, padded, stripped):
        cdef int octet
        fill(self.octets, octets, 1)
        self.escaped = escapes is not None
        if self.escaped:
            fill(self.escapes, escapes, 2)
        for octet in range(256):
            self.ordinary[octet] = octets[octet] == bytes([octet]) and not (self.escaped and octet == c"\\")
            if not self.ordinary[octet] and octet not in b":\n\\\r\0":
                raise ValueError("a byte that is not looked for becomes another")
        self.padded = padded
        self.alike = not padded and all(self.ordinary[octet] or octet in b"\r\\" for octet in range(256))
        self.kept = tuple(stripped)
        self.count = point(self.stripped, self.kept)

    def values(self, bytes text not None):
        cdef Py_ssize_t size = PyBytes_GET_SIZE(text)
        cdef Text at = <Text>PyBytes_AS_STRING(text)
        if size and at[size - 1] != c"\n":
            raise ValueError("a value without its LF")
        cdef PyObject *made = new_bytes(NULL, GROWTH * size)
        cdef unsigned char *first = <unsigned char *>text_of(made)
        cdef unsigned char *out = self.lines(first, at, 0, size, True, NULL, 0)
        if out == NULL:
            drop_reference(made)
            return None
        return bytes_up_to(made, out - first)

    def frames(
        self, bytes data not None, Py_ssize_t start, bytearray parts not None, tuple drop not None, tuple names not None,
        bytes values not None,
    ):
        cdef Py_ssize_t count = PyByteArray_GET_SIZE(parts) // <Py_ssize_t>sizeof(Parts), size = 0, at = start, i
        cdef const Parts *part = <const Parts *>PyByteArray_AS_STRING(parts)
        cdef Text text = <Text>PyBytes_AS_STRING(data)
        cdef Name[NAMES] drops, adds
        cdef int dropped = point(drops, drop), added = point(adds, names), number
        cdef Text value = <Text>PyBytes_AS_STRING(values), rest = value + PyBytes_GET_SIZE(values), stop
        cdef Py_ssize_t given = values.count(b"\n"), block = 0
        if count == 0 or given not in (added, count * added) or not (added == 0 or values.endswith(b"\n")):
            raise ValueError("not as many values as headers for the frames")
        cdef bint same = given == added
        size = PyBytes_GET_SIZE(values) * (count if same else 1) + part[count - 1].after - start
        for number in range(added):
            size += count * (adds[number].size + 1)
        for i in range(count):
            size += (GROWTH - 1) * (part[i].body - part[i].head)
        cdef PyObject *made = new_bytes(NULL, size)
        cdef unsigned char *first = <unsigned char *>text_of(made)
        cdef unsigned char *out = first
        cdef Py_ssize_t head = 0, last = start if count == 1 else part[count - 2].after
        for i in range(count):
            out = copied(out, text, at, part[i].head)
            head = out - first
            at = part[i].head
            if i and same:
                out = copied(out, first, part[0].head - start, block)
            else:
                for number in range(added):
                    out = copied(out, adds[number].text, 0, adds[number].size)
                    out[0] = c":"
                    stop = <Text>memchr(value, c"\n", rest - value) + 1
                    out = copied(out + 1, value, 0, stop - value)
                    value = stop
                block = out - first
            size = part[i].body - 1 - at
            if dropped or not self.alike or memchr(text + at - 2, c"\r", size + 2) or memchr(text + at, c"\\", size):
                out = self.lines(out, text, at, at + size, False, drops, dropped) if text[at - 2] != c"\r" else NULL
                if out == NULL:
                    drop_reference(made)
                    return None
                at += size
        out = copied(out, text, at, part[count - 1].after)
        return bytes_up_to(made, out - first), head - (part[count - 1].head - last), head

    cdef unsigned char *lines(
        self, unsigned char *out, Text text, Py_ssize_t at, Py_ssize_t end, bint bare, const Name[NAMES] drop, int dropped
    ) noexcept nogil:
        """Write header lines in the other spelling, or values without names if `bare`, each with its LF. Return the
        end of the written bytes; NULL if the tables lack a byte or an escape of a value, or if a line has no name or
        no colon.
        """
        cdef Py_ssize_t place = at, line = at, colon = at if bare else -1, done = at, i
        cdef const Piece *piece
        cdef bint taken = False
        cdef unsigned char octet
        cdef uint64_t marks
        while place < end:
            marks = marks_in(text + place, end - place)
            while marks:
                i = place + first_of(marks)
                marks &= marks - 1
                octet = text[i]
                if octet == c"\n":
                    if colon < 0:
                        return NULL
                    if taken:
                        out = copied(out, text, done, line)
                        done = i + 1
                    elif self.padded and i > done and text[i - 1] == c" " and (
                        not bare and among(self.stripped, self.count, text + line, colon - line)
                    ):
                        colon = i
                        while colon > done and text[colon - 1] == c" ":
                            colon -= 1
                        out = copied(out, text, done, colon)
                        done = i
                    line = i + 1
                    colon = line if bare else -1
                    taken = False
                elif colon < 0:
                    if octet != c":" or i == line:
                        return NULL
                    colon = i
                    taken = among(drop, dropped, text + line, i - line)
                    if self.padded and not taken and text[i + 1] == c" ":
                        out = copied(out, text, done, i + 1)
                        done = i + 1
                        while text[done] == c" ":
                            done += 1
                elif i >= done and not taken and not self.ordinary[octet]:
                    out = copied(out, text, done, i)
                    piece = &self.octets[octet]
                    done = i + 1
                    if self.escaped and octet == c"\\":
                        piece = &self.escapes[text[done]]
                        if text[done] == c"\n":
                            return NULL
                        done += 1
                    if not piece.known:
                        return NULL
                    for i in range(piece.size):
                        out[i] = piece.text[i]
                    out += piece.size
            place += 64
        return copied(out, text, done, end)


cdef bytes_up_to(PyObject *made, Py_ssize_t size):
    """Return these bytes, cut to this size."""
    _PyBytes_Resize(&made, size)
    written = <bytes>made
    drop_reference(made)    # `written` has its own reference
    return written


cdef inline unsigned char *copied(unsigned char *out, Text text, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    memcpy(out, text + at, end - at)
    return out + (end - at)

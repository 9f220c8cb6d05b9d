# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages of WebSocket as nearly all clients send them, found, unmasked and checked at once; see `messages`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    PyObject *room "PyBytes_FromStringAndSize"(const char *none, Py_ssize_t size) except NULL
    int shrink "_PyBytes_Resize"(PyObject **payload, Py_ssize_t size) except -1

cdef enum:
    WHOLE = 0x80            # no other fragment follows, and no extension is spoken
    TEXT = 1
    BINARY = 2
    MASKED = 0x80
    MASK = 4
    MIDDLE = 126
    LONG = 127

cdef struct Head:
    uint8_t first
    bint masked
    uint64_t size           # of the payload
    Py_ssize_t end          # where the payload begins; 0: the head is not all there


cdef Head head_at(const uint8_t *data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef Head head = Head(0, False, 0, 0)
    cdef Py_ssize_t more, i
    if end - at < 2:
        return head
    head.first = data[at]
    head.masked = data[at + 1] & MASKED != 0
    head.size = data[at + 1] & 0x7F
    more = 2 if head.size == MIDDLE else 8 if head.size == LONG else 0
    if end - at < 2 + more + (MASK if head.masked else 0):
        return head
    if more:
        head.size = 0
        for i in range(more):
            head.size = head.size << 8 | data[at + 2 + i]
    head.end = at + 2 + more + (MASK if head.masked else 0)
    return head


def extent(bytes data, Py_ssize_t at):
    """Return how many bytes the fragment has that begins here, its head among them; 0 where that is not all there."""
    cdef Head head = head_at(<const uint8_t *>PyBytes_AS_STRING(data), at, PyBytes_GET_SIZE(data))
    cdef object size = head.size    # up to 64 bits
    return size + (head.end - at) if head.end else 0


cdef class Messages:
    """What is taken of one client: whole messages in one fragment each, of `most` bytes, which may come in any pieces.

    `first` is the opcode of the first of them, 0 while there is none. `broken` tells that the last is a text that is not
    UTF-8: then nothing more is to be taken.
    """

    cdef readonly int first
    cdef readonly bint broken
    cdef uint64_t most
    cdef uint64_t within        # bytes of the last message that are to come
    cdef uint8_t key[MASK]
    cdef bint text
    cdef int owed               # bytes of a character that are to come
    cdef uint8_t least, last    # bounds of the next one

    def __init__(self, uint64_t most):
        self.most = most

    def take(self, bytes data, Py_ssize_t at):
        """Return the payload from `at` on, unmasked, and where it ends: at the end of the data, or where something begins
        that is for others, or is not UTF-8. Look at `broken` then.
        """
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data), taken = 0, size
        cdef const uint8_t *here = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef PyObject *payload
        cdef bytes found
        cdef uint8_t *into
        cdef Head head = Head(0, False, 0, 0)
        if not self.within and not self.begins(&head, here, at, end):
            return b"", at
        payload = room(NULL, end - at)
        into = <uint8_t *>PyBytes_AS_STRING(<object>payload)
        while self.within or self.begins(&head, here, at, end):
            if head.end > at:
                self.within = head.size
                at = head.end
                memcpy(self.key, here + at - MASK, MASK)
                self.text = head.first & 0xF == TEXT
                if not self.first:
                    self.first = head.first & 0xF
            size = end - at if <uint64_t>(end - at) < self.within else <Py_ssize_t>self.within
            self.unmask(into + taken, here + at, size)
            self.within -= <uint64_t>size
            if self.text and (not self.is_utf8(into + taken, size) or (self.owed and not self.within)):
                self.broken = True
                break
            at += size
            taken += size
            head.end = 0
            if at == end:
                break
        shrink(&payload, taken)
        found = <bytes>payload
        Py_DECREF(found)
        return found, at

    cdef bint begins(self, Head *head, const uint8_t *data, Py_ssize_t at, Py_ssize_t end) noexcept:
        """Whether here begins what is taken."""
        head[0] = head_at(data, at, end)
        return (
            head.end > 0
            and head.masked
            and (head.first == WHOLE | TEXT or head.first == WHOLE | BINARY)
            and 0 < head.size <= self.most
            and (head.size >= MIDDLE or head.end - at == 2 + MASK)
            and (head.size > 0xFFFF or head.end - at <= 4 + MASK)
        )

    cdef void unmask(self, uint8_t *into, const uint8_t *data, Py_ssize_t size) noexcept:
        """Write so much of the payload, and turn the key so that it fits what follows."""
        cdef uint8_t key[8]
        cdef uint64_t word, wide
        cdef Py_ssize_t at = 0, i
        memcpy(key, self.key, MASK)
        memcpy(key + MASK, self.key, MASK)
        memcpy(&wide, key, 8)
        while at + 8 <= size:
            memcpy(&word, data + at, 8)
            word ^= wide
            memcpy(into + at, &word, 8)
            at += 8
        while at < size:
            into[at] = data[at] ^ key[at & 3]
            at += 1
        for i in range(MASK):
            self.key[i] = key[(size + i) & 3]

    cdef bint is_utf8(self, const uint8_t *data, Py_ssize_t size) noexcept:
        """Whether this can go on, or begin, a text (RFC 3629)."""
        cdef uint64_t word
        cdef uint8_t byte
        cdef Py_ssize_t at = 0
        while at < size:
            if not self.owed:
                while at + 8 <= size:
                    memcpy(&word, data + at, 8)
                    if word & <uint64_t>0x8080808080808080:
                        break
                    at += 8
                if at == size:
                    break
            byte = data[at]
            at += 1
            if self.owed:
                if not self.least <= byte <= self.last:
                    return False
                self.owed -= 1
                self.least, self.last = 0x80, 0xBF
            elif byte >= 0x80:
                if not 0xC2 <= byte <= 0xF4:
                    return False
                self.owed = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
                self.least = 0xA0 if byte == 0xE0 else 0x90 if byte == 0xF0 else 0x80
                self.last = 0x9F if byte == 0xED else 0x8F if byte == 0xF4 else 0xBF
        return True

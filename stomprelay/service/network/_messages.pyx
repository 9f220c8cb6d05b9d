# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads a client's WebSocket messages, as long as they are correct: finds, unmasks and checks them at once; see
`websocket`. Also makes the messages that servers send.
"""

from codecs import utf_8_decode

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    PyObject *room "PyBytes_FromStringAndSize"(const char *none, Py_ssize_t size) except NULL
    bytes room_of "PyBytes_FromStringAndSize"(const char *none, Py_ssize_t size)
    int shrink "_PyBytes_Resize"(PyObject **payload, Py_ssize_t size) except -1

cdef enum:
    WHOLE = 0x80            # the last fragment, without bits of extensions
    CONTINUED = 0
    TEXT = 1
    BINARY = 2
    PING = 0x89
    PONG = 0x8A
    MASKED = 0x80
    MASK = 4
    MIDDLE = 126
    LONG = 127

cdef uint64_t _NOT_ASCII = 0x8080808080808080

cdef struct Head:
    uint8_t first
    bint masked
    uint64_t size           # of the payload
    Py_ssize_t end          # where the payload begins; 0: the head is incomplete


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
    """Return the size of the fragment that begins at `at`, including its head; 0 if the head is incomplete."""
    cdef Head head = head_at(<const uint8_t *>PyBytes_AS_STRING(data), at, PyBytes_GET_SIZE(data))
    cdef object size = head.size    # up to 64 bits
    return size + (head.end - at) if head.end else 0


def framed(bytes data not None, bint binary):
    """Return a whole message as servers send it: text if it is UTF-8 and not `binary`."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), more = 0 if size < MIDDLE else 2 if size <= 0xFFFF else 8, i
    cdef bytes message = room_of(NULL, 2 + more + size)
    cdef uint8_t *into = <uint8_t *>PyBytes_AS_STRING(message)
    if not binary:
        try:
            data.decode()
        except UnicodeDecodeError:
            binary = True
    into[0] = WHOLE | (BINARY if binary else TEXT)
    into[1] = <uint8_t>size if not more else MIDDLE if more == 2 else LONG
    for i in range(more):
        into[2 + i] = <uint8_t>(size >> 8 * (more - 1 - i))
    memcpy(into + 2 + more, PyBytes_AS_STRING(data), size)
    return message


cdef class Messages:
    """Reads one client's messages and its pings and pongs. Messages have at most `most` bytes, in one or several
    fragments, which may be received in any pieces. A ping or pong must be received in one piece.

    `first` is the opcode of the first message, 0 before it. `open`: a message is incomplete. `broken`: the last message
    is a text that is not UTF-8. `large`: the last message would have too many bytes. Then do not call `take` again.
    """

    cdef readonly int first
    cdef readonly bint open
    cdef readonly bint broken
    cdef readonly bint large
    cdef bytes ping
    cdef uint64_t most
    cdef uint64_t size          # of the message's fragments so far
    cdef uint64_t within        # bytes of the last fragment that are still missing
    cdef uint8_t key[MASK]
    cdef bint texts             # whether the message is text
    cdef bytes begun            # of a text: the bytes of an incomplete character at its end

    def __init__(self, uint64_t most):
        self.most = most
        self.begun = b""

    def pinged(self):
        """Return the payload of the last ping since the last call, or None."""
        ping, self.ping = self.ping, None
        return ping

    def take(self, bytes data, Py_ssize_t at, bint controls):
        """Return the unmasked payload from `at` on, and the position where reading stopped: the end of the data, or the
        first frame that is wrong or not read here. Check `broken` and `large` next. Pings and pongs are read only with
        `controls`.
        """
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data), taken = 0, size
        cdef const uint8_t *here = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef PyObject *payload
        cdef bytes found
        cdef bint ascii
        cdef uint8_t *into
        cdef Head head
        payload = room(NULL, end - at)
        into = <uint8_t *>PyBytes_AS_STRING(<object>payload)
        while at < end:
            if not self.within:
                head = head_at(here, at, end)
                if self.begins(&head, at):
                    at = head.end
                    memcpy(self.key, here + at - MASK, MASK)
                elif controls and self.controls(&head, here, end):
                    at = head.end + <Py_ssize_t>head.size
                    continue
                else:
                    break
            size = end - at if <uint64_t>(end - at) < self.within else <Py_ssize_t>self.within
            ascii = self.unmask(into + taken, here + at, size)
            self.within -= <uint64_t>size
            if self.texts and (self.begun or not ascii) and not self.is_text((<const char *>into + taken)[:size]):
                self.broken = True
                break
            at += size
            taken += size
        shrink(&payload, taken)
        found = <bytes>payload
        Py_DECREF(found)
        return found, at

    cdef bint begins(self, const Head *head, Py_ssize_t at) noexcept:
        """Begin the fragment with this head. Return False if such a fragment is not read here."""
        cdef int opcode = head.first & 0xF
        if not (
            head.end > 0
            and head.masked
            and head.first & ~(WHOLE | 0xF) == 0
            and (opcode == CONTINUED if self.open else opcode == TEXT or opcode == BINARY)
            and (head.size >= MIDDLE or head.end - at == 2 + MASK)
            and (head.size > 0xFFFF or head.end - at <= 4 + MASK)
            and not head.size >> 63
        ):
            return False
        if head.size > self.most - (self.size if self.open else 0):
            self.large = True
            return False
        if not self.open:
            self.size = 0
            self.texts = opcode == TEXT
            if not self.first:
                self.first = opcode
        self.size += head.size
        self.within = head.size
        self.open = not head.first & WHOLE
        return True

    cdef bint controls(self, const Head *head, const uint8_t *data, Py_ssize_t end):
        """Return whether this is the head of a ping or pong that is complete. Store the payload of a ping."""
        cdef uint8_t said[MIDDLE]
        if not (
            head.end > 0
            and head.masked
            and (head.first == PING or head.first == PONG)
            and head.size < MIDDLE
            and head.size <= <uint64_t>(end - head.end)
        ):
            return False
        if head.first == PING:
            memcpy(self.key, data + head.end - MASK, MASK)
            self.unmask(said, data + head.end, <Py_ssize_t>head.size)
            self.ping = (<const char *>said)[: head.size]
        return True

    cdef bint is_text(self, bytes part):
        """Return whether a text is UTF-8 up to the end of this part. A complete message must end with a whole
        character.
        """
        cdef bytes text = self.begun + part
        try:
            self.begun = text[utf_8_decode(text, None, not self.within and not self.open)[1]:]
        except UnicodeDecodeError:
            return False
        return True

    cdef bint unmask(self, uint8_t *into, const uint8_t *data, Py_ssize_t size) noexcept:
        """Write `size` unmasked bytes, and rotate the key for the bytes that follow. Return whether they are ASCII."""
        cdef uint8_t key[8]
        cdef uint64_t word, wide, high = 0
        cdef Py_ssize_t at = 0, i
        memcpy(key, self.key, MASK)
        memcpy(key + MASK, self.key, MASK)
        memcpy(&wide, key, 8)
        while at + 8 <= size:
            memcpy(&word, data + at, 8)
            word ^= wide
            high |= word
            memcpy(into + at, &word, 8)
            at += 8
        while at < size:
            into[at] = data[at] ^ key[at & 3]
            high |= into[at]
            at += 1
        for i in range(MASK):
            self.key[i] = key[(size + i) & 3]
        return not high & _NOT_ASCII

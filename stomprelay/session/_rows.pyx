# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Keeps rows of values under names; `_rows.pyi` says what each call does.

New rows are copied behind the old ones. A table finds a row by the hash of its name. The hash is Python's own, which no
peer can foresee, so each row costs a constant time, in whatever order rows are named. Most rows are named in the order
in which they came; so the row after the last named one is tried first, and this needs no hash. The room of removed rows
is used again when they fill more room than the rows that are left. tests/session/test_rows.py compares this module with
a model.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy

cdef extern from "Python.h":
    ctypedef struct PyHash_FuncDef:
        Py_hash_t (*hash)(const void *text, Py_ssize_t size) noexcept nogil
    const PyHash_FuncDef *PyHash_GetFuncDef()

ctypedef const char *Text

cdef Py_hash_t (*hash_of)(const void *text, Py_ssize_t size) noexcept nogil
hash_of = PyHash_GetFuncDef().hash

cdef enum:
    FEW = 16


cdef struct Row:
    Py_ssize_t at       # where the row begins in the text
    Py_ssize_t size     # 0: the row was removed
    Py_ssize_t name     # where its name begins in the text
    Py_ssize_t length   # of the name
    Py_hash_t hash
    Py_ssize_t before   # the earlier row that is removed with this row; -1: none
    bint covers         # whether the row is removed with a later row of the same first value
    Py_ssize_t mark     # in `values`: the last call that found the row; in `resize`: its new index


cdef inline Text past(Text at, Text end, int count) noexcept nogil:
    """Return the place behind `count` LFs; NULL if there are fewer."""
    while count and at != NULL:
        at = <Text>memchr(at, c"\n", end - at)
        if at != NULL:
            at += 1
        count -= 1
    return at


def ids(bytes rows not None, int width):
    cdef Text at = PyBytes_AS_STRING(rows), end = at + PyBytes_GET_SIZE(rows), last = at, stop
    cdef Py_ssize_t size = -1
    cdef set found = set()
    while at < end:
        stop = past(at, end, 1)
        if stop == NULL:
            raise ValueError("a value without its LF")
        if stop - at != size or memcmp(at, last, size):
            last = at
            size = stop - at
            found.add(PyBytes_FromStringAndSize(at, size - 1))
        at = past(stop, end, width - 1)
        if at == NULL:
            raise ValueError("not as many values as rows have")
    return found


cdef class Rows:
    cdef readonly Py_ssize_t size
    cdef int _width, _first, _stop
    cdef Row *_rows
    cdef char *_text
    cdef uint32_t *_table       # numbers of the kept rows, from 1 on, by hash; 0: no row
    cdef Py_ssize_t _count      # of rows, including removed ones
    cdef Py_ssize_t _room       # how many rows have room; the table has twice as many places
    cdef Py_ssize_t _end, _capacity     # of the text
    cdef Py_ssize_t _kept       # how many rows were not removed
    cdef Py_ssize_t _covering   # how many of these have `covers`
    cdef Py_ssize_t _next       # the row that is tried first for the next name
    cdef Py_ssize_t _call
    cdef dict _last             # for each covered first value: the last row with this value

    def __cinit__(self, int width, int first, int stop):
        if not 0 <= first < stop <= width:
            raise ValueError("a name is a part of its row")
        self._width = width
        self._first = first
        self._stop = stop
        self._last = {}

    def __dealloc__(self):
        self.release()

    def __len__(self):
        return self._kept

    def add(self, bytes text not None, set covered not None):
        cdef Text at = PyBytes_AS_STRING(text), end = at + PyBytes_GET_SIZE(text), stop = at
        cdef Py_ssize_t first = self._count, count = 0, i
        cdef Row *row
        while stop < end:
            stop = past(stop, end, self._width)
            if stop == NULL:
                raise ValueError("not as many values as rows have")
            count += 1
        if self._count + count > self._room or self._end + (end - at) > self._capacity:
            self.resize(count, end - at)
            first = self._count
        memcpy(self._text + self._end, at, end - at)
        at = self._text + self._end
        end = at + PyBytes_GET_SIZE(text)
        for i in range(first, first + count):
            row = &self._rows[i]
            row.at = at - self._text
            stop = past(at, end, self._first)
            row.name = stop - self._text
            stop = past(stop, end, self._stop - self._first)
            row.length = stop - self._text - row.name
            row.hash = hash_of(self._text + row.name, row.length)
            stop = past(stop, end, self._width - self._stop)
            row.size = stop - at
            row.before = -1
            row.covers = False
            row.mark = 0
            at = stop
            if self.found(self._text + row.name, row.length, row.hash) >= 0:
                while i > first:
                    i -= 1
                    self.unlink(i)
                return False
            self.link(i)
        self._count += count
        self._kept += count
        self._end += PyBytes_GET_SIZE(text)
        self.size += PyBytes_GET_SIZE(text)
        if covered:
            self.chain(first, covered)
        return True

    cdef int chain(self, Py_ssize_t first, set covered) except -1:
        """Record, for each row from `first` on, the earlier row that is removed with it, if any."""
        cdef Py_ssize_t i, size = -1, last = -1
        cdef Text id, before = NULL
        cdef bint covers = False
        key = None
        for i in range(first, self._count):
            id = self._text + self._rows[i].at
            if self._rows[i].size < size or size < 0 or memcmp(id, before, size):
                if covers:
                    self._last[key] = last
                before = id
                size = past(id, self._text + self._end, 1) - id
                key = PyBytes_FromStringAndSize(id, size - 1)
                covers = key in covered
                last = self._last.get(key, -1)
            if covers:
                self._rows[i].covers = True
                self._rows[i].before = last
                self._covering += 1
                last = i
        if covers:
            self._last[key] = last
        return 0

    def values(self, bytes names not None, int first, int stop):
        cdef Text at = PyBytes_AS_STRING(names), end = at + PyBytes_GET_SIZE(names), behind
        cdef Py_ssize_t i, last = -1, next = self._next
        cdef bytearray made = bytearray()
        cdef Row *row
        if stop > self._width:
            return None
        self._call += 1
        while at < end:
            behind = self.behind(at, end)
            i = self.named(at, behind - at, next)
            if i < 0 or (i <= last if self._covering else self._rows[i].mark == self._call):
                return None
            row = &self._rows[i]
            row.mark = self._call
            last = i
            next = i + 1
            at = past(self._text + row.at, self._text + row.at + row.size, first)
            append(made, at, past(at, self._text + row.at + row.size, stop - first) - at)
            at = behind
        return bytes(made)

    def remove(self, bytes names not None):
        cdef Text at = PyBytes_AS_STRING(names), end = at + PyBytes_GET_SIZE(names), behind, id = NULL
        cdef Py_ssize_t i, size = 0
        cdef bint found = True
        cdef set covered = set()
        cdef Row *row
        while at < end:
            behind = self.behind(at, end)
            i = self.named(at, behind - at, self._next)
            at = behind
            if i < 0:
                found = False
                continue
            self._next = i + 1
            row = &self._rows[i]
            if row.covers and (row.size < size or not size or memcmp(self._text + row.at, id, size)):
                id = self._text + row.at
                size = past(id, self._text + self._end, 1) - id
                covered.add(PyBytes_FromStringAndSize(id, size - 1))
            while i >= 0 and self._rows[i].size:
                self.drop(i)
                i = self._rows[i].before
        if not self._kept:
            self.release()
        return found, covered

    def take(self):
        cdef bytearray made = bytearray()
        cdef Py_ssize_t i
        for i in range(self._count):
            append(made, self._text + self._rows[i].at, self._rows[i].size)
        self.release()
        return bytes(made)

    cdef Text behind(self, Text at, Text end) except NULL:
        """Return the place behind the name that begins at `at`."""
        at = past(at, end, self._stop - self._first)
        if at == NULL:
            raise ValueError("not as many values as names have")
        return at

    cdef Py_ssize_t named(self, Text name, Py_ssize_t length, Py_ssize_t first) noexcept:
        """Return the row with this name; -1 if there is none. The row `first` is tried first."""
        cdef Row *row = &self._rows[first]
        if first < self._count and row.size and row.length == length:
            if memcmp(self._text + row.name, name, length) == 0:
                return first
        return self.found(name, length, hash_of(name, length))

    cdef Py_ssize_t found(self, Text name, Py_ssize_t length, Py_hash_t hash) noexcept:
        cdef Py_ssize_t mask = 2 * self._room - 1, place = hash & mask
        cdef Row *row
        while self._room and self._table[place]:
            row = &self._rows[self._table[place] - 1]
            if row.hash == hash and row.length == length and memcmp(self._text + row.name, name, length) == 0:
                return self._table[place] - 1
            place = (place + 1) & mask
        return -1

    cdef void link(self, Py_ssize_t i) noexcept:
        """Put a row into the table."""
        cdef Py_ssize_t mask = 2 * self._room - 1, place = self._rows[i].hash & mask
        while self._table[place]:
            place = (place + 1) & mask
        self._table[place] = i + 1

    cdef void unlink(self, Py_ssize_t i) noexcept:
        """Remove a row from the table, and close the gap."""
        cdef Py_ssize_t mask = 2 * self._room - 1, gap = self._rows[i].hash & mask, place, home
        while self._table[gap] != i + 1:
            gap = (gap + 1) & mask
        place = gap
        while True:
            place = (place + 1) & mask
            if not self._table[place]:
                break
            home = self._rows[self._table[place] - 1].hash & mask
            if (place - home) & mask >= (place - gap) & mask:
                self._table[gap] = self._table[place]
                gap = place
        self._table[gap] = 0

    cdef void drop(self, Py_ssize_t i) noexcept:
        self.unlink(i)
        self.size -= self._rows[i].size
        self._rows[i].size = 0
        self._kept -= 1
        self._covering -= self._rows[i].covers

    cdef int resize(self, Py_ssize_t count, Py_ssize_t size) except -1:
        """Make room for twice the needed rows: the kept ones, and `count` more of `size` bytes. Drop removed rows."""
        cdef Py_ssize_t room = FEW, capacity = 2 * (self.size + size), known = self._count, end = 0, i, kept = 0
        while room < 2 * (self._kept + count):
            room *= 2
        cdef Row *old = self._rows
        cdef Row *rows = <Row *>malloc(room * sizeof(Row))
        cdef char *text = <char *>malloc(capacity)
        cdef uint32_t *table = <uint32_t *>calloc(2 * room, sizeof(uint32_t))
        cdef Row *row
        if rows == NULL or text == NULL or table == NULL or room > <Py_ssize_t>1 << 31:
            free(rows)
            free(text)
            free(table)
            raise MemoryError
        free(self._table)
        self._rows, self._table, self._room = rows, table, room
        for i in range(known):
            if not old[i].size:
                continue
            row = &rows[kept]
            row[0] = old[i]
            memcpy(text + end, self._text + row.at, row.size)
            row.name += end - row.at
            row.at = end
            end += row.size
            row.before = old[row.before].mark if row.before >= 0 and old[row.before].size else -1
            old[i].mark = kept
            row.mark = 0
            self.link(kept)
            kept += 1
        self._last = {id: old[<Py_ssize_t>i].mark for id, i in self._last.items() if old[<Py_ssize_t>i].size}
        free(old)
        free(self._text)
        self._text, self._end, self._capacity = text, end, capacity
        self._count, self._next = kept, 0
        return 0

    cdef void release(self):
        """Forget all rows and free the memory, because most sessions are idle."""
        free(self._rows)
        free(self._text)
        free(self._table)
        self._rows, self._text, self._table = NULL, NULL, NULL
        self._room = self._capacity = self._count = self._end = self._next = self._kept = self._covering = 0
        self.size = 0
        self._last = {}


cdef inline int append(bytearray to, Text text, Py_ssize_t size) except -1:
    cdef Py_ssize_t known = PyByteArray_GET_SIZE(to)
    PyByteArray_Resize(to, known + size)
    memcpy(PyByteArray_AS_STRING(to) + known, text, size)
    return 0

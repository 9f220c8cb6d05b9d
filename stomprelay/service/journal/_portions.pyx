# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `portions.Portions`. It makes each block when it is put in; `stomprelay.journal.block` has the format."""

from collections import deque
from time import time_ns
from zlib import crc32
import mmap as maps
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from stomprelay.journal.block import MAGIC, BlockKind
from stomprelay.service.journal.portions import EncodedBlocks
from stomprelay.wire._scan import place_of
from stomprelay.wire.run import Run

cdef extern from *:
    """
    #include <time.h>

    /* Return the same as `time.time_ns`. */
    static int64_t now(void)
    {
        struct timespec at;
        clock_gettime(CLOCK_REALTIME, &at);
        return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
    }

    /* Load memory that will be written soon into the processor's cache: other memory takes long to write and sum up. */
    static inline void soon(const uint8_t *at)
    {
        for (int i = 0; i < 512; i += 64)
            __builtin_prefetch(at + i, 1);
    }
    """
    int64_t now() noexcept nogil
    void soon(const uint8_t *at) noexcept nogil

cdef enum:
    OUTER = 12          # bytes before the part that has a checksum
    OVERHEAD = 36       # bytes before the context
    FRAME = 12          # bytes of a frame's sizes
    PART = 5120         # for so many bytes `crc32` keeps the interpreter's lock: to take it again takes longer
    SPARE = 8           # portions kept for reuse: the system takes long to clear new memory

cdef object _HUGE = getattr(maps, "MADV_HUGEPAGE", None)
cdef Py_ssize_t _DATA = place_of(Run, "data"), _START = place_of(Run, "start"), _AFTER = place_of(Run, "after")
cdef Py_ssize_t _KEPT = place_of(Run, "kept")
cdef bytes _MAGIC = MAGIC
cdef int _FRAMES = BlockKind.FRAMES


cdef inline object slot(run, Py_ssize_t place):
    """Return the value in a slot of a run or a frame, without a call in Python. The slot must have a value."""
    return <object>(<PyObject **>(<char *><PyObject *>run + place))[0]


cdef inline uint8_t *number_at(uint8_t *at, uint64_t number, int size) noexcept:
    """Write a number in `size` bytes, the lowest first. Return the place behind it."""
    cdef int i
    for i in range(size):
        at[i] = <uint8_t>(number >> 8 * i)
    return at + size


cdef inline uint32_t number_of(const uint8_t *at) noexcept:
    """Return the number in 4 bytes, the lowest first."""
    return at[0] | at[1] << 8 | at[2] << 16 | <uint32_t>at[3] << 24


cdef inline uint8_t *copied(uint8_t *into, bytes data) noexcept:
    memcpy(into, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return into + PyBytes_GET_SIZE(data)


cdef inline Py_ssize_t size_kept(bytes sizes) noexcept:
    """Return how many bytes are kept of frames with these sizes, see `Run.kept`."""
    cdef const uint8_t *size = <const uint8_t *>PyBytes_AS_STRING(sizes)
    cdef const uint8_t *end = size + PyBytes_GET_SIZE(sizes)
    cdef Py_ssize_t total = 0
    while size < end:
        total += <Py_ssize_t>number_of(size) + number_of(size + 4)
        size += FRAME
    return total


cdef inline const uint8_t *copy_kept(
    uint8_t **into, bytes data, Py_ssize_t at, Py_ssize_t after, const uint8_t *size
) noexcept:
    """Copy the kept bytes of the frames from `at` up to `after`, which have these sizes. Return the place of the next
    sizes.
    """
    cdef const uint8_t *text = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t head, kept
    while at < after:
        head = number_of(size)
        kept = head + number_of(size + 4)
        memcpy(into[0], text + at, kept)
        into[0] += kept
        at += head + number_of(size + 8) + 1
        at += at < after and text[at] == c"\n"
        size += FRAME
    return size


cdef seal(uint8_t *block, Py_ssize_t size):
    """Complete a block of this size, whose content was written."""
    cdef uint8_t *at = block + OUTER
    cdef uint8_t *end = block + size
    cdef Py_ssize_t part
    check = 0
    while at < end:
        part = min(end - at, PART)
        check = crc32(PyMemoryView_FromMemory(<char *>at, part, PyBUF_READ), check)
        at += part
    copied(block, _MAGIC)
    number_at(block + 4, size - OUTER, 4)
    number_at(block + 8, check, 4)


cdef class Portions:
    """The twin of `portions.Portions`."""

    cdef public Py_ssize_t limit
    cdef public Py_ssize_t mark
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t _most, _taken
    cdef object _clock          # None: the system's clock, which is read without Python
    cdef object _reached, _refused
    cdef object _whole          # all portions but the last one, as tuples
    cdef list _spare
    cdef object _memory         # of the last portion; None without a portion
    cdef uint8_t *_start        # where this memory begins
    cdef Py_ssize_t _room, _used, _blocks, _frames
    cdef object _lent           # the memory of the portion that `take` returned

    def __init__(self, most, clock, reached, refused):
        self._most = most
        self._clock = None if clock is time_ns else clock
        self._reached = reached
        self._refused = refused
        self._whole = deque()
        self._spare = []

    def put(self, bytes context not None, uint64_t number, bytes sizes not None, bytes payload not None,
            int kind=_FRAMES):
        self.block_of(context, number, sizes, payload, kind)

    cdef block_of(self, bytes context, uint64_t number, bytes sizes, bytes payload, int kind):
        cdef Py_ssize_t sized = PyBytes_GET_SIZE(sizes)
        cdef uint8_t *block = self.room(context, number, sized, PyBytes_GET_SIZE(payload), kind)
        if block is not NULL:
            copied(copied(block + OVERHEAD + PyBytes_GET_SIZE(context), sizes), payload)
            self.added(block, sized // FRAME)

    def record(self, recorder):
        cdef list frames = recorder.frames
        cdef bytes context = recorder.context, sizes
        cdef uint64_t number
        cdef uint8_t *block
        cdef uint8_t *at
        cdef const uint8_t *size
        if not frames:
            return
        for run in frames:
            if type(run) is not Run:
                number, sizes, payload = recorder.take()
                self.block_of(context, number, sizes, payload, _FRAMES)
                return
        # The same as `LegRecorder.take` does with runs, but heads are copied to their final place.
        sizes = slot(frames[0], _KEPT) if len(frames) == 1 else b"".join([slot(run, _KEPT) for run in frames])
        number = recorder.number
        recorder.number = number + <uint64_t>(PyBytes_GET_SIZE(sizes) // FRAME)
        block = self.room(context, number, PyBytes_GET_SIZE(sizes), size_kept(sizes), _FRAMES)
        if block is not NULL:
            at = copied(block + OVERHEAD + PyBytes_GET_SIZE(context), sizes)
            size = <const uint8_t *>PyBytes_AS_STRING(sizes)
            for run in frames:
                size = copy_kept(&at, slot(run, _DATA), slot(run, _START), slot(run, _AFTER), size)
        frames.clear()      # before `added`, which may call code that records again
        if block is not NULL:
            self.added(block, PyBytes_GET_SIZE(sizes) // FRAME)

    cdef uint8_t *room(self, bytes context, uint64_t number, Py_ssize_t sized, Py_ssize_t size, int kind) except? NULL:
        """Begin a block with `sized` bytes of sizes and `size` bytes of payload. Return its place, NULL if it is
        refused. The caller copies sizes and payload behind the context, then calls `added`.
        """
        cdef Py_ssize_t named = PyBytes_GET_SIZE(context), frames = sized // FRAME
        cdef Py_ssize_t need = OVERHEAD + named + sized + size
        cdef int64_t time
        cdef uint8_t *block
        cdef uint8_t *at
        if self.size >= self.limit:
            self._refused(frames, need)
            return NULL
        if named > 0xffff or need - OUTER > 0xffffffff:
            raise ValueError("more than a block can hold")
        time = now() if self._clock is None else self._clock()
        if self._memory is None or need > self._room - self._used:
            self.begin(need)
        block = self._start + self._used
        at = number_at(block + OUTER, <uint64_t>time, 8)
        at = number_at(at, number, 8)
        at = number_at(at, kind, 2)
        at = number_at(at, named, 2)
        at = number_at(at, frames, 4)
        copied(at, context)
        number_at(block + 4, need - OUTER, 4)
        return block

    cdef added(self, uint8_t *block, Py_ssize_t frames):
        """Complete and count the block, whose content was written."""
        cdef Py_ssize_t size = OUTER + number_of(block + 4)
        seal(block, size)
        self._used += size
        soon(block + size)
        self._blocks += 1
        self._frames += frames
        self.size += size
        if self.size >= self.mark:
            self._reached()

    cdef begin(self, Py_ssize_t need):
        """Begin a portion that has room for `need` bytes."""
        cdef Py_buffer view
        if self._used:
            self._whole.append((self._memory, self._used, self._blocks, self._frames))
            self._used = 0
        if self._spare and need <= self._most:
            self._memory = self._spare.pop()
        else:
            self._memory = mmap(-1, max(need, self._most), MAP_PRIVATE | MAP_ANONYMOUS)
            if _HUGE is not None:
                self._memory.madvise(_HUGE)     # fewer, larger pages are cheaper to write
        PyObject_GetBuffer(self._memory, &view, PyBUF_WRITABLE)
        self._start = <uint8_t *>view.buf
        PyBuffer_Release(&view)     # only this object closes the memory
        self._room = max(need, self._most)
        self._used = self._blocks = self._frames = 0

    def take(self, bint whole=False):
        if self._whole:
            self._lent, self._taken, blocks, frames = self._whole.popleft()
        elif self._used and not whole:
            self._lent, self._taken, blocks, frames = self._memory, self._used, self._blocks, self._frames
            self._memory = None
            self._used = 0
        else:
            return None
        return EncodedBlocks(memoryview(self._lent)[: self._taken], blocks, frames)

    def done(self):
        self.size -= self._taken
        self._taken = 0
        if self._lent is not None and len(self._lent) == self._most and len(self._spare) < SPARE:
            self._spare.append(self._lent)
        self._lent = None

# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The twin of `portions.Portions` that makes blocks as they come; see `stomprelay.journal.block` for what they are."""

from collections import deque
from time import time_ns
import mmap as maps
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from stomprelay.journal import disk
from stomprelay.journal.alike import EXPANDED
from stomprelay.journal.block import MAGIC, BlockKind
from stomprelay.service.journal.portions import Batch
from stomprelay.wire._scan import place_of
from stomprelay.wire.frame import Frame
from stomprelay.wire.run import Run

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>
    #include <time.h>
    #if defined(__x86_64__) && (__GNUC__ >= 9 || defined(__clang__))
    #include <immintrin.h>
    #define FOLDS 1
    #elif defined(__SSE2__)
    #include <emmintrin.h>
    #endif

    /* CRC-32 as zlib has it, of any bytes. `tables[i][b]`: what a byte b comes to with i zeros behind it. */
    static uint32_t tables[8][256];
    /* x to some powers modulo the polynomial, by which 128 bits are moved on over so many bits. */
    static uint64_t over_2048[2], over_512[2], over_128[2];

    /* One bit after the other: the rests that powers of x leave, mirrored and moved as carry-less products want them. */
    static void powers(uint64_t *over, int bits)
    {
        for (int i = 0; i < 2; i++) {
            uint32_t rest = 0x80000000u;
            for (int n = bits + (i ? -32 : 32); n; n--)
                rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
            over[i] = (uint64_t)rest << 1;
        }
    }

    static void prepare(void)
    {
        for (int b = 0; b < 256; b++) {
            uint32_t rest = (uint32_t)b;
            for (int i = 0; i < 8; i++)
                rest = rest >> 1 ^ (rest & 1 ? 0xedb88320u : 0);
            tables[0][b] = rest;
        }
        for (int i = 1; i < 8; i++)
            for (int b = 0; b < 256; b++)
                tables[i][b] = tables[i - 1][b] >> 8 ^ tables[0][tables[i - 1][b] & 255];
        powers(over_2048, 2048);
        powers(over_512, 512);
        powers(over_128, 128);
    }

    static uint32_t by_tables(const uint8_t *at, size_t size, uint32_t rest)
    {
        for (; size >= 8; size -= 8, at += 8)
            rest = tables[7][(at[0] ^ rest) & 255] ^ tables[6][(at[1] ^ rest >> 8) & 255]
                ^ tables[5][(at[2] ^ rest >> 16) & 255] ^ tables[4][(at[3] ^ rest >> 24) & 255]
                ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^ tables[0][at[7]];
        for (; size; size--, at++)
            rest = rest >> 8 ^ tables[0][(*at ^ rest) & 255];
        return rest;
    }

    #ifdef FOLDS
    #define FOLD(sum, by, more) _mm_xor_si128(_mm_xor_si128( \\
        _mm_clmulepi64_si128(sum, by, 0x00), _mm_clmulepi64_si128(sum, by, 0x11)), more)
    #define LOAD(place) _mm_loadu_si128((const __m128i *)(at) + (place))
    #define BY(over) _mm_loadu_si128((const __m128i *)(over))
    #define FOLD_4(sum, by, more) _mm512_xor_si512(_mm512_xor_si512( \\
        _mm512_clmulepi64_epi128(sum, by, 0x00), _mm512_clmulepi64_epi128(sum, by, 0x11)), more)
    #define LOAD_4(place) _mm512_loadu_si512((const __m512i *)(at) + (place))

    /* 256 bytes or more, by carry-less products, 64 at a time: the 64 bytes that stand for whole 256 of them. */
    __attribute__((target("avx512f,vpclmulqdq")))
    static void by_wide_products(const uint8_t *at, size_t size, uint32_t rest, uint8_t *stand_for)
    {
        __m512i far = _mm512_broadcast_i32x4(BY(over_2048)), near = _mm512_broadcast_i32x4(BY(over_512));
        __m512i a = _mm512_xor_si512(LOAD_4(0), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)rest)));
        __m512i b = LOAD_4(1), c = LOAD_4(2), d = LOAD_4(3);
        for (at += 256, size -= 256; size >= 256; at += 256, size -= 256) {
            a = FOLD_4(a, far, LOAD_4(0));
            b = FOLD_4(b, far, LOAD_4(1));
            c = FOLD_4(c, far, LOAD_4(2));
            d = FOLD_4(d, far, LOAD_4(3));
        }
        _mm512_storeu_si512(stand_for, FOLD_4(FOLD_4(FOLD_4(a, near, b), near, c), near, d));
    }

    /* 64 bytes or more: 16 bytes stand for all before them, four times side by side. */
    __attribute__((target("pclmul,sse4.1")))
    static uint32_t by_products(const uint8_t *at, size_t size, uint32_t rest)
    {
        __m128i far = BY(over_512), near = BY(over_128), a, b, c, d;
        uint8_t stand_for[64], last[16];
        const uint8_t *first = at;
        if (size >= 1024 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) {
            by_wide_products(at, size, rest, stand_for);
            first = stand_for;
            rest = 0;
            at += size / 256 * 256 - 64;
            size = size % 256 + 64;
        }
        a = _mm_xor_si128(BY(first), _mm_cvtsi32_si128((int)rest));
        b = BY(first + 16);
        c = BY(first + 32);
        d = BY(first + 48);
        for (at += 64, size -= 64; size >= 64; at += 64, size -= 64) {
            a = FOLD(a, far, LOAD(0));
            b = FOLD(b, far, LOAD(1));
            c = FOLD(c, far, LOAD(2));
            d = FOLD(d, far, LOAD(3));
        }
        a = FOLD(FOLD(FOLD(a, near, b), near, c), near, d);
        for (; size >= 16; at += 16, size -= 16)
            a = FOLD(a, near, LOAD(0));
        _mm_storeu_si128((__m128i *)last, a);
        return by_tables(at, size, by_tables(last, 16, 0));
    }
    #endif

    static uint32_t checksum(const uint8_t *at, size_t size)
    {
    #ifdef FOLDS
        if (size >= 64 && __builtin_cpu_supports("pclmul"))
            return ~by_products(at, size, ~0u);
    #endif
        return ~by_tables(at, size, ~0u);
    }

    /* What `time.time_ns` returns. */
    static int64_t now(void)
    {
        struct timespec at;
        clock_gettime(CLOCK_REALTIME, &at);
        return at.tv_sec * INT64_C(1000000000) + at.tv_nsec;
    }

    /* A number of so many bytes, the lowest first. */
    static inline uint8_t *number_at(uint8_t *at, uint64_t number, int size)
    {
        for (int i = 0; i < size; i++)
            at[i] = (uint8_t)(number >> 8 * i);
        return at + size;
    }

    /* Have memory that will be written soon in the processor's cache: to write, and then sum up, what is not takes long. */
    static inline void soon(const uint8_t *at)
    {
        for (int i = 0; i < 512; i += 64)
            __builtin_prefetch(at + i, 1);
    }

    /* One of 4 bytes. */
    static inline uint32_t number_of(const uint8_t *at)
    {
        return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
    }

    /* Heads of a group, see `stomprelay.journal.alike`: the first one, and the ends of lines that it does not share. */
    enum { LINES = 64, CUTS = 16, GROUP = 12, LONGEST = 0xffff, TIGHT = 0xffff, COPY = 2048, AHEAD = 3 };
    typedef struct {
        const uint8_t *at;
        size_t whole, rest;     /* of its size so many bytes by 16, and those behind them */
    } Shared;
    typedef struct {
        const uint8_t *first;
        size_t size;
        int cuts;
        size_t begin[CUTS], end[CUTS];
        Shared shared[CUTS + 1];    /* before each cut, and behind the last */
        size_t loose[LINES];    /* where in a line heads were found to differ, TIGHT: nowhere yet */
    } Likeness;

    /* 16 bytes, wherever they stand: two of them compared, and where in them the first LF is. */
    #ifdef __SSE2__
    typedef __m128i Sixteen;
    #define SIXTEEN(at) _mm_loadu_si128((const __m128i *)(at))
    #define NONE _mm_setzero_si128()
    #define DIFFER(one, other) _mm_xor_si128(one, other)
    #define BOTH(one, other) _mm_and_si128(one, other)
    #define EITHER(one, other) _mm_or_si128(one, other)

    static inline int nothing(Sixteen in)
    {
        return _mm_movemask_epi8(_mm_cmpeq_epi8(in, NONE)) == 0xffff;
    }

    static inline size_t first_lf(Sixteen in)
    {
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(in, _mm_set1_epi8('\\n')));
        return found ? (size_t)__builtin_ctz(found) : 16;
    }
    #else
    typedef struct { uint64_t low, high; } Sixteen;
    #define NONE (Sixteen){0, 0}
    #define DIFFER(one, other) (Sixteen){(one).low ^ (other).low, (one).high ^ (other).high}
    #define BOTH(one, other) (Sixteen){(one).low & (other).low, (one).high & (other).high}
    #define EITHER(one, other) (Sixteen){(one).low | (other).low, (one).high | (other).high}

    static inline Sixteen sixteen(const uint8_t *at)
    {
        Sixteen in;
        memcpy(&in, at, 16);
        return in;
    }
    #define SIXTEEN(at) sixteen(at)

    static inline int nothing(Sixteen in)
    {
        return !(in.low | in.high);
    }

    static inline size_t first_lf(Sixteen in)
    {
        const uint8_t *bytes = (const uint8_t *)&in;
        size_t i = 0;
        while (i < 16 && bytes[i] != '\\n')
            i++;
        return i;
    }
    #endif

    /* How many bytes there are up to the next LF, `size` where there is none. */
    static inline size_t line_of(const uint8_t *at, size_t size)
    {
        const uint8_t *end = memchr(at, '\\n', size);
        return end ? (size_t)(end - at) : size;
    }

    /* How many bytes behind a head, and behind what is written of it, `own` may read and write. */
    static inline size_t beyond(const Likeness *of)
    {
        return 16 * (size_t)(of->cuts + 1);
    }

    /* Write what of a head is its own, and return the place behind that; NULL where it differs elsewhere, or there is no
       room up to `full`. Up to `end` may be read: at least as much as the first head has, and `beyond`. */
    static uint8_t *own(
        const Likeness *of, const uint8_t *at, size_t size, const uint8_t *end, uint8_t *into, const uint8_t *full)
    {
        static const uint8_t few[32] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
        const uint8_t *stop = at + size;
        Sixteen differ = NONE;
        size_t more = of->size + beyond(of), own;
        if ((size_t)(full - into) < beyond(of))
            return NULL;
        for (const Shared *piece = of->shared, *last = piece + of->cuts;; piece++) {
            for (size_t i = 0; i < piece->whole; i += 16)
                differ = EITHER(differ, DIFFER(SIXTEEN(at + i), SIXTEEN(piece->at + i)));
            at += piece->whole;
            differ = EITHER(
                differ, BOTH(DIFFER(SIXTEEN(at), SIXTEEN(piece->at + piece->whole)), SIXTEEN(few + 16 - piece->rest)));
            at += piece->rest;
            if (piece == last)
                return at == stop && nothing(differ) ? into : NULL;
            own = first_lf(SIXTEEN(at));
            memcpy(into, at, 16);   /* in one go; what is too much is written over */
            if (own == 16) {
                if (stop - at <= 16)
                    return NULL;
                own += line_of(at + 16, (size_t)(stop - at) - 16);
                if ((size_t)(end - at) < own + more || (size_t)(full - into) < own + beyond(of))
                    return NULL;
                memcpy(into, at, own + 1);
            }
            into += own + 1;
            at += own;
        }
    }

    /* The same of the last heads of a chunk, behind which less than that may be read: of a copy. */
    static uint8_t *own_of_last(
        const Likeness *of, const uint8_t *at, size_t size, const uint8_t *end, uint8_t *into, const uint8_t *full)
    {
        uint8_t copy[COPY];
        if (size > COPY || of->size + beyond(of) > COPY || (size_t)(end - of->first) < of->size + 16)
            return NULL;
        memcpy(copy, at, size);
        memset(copy + size, 0, COPY - size);
        return own(of, copy, size, copy + COPY, into, full);
    }

    static int is_of_word(uint8_t octet)
    {
        return (octet >= '0' && octet <= '9') || ((octet | 0x20) >= 'a' && (octet | 0x20) <= 'z');
    }

    /* Note where the lines of two heads differ: from the word or number on in which they begin to. */
    static void loosen(Likeness *of, const uint8_t *one, size_t size, const uint8_t *other, size_t others)
    {
        for (int line = 0; line < LINES && size && others; line++) {
            size_t a = line_of(one, size), b = line_of(other, others), i = 0;
            while (i < a && i < b && one[i] == other[i])
                i++;
            if (i < a || i < b) {
                while (i && is_of_word(one[i - 1]))
                    i--;
                if (i < of->loose[line])
                    of->loose[line] = i;
            }
            a += a < size;
            b += b < others;
            one += a;
            size -= a;
            other += b;
            others -= b;
        }
    }

    /* Have a group begin with this head: write it, and return the place behind it; NULL where there is no room. */
    static uint8_t *group(Likeness *of, const uint8_t *at, size_t size, uint8_t *into, const uint8_t *full)
    {
        size_t place = 0;
        of->first = at;
        of->size = size;
        of->cuts = 0;
        for (int line = 0; line < LINES && place < size && of->cuts < CUTS; line++) {
            size_t length = line_of(at + place, size - place);
            if (of->loose[line] != TIGHT && place + length < size) {
                of->begin[of->cuts] = place + (of->loose[line] < length ? of->loose[line] : length);
                of->end[of->cuts++] = place + length;
            }
            place += length + 1;
        }
        if (size > LONGEST || (size_t)(full - into) < GROUP + 4 * (size_t)of->cuts + size)
            return NULL;
        for (int i = 0; i <= of->cuts; i++) {
            size_t from = i ? of->end[i - 1] : 0, to = i < of->cuts ? of->begin[i] : size;
            of->shared[i] = (Shared){at + from, (to - from) / 16 * 16, (to - from) % 16};
        }
        into = number_at(number_at(into + 8, size, 2), (uint64_t)of->cuts, 2);
        for (int i = 0; i < of->cuts; i++)
            into = number_at(number_at(into, of->begin[i], 2), of->end[i], 2);
        memcpy(into, at, size);
        return into + size;
    }

    /* Where the frame behind this one, whose sizes these are, begins. The LF is not waited for: it is guessed. */
    static inline const uint8_t *next_of(const uint8_t *at, const uint8_t *after, const uint8_t *size)
    {
        at += (size_t)number_of(size) + number_of(size + 8) + 1;
        if (at < after && __builtin_expect(*at == '\\n', 1)) {
            __asm__ volatile ("");
            at++;
        }
        return at;
    }

    /* Write the heads from `at` up to `after`, whose sizes these are, as groups; return the place behind them, or NULL
       where it does not pay: they are too unlike, or there is no room for so much up to `full`. */
    static uint8_t *groups(
        const uint8_t *at, const uint8_t *after, const uint8_t *end, const uint8_t *size, uint8_t *into,
        const uint8_t *full)
    {
        Likeness of;
        uint8_t *begun = NULL, *values = NULL, *told;
        uint32_t count = 0, frames = 0, all = 0;
        size_t head, next;
        const uint8_t *behind, *ahead = at, *its = size;
        for (int line = 0; line < LINES; line++)
            of.loose[line] = TIGHT;
        for (; at < after; at = behind, size += 12, frames++) {
            head = number_of(size);
            behind = next_of(at, after, size);
            /* Heads some frames ahead, which are about as long, are fetched meanwhile. */
            for (; ahead < after && its <= size + 12 * AHEAD; its += 12) {
                ahead = next_of(ahead, after, its);
                for (size_t i = 0; i < head; i += 64)
                    __builtin_prefetch(ahead + i);
            }
            told = !begun ? NULL
                : (size_t)(end - at) >= of.size + beyond(&of) ? own(&of, at, head, end, into, full)
                : own_of_last(&of, at, head, end, into, full);
            if (told) {
                into = told;
                count++;
                continue;
            }
            if (begun) {
                number_at(number_at(begun, count, 4), (uint64_t)(into - values), 4);
                loosen(&of, of.first, of.size, at, head);
            }
            if (behind < after) {
                next = number_of(size + 12);
                loosen(&of, at, head, behind, next);
            }
            if (all++ > 4 + frames / 16)
                return NULL;
            begun = into;
            count = 1;
            values = into = group(&of, at, head, into, full);
            if (!into)
                return NULL;
        }
        number_at(number_at(begun, count, 4), (uint64_t)(into - values), 4);
        return into;
    }
    """
    uint8_t *groups(
        const uint8_t *at, const uint8_t *after, const uint8_t *end, const uint8_t *size, uint8_t *into,
        const uint8_t *full
    ) noexcept nogil
    uint32_t number_of(const uint8_t *at) noexcept nogil
    void soon(const uint8_t *at) noexcept nogil
    void prepare() noexcept nogil
    uint32_t checksum_of "checksum"(const uint8_t *at, size_t size) noexcept nogil
    int64_t now() noexcept nogil
    uint8_t *number_at(uint8_t *at, uint64_t number, int size) noexcept nogil

prepare()

cdef enum:
    OUTER = 12          # bytes up to those that the checksum is of
    OVERHEAD = 36       # and up to the context
    FRAME = 12          # bytes of a frame's sizes
    SIZE = 4            # and of that of its body alone
    FEW = 8             # frames for which it is not worth while to look for what they share
    SPARE = 8           # portions kept to be filled again: to have the system clear memory takes long

cdef Py_ssize_t _PAGE = disk.PAGE, _LARGE = disk.LARGE
cdef object _HUGE = getattr(maps, "MADV_HUGEPAGE", None)
cdef Py_ssize_t _DATA = place_of(Run, "data"), _START = place_of(Run, "start"), _AFTER = place_of(Run, "after")
cdef Py_ssize_t _KEPT = place_of(Run, "kept"), _COUNT = place_of(Run, "count")
cdef Py_ssize_t _MEMO = place_of(Frame, "memo"), _TEXT = place_of(Frame, "data"), _BEGIN = place_of(Frame, "start")
cdef Py_ssize_t _BODY = place_of(Frame, "body"), _END = place_of(Frame, "end")
cdef bytes _MAGIC = MAGIC
cdef int _FRAMES = BlockKind.FRAMES, _ALIKE = BlockKind.ALIKE
cdef Py_ssize_t _EXPANDED = EXPANDED


def checksum(bytes data not None):
    """CRC-32 of this; for tests."""
    return checksum_of(<const uint8_t *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline object slot(run, Py_ssize_t place):
    """What is in a slot of a run or a frame, without a call of Python; whoever made it has filled it."""
    return <object>(<PyObject **>(<char *><PyObject *>run + place))[0]


cdef inline uint8_t *copied(uint8_t *into, bytes data) noexcept:
    memcpy(into, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return into + PyBytes_GET_SIZE(data)


cdef inline Py_ssize_t size_kept(bytes sizes) noexcept:
    """How many bytes are kept of the frames of a run that has these sizes, see `Run.kept`."""
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
    """Copy that of the frames from `at` up to `after`, whose sizes these are; return where those behind them are."""
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


cdef bint alike(uint8_t *block, Py_ssize_t named, list runs, bytes sizes):
    """Give a block that has room for these runs what is their own only, and the length that it has then; False where that
    does not pay.
    """
    cdef const uint8_t *size = <const uint8_t *>PyBytes_AS_STRING(sizes)
    cdef Py_ssize_t frames = PyBytes_GET_SIZE(sizes) // FRAME, start, after, i
    cdef uint8_t *at = block + OVERHEAD + named
    cdef const uint8_t *full = block + OUTER + number_of(block + 4)
    cdef const uint8_t *text
    cdef bytes data
    if frames < FEW or full - at > _EXPANDED:
        return False
    for i in range(frames):
        if number_of(size + FRAME * i + 4):
            return False
        at = copied_number(at, size + FRAME * i + 8)
    for run in runs:
        data, start, after = slot(run, _DATA), slot(run, _START), slot(run, _AFTER)
        text = <const uint8_t *>PyBytes_AS_STRING(data)
        at = groups(text + start, text + after, text + PyBytes_GET_SIZE(data), size, at, full)
        if at is NULL:
            return False
        size += FRAME * <Py_ssize_t>slot(run, _COUNT)
    block[28] = _ALIKE
    number_at(block + 4, at - block - OUTER, 4)
    return True


cdef inline uint8_t *copied_number(uint8_t *into, const uint8_t *number) noexcept:
    memcpy(into, number, SIZE)
    return into + SIZE


cdef inline void seal(uint8_t *block, Py_ssize_t size) noexcept:
    """Complete a block of this size whose content is there."""
    copied(block, _MAGIC)
    number_at(block + 4, size - OUTER, 4)
    number_at(block + 8, checksum_of(block + OUTER, size - OUTER), 4)


cdef class Portions:
    """The twin of `portions.Portions`."""

    cdef public Py_ssize_t limit
    cdef public Py_ssize_t mark
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t _most, _taken
    cdef object _clock          # None: the system's, which is read without Python
    cdef object _reached, _refused
    cdef object _whole          # portions behind which there are others, as tuples
    cdef list _spare
    cdef bint _even             # the file will end with a page
    cdef object _memory         # of the last portion, None: there is none; it begins with a page
    cdef uint8_t *_start        # of that
    cdef Py_ssize_t _room, _used, _last, _blocks, _frames
    cdef object _lent           # the memory of what was taken

    def __init__(self, most, clock, reached, refused):
        self._most = most
        self._clock = None if clock is time_ns else clock
        self._reached = reached
        self._refused = refused
        self._whole = deque()
        self._spare = []
        self._even = True

    def put(self, bytes context not None, uint64_t number, bytes sizes not None, bytes payload not None,
            int kind=_FRAMES):
        self.block_of(context, number, sizes, payload, kind)

    cdef block_of(self, bytes context, uint64_t number, bytes sizes, bytes payload, int kind):
        cdef Py_ssize_t sized = PyBytes_GET_SIZE(sizes)
        cdef uint8_t *block = self.room(context, number, sized, PyBytes_GET_SIZE(payload), kind)
        if block is not NULL:
            copied(copied(block + OVERHEAD + PyBytes_GET_SIZE(context), sizes), payload)
            self.added(block, sized // FRAME)

    cdef lone(self, bytes context, uint64_t number, frame):
        """A block of a frame whose head is recorded as it is, see `LegRecorder.bare`."""
        cdef Py_ssize_t body = slot(frame, _BODY), start = slot(frame, _BEGIN), size
        cdef bytes head = slot(frame, _MEMO) or slot(frame, _TEXT)
        cdef uint8_t *block
        cdef uint8_t *at
        if slot(frame, _MEMO):
            start, size = 0, PyBytes_GET_SIZE(head)
        else:
            size = body - start
        block = self.room(context, number, FRAME, size, _FRAMES)
        if block is not NULL:
            at = number_at(block + OVERHEAD + PyBytes_GET_SIZE(context), size, 4)
            at = number_at(number_at(at, 0, 4), <Py_ssize_t>slot(frame, _END) - body, 4)
            memcpy(at, PyBytes_AS_STRING(head) + start, size)
            self.added(block, 1)

    def record(self, recorder):
        cdef list frames = recorder.frames
        cdef bytes context = recorder.context, sizes
        cdef uint64_t number
        cdef uint8_t *block
        cdef uint8_t *at
        cdef const uint8_t *size
        for run in frames:
            if type(run) is Run:
                continue
            number = recorder.number
            if number and len(frames) == 1 and type(run) is Frame and recorder.bare:
                recorder.number = number + 1
                frames.clear()
                self.lone(context, number, run)
            else:
                number, sizes, payload = recorder.take()
                self.block_of(context, number, sizes, payload, _FRAMES)
            return
        if not frames:
            return
        # What `LegRecorder.take` does with runs; but heads are copied to where they stay.
        sizes = slot(frames[0], _KEPT) if len(frames) == 1 else b"".join([slot(run, _KEPT) for run in frames])
        number = recorder.number
        recorder.number = number + <uint64_t>(PyBytes_GET_SIZE(sizes) // FRAME)
        block = self.room(context, number, PyBytes_GET_SIZE(sizes), size_kept(sizes), _FRAMES)
        if block is not NULL and not alike(block, PyBytes_GET_SIZE(context), frames, sizes):
            at = copied(block + OVERHEAD + PyBytes_GET_SIZE(context), sizes)
            size = <const uint8_t *>PyBytes_AS_STRING(sizes)
            for run in frames:
                size = copy_kept(&at, slot(run, _DATA), slot(run, _START), slot(run, _AFTER), size)
        frames.clear()      # first: who is told below may ask for what is left
        if block is not NULL:
            self.added(block, PyBytes_GET_SIZE(sizes) // FRAME)

    cdef uint8_t *room(self, bytes context, uint64_t number, Py_ssize_t sized, Py_ssize_t size, int kind) except? NULL:
        """Begin a block with sizes of so many bytes, and a payload of so many: return where it is, for these to be
        copied behind its context and for `added` then; NULL where it is refused.
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
        """Complete the block whose content is there."""
        cdef Py_ssize_t size = OUTER + number_of(block + 4)
        seal(block, size)
        self._last = self._used
        self._used += size
        soon(block + size)
        self._blocks += 1
        self._frames += frames
        self.size += size
        if self.size >= self.mark:
            self._reached()

    cdef begin(self, Py_ssize_t need):
        """Begin a portion that has room for so much."""
        cdef Py_buffer view
        if self._used:
            self._whole.append((self._memory, self._used, self._last, self._blocks, self._frames))
            self._used = 0
        if self._spare and need <= self._most:
            self._memory = self._spare.pop()
        else:
            self._memory = mmap(-1, max(need, self._most) + _PAGE, MAP_PRIVATE | MAP_ANONYMOUS)
            if _HUGE is not None:
                self._memory.madvise(_HUGE)     # of fewer pages it is cheaper to write
        PyObject_GetBuffer(self._memory, &view, PyBUF_WRITABLE)
        self._start = <uint8_t *>view.buf
        PyBuffer_Release(&view)     # nobody but us closes it
        # What is to make the file end with a page is not written past the cache itself: one that is small will do.
        self._room = max(need, self._most if self._even else min(self._most, 2 * _LARGE))
        self._even = True
        self._used = self._blocks = self._frames = 0

    def take(self, Py_ssize_t end=0, bint whole=False):
        cdef Py_ssize_t last
        if self._whole:
            self._lent, self._taken, last, blocks, frames = self._whole.popleft()
        elif self._used and not whole:
            self._lent, self._taken, last, blocks, frames = (
                self._memory, self._used, self._last, self._blocks, self._frames
            )
            self._memory = None
            self._used = 0
        else:
            return None
        if self._taken >= _LARGE:
            self.widen(last, _PAGE - 1 - (end + self._taken - 1) % _PAGE)
        self._even = (end + self._taken) % _PAGE == 0
        return Batch(memoryview(self._lent)[: self._taken], blocks, frames)

    cdef widen(self, Py_ssize_t last, Py_ssize_t by):
        """Make the last block of what was taken so much longer, by spaces behind its context."""
        cdef Py_buffer view
        cdef uint8_t *block
        cdef Py_ssize_t named, content
        PyObject_GetBuffer(self._lent, &view, PyBUF_WRITABLE)
        block = <uint8_t *>view.buf + last
        PyBuffer_Release(&view)
        named = block[30] | block[31] << 8
        content = OVERHEAD + named
        if by == 0 or named == 0 or named + by > 0xffff:
            return
        memmove(block + content + by, block + content, self._taken - last - content)
        memset(block + content, c" ", by)
        number_at(block + 30, named + by, 2)
        self._taken += by
        self.size += by
        seal(block, self._taken - last)

    def done(self):
        self.size -= self._taken
        self._taken = 0
        if self._lent is not None and len(self._lent) == self._most + _PAGE and len(self._spare) < SPARE:
            self._spare.append(self._lent)
        self._lent = None

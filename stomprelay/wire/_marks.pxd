"""Finds the bytes that have a meaning in a head, 64 bytes at a time."""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif

    /* Returns one bit for each of 64 bytes: it is set if the byte is one of : LF \\ CR NUL. */
    static inline uint64_t marks_of(const unsigned char *at)
    {
        uint64_t marks = 0;
    #ifdef __SSE2__
        for (int part = 0; part < 4; part++) {
            __m128i some = _mm_loadu_si128((const __m128i *)at + part);
            __m128i found = _mm_cmpeq_epi8(some, _mm_set1_epi8(':'));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(some, _mm_set1_epi8('\\n')));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(some, _mm_set1_epi8('\\\\')));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(some, _mm_set1_epi8('\\r')));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(some, _mm_setzero_si128()));
            marks |= (uint64_t)_mm_movemask_epi8(found) << 16 * part;
        }
    #else
        for (int i = 0; i < 64; i++)
            marks |= (uint64_t)(at[i] == ':' || at[i] == '\\n' || at[i] == '\\\\' || at[i] == '\\r' || !at[i]) << i;
    #endif
        return marks;
    }

    /* Returns the same as marks_of, also for fewer than 64 bytes. */
    static inline uint64_t marks_in(const unsigned char *at, Py_ssize_t left)
    {
        unsigned char some[64];
        if (left >= 64)
            return marks_of(at);
        memset(some, ' ', sizeof some);
        memcpy(some, at, left);
        return marks_of(some);
    }
    """
    uint64_t marks_in(const unsigned char *at, Py_ssize_t left) noexcept nogil
    int first_of "__builtin_ctzll"(uint64_t marks) noexcept nogil

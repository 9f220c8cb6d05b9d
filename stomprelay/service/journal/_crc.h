/* CRC-32 as zlib has it: by carry-less products where the processor has them. Part of _portions.pyx. */

#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__) && (__GNUC__ >= 9 || defined(__clang__))
#include <immintrin.h>
#define FOLDS 1
#endif

/* Of any bytes. `tables[i][b]`: what a byte b comes to with i zeros behind it. */
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
#define FOLD(sum, by, more) _mm_xor_si128(_mm_xor_si128( \
    _mm_clmulepi64_si128(sum, by, 0x00), _mm_clmulepi64_si128(sum, by, 0x11)), more)
#define LOAD(place) _mm_loadu_si128((const __m128i *)(at) + (place))
#define BY(over) _mm_loadu_si128((const __m128i *)(over))
#define FOLD_4(sum, by, more) _mm512_xor_si512(_mm512_xor_si512( \
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

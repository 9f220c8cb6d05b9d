/* Heads that are alike, written as groups, as `stomprelay.journal.alike` has them. Part of _portions.pyx. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#define SIXTEEN(at) _mm_loadu_si128((const __m128i *)(at))
#endif

/* A number of so many bytes, the lowest first. */
static inline uint8_t *number_at(uint8_t *at, uint64_t number, int size)
{
    for (int i = 0; i < size; i++)
        at[i] = (uint8_t)(number >> 8 * i);
    return at + size;
}

/* One of 4 bytes. */
static inline uint32_t number_of(const uint8_t *at)
{
    return at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Heads of a group, see `stomprelay.journal.alike`: the first one, and the ends of lines that it does not share. */
enum { LINES = 64, CUTS = 16, GROUP = 12, LONGEST = 0xffff, TIGHT = 0xffff, COPY = 2048, FRAME = 12 };
typedef struct {
    const uint8_t *at;
    size_t whole, rest;     /* of its size so many bytes by 16, and those behind them */
    uint32_t mask;          /* a bit for each of the rest */
} Shared;
typedef struct {
    const uint8_t *first;
    size_t size;
    int cuts;
    size_t begin[CUTS], end[CUTS];
    Shared shared[CUTS + 1];    /* before each cut, and behind the last */
    size_t loose[LINES];    /* where in a line heads were found to differ, TIGHT: nowhere yet */
} Likeness;

/* Heads from `at` up to `after`, the sizes of whose frames stand from `size` on; up to `end` may be read. */
typedef struct {
    const uint8_t *at, *after, *end, *size;
} Heads;

/* Of 16 bytes a bit for each in which two places differ, and for each that is an LF. */
#ifdef __SSE2__
static inline uint32_t differences(const uint8_t *one, const uint8_t *other)
{
    return 0xffff ^ (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(SIXTEEN(one), SIXTEEN(other)));
}

static inline uint32_t ends_in(const uint8_t *at)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(SIXTEEN(at), _mm_set1_epi8('\n')));
}
#else
static inline uint32_t differences(const uint8_t *one, const uint8_t *other)
{
    uint32_t differ = 0;
    if (memcmp(one, other, 16) == 0)
        return 0;
    for (int i = 0; i < 16; i++)
        differ |= (uint32_t)(one[i] != other[i]) << i;
    return differ;
}

static inline uint32_t ends_in(const uint8_t *at)
{
    uint32_t ends = 0;
    for (int i = 0; i < 16; i++)
        ends |= (uint32_t)(at[i] == '\n') << i;
    return ends;
}
#endif

/* How many bytes there are up to the next LF, `size` where there is none. */
static inline size_t line_of(const uint8_t *at, size_t size)
{
    const uint8_t *end = memchr(at, '\n', size);
    return end ? (size_t)(end - at) : size;
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
        size_t rest = (to - from) % 16;
        of->shared[i] = (Shared){at + from, to - from - rest, rest, (UINT32_C(1) << rest) - 1};
    }
    into = number_at(number_at(into + 8, size, 2), (uint32_t)of->cuts, 2);
    for (int i = 0; i < of->cuts; i++)
        into = number_at(number_at(into, of->begin[i], 2), of->end[i], 2);
    memcpy(into, at, size);
    return into + size;
}

/* Where the frame behind this one, whose sizes these are, begins. The LF is not waited for: it is guessed. */
static inline const uint8_t *next_of(const uint8_t *at, const uint8_t *after, const uint8_t *size)
{
    at += (size_t)number_of(size) + number_of(size + 8) + 1;
    if (at < after && __builtin_expect(*at == '\n', 1)) {
        __asm__ volatile ("");
        at++;
    }
    return at;
}

/* How many bytes behind a head, and behind what is written of it, `values` may read and write. */
static inline size_t beyond(const Likeness *of)
{
    return 16 * (size_t)(of->cuts + 1);
}

/* Write of the next heads what is their own, and return the place behind that; `heads` go on with the first that differs
   elsewhere, for which there is no room up to `full`, or behind which less may be read than is read at most. */
static inline uint8_t *values(const Likeness *of, Heads *heads, uint8_t *into, const uint8_t *full)
{
    const uint8_t *after = heads->after, *end = heads->end, *from = heads->at, *at, *stop, *behind;
    const Shared *last = of->shared + of->cuts;
    size_t first = of->size, room = beyond(of), more = first + room, own;
    uint32_t differ, ends;
    uint8_t *to;
    while (from < after && (size_t)(end - from) >= more && (size_t)(full - into) >= room) {
        at = from;
        to = into;
        differ = 0;
        stop = at + number_of(heads->size);
        behind = next_of(at, after, heads->size);
        /* The next head but two, which is about as far from the next one, is fetched meanwhile. */
        for (size_t i = 0; i < first; i += 64)
            __builtin_prefetch((const void *)((uintptr_t)behind + 2 * (size_t)(behind - at) + i));
        for (const Shared *piece = of->shared;; piece++) {
            for (size_t i = 0; i < piece->whole; i += 16)
                differ |= differences(at + i, piece->at + i);
            at += piece->whole;
            differ |= differences(at, piece->at + piece->whole) & piece->mask;
            at += piece->rest;
            if (piece == last)
                break;
            ends = ends_in(at);
            memcpy(to, at, 16);     /* in one go; what is too much is written over */
            if (ends)
                own = (size_t)__builtin_ctz(ends);
            else {
                if (stop - at <= 16)
                    goto unlike;
                own = 16 + line_of(at + 16, (size_t)(stop - at) - 16);
                if ((size_t)(end - at) < own + more || (size_t)(full - to) < own + room)
                    goto unlike;
                memcpy(to, at, own + 1);
            }
            to += own + 1;
            at += own;
        }
        if (at != stop || differ)
            break;
        into = to;
        from = behind;
        heads->size += FRAME;
    }
unlike:
    heads->at = from;
    return into;
}

/* The same of one of the last heads of a chunk, behind which less may be read: of a copy. */
static uint8_t *value_of_last(const Likeness *of, Heads *heads, uint8_t *into, const uint8_t *full)
{
    uint8_t copy[COPY];
    size_t size = number_of(heads->size), more = of->size + beyond(of);
    Heads one = {copy, copy + size, copy + size + more, heads->size};
    if (size + more > COPY || (size_t)(heads->end - of->first) < of->size + 16)
        return into;
    memcpy(copy, heads->at, size);
    memset(copy + size, 0, more);
    into = values(of, &one, into, full);
    if (one.size != heads->size)
        heads->at = next_of(heads->at, heads->after, heads->size);
    heads->size = one.size;
    return into;
}

/* Write the heads from `at` up to `after`, whose sizes these are, as groups; return the place behind them, or NULL
   where it does not pay: they are too unlike, or there is no room for so much up to `full`. */
static uint8_t *groups(
    const uint8_t *at, const uint8_t *after, const uint8_t *end, const uint8_t *size, uint8_t *into,
    const uint8_t *full)
{
    Likeness of;
    Heads heads = {at, after, end, size};
    uint8_t *begun, *first;
    const uint8_t *sizes = size;
    for (int line = 0; line < LINES; line++)
        of.loose[line] = TIGHT;
    for (int all = 0; heads.at < after; all++) {
        at = heads.at;
        size = heads.size;
        if (all > 4 + (size - sizes) / (16 * FRAME))
            return NULL;
        if (all)
            loosen(&of, of.first, of.size, at, number_of(size));
        heads.at = next_of(at, after, size);
        heads.size += FRAME;
        if (heads.at < after)
            loosen(&of, at, number_of(size), heads.at, number_of(heads.size));
        begun = into;
        first = into = group(&of, at, number_of(size), into, full);
        if (!into)
            return NULL;
        into = values(&of, &heads, into, full);
        for (const uint8_t *tried = NULL; heads.at < after && tried != heads.at;) {
            tried = heads.at;
            into = value_of_last(&of, &heads, into, full);
        }
        number_at(number_at(begun, (uint32_t)(heads.size - size) / FRAME, 4), (uint32_t)(into - first), 4);
    }
    return into;
}

/* Frames made by number, so many at a time as one write carries. */

#include "load.h"

#include <stdlib.h>
#include <string.h>

static size_t digits(long number)
{
    size_t count = 1;
    for (; number > 9; number /= 10)
        count++;
    return count;
}

static uint32_t code(long number)
{
    return ((uint32_t)number * 2654435761u) >> (4 * (number & 7));
}

static size_t code_width(uint32_t value)
{
    return value ? (size_t)(35 - __builtin_clz(value)) / 4 : 1;
}

size_t code_of(char *text, long number)
{
    uint32_t value = code(number);
    size_t size = code_width(value);
    for (size_t at = size; at--; value >>= 4)
        text[at] = "0123456789abcdef"[value & 15];
    text[size] = 0;
    return size;
}

size_t width(long number, int numbers, int codes)
{
    return (numbers ? (size_t)numbers * digits(number) : 0) + (codes ? (size_t)codes * code_width(code(number)) : 0);
}

static char *decimal(char *at, long number, size_t size)
{
    for (char *digit = at + size; digit-- > at; number /= 10)
        *digit = (char)('0' + number % 10);
    return at + size;
}

struct batch *new_batch(const char *head, long body, const char *tail, long count, size_t piece)
{
    struct batch *batch = must(calloc(1, sizeof *batch));
    for (;;) {
        if (batch->count == PARTS)
            die("a head of too many parts");
        size_t size = strcspn(head, NUMBER CODE LENGTH);
        if (size >= sizeof batch->parts->text)
            die("a head too long for a batch");
        memcpy(batch->parts[batch->count].text, head, size);
        batch->parts[batch->count].size = size;
        batch->parts[batch->count++].mark = head[size];
        batch->fixed += size;
        batch->numbers += head[size] == *NUMBER;
        batch->codes += head[size] == *CODE;
        batch->fixed += head[size] == *LENGTH ? digits(body) : 0;
        if (!head[size])
            break;
        head += size + 1;
    }
    size_t most = (size_t)(batch->numbers + batch->codes) * DIGITS;
    if (digits(body) != digits(body + (long)most))
        die("bodies of %ld to %ld octets have lengths of different sizes", body, body + (long)most);
    batch->tail = strlen(tail);
    batch->frame = batch->fixed + most + (size_t)body + 1 + batch->tail;
    batch->room = batch->frame < piece ? (long)(piece / batch->frame) : 1;
    batch->last = count;
    if (batch->room > count)
        batch->room = count;
    batch->data = must(malloc(batch->frame * (size_t)batch->room));
    for (long i = 0; i < batch->room; i++) {
        char *end = batch->data + batch->frame * (size_t)(i + 1) - batch->tail;
        memset(end - 1 - body, 'x', (size_t)body);
        end[-1] = 0;
        memcpy(end, tail, batch->tail);
    }
    return batch;
}

static void make(struct batch *batch, char *at, long number)
{
    size_t body = batch->frame - batch->tail - 1 - batch->fixed - width(number, batch->numbers, batch->codes);
    char text[DIGITS + 1], *least = at + batch->fixed + (size_t)(batch->numbers + batch->codes) * DIGITS;
    for (int i = 0; i < batch->count; i++) {
        memcpy(at, batch->parts[i].text, batch->parts[i].size);
        at += batch->parts[i].size;
        if (batch->parts[i].mark == *NUMBER)
            at = decimal(at, number, digits(number));
        else if (batch->parts[i].mark == *LENGTH)
            at = decimal(at, (long)body, digits((long)body));
        else if (batch->parts[i].mark == *CODE) {
            size_t size = code_of(text, number);
            memcpy(at, text, size);
            at += size;
        }
    }
    memset(at, 'x', (size_t)(least - at));
    batch->octets += (long)body;
}

bool fill(struct batch *batch, long limit)
{
    long count = (batch->last < limit ? batch->last : limit) - batch->next;
    if (count <= 0)
        return false;
    if (count > batch->room)
        count = batch->room;
    for (long i = 0; i < count; i++)
        make(batch, batch->data + batch->frame * (size_t)i, batch->next + i);
    batch->next += count;
    batch->at = 0;
    batch->ready = batch->frame * (size_t)count;
    return true;
}

bool batch_over(const struct batch *batch)
{
    return batch->next == batch->last && batch->at == batch->ready;
}

void free_batch(struct batch *batch)
{
    if (batch)
        free(batch->data);
    free(batch);
}

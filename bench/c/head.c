/* Heads, read. */

#include "load.h"

#include <string.h>

bool read_head(struct head *head, const char *at, const char *end)
{
    const char *eol = memchr(at, '\n', (size_t)(end - at));
    if (!eol)
        return false;
    head->command = (struct span){at, (size_t)(eol - at)};
    head->count = 0;
    head->body = -1;
    for (const char *line = eol + 1;; line = eol + 1) {
        eol = memchr(line, '\n', (size_t)(end - line));
        if (!eol)
            return false;
        if (eol == line) {
            head->end = eol + 1;
            return true;
        }
        if (head->count == LINES)
            die("a head of more than %d lines", LINES);
        head->lines[head->count++] = (struct span){line, (size_t)(eol - line)};
        if (head->body < 0 && eol - line > 15 && !memcmp(line, "content-length:", 15)) {
            head->body = 0;
            for (const char *digit = line + 15; digit < eol; digit++)
                head->body = head->body * 10 + (*digit - '0');
        }
    }
}

bool is(struct span span, const char *text)
{
    return strlen(text) == span.size && !memcmp(span.at, text, span.size);
}

struct span header(const struct head *head, const char *name)
{
    size_t size = strlen(name);
    for (const struct span *line = head->lines; line < head->lines + head->count; line++)
        if (line->size > size && line->at[size] == ':' && !memcmp(line->at, name, size))
            return (struct span){line->at + size + 1, line->size - size - 1};
    return (struct span){NULL, 0};
}

void keep(char *text, struct span span)
{
    size_t size = span.size < TEXT_ROOM - 1 ? span.size : TEXT_ROOM - 1;
    if (span.at)
        memcpy(text, span.at, size);
    text[span.at ? size : 0] = 0;
}

const char *escaped(char *text, enum version version, const char *value)
{
    char *at = text;
    for (; *value; value++)
        if (version == V10 || (*value != ':' && *value != '\\'))
            *at++ = *value;
        else {
            *at++ = '\\';
            *at++ = *value == ':' ? 'c' : '\\';
        }
    *at = 0;
    return text;
}

long number_at_end(struct span value)
{
    long number = 0, power = 1;
    const char *at = value.at + value.size;
    for (; value.at && at > value.at && at[-1] >= '0' && at[-1] <= '9' && power <= ENDLESS; power *= 10)
        number += (*--at - '0') * power;
    return power > 1 ? number : -1;
}

/* WebSocket, as a browser's client speaks it: a handshake, then each frame of STOMP as one masked message of text. */

#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINAL_TEXT = 0x81, MASKED = 0x80, SHORT = 125, MIDDLE = 126, LONG = 127, MIDDLE_MOST = 0xffff, HEAD_MOST = 14 };

/* Of a server that took the handshake the key need not differ from time to time: no cache stands between. */
void web_ask(struct conn *c, const char *path)
{
    char text[HEAD_ROOM];
    int size = snprintf(text, sizeof text,
        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c3RvbXByZWxheS1iZW5jaA==\r\n"
        "Sec-WebSocket-Protocol: v12.stomp, v11.stomp, v10.stomp\r\n\r\n", path, client.port);
    append(c, text, (size_t)size);
    c->web = must(calloc(1, sizeof *c->web));
}

void web_append(struct conn *c, const char *data, size_t size)
{
    static uint32_t mask = 1;
    static char masked[READ_SIZE];
    unsigned char head[HEAD_MOST] = {FINAL_TEXT};
    size_t length = 2;
    if (size > sizeof masked)
        die("a message of %zu octets", size);
    if (size <= SHORT)
        head[1] = (unsigned char)(MASKED | size);
    else {
        size_t octets = size <= MIDDLE_MOST ? 2 : 8;
        head[1] = MASKED | (octets == 2 ? MIDDLE : LONG);
        for (size_t i = 0; i < octets; i++)
            head[length++] = (unsigned char)((uint64_t)size >> 8 * (octets - 1 - i));
    }
    mask = mask * 2654435761u + 12345;
    memcpy(head + length, &mask, sizeof mask);
    append(c, (char *)head, length + sizeof mask);
    uint64_t word, wide = mask | (uint64_t)mask << 32;
    size_t at = 0;
    for (; at + sizeof word <= size; at += sizeof word) {
        memcpy(&word, data + at, sizeof word);
        word ^= wide;
        memcpy(masked + at, &word, sizeof word);
    }
    for (; at < size; at++)
        masked[at] = (char)(data[at] ^ ((const char *)&mask)[at % sizeof mask]);
    append(c, masked, size);
}

/* How many of these octets belong to the answer to the handshake. */
static size_t answered(struct conn *c, const char *data, size_t size)
{
    struct web *web = c->web;
    for (size_t at = 0; at < size;) {
        if (web->size == sizeof web->head)
            die("the answer to a handshake is longer than %zu octets", sizeof web->head);
        web->head[web->size++] = data[at++];
        if (web->size >= 4 && !memcmp(web->head + web->size - 4, "\r\n\r\n", 4)) {
            if (memcmp(web->head, "HTTP/1.1 101", 12))
                die("the handshake was answered %.*s", 40, web->head);
            web->size = 0;
            web->open = true;
            role.opened(c);
            return at;
        }
    }
    return size;
}

/* One more octet of a message's head. */
static void heard(struct web *web, char octet)
{
    web->head[web->size++] = octet;
    unsigned char second = web->size < 2 ? 0 : (unsigned char)web->head[1];
    size_t octets = second == MIDDLE ? 2 : second == LONG ? 8 : 0;
    if (second & MASKED)
        die("the server masks");
    if (web->size < 2 || web->size < 2 + octets)
        return;
    int opcode = web->head[0] & 15;
    web->closed |= opcode == 8;
    web->passing = opcode < 8;
    web->left = octets ? 0 : second;
    for (size_t i = 0; i < octets; i++)
        web->left = web->left << 8 | (unsigned char)web->head[2 + i];
    web->size = 0;
}

size_t web_take(struct conn *c, char *data, size_t size)
{
    struct web *web = c->web;
    size_t at = web->open ? 0 : answered(c, data, size), taken = 0;
    while (at < size) {
        if (!web->left) {
            heard(web, data[at++]);
            continue;
        }
        size_t passed = size - at < web->left ? size - at : web->left;
        if (web->passing)
            memmove(data + taken, data + at, passed);
        taken += web->passing ? passed : 0;
        at += passed;
        web->left -= passed;
    }
    return taken;
}

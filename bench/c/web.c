/* STOMP over WebSocket, as a client speaks it: each write is a binary message, with a mask that changes nothing. */

#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { BINARY = 0x82, PING = 0x89, PONG = 0x8a, CONTROL = 0x08, MASKED = 0x80, MASK = 4 };

/* The handshake, on a socket that still waits for what it is asked. */
void web_open(int fd, int port)
{
    char text[HEAD_ROOM];
    int size = snprintf(text, sizeof text, "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", port);
    if (send(fd, text, (size_t)size, MSG_NOSIGNAL) != size)
        die("the request for a WebSocket: %s", strerror(errno));
    size_t got = 0;
    while (got < 4 || memcmp(text + got - 4, "\r\n\r\n", 4)) {
        if (got == sizeof text || recv(fd, text + got, 1, 0) != 1)
            die("no answer to the request for a WebSocket");
        got++;
    }
    if (memcmp(text, "HTTP/1.1 101 ", 13))
        die("no WebSocket: %.12s", text);
}

static size_t web_head(unsigned char *head, size_t size)
{
    size_t at = 2;
    head[0] = BINARY;
    head[1] = MASKED | (unsigned char)(size < 126 ? size : size < 65536 ? 126 : 127);
    int octets = size < 126 ? 0 : size < 65536 ? 2 : 8;
    while (octets--)
        head[at++] = (unsigned char)(size >> (8 * octets));
    memset(head + at, 0, MASK);
    return at + MASK;
}

/* As `send`; what it returns is what was sent of the data. */
ssize_t web_send(struct conn *c, const char *data, size_t size)
{
    struct web *web = &c->web;
    if (!web->promised) {
        web->promised = size;
        web->head_at = 0;
        web->head_size = web_head(web->head, size);
    }
    if (size > web->promised)
        size = web->promised;
    size_t left = web->head_size - web->head_at;
    struct iovec parts[] = {{web->head + web->head_at, left}, {(void *)(uintptr_t)data, size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    if (sent < 0)
        return sent;
    size_t of_head = (size_t)sent < left ? (size_t)sent : left;
    web->head_at += of_head;
    web->promised -= (size_t)sent - of_head;
    return sent - (ssize_t)of_head;
}

static void web_pong(struct conn *c)
{
    static const unsigned char pong[] = {PONG, MASKED, 0, 0, 0, 0};
    if (!c->web.promised && send(c->fd, pong, sizeof pong, MSG_NOSIGNAL) != sizeof pong)
        die("a ping cannot be answered");
}

/* Leave what the messages say of what came, in its place. Returns how much that is. */
size_t web_strip(struct conn *c, char *data, size_t size)
{
    struct web *web = &c->web;
    char *to = data;
    for (const char *at = data, *end = data + size; at < end;) {
        if (web->left) {
            size_t passed = web->left < (size_t)(end - at) ? web->left : (size_t)(end - at);
            if (!(web->begun[0] & CONTROL)) {
                memmove(to, at, passed);
                to += passed;
            }
            at += passed;
            web->left -= passed;
            continue;
        }
        web->begun[web->got++] = (unsigned char)*at++;
        size_t octets = web->got < 2 || web->begun[1] < 126 ? 0 : web->begun[1] == 126 ? 2 : 8;
        if (web->got < 2 + octets)
            continue;
        web->left = octets ? 0 : web->begun[1];
        for (size_t i = 0; i < octets; i++)
            web->left = web->left << 8 | web->begun[2 + i];
        web->got = 0;
        if (web->begun[0] == PING)
            web_pong(c);
    }
    return (size_t)(to - data);
}

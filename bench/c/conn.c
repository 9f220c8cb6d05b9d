/* Connections: what is written as their peer takes it, and what comes, frame by frame. */

#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    AWAKE = 1000 * 1000,        /* nanoseconds, see `events_of` */
    TURN = 256 * 1024,          /* what one connection may write before the others are looked at */
    BUFFER = 128 * 1024         /* of a socket: what waits at either end stays in the processor's cache, and HAProxy cheap */
};

struct role role;
int epoll_fd = -1;
static char input[HEAD_ROOM + READ_SIZE];

struct conn *new_conn(int fd, enum version version)
{
    struct conn *c = must(calloc(1, sizeof *c));
    c->fd = fd;
    c->version = version;
    return c;
}

void release(struct conn *c)
{
    close(c->fd);
    c->fd = -1;
    free(c->out);
    c->out = NULL;
    free_batch(c->batch);
    c->batch = NULL;
}

void set_up(int fd)
{
    int on = 1, buffer = BUFFER;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void watch(struct conn *c, uint32_t interest)
{
    if (interest == c->interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = c};
    if (epoll_ctl(epoll_fd, c->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event))
        die("epoll_ctl: %s", strerror(errno));
    c->interest = interest;
}

/* ---------------------------------------------------------------- writing */

void append(struct conn *c, const char *data, size_t size)
{
    if (c->out_at == c->out_size)
        c->out_at = c->out_size = 0;
    if (c->out_size + size > c->out_room) {
        c->out_room = (c->out_size + size) * 2;
        c->out = must(realloc(c->out, c->out_room));
    }
    memcpy(c->out + c->out_size, data, size);
    c->out_size += size;
}

void frame(struct conn *c, const char *format, ...)
{
    char text[HEAD_ROOM];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text - 2, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof text - 2)
        die("a head longer than %zu octets", sizeof text - 2);
    text[size++] = '\n';
    text[size++] = 0;
    append(c, text, (size_t)size);
}

bool flush(struct conn *c)
{
    for (size_t turn = 0;;) {
        struct batch *batch = c->batch;
        bool from_batch = batch && batch->at < batch->ready && (batch->at || c->out_at == 0);
        const char *data;
        size_t size;
        if (from_batch) {
            data = batch->data + batch->at;
            size = batch->ready - batch->at;
        } else if (c->out_at < c->out_size) {
            data = c->out + c->out_at;
            size = c->out_size - c->out_at;
        } else if (batch && fill(batch, c->limit))
            continue;
        else
            break;
        if (turn >= TURN) {
            watch(c, EPOLLIN | EPOLLOUT);
            return true;
        }
        ssize_t sent = c->over_web ? web_send(c, data, size) : send(c->fd, data, size, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EAGAIN) {
                watch(c, EPOLLIN | EPOLLOUT);
                return true;
            }
            return role.closed(c);
        }
        turn += (size_t)sent;
        if (from_batch)
            batch->at += (size_t)sent;
        else if ((c->out_at += (size_t)sent) == c->out_size)
            c->out_at = c->out_size = 0;
    }
    watch(c, EPOLLIN);
    if (c->closing)
        return role.closed(c);
    return true;
}

/* ---------------------------------------------------------------- reading */

void learn(struct shape *shape, const struct head *head, long number, int numbers, int codes)
{
    const struct span *last = &head->lines[head->count - 1];
    if (head->body < 0 || head->command.size < 4 || memcmp(last->at, "content-length:", 15))
        return;
    memcpy(shape->command, head->command.at, 4);
    shape->numbers = numbers;
    shape->codes = codes;
    shape->line = last->size;
    shape->total = (size_t)(head->end - head->command.at) + (size_t)head->body + 1;
    shape->head = (size_t)(head->end - head->command.at) - width(number, numbers, codes);
}

/* The size of its head; 0: it is not of this shape, or not all there. */
static size_t fits(const struct shape *shape, const char *at, const char *end, long number)
{
    if (!shape->total || (size_t)(end - at) < shape->total)
        return 0;
    size_t head = shape->head + width(number, shape->numbers, shape->codes);
    return head < shape->total && !memcmp(at, shape->command, 4) && at[head - 1] == '\n' && at[head - 2] == '\n' && !at[shape->total - 1]
        && !memcmp(at + head - 2 - shape->line, "content-length:", 15) ? head : 0;
}

static void consume(struct conn *c, const char *at, const char *end)
{
    while (at < end && c->fd >= 0) {
        size_t size = (size_t)(end - at), known;
        if (c->in_body) {
            if (c->left > 0) {
                size_t passed = size < (size_t)c->left ? size : (size_t)c->left;
                at += passed;
                c->left -= (long)passed;
                continue;
            }
            const char *nul = c->left == 0 ? at : memchr(at, 0, size);
            if (!nul)
                return;
            if (*nul)
                die("no NUL after a body of %ld octets", c->length);
            at = nul + 1;
            c->in_body = false;
            role.frame(c);
            continue;
        }
        if (*at == '\n') {
            at++;
            continue;
        }
        if (c->frames % SAMPLE && (known = fits(&c->shape, at, end, c->frames))) {
            c->length = (long)(c->shape.total - known - 1);
            at += c->shape.total;
            role.counted(c);
            continue;
        }
        struct head head;
        if (!read_head(&head, at, end)) {
            if (size >= HEAD_ROOM)
                die("a head of more than %d octets", HEAD_ROOM);
            memcpy(c->carry, at, size);
            c->carried = size;
            return;
        }
        c->in_body = true;
        c->left = c->length = head.body;
        c->action = NOTHING;
        c->shape.total = 0;
        role.head(c, &head);
        at = head.end;
    }
}

bool receive(struct conn *c)
{
    size_t carried = c->carried;
    memcpy(input, c->carry, carried);
    ssize_t size = recv(c->fd, input + carried, READ_SIZE, 0);
    if (size < 0 && errno == EAGAIN)
        return true;
    if (size <= 0)
        return role.closed(c);
    if (c->over_web)
        size = (ssize_t)web_strip(c, input + carried, (size_t)size);
    c->carried = 0;
    consume(c, input, input + carried + size);
    return true;
}

/* ---------------------------------------------------------------- waiting */

int events_of(struct epoll_event *events, int patience)
{
    for (uint64_t until = now() + AWAKE;;) {
        int count = epoll_wait(epoll_fd, events, EVENTS, 0);
        if (count)
            return count;
        if (now() > until)
            return epoll_wait(epoll_fd, events, EVENTS, patience);
        sched_yield();
    }
}

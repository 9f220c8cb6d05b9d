/* The load: a STOMP client that sends, takes and counts, and a null broker that answers it.
 *
 *   load broker
 *       Prints "PORT10 PORT11 PORT12 ACTIVEMQ RABBITMQ", five listeners on 127.0.0.1 of which each speaks one
 *       version only, the last two 1.2 under the names of those products, and serves until its standard input ends.
 *   load client MODE -p PORT -v VERSION -c CONNECTIONS -n MESSAGES -b BODY [-i] [-e] [-a ACK]
 *       MODE is sink, source, loop or latency. Prints "ready" when all connections stand, runs at "go",
 *       prints one line of JSON, and at "bye" disconnects, looks that nothing came too much and prints another.
 *   load client idle -p PORT -v VERSION
 *       "open N" on standard input opens connections until there are N and prints a line of JSON.
 *   load client echo -p PORT -v VERSION -b BODY
 *       As idle, but each connection subscribes to its echo. "send SINCE" SENDs one message on each, awaits all echoes
 *       and prints a line of JSON with the microseconds since SINCE (nanoseconds of CLOCK_MONOTONIC) of each.
 *
 *   -i  every head the same (else a unique `seq` header, and unique message-ids)
 *   -e  one value to escape in every SEND and one id to unescape in every MESSAGE
 *   -a  source only: this is the ack mode, client or client-individual, and each message has an ACK
 *
 * What the broker does with a frame is in its destination:
 *   /queue/sink                      count it; `receipt` is answered
 *   /queue/echo                      answer with a MESSAGE of the same size to this connection's subscription
 *   /queue/source/COUNT/BODY/FLAGS   on SUBSCRIBE: stream MESSAGEs (FLAGS: i and e as above, - for none)
 *   /queue/count                     on SUBSCRIBE: one MESSAGE that says what this connection has sent
 *
 * Each side counts every frame, and looks at every SAMPLEth in full: its number, its escapes, its subscription.
 * Between samples a frame that has the last one's shape (same command, same content-length line at the same
 * place, blank line and NUL where they were) is counted without reading its head again, so that the load is
 * cheap beside what it measures.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_SIZE = 256 * 1024,
    HEAD_ROOM = 4096,           /* the longest head that either side takes */
    TEXT_ROOM = 256,            /* the longest header value that is kept */
    BATCH_SIZE = 64 * 1024,     /* what one write carries when there is more to send than that */
    TURN = 256 * 1024,          /* what one connection may write before the others are looked at */
    WINDOW = 256,               /* MESSAGEs that may wait for their ACK */
    HANDSHAKES = 32,            /* connections that may be in their handshake at once; Twisted's backlog is 50 */
    SAMPLE = 64,
    DIGITS = 8,
    ENDLESS = 1000 * 1000 * 1000,
    EVENTS = 256,
    PATIENCE = 60               /* seconds that one run may take */
};

static const char NOTE[] = "12:30:00";      /* the value to escape */
static const char ID_PLAIN[] = "T_0@@session-bench@@";
static const char ID_COLONS[] = "ID:bench-1:";

enum version { V10, V11, V12 };
static const char *const VERSIONS[] = {"1.0", "1.1", "1.2"};

/* What the null broker is, by listener. The products differ in what their receipts promise. */
static const struct product {
    enum version version;
    const char *server;
} PRODUCTS[] = {
    {V10, NULL}, {V11, "null-broker/1"}, {V12, "null-broker/1"}, {V12, "ActiveMQ/5.17.2"}, {V12, "RabbitMQ/3.10.8"}};

enum mode { SINK, SOURCE, LOOP, LATENCY, IDLE, ECHOES };
static const char *const MODES[] = {"sink", "source", "loop", "latency", "idle", "echo"};

struct span {
    const char *at;
    size_t size;
};

struct head {
    struct span command;
    const char *lines;          /* after the command line */
    const char *end;            /* after the blank line */
    long body;                  /* content-length, -1 when absent */
    const char *length_line;    /* where content-length stands */
};

/* What may be counted without being read: a frame that looks like the last. */
struct shape {
    size_t total;               /* 0: none */
    size_t head;
    size_t body;
    size_t line_at, line_size;
    char line[32];
    char command[8];
};

/* Frames that differ in their numbers only, made once and sent over and over. */
struct batch {
    char *data;
    size_t frame;               /* octets in a frame */
    long room;                  /* frames that fit into `data` */
    size_t patch[4];            /* where in a frame its number stands */
    int patches;
    long next, last;            /* number of the next frame, and of the one after the last */
    size_t at, ready;           /* octets of `data` written, and to be written */
};

enum action { NOTHING, COUNT, ECHO, SUBSCRIBED, ACKED, CONNECTING, GONE, GREETED, TAKEN, ANSWERED, TALLIED };

struct conn {
    int fd;
    enum version version;
    const char *server;         /* what the broker calls itself */
    bool listener, standing, closing, finished;
    uint32_t interest;
    /* reading */
    char carry[HEAD_ROOM];      /* the beginning of a head */
    size_t carried;
    bool in_body;
    long left;                  /* octets of body to come; -1: until NUL */
    enum action action;         /* what the frame at hand calls for when it is complete */
    long length;                /* its content-length */
    char receipt[TEXT_ROOM];    /* what it names */
    char subscription[TEXT_ROOM];
    char destination[TEXT_ROOM];
    char id[TEXT_ROOM];
    bool ack_mode;
    bool stream;                /* it only takes: acknowledge at once what comes */
    struct shape shape;
    enum action shape_action;
    /* writing */
    char *out;
    size_t out_at, out_size, out_room;
    struct batch *batch;
    long limit;                 /* frames of `batch` that may go by now */
    /* books */
    long frames, octets, acks, bad;
    const char *reason;
    char echo[TEXT_ROOM];       /* the subscription that echoes go to */
    bool echoes;
    long quota;
    uint64_t sent_at;
};

static char input[HEAD_ROOM + READ_SIZE];
static int epoll_fd = -1;

/* The two sides of the conversation. */
static struct role {
    void (*head)(struct conn *c, const struct head *head);      /* a head came; say what to do when it is complete */
    void (*frame)(struct conn *c);                              /* the frame is complete */
    void (*counted)(struct conn *c);                            /* one more of the same shape */
    bool (*closed)(struct conn *c);                             /* always false */
} role;

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++)
        if (*at == '"' || *at == '\\' || (unsigned char)*at < 32)
            *at = '\'';
    say("{\"error\": \"%s\"}\n", text);
    exit(1);
}

static void *must(void *memory)
{
    if (!memory)
        die("out of memory");
    return memory;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---------------------------------------------------------------- heads */

/* 1: read; 0: not all there. */
static int read_head(struct head *head, const char *at, const char *end)
{
    const char *eol = memchr(at, '\n', (size_t)(end - at));
    if (!eol)
        return 0;
    head->command = (struct span){at, (size_t)(eol - at)};
    head->lines = eol + 1;
    head->body = -1;
    head->length_line = NULL;
    for (const char *line = eol + 1;; line = eol + 1) {
        eol = memchr(line, '\n', (size_t)(end - line));
        if (!eol)
            return 0;
        if (eol == line) {
            head->end = eol + 1;
            return 1;
        }
        if (!head->length_line && eol - line > 15 && !memcmp(line, "content-length:", 15)) {
            head->length_line = line;
            head->body = 0;
            for (const char *digit = line + 15; digit < eol; digit++)
                head->body = head->body * 10 + (*digit - '0');
        }
    }
}

static bool is(struct span span, const char *text)
{
    return strlen(text) == span.size && !memcmp(span.at, text, span.size);
}

/* The value of the first header so named; its `at` is NULL when there is none. */
static struct span header(const struct head *head, const char *name)
{
    size_t size = strlen(name);
    for (const char *line = head->lines; *line != '\n';) {
        const char *eol = memchr(line, '\n', (size_t)(head->end - line));
        if ((size_t)(eol - line) > size && line[size] == ':' && !memcmp(line, name, size))
            return (struct span){line + size + 1, (size_t)(eol - line) - size - 1};
        line = eol + 1;
    }
    return (struct span){NULL, 0};
}

static void keep(char *text, struct span span)
{
    size_t size = span.size < TEXT_ROOM - 1 ? span.size : TEXT_ROOM - 1;
    if (span.at)
        memcpy(text, span.at, size);
    text[span.at ? size : 0] = 0;
}

/* A header's value as `version` writes it. */
static const char *escaped(char *text, enum version version, const char *value)
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

static long number_at_end(struct span value)
{
    long number = 0;
    if (!value.at || value.size < DIGITS)
        return -1;
    for (const char *at = value.at + value.size - DIGITS; at < value.at + value.size; at++) {
        if (*at < '0' || *at > '9')
            return -1;
        number = number * 10 + (*at - '0');
    }
    return number;
}

/* ---------------------------------------------------------------- writing */

static void append(struct conn *c, const char *data, size_t size)
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

/* A frame without a body; the caller writes the head, this adds the end. */
__attribute__((format(printf, 2, 3))) static void frame(struct conn *c, const char *format, ...)
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

static void write_number(char *at, long number)
{
    for (int digit = DIGITS - 1; digit >= 0; digit--, number /= 10)
        at[digit] = (char)('0' + number % 10);
}

/* `head` is a frame's head with the blank line; each '#' in it is where the frame's number goes. `tail` follows NUL.
 * `octets` is how much may be made at a time; one frame is at least. */
static struct batch *new_batch(const char *head, size_t body, const char *tail, long count, size_t octets)
{
    struct batch *batch = must(calloc(1, sizeof *batch));
    char text[HEAD_ROOM];
    size_t size = 0;
    for (; *head; head++) {
        if (size + DIGITS >= sizeof text || batch->patches == 4)
            die("a head too long for a batch");
        if (*head == '#') {
            batch->patch[batch->patches++] = size;
            memcpy(text + size, "00000000", DIGITS);
            size += DIGITS;
        } else
            text[size++] = *head;
    }
    size_t rest = strlen(tail);
    batch->frame = size + body + 1 + rest;
    batch->room = batch->frame < octets ? (long)(octets / batch->frame) : 1;
    batch->last = count;
    if (batch->room > count)
        batch->room = count;
    batch->data = must(malloc(batch->frame * (size_t)batch->room));
    for (long i = 0; i < batch->room; i++) {
        char *at = batch->data + batch->frame * (size_t)i;
        memcpy(at, text, size);
        memset(at + size, 'x', body);
        at[size + body] = 0;
        memcpy(at + size + body + 1, tail, rest);
    }
    return batch;
}

/* Number the next frames; false when none is left, or none may go before `limit`. */
static bool fill(struct batch *batch, long limit)
{
    long count = (batch->last < limit ? batch->last : limit) - batch->next;
    if (count <= 0)
        return false;
    if (count > batch->room)
        count = batch->room;
    for (long i = 0; i < count; i++)
        for (int p = 0; p < batch->patches; p++)
            write_number(batch->data + batch->frame * (size_t)i + batch->patch[p], batch->next + i);
    batch->next += count;
    batch->at = 0;
    batch->ready = batch->frame * (size_t)count;
    return true;
}

static bool batch_over(const struct batch *batch)
{
    return batch->next == batch->last && batch->at == batch->ready;
}

static void watch(struct conn *c, uint32_t interest)
{
    if (interest == c->interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = c};
    if (epoll_ctl(epoll_fd, c->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, c->fd, &event))
        die("epoll_ctl: %s", strerror(errno));
    c->interest = interest;
}

/* Write what there is, as far as the peer takes it and as others do not wait. False: the connection is gone. */
static bool flush(struct conn *c)
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
        ssize_t sent = send(c->fd, data, size, MSG_NOSIGNAL);
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

static void learn(struct shape *shape, const struct head *head)
{
    const char *at = head->command.at;
    if (head->body < 0 || head->command.size < 4)
        return;
    const char *eol = memchr(head->length_line, '\n', (size_t)(head->end - head->length_line));
    size_t line = (size_t)(eol + 1 - head->length_line);
    if (line > sizeof shape->line)
        return;
    memcpy(shape->command, at, 4);
    memcpy(shape->line, head->length_line, line);
    shape->line_at = (size_t)(head->length_line - at);
    shape->line_size = line;
    shape->head = (size_t)(head->end - at);
    shape->body = (size_t)head->body;
    shape->total = shape->head + shape->body + 1;
}

static bool fits(const struct shape *shape, const char *at, const char *end)
{
    return shape->total && (size_t)(end - at) >= shape->total && !memcmp(at, shape->command, 4)
        && !memcmp(at + shape->line_at, shape->line, shape->line_size)
        && at[shape->head - 1] == '\n' && at[shape->head - 2] == '\n' && at[shape->total - 1] == 0;
}

static void consume(struct conn *c, const char *at, const char *end)
{
    while (at < end && c->fd >= 0) {
        size_t size = (size_t)(end - at);
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
        if (c->frames % SAMPLE && fits(&c->shape, at, end)) {
            c->length = (long)c->shape.body;
            role.counted(c);
            at += c->shape.total;
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

/* One read. False: the connection is gone. */
static bool receive(struct conn *c)
{
    size_t carried = c->carried;
    memcpy(input, c->carry, carried);
    ssize_t size = recv(c->fd, input + carried, READ_SIZE, 0);
    if (size < 0 && errno == EAGAIN)
        return true;
    if (size <= 0)
        return role.closed(c);
    c->carried = 0;
    consume(c, input, input + carried + size);
    if (c->stream && size < READ_SIZE / 4) {
        /* Who leaves Nagle's algorithm on holds a stream's last octets until the ACK; do not let it be late. */
        int on = 1;
        setsockopt(c->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
    }
    return true;
}

static void set_up(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static struct conn *new_conn(int fd, enum version version)
{
    struct conn *c = must(calloc(1, sizeof *c));
    c->fd = fd;
    c->version = version;
    return c;
}

/* ---------------------------------------------------------------- the null broker */

static struct batch *messages(const struct conn *c, const char *subscription, bool same, bool colons, long body,
    long count, size_t octets)
{
    char text[HEAD_ROOM], id[TEXT_ROOM], named[TEXT_ROOM + 16] = "", acked[TEXT_ROOM + 16] = "";
    const char *number = same ? "00000001" : "#";
    escaped(id, c->version, colons ? ID_COLONS : ID_PLAIN);
    if (*subscription)
        snprintf(named, sizeof named, "subscription:%s\n", subscription);
    if (c->ack_mode && c->version == V12)
        snprintf(acked, sizeof acked, "ack:%s%s\n", id, number);
    snprintf(text, sizeof text,
        "MESSAGE\n%sdestination:%s\nmessage-id:%s%s\nredelivered:false\n%scontent-type:text/plain\n"
        "correlation-id:c0ffee-0001\npriority:4\n%scontent-length:%ld\n\n",
        named, c->destination, id, number, acked, same ? "" : "seq:#\n", body);
    return new_batch(text, (size_t)body, "\n", count, octets);  /* RabbitMQ and ActiveMQ both put an LF after NUL */
}

static void complain(struct conn *c, const char *reason)
{
    if (!c->bad++)
        c->reason = reason;
}

static void broker_send(struct conn *c, const struct head *head)
{
    struct span seq = header(head, "seq"), note = header(head, "note");
    char expected[TEXT_ROOM];
    c->action = strcmp(c->destination, "/queue/echo") ? COUNT : ECHO;
    c->stream = c->action == COUNT && !*c->receipt;
    if (c->action == COUNT && strcmp(c->destination, "/queue/sink"))
        complain(c, "SEND to an unknown destination");
    if (head->body < 0)
        complain(c, "SEND without content-length");
    if (seq.at && number_at_end(seq) != c->frames)
        complain(c, "SEND out of sequence");
    if (note.at && !is(note, escaped(expected, c->version, NOTE)))
        complain(c, "a value was not escaped as this version escapes");
    if (c->action == ECHO && !c->batch)
        c->batch = messages(c, c->echo, !seq.at, note.at != NULL, head->body, ENDLESS, 0);
    if (!*c->receipt) {
        learn(&c->shape, head);
        c->shape_action = c->action;
    }
}

static void broker_ack(struct conn *c, const struct head *head)
{
    struct span id = header(head, c->version == V12 ? "id" : "message-id");
    c->action = ACKED;
    if (number_at_end(id) != c->acks)
        complain(c, "ACK of something else than the oldest message");
    if (c->version == V11 && !header(head, "subscription").at)
        complain(c, "ACK without subscription");
}

static void broker_head(struct conn *c, const struct head *head)
{
    keep(c->receipt, header(head, "receipt"));
    if (is(head->command, "SEND")) {
        keep(c->destination, header(head, "destination"));
        broker_send(c, head);
    } else if (is(head->command, "ACK"))
        broker_ack(c, head);
    else if (is(head->command, "SUBSCRIBE")) {
        keep(c->destination, header(head, "destination"));
        keep(c->subscription, header(head, "id"));
        c->ack_mode = c->stream = is(header(head, "ack"), "client") || is(header(head, "ack"), "client-individual");
        c->action = SUBSCRIBED;
        if (c->version != V10 && !*c->subscription)
            complain(c, "SUBSCRIBE without id");
    } else if (is(head->command, "CONNECT") || (is(head->command, "STOMP") && c->version != V10)) {
        struct span accepted = header(head, "accept-version");
        c->action = CONNECTING;
        c->closing = c->version != V10
            && (!accepted.at || !memmem(accepted.at, accepted.size, VERSIONS[c->version], 3));
    } else if (is(head->command, "DISCONNECT"))
        c->action = GONE;
    else if (!is(head->command, "UNSUBSCRIBE"))
        die("the broker got '%.*s'", (int)(head->command.size < 40 ? head->command.size : 40), head->command.at);
}

static void broker_counted(struct conn *c)
{
    c->frames++;
    c->octets += c->length;
    if (c->shape_action == ECHO)
        c->limit++;
}

static void broker_subscribed(struct conn *c)
{
    long count, body;
    char flags[8];
    if (!strcmp(c->destination, "/queue/count")) {
        frame(c, "MESSAGE\n%s%s%sdestination:/queue/count\nmessage-id:tally\ncount:%ld\noctets:%ld\nacks:%ld\nbad:%ld\n"
            "reason:%s\n", *c->subscription ? "subscription:" : "", c->subscription, *c->subscription ? "\n" : "",
            c->frames, c->octets, c->acks, c->bad, c->bad ? c->reason : "none");
    } else if (!strcmp(c->destination, "/queue/echo")) {
        c->echoes = true;
        strcpy(c->echo, c->subscription);
    } else if (sscanf(c->destination, "/queue/source/%ld/%ld/%7s", &count, &body, flags) == 3 && !c->batch) {
        c->batch = messages(c, c->subscription, strchr(flags, 'i'), strchr(flags, 'e'), body, count, BATCH_SIZE);
        c->limit = c->ack_mode ? WINDOW : count;
    } else
        complain(c, "SUBSCRIBE to an unknown destination");
}

static void broker_connecting(struct conn *c)
{
    const char *version = VERSIONS[c->version];
    if (c->closing)
        frame(c, "ERROR\nversion:%s\nmessage:Supported protocol versions are %s\n", version, version);
    else if (c->version == V10)
        frame(c, "CONNECTED\nsession:bench\n");
    else
        frame(c, "CONNECTED\nserver:%s\nsession:bench\nheart-beat:0,0\nversion:%s\n", c->server, version);
}

static void broker_frame(struct conn *c)
{
    switch (c->action) {
    case COUNT:
        c->frames++;
        c->octets += c->length;
        break;
    case ECHO:
        c->frames++;
        c->octets += c->length;
        c->limit++;
        if (!c->echoes)
            complain(c, "SEND to the echo without a subscription to it");
        break;
    case ACKED:
        c->acks++;
        c->limit++;
        break;
    case SUBSCRIBED:
        broker_subscribed(c);
        break;
    case CONNECTING:
        broker_connecting(c);
        return;
    case GONE:
        c->closing = true;
        break;
    default:
        break;
    }
    if (*c->receipt)
        frame(c, "RECEIPT\nreceipt-id:%s\n", c->receipt);
}

static void release(struct conn *c)
{
    close(c->fd);
    c->fd = -1;
    free(c->out);
    c->out = NULL;
    if (c->batch)
        free(c->batch->data);
    free(c->batch);
    c->batch = NULL;
}

static bool broker_closed(struct conn *c)
{
    release(c);
    free(c);
    return false;
}

static void broker_accept(struct conn *listener)
{
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno != EAGAIN && errno != ECONNABORTED)
                die("accept: %s", strerror(errno));
            return;
        }
        set_up(fd);
        struct conn *c = new_conn(fd, listener->version);
        c->server = listener->server;
        watch(c, EPOLLIN);
    }
}

static void broker_listen(const struct product *product, char after)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 4096)
        || getsockname(fd, (struct sockaddr *)&address, &size))
        die("listen: %s", strerror(errno));
    struct conn *listener = new_conn(fd, product->version);
    listener->server = product->server;
    listener->listener = true;
    watch(listener, EPOLLIN);
    say("%d%c", ntohs(address.sin_port), after);
}

static int broker(void)
{
    role = (struct role){broker_head, broker_frame, broker_counted, broker_closed};
    struct epoll_event events[EVENTS], input_event = {.events = EPOLLIN};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &input_event))
        die("standard input must be a pipe");
    const size_t last = sizeof PRODUCTS / sizeof *PRODUCTS - 1;
    for (size_t i = 0; i <= last; i++)
        broker_listen(&PRODUCTS[i], i == last ? '\n' : ' ');
    for (;;) {
        int count = epoll_wait(epoll_fd, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            struct conn *c = events[i].data.ptr;
            char octet;
            if (!c) {
                if (read(STDIN_FILENO, &octet, 1) <= 0)
                    return 0;
            } else if (c->listener)
                broker_accept(c);
            else if (!(events[i].events & ~(uint32_t)EPOLLOUT) || receive(c))
                flush(c);
        }
    }
}

/* ---------------------------------------------------------------- the client */

static struct {
    enum mode mode;
    enum version version;
    int port, connections;
    long messages, body;
    bool same, colons;
    const char *acks;           /* the ack mode; NULL: auto */
    struct conn **all;
    int opened, standing, finished;
    long taken;
    double *times;              /* microseconds, of `taken` round trips */
    uint64_t since;             /* when the clock of echoes began to run */
    uint64_t deadline;
} client = {.version = V12, .connections = 1, .messages = 1, .body = 100};

static void client_ask(struct conn *c)
{
    frame(c, "SUBSCRIBE\n%sdestination:/queue/count\n", c->version == V10 ? "" : "id:9\n");
}

static void client_finished(struct conn *c)
{
    if (c->finished)
        die("a connection was answered more than it asked");
    c->finished = true;
    client.finished++;
}

static void client_tally(struct conn *c, const struct head *head)
{
    char count[TEXT_ROOM], octets[TEXT_ROOM], acks[TEXT_ROOM], reason[TEXT_ROOM];
    keep(count, header(head, "count"));
    keep(octets, header(head, "octets"));
    keep(acks, header(head, "acks"));
    keep(reason, header(head, "reason"));
    c->action = TALLIED;
    if (!is(header(head, "bad"), "0"))
        die("the broker complains: %s", reason);
    if (client.acks && atol(acks) != c->quota)
        die("%ld messages were acknowledged, the broker had %s", c->quota, acks);
    if (client.mode != SOURCE && (atol(count) != c->quota || atol(octets) != c->quota * client.body))
        die("%ld messages of %ld octets were sent, the broker had %s and %s octets", c->quota, client.body, count, octets);
}

static void client_message(struct conn *c, const struct head *head)
{
    struct span id = header(head, "message-id"), seq = header(head, "seq");
    const char *prefix = client.colons ? ID_COLONS : ID_PLAIN;
    char expected[TEXT_ROOM];
    if (header(head, "count").at) {
        client_tally(c, head);
        return;
    }
    c->action = TAKEN;
    if (head->body != client.body)
        die("a MESSAGE of %ld octets came instead of %ld", head->body, client.body);
    escaped(expected, c->version, prefix);
    if (id.size != strlen(expected) + DIGITS || memcmp(id.at, expected, strlen(expected)))
        die("message-id '%.*s' instead of %s and a number", (int)id.size, id.at ? id.at : "", expected);
    if (!client.same && (number_at_end(id) != c->frames || number_at_end(seq) != c->frames))
        die("message %ld came as number %ld", c->frames, number_at_end(id));
    if (c->version != V10 && !is(header(head, "subscription"), "0"))
        die("a MESSAGE of an unknown subscription");
    if (client.acks) {
        struct span ack = c->version == V12 ? header(head, "ack") : id;
        if (!ack.at)
            die("a MESSAGE without an ack header");
        keep(c->id, ack);
    } else {
        learn(&c->shape, head);
        c->shape_action = TAKEN;
    }
}

static void client_head(struct conn *c, const struct head *head)
{
    if (is(head->command, "MESSAGE"))
        client_message(c, head);
    else if (is(head->command, "RECEIPT")) {
        keep(c->receipt, header(head, "receipt-id"));
        c->action = ANSWERED;
    } else if (is(head->command, "CONNECTED")) {
        struct span version = header(head, "version");
        if (c->version == V10 ? version.at && !is(version, "1.0") : !is(version, VERSIONS[c->version]))
            die("CONNECTED with version '%.*s' to a client of %s", (int)version.size, version.at ? version.at : "",
                VERSIONS[c->version]);
        c->action = GREETED;
    } else {
        struct span message = header(head, "message");
        die("the client got %.*s: %.*s", (int)(head->command.size < 40 ? head->command.size : 40), head->command.at,
            (int)message.size, message.at ? message.at : "");
    }
}

static void client_stands(struct conn *c)
{
    c->standing = true;
    client.standing++;
}

static void client_counted(struct conn *c)
{
    if (++c->frames > c->quota)
        die("more messages came than were asked for");
    if (client.mode == ECHOES)
        client.times[client.taken] = (double)(now() - client.since) / 1000;
    client.taken++;
    if (client.mode == LOOP)
        c->limit++;
    if (client.acks) {
        if (c->version == V12)
            frame(c, "ACK\nid:%s\n", c->id);
        else
            frame(c, "ACK\n%smessage-id:%s\n", c->version == V11 ? "subscription:0\n" : "", c->id);
    }
    if (c->frames < c->quota || client.mode == ECHOES)
        return;
    if (client.acks || client.mode == LOOP)
        client_ask(c);
    else
        client_finished(c);
}

static void client_answered(struct conn *c)
{
    char expected[TEXT_ROOM];
    uint64_t at = now();
    if (!strcmp(c->receipt, "subscribed")) {
        client_stands(c);
        return;
    }
    if (!strcmp(c->receipt, "bye")) {
        client_finished(c);
        release(c);
        return;
    }
    snprintf(expected, sizeof expected, "r-%08ld", c->frames);
    if (client.mode != LATENCY || strcmp(c->receipt, expected))
        die("RECEIPT '%s' instead of '%s'", c->receipt, expected);
    client.times[client.taken++] = (double)(at - c->sent_at) / 1000;
    c->sent_at = at;
    c->limit++;
    if (++c->frames == c->quota)
        client_ask(c);
}

static void client_frame(struct conn *c)
{
    switch (c->action) {
    case GREETED:
        if (client.mode == LOOP || client.mode == ECHOES)
            frame(c, "SUBSCRIBE\n%sdestination:/queue/echo\nreceipt:subscribed\n", c->version == V10 ? "" : "id:0\n");
        else
            client_stands(c);
        break;
    case ANSWERED:
        client_answered(c);
        break;
    case TALLIED:
        client_finished(c);
        break;
    default:
        client_counted(c);
    }
}

static bool client_closed(struct conn *c)
{
    die("a connection was closed after %ld of %ld frames, with %d of %d connections standing", c->frames, c->quota,
        client.standing, client.opened);
}

static void client_turn(void)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(epoll_fd, events, EVENTS, 1000);
    for (int i = 0; i < count; i++) {
        struct conn *c = events[i].data.ptr;
        if ((events[i].events & ~(uint32_t)EPOLLOUT) && !receive(c))
            continue;
        if (c->fd < 0)
            continue;
        flush(c);
        if (client.mode == SINK && c->batch && batch_over(c->batch)) {
            free(c->batch->data);
            free(c->batch);
            c->batch = NULL;
            client_ask(c);
            flush(c);
        }
    }
    if (now() > client.deadline)
        die("after %d seconds: %d of %d connections stand, %d finished, %ld messages came back", PATIENCE,
            client.standing, client.opened, client.finished, client.taken);
}

static void client_connect(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)client.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        die("connect: %s", strerror(errno));
    set_up(fd);
    struct conn *c = new_conn(fd, client.version);
    client.all[client.opened++] = c;
    if (c->version == V10)
        frame(c, "CONNECT\nlogin:bench\npasscode:bench\n");
    else
        frame(c, "CONNECT\naccept-version:%s\nhost:/\nlogin:bench\npasscode:bench\n", VERSIONS[c->version]);
    flush(c);
}

static void client_open(int connections)
{
    client.deadline = now() + PATIENCE * 1000000000ull;
    client.all = must(realloc(client.all, (size_t)connections * sizeof *client.all));
    while (client.standing < connections) {
        while (client.opened < connections && client.opened - client.standing < HANDSHAKES)
            client_connect();
        client_turn();
    }
}

/* The client's SENDs, of which `octets` are made at a time. */
static struct batch *client_sends(const struct conn *c, size_t octets)
{
    char text[HEAD_ROOM], note[TEXT_ROOM];
    snprintf(text, sizeof text, "SEND\ndestination:/queue/%s\n%scontent-type:text/plain\ncorrelation-id:c0ffee-0001\n"
        "priority:4\n%s%s%s%scontent-length:%ld\n\n", client.mode == LOOP || client.mode == ECHOES ? "echo" : "sink",
        client.mode == LATENCY ? "receipt:r-#\n" : "", client.colons ? "note:" : "",
        client.colons ? escaped(note, c->version, NOTE) : "", client.colons ? "\n" : "",
        client.same ? "" : "seq:#\n", client.body);
    return new_batch(text, (size_t)client.body, "", client.mode == ECHOES ? ENDLESS : c->quota, octets);
}

/* What the connections do when the clock has started. */
static void client_begin(struct conn *c)
{
    c->quota = client.messages;
    c->stream = client.mode == SOURCE;
    c->sent_at = now();
    if (client.mode == SOURCE) {
        frame(c, "SUBSCRIBE\n%sdestination:/queue/source/%ld/%ld/%s%s-\nack:%s\n", c->version == V10 ? "" : "id:0\n",
            c->quota, client.body, client.same ? "i" : "", client.colons ? "e" : "", client.acks ? client.acks : "auto");
    } else {
        c->batch = client_sends(c, BATCH_SIZE);
        c->limit = client.mode == SINK ? c->quota : 1;
    }
    watch(c, EPOLLIN | EPOLLOUT);
}

static void client_wait(void)
{
    while (client.finished < client.connections)
        client_turn();
}

static bool told(const char *word)
{
    char line[64];
    return fgets(line, sizeof line, stdin) && !strncmp(line, word, strlen(word));
}

static int later(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void client_report(uint64_t started)
{
    say("{\"messages\": %ld, \"seconds\": %.6f", client.messages * client.connections, (double)(now() - started) / 1e9);
    if (client.mode == LATENCY) {
        qsort(client.times, (size_t)client.taken, sizeof *client.times, later);
        say(", \"p50\": %.3f, \"p99\": %.3f", client.times[client.taken / 2], client.times[client.taken * 99 / 100]);
    }
    say("}\n");
}

static int client_run(void)
{
    client.messages = client.messages / client.connections ? client.messages / client.connections : 1;
    client.times = must(malloc(sizeof *client.times * (size_t)(client.messages * client.connections)));
    client_open(client.connections);
    say("ready\n");
    if (!told("go"))
        return 1;
    client.deadline = now() + PATIENCE * 1000000000ull;
    uint64_t started = now();
    for (int i = 0; i < client.connections; i++)
        client_begin(client.all[i]);
    client_wait();
    client_report(started);
    if (!told("bye"))
        return 1;
    client.finished = 0;
    for (int i = 0; i < client.connections; i++) {
        struct conn *c = client.all[i];
        c->finished = false;
        frame(c, "DISCONNECT\nreceipt:bye\n");
        flush(c);
    }
    client_wait();
    say("{\"messages\": %ld}\n", client.messages * client.connections);
    return 0;
}

/* One message on each connection, and its echo. */
static void client_echo(void)
{
    client.deadline = now() + PATIENCE * 1000000000ull;
    client.times = must(realloc(client.times, (size_t)client.opened * sizeof *client.times));
    client.taken = 0;
    for (int i = 0; i < client.opened; i++) {
        struct conn *c = client.all[i];
        if (!c->batch)
            c->batch = client_sends(c, 0);
        c->quota++;
        c->limit++;
        flush(c);
    }
    while (client.taken < client.opened)
        client_turn();
    say("{\"messages\": %ld, \"seconds\": %.6f, \"times\": [", client.taken, (double)(now() - client.since) / 1e9);
    for (long i = 0; i < client.taken; i++)
        printf("%s%.3f", i ? ", " : "", client.times[i]);
    say("]}\n");
}

/* What is asked for line by line. */
static int client_steps(void)
{
    char line[64];
    int connections;
    unsigned long long since;
    client.same |= client.mode == ECHOES;       /* another broker begins to number anew */
    while (fgets(line, sizeof line, stdin))
        if (sscanf(line, "open %d", &connections) == 1) {
            int before = client.opened;
            uint64_t started = now();
            client_open(connections);
            say("{\"messages\": %d, \"seconds\": %.6f}\n", connections - before, (double)(now() - started) / 1e9);
        } else if (client.mode == ECHOES && sscanf(line, "send %llu", &since) == 1) {
            client.since = since;
            client_echo();
        } else
            die("'%s' is not known", line);
    return 0;
}

static int one_of(const char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(words[i], word))
            return i;
    die("'%s' is not known", word);
}

int main(int argc, char **argv)
{
    setvbuf(stdin, NULL, _IONBF, 0);
    epoll_fd = epoll_create1(0);
    if (argc == 2 && !strcmp(argv[1], "broker"))
        return broker();
    if (argc < 3 || strcmp(argv[1], "client"))
        die("usage: load broker | load client MODE -p PORT ...");
    client.mode = (enum mode)one_of(MODES, ECHOES + 1, argv[2]);
    for (int option; (option = getopt(argc - 2, argv + 2, "p:v:c:n:b:iea:")) != -1;)
        switch (option) {
        case 'p': client.port = atoi(optarg); break;
        case 'v': client.version = (enum version)one_of(VERSIONS, 3, optarg); break;
        case 'c': client.connections = atoi(optarg); break;
        case 'n': client.messages = atol(optarg); break;
        case 'b': client.body = atol(optarg); break;
        case 'i': client.same = true; break;
        case 'e': client.colons = true; break;
        case 'a': client.acks = optarg; break;
        default: die("usage: load client MODE -p PORT -v VERSION -c CONNECTIONS -n MESSAGES -b BODY [-i] [-e] [-a ACK]");
        }
    if (client.acks && (client.same || client.mode != SOURCE))
        die("-a goes with source, and without -i");
    role = (struct role){client_head, client_frame, client_counted, client_closed};
    return client.mode >= IDLE ? client_steps() : client_run();
}

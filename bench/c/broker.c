/* The null broker: it counts what is sent to it, streams what is asked for, and looks that all is as it was sent. */

#include "load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What it is, by listener. The products differ in what their receipts promise. */
static const struct product {
    enum version version;
    const char *server;
} PRODUCTS[] = {
    {V10, NULL}, {V11, "null-broker/1"}, {V12, "null-broker/1"}, {V12, "ActiveMQ/5.17.2"}, {V12, "RabbitMQ/3.10.8"}};

/* The MESSAGEs of a subscription: its number is in the message-id, in `seq` and perhaps in `ack`. */
static struct batch *messages(const struct conn *c, const char *subscription, bool same, bool colons, long body,
    long count, size_t piece)
{
    char text[HEAD_ROOM], id[TEXT_ROOM], named[TEXT_ROOM + 16] = "", acked[TEXT_ROOM + 16] = "";
    const char *number = same ? "1" : NUMBER;
    escaped(id, c->version, colons ? ID_COLONS : ID_PLAIN);
    if (*subscription)
        snprintf(named, sizeof named, "subscription:%s\n", subscription);
    if (c->ack_mode && c->version == V12)
        snprintf(acked, sizeof acked, "ack:%s%s\n", id, number);
    snprintf(text, sizeof text,
        "MESSAGE\n%sdestination:%s\nmessage-id:%s%s\nredelivered:false\n%scontent-type:text/plain\n"
        "seq:%s\ncorrelation-id:c0ffee-%s\npriority:4\ncontent-length:" LENGTH "\n\n",
        named, c->destination, id, number, acked, number, same ? "1" : CODE);
    return new_batch(text, body, "\n", count, piece);   /* RabbitMQ and ActiveMQ both put an LF after NUL */
}

static void complain(struct conn *c, const char *reason)
{
    if (!c->bad++)
        c->reason = reason;
}

static void broker_send(struct conn *c, const struct head *head)
{
    struct span seq = header(head, "seq"), note = header(head, "note"), code = header(head, "correlation-id");
    char expected[TEXT_ROOM];
    c->action = strcmp(c->destination, "/queue/echo") ? COUNT : ECHO;
    if (c->action == COUNT && strcmp(c->destination, "/queue/sink"))
        complain(c, "SEND to an unknown destination");
    if (head->body < 0)
        complain(c, "SEND without content-length");
    if (seq.at) {
        memcpy(expected, "c0ffee-", 7);
        code_of(expected + 7, c->frames);
        if (number_at_end(seq) != c->frames || !code.at || !is(code, expected))
            complain(c, "SEND out of sequence");
    }
    if (note.at && !is(note, escaped(expected, c->version, NOTE)))
        complain(c, "a value was not escaped as this version escapes");
    if (c->action == ECHO && !c->batch)
        c->batch = messages(c, c->echo, !seq.at, note.at != NULL, head->body, ENDLESS, 0);
    if (!*c->receipt) {
        learn(&c->shape, head, c->frames, seq.at != NULL, seq.at != NULL);
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
        c->ack_mode = is(header(head, "ack"), "client") || is(header(head, "ack"), "client-individual");
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

static void broker_tell(struct conn *c)
{
    frame(c, "MESSAGE\n%s%s%sdestination:%s\nmessage-id:tally\ncount:%ld\noctets:%ld\nacks:%ld\nsessions:%ld\nbad:%ld\n"
        "reason:%s\n", *c->subscription ? "subscription:" : "", c->subscription, *c->subscription ? "\n" : "",
        c->destination, c->frames, c->octets, c->acks, c->listener->greeted, c->bad, c->bad ? c->reason : "none");
}

/* Tell who asked when its listener has no other connection any more. */
static void broker_alone(struct conn *listener)
{
    struct conn *c = listener->lonely;
    if (!c || listener->open > 1 + c->others)
        return;
    broker_tell(c);
    watch(c, EPOLLIN | EPOLLOUT);
    listener->lonely = NULL;
    listener->greeted = 0;
}

static void broker_subscribed(struct conn *c)
{
    long count, body, piece;
    char flags[8];
    if (!strcmp(c->destination, "/queue/count"))
        broker_tell(c);
    else if (sscanf(c->destination, "/queue/alone/%d", &c->others) == 1) {
        c->listener->lonely = c;
        broker_alone(c->listener);
    } else if (!strcmp(c->destination, "/queue/echo")) {
        c->echoes = true;
        strcpy(c->echo, c->subscription);
    } else if (sscanf(c->destination, "/queue/source/%ld/%ld/%ld/%7s", &count, &body, &piece, flags) == 4 && !c->batch) {
        c->batch = messages(c, c->subscription, strchr(flags, 'i'), strchr(flags, 'e'), body, count, (size_t)piece);
        c->limit = c->ack_mode ? WINDOW : count;
    } else
        complain(c, "SUBSCRIBE to an unknown destination");
}

static void broker_connecting(struct conn *c)
{
    const char *version = VERSIONS[c->version];
    c->listener->greeted++;
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
    if (*c->receipt) {
        append(c, "RECEIPT\nreceipt-id:", 19);
        append(c, c->receipt, strlen(c->receipt));
        append(c, "\n\n", 3);
    }
}

static bool broker_closed(struct conn *c)
{
    struct conn *listener = c->listener;
    if (listener->lonely == c)
        listener->lonely = NULL;
    release(c);
    free(c);
    listener->open--;
    broker_alone(listener);
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
        c->listener = listener;
        listener->open++;
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
    listener->listener = listener;
    watch(listener, EPOLLIN);
    say("%d%c", ntohs(address.sin_port), after);
}

int broker(void)
{
    role = (struct role){broker_head, broker_frame, broker_counted, broker_closed, NULL};
    struct epoll_event events[EVENTS], input_event = {.events = EPOLLIN};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &input_event))
        die("standard input must be a pipe");
    const size_t last = sizeof PRODUCTS / sizeof *PRODUCTS - 1;
    for (size_t i = 0; i <= last; i++)
        broker_listen(&PRODUCTS[i], i == last ? '\n' : ' ');
    for (;;) {
        int count = events_of(events, -1);
        for (int i = 0; i < count; i++) {
            struct conn *c = events[i].data.ptr;
            char octet;
            if (!c) {
                if (read(STDIN_FILENO, &octet, 1) <= 0)
                    return 0;
            } else if (c->listener == c)
                broker_accept(c);
            else if (!(events[i].events & ~(uint32_t)EPOLLOUT) || receive(c))
                flush(c);
        }
    }
}

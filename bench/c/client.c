/* The client: connections that send and take, and what is looked at of the answers. */

#include "load.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct client client = {.version = V12, .connections = 1, .messages = 1, .body = 100, .piece = 1};

/* ---------------------------------------------------------------- what every mode does */

void client_greeted(struct conn *c, const struct head *head)
{
    struct span version = header(head, "version");
    if (c->version == V10 ? version.at && !is(version, "1.0") : !is(version, VERSIONS[c->version]))
        die("CONNECTED with version '%.*s' to a client of %s", (int)version.size, version.at ? version.at : "",
            VERSIONS[c->version]);
    c->action = GREETED;
}

void client_refused(const struct head *head)
{
    struct span message = header(head, "message");
    die("the client got %.*s: %.*s", (int)(head->command.size < 40 ? head->command.size : 40), head->command.at,
        (int)message.size, message.at ? message.at : "");
}

void client_patience(void)
{
    client.deadline = now() + PATIENCE * 1000000000ull;
}

bool client_told(const char *word)
{
    char line[64];
    return fgets(line, sizeof line, stdin) && !strncmp(line, word, strlen(word));
}

struct conn *client_connect(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)client.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        die("connect: %s", strerror(errno));
    if (client.web)
        web_open(fd, client.port);
    set_up(fd);
    struct conn *c = new_conn(fd, client.version);
    c->over_web = client.web;
    if (c->version == V10)
        frame(c, "CONNECT\nlogin:bench\npasscode:bench\n");
    else if (client.beats)
        frame(c, "CONNECT\naccept-version:%s\nhost:/\nheart-beat:0,%d\n", VERSIONS[c->version], client.beats);
    else
        frame(c, "CONNECT\naccept-version:%s\nhost:/\nlogin:bench\npasscode:bench\n", VERSIONS[c->version]);
    flush(c);
    return c;
}

void client_turn(void)
{
    struct epoll_event events[EVENTS];
    int count = events_of(events, 1000);
    for (int i = 0; i < count; i++) {
        struct conn *c = events[i].data.ptr;
        if ((events[i].events & ~(uint32_t)EPOLLOUT) && !receive(c))
            continue;
        if (c->fd >= 0)
            flush(c);
        else if (client.mode == SESSIONS)
            free(c);
    }
    if (now() > client.deadline)
        die("after %d seconds: %d of %d connections stand, %d finished, %ld messages came back", PATIENCE,
            client.standing, client.opened, client.finished, client.taken);
}

void client_open(int connections)
{
    client_patience();
    client.all = must(realloc(client.all, (size_t)connections * sizeof *client.all));
    while (client.standing < connections) {
        while (client.opened < connections && client.opened - client.standing < HANDSHAKES)
            client.all[client.opened++] = client_connect();
        client_turn();
    }
}

struct batch *client_sends(const struct conn *c, long count, size_t piece)
{
    char text[HEAD_ROOM], note[TEXT_ROOM];
    bool same = client.mode == ECHOES;      /* another broker begins to number anew */
    snprintf(text, sizeof text, "SEND\ndestination:/queue/%s\n%scontent-type:text/plain\n%scorrelation-id:c0ffee-%s\n"
        "priority:4\n%s%s%scontent-length:" LENGTH "\n\n", client.mode == LOOP || client.mode == ECHOES ? "echo" : "sink",
        client.mode == LATENCY ? "receipt:r-" NUMBER "\n" : "", same ? "" : "seq:" NUMBER "\n", same ? "1" : CODE,
        client.colons ? "note:" : "", client.colons ? escaped(note, c->version, NOTE) : "", client.colons ? "\n" : "");
    return new_batch(text, client.body, "", count, piece);
}

/* ---------------------------------------------------------------- what comes */

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
    if (client.mode != SOURCE && (atol(count) != c->quota || atol(octets) != c->octets))
        die("%ld messages of %ld octets were sent, the broker had %s and %s octets", c->quota, c->octets, count, octets);
}

static void client_message(struct conn *c, const struct head *head)
{
    struct span id = header(head, "message-id"), seq = header(head, "seq"), code = header(head, "correlation-id");
    const char *prefix = client.colons ? ID_COLONS : ID_PLAIN;
    char expected[TEXT_ROOM];
    if (header(head, "count").at) {
        client_tally(c, head);
        return;
    }
    c->action = TAKEN;
    escaped(expected, c->version, prefix);
    size_t size = strlen(expected);
    if (id.size <= size || memcmp(id.at, expected, size))
        die("message-id '%.*s' instead of %s and a number", (int)id.size, id.at ? id.at : "", expected);
    if (client.mode != ECHOES) {
        memcpy(expected, "c0ffee-", 7);
        code_of(expected + 7, c->frames);
        if (number_at_end(id) != c->frames || number_at_end(seq) != c->frames || !code.at || !is(code, expected))
            die("message %ld came as number %ld", c->frames, number_at_end(id));
    }
    if (head->body < client.body)
        die("a MESSAGE of %ld octets came instead of %ld", head->body, client.body);
    if (c->version != V10 && !is(header(head, "subscription"), "0"))
        die("a MESSAGE of an unknown subscription");
    if (client.acks) {
        struct span ack = c->version == V12 ? header(head, "ack") : id;
        if (!ack.at)
            die("a MESSAGE without an ack header");
        keep(c->id, ack);
    } else if (client.mode != ECHOES) {
        learn(&c->shape, head, c->frames, 2, 1);
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
    } else if (is(head->command, "CONNECTED"))
        client_greeted(c, head);
    else
        client_refused(head);
}

static void client_stands(struct conn *c)
{
    c->standing = true;
    client.standing++;
}

static void client_ack(struct conn *c)
{
    static const char *const STARTS[] = {"ACK\nmessage-id:", "ACK\nsubscription:0\nmessage-id:", "ACK\nid:"};
    append(c, STARTS[c->version], strlen(STARTS[c->version]));
    append(c, c->id, strlen(c->id));
    append(c, "\n\n", 3);
    if (client.piece == 1)
        flush(c);
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
    if (client.acks)
        client_ack(c);
    if (c->frames < c->quota || client.mode == ECHOES)
        return;
    if (client.mode == LOOP)
        c->octets = c->batch->octets;
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
    snprintf(expected, sizeof expected, "r-%ld", c->frames);
    if (client.mode != LATENCY || strcmp(c->receipt, expected))
        die("RECEIPT '%s' instead of '%s'", c->receipt, expected);
    client.times[client.taken++] = (double)(at - c->sent_at) / 1000;
    c->sent_at = at;
    c->limit++;
    if (++c->frames == c->quota) {
        c->octets = c->batch->octets;
        client_ask(c);
    }
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

const struct role CLIENT = {client_head, client_frame, client_counted, client_closed};

/* ---------------------------------------------------------------- streams, loops and round trips */

/* What the connections do when the clock has started. */
static void client_begin(struct conn *c)
{
    c->quota = client.messages;
    c->sent_at = now();
    if (client.mode == SOURCE) {
        frame(c, "SUBSCRIBE\n%sdestination:/queue/source/%ld/%ld/%zu/%s-\nack:%s\n", c->version == V10 ? "" : "id:0\n",
            c->quota, client.body, client.piece, client.colons ? "e" : "", client.acks ? client.acks : "auto");
    } else {
        c->batch = client_sends(c, c->quota, client.piece);
        c->limit = client.mode == SINK ? c->quota : 1;
    }
    watch(c, EPOLLIN | EPOLLOUT);
}

/* All was sent: ask what came. */
static void client_sent(struct conn *c)
{
    c->octets = c->batch->octets;
    free_batch(c->batch);
    c->batch = NULL;
    client_ask(c);
    flush(c);
}

static void client_wait(void)
{
    while (client.finished < client.connections) {
        client_turn();
        for (int i = 0; client.mode == SINK && i < client.connections; i++)
            if (client.all[i]->batch && batch_over(client.all[i]->batch))
                client_sent(client.all[i]);
    }
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

int client_run(void)
{
    role = CLIENT;
    client.messages = client.messages / client.connections ? client.messages / client.connections : 1;
    client.times = must(malloc(sizeof *client.times * (size_t)(client.messages * client.connections)));
    client_open(client.connections);
    say("ready\n");
    if (!client_told("go"))
        return 1;
    client_patience();
    uint64_t started = now();
    for (int i = 0; i < client.connections; i++)
        client_begin(client.all[i]);
    client_wait();
    client_report(started);
    if (!client_told("bye"))
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

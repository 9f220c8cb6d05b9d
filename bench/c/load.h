/* What the parts of the load share: frames read and made, connections, and the two sides that talk over them. */

#ifndef LOAD_H
#define LOAD_H

#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

enum {
    READ_SIZE = 256 * 1024,
    HEAD_ROOM = 4096,           /* the longest head that either side takes */
    TEXT_ROOM = 256,            /* the longest header value that is kept */
    LINES = 32,                 /* header lines that either side takes */
    WINDOW = 256,               /* MESSAGEs that may wait for their ACK */
    HANDSHAKES = 32,            /* connections that may be in their handshake at once; Twisted's backlog is 50 */
    SAMPLE = 64,                /* of so many frames one is read in full */
    DIGITS = 8,                 /* of a number, at most */
    ENDLESS = 99999999,
    EVENTS = 256,
    PATIENCE = 120              /* seconds that one run may take */
};

#define NOTE "12:30:00"         /* the value to escape */
#define ID_PLAIN "T_0@@session-bench@@"
#define ID_COLONS "ID:bench-1:"

enum version { V10, V11, V12 };
extern const char *const VERSIONS[];

/* ---- main.c */

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);
void *must(void *memory);
uint64_t now(void);             /* nanoseconds */

/* ---- head.c: heads read */

struct span {
    const char *at;             /* NULL: there is none */
    size_t size;
};

struct head {
    struct span command;
    struct span lines[LINES];
    int count;
    const char *end;            /* after the blank line */
    long body;                  /* content-length, -1 when absent */
};

bool read_head(struct head *head, const char *at, const char *end);     /* false: it is not all there */
struct span header(const struct head *head, const char *name);          /* the first so named */
bool is(struct span span, const char *text);
void keep(char *text, struct span span);                                /* at most TEXT_ROOM, with a NUL */
const char *escaped(char *text, enum version version, const char *value);   /* as that version writes a value */
long number_at_end(struct span value);                                  /* -1: there is none */

/* ---- batch.c: frames made by number. Frame N has N in decimal wherever the head says NUMBER, a code of N of one to
 * eight digits wherever it says CODE, so that no two heads are alike in octets or in length. The body makes up for it:
 * all frames of a batch have one size, and content-lengths that differ. */

#define NUMBER "\1"
#define CODE "\2"
#define LENGTH "\3"

enum { PARTS = 8 };

struct batch {
    char *data;
    size_t frame;               /* octets in a frame */
    long room;                  /* frames that fit into `data` */
    struct { char text[HEAD_ROOM / 4]; size_t size; char mark; } parts[PARTS];
    int count;
    size_t fixed;               /* octets of the head that do not vary */
    int numbers, codes;
    size_t tail;
    long next, last;            /* number of the next frame, and of the one after the last */
    size_t at, ready;           /* octets of `data` written, and to be written */
    long octets;                /* of the bodies of the frames that were made */
};

/* Bodies have at least `body` octets; `tail` follows NUL; `piece` is how much one write carries, a frame at least. */
struct batch *new_batch(const char *head, long body, const char *tail, long count, size_t piece);
bool fill(struct batch *batch, long limit);     /* make the next ones; false: none is left, or none before `limit` */
bool batch_over(const struct batch *batch);
void free_batch(struct batch *batch);
size_t code_of(char *text, long number);        /* its size; `text` has room for DIGITS and a NUL */
size_t width(long number, int numbers, int codes);

/* ---- conn.c: connections */

/* What may be counted without being read: a frame that looks like the last one that was, but for its number. */
struct shape {
    size_t total;               /* 0: none */
    size_t head;                /* without what varies */
    int numbers, codes;
    size_t line;                /* of content-length, the last one */
    char command[4];
};

enum action { NOTHING, COUNT, ECHO, SUBSCRIBED, ACKED, CONNECTING, GONE, GREETED, TAKEN, ANSWERED, TALLIED };

/* A connection's WebSocket. */
struct web {
    unsigned char head[14];     /* of the message that is being written */
    size_t head_at, head_size;
    size_t promised;            /* octets of it that are to follow */
    unsigned char begun[10];    /* the head of the message that comes */
    size_t got;
    size_t left;                /* octets of it to come */
};

struct conn {
    int fd;
    bool over_web;              /* it speaks WebSocket */
    struct web web;
    enum version version;
    struct conn *listener;      /* where the broker accepted it; its own is itself */
    const char *server;         /* what the broker calls itself */
    bool standing, closing, finished;
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
    long open, greeted;         /* a listener's connections, and CONNECTs since it was asked */
    struct conn *lonely;        /* who wants to know when the listener's other connections are gone */
};

/* What a side of the conversation does. */
struct role {
    void (*head)(struct conn *c, const struct head *head);      /* a head came; say what to do when it is complete */
    void (*frame)(struct conn *c);                              /* the frame is complete */
    void (*counted)(struct conn *c);                            /* one more of the same shape */
    bool (*closed)(struct conn *c);                             /* always false */
};
extern struct role role;
extern int epoll_fd;

/* As `epoll_wait`, but awake for a millisecond before it sleeps: on loopback whoever wakes a peer is charged for it, which
 * no network does, and how often that is depends on who happens to be ahead. */
int events_of(struct epoll_event *events, int patience);

struct conn *new_conn(int fd, enum version version);
void release(struct conn *c);                   /* close it; the memory stays */
void set_up(int fd);
void watch(struct conn *c, uint32_t interest);
void append(struct conn *c, const char *data, size_t size);
__attribute__((format(printf, 2, 3))) void frame(struct conn *c, const char *format, ...);     /* without a body */
bool flush(struct conn *c);                     /* write what the peer takes; false: the connection is gone */
bool receive(struct conn *c);                   /* one read; false: the connection is gone */
void learn(struct shape *shape, const struct head *head, long number, int numbers, int codes);

/* ---- web.c */

void web_open(int fd, int port);
ssize_t web_send(struct conn *c, const char *data, size_t size);
size_t web_strip(struct conn *c, char *data, size_t size);

/* ---- broker.c, client.c, sessions.c, steps.c */

enum mode { SINK, SOURCE, LOOP, LATENCY, SESSIONS, IDLE, ECHOES };

struct client {
    enum mode mode;
    enum version version;
    int port, connections;
    long messages, body;
    size_t piece;               /* octets that one write carries; at least a frame */
    bool colons, polite, web;
    int beats;                  /* milliseconds between the heart-beats it asks for; 0: none */
    const char *acks;           /* the ack mode; NULL: auto */
    struct conn **all;
    int opened, standing, finished;
    long taken;
    double *times;              /* microseconds, of `taken` round trips */
    uint64_t since;             /* when the clock of echoes began to run */
    uint64_t deadline;
};
extern struct client client;

int broker(void);
int client_run(void);
int client_sessions(void);
int client_steps(void);

extern const struct role CLIENT;
struct conn *client_connect(void);
void client_open(int connections);
void client_turn(void);
void client_patience(void);                     /* the clock of PATIENCE begins again */
bool client_told(const char *word);             /* the next line of standard input */
struct batch *client_sends(const struct conn *c, long count, size_t piece);
void client_greeted(struct conn *c, const struct head *head);
__attribute__((noreturn)) void client_refused(const struct head *head);

#endif

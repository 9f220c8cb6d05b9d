/* The load: a STOMP client that sends, takes and counts, and a null broker that answers it.
 *
 *   load broker
 *       Prints "PORT10 PORT11 PORT12 ACTIVEMQ RABBITMQ", five listeners on 127.0.0.1 of which each speaks one
 *       version only, the last two 1.2 under the names of those products, and serves until its standard input ends.
 *   load client MODE -p PORT -v VERSION -c CONNECTIONS -n MESSAGES -b BODY [-w OCTETS] [-e] [-a ACK]
 *       MODE is sink, source, loop or latency. Prints "ready" when all connections stand, runs at "go",
 *       prints one line of JSON, and at "bye" disconnects, looks that nothing came too much and prints another.
 *   load client sessions -p PORT -v VERSION -c CONNECTIONS -n SESSIONS [-d]
 *       The same, but what is counted is sessions, CONNECTIONS of them at a time: connect, CONNECT, CONNECTED, close.
 *       The run is over when the broker has none of them any more. -d: DISCONNECT and its RECEIPT before the close.
 *   load client idle -p PORT -v VERSION [-h MILLISECONDS]
 *       "open N" on standard input opens connections until there are N and prints a line of JSON. -h: they ask for a
 *       heart-beat so often, which is left unread.
 *   load client echo -p PORT -v VERSION -b BODY
 *       As idle, but each connection subscribes to its echo. "send SINCE" SENDs one message on each, awaits all echoes
 *       and prints a line of JSON with the microseconds since SINCE (nanoseconds of CLOCK_MONOTONIC) of each.
 *
 *   -w  what one write carries, on both sides, when there is so much to send; 1 (the default): one frame a write
 *   -e  one value to escape in every SEND and one id to unescape in every MESSAGE
 *   -u  the client speaks WebSocket, which is asked for at /ws
 *   -a  source only: this is the ack mode, client or client-individual, and each message has an ACK
 *
 * What the broker does with a frame is in its destination:
 *   /queue/sink                            count it; `receipt` is answered
 *   /queue/echo                            answer with a MESSAGE of the same size to this connection's subscription
 *   /queue/source/COUNT/BODY/OCTETS/FLAGS  on SUBSCRIBE: stream MESSAGEs (OCTETS: -w; FLAGS: e as above, - for none)
 *   /queue/count                           on SUBSCRIBE: one MESSAGE that says what this connection has sent
 *   /queue/alone                           on SUBSCRIBE: the same, when no other connection of the listener is left
 *
 * No two heads are alike: each SEND and each MESSAGE has its number in a header of its own (MESSAGEs in their ids, too)
 * and a code of that number in `correlation-id`, both in the middle of the head and of widths that vary.
 *
 * Each side counts every frame, and looks at every SAMPLEth in full: its number, its code, its escapes, its subscription;
 * of MESSAGEs that have an ACK, at each. Between samples a frame that has the last one's shape (same command, blank line,
 * content-length and NUL where its number says) is counted without reading its head again, so that the load is
 * cheap beside what it measures.
 */

#include "load.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const VERSIONS[] = {"1.0", "1.1", "1.2"};
static const char *const MODES[] = {"sink", "source", "loop", "latency", "sessions", "idle", "echo"};

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    fflush(stdout);
}

void die(const char *format, ...)
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

void *must(void *memory)
{
    if (!memory)
        die("out of memory");
    return memory;
}

uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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
    for (int option; (option = getopt(argc - 2, argv + 2, "p:v:c:n:b:w:ea:dh:u")) != -1;)
        switch (option) {
        case 'p': client.port = atoi(optarg); break;
        case 'v': client.version = (enum version)one_of(VERSIONS, 3, optarg); break;
        case 'c': client.connections = atoi(optarg); break;
        case 'n': client.messages = atol(optarg); break;
        case 'b': client.body = atol(optarg); break;
        case 'w': client.piece = (size_t)atol(optarg); break;
        case 'e': client.colons = true; break;
        case 'a': client.acks = optarg; break;
        case 'h': client.beats = atoi(optarg); break;
        case 'd': client.polite = true; break;
        case 'u': client.web = true; break;
        default: die("an option is not known; bench/c/main.c says which there are");
        }
    if (client.acks && client.mode != SOURCE)
        die("-a goes with source");
    if (client.mode == SESSIONS)
        return client_sessions();
    return client.mode > SESSIONS ? client_steps() : client_run();
}

/* The client that is told step by step: connections that stand idle, and echoes timed one by one. */

#include "load.h"

#include <stdio.h>
#include <stdlib.h>

/* One message on each connection, and its echo. */
static void client_echo(void)
{
    client_patience();
    client.times = must(realloc(client.times, (size_t)client.opened * sizeof *client.times));
    client.taken = 0;
    for (int i = 0; i < client.opened; i++) {
        struct conn *c = client.all[i];
        if (!c->batch)
            c->batch = client_sends(c, ENDLESS, 1);
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

int client_steps(void)
{
    char line[64];
    int connections;
    unsigned long long since;
    role = CLIENT;
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

/* Sessions that only come and go. One that stands the whole time asks the broker when the others are gone, and how many
 * there were. */

#include "load.h"

#include <stdlib.h>
#include <string.h>

static struct conn *witness;
static int wanted, asked, told;
static long witnessed;

static void session_head(struct conn *c, const struct head *head)
{
    if (is(head->command, "CONNECTED"))
        client_greeted(c, head);
    else if (c == witness && is(head->command, "MESSAGE")) {
        char sessions[TEXT_ROOM];
        keep(sessions, header(head, "sessions"));
        witnessed = atol(sessions);
        c->action = TALLIED;
    } else if (c != witness && is(head->command, "RECEIPT") && is(header(head, "receipt-id"), "bye"))
        c->action = GONE;
    else
        client_refused(head);
}

static void session_frame(struct conn *c)
{
    if (c->action == TALLIED)
        told++;
    else if (c == witness)
        c->standing = true;
    else if (c->action == GREETED && client.polite)
        client_leave(c);
    else {
        client.finished++;
        release(c);
    }
}

static bool session_closed(struct conn *c)
{
    if (c->leaving) {
        client.finished++;
        release(c);
        return false;
    }
    die("a connection was closed after %d of %d sessions%s", client.finished, wanted, c == witness ? ", the witness" : "");
}

/* Until the broker has no session but the witness. */
static void session_alone(void)
{
    if (client.login)
        return;         /* a broker that is not ours cannot tell */
    frame(witness, "SUBSCRIBE\nid:%d\ndestination:/queue/alone/%d\n", asked++, client.others);
    flush(witness);
    while (told < asked)
        client_turn();
}

int client_sessions(void)
{
    role = (struct role){session_head, session_frame, NULL, session_closed, client_connected};
    wanted = (int)client.messages;
    client_patience();
    witness = client_connect();
    while (!witness->standing)
        client_turn();
    session_alone();
    say("ready\n");
    if (!client_told("go"))
        return 1;
    client_patience();
    uint64_t started = now();
    while (client.finished < wanted) {
        for (; client.opened < wanted && client.opened - client.finished < client.connections; client.opened++)
            client_connect();
        client_turn();
    }
    session_alone();
    if (!client.login && witnessed != wanted)
        die("there were %d sessions, the broker had %ld", wanted, witnessed);
    say("{\"messages\": %d, \"seconds\": %.6f}\n", wanted, (double)(now() - started) / 1e9);
    if (!client_told("bye"))
        return 1;
    say("{\"messages\": %d}\n", wanted);
    return 0;
}

"""A relay between STOMP clients and STOMP brokers. The words that the code uses:

Frame
    One STOMP message on the wire: a command, headers, perhaps a body. It is a view of the bytes that arrived;
    a header is looked up only when somebody asks for it.
Dialect
    What one STOMP version says about frames, as a record of facts: which commands, which escapes, how a
    delivery is named. Code reads the fact and never compares version numbers.
Leg
    One STOMP connection, from the first byte to the last, without the socket. *Downstream* is the leg to a
    client, *upstream* the leg to a broker. Each negotiates its own version and its own heart-beats.
Session
    What a client believes it has: subscriptions, open transactions, receipts it waits for. It belongs to no
    leg, so that it can outlive one.
Bridge
    The way from one dialect to another: the few steps whose facts differ. Between equal dialects, none.
Upstream
    A named set of brokers: their groups, the credentials, the virtual host.
Group
    Brokers under one policy, of which one serves a session at a time. A *fan-out* has several groups.
Link
    A session's place in one group: the broker that it has there, or the search for one.
Broker
    One address at which something answers CONNECT. The *embedded* broker is ours and lives in memory.
Route
    The rule that says which upstream serves a destination.
Relay
    The join of one downstream leg, one session and the legs of its links. It answers every input with effects.
Ledger
    The deliveries that a client has received and not yet acknowledged, under the names each side gives them.
Journal
    What passed through a relay, on disk: *segments*, files of *blocks*, each the frames of one chunk or one event.
Effect
    A request to the outside, as a value: send these bytes, open that broker, close, wake me then, note this.
    The core returns effects; only the service performs them.

The layers, each importing only those before it: ``wire``; ``session``; ``relay``, ``broker`` and ``journal``;
``config``; ``service`` (Twisted) and ``pipeline`` (Spark), which do not know each other; ``explain`` and ``remote``;
and at the edge ``tap``, ``broker_tap`` and ``cli``.
"""

__version__ = "0.1.0"

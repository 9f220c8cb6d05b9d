"""A relay between STOMP clients and STOMP brokers. The words that the code uses:

Frame         one STOMP message on the wire, as offsets into the bytes that arrived; headers are read when asked for
Dialect       what one STOMP version does, as a record of facts: commands, escapes, how a delivery is named
Leg           one STOMP connection without its socket: *downstream* to a client, *upstream* to a broker
Session       what a client believes it has: subscriptions, transactions, receipts owed; it outlives upstream legs
Ledger        the deliveries that a client has not acknowledged, under the names that each side gives them
Relay         one client's leg, its session and its links; every input returns effects
Effect        a request to the outside, as a value: Send, Open, Close, Pause, Resume, Wake, Note; put in an *Outbox*
Bridge        the way from one dialect to another: the steps whose facts differ; between equal dialects, none
Listener      where clients come in, and how they are treated
Upstream      a named set of brokers: their groups, the credentials, the virtual host
Group         brokers under one policy, of which one serves a session at a time; a *fan-out* has several groups
Broker        one address at which something answers CONNECT, with its *Health* and its product's *Profile*
Route         the rule that says which upstream serves a destination
Link          a session's connection to one group: the broker that it has there, or the search for one
Flow          what carries frames between a client and its links: *Single* with one, *Fanout* with several
Resender      sends a client's frames to a link's broker, and again to the next one; it keeps the *Unconfirmed*
Quorum        how many groups of a fan-out must confirm a frame before the client has its RECEIPT
Identity      who a client is, as the relay found out: a user and its groups; its *Claim* is what it says itself
Journal       what passed through a relay, on disk: *segments*, files of *blocks*, each a chunk's frames or an event

The layers, each importing only those before it: ``wire``; ``session``; ``relay``, ``broker`` and ``journal``;
``auth``; ``config``; ``service`` (Twisted) and ``pipeline`` (Spark), which do not know each other; ``explain`` and
``remote``; and at the edge ``tap``, ``broker_tap`` and ``cli``. docs/development.md shows the house and the ways
through it.
"""

import os

__version__ = "0.2.0"

PURE = os.environ.get("STOMPRELAY_PURE", "0") not in {"", "0"}
"""Whether the environment asks to use no compiled module. Only the speed depends on it."""

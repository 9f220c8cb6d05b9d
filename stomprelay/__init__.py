"""A relay between STOMP clients and STOMP brokers. The words that the code uses:

Frame         one STOMP message on the wire, as offsets into the bytes that arrived; headers are read when asked for
Dialect       what one STOMP version does, as a record of facts: commands, escapes, how a delivery is named
Leg           one STOMP connection without its socket: *downstream* to a client, *upstream* to a broker
Session       what a client believes it has: subscriptions, transactions, receipts owed; it outlives upstream legs
Ledger        the deliveries that a client has not acknowledged, with the names that client and broker use for them
Relay         one client's leg, its session and its links; every input returns effects
Effect        a request to the outside, as a value: Send, Open, Close, Pause, Resume, Wake, Note; put in an *Outbox*
Bridge        the steps that change frames of one dialect into frames of another; none between equal dialects
Listener      where clients connect, and how they are treated
Upstream      a named set of brokers: their groups, the credentials, the virtual host
Group         brokers under one policy, of which one serves a session at a time; a *fan-out* has several groups
Broker        one address at which something answers CONNECT, with its *Health* and its product's *Profile*
Route         the rule that says which upstream serves a destination
Link          a session's connection to one group: the broker that it has there, or the search for one
Flow          what carries frames between a client and its links: *Single* with one, *Fanout* with several
Resender      sends a client's frames to a link's broker, and again to the next broker; it keeps the *Unconfirmed*
Quorum        how many groups of a fan-out must confirm a frame before the client has its RECEIPT
Identity      who a client is, after the relay's check: a user and its groups; a *Claim* is what the CONNECT says
Journal       what passed through a relay, on disk: *segments*, files of *blocks*; a block has a chunk's frames or event

The layers, each importing only earlier ones: ``wire``; ``session``; ``relay``, ``broker`` and ``journal``; ``auth``;
``config``; ``move``; ``service`` (Twisted) and ``pipeline`` (Spark), which do not import each other; ``explain`` and
``remote``; and at last ``tap``, ``broker_tap`` and ``cli``. docs/development.md shows the layers, and the way of a
frame through them.
"""

import os

__version__ = "0.2.0"

PURE = os.environ.get("STOMPRELAY_PURE", "0") not in {"", "0"}
"""Whether the environment forbids compiled modules. Only the speed depends on this."""

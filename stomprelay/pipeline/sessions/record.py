"""The parts of frames and events that a `Conversation` needs: columns of `frames`, and some headers."""

from typing import Any, Final

from stomprelay.pipeline.spark.arrow import fields

Record = tuple[Any, ...]
"""A frame or event of one session: the values of `FIELDS`, in their order."""

FIELDS: Final = fields(
    "session string, turn int, segment string, position bigint, number bigint, ns bigint, relay string, "
    "client string, command string, upstream string, broker string, version string, destination string, "
    "subscription string, message_id string, ack string, receipt string, transaction string, "
    "body_size bigint, digest bigint, trace string, own string, copy string, redelivered string, "
    "kept string, event string, text string, facts string"
)
"""Name and type of each value. `turn` is the segment's number. `digest` is a digest of the kept body. `trace`, `copy`
and `redelivered` are headers. `own` is the publisher's id. `kept` (JSON) has the headers that `messages` keeps. All
other values are as in `frames`.
"""

SORTED: Final = ("session", "turn", "position", "number")
"""Columns to sort records by. Then the records of a session are in the order of the journal."""

REPEATING: Final = (
    "session",
    "segment",
    "relay",
    "client",
    "command",
    "upstream",
    "broker",
    "version",
    "destination",
    "subscription",
    "redelivered",
    "event",
)
"""Columns with few values."""

SAID: Final = -1
"""The `turn` of a row whose `text` is a session's state from the last batch. It sorts before all records."""

SESSION, TURN, SEGMENT, POSITION, NUMBER, NS = range(6)
RELAY, CLIENT, COMMAND, UPSTREAM, BROKER, VERSION = range(6, 12)
DESTINATION, SUBSCRIPTION, MESSAGE_ID, ACK, RECEIPT, TRANSACTION = range(12, 18)
BODY_SIZE, DIGEST, TRACE, OWN, COPY, REDELIVERED = range(18, 24)
KEPT, EVENT, TEXT, FACTS = range(24, 28)
"""The index of each value, in the order of `FIELDS`."""

NAMES: Final = tuple(name for name, _ in FIELDS)

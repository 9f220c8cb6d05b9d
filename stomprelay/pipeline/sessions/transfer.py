"""What one session shows of a message: that it was sent or delivered, and what the outcome was.

A transfer is a row of `FIELDS`. A `Conversation` makes transfers. A `TransferMatching` brings together the transfers
with the same `key`. If a batch ends before the RECEIPT, COMMIT or ACK of a transfer comes, another row with the same
key and place follows later.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

from stomprelay.pipeline.schema import TOPICS
from stomprelay.pipeline.spark.arrow import fields
from stomprelay.session.subscriptions import AUTO as _AUTO

Transfer = list[Any]
"""A row: the values of `FIELDS`, at the indices below. The values are filled in as the session goes on."""


class RowKind(IntEnum):
    """The kinds of rows of `FIELDS`, in the column `kind`."""

    SENT = 0
    SENT_MORE = 1
    """A continuation of a `SENT` row of an earlier batch: it has only the place and what became known since."""
    DELIVERED = 2
    DELIVERED_MORE = 3
    KEPT = 9
    """The state that a `TransferMatching` or a `SendOrder` keeps from batch to batch, in `TEXT`."""


LATER: Final = 4
"""This is added to the kind of a continuation that has nothing to write yet, and subtracted when more is known."""

FIELDS: Final = fields(
    "key string, ns bigint, segment string, position bigint, number bigint, kind int, relay string, "
    "session string, client string, destination string, size bigint, receipt string, transaction string, "
    "headers string, receipt_ns bigint, ended_ns bigint, aborted boolean, subscription string, "
    "since_ns bigint, upstream string, broker string, message_id string, mode string, copy string, "
    "again boolean, settled_ns bigint, known_ns bigint, outcome string, text string"
)
"""Name and type of each value.

`key` is the same in all transfers of a message. `ns` is the time of the SEND or MESSAGE. `segment`, `position` and
`number` are its place in the journal. In SENT rows, `receipt` was asked for and came at `receipt_ns`; `transaction`
ended at `ended_ns` and was `aborted` or not; `headers` are the kept headers as JSON. In DELIVERED rows, the
subscription began at `since_ns`; `copy` and `again` are the headers `relay-copy` and `redelivered`. The ACK, NACK or
return came at `settled_ns` and took effect at `known_ns`; in a transaction this is the time of the COMMIT.
"""

AUTO: Final = _AUTO.decode()
"""The `mode` of a subscription whose deliveries need no ACK."""

SORTED: Final = ("key", "ns", "segment", "position", "number", "kind")
"""The order for `Matchings`. Rows with the same time are ordered by their place."""

PHASED: Final = ("key", "ns", ("kind", 1), "segment", "position", "number", "kind")
"""The order for `JournalOrders`: SENDs before deliveries of the same time. `("kind", 1)`: without the last bit."""

REPEATING: Final = (
    "segment",
    "relay",
    "session",
    "client",
    "destination",
    "subscription",
    "upstream",
    "broker",
    "mode",
    "outcome",
)
"""Columns with few values."""


KEY, NS, SEGMENT, POSITION, NUMBER, KIND = range(6)
RELAY, SESSION, CLIENT, DESTINATION, SIZE = range(6, 11)
RECEIPT, TRANSACTION, HEADERS, RECEIPT_NS, ENDED_NS, ABORTED = range(11, 17)
SUBSCRIPTION, SINCE_NS, UPSTREAM, BROKER, MESSAGE_ID, MODE, COPY = range(17, 24)
AGAIN, SETTLED_NS, KNOWN_NS, OUTCOME, TEXT = range(24, 29)
"""The index of each value in a row: first values of all rows, then values of SENDs, then values of MESSAGEs."""

PARTS: Final = (
    (RECEIPT_NS, (RECEIPT_NS,)),
    (ENDED_NS, (ENDED_NS, ABORTED)),
    (KNOWN_NS, (KNOWN_NS, SETTLED_NS, OUTCOME)),
)
"""What becomes known later: the index of the time, and the indices of the values that become known then."""

BY_TRACE: Final = "t"
BY_ID: Final = "i"
BY_ORDER: Final = "o"
_APART: Final = "\x1f"


def key_of(
    trace: str | None, own: str | None, destination: str | None, size: int | None, digest: int | None
) -> str:
    """Return the key of a message. It is made from the relay's trace. Without a trace, it is made from the publisher's
    id and the destination, and without an id, from the destination and the body.
    """
    if trace is not None:
        return BY_TRACE + trace
    if own is not None:
        return f"{BY_ID}{own}{_APART}{destination}"
    return f"{BY_ORDER}{destination}{_APART}{size}{_APART}{digest}"


def is_topic(transfer: Sequence[Any]) -> bool:
    """Return whether the destination of a SEND or MESSAGE is a topic."""
    return (transfer[DESTINATION] or "").startswith(TOPICS)


def carried(key: str) -> str | None:
    """Return the trace or publisher's id in a key; None for a key made of destination and body."""
    if key[0] == BY_TRACE:
        return key[1:]
    return key[1:].rpartition(_APART)[0] if key[0] == BY_ID else None


def saying(kind: int, key: str, text: str) -> Transfer:
    """Return a row that is no transfer. Only these values are set."""
    row: Transfer = [None] * len(FIELDS)
    row[KEY], row[KIND], row[TEXT] = key, int(kind), text
    return row


def continuation(transfer: Transfer) -> Transfer:
    """Return a row that continues a transfer. It has its columns before `kind`, and the kind `..._MORE` + `LATER`."""
    row: Transfer = [None] * len(FIELDS)
    row[:KIND] = transfer[:KIND]
    row[KIND] = (transfer[KIND] & ~LATER | 1) + LATER
    return row

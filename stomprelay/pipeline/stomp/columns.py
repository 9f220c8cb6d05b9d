"""The rows of the source: each message becomes a row. `docs/pipeline.md` says what is in each column.

The column `headers` leaves out headers that have a column of their own, and `ack`, `content-length` and `subscription`,
which belong to the delivery. Bytes of headers that are not UTF-8 become `\\xNN`.
"""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from stomprelay.pipeline.spark import arrow
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Frame

STORED: Final = pa.schema(
    [
        pa.field("destination", pa.string(), nullable=False),
        pa.field("message_id", pa.string()),
        pa.field("subscription", pa.string(), nullable=False),
        pa.field("content_type", pa.string()),
        pa.field("headers", arrow.MAP, nullable=False),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("redelivered", pa.bool_(), nullable=False),
        pa.field("received", arrow.MICROSECONDS, nullable=False),
    ]
)
"""The columns of the spool's files. A row's sequence is not stored, because it follows from the row's place."""

DDL: Final = (
    "receiver int NOT NULL, sequence bigint NOT NULL, destination string NOT NULL, message_id string,"
    " subscription string NOT NULL, content_type string, headers map<string,string> NOT NULL,"
    " body binary NOT NULL, redelivered boolean NOT NULL, received timestamp NOT NULL"
)
"""The columns of the source, as a schema string for Spark."""
DDL_WITHOUT_HEADERS: Final = DDL.replace(" headers map<string,string> NOT NULL,", "")

_OWN: Final = frozenset(
    b"destination message-id subscription content-type content-length redelivered ack".split()
)


class Columns:
    """Collects messages by column. Call `read` for each message and pass its result to `add`; then call `batch`.
    `octets` counts the bytes of all bodies. `subscribed` has the destinations. The id of a subscription is the position
    of its destination in `subscribed`.
    """

    def __init__(self, subscribed: list[str], *, headers: bool) -> None:
        self._subscribed = [name.encode() for name in subscribed]
        self._numbers = {b"%d" % number: name for number, name in enumerate(self._subscribed)}
        self._headers = headers
        self._clear()

    def _clear(self) -> None:
        self.octets = 0
        self._rows: list[tuple[Any, ...]] = []
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self._ends: list[int] = [0]

    def __len__(self) -> int:
        return len(self._rows)

    @staticmethod
    def read(frame: Frame) -> dict[bytes, bytes]:
        """Return the headers of a MESSAGE. If a header is repeated, its first value counts (STOMP 1.2)."""
        said = frame.headers(V1_2)
        named = dict(said)
        return named if len(named) == len(said) else dict(reversed(said))

    def add(self, named: Mapping[bytes, bytes], body: bytes, now: int) -> None:
        """Add a message. `named`: its headers; `now`: when the message was received, in microseconds since 1970."""
        get = named.get
        subscription = self._numbers.get(get(b"subscription", b"0"), self._subscribed[0])
        self._rows.append(
            (
                get(b"destination", subscription),
                get(b"message-id"),
                subscription,
                get(b"content-type"),
                body,
                get(b"redelivered") == b"true",
                now,
            )
        )
        self.octets += len(body)
        if self._headers:
            for name in named:
                if name not in _OWN:
                    self._names.append(name)
                    self._values.append(named[name])
        self._ends.append(len(self._names))

    def batch(self) -> Any:
        """Return the messages added since the last call, with the columns `STORED`. There must be at least one."""
        destination, message_id, subscription, content_type, body, redelivered, received = zip(
            *self._rows, strict=True
        )
        arrays = [
            arrow.text(destination),
            arrow.text(message_id),
            arrow.text(subscription),
            arrow.text(content_type),
            arrow.mapping(self._ends, self._names, self._values),
            pa.array(body, pa.binary()),
            pa.array(redelivered, pa.bool_()),
            pa.array(received, pa.int64()).cast(arrow.MICROSECONDS),
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=STORED)


def rows(batch: Any, receiver: int, first: int, schema: Any) -> Any:
    """Return a batch of the spool as rows with the columns `schema`. `first`: the sequence of the batch's first row."""
    made = {
        "receiver": lambda: pa.repeat(pa.scalar(receiver, pa.int32()), batch.num_rows),
        "sequence": lambda: pa.array(range(first, first + batch.num_rows), pa.int64()),
    }
    stored = set(batch.schema.names)
    arrays = []
    for field in schema:
        if field.name in made:
            arrays.append(made[field.name]())
        elif field.name in stored:
            arrays.append(batch.column(field.name))
        else:  # an older spool
            arrays.append(pa.nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

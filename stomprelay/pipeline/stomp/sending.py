"""How rows are sent. `SendFrames` makes a SEND from each row; `check` says which columns a row may have (see
`docs/pipeline.md`). `TaskSender` sends the rows of one task in order over one connection at a time. `Window` knows
which rows are confirmed and limits how many are not. `SharedRate` limits how many are sent a second.

Columns of the source that have no place in a SEND are ignored, so that rows of the source can be written unchanged.
"""

import fcntl
import os
import tempfile
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
from pyspark.sql.types import BinaryType, BooleanType, MapType, StringType, StructType

from stomprelay.config.table import nearest
from stomprelay.pipeline.stomp.client import Client, SessionLost
from stomprelay.pipeline.stomp.columns import STORED
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.progress import JobProgress
from stomprelay.wire import names as wire
from stomprelay.wire.dialect import V1_2

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "destination": (StringType,),
    "body": (BinaryType, StringType),
    "content_type": (StringType,),
    "content_length": (BooleanType,),
    "key": (StringType,),
    "headers": (MapType,),
}
_UNSENT: Final = (frozenset(STORED.names) | {"receiver", "sequence"}) - frozenset(_TYPES)
_OF_WIRE: Final = (
    wire.DESTINATION,
    wire.CONTENT_LENGTH,
    wire.RECEIPT_HEADER,
    wire.TRANSACTION,
    *wire.RESERVED,
)
_FRAMES: Final = frozenset({*map(bytes.decode, _OF_WIRE), "id", "relay-copy", "relay-resent", "relay-trace"})


class SchemaError(ValueError):
    """Rows that cannot be sent. The error's text names the column or the row."""


def check(schema: StructType, sink: Sink) -> None:
    """Raise `SchemaError` unless rows of this schema can be sent."""
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name in _UNSENT:
            continue
        if field.name not in _TYPES:
            raise SchemaError(
                f'format("stomp"): cannot send the column {field.name}; {nearest(field.name, _TYPES)}'
            )
        texts = not isinstance(field.dataType, MapType) or (
            isinstance(field.dataType.keyType, StringType)
            and isinstance(field.dataType.valueType, StringType)
        )
        if not isinstance(field.dataType, _TYPES[field.name]) or not texts:
            kinds = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in _TYPES[field.name])
            wanted = "map<string,string>" if field.name == "headers" else kinds
            raise SchemaError(
                f'format("stomp"): the column {field.name} must be {wanted}, not {field.dataType.simpleString()}'
            )
    if "body" not in names:
        raise SchemaError('format("stomp"): needs a column body')
    if "destination" not in names and sink.destination is None:
        raise SchemaError('format("stomp"): needs a column destination, or the option destination')


class SendFrames:
    """Makes the header lines and bodies of SENDs. A row without a key gets a key made from `place` and its number."""

    def __init__(self, sink: Sink, place: str) -> None:
        self._place = place
        self._destination = sink.destination
        self._key = _line(sink.key_header, "")[:-1]
        self._unsent = _FRAMES | {sink.key_header}
        self._constant = {
            name.decode(): _line(name.decode(), value.decode()) for name, value in sink.headers.items()
        }
        self._constants = b"".join(self._constant.values())
        self._destinations: dict[str, bytes] = {}

    def of(self, batch: Any, first: int) -> "Iterator[Row]":
        """Yield the rows. `first`: the number of the first row. Raises `SchemaError`."""
        count = batch.num_rows
        names = batch.schema.names
        bodies = batch.column("body").cast(pa.binary()).to_pylist()
        others = [
            batch.column(name).to_pylist() if name in names else [None] * count
            for name in ("content_type", "content_length", "key", "headers")
        ]
        fixed = self._destination
        destinations = [fixed] * count if fixed is not None else batch.column("destination").to_pylist()
        place, known = self._place, self._destinations
        for number, (destination, kind, length, key, said, body) in enumerate(
            zip(destinations, *others, (each or b"" for each in bodies), strict=True),
            first,
        ):
            if not destination:
                raise SchemaError(f'format("stomp"): row {number} of {place} has no destination')
            if (line := known.get(destination)) is None:
                line = known[destination] = _line("destination", destination)
            made = self._key + V1_2.encode((f"{place}/{number}" if key is None else key).encode())
            # ActiveMQ takes a message without content-length for text. A body with a NUL would end there (STOMP 1.2).
            counted = b"" if length is False and b"\0" not in body else b"content-length:%d\n" % len(body)
            yield line + self._others(said, kind), b"%b%b\n" % (counted, made), body

    def _others(self, said: list[tuple[str, str | None]] | None, kind: str | None) -> bytes:
        """Return the header lines for a row's `headers` and `content_type`, and the lines that the options set."""
        if not said and kind is None:
            return self._constants
        lines: dict[str, bytes] = {}
        if kind is not None:
            lines["content-type"] = _line("content-type", kind)
        for name, value in said or ():
            if value is not None and name and name not in lines and name not in self._unsent:
                lines[name] = _line(name, value)
        for name, line in self._constant.items():
            lines.setdefault(name, line)
        return b"".join(lines.values())


def _line(name: str, value: str) -> bytes:
    return V1_2.write_line(name.encode(), value.encode()) + b"\n"


BREATH = 0.05
"""If there is a rate, the messages that are due within this many seconds are sent together."""
OFTEN: Final = 0.5
"""Seconds between two writes of the progress. If the window needs a write earlier, the time is shorter."""
CHUNK: Final = 250
"""The number of rows that are sent together."""
Row = tuple[bytes, bytes, bytes]
"""A SEND, encoded: header lines that other rows may have, too, header lines of this row, and the body."""


class Window:
    """The rows that were sent and are not confirmed, at most `size`. `confirmed`: the number of the oldest unconfirmed
    row. `next`: the number of the next row to send. At least every `every`-th row asks for a receipt. If the broker's
    receipts confirm only their own row, the window is `stuck`. Then the caller must send DISCONNECT, so that the broker
    confirms all rows, and call `settled`.
    """

    def __init__(self, size: int, every: int, first: int = 0) -> None:
        self.confirmed = first
        self._size = size
        self._every = every
        self.next = self._begun = first
        # For each row that asked for a receipt: None before the receipt comes, then whether it confirms earlier rows.
        self._receipts: OrderedDict[int, bool | None] = OrderedDict()

    @property
    def room(self) -> int:
        """Return how many rows may be sent now."""
        return self._size - (self.next - self.confirmed)

    @property
    def stuck(self) -> bool:
        """Return whether no receipt can confirm more rows."""
        return next(iter(self._receipts.values()), None) is False

    def sent(self, *, asks: bool = False) -> bytes | None:
        """Count one more row as sent. Return the receipt id that its SEND must have, or None, but not if it `asks`."""
        number = self.next
        self.next += 1
        if not asks and number - self._begun + 1 < self._every:
            return None
        self._receipts[number] = None
        self._begun = self.next
        return b"%d" % number

    def received(self, receipt: bytes, *, cumulative: bool) -> None:
        """Record a RECEIPT; unknown ids are ignored. `cumulative`: it also confirms the rows before its own row."""
        number = int(receipt) if receipt.isdigit() else -1
        if self._receipts.get(number, False) is None:
            self._receipts[number] = cumulative or self._every == 1
        while next(iter(self._receipts.values()), None):
            self.confirmed = self._receipts.popitem(last=False)[0] + 1

    def settled(self) -> None:
        """Record that the broker has confirmed every row that was sent."""
        self.confirmed = self._begun = self.next
        self._receipts.clear()


class SharedRate:
    """A rate in messages a second, shared by all processes that use the same file."""

    def __init__(self, file: Path, rate: float) -> None:
        self._path = file
        self._rate = rate

    @classmethod
    def shared(cls, rate: float | None, folder: Path | None, name: str) -> Self | None:
        """Return a job's rate, or None if `rate` is None. The job's tasks share a file in `folder`. If `folder` is
        None, the tasks of each machine share a file with `name` in its name.
        """
        if rate is None:
            return None
        if folder is not None:
            return cls(folder / ".pace", rate)
        return cls(Path(tempfile.gettempdir()) / f"stomprelay-{name}.pace", rate)

    @property
    def some(self) -> int:
        """Return how many messages to pass to `take` at a time."""
        return max(1, int(self._rate * BREATH))

    def take(self, count: int) -> float:
        """Reserve a time to send `count` messages. Return that time, in seconds since 1970. Raises `OSError`."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            now = time.time()
            said = os.pread(file, 64, 0)
            turn = max(now, float(said)) if said else now
            # A clock that was set back must not make everybody wait for the old time.
            turn = min(turn, now + max(60.0, 2 * count / self._rate))
            os.ftruncate(file, 0)
            os.pwrite(file, repr(turn + count / self._rate).encode(), 0)
            return turn
        finally:
            os.close(file)

    def forget(self) -> None:
        """Remove the file. Call this method at the end of the job."""
        self._path.unlink(missing_ok=True)


class Job(NamedTuple):
    """One task of a writing job. The keys of the task's messages begin with `id/batch/partition`."""

    id: str
    batch: str
    partition: int
    attempt: int = 0


class TaskSender:
    """Sends the rows of one task. `run` returns when all rows are confirmed, and raises `SessionLost`, `ProgressError`
    and `SchemaError`. If `run` fails, at most one window of rows was sent beyond the stored progress.
    """

    def __init__(self, sink: Sink, job: Job, pace: SharedRate | None) -> None:
        self._sink = sink
        self._job = job
        self._pace = pace
        self._progress = None if sink.progress is None else JobProgress(sink.progress)
        self.skipped = self._progress.position(job.batch, job.partition) if self._progress else 0
        self._noted = self.skipped
        self._noted_at = time.monotonic()
        self._last_receipt = 0.0
        self._sends = SendFrames(sink, f"{job.id}/{job.batch}/{job.partition}")
        self._window = Window(sink.window, 1, self.skipped)
        # The window must have room for a chunk beside a group that has not asked for its receipt yet.
        self._size = min(CHUNK, max(1, sink.window // 2), pace.some if pace else CHUNK)

    def run(self, batches: Iterable[Any]) -> int:
        """Send the rows that no earlier run has confirmed. Return how many rows were sent."""
        rows = self._rows(batches)
        chunk = list(islice(rows, self._size))
        try:
            while chunk:
                chunk = self._session(chunk, rows)
        finally:
            self._note(always=True)
        return self._window.confirmed - self.skipped

    def _session(self, chunk: list[Row], rows: Iterator[Row]) -> list[Row]:
        """Send `chunk` and further `rows` over one connection. Return the rows that need a new connection, because the
        window was stuck; an empty list if all rows are sent.
        """
        number = self._job.partition + self._job.attempt * 100_000
        with self._sink.connection.client(f"spark-sink-{self._job.partition}", number) as client:
            client.connect(self._sink.connection.timeout)
            grouped = client.relay_thread.cumulative and self._pace is None
            every = max(1, self._sink.window // 4) if grouped else 1
            self._window = Window(self._sink.window, every, self._window.confirmed)
            self._last_receipt = time.monotonic()
            while chunk and self._wait(client, len(chunk)):
                self._send(client, chunk)
                chunk = list(islice(rows, self._size))
            client.disconnect(self._sink.connection.timeout)
            self._window.settled()
            return chunk

    def _rows(self, batches: Iterable[Any]) -> Iterator[Row]:
        number = 0
        for batch in batches:
            after = number + batch.num_rows
            if after > self.skipped:
                at = max(number, self.skipped)
                yield from self._sends.of(batch.slice(at - number), at)
            number = after

    def _send(self, client: Client, rows: list[Row]) -> None:
        frames = []
        for (head, own, body), after in zip_longest(rows, rows[1:]):
            # A receipt for the next row may not confirm this row (failover.md, "What `confirm` costs and needs").
            receipt = self._window.sent(asks=after is None or after[0] != head)
            asked = b"" if receipt is None else b"receipt:%b\n" % receipt
            frames.append(b"SEND\n%b%b%b\n%b\0" % (head, own, asked, body))
        client.send(b"".join(frames))
        self._receive(client, 0.0)

    def _wait(self, client: Client, count: int) -> bool:
        """Wait until `count` rows may be sent. Return False if the window is stuck. Raises `SessionLost`."""
        if self._pace is not None:
            turn = self._pace.take(count)
            while (left := turn - time.time()) > 0:
                self._receive(client, min(left, 1.0))
            self._last_receipt = time.monotonic()
        patience = self._sink.connection.timeout
        while self._window.room < count:
            if self._window.stuck:
                return False
            self._receive(client, 1.0)
            if time.monotonic() - self._last_receipt > patience:
                raise SessionLost(
                    f"no receipt came within {patience:g} s; {self._window.confirmed} rows are confirmed"
                )
        if self._window.next + count > self._noted + self._sink.window:
            self._note(always=True)
        return True

    def _receive(self, client: Client, timeout: float) -> None:
        cumulative = client.relay_thread.cumulative
        for frame in client.frames(timeout):
            if frame.command is wire.RECEIPT:
                self._window.received(frame.header(wire.RECEIPT_ID, V1_2) or b"", cumulative=cumulative)
                self._last_receipt = time.monotonic()
        self._note()

    def _note(self, *, always: bool = False) -> None:
        """Store how many rows are confirmed. Without `always`, do this only every `OFTEN` seconds."""
        confirmed, now = self._window.confirmed, time.monotonic()
        if (
            self._progress is None
            or confirmed == self._noted
            or (now - self._noted_at < OFTEN and not always)
        ):
            return
        self._progress.advance(self._job.batch, self._job.partition, confirmed)
        self._noted, self._noted_at = confirmed, now

"""Makes rows of `frames` from segments. The relay's own code reads the journal's blocks.

The speed of all tables depends on this module. What is the same for a whole block is looked up once, and Arrow repeats
it for the frames. `FrameColumns` has what differs from frame to frame: command and headers, sizes, body.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from stomprelay.journal import segment
from stomprelay.journal.block import SIZES, Block, BlockKind, Damage
from stomprelay.journal.schema import Context, JournalSide, SegmentHeader
from stomprelay.journal.segment import CLOSED
from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.spark import arrow
from stomprelay.wire import names
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_2, Dialect

COLUMNS: Final = ("destination", "subscription", "message_id", "ack", "receipt", "transaction")
"""The columns that hold headers."""

Named = tuple[bytes | None, ...]
"""For each of `COLUMNS` the name of its header; None if the command has no such header."""

Head = tuple[bytes, dict[bytes, bytes]]
"""A command, and its headers by name. If a header is repeated, the first counts."""


def _named(
    subscription: bytes | None = None, ack: bytes | None = None, receipt: bytes = names.RECEIPT_HEADER
) -> Named:
    return names.DESTINATION, subscription, names.MESSAGE_ID, ack, receipt, names.TRANSACTION


USUAL: Final = _named()
NAMED: Final = {
    names.MESSAGE: _named(names.SUBSCRIPTION, names.ACK_HEADER),
    names.SUBSCRIBE: _named(names.ID, names.ACK_HEADER),
    names.UNSUBSCRIBE: _named(names.ID),
    names.ACK: _named(names.SUBSCRIPTION, names.ID),
    names.NACK: _named(names.SUBSCRIPTION, names.ID),
    names.RECEIPT: _named(receipt=names.RECEIPT_ID),
    names.ERROR: _named(receipt=names.RECEIPT_ID),
}
"""The `Named` of some commands. All other commands have `USUAL`."""


@lru_cache
def dialect(version: str) -> Dialect:
    """Return the dialect in which frames of this version are read. For an unknown version, return the dialect of 1.2.
    For an empty text (no version was agreed yet), return the dialect of 1.0.
    """
    return replace(DIALECTS.get(version.encode(), V1_2 if version else V1_0), strict=False)


def read_head(head: bytes, spoken: Dialect) -> Head:
    """Return command and headers from the bytes of a frame up to the blank line. Raises no exception."""
    if not spoken.padded and b"\\" not in head and b"\r" not in head:
        command, *lines = head.split(b"\n")
        del lines[-2:]
        try:
            headers = dict([line.split(b":", 1) for line in lines])
        except ValueError:  # a line without a colon
            return _with_care(head, spoken)
        return (command, headers) if len(headers) == len(lines) else _with_care(head, spoken)
    return _with_care(head, spoken)


def header_values(command: bytes, headers: dict[bytes, bytes]) -> tuple[bytes | None, ...]:
    """Return the value for each of `COLUMNS`, None if the frame has no such header."""
    get: Any = headers.get  # it is also called with None
    return tuple(map(get, NAMED.get(command, USUAL)))


def _with_care(head: bytes, spoken: Dialect) -> Head:
    """Return what `read_head` returns. This is slower, and works for any head."""
    line, _, rest = head.partition(b"\n")
    command = line.removesuffix(b"\r")
    crlf = command != line
    rest = rest.removesuffix(b"\n")
    rest = rest.removesuffix(b"\r") if rest.endswith(b"\n\r") or rest == b"\r" else rest
    headers: dict[bytes, bytes] = {}
    for name, value in spoken.read(rest, crlf=crlf, escaped=command not in names.UNESCAPED):
        headers.setdefault(name, value)
    return command, headers


class FrameColumns:
    """Collects frames row by row. `arrays` returns the columns that only frames have."""

    def __init__(self) -> None:
        self._rows: list[tuple[bytes | None, ...]] = []
        self._ends = [0]
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self._sizes: list[int | None] = []
        self._body_sizes: list[int | None] = []
        self._bodies: list[bytes | None] = []

    def add(self, payload: bytes, sizes: Sequence[int], spoken: Dialect) -> None:
        """Add the frames of a block. `payload` and `sizes` are those of a `Block`."""
        names, values, ends, bodies = self._names, self._values, self._ends, self._bodies
        rows = self._rows
        at = 0
        last: bytes | None = None
        headers: dict[bytes, bytes] = {}
        row: tuple[bytes | None, ...] = ()
        total = ends[-1]
        for size, kept in zip(sizes[0::SIZES], sizes[1::SIZES], strict=True):
            body = at + size
            head = payload[at:body]
            if head != last:
                last = head
                command, headers = read_head(head, spoken)
                row = (command, *header_values(command, headers))
            rows.append(row)
            total += len(headers)
            ends.append(total)
            names += headers
            values += headers.values()
            at = body + kept
            bodies.append(payload[body:at] if kept else None)
        body_sizes = sizes[2::SIZES]
        self._body_sizes += body_sizes
        self._sizes += [head + body + 1 for head, body in zip(sizes[0::SIZES], body_sizes, strict=True)]

    def blank(self) -> None:
        """Add a row that is not a frame. All columns of this row are null."""
        self._rows.append((None,) * (1 + len(COLUMNS)))
        self._ends.append(self._ends[-1])
        self._sizes.append(None)
        self._body_sizes.append(None)
        self._bodies.append(None)

    def arrays(self) -> dict[str, pa.Array]:
        """Return the columns by name."""
        commands, *named = zip(*self._rows, strict=True)
        made = {"command": arrow.text(commands)}
        for name, texts in zip(COLUMNS, named, strict=True):
            made[name] = arrow.text(texts)
        made["size"] = pa.array(self._sizes, pa.int64())
        made["body_size"] = pa.array(self._body_sizes, pa.int64())
        made["body"] = pa.array(self._bodies, pa.binary())
        events = made["command"].is_null() if made["command"].null_count else None
        made["headers"] = arrow.mapping(self._ends, self._names, self._values, events)
        return made


# Whole segments

FURTHER: Final = (
    *(("hour", "string"), ("length", "bigint"), ("reason", "string")),
    *(("sums", "string"), ("file", "string")),
)
"""Further columns. A frame or event has its partition in `hour`. A damage has `length` in bytes, `reason`, and a path
in `segment`. `writing` sets `sums` or `file`.
"""
_NAMED: Final = (*((column.name, column.kind) for column in FRAMES.columns), *FURTHER)
DDL: Final = ", ".join(f"`{name}` {kind}" for name, kind in _NAMED)
"""The columns of the rows, as a schema string for Spark."""
SCHEMA: Final = arrow.schema(_NAMED)
"""The columns of the rows, as an Arrow schema."""
ROWS: Final = 16384
"""An Arrow batch has about so many rows."""
OCTETS: Final = 8 << 20
"""An Arrow batch has about so many bytes of heads and bodies."""
_DIRECTION: Final = {JournalSide.CLIENT.value: "to_broker", JournalSide.BROKER.value: "to_client"}
_OF_CONTEXT: Final = ("listener", "session", "peer", "client", "side", "upstream", "broker", "version")


def rows(path: str, origin: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a segment, damages last. Rows of damages show `origin` as path. Damages raise no exception."""
    reading = _Reading(path)
    for found in segment.read(path):
        if isinstance(found, Block):
            reading.block(found)
            if reading.count >= ROWS or reading.octets >= OCTETS:
                yield reading.flushed()
        elif isinstance(found, SegmentHeader):
            if reading.count:
                yield reading.flushed()
            reading.begin(found)
        else:
            reading.damages.append(found)
    if reading.count:
        yield reading.flushed()
    if reading.damages:
        yield damaged(origin or path, reading.damages)


def damaged(path: str, damages: list[Damage]) -> pa.RecordBatch:
    """Return the damages of a file as rows for `quarantine`."""
    return batch_of(
        len(damages),
        {
            "segment": pa.array([path] * len(damages), pa.string()),
            "position": pa.array([each.offset for each in damages], pa.int64()),
            "length": pa.array([each.length for each in damages], pa.int64()),
            "reason": pa.array([each.reason for each in damages], pa.string()),
        },
    )


class _Reading:
    """Collects the rows of a segment, block by block; `flushed` returns them. `damages` has what cannot be read."""

    def __init__(self, path: str) -> None:
        self.name = Path(path).name.removesuffix(CLOSED)
        self.header: SegmentHeader | None = None
        self.damages: list[Damage] = []
        self.contexts: dict[bytes, tuple[int, Dialect] | None] = {}
        self.known: list[Context] = []
        self._clear()

    def begin(self, header: SegmentHeader) -> None:
        """Take the header of the blocks that follow, and forget the contexts of earlier blocks."""
        self.header = header
        self.contexts.clear()

    def _clear(self) -> None:
        self.count = 0
        self.octets = 0
        # For each block: its rows, context, time, offset, first number.
        self._blocks: list[tuple[int, int, int, int, int]] = []
        self._columns = FrameColumns()
        self._events: list[tuple[int, str, str, dict[str, Any]]] = []

    def block(self, block: Block) -> None:
        """Add the rows of a block. If the contents of the block are invalid, add the block to `damages`."""
        try:
            known = self.contexts[block.context]
        except KeyError:
            known = self.contexts[block.context] = self._context(block.context)
        if known is None:
            self.damages.append(Damage(block.offset, block.length, "its context cannot be understood"))
        elif block.kind is BlockKind.FRAMES:
            context, spoken = known
            count = len(block.sizes) // SIZES
            self._columns.add(block.payload, block.sizes, spoken)
            self._blocks.append((count, context, block.time, block.offset, block.number))
            self.count += count
            self.octets += len(block.payload)
        else:
            self._event(block, known[0])

    def _context(self, octets: bytes) -> tuple[int, Dialect] | None:
        assert self.header is not None
        try:
            context = self.header.contexts(octets)
            if not all(isinstance(value, str) for value in context):
                return None
        except ValueError:
            return None
        self.known.append(context)
        return len(self.known) - 1, dialect(context.version)

    def _event(self, block: Block, context: int) -> None:
        try:
            told = json.loads(block.payload)
            event, said, facts = told["event"], told["text"], dict(told["facts"])
        except (ValueError, KeyError, TypeError):
            self.damages.append(Damage(block.offset, block.length, "its event cannot be understood"))
            return
        self._events.append((self.count, str(event), str(said), facts))
        self._columns.blank()
        self._blocks.append((1, context, block.time, block.offset, 0))
        self.count += 1
        self.octets += len(block.payload)

    def flushed(self) -> pa.RecordBatch:
        """Return the rows collected so far as one Arrow batch, and begin the next batch."""
        made = self._of_blocks() | self._columns.arrays()
        if self._events:
            self._of_events(made)
        flushed = batch_of(self.count, made)
        self._clear()
        return flushed

    def _of_blocks(self) -> dict[str, Any]:
        """Return the columns whose values are the same for all rows of a block."""
        assert self.header is not None
        indices: list[int] = []
        contexts: list[int] = []
        numbers: list[int] = []
        for index, (count, context, _, _, number) in enumerate(self._blocks):
            indices.extend(repeat(index, count))
            contexts.append(context)
            numbers += range(number, number + count)
        of_row = pa.array(indices, pa.int32())
        context_of_row = pa.array(contexts, pa.int32()).take(of_row)
        made: dict[str, Any] = {}
        for name in _OF_CONTEXT:
            made[name] = _taken([getattr(each, name) or None for each in self.known], context_of_row)
        made["direction"] = _taken([_DIRECTION.get(each.side) for each in self.known], context_of_row)
        moments = [block[2] for block in self._blocks]
        made["ns"] = pa.array(moments, pa.int64()).take(of_row)
        made["seen_at"] = arrow.times(made["ns"])
        made["hour"] = _taken([arrow.hour(each) for each in moments], of_row)
        made["position"] = pa.array([block[3] for block in self._blocks], pa.int64()).take(of_row)
        made["number"] = pa.array(numbers, pa.int64())
        made["relay"] = pa.repeat(pa.scalar(self.header.relay, pa.string()), self.count)
        made["segment"] = pa.repeat(pa.scalar(self.name, pa.string()), self.count)
        made["kind"] = pa.repeat(pa.scalar("frame", pa.string()), self.count)
        return made

    def _of_events(self, made: dict[str, Any]) -> None:
        names: list[str | None] = [None] * self.count
        texts: list[str | None] = [None] * self.count
        facts: list[list[tuple[str, str]] | None] = [None] * self.count
        for row, event, said, known in self._events:
            names[row] = event
            texts[row] = said
            facts[row] = [(str(name), _said(value)) for name, value in known.items()]
        made["event"] = pa.array(names, pa.string())
        made["text"] = pa.array(texts, pa.string())
        made["facts"] = pa.array(facts, arrow.MAP)
        made["kind"] = pc.if_else(made["command"].is_null(), "event", "frame")


def _said(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _taken(distinct: list[str | None], indices: pa.Array) -> pa.Array:
    """Return a column made of few distinct values and an index for each row."""
    return pc.take(pa.array(distinct, pa.string()), indices)


def batch_of(count: int, made: dict[str, Any]) -> pa.RecordBatch:
    """Return the columns as an Arrow batch of `SCHEMA`; columns that are not in `made` are null."""
    arrays = [made[field.name] if field.name in made else pa.nulls(count, field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

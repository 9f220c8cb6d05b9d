"""Rows of `frames` to Parquet files, by the tasks that parse them: Spark's own writer takes ten times as long."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from stomprelay.journal.schema import JournalEvent
from stomprelay.pipeline.read.segments import FURTHER, SCHEMA
from stomprelay.pipeline.spark.launch import ROW_GROUP_ROWS
from stomprelay.pipeline.store import layout

UNLIKE: Final = frozenset(
    {
        "message_id",
        "ack",
        "receipt",
        "headers.key_value.value",
        "body",
        "ns",
        "at",
        "offset",
        "number",
    }
)
"""Columns whose values hardly repeat: a dictionary of them costs a third of the time and makes larger files."""
N = TypeVar("N", int, float)
SUMS: Final = ("segment", "oldest", "newest", "ended", "found", "within", "frames")
"""What is told of each segment, as `gaps.said_of_runs`: its name without the ending, the times of its oldest and newest
record; whether the run ended with it, when its relay was found to be gone, within what time it speaks again; its rows.
"""
WRITTEN: Final = (
    ("file", pa.string()),
    ("segment", pa.string()),
    ("frames", pa.int64()),
    ("oldest", pa.int64()),
    ("newest", pa.int64()),
    ("ended", pa.bool_()),
    ("found", pa.int64()),
    ("within", pa.float64()),
    ("offset", pa.int64()),
    ("length", pa.int64()),
    ("reason", pa.string()),
)
DDL: Final = (
    "file string, segment string, frames bigint, oldest bigint, newest bigint, ended boolean, found bigint, "
    "within double, offset bigint, length bigint, reason string"
)
"""What a task tells of its work, as a schema string for Spark: each `file`, with its rows and the time of the newest;
`SUMS` of each segment; or a damage, as in `segments.DDL`, which alone has a `reason`.
"""
ROWS: Final = ROW_GROUP_ROWS
"""Rows in a row group, about."""
OCTETS: Final = 64 << 20
"""Bytes of a row group before it is encoded, about."""
OPEN: Final = 8
"""Files that a task writes to at a time, at most."""

_SAYING: Final = pa.array(
    [each.value for each in (JournalEvent.ENDED, JournalEvent.BEGUN, JournalEvent.ALIVE)], pa.string()
)
_SUMMARY: Final = pa.schema(WRITTEN)
_FRAMES: Final = pa.schema([field for field in SCHEMA if field.name not in dict(FURTHER)])
_DAMAGE: Final = ("segment", "offset", "length", "reason")


def _repeating() -> list[str]:
    leaves = []
    for field in _FRAMES:
        inner = (".key_value.key", ".key_value.value") if pa.types.is_map(field.type) else ("",)
        leaves += [f"{field.name}{each}" for each in inner]
    return [each for each in leaves if each not in UNLIKE]


_REPEATING: Final = _repeating()


def written(batches: Iterator[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Write the frames and events among rows of `segments.DDL` to files in folders by hour below this one. Yield rows
    of `DDL`. Raises `OSError`.
    """
    files: dict[str, _File] = {}
    read: dict[str, _Sums] = {}
    told: list[dict[str, Any]] = []
    for batch in batches:
        if batch.column("reason").null_count < len(batch):  # damages have batches of their own
            told += batch.select(_DAMAGE).to_pylist()
            continue
        for name, rows in _by_segment(batch):
            read.setdefault(name, _Sums()).add(rows)
        hours = batch.column("hour")
        for hour in hours.unique().to_pylist():
            if hour not in files:
                if len(files) == OPEN:
                    told.append(files.pop(next(iter(files))).close())
                files[hour] = _File(folder / layout.place(hour))
            rows = batch.select(_FRAMES.names)
            same = pc.equal(hours, hour)
            files[hour].add(rows if pc.all(same).as_py() else rows.filter(same))
    told += [each.close() for each in files.values()]
    told += [{"segment": name, **asdict(each)} for name, each in read.items()]
    yield pa.RecordBatch.from_pylist(told, schema=_SUMMARY)


def _by_segment(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    names = batch.column("segment")
    for name in names.unique().to_pylist():
        same = pc.equal(names, name)
        yield name, batch if pc.all(same).as_py() else batch.filter(same)


@dataclass
class _Sums:
    """`SUMS` of one segment, but its name."""

    frames: int = 0
    oldest: int | None = None
    newest: int | None = None
    ended: bool = False
    found: int | None = None
    within: float | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of the segment."""
        span = pc.min_max(rows.column("ns")).as_py()
        self.frames += len(rows)
        self.oldest = span["min"] if self.oldest is None else min(self.oldest, span["min"])
        self.newest = span["max"] if self.newest is None else max(self.newest, span["max"])
        events = rows.column("event")
        if events.null_count == len(rows):
            return
        wanted = rows.filter(pc.is_in(events, _SAYING)).select(["event", "facts"]).to_pylist()
        for each in wanted:
            facts = dict(each["facts"] or ())
            if each["event"] == JournalEvent.ENDED.value:
                self.ended = True
                self.found = _most(self.found, facts.get("found"), int)
            else:
                self.within = _most(self.within, facts.get("within"), float)


def _most(known: N | None, said: str | None, kind: Callable[[str], N]) -> N | None:
    try:
        new = None if said is None else kind(said)
    except ValueError:
        return known
    return new if known is None else known if new is None else max(known, new)


class _File:
    """A new file in a folder. Call `add` with rows, and `close`."""

    def __init__(self, folder: Path) -> None:
        self._path = layout.new_file(folder)
        self._writer = parquet.ParquetWriter(
            self._path, _FRAMES, compression="zstd", use_dictionary=_REPEATING, store_schema=False
        )
        self._held: list[pa.RecordBatch] = []
        self._rows = self._octets = self._frames = self._newest = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self._rows += len(rows)
        self._octets += rows.nbytes
        self._newest = max(self._newest, pc.max(rows.column("ns")).as_py())
        if self._rows >= ROWS or self._octets >= OCTETS:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held), self._rows)
        self._frames += self._rows
        self._held.clear()
        self._rows = self._octets = 0

    def close(self) -> dict[str, Any]:
        """Complete the file. Return its row of `DDL`."""
        self._flush()
        self._writer.close()
        return {"file": str(self._path), "frames": self._frames, "newest": self._newest}

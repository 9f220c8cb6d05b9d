"""Rows of `frames` to Parquet files, by the tasks that parse them, and what these tell of each segment."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from stomprelay.journal.schema import JournalEvent
from stomprelay.pipeline.read.segments import FURTHER, SCHEMA
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.files import NewFile

UNLIKE: Final = frozenset(
    {
        "message_id",
        "ack",
        "receipt",
        "headers.key_value.value",
        "body",
        "ns",
        "seen_at",
        "position",
        "number",
    }
)
"""Columns whose values hardly repeat, see `NewFile`."""
N = TypeVar("N", int, float)
SUMS: Final = (
    *("segment", "oldest", "newest", "ended", "found", "within", "frames", "marks"),
    *("relay", "events", "dropped", "cut"),
)
"""Of each segment: its name; its oldest and newest record; whether the run ended with it, when its relay was found dead
and how soon it promised to speak; rows; `marks` as in `runs.Segment`; relay, events, frames dropped, bytes cut off.
"""
READ: Final = ("segment", "ns", "event", "facts", "relay")
"""Columns of `frames` of which these are made."""
WRITTEN: Final = (
    ("file", "string"),
    ("segment", "string"),
    ("frames", "bigint"),
    ("oldest", "bigint"),
    ("newest", "bigint"),
    ("ended", "boolean"),
    ("found", "bigint"),
    ("within", "double"),
    ("marks", "array<array<bigint>>"),
    ("relay", "string"),
    ("events", "bigint"),
    ("dropped", "bigint"),
    ("cut", "bigint"),
    ("position", "bigint"),
    ("length", "bigint"),
    ("reason", "string"),
)
DDL: Final = ", ".join(f"{name} {kind}" for name, kind in WRITTEN)
"""What a task returns, for Spark: each `file`; `SUMS` of each segment; or a damage, which alone has a `reason`."""
OPEN: Final = 8
"""Files that a task writes to at a time, at most."""

_SAYING: Final = pa.array(
    [
        each.value
        for each in (JournalEvent.ENDED, JournalEvent.BEGUN, JournalEvent.ALIVE, JournalEvent.DROPPED)
    ],
    pa.string(),
)
_SUMMARY: Final = arrow.schema(WRITTEN)
_FRAMES: Final = pa.schema([field for field in SCHEMA if field.name not in dict(FURTHER)])
_DAMAGE: Final = ("segment", "position", "length", "reason")


def written(batches: Iterator[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Write rows of `segments.DDL` to files by hour below this folder. Yield rows of `DDL`. Raises `OSError`."""
    files: dict[str, NewFile] = {}
    read: dict[str, _Sums] = {}
    told: list[dict[str, Any]] = []
    for batch in batches:
        if batch.column("reason").null_count < len(batch):  # damages have batches of their own
            told += batch.select(_DAMAGE).to_pylist()
            continue
        for name, rows in _by_segment(batch):
            sums = read.setdefault(name, _Sums())
            sums.mark(rows.column("position")[0].as_py())
            sums.add(rows)
        hours = batch.column("hour")
        for hour in hours.unique().to_pylist():
            if hour not in files:
                if len(files) == OPEN:
                    told.append({"file": files.pop(next(iter(files))).close()})
                files[hour] = NewFile(folder / layout.place(hour), _FRAMES, UNLIKE)
            same = pc.equal(hours, hour)
            files[hour].add(batch if pc.all(same).as_py() else batch.filter(same))
    told += [{"file": each.close()} for each in files.values()]
    yield _told(told, read)


def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of `DDL` about the segments of rows that the table has already (the columns `READ`)."""
    read: dict[str, _Sums] = {}
    for batch in batches:
        for name, rows in _by_segment(batch):
            read.setdefault(name, _Sums()).add(rows)
    yield _told([], read)


def _told(told: list[dict[str, Any]], read: "dict[str, _Sums]") -> pa.RecordBatch:
    told += [{"segment": name, **asdict(each)} for name, each in read.items()]
    return pa.RecordBatch.from_pylist(told, schema=_SUMMARY)


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
    marks: list[tuple[int, int, int]] = field(default_factory=list)
    relay: str = ""
    events: int = 0
    dropped: int = 0
    cut: int = 0

    def mark(self, offset: int) -> None:
        """Remember that a block begins here, of which no rows have been added, but all before it."""
        if self.newest is not None:
            self.marks.append((self.frames, offset, self.newest))

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows of the segment."""
        span = pc.min_max(rows.column("ns")).as_py()
        self.frames += len(rows)
        self.oldest = span["min"] if self.oldest is None else min(self.oldest, span["min"])
        self.newest = span["max"] if self.newest is None else max(self.newest, span["max"])
        self.relay = self.relay or rows.column("relay")[0].as_py()
        events = rows.column("event")
        self.events += len(rows) - events.null_count
        if events.null_count == len(rows):
            return
        wanted = rows.filter(pc.is_in(events, _SAYING)).select(["event", "facts"]).to_pylist()
        for each in wanted:
            facts = dict(each["facts"] or ())
            if each["event"] == JournalEvent.ENDED.value:
                self.ended = True
                self.found = _most(self.found, facts.get("found"), _bigint)
                self.cut = _most(self.cut, facts.get("cut"), _bigint) or 0
            elif each["event"] == JournalEvent.DROPPED.value:
                self.dropped += max(_most(None, facts.get("frames"), _bigint) or 0, 0)
            else:
                self.within = _most(self.within, facts.get("within"), float)


def _bigint(text: str) -> int:
    value = int(text)
    if value.bit_length() > 63:
        raise ValueError(text)
    return value


def _most(known: N | None, said: str | None, kind: Callable[[str], N]) -> N | None:
    try:
        new = None if said is None else kind(said)
    except ValueError:
        return known
    return new if known is None else known if new is None else max(known, new)

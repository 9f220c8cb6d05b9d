"""For tasks that parse segments: they make a summary of each segment, and write its rows to Parquet files."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from stomprelay.journal.schema import JournalEvent
from stomprelay.pipeline.read.runs import Segment
from stomprelay.pipeline.read.segments import FURTHER, SCHEMA, batch_of
from stomprelay.pipeline.settings import SECOND
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.files import NewFile, parted

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
OPEN: Final = 8
"""A task writes to at most so many files at a time."""
_LONGEST: Final = 1e9
"""Promises of more seconds are ignored, because no relay makes them."""

_SAYING: Final = pa.array(
    [
        each.value
        for each in (JournalEvent.ENDED, JournalEvent.BEGUN, JournalEvent.ALIVE, JournalEvent.DROPPED)
    ],
    pa.string(),
)
_FRAMES: Final = pa.schema([field for field in SCHEMA if field.name not in dict(FURTHER)])


def summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield these rows of `segments.DDL` unchanged. Then yield a row for each segment, with its summary in `sums`. The
    summary is a JSON list of the segment's hours and its `Segment`.
    """
    read: dict[str, _Sums] = {}
    for batch in batches:
        if batch.column("reason").null_count == len(batch):  # damages have batches of their own
            for name, rows in parted(batch, "segment"):
                read.setdefault(name, _Sums()).add(rows)
        yield batch
    if read:
        told = [json.dumps([sorted(each.hours), each.segment(name)]) for name, each in read.items()]
        yield batch_of(len(told), {"sums": pa.array(told)})


def written(batches: Iterator[pa.RecordBatch], folder: Path) -> Iterator[pa.RecordBatch]:
    """Write the frames and events among these rows to files of their hours, below the folder. Yield all other rows, and
    a row for each file with its path in `file`. Raises `OSError`.
    """
    files: dict[str, NewFile] = {}
    closed: list[str] = []
    for batch in batches:
        if batch.column("hour").null_count:
            yield batch
            continue
        for hour, rows in parted(batch, "hour"):
            if hour not in files:
                if len(files) == OPEN:
                    closed.append(files.pop(next(iter(files))).close())
                files[hour] = NewFile(folder / layout.place(hour), _FRAMES, UNLIKE)
            files[hour].add(rows)
    closed += [each.close() for each in files.values()]
    yield batch_of(len(closed), {"file": pa.array(closed, pa.string())})


@dataclass
class _Sums:
    """Adds up the rows of one segment. Call `add` with its rows in order, then `segment`. Times are in ns. `oldest`
    and `newest` are the times of records, `found` is when the relay was found dead, `within` are the seconds in which
    the relay promised to write again. `marks`, `events`, `dropped` and `cut` are as in `Segment`.
    """

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
    hours: set[str] = field(default_factory=set)

    def segment(self, name: str) -> Segment:
        """Return the segment of this name, with batch 0. Impossible values, such as negative times, become 0."""
        promised = self.within if self.within is not None and 0 < self.within <= _LONGEST else 0
        known = Segment(name, 0, self.oldest, self.newest, self.ended, marks=self.marks)
        known = known._replace(found_ns=max(self.found or 0, 0), within_ns=round(promised * SECOND))
        known = known._replace(rows=self.frames, relay=self.relay, events=self.events)
        return known._replace(dropped=self.dropped, cut=self.cut)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the next rows of the segment. They must begin with a block: the segment may be parted before them."""
        if self.newest is not None:
            self.marks.append((self.frames, rows.column("position")[0].as_py(), self.newest))
        self.hours.update(rows.column("hour").unique().to_pylist())
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
    """Return the greater of a known value and the value in a text. If the text has no value, return the known value."""
    try:
        new = None if said is None else kind(said)
    except ValueError:
        return known
    return new if known is None else known if new is None else max(known, new)

"""Journals made by hand, and the pipeline without Spark: rows from segment to table in plain Python."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from zlib import crc32

from pyarrow import parquet

from stomprelay.journal.schema import RECOVERY, Context, JournalEvent
from stomprelay.journal.segment import CLOSED, SegmentName
from stomprelay.pipeline.match.at_once import AtOnce
from stomprelay.pipeline.match.matching import Matchings, MatchRow
from stomprelay.pipeline.match.order import JournalOrders
from stomprelay.pipeline.match.slices import Slice, loaded, special
from stomprelay.pipeline.read import segments
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.read.writing import summed
from stomprelay.pipeline.sessions import record, transfer
from stomprelay.pipeline.sessions.conversation import EVENTS, Conversations, SessionRow
from stomprelay.pipeline.sessions.outages import OpenOutages, SessionOutage
from stomprelay.pipeline.sessions.waits import Wait
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.store.store import OPEN, batch_name
from tests.journal import made

BEGUN: Final = 1_795_000_000 * SECOND
"""When tests begin: a time in 2026."""


@dataclass
class Run:
    """What one run of a relay wrote: blocks, each with its time."""

    relay: str = "relay"
    run: str = "0000aaaa"
    blocks: list[tuple[int, bytes]] = field(default_factory=list)

    def happened(self, ns: int, event: str, text: str = "", **facts: Any) -> None:
        """An event of no session."""
        self.blocks.append((ns, made.event(event, text, Context(), ns, **facts)))

    def is_found_dead(self, ns: int) -> None:
        """Somebody closes what it left open."""
        self.happened(self.blocks[-1][0], JournalEvent.ENDED.value, by=RECOVERY, found=ns, cut=0)

    def write(self, folder: Path, cuts: Iterable[int] = ()) -> list[Path]:
        """As segments, which end before the blocks of these numbers."""
        ends = sorted({each for each in cuts if 0 < each < len(self.blocks)})
        paths = []
        for number, (first, last) in enumerate(pairwise([0, *ends, len(self.blocks)]), start=1):
            created = self.blocks[first][0]
            told = made.HEADER._replace(relay=self.relay, run=self.run, number=number, created=created)
            header = made.header(told)
            path = folder / f"{SegmentName(created, self.relay, self.run, number)}{CLOSED}"
            path.write_bytes(header + b"".join(data for _, data in self.blocks[first:last]))
            paths.append(path)
        return paths


def records(path: Path, id_headers: tuple[str, ...] = ()) -> tuple[list[record.Record], Segment]:
    """The records of a segment, and what the pipeline needs to know of it. What Spark does in `passes.records`."""
    found: list[record.Record] = []
    name = path.name.removesuffix(CLOSED)
    for batch in summed(segments.rows(str(path))):
        for row in batch.to_pylist():
            assert row["reason"] is None, row
            if row["sums"] is not None:
                return found, Segment(*json.loads(row["sums"])[1])
            if row["session"] is None or (row["command"] is None and row["event"] not in EVENTS):
                continue
            headers = dict(row["headers"] or ())
            values = {
                **row,
                "turn": int(name.rpartition("-")[2]),
                "digest": None if row["body"] is None else crc32(row["body"]),
                "trace": headers.get("relay-trace"),
                "own": next((headers[each] for each in id_headers if each in headers), None),
                "copy": headers.get("relay-copy"),
                "redelivered": headers.get("redelivered"),
                "kept": None,
                "facts": json.dumps(dict(row["facts"])) if row["facts"] is not None else None,
            }
            found.append(tuple(values[name] for name in record.NAMES))
    raise AssertionError(f"nothing in {path}")


class Tables:
    """What `messages.advance` does with small batches, below this folder, but in one process."""

    def __init__(self, folder: Path, limits: TimeLimits, id_headers: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self.id_headers = id_headers
        self.final: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []
        self.outages: dict[tuple[str, str, int], dict[str, Any]] = {}
        self.ended: list[Wait] = []
        self.waiting: list[Wait] = []
        self._folder = folder
        self._number = 0
        self._known: dict[str, Slice] = {}
        self._losses: list[SessionOutage] = []
        self._runs = Runs(limits).dump()
        self._waiting: dict[str, list[record.Record]] = {}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Of `messages`, all of them."""
        return [*self.final, *self.open]

    def advance(self, paths: Iterable[Path]) -> None:
        """One batch."""
        runs = Runs.load(self._runs, self.limits)
        arrived = []
        for path in paths:
            self._waiting[path.name.removesuffix(CLOSED)], segment = records(path, self.id_headers)
            arrived.append(segment)
        ready = runs.arrived(arrived)
        self._runs = runs.dump()
        rows = [row for segment in ready for row in self._waiting.pop(segment.name)]
        messages, slices = (self._folder / name for name in ("messages", "state/new"))
        talks = Conversations(self.limits, runs.newest, runs.present, runs.gone, runs.ended)
        orders, matchings = JournalOrders(self.limits, runs.until), Matchings(self.limits, runs.until)
        does = AtOnce(self._number, len(rows), talks, orders, matchings, self._known, messages, slices)
        with patch.object(arrow, "ROWS", 7):  # so that everything goes over the borders of Arrow's batches
            (told,) = does(iter([arrow.batch(rows, arrow.schema(record.FIELDS))] if rows else []))
        done = json.loads(told["text"][0].as_py())
        for name in done["gone"]:
            del self._known[name]
        self._known |= loaded(done["made"])
        for path in [Path(each).parent for each in done["slices"]]:
            path.rename(slices.parent / path.name)
        final, still = batch_name(self._number), {f"{OPEN}-{name}" for name in self._known}
        self.final += self._read(messages, f"*/*/batch={final}")
        self.open = [row for name in still for row in self._read(messages, f"*/*/batch={name}")]
        self._tell(slices.parent, runs)
        self._number += 1

    def _tell(self, state: Path, runs: Runs) -> None:
        def said(what: int) -> list[Any]:
            rows = self._read(state, f"slice={special(self._number, what)}")
            return [json.loads(text) for text in sorted(row["text"] for row in rows)]

        waits = [Wait(*each) for each in said(SessionRow.WAIT)]
        self.ended += [wait for wait in waits if wait.final]
        self.waiting = [wait for wait in waits if not wait.final]
        outages = OpenOutages(self._losses)
        outages.told(SessionOutage(*each) for each in said(SessionRow.OUTAGE))
        outages.repeated((each[0], each[1], each[2], each[3]) for each in said(MatchRow.REPEAT))
        self.outages |= {each.key: each._asdict() for each in outages.changed}
        self._losses = outages.kept(runs.horizon - self.limits.give_up)

    @staticmethod
    def _read(folder: Path, which: str) -> list[dict[str, Any]]:
        files = sorted(folder.glob(f"{which}/part-*"))
        return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]


def phase(row: Any) -> tuple[Any, ...]:
    """What `JournalOrders` wants its rows sorted by."""
    place = [(each is not None, each) for each in row[transfer.SEGMENT : transfer.KIND]]
    kind = row[transfer.KIND]
    return (row[transfer.KEY], row[transfer.NS] or 0, kind >> 1, *place, kind)

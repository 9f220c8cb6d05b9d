"""Journals made by hand, and the pipeline without Spark: rows from segment to table in plain Python."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import pyarrow as pa

from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.schema import RECOVERY, VERSION, Context, EventRecord, Header, JournalEvent
from stomprelay.journal.segment import CLOSED, SegmentName
from stomprelay.pipeline.match.matching import Matchings, MatchRow
from stomprelay.pipeline.match.ordering import Orders
from stomprelay.pipeline.read import segments
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.read.writing import summed
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import record, transfer
from stomprelay.pipeline.sessions.conversation import EVENTS, Conversations, SessionRow
from stomprelay.pipeline.sessions.outages import Outage, Outages
from stomprelay.pipeline.sessions.waits import Wait
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow

BEGUN: Final = 1_795_000_000 * SECOND
"""When tests begin: a time in 2026."""


@dataclass
class Run:
    """What one run of a relay wrote: blocks, each with its time."""

    relay: str = "relay"
    run: str = "0000aaaa"
    blocks: list[tuple[int, bytes]] = field(default_factory=list)

    def frames(self, ns: int, context: Context, number: int, sizes: Sequence[int], payload: bytes) -> None:
        """The frames of one chunk."""
        self._add(BlockKind.FRAMES, ns, number, context.encode(), sizes, payload)

    def happened(self, ns: int, context: Context, event: str, text: str, facts: dict[str, Any]) -> None:
        """An event."""
        self._add(BlockKind.EVENT, ns, 0, context.encode(), [], EventRecord(event, text, facts).encode())

    def ends(self, ns: int) -> None:
        """The relay stopped."""
        self.happened(ns, Context(), JournalEvent.ENDED.value, "it stopped", {})

    def lives(self, ns: int, within: float = 60.0) -> None:
        """The relay says that it is there."""
        self.happened(ns, Context(), JournalEvent.ALIVE.value, "it is there", {"within": within})

    def is_found_dead(self, ns: int) -> None:
        """Somebody closes what it left open."""
        facts = {"by": RECOVERY, "found": ns, "cut": 0}
        self.happened(self.blocks[-1][0], Context(), JournalEvent.ENDED.value, "it is gone", facts)

    def _add(
        self, kind: BlockKind, ns: int, number: int, context: bytes, sizes: Sequence[int], payload: bytes
    ) -> None:
        self.blocks.append((ns, encode(kind, ns, number, context, sizes, payload)))

    def write(self, folder: Path, cuts: Iterable[int] = ()) -> list[Path]:
        """As segments, which end before the blocks of these numbers."""
        ends = sorted({each for each in cuts if 0 < each < len(self.blocks)})
        paths = []
        for number, (first, last) in enumerate(
            zip([0, *ends], [*ends, len(self.blocks)], strict=True), start=1
        ):
            part = self.blocks[first:last]
            created = part[0][0]
            header = Header(VERSION, self.relay, self.run, number, created, 60.0, "tests")
            path = folder / f"{SegmentName(created, self.relay, self.run, number)}{CLOSED}"
            first_block = encode(BlockKind.HEADER, created, 0, b"", [], header.encode())
            path.write_bytes(first_block + b"".join(data for _, data in part))
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
    """What `messages.advance` does, batch by batch, but in one process. The rest is the same code."""

    def __init__(self, limits: TimeLimits, id_headers: tuple[str, ...] = ()) -> None:
        self.limits = limits
        self.id_headers = id_headers
        self.final: list[dict[str, Any]] = []
        self.open: list[dict[str, Any]] = []
        self.outages: dict[tuple[str, str, int], dict[str, Any]] = {}
        self.ended: list[Wait] = []
        self.waiting: list[Wait] = []
        self.states: list[tuple[str, str]] = []
        self.kept: list[tuple[str, int, str]] = []
        self.orders: list[tuple[str, str]] = []
        self._losses: list[Outage] = []
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
        said = self._converse(
            rows, Conversations(self.limits, runs.newest, runs.present, runs.gone, runs.ended)
        )
        found = self._match(
            self._order(said, Orders(self.limits, runs.until)), Matchings(self.limits, runs.until)
        )
        self._lose(said, found, runs)

    def _converse(self, rows: list[record.Record], conversations: Conversations) -> list[Any]:
        state = [
            tuple({"session": name, "turn": record.SAID, "text": text}.get(each) for each in record.NAMES)
            for name, text in self.states
        ]
        places = [record.NAMES.index(name) for name in record.SORTED]
        both = sorted([*rows, *state], key=lambda row: [row[at] or 0 if at else row[at] for at in places])
        said = list(arrow.rows(conversations(_batches(both, arrow.schema(record.FIELDS)))))
        self.states = [(row[0], row[-1]) for row in said if row[transfer.KIND] == SessionRow.STATE]
        waits = [Wait(*json.loads(row[-1])) for row in said if row[transfer.KIND] == SessionRow.WAIT]
        self.ended += [wait for wait in waits if wait.final]
        self.waiting = [wait for wait in waits if not wait.final]
        return said

    def _order(self, said: list[Any], orders: Orders) -> list[Any]:
        rows = [*said]
        for key, text in self.orders:
            row: list[Any] = [None] * len(transfer.FIELDS)
            row[transfer.KEY], row[transfer.NS], row[transfer.TEXT] = key, 0, text
            row[transfer.KIND] = int(transfer.Kind.KEPT)
            rows.append(tuple(row))
        rows.sort(key=phase)
        named = list(arrow.rows(orders(_batches(rows, arrow.schema(transfer.FIELDS)))))
        self.orders = [
            (row[transfer.KEY], row[transfer.TEXT]) for row in named if row[transfer.KIND] == SessionRow.ORDER
        ]
        return named

    def _match(self, said: list[Any], matching: Matchings) -> list[dict[str, Any]]:
        rows = [row for row in said if row[transfer.KIND] < SessionRow.STATE]
        for key, number, text in self.kept:
            row: list[Any] = [None] * len(transfer.FIELDS)
            row[transfer.KEY], row[transfer.NS], row[transfer.TEXT] = key, number, text
            row[transfer.KIND] = int(transfer.Kind.KEPT)
            rows.append(tuple(row))
        names = [name for name, _ in transfer.FIELDS]
        places = [names.index(name) for name in transfer.SORTED]
        rows.sort(key=lambda row: [(row[at] is not None, row[at]) for at in places])
        batches = matching(_batches(rows, arrow.schema(transfer.FIELDS)))
        found = [row for batch in batches for row in batch.to_pylist()]
        self.kept = [
            (row["match"], row["turn"], row["text"])
            for row in found
            if row["what"] in (MatchRow.OPEN, MatchRow.KEPT) and row["text"] is not None
        ]
        self.final += [_message(row) for row in found if row["what"] == MatchRow.FINAL]
        self.open = [_message(row) for row in found if row["what"] == MatchRow.OPEN]
        return found

    def _lose(self, said: list[Any], found: list[dict[str, Any]], runs: Runs) -> None:
        outages = Outages(self._losses)
        told = [json.loads(row[-1]) for row in said if row[transfer.KIND] == SessionRow.OUTAGE]
        outages.told(Outage(*each) for each in told)
        repeats = [json.loads(row["text"]) for row in found if row["what"] == MatchRow.REPEAT]
        outages.repeated([(each[0], each[1], each[2], each[3]) for each in sorted(repeats)])
        self.outages |= {each.key: each._asdict() for each in outages.changed}
        self._losses = outages.kept(runs.horizon - self.limits.give_up)


def _batches(rows: list[Any], schema: pa.Schema, most: int = 7) -> Iterator[pa.RecordBatch]:
    """Small ones, so that everything goes over their borders."""
    for at in range(0, len(rows), most):
        yield arrow.batch(rows[at : at + most], schema)


def _message(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in MESSAGES.names}


def phase(row: Any) -> tuple[Any, ...]:
    """What `Orders` wants its rows sorted by."""
    place = [(each is not None, each) for each in row[transfer.SEGMENT : transfer.KIND]]
    kind = row[transfer.KIND]
    return (row[transfer.KEY], row[transfer.NS] or 0, kind >> 1, *place, kind)

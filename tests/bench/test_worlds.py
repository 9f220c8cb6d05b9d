"""Journals of whole worlds, made up: what is said of them is in them, and comes out of them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.journals import Truth, World, make
from stomprelay.journal import segment
from stomprelay.journal.block import Block, BlockKind, Damage
from stomprelay.journal.folder import Folder, SegmentFile
from stomprelay.journal.schema import EventRecord, SegmentHeader
from stomprelay.pipeline.settings import TimeLimits
from tests.pipeline.journals import Tables

WORLD = World(9000, segment=60_000, nacked=0.02, unanswered=0.02)


def items(entry: SegmentFile) -> list[Block | Damage]:
    """What is in a segment behind its header."""
    found = list(segment.read(entry.path))
    assert isinstance(found[0], SegmentHeader)
    assert not any(isinstance(each, SegmentHeader) for each in found[1:])
    return [each for each in found if not isinstance(each, SegmentHeader)]


def event(block: Block) -> EventRecord:
    """The event in a block."""
    return EventRecord(**json.loads(block.payload))


def test_what_is_said_of_a_world_is_in_its_journal(tmp_path: Path) -> None:
    """As many frames of each command, and events; SENDs to each destination; on each leg in order, without a gap."""
    truth = make(tmp_path, WORLD)
    found: Counter[str] = Counter()
    sends: Counter[str] = Counter()
    messages: Counter[str] = Counter()
    legs: Counter[bytes] = Counter()
    octets = 0
    for entry in Folder(tmp_path).segments():
        for item in items(entry):
            if isinstance(item, Damage):
                assert item.torn
                continue
            if item.kind is BlockKind.EVENT:
                found["event"] += 1
                continue
            if not item.number:
                legs[item.context] = 0  # the same broker again
            assert item.number == legs[item.context]
            for frame in item.frames:
                legs[item.context] += 1
                command, *lines = frame.head.decode().removesuffix("\n\n").split("\n")
                headers = dict(line.split(":", 1) for line in lines)
                found[command] += 1
                if command in ("SEND", "MESSAGE"):
                    assert frame.size == int(headers["content-length"])
                    (sends if command == "SEND" else messages)[headers["destination"]] += 1
                    octets += frame.size * (command == "SEND")
    assert found == truth.commands
    assert WORLD.records <= sum(found.values()) == truth.records < WORLD.records * 1.2
    assert (sends, messages, octets) == (truth.destinations, truth.deliveries, truth.octets)
    assert {"ABORT", "BEGIN", "COMMIT", "NACK", "DISCONNECT"} < found.keys()


SAME: list[tuple[str, dict[str, Any]]] = [
    ("traced", {"nacked": 0.02}),
    ("a backlog", {"backlog": 700, "relays": 2, "deaths": 1}),
    ("nobody dies", {"deaths": 0, "runs": 3}),
    ("by order", {"relays": 1, "deaths": 0, "nacked": 0.0, "trace": False}),
    ("by order and body", {"relays": 1, "deaths": 0, "nacked": 0.0, "trace": False, "bodies": 100}),
]


@pytest.mark.parametrize("changes", [changes for _, changes in SAME], ids=[name for name, _ in SAME])
def test_the_pipeline_says_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    """What became of messages, by destination, what came again, and what brokers that were lost cost."""
    truth = make(tmp_path, World(9000, unanswered=0.02, **changes))
    Folder(tmp_path).recover(0)
    tables = Tables(tmp_path / "tables", TimeLimits())
    tables.advance([entry.path for entry in Folder(tmp_path).segments()])
    assert_same(tables.rows, truth)
    assert outages(tables, deaths=any(truth.died.values())) == lost(truth)


def assert_same(rows: list[dict[str, Any]], truth: Truth) -> None:
    """Compare rows of `messages`."""
    outcomes: Counter[tuple[str, str]] = Counter()
    sent: Counter[str] = Counter()
    deliveries: Counter[str] = Counter()
    redelivered: Counter[str] = Counter()
    for row in rows:
        where = row["destination"]
        outcomes[where, row["outcome"]] += 1
        sent[where] += row["producer"] is not None
        deliveries[where] += len(row["deliveries"])
        redelivered[where] += row["redelivered"]
    assert outcomes == truth.outcomes
    assert sent == truth.destinations
    assert +deliveries == truth.deliveries
    assert +redelivered == truth.redelivered
    assert sum(row["receipt_us"] is not None for row in rows) == truth.receipts
    assert sum(row["size"] for row in rows) == truth.octets


Losses = dict[tuple[str, bool], Counter[str]]


def outages(tables: Tables, *, deaths: bool) -> Losses:
    """The sums of each broker's. What was delivered again is known when nobody is waited for."""
    sums: Losses = {}
    for row in tables.outages.values():
        counted = {name: row[name] for name in ("resent", "stale_acks", "duplicates")[: 2 + (not deaths)]}
        sums.setdefault((row["broker"], row["planned"]), Counter()).update(counted, sessions=1)
    return sums


def lost(truth: Truth) -> Losses:
    """The same of what is true."""
    sums: Losses = {}
    for each in truth.outages:
        counted = {name: value for name, value in vars(each).items() if name not in ("broker", "planned")}
        if any(truth.died.values()):
            del counted["duplicates"]
        sums.setdefault((each.broker, each.planned), Counter()).update(counted)
    return sums

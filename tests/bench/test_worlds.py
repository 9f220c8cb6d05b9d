"""Journals of whole worlds, made up: what is said of them is in them, and comes out of them."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.journals import SECOND, START, Truth, World, make
from bench.journals.__main__ import main
from stomprelay.journal import segment
from stomprelay.journal.block import Block, BlockKind, Damage
from stomprelay.journal.folder import Folder, SegmentFile
from stomprelay.journal.schema import EventRecord, Header, JournalEvent
from stomprelay.pipeline.settings import TimeLimits
from tests.pipeline.journals import Tables

WORLD = World(9000, segment=60_000, nacked=0.02, unanswered=0.02)


def items(entry: SegmentFile) -> list[Block | Damage]:
    """What is in a segment behind its header."""
    found = list(segment.read(entry.path))
    assert isinstance(found[0], Header)
    assert not any(isinstance(each, Header) for each in found[1:])
    return [each for each in found if not isinstance(each, Header)]


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


def test_runs_end_or_die(tmp_path: Path) -> None:
    """One that dies says nothing, and its last segment is open and torn; each relay's clock is its own, and never goes
    back.
    """
    truth = make(tmp_path, WORLD)
    runs: dict[str, list[SegmentFile]] = {}
    for entry in Folder(tmp_path).segments():
        runs.setdefault(f"{entry.relay}-{entry.run}", []).append(entry)
    assert runs.keys() == truth.died.keys()
    assert len(runs) == WORLD.relays * WORLD.runs
    assert sum(truth.died.values()) == WORLD.deaths
    begins: dict[str, int] = {}
    for name, entries in runs.items():
        assert [entry.number for entry in entries] == [*range(1, len(entries) + 1)]
        assert [entry.closed for entry in entries] == [True] * (len(entries) - 1) + [not truth.died[name]]
        found = [item for entry in entries for item in items(entry)]
        blocks = [item for item in found if isinstance(item, Block)]
        times = [block.time for block in blocks]
        assert times == sorted(times)
        begins[name.partition("-")[0]] = min(times[0], begins.get(name.partition("-")[0], times[0]))
        assert event(blocks[0]).event == JournalEvent.BEGUN.value
        if truth.died[name]:
            last = found.pop()
            assert isinstance(last, Damage)
            assert last.torn
        else:
            assert event(blocks[-1]).event == JournalEvent.ENDED.value
        assert found == blocks
    assert all(abs(begun - START) < (WORLD.skew + 1) * SECOND for begun in begins.values())
    assert max(begins.values()) - min(begins.values()) > SECOND // 10
    assert max(len(entries) for entries in runs.values()) > 1


def test_a_world_has_the_shape_that_was_asked_for(tmp_path: Path) -> None:
    """One hot queue and Zipf's law for the rest; few bodies are most of the octets; some topics for nobody."""
    world = World(200_000, hot=0.9, published=0.1)
    truth = make(tmp_path, world)
    queues = {name: count for name, count in truth.destinations.items() if name.startswith("/queue/")}
    hot, first, *rest = sorted(queues.values(), reverse=True)
    assert 0.87 < hot / sum(queues.values()) < 0.93
    assert first > 3 * sum(rest) / len(rest)
    mean = truth.octets / sum(truth.destinations.values())
    assert mean > 2 * world.smallest * 2 ** (1 / world.tail)
    assert truth.outcomes["/topic/00", "undelivered"] == truth.destinations["/topic/00"] > 0
    assert truth.deliveries["/topic/04"] == 4 * (truth.destinations["/topic/04"]) > 0
    outcomes = {outcome for _, outcome in truth.outcomes}
    assert outcomes == {"acked", "returned", "nacked", "undelivered", "unconfirmed", "aborted"}
    assert len(truth.outages) == world.failovers


def test_a_world_is_the_same_each_time(tmp_path: Path) -> None:
    """To the octet; another seed makes another one."""
    contents = []
    for at, seed in enumerate((1, 1, 2)):
        folder = tmp_path / str(at)
        folder.mkdir()
        make(folder, World(3000, seed=seed, backlog=100))
        contents.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert contents[0] == contents[1] != contents[2]


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
    tables = Tables(TimeLimits())
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


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of segments and what is in it; never into one that has something."""
    folder, told = tmp_path / "made" / "here", tmp_path / "truth.json"
    command = [
        str(folder),
        "--records",
        "2000",
        "--seed",
        "7",
        "--relays",
        "2",
        "--deaths",
        "0",
        "--no-trace",
    ]
    assert main([*command, "--truth", str(told)]) == 0
    said = capsys.readouterr().out
    values = json.loads(told.read_text())
    assert f"{values['records']:,} records in {len(Folder(folder).segments())} segments" in said
    assert values["commands"]["SEND"] == values["messages"] == sum(values["outcomes"].values())
    assert not any(b"relay-trace" in path.read_bytes() for path in folder.iterdir())
    for wrong in (command, [*command, "--deaths", "5"], [*command, "--records", "many"]):
        with pytest.raises(SystemExit):
            main(wrong)
    assert "is not empty" in capsys.readouterr().err

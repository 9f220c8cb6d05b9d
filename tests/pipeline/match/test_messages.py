"""The table `messages`, from segments on, in Spark and without: equal to what clients and brokers saw."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from stomprelay.pipeline.match import at_once, messages
from stomprelay.pipeline.match.matching import MatchRow
from stomprelay.pipeline.match.slices import Done
from stomprelay.pipeline.read import frames
from stomprelay.pipeline.read.frames import SegmentToRead
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.sessions.waits import Wait, merged
from stomprelay.pipeline.settings import SECOND, Settings, TimeLimits
from stomprelay.pipeline.spark import bundles
from stomprelay.pipeline.spark.tasks import PARTITIONS
from stomprelay.pipeline.store.store import Batch, Store
from tests.pipeline.journals import Run, Tables
from tests.pipeline.recorded_world import RecordedWorld, told

PATIENT = TimeLimits(600 * SECOND, 3600 * SECOND, 7200 * SECOND, SECOND)
"""Nothing is final before the end, so that time plays no role."""


def _world(seed: int) -> RecordedWorld:
    """A world of which brokers were told all; a quarter of them have bodies."""
    return next(each for at in count(seed) if (each := RecordedWorld(at, bodies=at % 4 == 0)).whole)


def _late(world: RecordedWorld) -> Run:
    """Another relay's record of much later, by which all is final."""
    run = Run("later", "ffffffff")
    run.happened(world.ns + 10**6 * SECOND, "journal begun")
    return run


def _told(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return _sorted(map(told, rows))


def _sorted(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(sorted(row.items())))


def _losses(world: RecordedWorld) -> list[tuple[Any, ...]]:
    """Of each session the outages, as its relay noted them."""
    return _outages({"session": each.name, **loss} for each in world.callers for loss in each.losses_seen)


def _outages(rows: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("session", "broker", "lost_ns", "recovered_ns", "moved_to", "planned")
    return sorted(tuple(row[name] for name in names) for row in rows)


def _waited(world: RecordedWorld, bound: int) -> list[Wait]:
    """Of each subscription the times in which deliveries waited too long, and what waits in the end, as `_waits`."""
    found = []
    for caller in world.callers:
        held = {id(seen) for seen in caller.held}
        for seen in caller.seen_all:
            gone = seen.outcome is None and (caller.closed or caller.gone or id(seen) in held)
            until = world.ns if seen.settled_ns is None else seen.settled_ns
            if not gone and until - seen.ns > bound:
                where = ("", caller.name, None, seen.order.name, None, None, None)
                going = seen.outcome is None
                found.append(Wait(*where, seen.ns, until, until - seen.ns, 1, seen.outcome, going, not going))
    return _waits(found)


def _waits(waits: Iterable[Wait]) -> list[Wait]:
    """What waits tell, brokers put together, without what is answered in a transaction that is open."""
    nowhere: dict[str, Any] = {"relay": "", **dict.fromkeys(("client", "destination", "upstream", "broker"))}
    known = [wait._replace(**nowhere, going=wait.outcome is None) for wait in waits]
    told = [wait for wait in known if wait.outcome is None or wait.final]
    return [*merged(each for each in told if each.final), *merged(each for each in told if not each.final)]


@given(seed=st.integers(0, 1 << 30), cuts=st.lists(st.integers(1, 120), max_size=12), at_once=st.booleans())
@settings(max_examples=settings().max_examples, derandomize=True)
def test_random_conversations(
    seed: int, cuts: list[int], at_once: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What clients and brokers saw is what the tables say: counts, outcomes, times; outages; who waited."""
    world = _world(seed)
    folder = tmp_path_factory.mktemp("journal")
    paths = world.run.write(folder, cuts)
    tables = Tables(folder, PATIENT)
    for part in [paths] if at_once else [[path] for path in paths]:
        tables.advance(part)
    assert _told(tables.rows) == _sorted(world.expected().values())
    assert _outages(tables.outages.values()) == _losses(world)
    assert _waits([*tables.ended, *tables.waiting]) == _waited(world, PATIENT.stuck_after)
    assert sum(row["stale_acks"] for row in tables.outages.values()) == world.stale
    resent = sum(caller.resent for caller in world.callers)
    assert sum(row["resent"] for row in tables.outages.values()) == resent
    assert {row["matched"] for row in tables.rows} <= {"trace", None}


@given(
    seed=st.integers(0, 1 << 30),
    linger=st.sampled_from([0.05, 0.5]),
    give_up=st.sampled_from([0.5, 1.0]),
    cuts=st.lists(st.integers(1, 200), min_size=1, max_size=12),
    data=st.data(),
)
# The same worlds each time: in about one of a thousand two messages that brokers deliver in one chunk change places.
@settings(max_examples=settings().max_examples // 4, derandomize=True)
def test_any_segments_in_any_batches(
    seed: int,
    linger: float,
    give_up: float,
    cuts: list[int],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The final rows are the same, though much of what happens comes too late to count; so are all waits."""
    world = RecordedWorld(seed, trace=seed % 2 > 0)
    limits = TimeLimits(*(round(each * SECOND) for each in (100.0, linger, give_up, give_up)))
    folder = tmp_path_factory.mktemp("journal")
    (late,) = _late(world).write(folder)
    found = []
    for at, ends in enumerate(([], cuts)):
        (folder / str(at)).mkdir()
        paths = world.run.write(folder / str(at), ends)
        tables = Tables(folder / str(at), limits)
        while paths:
            count = data.draw(st.integers(1, len(paths)))
            part, paths = paths[:count], paths[count:]
            tables.advance(data.draw(st.permutations(part)))
        tables.advance([late])
        assert (tables.open, tables.waiting) == ([], [])
        rows = [{**row, "segment": None, "position": None} for row in tables.final]
        found.append((sorted(rows, key=str), tables.outages, _waits(tables.ended)))
    assert found[0] == found[1]


def test_a_relay_that_was_killed_is_waited_for_by_nobody(tmp_path: Path) -> None:
    """However late it is found, it ended with its last record; all is final as if another relay had gone on."""
    limits = TimeLimits(600 * SECOND, SECOND, 7200 * SECOND, SECOND)
    world = _world(5)
    (late,) = _late(world).write(tmp_path)
    want, found = (Tables(tmp_path / name, limits) for name in ("want", "found"))
    world.run.is_found_dead(world.ns)
    want.advance(world.run.write(tmp_path))
    want.advance([late])
    assert {"acked", "returned"} <= {row["outcome"] for row in want.final}
    del world.run.blocks[-1]
    world.run.is_found_dead(world.ns + 10**6 * SECOND)
    found.advance(world.run.write(tmp_path))
    assert (found.open, found.waiting) == ([], [])
    assert _sorted(found.final) == _sorted(want.final)


# In Spark


def _utc(row: dict[str, Any]) -> dict[str, Any]:
    """With times as PyArrow has them."""

    def told(value: Any) -> Any:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        return [_utc(each) for each in value] if isinstance(value, list) else value

    return {name: told(value) for name, value in row.items()}


def _rows(frame: Any) -> list[dict[str, Any]]:
    return [_utc(row.asDict(recursive=True)) for row in frame.collect()]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("partitions", "seeds"),
    [
        pytest.param("1", (4, 8), id="at-once-few", marks=pytest.mark.brief),
        pytest.param("1", range(1, 25), id="at-once-many", marks=pytest.mark.deep),
        pytest.param("2", range(1, 25), id="in-passes-many", marks=pytest.mark.deep),
    ],
)
def test_random_conversations_in_spark(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seeds: Sequence[int],
    partitions: str,
) -> None:
    """Many relays, segments in any order, a batch that is done again; all that fits is done in one task, or nothing."""
    spark = spark.newSession()
    spark.conf.set(PARTITIONS, partitions)
    done: list[bool] = []

    def noted(*given: Any) -> Done | None:
        found = advance(*given)
        done.append(found is not None)
        return found

    advance = at_once.advance
    monkeypatch.setattr(at_once, "advance", noted)
    journal = tmp_path / "journal"
    journal.mkdir()
    random = Random(1)
    worlds = [RecordedWorld(seed, trace=seed != 8, bodies=seed % 4 == 0) for seed in seeds]
    paths = []
    for world in worlds:
        paths += world.run.write(journal, [random.randrange(1, 100) for _ in range(3)])
    want = Tables(tmp_path / "plain", PATIENT, ("x",))
    want.advance(paths)
    random.shuffle(paths)
    parts = [paths[: len(paths) // 2], paths[len(paths) // 2 :]]
    store = Store(spark, str(tmp_path / "tables"))
    known = Settings(str(journal), store.root, linger=3600, give_up=7200, stuck_after=1, id_headers=("x",))
    for number, part in enumerate([*parts[:1], *parts]):
        batch = Batch(spark, store, max(number - 1, 0), known)
        _advance(batch, part)

    rows = _rows(store.read("messages"))
    assert _told(rows) == _told(want.rows)
    batches = [Batch(spark, store, number, known) for number in range(3)]
    assert {row["batch"] for row in rows} == {f"open-{name}" for name in messages.changes(batches[1]).there}
    assert {row["matched"] for row in rows} == {"trace", "order", "id", None}
    still = _rows(messages.still_open(batches[1]))
    assert _told([{name: row[name] for name in MESSAGES.names} for row in still]) == _told(rows)
    assert messages.settled(batches[1]).count() == 0
    outages = {row.key: row._asdict() for batch in batches[:2] for row in messages.outages(batch)}
    assert _outages(outages.values()) == _outages(want.outages.values())
    ended = [wait for wait in messages.waits(batches[0]) if wait.final]
    waited = [_waits([*ended, *messages.waits(batches[1])]), _waits([*want.ended, *want.waiting])]
    assert sorted(waited[0], key=str) == sorted(waited[1], key=str)

    later = Run("later", "ffffffff")
    later.happened(max(world.ns for world in worlds) + 10**6 * SECOND, "journal begun")
    hours = set(store.hours("messages"))
    _advance(batches[2], later.write(journal))
    final = _rows(store.read("messages"))
    assert _told(final) == _told(rows)
    assert {(row["final"], row["batch"]) for row in final} == {(True, "000000002")}
    assert all((row["date"], row["hour"]) == (row["seen_at"].date(), row["seen_at"].hour) for row in final)
    assert (True in done) == (partitions == "1")
    assert _told(_rows(messages.settled(batches[2]))) == _told(rows)
    assert messages.still_open(batches[2]).count() == 0
    changed = messages.changes(batches[2])
    assert changed.hours == hours
    assert (changed.made, changed.there) == ({}, {})
    left = store.volume.find(store.root, "_state/kept/slice=000000002-*")
    told_of = (MatchRow.REPEAT, SessionRow.OUTAGE, SessionRow.WAIT)
    assert {path.rpartition("=")[2] for path in left} <= {f"000000002-said{int(what)}" for what in told_of}


def _advance(batch: Batch, paths: Sequence[Path]) -> None:
    frames.advance(batch, [SegmentToRead(str(path), path.stat().st_size) for path in paths])
    messages.advance(batch)


@pytest.mark.ci
@pytest.mark.spark
def test_tasks_write_the_final_rows_of_large_batches(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those that Spark writes, in files of theirs, also where a batch is done again; open rows are Spark's."""
    journal = tmp_path / "journal"
    journal.mkdir()
    worlds = [RecordedWorld(seed, trace=seed != 8, bodies=seed % 4 == 0) for seed in (7, 8, 22)]
    paths = [path for world in worlds for path in world.run.write(journal, [50])]
    paths += _late(worlds[0]).write(journal)
    monkeypatch.setattr(at_once, "ROWS", 0)
    found = []
    for name, most, worth in (("spark", 1 << 30, 1 << 30), ("tasks", 0, 300)):
        monkeypatch.setattr(messages, "ROWS", most)
        monkeypatch.setattr(bundles, "WORTH", worth)
        store = Store(spark, str(tmp_path / name))
        known = Settings(journal=str(journal), tables=store.root, id_headers=("x",))
        batch = Batch(spark, store, 0, known)
        _advance(batch, paths)
        messages.advance(batch)
        told = sorted(repr(sorted(row.items())) for row in _rows(store.read("messages").drop("batch")))
        settled = _rows(messages.settled(batch).drop("batch"))
        found.append((told, len(settled), messages.changes(batch).final))
        by_tasks = [*(tmp_path / name / "messages").glob("*/*/batch=000000000/part-*.zstd.parquet")]
        assert {file.name.count(".c000") for file in by_tasks} == {int(name == "spark")}
    assert found[0] == found[1]
    assert found[0][1] > 50

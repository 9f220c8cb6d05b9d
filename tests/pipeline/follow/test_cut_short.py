"""Batches that are cut short anywhere, and done again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pytest

from bench import journals
from stomprelay.pipeline.match import messages
from stomprelay.pipeline.read import frames
from stomprelay.pipeline.read.frames import SegmentToRead
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store import upkeep
from stomprelay.pipeline.store.store import Batch, Store
from stomprelay.pipeline.store.volume import Volume
from stomprelay.pipeline.tables.rollup import LATENCY_SUMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WORLD = journals.World(
    1200, relays=1, runs=1, deaths=0, failovers=0, comings=2, backlog=40, rate=0.03, age=5000.0, trace=False
)
"""Some hours of few messages, some of which stay undelivered."""


class Killed(BaseException):
    """In place of a signal that nobody can catch."""


def kill(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Have the run end at its so manieth change to files that is none of Spark's own."""
    changes = count()

    def unless_killed(does: Callable[..., None]) -> Callable[..., None]:
        def change(*given: Any) -> None:
            if next(changes) >= after:
                raise Killed
            does(*given)

        return change

    for name in ("rename", "remove", "put"):
        monkeypatch.setattr(Volume, name, unless_killed(getattr(Volume, name)))


def do(spark: "SparkSession", settings: Settings, number: int, paths: Sequence[Path]) -> None:
    """What a run does from its start to the end of the batch."""
    store = Store(spark, settings.tables)
    store.prepare(number - 1)
    batch = Batch(spark, store, number, settings, again=upkeep.begin(store, number - 1))
    frames.advance(batch, [SegmentToRead(str(path), path.stat().st_size) for path in paths])
    messages.advance(batch)
    LATENCY_SUMS.advance_messages(batch)


def content(spark: "SparkSession", tables: str) -> dict[str, list[str]]:
    """The rows of the tables, sorted."""
    store = Store(spark, tables)
    rows = {name: store.read(name).drop("batch").collect() for name in ("frames", "messages", "latency")}
    return {name: sorted(map(repr, found)) for name, found in rows.items()}


LONG = (pytest.mark.deep, pytest.mark.long)


@pytest.mark.parametrize(
    ("linger", "cuts"),
    [
        pytest.param(5000.0, (14,), id="other-settings", marks=pytest.mark.deep),
        pytest.param(5000.0, range(1, 60), id="other-settings-anywhere", marks=LONG),
        pytest.param(10.0, range(1, 60), id="anywhere", marks=LONG),
    ],
)
def test_nothing_is_lost_or_comes_twice(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    linger: float,
    cuts: Sequence[int],
) -> None:
    """A kill between any two steps, as between two hours of a table: when the batch is done again all tables are as if
    nothing had been, also where it is done again with other settings, by which other rows are final.
    """
    (tmp_path / "journal").mkdir()
    journals.make(tmp_path / "journal", WORLD)
    first, second = sorted((tmp_path / "journal").iterdir())
    known = Settings(journal=str(tmp_path / "journal"), tables=str(tmp_path / "first"))
    do(spark, known, 0, [first])

    def copied(name: str) -> Settings:
        copytree(known.tables, tmp_path / name)
        return replace(known, tables=str(tmp_path / name))

    want = copied("want")
    do(spark, replace(want, linger=linger), 1, [second])
    wanted = content(spark, want.tables)
    assert len(Store(spark, want.tables).hours("messages")) > 2
    for after in cuts:
        cut = copied(f"cut-{after}")
        with monkeypatch.context() as patch:
            kill(patch, after)
            try:
                do(spark, cut, 1, [second])
            except Killed:
                pass
            else:
                assert after > 20
                break
        do(spark, replace(cut, linger=linger), 1, [second])
        assert content(spark, cut.tables) == wanted

"""The bar on a terminal."""

import io
import itertools
import os
import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline import bar as bars
from stomprelay.pipeline.bar import ProgressBar, Shares, Steps, Tasks, octets, spelled, tasks
from tests.pipeline.follow.test_progress import Clock, Terminal

SETUP = Path(__file__).parents[2] / "setup.cfg"


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 100 columns."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((100, 24)))


def going() -> tuple[ProgressBar, Terminal, Clock]:
    """One that began with 100 of 1,000 a moment ago, on a terminal."""
    out, clock = Terminal(), Clock()
    bar = ProgressBar(out, "messages", clock=clock)
    bar.begin("replay", 1000, 100)
    return bar, out, clock


@pytest.mark.parametrize(
    ("width", "begins", "ends"),
    [
        (100, "replay  55 % |█", "| 550 of 1,000 messages, 45/s, 10 s left"),
        (40, "replay: 550 of 1,000 messages, 45/s, 10", "10"),
    ],
)
def test_how_far_how_fast_how_long(
    monkeypatch: pytest.MonkeyPatch, width: int, begins: str, ends: str
) -> None:
    """What was done before is no speed of now. A narrow terminal has the words without the bar, cut at its edge."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((width, 24)))
    bar, out, clock = going()
    clock.now += 10
    bar.set(550)
    bar.draw()
    (line,) = out.screen
    assert line.startswith(begins)
    assert line.endswith(ends)
    assert len(line) == width - 1


def test_octets_have_units_of_their_own() -> None:
    """A slow rate of anything else has a decimal."""
    clock = Clock()
    sizes = ProgressBar(io.StringIO(), octets=True, clock=clock)
    sizes.begin("once", 10 << 20)
    sizes.set(1 << 20)
    assert sizes.words(2) == "1.0 of 10.0 MiB, 512.0 KiB/s, 18 s left"
    sizes.begin("once", 2000)
    sizes.set(5)
    assert sizes.words(0) == "0.0 of 2.0 KiB"
    slow = ProgressBar(io.StringIO(), "steps", clock=clock)
    slow.begin("report", 9)
    slow.set(3)
    assert slow.words(4) == "3 of 9 steps, 0.8/s, 8 s left"
    slow = ProgressBar(io.StringIO(), clock=clock)
    slow.begin("report", 9)
    assert slow.words(0) == "0 of 9"


def test_what_is_quick_shows_nothing() -> None:
    """The bar comes after two seconds."""
    bar, out, clock = going()
    clock.now += 1.9
    bar.draw()
    bar.end()
    assert out.getvalue() == ""
    bar.begin("again", 5)
    clock.now += 2
    bar.draw()
    assert "again" in out.getvalue()


def test_a_pipe_gets_nothing() -> None:
    """Nor does a log; lines that stay are written there, too."""
    out, clock = io.StringIO(), Clock()
    bar = ProgressBar(out, "messages", clock=clock)
    bar.begin("replay", 1000, 100)
    clock.now += 100
    bar.draw()
    with bar.going(lambda: pytest.fail("nobody looks")):
        bar.say("a line")
    assert out.getvalue() == "a line\n"


def test_a_line_that_stays_stands_above() -> None:
    """The bar is wiped, and comes again below."""
    bar, out, clock = going()
    clock.now += 5
    bar.draw()
    bar.say("batch 1 is done")
    bar.draw()
    assert out.screen[0] == "batch 1 is done"
    assert out.screen[1].startswith("replay  10 % |")
    bar.end()
    assert out.screen == ["batch 1 is done", ""]


def test_without_a_total_it_says_how_long_it_goes_on() -> None:
    """More is not known."""
    out, clock = Terminal(), Clock()
    bar = ProgressBar(out, clock=clock)
    bar.begin("Spark starts")
    clock.now += 3
    bar.draw()
    assert out.screen == ["Spark starts: 3 s"]


def test_another_thread_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """While this one works; a look that fails, as when Spark has ended, ends nothing."""
    monkeypatch.setattr(bars, "OFTEN", 0.001)
    bar, out, clock = going()
    clock.now += 10
    looks = itertools.count(1)
    last = threading.Event()

    def look() -> None:
        number = next(looks)
        if number == 2:
            raise ValueError("the session has ended")
        bar.set(100 * number)
        if number == 3:
            last.set()

    with bar.going(look):
        assert last.wait(30)
    assert "100 of 1,000" in out.getvalue()
    assert "300 of 1,000" in out.getvalue()
    assert out.screen == [""]


def test_steps() -> None:
    """Those that are through count, the name is that of the one which goes on, and what is left is their usual time."""
    out, clock = Terminal(), Clock()
    steps = Steps(
        ProgressBar(out, "steps", clock=clock), "report", {"traffic": 4.0, "messages": 2.0, "clients": 2.0}
    )
    clock.now += 4
    for name in ("traffic", "messages"):
        steps.step(name)
    steps.bar.draw()
    (line,) = out.screen
    assert line.startswith("report, messages  50 % |")
    assert line.endswith("| 1 of 3 steps, 0.2/s, 4 s left")


def test_shares() -> None:
    """By how long the steps took the last time; first by how long they usually take."""
    clock = Clock()
    shares = Shares({"a": 1.0, "b": 3.0}, clock)
    shares.begin()
    assert shares.share() == 0
    shares.step("a")
    assert shares.share(0.5) == 0.125
    clock.now += 5
    shares.step("b")
    assert shares.share() == 0.25
    clock.now += 5
    shares.end()
    shares.begin()
    shares.step("a")
    clock.now += 1
    shares.step("b")
    assert shares.share(0.5) == 0.75
    assert Shares({}, clock).share() == 0


class Tracker:
    """Spark's status tracker, as far as it is asked."""

    def __init__(self) -> None:
        self.jobs: dict[int, tuple[str, list[int]]] = {}
        self.stages: dict[int, tuple[int, int]] = {}

    def getJobIdsForGroup(self, _: None) -> list[int]:  # noqa: N802 - Spark's
        return sorted(self.jobs, reverse=True)

    def getJobInfo(self, job: int) -> Any:  # noqa: N802 - Spark's
        status, stages = self.jobs[job]
        return SimpleNamespace(status=status, stageIds=stages)

    def getStageInfo(self, stage: int) -> Any:  # noqa: N802 - Spark's
        if stage not in self.stages:
            return None
        done, planned = self.stages[stage]
        return SimpleNamespace(numCompletedTasks=done, numTasks=planned)


def test_tasks_of_spark() -> None:
    """Those of jobs that began after it was asked first; what a job left out is not waited for."""
    tracker = Tracker()
    tracker.jobs, tracker.stages = {0: ("SUCCEEDED", [0])}, {0: (9, 9)}
    spark = cast(SparkSession, SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker)))
    counting = Tasks(spark)
    assert counting.counted() == (0, 0)
    tracker.jobs[1] = ("RUNNING", [1, 2, 3])
    tracker.stages |= {1: (4, 4), 2: (1, 6)}
    assert counting.counted() == (5, 10)
    tracker.jobs[1] = ("SUCCEEDED", [1, 2, 3])
    tracker.stages[2] = (5, 6)
    tracker.jobs[2] = ("RUNNING", [4])
    tracker.stages[4] = (0, 2)
    assert counting.counted() == counting.counted() == (9, 11)


@pytest.mark.spark
def test_tasks_of_a_query(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark itself knows them."""
    monkeypatch.setattr(bars, "AFTER", 0.0)
    monkeypatch.setattr(bars, "OFTEN", 0.01)
    counting = Tasks(spark)
    assert spark.range(0, 10, 1, 7).count() == 10
    done, planned = counting.counted()
    assert done == planned >= 7
    out = Terminal()
    with tasks(out, "query", spark):
        spark.range(0, 10, 1, 7).selectExpr("java_method('java.lang.Thread', 'sleep', 20L)").collect()
    assert "query" in out.getvalue()
    assert out.screen == [""]
    quiet = io.StringIO()
    with tasks(quiet, "query", spark):
        spark.range(3).count()
    assert quiet.getvalue() == ""


def test_what_draws_it_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is told when something begins on a terminal; elsewhere nothing needs it."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    ProgressBar(io.StringIO()).begin("query")
    with pytest.raises(ImportError) as caught:
        ProgressBar(Terminal()).begin("query")
    assert caught.value.name == "tqdm"


def test_words() -> None:
    """Sizes and durations as people say them."""
    sizes = [octets(number) for number in (5, 2048, 3 << 20, 5 << 30)]
    assert sizes == ["5 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [spelled(number) for number in (0.4, 119, 150, 8000)] == ["0 s", "119 s", "2 min", "2 h 13 min"]


def test_its_package_comes_with_the_pipeline() -> None:
    """And has an upper bound, as its way of writing is part of what users see."""
    assert "    tqdm >= 4.67, < 5\n" in SETUP.read_text(encoding="utf-8")

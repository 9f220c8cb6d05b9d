"""The commands `run` and `once`."""

import argparse
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stomprelay.pipeline import options
from stomprelay.pipeline.commands import run
from stomprelay.pipeline.follow import stream
from stomprelay.pipeline.follow.progress import ProgressLine
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.store import StoreError


class Pretended:
    """A stream that does what a test says in place of Spark."""

    does: Callable[["Pretended"], None]
    seen: list[Any]
    brief: list[bool]

    def __init__(self, spark: object, settings: Settings, progress: ProgressLine) -> None:
        self.seen.append((spark, settings))
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1

    def once(self) -> None:
        self.seen.append("once")
        type(self).does(self)

    def endless(self) -> None:
        self.seen.append("endless")
        type(self).does(self)


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> type[Pretended]:
    """With a session that is none; the last thing seen is its end."""
    Pretended.seen = []
    Pretended.does = lambda _: None
    Pretended.brief = []

    def session(*_: object, brief: bool, **__: object) -> str:
        Pretended.brief.append(brief)
        return "session"

    monkeypatch.setattr(options, "session", session)
    monkeypatch.setattr(launch, "stop", lambda spark: Pretended.seen.append(f"{spark} stopped"))
    monkeypatch.setattr(stream, "Stream", Pretended)
    return Pretended


def done(command: str, *given: str) -> int:
    """Run a command."""
    parser = argparse.ArgumentParser()
    parser.set_defaults(command=command)
    run.add_options(parser)
    options.add_format(parser)
    options.add_spark(parser)
    return run.main(parser.parse_args(["--journal", "j", "--tables", "t", *given]))


@pytest.mark.parametrize(("command", "way"), [("once", "once"), ("run", "endless")])
def test_each_command_runs_its_way(
    pretended: type[Pretended], capsys: pytest.CaptureFixture[str], command: str, way: str
) -> None:
    """And says on standard error what came of it."""
    assert done(command) == 0
    assert pretended.seen == [("session", Settings("j", "t")), way, "session stopped"]
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "nothing new in the journal\n")


def test_only_run_has_an_interval(pretended: type[Pretended]) -> None:
    """A single run needs none."""
    assert done("run", "--interval", "1m") == 0
    assert pretended.seen[0][1].interval == 60
    with pytest.raises(SystemExit):
        done("once", "--interval", "1m")


def test_a_single_run_over_a_small_journal_is_brief(
    pretended: type[Pretended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not over a large one, nor one that cannot be seen from here; a run without an end never is."""
    (tmp_path / "a.journal").write_bytes(bytes(1000))
    (tmp_path / "b.journal").write_bytes(bytes(1000))
    monkeypatch.setattr(run, "_SMALL", 2001)
    assert [run.is_small(each) for each in (str(tmp_path), f"file:{tmp_path}")] == [True, True]
    assert not run.is_small("hdfs://there/j")
    assert not run.is_small(str(tmp_path / "none"))
    for command in ("once", "run"):
        done(command, "--journal", str(tmp_path))
    monkeypatch.setattr(run, "_SMALL", 2000)
    done("once", "--journal", str(tmp_path))
    assert pretended.brief == [True, False, False]


def test_spark_ends_whatever_happens(pretended: type[Pretended]) -> None:
    """The error goes on to whoever tells the user."""

    def fails(_: Pretended) -> None:
        raise StoreError("no")

    pretended.does = fails
    with pytest.raises(StoreError):
        done("once")
    assert pretended.seen[-1] == "session stopped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_in_good_order_and_a_second_one_at_once(
    pretended: type[Pretended], capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """Afterwards signals are what they were."""
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    def works(pretended_stream: Pretended) -> None:
        os.kill(os.getpid(), number)
        assert pretended_stream.stopped == 1
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    pretended.does = works
    assert done("run") == 0
    assert "ending after this batch" in capsys.readouterr().err
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_settings_that_cannot_be_are_told_before_spark_starts(pretended: type[Pretended]) -> None:
    """It would take seconds."""
    with pytest.raises(ValueError, match="bytes_per_batch"):
        done("once", "--bytes-per-batch", "0")
    assert pretended.seen == []

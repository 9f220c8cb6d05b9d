"""A rate that several tasks keep together."""

import time
from pathlib import Path

import pytest

from stomprelay.pipeline.stomp.sending import SharedRate


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give a clock that stands still until it is set."""
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def test_turns_are_given_one_after_the_other(tmp_path: Path, clock: list[float]) -> None:
    """Whoever asks, by whatever object: a second has as many messages as the rate says."""
    one, other = SharedRate(tmp_path / "pace", 10), SharedRate(tmp_path / "pace", 10)
    assert one.take(5) == 1000.0
    assert other.take(10) == 1000.5
    assert one.take(1) == 1001.5


def test_time_that_nobody_used_is_not_made_up_for(tmp_path: Path, clock: list[float]) -> None:
    """After a pause there is no burst."""
    pace = SharedRate(tmp_path / "pace", 10)
    pace.take(1)
    clock[0] = 2000.0
    assert (pace.take(1), pace.take(1)) == (2000.0, 2000.1)


def test_a_clock_that_was_set_back_does_not_stop_all(tmp_path: Path, clock: list[float]) -> None:
    """The old time is not waited for."""
    pace = SharedRate(tmp_path / "pace", 10)
    pace.take(1)
    clock[0] = 10.0
    assert pace.take(1) <= 70.0


def test_messages_are_asked_for_together_where_there_are_many(tmp_path: Path) -> None:
    """One at a time when there are few."""
    assert SharedRate(tmp_path / "pace", 0.5).some == 1
    assert SharedRate(tmp_path / "pace", 10_000).some == 500


def test_tasks_of_a_job_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its folder, or in the machine's under its name; there is none without a rate."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "machine"))
    (tmp_path / "machine").mkdir()
    assert SharedRate.shared(None, tmp_path, "job") is None
    for folder, file in ((tmp_path, ".pace"), (None, "machine/stomprelay-job.pace")):
        pace = SharedRate.shared(5.0, folder, "job")
        assert pace is not None
        pace.take(1)
        assert (tmp_path / file).is_file()


def test_its_file_goes_with_it(tmp_path: Path) -> None:
    """Even if nobody ever asked for a turn."""
    pace = SharedRate(tmp_path / "pace", 10)
    pace.forget()
    pace.take(1)
    pace.forget()
    assert not list(tmp_path.iterdir())

"""Brokers killed: who had to wait for how long."""

from pathlib import Path

import pytest

from bench.load import loaded
from bench.machine import which
from bench.outage import PACE, Outage, Step, measure, report, steps


def test_steps_fit_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """1, 100 and 1,000 sessions, the last also unpaced; fewer where not so many files may be open."""
    monkeypatch.setattr("bench.outage.raise_descriptor_limit", lambda: 65536)
    assert [(step.sessions, step.rate) for step in steps(quick=False)] == [
        (1, PACE),
        (100, PACE),
        (1000, PACE),
        (1000, 0),
    ]
    monkeypatch.setattr("bench.outage.raise_descriptor_limit", lambda: 1024)
    assert max(step.sessions for step in steps(quick=True)) == 274


def test_report_takes_the_sessions_of_all_runs_together() -> None:
    """Median, p95 and the longest wait are of sessions; what it took to set up and CPU are of runs."""
    step = Step(2, 0, 2)
    runs = [Outage(step, 0.5, (0.010, 0.030), 0.002), Outage(step, 0.5, (0.020, 0.050), 0.002)]
    (row,) = (line.split() for line in report(runs).splitlines() if line.startswith("2 "))
    assert row == ["2", "any", "20.0", "50.0", "50.0", "0.080", "1,000"]


@pytest.mark.deep
@pytest.mark.e2e
@pytest.mark.skipif(which("cc", "gcc", "clang") is None, reason="needs a compiler (Debian package gcc)")
@pytest.mark.parametrize("rate", [0, PACE])
def test_every_session_has_its_message(tmp_path: Path, rate: int) -> None:
    """The broker is killed, and each session hears from the other one, once, without losing its connection."""
    notes: list[str] = []
    with loaded(tmp_path) as load:
        (found,) = measure(load, tmp_path, [Step(20, rate, 1)], notes.append)
    assert notes == []
    assert len(found.times) == 20
    assert min(found.times) > 0
    assert found.cpu > 0

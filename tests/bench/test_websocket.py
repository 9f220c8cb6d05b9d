"""WebSocket beside plain TCP: ratios to plain TCP, from runs that lost nothing, and sessions that are held."""

from pathlib import Path

import pytest

from bench.load import Case, Run, loaded
from bench.machine import which
from bench.memory import Idle, Step
from bench.rounds import Outcome, Series
from bench.websocket import NAMES, TCP, TRAFFIC, WEB, idle, outcomes, report, running


def test_report() -> None:
    """WebSocket stands beside plain TCP, and what it takes to be idle."""
    runs = {way: [Run(1_000_000 // cost, 1.0, 1.0)] for way, cost in ((TCP, 5), (WEB, 10))}
    found = Outcome("SEND", [Series(way, Case("sink"), each) for way, each in runs.items()])
    held = [Idle(way, 1000.0, (Step(5000, kb, 1.0, 100.0),), 7.0) for way, kb in ((TCP, 4.0), (WEB, 5.0))]
    lines = [line.split() for line in report([found], held).splitlines()]
    assert ["SEND", "200,000", "0.500", "5.00", "2.00"] in lines
    assert ["WebSocket", "1,000", "5.00", "100", "7.00"] in lines
    found.series[1].failure = "the broker had 119"
    assert "FAILED WebSocket, SEND: the broker had 119" in report([found], [])


@pytest.mark.e2e
@pytest.mark.skipif(which("cc", "gcc", "clang") is None, reason="needs a compiler (Debian package gcc)")
def test_every_kind_of_load_passes(tmp_path: Path) -> None:
    """Each arrives as it was sent by both ways, and a few idle sessions are held."""
    notes: list[str] = []
    with loaded(tmp_path) as load:
        with running(load.ports["1.2"], tmp_path) as relay:
            found = outcomes(load, relay, rounds=1, seconds=0.001)
        assert [one.name for one in found] == list(TRAFFIC)
        assert [series.failure for one in found for series in one.series] == [None] * 2 * len(TRAFFIC)
        held = idle(load, tmp_path, 1, notes.append, 20)
    assert notes == []
    assert [(one.contender, one.steps[0].connections) for one in held] == [(way, 20) for way in NAMES]

"""WebSocket beside plain TCP: ratios to plain TCP, from runs that lost nothing, and sessions that are held."""

from pathlib import Path

import pytest

from bench.load import loaded
from bench.machine import which
from bench.websocket import NAMES, TRAFFIC, idle, outcomes, running


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

"""Brokers killed: who had to wait for how long."""

from pathlib import Path

import pytest

from bench.load import loaded
from bench.machine import which
from bench.outage import DEFAULT, Step, measure


@pytest.mark.deep
@pytest.mark.e2e
@pytest.mark.skipif(which("cc", "gcc", "clang") is None, reason="needs a compiler (Debian package gcc)")
@pytest.mark.parametrize("rate", [0, DEFAULT])
def test_every_session_has_its_message(tmp_path: Path, rate: int) -> None:
    """The broker is killed, and each session hears from the other one, once, without losing its connection."""
    notes: list[str] = []
    with loaded(tmp_path) as load:
        (found,) = measure(load, tmp_path, [Step(20, rate, 1)], notes.append)
    assert notes == []
    assert len(found.times) == 20
    assert min(found.times) > 0
    assert found.cpu > 0

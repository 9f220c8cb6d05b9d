"""What a journal costs: ratios to the relay that keeps none, from runs that lost nothing."""

from pathlib import Path

import pytest

from bench.contenders import PLAIN
from bench.journal import KINDS, outcomes, running
from bench.load import RABBITMQ, loaded
from bench.machine import which


@pytest.mark.deep
@pytest.mark.e2e
@pytest.mark.skipif(which("cc", "gcc", "clang") is None, reason="needs a compiler (Debian package gcc)")
def test_every_kind_of_load_passes(tmp_path: Path) -> None:
    """Each load runs through each relay and arrives as it was sent; journals are there."""
    with loaded(tmp_path) as load, running(load.ports[RABBITMQ], tmp_path) as relays:
        for found in outcomes(load, relays, rounds=1, seconds=0.001):
            assert [one.name for one in found.series] == [PLAIN, *KINDS]
            assert [one.failure for one in found.series] == [None] * 4
    assert len(list(tmp_path.glob("journal-*/*.journal"))) >= len(KINDS)

"""What surviving costs: ratios to the plain upstream, from runs that lost nothing and showed clients no receipt."""

from pathlib import Path

import pytest

from bench.contenders import CONFIRM, FAILOVER, PLAIN
from bench.load import loaded
from bench.machine import which
from bench.survival import TRAFFIC, outcome, running

SENDS, MESSAGES = TRAFFIC[0], TRAFFIC[3]


@pytest.mark.deep
@pytest.mark.e2e
@pytest.mark.skipif(which("cc", "gcc", "clang") is None, reason="needs a compiler (Debian package gcc)")
def test_every_kind_of_load_passes(tmp_path: Path) -> None:
    """Each load runs on each of its upstreams and arrives as it was sent."""
    with loaded(tmp_path) as load, running(load.ports, tmp_path) as relay:
        for traffic in TRAFFIC:
            found = outcome(load, relay, traffic, rounds=1, seconds=0.001)
            kinds = [PLAIN, FAILOVER, CONFIRM] if traffic.confirm else [PLAIN, FAILOVER]
            assert [one.name for one in found.series] == kinds
            assert [one.failure for one in found.series] == [None] * len(kinds)
            assert all(one.runs[0].messages >= 200 for one in found.series)

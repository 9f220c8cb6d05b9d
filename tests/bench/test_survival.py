"""What surviving costs: ratios to the plain upstream, from runs that lost nothing and showed clients no receipt."""

from pathlib import Path

import pytest

from bench.contenders import CONFIRM, FAILOVER, PLAIN
from bench.load import Case, Run, loaded
from bench.machine import which
from bench.rounds import Outcome, Series
from bench.survival import TRAFFIC, Traffic, outcome, report, running

SENDS, MESSAGES = TRAFFIC[0], TRAFFIC[3]


def measured(traffic: Traffic, **costs: int) -> Outcome:
    """One round of so many messages, and microseconds of CPU for each."""
    case = Case("sink", 1024)
    runs = {kind: [Run(1_000_000 // cost, 1.0, 1.0)] for kind, cost in costs.items()}
    return Outcome(traffic.name, [Series(kind, case, found) for kind, found in runs.items()])


def test_report() -> None:
    """Failover and confirm stand beside the plain upstream; where nothing is sent nothing is confirmed."""
    text = report(
        [measured(SENDS, plain=5, failover=10, confirm=20), measured(MESSAGES, plain=4, failover=8)]
    )
    first, second = (line.split() for line in text.splitlines() if "MQ)" in line or "auto" in line)
    assert first[-6:] == ["200,000", "0.500", "0.250", "5.00", "2.00", "4.00"]
    assert second[-6:] == ["250,000", "0.500", "-", "4.00", "2.00", "-"]


def test_report_of_a_failure() -> None:
    """What failed has no ratio, and its reason is said."""
    found = measured(SENDS, plain=5, failover=10, confirm=20)
    found.series[2].failure = "the broker had 119"
    text = report([found])
    assert f"FAILED confirm, {SENDS.name}: the broker had 119" in text
    assert found.ratios(lambda run: run.rate, CONFIRM, PLAIN) == []


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

"""What a journal costs: ratios to the relay that keeps none, from runs that lost nothing."""

from pathlib import Path

import pytest

from bench.contenders import PLAIN
from bench.journal import HEADS, KINDS, SHORT, WHOLE, outcomes, report, running
from bench.load import RABBITMQ, Case, Run, loaded
from bench.machine import which
from bench.rounds import Outcome, Series


def measured(**costs: int) -> Outcome:
    """One round of so many microseconds of CPU a message, and as many messages as that allows."""
    case = Case("sink", 1024)
    names = {"plain": PLAIN, "heads": HEADS, "short": SHORT, "whole": WHOLE}
    runs = {names[kind]: [Run(1_000_000 // cost, 1.0, 1.0)] for kind, cost in costs.items()}
    return Outcome("sink, 1024 B", [Series(kind, case, found) for kind, found in runs.items()])


def test_report() -> None:
    """Rates and costs beside the plain relay's."""
    text = report([measured(plain=10, heads=10, short=20, whole=40)])
    rates, costs = (line.split() for line in text.splitlines() if line.startswith("sink"))
    assert rates[3:] == ["100,000", "1.00", "0.500", "0.250"]
    assert costs[3:] == ["10.0", "1.00", "2.00", "4.00"]


def test_report_of_a_failure() -> None:
    """What failed has no ratio, and its reason is said."""
    found = measured(plain=10, heads=10, short=20, whole=40)
    found.series[1].failure = "the broker had 119"
    text = report([found])
    assert f"FAILED {HEADS}, sink, 1024 B: the broker had 119" in text
    (rates, _) = (line.split() for line in text.splitlines() if line.startswith("sink"))
    assert rates[3:] == ["100,000", "-", "0.500", "0.250"]


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

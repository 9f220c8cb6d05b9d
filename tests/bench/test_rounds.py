"""What is read off the rounds: ratios between contenders of one group."""

from dataclasses import replace

import pytest

from bench.contenders import HAPROXY, PORTFORWARD, RELAY
from bench.load import Case, Run
from bench.rounds import Group, Outcome, Series
from bench.throughput import groups, report

BASE = Case("sink", 1024)
CROSSED = replace(BASE, client="1.0", escaped=True)


def series(contender: str, case: Case, *rates: int) -> Series:
    """A series whose runs took a second of which the contender worked half."""
    return Series(contender, case, [Run(rate, 1.0, 0.5) for rate in rates])


@pytest.fixture
def outcome() -> Outcome:
    """Two rounds; in the second all were half as fast."""
    return Outcome(
        Group(BASE, (CROSSED,)),
        [
            series(HAPROXY, BASE, 1000, 500),
            series(PORTFORWARD, BASE, 500, 250),
            series(RELAY, BASE, 300, 150),
            series(RELAY, CROSSED, 100, 50),
        ],
    )


def test_cells_of_the_base_case(outcome: Outcome) -> None:
    """All three ratios, each of the same round."""
    assert outcome.cells(lambda run: run.rate, BASE) == pytest.approx((0.3, 0.5, 0.6))
    assert outcome.cells(lambda run: run.cost, BASE) == pytest.approx((1 / 0.3, 2.0, 1 / 0.6))


def test_cells_of_a_variant(outcome: Outcome) -> None:
    """A variant of the relay's is held against what the others did in the base case."""
    ours, theirs, between = outcome.cells(lambda run: run.rate, CROSSED)
    assert (ours, between) == pytest.approx((0.1, 0.2))
    assert theirs is None


def test_failure_has_no_ratio(outcome: Outcome) -> None:
    """A contender that failed is named with its reason, and its cells are empty."""
    broken = outcome.of(RELAY, CROSSED)
    assert broken is not None
    broken.failure = "the broker complains: SEND out of sequence"
    assert outcome.cells(lambda run: run.rate, CROSSED)[0] is None
    assert "FAILED relay, sink, 1 KiB bodies, 1.0 on 1.2, escaped, unique heads: the broker" in report(
        outcome
    )


def test_report_holds_goals_beside_figures(outcome: Outcome) -> None:
    """A goal is said to be met or not; nothing is asserted."""
    text = report(outcome)
    assert ">= 0.25 (stretch 0.35): met" in text
    assert "<= 6 (stretch 4.5): met" in text


def test_groups_cross_versions() -> None:
    """Streams are measured in both directions of the bridge, with and without something to escape."""
    (group,) = groups("sink", [100])
    pairs = {(case.client, case.broker, case.escaped) for case in group.variants if case.crosses}
    assert {("1.0", "1.2", False), ("1.0", "1.2", True), ("1.2", "1.0", False), ("1.2", "1.0", True)} <= pairs
    assert group.base.client == group.base.broker == "1.2"

"""What is read off the rounds: ratios between those who took part in the same one."""

import pytest

from bench.load import Case, Run
from bench.rounds import Outcome, Series

CASE = Case("sink", 1024)


def series(name: str, *rates: int) -> Series:
    """A series whose runs took a second of which the contender worked half."""
    return Series(name, CASE, [Run(rate, 1.0, 0.5) for rate in rates])


@pytest.fixture
def outcome() -> Outcome:
    """Three rounds; in the second both were half as fast, in the third only one was."""
    return Outcome("send", [series("haproxy", 1000, 500, 1000), series("relay", 300, 150, 100)])


def test_ratios_are_of_the_same_round(outcome: Outcome) -> None:
    """What slows both does not show; what slows one does."""
    assert outcome.ratios(lambda run: run.rate, "relay", "haproxy") == pytest.approx([0.3, 0.3, 0.1])
    assert outcome.ratios(lambda run: run.cost, "relay", "haproxy") == pytest.approx([1 / 0.3, 1 / 0.3, 10])
    assert outcome.absolute(lambda run: run.rate, "haproxy") == 1000


def test_failure_has_no_ratio(outcome: Outcome) -> None:
    """Who failed is named with the reason, and is held against nobody."""
    broken = outcome.of("relay")
    assert broken is not None
    broken.failure = "the broker complains: SEND out of sequence"
    assert outcome.ratios(lambda run: run.rate, "relay", "haproxy") == []
    assert outcome.failures() == ["FAILED relay, send: the broker complains: SEND out of sequence\n"]


def test_who_is_missing_has_no_ratio(outcome: Outcome) -> None:
    """A contender that is not installed here is not an error."""
    assert outcome.ratios(lambda run: run.rate, "relay", "direct") == []
    assert outcome.absolute(lambda run: run.rate, "direct") is None

"""Medians, ratios, goals and tables."""

import pytest

from bench.report import Goal, ratios


def test_ratios_are_taken_round_by_round() -> None:
    """A round that was slow for both does not move the ratio, and nothing is divided by nothing."""
    assert ratios([10.0, 1.0, 5.0], [20.0, 2.0, 0.0]) == [0.5, 0.5]


def test_ratios_need_the_same_rounds() -> None:
    """Figures of different rounds are not compared."""
    with pytest.raises(ValueError, match="zip"):
        ratios([1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, ">= 0.25 (stretch 0.35): not measured"),
        (0.2, ">= 0.25 (stretch 0.35): NOT met"),
        (0.25, ">= 0.25 (stretch 0.35): met"),
        (0.35, ">= 0.25 (stretch 0.35): met, stretch too"),
    ],
)
def test_goal_of_at_least(value: float | None, said: str) -> None:
    """More is better: on the bound is met."""
    assert Goal(0.25, 0.35).verdict(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(6.1, "<= 6: NOT met"), (6.0, "<= 6: met"), (0.1, "<= 6: met")],
)
def test_goal_of_at_most(value: float, said: str) -> None:
    """Less is better, and a goal may have no stretch."""
    assert Goal(6, at_most=True).verdict(value) == said

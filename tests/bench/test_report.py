"""Medians, ratios, goals and tables."""

import pytest

from bench.report import Goal, Spread, figure, median, ratios, share, spread, table, verdict


def test_median_of_rounds() -> None:
    """The middle round counts, not the mean; of no rounds there is no figure."""
    assert median([1.0, 100.0, 2.0]) == 2.0
    assert median([1.0, 3.0]) == 2.0
    assert median([]) is None


@pytest.mark.parametrize(("part", "value"), [(0.0, 1.0), (0.5, 5.0), (0.95, 10.0), (0.9, 9.0), (1.0, 10.0)])
def test_share(part: float, value: float) -> None:
    """So many of the figures are not above it: half, 95 of 100, all."""
    assert share([10.0, 1.0, 5.0, 2.0, 9.0, 3.0, 4.0, 8.0, 7.0, 6.0], part) == value
    assert share([], part) is None


def test_spread() -> None:
    """The median with the quartiles around it: one round that was disturbed moves neither."""
    assert spread([5.0, 1.0, 2.0, 90.0, 3.0, 4.0, 6.0]) == Spread(4.0, 2.0, 6.0)
    assert Spread(4.0, 2.0, 6.0).said == "[2.00 - 6.00]"
    assert spread([]) is None


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


def test_no_goal_says_nothing() -> None:
    """A row without a goal has an empty cell."""
    assert verdict(None, 1.0) == ""


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "-"),
        (0.0314, "0.031"),
        (3.14159, "3.14"),
        (31.4159, "31.4"),
        (31415.9, "31,416"),
        (0.0, "0.000"),
    ],
)
def test_figures(value: float | None, said: str) -> None:
    """Three digits count; no figure is a dash."""
    assert figure(value) == said


def test_table_is_aligned() -> None:
    """Names and goals stand to the left, figures to the right, and no line ends in blanks."""
    text = table("title", ("row", "n", "goal"), [["one", "1", ""], ["eleven", "1,100", "met"]])
    assert text.splitlines() == [
        "title",
        "",
        "row         n  goal",
        "------  -----  ----",
        "one         1",
        "eleven  1,100  met",
    ]

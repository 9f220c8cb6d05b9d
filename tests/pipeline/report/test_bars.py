"""Bars on the axis of time, and where their notes have room."""

import pytest

from stomprelay.pipeline.report.findings import Span
from stomprelay.pipeline.report.plot import Bar, placed
from stomprelay.pipeline.report.text import HOUR, MINUTE
from tests.pipeline.report.sample import BEGIN

SPAN = Span.over(BEGIN, BEGIN + HOUR - 1)
Place = tuple[str, str, float]


def test_bars() -> None:
    """Lie where their time is; what is outside is cut off or left out."""
    bars = [
        Bar(BEGIN + begin * MINUTE, BEGIN + end * MINUTE, "outage", "", "")
        for begin, end in ((-90, -70), (-5, 6), (30, 33), (54, 90), (70, 80))
    ]
    assert [(one.left, one.right) for one in placed(SPAN, bars)] == [(0, 0.1), (0.5, 0.55), (0.9, 1)]


@pytest.mark.parametrize(
    ("bars", "notes"),
    [
        ([(6, 12)], [("note fits", "left", 0.2)]),
        ([(30, 36)], [("note", "left", 0.6)]),
        ([(48, 54)], [("note before fits", "right", 0.2)]),
        ([(0, 6), (9, 12), (14, 15)], [None, None, ("note fits", "left", 0.25)]),
        ([(0, 60)], [None]),
    ],
)
def test_notes(bars: list[tuple[int, int]], notes: list[Place | None]) -> None:
    """Stand to the right, near the end to the left, and never over another; a narrow chart shows those that fit."""
    made = placed(
        SPAN, [Bar(BEGIN + begin * MINUTE, BEGIN + end * MINUTE, "outage", "", "") for begin, end in bars]
    )
    found = [(one.beside, one.side, round(one.at, 6)) if one.beside else None for one in made]
    assert found == notes

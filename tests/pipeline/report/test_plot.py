"""Charts over time, bars on its axis, and where their notes have room."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stomprelay.pipeline.report import plot
from stomprelay.pipeline.report.findings import Span
from stomprelay.pipeline.report.plot import TimeBand, fitting, linear, logarithmic
from stomprelay.pipeline.report.text import HOUR, MINUTE, SECOND
from tests.pipeline.report.sample import BEGIN

SPAN = Span.over(BEGIN, BEGIN + HOUR - 1)


def test_gaps() -> None:
    """Are told when they are long, and when there is something around them."""
    recorded = [True] * 10 + [False] * 2 + [True] * 10 + [False] * 3 + [True] * 35
    (gap,) = plot.gaps(SPAN, recorded)
    assert (gap.since, gap.until, gap.kind) == (BEGIN + 22 * MINUTE, BEGIN + 25 * MINUTE, "gap")
    assert [plot.gaps(SPAN, each) for each in ([False] * 60, [True] * 60, [])] == [[], [], []]


def test_what_lies_behind_is_told_by_bin() -> None:
    """For tables: each band in the bins that it touches, once; what is outside is left out."""
    bands = [
        TimeBand(BEGIN - HOUR, BEGIN, "outage", "before"),
        TimeBand(BEGIN - HOUR, BEGIN + 90 * SECOND, "outage", "a broker was out", "b was out"),
        TimeBand(BEGIN + MINUTE, BEGIN + MINUTE, "outage", "a broker was out", "c was out"),
        TimeBand(BEGIN + 59 * MINUTE, BEGIN + 2 * HOUR, "gap", "nothing recorded"),
        TimeBand(BEGIN + HOUR, BEGIN + 2 * HOUR, "gap", "after"),
    ]
    said = plot.meanwhile(SPAN, bands)
    assert said[:2] == ["before; b was out", "b was out; c was out"]
    assert set(said[2:-1]) == {""}
    assert said[-1] == "nothing recorded"


def test_a_linear_axis() -> None:
    """Begins at zero and ends at a round number; what is counted has no halves."""
    axes = {0: (0,), 1: (0, 0.25, 0.5, 0.75, 1), 4: (0, 1, 2, 3, 4), 7: (0, 2, 4, 6, 8)}
    for top, ticks in {**axes, 93: (0, 25, 50, 75, 100), 170: (0, 50, 100, 150, 200)}.items():
        scale = linear([0, top])
        assert scale.ticks == pytest.approx(ticks)
        assert scale.place(0) == 0
    wholes = [linear([each], whole=True).ticks for each in (9, 1, 100)]
    assert wholes == [(0, 5, 10), (0, 1), (0, 25, 50, 75, 100)]


def test_a_logarithmic_axis() -> None:
    """Runs over whole decades; each has the same height."""
    scale = logarithmic([340, 2_000, 4_200_000])
    assert scale.ticks == tuple(10.0**power for power in range(2, 8))
    assert [scale.place(tick) for tick in scale.ticks] == pytest.approx([n / 5 for n in range(6)])
    assert scale.place(0) == scale.place(-5) == 0


def test_the_axis_that_fits() -> None:
    """Is logarithmic only where values span decades."""
    assert not fitting([100, 4_000]).logarithmic
    assert fitting([100, 6_000]).logarithmic
    assert not fitting([]).logarithmic
    assert not fitting([0, 0]).logarithmic
    assert fitting([0, 1, 1000]).logarithmic


@given(st.lists(st.floats(0, 1e15), min_size=1))
@example([5e-324])
@example([1e-12])
def test_every_value_has_a_place(values: list[float]) -> None:
    """On the axis made for it, inside its ends."""
    for scale in (linear(values), logarithmic(values), fitting(values)):
        assert scale.low < scale.high
        assert all(0 <= scale.place(value) <= 1 for value in values)
        assert max(values) <= scale.high * (1 + 1e-9)
        assert len(scale.ticks) <= 18


def test_layers() -> None:
    """The second begins where the first ends; equal neighbours are one step; one of zeros is not drawn."""
    layers = [[1, 1, 2, 0], [0, 0, 0, 0], [1, 1, 2, 0]]
    span = Span(0, 4 * SECOND, SECOND)
    assert plot.stack(span, linear([4]), ["c1", "c2", "c3"], layers) == [
        ("area c1", "M0 1000V750H500V500H750V1000H1000V1000H0Z"),
        ("area c3", "M0 750V500H500V0H750V1000H1000V1000H750V500H500V750H0Z"),
    ]

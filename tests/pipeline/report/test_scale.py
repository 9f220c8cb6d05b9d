"""The value axis."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stomprelay.pipeline.report.plot import fitting, linear, logarithmic


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (0, (0,)),
        (1, (0, 0.25, 0.5, 0.75, 1)),
        (4, (0, 1, 2, 3, 4)),
        (7, (0, 2, 4, 6, 8)),
        (93, (0, 25, 50, 75, 100)),
        (170, (0, 50, 100, 150, 200)),
    ],
)
def test_a_linear_axis(top: float, ticks: tuple[float, ...]) -> None:
    """Begins at zero and ends at a round number."""
    scale = linear([0, top])
    assert scale.ticks == pytest.approx(ticks)
    assert scale.place(0) == 0


def test_what_is_counted_has_no_halves() -> None:
    """Nine errors are marked by whole numbers."""
    assert linear([9], whole=True).ticks == (0, 5, 10)
    assert linear([1], whole=True).ticks == (0, 1)
    assert linear([100], whole=True).ticks == (0, 25, 50, 75, 100)


def test_a_logarithmic_axis() -> None:
    """Runs over whole decades; each has the same height."""
    scale = logarithmic([340, 2_000, 4_200_000])
    assert scale.ticks == tuple(10.0**power for power in range(2, 8))
    assert [scale.place(tick) for tick in scale.ticks] == pytest.approx([n / 5 for n in range(6)])
    assert scale.place(0) == scale.place(-5) == 0


def test_equal_values_have_a_decade() -> None:
    """An axis has a height."""
    assert logarithmic([1000]).ticks == (1000, 10_000)
    assert logarithmic([]).ticks == (1, 10)


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

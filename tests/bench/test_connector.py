"""The figures of the `stomp` data source."""

from bench.connector import Rate, report


def test_a_rate_is_the_median_of_its_rounds() -> None:
    """By the second; without rounds there is none."""
    assert Rate("x", 100, [1.0, 2.0, 0.5]).rate == 100.0
    assert Rate("x", 100, []).rate is None


def test_the_table_has_a_row_for_each_stage() -> None:
    """Messages a second, and what one takes."""
    told = report([Rate("in", 50_000, [2.0]), Rate("out", 50_000, [])])
    rows = [line.split() for line in told.splitlines()]
    assert ["in", "50,000", "25,000", "40.0"] in rows
    assert ["out", "50,000", "-", "-"] in rows

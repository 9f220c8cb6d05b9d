"""Spark's answers beside DuckDB's."""

import pytest

from bench.aggregates import DifferentError, compare


def test_the_same_is_the_same() -> None:
    """Figures, and texts and nothing as well."""
    compare("x", {("a", None): (1, None)}, {("a", None): (1, None)}, 1)


@pytest.mark.parametrize(
    ("ours", "exact", "width"),
    [
        ({("a",): (1,)}, {("b",): (1,)}, 1),
        ({("a",): (1,)}, {}, 1),
        ({("a",): (101,)}, {("a",): (100,)}, 1),
        ({("a",): (103,)}, {("a",): (100,)}, 1.022),
        ({("a",): (99,)}, {("a",): (100,)}, 1.022),
        ({("a",): (None,)}, {("a",): (100,)}, 1.022),
        ({("a",): (100,)}, {("a",): (None,)}, 1.022),
    ],
)
def test_what_differs_is_said(
    ours: dict[tuple[str], tuple[int | None]], exact: dict[tuple[str], tuple[int | None]], width: float
) -> None:
    """Rows that only one has, and figures below the exact one or too far above."""
    with pytest.raises(DifferentError, match="this and that"):
        compare("this and that", {**ours}, {**exact}, width)


def test_a_percentile_may_be_a_little_above() -> None:
    """As wide as a bucket, on either side of nothing."""
    compare("x", {("a",): (1022, -1000)}, {("a",): (1000, -1022)}, 1.022)

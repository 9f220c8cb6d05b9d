"""Times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.records import parse_time, spell_time
from tests.journal.made import NOW, SECOND


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (NOW, "2026-11-21T08:23:00.123456Z"),
        (NOW + 544, "2026-11-21T08:23:00.123457Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-62135596800 * SECOND, "0001-01-01T00:00:00.000000Z"),
        ((1 << 63) - 1, "2262-04-11T23:47:16.854775Z"),
        (1 << 80, f"{1 << 80}ns"),
    ],
)
def test_shown(ns: int, text: str) -> None:
    """UTC, ISO 8601, microseconds; there is nothing that cannot be shown."""
    assert spell_time(ns) == text


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:01", 60 * SECOND),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 00:00:00.000001Z", 1000),
        ("19700101T000001Z", SECOND),
        ("1969-12-31T23:59:59.999999", -1000),
    ],
)
def test_read(text: str, ns: int) -> None:
    """Parts of it, UTC where nothing else is said."""
    assert parse_time(text) == ns


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2026-11-21T25:00", "5"])
def test_what_is_no_time(text: str) -> None:
    """It is a `ValueError`."""
    with pytest.raises(ValueError):  # noqa: PT011 - its text is the standard library's
        parse_time(text)


@given(st.integers(-62135596800 * SECOND, (1 << 63) - 1))
def test_round_trips(ns: int) -> None:
    """To the microsecond."""
    assert parse_time(spell_time(ns)) == ns // 1000 * 1000

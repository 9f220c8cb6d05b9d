"""Names of segments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.segment import CLOSED, OPEN, SegmentName, parse_name, safe_name
from tests.journal.made import NAME, NOW, RUN, SECOND

BEGUN = NOW // SECOND * SECOND


def test_a_name() -> None:
    """When, who, which run, which of it."""
    assert str(SegmentName(NOW, "eu-1", RUN, 1)) == "20261121T082300-eu-1-0123abcd-000001" == NAME
    assert str(SegmentName(0, "r", RUN, 1234567)) == "19700101T000000-r-0123abcd-1234567"


def test_a_name_is_read() -> None:
    """With the ending that says whether it is open."""
    assert parse_name(f"{NAME}{CLOSED}") == (SegmentName(BEGUN, "eu-1", RUN, 1), False)
    assert parse_name(f"{NAME}{OPEN}") == (SegmentName(BEGUN, "eu-1", RUN, 1), True)


@pytest.mark.parametrize(
    "file",
    [
        "",
        NAME,
        f"{NAME}.journal.gz",
        f"{NAME}.journal.open.open",
        f"x{NAME}.journal",
        "20261121T082300-eu-1-000001.journal",
        "20261121T082300-eu-1-0123abcg-000001.journal",
        "20261121T082300-eu-1-0123abcd-1.journal",
        "20261121T082300--0123abcd-000001.journal",
        "20261321T082300-eu-1-0123abcd-000001.journal",
        "20261121T082300-eu/1-0123abcd-000001.journal",
    ],
)
def test_other_files(file: str) -> None:
    """They are none of ours."""
    assert parse_name(file) is None


@pytest.mark.parametrize(
    ("relay", "name"),
    [
        ("eu-1", "eu-1"),
        ("a.b_C9", "a.b_C9"),
        ("a b/../c", "a_b_.._c"),
        ("zürich", "z_rich"),
        ("", "_"),
        ("\0\n", "_"),
        ("x" * 300, "x" * 100),
    ],
)
def test_a_relay_of_any_name(relay: str, name: str) -> None:
    """What a file's name cannot hold, or had better not, is an underscore."""
    assert safe_name(relay) == name


@given(st.integers(0, 253402300799 * SECOND), st.text(), st.integers(0, 0xFFFFFFFF), st.integers(1, 10**11))
def test_round_trips(created: int, relay: str, run: int, number: int) -> None:
    """What was named is read, a relay called like the rest of a name included."""
    name = SegmentName(created // SECOND * SECOND, safe_name(relay), f"{run:08x}", number)
    assert parse_name(f"{name}{CLOSED}") == (name, False)
    again = name._replace(relay=safe_name(str(name)))
    assert parse_name(f"{again}{OPEN}") == (again, True)


def test_names_sort_by_time() -> None:
    """As texts, too."""
    names = [
        str(SegmentName(at * SECOND, "r", RUN, 1))
        for at in (0, 1, 59, 60, 3600, 86400, 31 * 86400, 366 * 86400)
    ]
    assert names == sorted(names)

"""Octets as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.explain.visible import visible, without_passcode


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a:b c\\n\n", "a:b c\\n\n"),
        ("häßlich \N{SNOWMAN}".encode(), "häßlich \N{SNOWMAN}"),
        (b"\0\r\t\x1b[31m\x7f", "^@^M^I^[[31m^?"),
        (b"\xff\xe9x", "<ff><e9>x"),
        ("\u202e\x85".encode(), "<U+202E><U+0085>"),
    ],
)
def test_visible(data: bytes, text: str) -> None:
    """Text stays, and what a terminal would act on is spelled."""
    assert visible(data) == text


@given(st.binary())
def test_whatever_comes_can_be_shown(data: bytes) -> None:
    """Any octets become lines of printable characters."""
    assert all(line.isprintable() for line in visible(data).split("\n"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_passcode_is_masked(end: bytes) -> None:
    """Every passcode of a head, however often it is said, and nothing else."""
    lines = [b"CONNECT", b"login:u", b"passcode:geheim", b"x-passcode:y", b"passcode:", b"", b""]
    masked = [b"CONNECT", b"login:u", b"passcode:********", b"x-passcode:y", b"passcode:********", b"", b""]
    assert without_passcode(end.join(lines)) == end.join(masked)

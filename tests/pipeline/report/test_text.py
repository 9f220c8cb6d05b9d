"""Numbers, times and names as people read them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND
from tests.pipeline.report.sample import BEGIN, HOSTILE


def plain(said: str) -> str:
    """With usual spaces."""
    return said.replace("\u202f", " ")


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (0.004, "0.004"),
        (0.5, "0.5"),
        (0.999, "1"),
        (1, "1"),
        (9.96, "10"),
        (34.4, "34"),
        (567.8, "568"),
    ],
)
def test_digits(number: float, said: str) -> None:
    """Two that count below a hundred, and never an exponent."""
    assert text.digits(number) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1 k"),
        (1000, "1 k"),
        (1234, "1.2 k"),
        (999_499, "999 k"),
        (999_500, "1 M"),
        (5.6e9, "5.6 G"),
        (7e12, "7 T"),
        (3e18, "3000 P"),
    ],
)
def test_short(number: float, said: str) -> None:
    """What would round up to a thousand is said in the next unit."""
    assert plain(text.short(number)) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1_048_575, "1 MiB"),
        (34 * 1024 * 1024, "34 MiB"),
        (2 * 1024**4, "2 TiB"),
    ],
)
def test_octets(number: int, said: str) -> None:
    """In powers of 1024."""
    assert plain(text.octets(number)) == said


@pytest.mark.parametrize(
    ("micros", "said"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_000, "1 ms"),
        (3_440, "3.4 ms"),
        (999_499, "999 ms"),
        (999_500, "1 s"),
        (1_250_000, "1.2 s"),
        (59_600_000, "1 min"),
        (2 * MINUTE + 5 * SECOND, "2 min 5 s"),
        (HOUR - 1, "1 h"),
        (3 * HOUR + 12 * MINUTE, "3 h 12 min"),
        (DAY - 1, "1 d"),
        (2 * DAY + 3 * HOUR, "2 d 3 h"),
        (1_200 * DAY, "1,200 d"),
        (-4_200_000, "\u22124.2 s"),
    ],
)
def test_duration(micros: int, said: str) -> None:
    """In the largest unit of which there is one, and the next."""
    assert plain(text.duration(micros)) == said


@given(st.integers(0, 10**16))
def test_any_duration_can_be_said(micros: int) -> None:
    """And no part of it is as large as the unit above."""
    said = plain(text.duration(micros))
    assert "60 s" not in said
    assert "60 min" not in said
    assert "24 h" not in said


@pytest.mark.parametrize(
    ("rate", "said"),
    [(0, "0/s"), (1234, "1.2 k/s"), (0.1, "0.1/s"), (0.05, "3/min"), (0.001, "3.6/h"), (0.0016, "0.096/min")],
)
def test_rate(rate: float, said: str) -> None:
    """In the unit in which it is easy to grasp."""
    assert plain(text.rate(rate)) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 0, "\u2013"),
        (9, 9, "100 %"),
        (1, 3, "33.3 %"),
        (1, 10_000, "<0.1 %"),
        (9_999, 10_000, ">99.9 %"),
        (999, 1000, "99.9 %"),
    ],
)
def test_percent(part: int, whole: int, said: str) -> None:
    """One lost of ten thousand is not none."""
    assert plain(text.percent(part, whole)) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/queue/a b", "/queue/a b"),
        ("", "(empty)"),
        ("<b>&amp;", "<b>&amp;"),
        ("a\x00\x1b[31m\n", "a⟨U+0000⟩⟨U+001B⟩[31m⟨U+000A⟩"),
        ("\u202eevil\u2066\u200b", "⟨U+202E⟩evil⟨U+2066⟩⟨U+200B⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("שלום", "שלום"),
    ],
)
def test_visible(name: str, said: str) -> None:
    """What hides, or turns the text around it, is shown by its number; letters of any script stay."""
    assert text.visible(name) == said


def test_a_long_name_loses_its_middle() -> None:
    """Its ends tell most."""
    said = text.visible("/queue/" + "x" * 10_000 + "/end", 41)
    assert said == "/queue/" + "x" * 13 + "…" + "x" * 16 + "/end"


@given(st.text() | st.sampled_from(HOSTILE))
def test_a_visible_name_is_printable_and_not_long(name: str) -> None:
    """Whatever a client sends."""
    said = text.visible(name, 20)
    assert said.replace(" ", "").replace("\u3000", "") == "" or said
    assert len(said) <= 20 * 10
    said.encode()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("day", "21 Nov"),
        ("hour", "08:00"),
        ("second", "08:00:05"),
        ("both", "21 Nov 08:00"),
        ("stamp", "21 Nov 2026, 08:00"),
        ("full", "21 Nov 2026, 08:00:05"),
    ],
)
def test_clock(form: str, said: str) -> None:
    """Times in UTC, in each form."""
    assert text.clock(BEGIN + 5 * SECOND, form) == said


@given(st.text())
def test_whatever_text_is_a_string_of_css(said: str) -> None:
    """Nothing in it ends the string, the rule or the element that it stands in; it reads as it was."""
    made = text.css_string(said)
    assert re.fullmatch(r'"[A-Za-z0-9 _.\\-]*"', made)
    assert re.sub(r"\\([0-9a-f]+) ", lambda found: chr(int(found[1], 16)), made[1:-1]) == said

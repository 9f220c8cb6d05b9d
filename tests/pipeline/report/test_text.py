"""Numbers, times and names as people read them."""

import re
from collections.abc import Callable
from typing import Any

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
    ("spell", "said"),
    [
        # Two digits that count below a hundred, and never an exponent.
        (text.digits, {0: "0", 0.004: "0.004", 0.5: "0.5", 0.999: "1", 1: "1", 9.96: "10"}),
        (text.digits, {34.4: "34", 567.8: "568"}),
        # What would round up to a thousand is said in the next unit.
        (text.short, {0: "0", 999: "999", 999.6: "1 k", 1000: "1 k", 1234: "1.2 k", 999_499: "999 k"}),
        (text.short, {999_500: "1 M", 5.6e9: "5.6 G", 7e12: "7 T", 3e18: "3000 P"}),
        (text.octets, {0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1_048_575: "1 MiB"}),
        (text.octets, {34 << 20: "34 MiB", 2 << 40: "2 TiB"}),
        # In the largest unit of which there is one, and the next.
        (text.duration, {0: "0 µs", 999: "999 µs", 1_000: "1 ms", 3_440: "3.4 ms", 999_499: "999 ms"}),
        (text.duration, {999_500: "1 s", 1_250_000: "1.2 s", 59_600_000: "1 min", HOUR - 1: "1 h"}),
        (text.duration, {125 * SECOND: "2 min 5 s", 192 * MINUTE: "3 h 12 min", DAY - 1: "1 d"}),
        (text.duration, {51 * HOUR: "2 d 3 h", 1_200 * DAY: "1,200 d", -4_200_000: "\u22124.2 s"}),
        # In the unit in which it is easy to grasp.
        (text.rate, {0: "0/s", 1234: "1.2 k/s", 0.1: "0.1/s"}),
        (text.rate, {0.05: "3/min", 0.0016: "0.096/min", 0.001: "3.6/h"}),
        # What hides, or turns the text around it, is shown by its number; letters of any script stay.
        (text.visible, {"/queue/a b": "/queue/a b", "": "(empty)", "<b>&amp;": "<b>&amp;", "שלום": "שלום"}),
        (text.visible, {"a\x00\x1b[31m\n": "a⟨U+0000⟩⟨U+001B⟩[31m⟨U+000A⟩", "\ud800": "⟨U+D800⟩"}),
        (text.visible, {"\u202eevil\u2066\u200b": "⟨U+202E⟩evil⟨U+2066⟩⟨U+200B⟩"}),
    ],
)
def test_values_as_people_read_them(spell: Callable[[Any], str], said: dict[Any, str]) -> None:
    """Numbers, amounts, durations, rates and names."""
    assert {value: plain(spell(value)) for value in said} == said


@given(st.integers(0, 10**16))
def test_any_duration_can_be_said(micros: int) -> None:
    """And no part of it is as large as the unit above."""
    said = plain(text.duration(micros))
    assert "60 s" not in said
    assert "60 min" not in said
    assert "24 h" not in said


def test_percent() -> None:
    """One lost of ten thousand is not none."""
    parts = ((0, 0), (9, 9), (1, 3), (1, 10_000), (9_999, 10_000), (999, 1000))
    said = ["\u2013", "100 %", "33.3 %", "<0.1 %", ">99.9 %", "99.9 %"]
    assert [plain(text.percent(*part)) for part in parts] == said


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


def test_clock() -> None:
    """Times in UTC, in each form."""
    forms = ("day", "hour", "second", "both", "stamp", "full")
    said = ["21 Nov", "08:00", "08:00:05", "21 Nov 08:00", "21 Nov 2026, 08:00", "21 Nov 2026, 08:00:05"]
    assert [text.clock(BEGIN + 5 * SECOND, form) for form in forms] == said


@given(st.text())
def test_whatever_text_is_a_string_of_css(said: str) -> None:
    """Nothing in it ends the string, the rule or the element that it stands in; it reads as it was."""
    made = text.css_string(said)
    assert re.fullmatch(r'"[A-Za-z0-9 _.\\-]*"', made)
    assert re.sub(r"\\([0-9a-f]+) ", lambda found: chr(int(found[1], 16)), made[1:-1]) == said

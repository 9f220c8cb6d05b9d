"""The figures that a report is judged by."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from stomprelay.pipeline.report.findings import Latency, Percentiles
from stomprelay.pipeline.report.indicators import INDICATORS, IndicatorKind, change, judged, threshold
from stomprelay.pipeline.report.text import HOUR, MINUTE, SECOND
from tests.pipeline.report.sample import sample
from tests.pipeline.report.test_findings import NOTHING

MANUAL = Path(__file__).parents[3] / "docs" / "pipeline.md"
TIMED = Latency([], Percentiles(9, 2_400, 9_000, 34_000, 40_000))
FINDINGS = replace(
    sample(),
    outcomes={"acked": 990, "undelivered": 8, "unheard": 100, "unconfirmed": 2},
    latencies={"delivery": TIMED},
    redelivered=5,
    octets=5 << 20,
    errors=[0, 3, 4],
    total_damages=6,
    dropped=4,
    killed=1,
)


def test_the_values() -> None:
    """Each of a day on which something happened, and of one on which nothing did."""
    found = {name: one.of(FINDINGS) for name, one in INDICATORS.items()}
    names = ("messages", "delivered", "unconfirmed", "undelivered", "unheard", "redelivered", "octets")
    assert [found.pop(name) for name in names] == [1100, 0.99, 2, 8, 100, 5, 5 << 20]
    for measure, times in (
        ("receipt", [None] * 4),
        ("delivery", [2_400, 9_000, 34_000, 40_000]),
        ("ack", [None] * 4),
    ):
        assert [found.pop(f"{measure}_{which}") for which in ("p50", "p95", "p99", "max")] == times
    assert found.pop("silence") == 4_180_000
    assert found.pop("stuck_wait") == 4 * HOUR
    assert found == {"outages": 2, "stuck": 3, "errors": 7, "damages": 6, "dropped": 4, "killed": 1}
    assert {one.of(NOTHING) for one in INDICATORS.values()} == {0, None}


def test_a_threshold() -> None:
    """A name and a value, of times with the unit."""
    limits = {"receipt_p99=200ms": 200_000, "receipt_p99 = 1.5 s": 1.5 * SECOND, "ack_max=2m": 2 * MINUTE}
    limits |= {"delivery_p50=300us": 300, "delivery_p50=300µs": 300, "stuck_wait=1h": HOUR}
    limits |= {"errors=0": 0, "octets=2g": 2 << 30}
    assert {said: threshold(said).limit for said in limits} == limits


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("recipt_p99=1s", "'recipt_p99' has no threshold: did you mean receipt_p99?"),
        ("=1", "'=1' has no threshold: there are messages, octets"),
        ("errors", "'errors' has no value: say errors=VALUE, a number, such as 10"),
        ("errors=few", "errors: 'few' is not a number"),
        ("errors=-1", "errors: '-1' is not a number"),
        ("receipt_p99=200", "receipt_p99: '200' is not a time with its unit, such as 200ms"),
        ("delivered=99", "delivered: '99' is not a share, such as 99.5%"),
        ("octets=1s", "octets: '1s' is not a number of bytes"),
    ],
)
def test_what_is_no_threshold(said: str, told: str) -> None:
    """Is told with what could have been meant."""
    with pytest.raises(ValueError, match=re.escape(told)):
        threshold(said)


def test_nothing_is_kept_where_frames_were_dropped() -> None:
    """Any threshold asks that none was, unless another says how many may be."""
    (given, also) = judged([threshold("errors=7")])
    assert (given, also.spelled, also.crossed(FINDINGS)) == (
        threshold("errors=7"),
        "dropped (at most 0)",
        True,
    )
    lenient = [threshold("dropped=10"), threshold("errors=7")]
    assert (judged(lenient), judged([])) == (lenient, [])


def test_what_is_crossed() -> None:
    """More than the most, or less than the least; what cannot be measured is neither crossed nor kept."""
    said = ["errors=6", "errors=7", "delivered=99.1%", "delivered=99%", "messages=1101", "ack_p99=1ms"]
    thresholds = [threshold(each) for each in said]
    assert [one.crossed(FINDINGS) for one in thresholds] == [True, False, True, False, True, None]
    assert [one.sentence(FINDINGS).replace("\u202f", " ") for one in thresholds] == [
        "7, above the threshold of 6",
        "7, within the threshold of 7",
        "99 %, below the threshold of 99.1 %",
        "99 %, within the threshold of 99 %",
        "1,100, below the threshold of 1,101",
        "there was nothing to measure",
    ]


@pytest.mark.parametrize(
    ("now", "before", "kind", "told"),
    [
        (112, 100, IndicatorKind.COUNT, "+12 %"),
        (100, 100, IndicatorKind.COUNT, "the same"),
        (100_001, 100_000, IndicatorKind.COUNT, "about the same"),
        (5, 0, IndicatorKind.COUNT, "none before"),
        (0, 5, IndicatorKind.COUNT, "none now"),
        (1200, 100, IndicatorKind.COUNT, "12 times as much"),
        (34_000, 17_000, IndicatorKind.TIME, "+100 %"),
        (0.995, 0.99, IndicatorKind.SHARE, "+0.5 points"),
        (0.9, 0.99, IndicatorKind.SHARE, "\u22129 points"),
        (None, 5, IndicatorKind.TIME, "\u2013"),
        (5, None, IndicatorKind.TIME, "\u2013"),
    ],
)
def test_a_change(now: float | None, before: float | None, kind: IndicatorKind, told: str) -> None:
    """In words that fit what it is."""
    assert change(now, before, kind).replace("\u202f", " ") == told


def test_a_share_is_not_rounded_up() -> None:
    """One message in a million that was lost is not all delivered."""
    assert IndicatorKind.SHARE.spell(0.999999) == "99.9\u202f%"
    assert IndicatorKind.SHARE.spell(1) == "100\u202f%"


def test_the_manual_names_them() -> None:
    """Each of them, and nothing else, in the table of thresholds."""
    table = (
        MANUAL.read_text(encoding="utf-8")
        .partition("| `NAME` | what | is crossed |\n")[2]
        .partition("\n\n")[0]
    )
    named = [each.strip("` ") for line in table.splitlines()[1:] for each in line.split("|")[1].split(",")]
    assert named == list(INDICATORS)

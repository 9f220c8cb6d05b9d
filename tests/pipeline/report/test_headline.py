"""The key numbers."""

from dataclasses import replace

from stomprelay.pipeline.report.findings import Latency, Percentiles
from stomprelay.pipeline.report.page import headline
from tests.pipeline.report.sample import sample
from tests.pipeline.report.test_findings import NOTHING


def test_each_number() -> None:
    """Value, unit, and what it means."""
    whole = Percentiles(9, 2_400, 9_000, 34_000, 40_000)
    findings = replace(
        sample(),
        outcomes={"acked": 99_900, "undelivered": 1_100, "unconfirmed": 3},
        redelivered=412,
        octets=5 * 1024 * 1024,
        latencies={"delivery": Latency([], whole)},
        errors=[0, 3, 4],
    )
    told = [
        (one.label, one.value, one.unit, one.detail.replace("\u202f", " "), one.tone)
        for one in headline(findings)
    ]
    assert told == [
        ("Messages", "101", "k", "4.7/s on average, 5 MiB on the wire", ""),
        ("Delivered", "98.9", "%", "99,900 reached a consumer, 412 times again", ""),
        (
            "Lost or unconfirmed",
            "3",
            "",
            "neither delivered nor confirmed; 1.1 k more not delivered yet",
            "bad",
        ),
        ("Latency, p99", "34", "ms", "SEND to MESSAGE; the median is 2.4 ms", ""),
        ("Failovers", "3", "", "longest silence 4.2 s, 137 frames sent again", "bad"),
        ("Stuck consumers", "3", "", "longest wait 4 h; 1 waits still", "bad"),
        ("Errors", "7", "", "of 2 kinds", "bad"),
    ]


def test_nothing() -> None:
    """Is neither good nor bad."""
    told = [(one.value, one.unit, one.tone) for one in headline(NOTHING)]
    assert told == [
        ("0", "", ""),
        ("\u2013", "", ""),
        ("0", "", ""),
        ("\u2013", "", ""),
        *[("0", "", "")] * 3,
    ]


def test_a_good_day() -> None:
    """Nothing lost is worth a colour."""
    assert headline(replace(NOTHING, outcomes={"acked": 5}))[2].tone == "good"
    assert headline(replace(NOTHING, failovers=sample().failovers[1:2]))[4].tone == ""

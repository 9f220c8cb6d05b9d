"""What stands out, the main numbers, and what was before."""

from collections.abc import Sequence
from dataclasses import replace

from stomprelay.pipeline.report.findings import Earlier, Findings, Latency, Percentiles, RelayRun
from stomprelay.pipeline.report.indicators import Threshold, threshold
from stomprelay.pipeline.report.page import PageOptions, page
from stomprelay.pipeline.report.text import DAY, HOUR
from tests.pipeline.report.outline import Element, outline
from tests.pipeline.report.sample import BEGIN, damaged, sample
from tests.pipeline.report.test_findings import NOTHING
from tests.pipeline.report.test_sections import note, said, section, table

QUIET = replace(NOTHING, outcomes={"acked": 100}, recorded=[True] * NOTHING.span.bins, octets=1 << 20)
UNTIMED = [Percentiles(0)] * 200
SINCE, UNTIL = QUIET.span.since - DAY, QUIET.span.until - DAY


def root(findings: Findings, thresholds: Sequence[Threshold] = ()) -> Element:
    """The page."""
    return outline(page(findings, PageOptions(made=BEGIN, thresholds=thresholds)))


def items(findings: Findings, thresholds: Sequence[Threshold] = ()) -> list[tuple[str, str, str]]:
    """Of each highlight the sentence, the section that it leads to, and its tone."""
    found = []
    for one in (each for box in root(findings, thresholds).all("ul", "highlights") for each in box.all("li")):
        link = one.all("a")[-1:]
        sentence = said(one).removesuffix(said(link[0]) if link else "").rstrip()
        found.append((sentence, link[0].attributes["href"] if link else "", " ".join(one.classes)))
    return found


def told(findings: Findings, thresholds: Sequence[Threshold] = ()) -> list[str]:
    """The sentences."""
    return [sentence for sentence, _, _ in items(findings, thresholds)]


def numbers(findings: Findings) -> list[tuple[str, ...]]:
    """Of each main number its tone, its name, its value, and what else is told."""
    found = root(findings).one("dl").children
    return [(" ".join(one.classes), *(said(each) for each in one.children)) for one in found]


def before(**more: object) -> Earlier:
    """The day before, with these findings; all of it was recorded."""
    return Earlier("day", SINCE, UNTIL, SINCE, UNTIL, replace(QUIET, **more))  # type: ignore[arg-type]


def test_nothing_stands_out() -> None:
    """On a good day the page says so; not where a part of the journal could not be read."""
    (section,) = (one for one in root(QUIET).all("section") if one.attributes["id"] == "highlights")
    assert section.one("p").text.startswith("Nothing: no message was lost")
    text = page(replace(QUIET, damages=damaged(), total_damages=2), PageOptions(made=BEGIN))
    assert "Nothing: no message was lost" not in text
    assert "Not all of the journal could be read." in text


def test_thresholds_that_are_kept() -> None:
    """Are listed below all else, so that nobody wonders whether they were looked at."""
    thresholds = tuple(threshold(each) for each in ("errors=0", "delivered=99%", "receipt_p99=200ms"))
    assert said(root(QUIET, thresholds).one("p", "kept")) == (
        "Thresholds that are kept: errors (at most 0), delivered (at least 99 %)."
    )
    assert told(QUIET, thresholds) == ["receipt_p99 (SEND to RECEIPT, p99): there was nothing to measure."]


def test_thresholds_that_are_crossed_come_first() -> None:
    """In the order in which they were given, then those that nothing is known for; those that are kept are not told."""
    said = ["errors=0", "delivered=10%", "delivery_p99=1ms", "ack_p99=1s"]
    findings = replace(sample(), latencies={"delivery": Latency(UNTIMED, Percentiles(1, 5, 5, 2_000, 2_000))})
    thresholds = [threshold(each) for each in reversed(said)]
    assert [rest for _, *rest in items(findings, thresholds)[:3]] == [
        ["#latency", "bad"],
        ["#errors", "bad"],
        ["#latency", ""],
    ]
    assert told(findings, thresholds)[:3] == [
        "delivery_p99 (SEND to MESSAGE, p99): 2 ms, above the threshold of 1 ms.",
        f"errors (errors of brokers and the relay): {sum(findings.errors)}, above the threshold of 0.",
        "ack_p99 (MESSAGE to ACK, p99): there was nothing to measure.",
    ]


def test_what_went_wrong() -> None:
    """Messages lost, brokers lost, consumers stuck, errors; topics that nobody listens to are no fault."""
    findings = replace(sample(), outcomes={"acked": 9, "unconfirmed": 1, "unheard": 30})
    assert told(findings) == [
        "1 message was neither delivered nor confirmed.",
        "Brokers were lost 2 times: 10.0.0.11:61613, 10.0.0.13:61613, under 39 sessions; "
        "the longest silence was 4.2 s; 1 gave up.",
        "A consumer leaves deliveries unanswered: mailer, the longest for 4 h so far.",
        f"{sum(findings.errors)} errors, most often: The broker went and no other is there.",
        "30 messages were sent to topics where nobody got them.",
    ]
    assert [tone for _, _, tone in items(findings)] == ["bad"] * 4 + [""]
    assert told(replace(QUIET, outcomes={"acked": 9, "unheard": 1})) == [
        "1 message was sent to a topic where nobody got it."
    ]


def test_what_the_journal_lacks() -> None:
    """Frames that it dropped, and relays that were killed, are told, and nobody reads that nothing was lost."""
    dead = RelayRun("r1", "0000000a", BEGIN, BEGIN, BEGIN, "killed", 1, 2, 3, 0, 0)
    findings = replace(QUIET, dropped=1114, killed=1, runs=[dead], total_runs=1, waiting={"tcp://a:1": 12})
    assert told(findings) == [
        "1,114 frames are missing from all figures: the journal dropped them.",
        "A relay was killed: r1.",
        "Messages were left at brokers: about 12 may wait at tcp://a:1.",
    ]
    assert numbers(findings)[2] == (
        *("bad", "Lost or unconfirmed", "0"),
        "neither delivered nor confirmed; 1,114 frames were not recorded at all",
    )


def test_what_changed() -> None:
    """By a half and more, if it is not tiny; shares by a point; of many names the first are told."""
    slow = {"delivery": Latency(UNTIMED, Percentiles(9, 20_000, 30_000, 90_000, 95_000))}
    fast = {"delivery": Latency(UNTIMED, Percentiles(9, 15_000, 20_000, 30_000, 35_000))}
    now = replace(QUIET, outcomes={"acked": 500, "undelivered": 6}, latencies=slow)
    now = replace(now, earlier=replace(before(latencies=fast, redelivered=3), gone=("/queue/a", "/queue/b")))
    assert told(now) == [
        "Messages: 506, +406 % (100 the day before).",
        "Messages that reached a consumer: 98.8 %, \u22121.2 points (100 % the day before).",
        "SEND to MESSAGE, p99: 90 ms, +200 % (30 ms the day before).",
        "Nothing passed any more, as it did the day before, at /queue/a, /queue/b.",
    ]
    many = replace(QUIET, earlier=replace(before(), gone=tuple(f"/queue/{n}" for n in range(5))))
    assert told(many)[0].endswith("/queue/0, /queue/1, /queue/2 and 2 more.")


def test_nothing_to_compare_with() -> None:
    """Is said plainly, with the time that was looked at, in both places; the numbers have nothing below them."""
    now = replace(QUIET, earlier=Earlier("day", SINCE, UNTIL))
    sentence = (
        "There is nothing to compare with: the tables have no records of the day before, "
        "20 Nov 2026, 08:00 to 20 Nov 2026, 09:00 UTC."
    )
    assert told(now) == [sentence]
    found = section("compared", now)
    assert note(found) == sentence
    assert found.all("table") == []
    assert not any(len(number) > 4 for number in numbers(now))


def test_a_part_to_compare_with() -> None:
    """Of which part there is anything is said, of both times."""
    half = replace(before(), first=SINCE + HOUR // 2)
    now = replace(QUIET, earlier=half, recorded=[True] * 30 + [False] * 30)
    assert told(now) == [
        "Of the day before there are records only from 20 Nov 2026, 08:30 to 20 Nov 2026, 09:00 UTC.",
        "Of this time there are records only from 21 Nov 2026, 08:00 to 21 Nov 2026, 08:30 UTC.",
    ]
    assert "only from 20 Nov 2026, 08:30" in note(section("compared", now))


def test_the_comparison() -> None:
    """Each figure that was there now or then, with its name for a threshold."""
    now = replace(QUIET, outcomes={"acked": 150}, errors=[1] + [0] * 59, earlier=before())
    found = section("compared", now)
    assert found.one("h2").text == "Compared with the day before"
    assert table(found) == [
        ["Messages messages", "150", "100", "+50 %"],
        ["Bytes on the wire octets", "1 MiB", "1 MiB", "the same"],
        ["Messages that reached a consumer delivered", "100 %", "100 %", "the same"],
        ["Errors of brokers and the relay errors", "1", "0", "none before"],
    ]
    below = [number[4].removeprefix("day before: ") if len(number) > 4 else "" for number in numbers(now)]
    assert below[:4] == ["100, +50 %", "100 %, the same", "0, the same", ""]
    assert below[4:] == ["0, the same", "0, the same", "0, none before"]


def test_each_number() -> None:
    """Value, unit, and what it means."""
    findings = replace(
        sample(),
        outcomes={"acked": 99_900, "undelivered": 1_100, "unconfirmed": 3},
        redelivered=412,
        octets=5 * 1024 * 1024,
        latencies={"delivery": Latency(UNTIMED, Percentiles(9, 2_400, 9_000, 34_000, 40_000))},
        errors=[0] * 178 + [3, 4],
    )
    lost = ("Lost or unconfirmed", "3")
    assert numbers(findings) == [
        ("", "Messages", "101 k", "4.7/s on average, 5 MiB on the wire"),
        ("", "Delivered", "98.9 %", "99,900 reached a consumer, 412 times again"),
        ("bad", *lost, "neither delivered nor confirmed; 1.1 k more not delivered yet"),
        ("", "Latency, p99", "34 ms", "SEND to MESSAGE; the median is 2.4 ms"),
        ("bad", "Failovers", "3", "longest silence 4.2 s, 137 frames sent again"),
        ("bad", "Stuck consumers", "3", "longest wait 4 h; 1 waits still"),
        ("bad", "Errors", "7", "of 2 kinds"),
    ]


def test_numbers_of_nothing() -> None:
    """Are neither good nor bad; where no message was lost that is good, and a pause that was asked for is not bad."""
    found = numbers(replace(QUIET, outcomes={}))
    assert [number[2] for number in found] == ["0", "\u2013", "0", "\u2013", "0", "0", "0"]
    assert {number[0] for number in found} == {""}
    assert numbers(QUIET)[2][0] == "good"
    assert numbers(replace(QUIET, failovers=sample().failovers[1:2]))[4][0] == ""

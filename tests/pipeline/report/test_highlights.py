"""What stands out, and what was before."""

from dataclasses import replace

from stomprelay.pipeline.report.findings import Earlier, Latency, Percentiles, RelayRun
from stomprelay.pipeline.report.highlights import compared, highlights
from stomprelay.pipeline.report.indicators import threshold
from stomprelay.pipeline.report.page import PageOptions, headline, page
from stomprelay.pipeline.report.text import DAY, HOUR
from tests.pipeline.report import sample as samples
from tests.pipeline.report.outline import cells, outline
from tests.pipeline.report.sample import BEGIN, damaged, sample
from tests.pipeline.report.test_findings import NOTHING

QUIET = replace(NOTHING, outcomes={"acked": 100}, recorded=[True] * NOTHING.span.bins, octets=1 << 20)
SINCE, UNTIL = QUIET.span.since - DAY, QUIET.span.until - DAY


def told(*args: object, **more: object) -> list[str]:
    """The sentences."""
    return [
        outline(str(one.said)).text.replace("\u202f", " ")
        for one in highlights(*args, **more)  # type: ignore[arg-type]
    ]


def before(**more: object) -> Earlier:
    """The day before, with these findings; all of it was recorded."""
    return Earlier("day", SINCE, UNTIL, SINCE, UNTIL, replace(QUIET, **more))  # type: ignore[arg-type]


def test_nothing_stands_out() -> None:
    """On a good day the page says so."""
    assert highlights(QUIET) == []
    root = outline(page(QUIET, PageOptions(made=BEGIN)))
    (section,) = (one for one in root.all("section") if one.attributes["id"] == "highlights")
    assert section.one("p").text.startswith("Nothing: no message was lost")


def test_thresholds_that_are_kept() -> None:
    """Are listed below all else, so that nobody wonders whether they were looked at."""
    thresholds = tuple(threshold(each) for each in ("errors=0", "delivered=99%", "receipt_p99=200ms"))
    root = outline(page(QUIET, PageOptions(made=BEGIN, thresholds=thresholds)))
    assert root.one("p", "kept").text.replace("\u202f", " ") == (
        "Thresholds that are kept: errors (at most 0), delivered (at least 99 %)."
    )
    assert (
        root.one("ul", "highlights")
        .one("li")
        .text.startswith("receipt_p99 (SEND to RECEIPT, p99): there was")
    )


def test_damage_is_not_nothing() -> None:
    """The page does not say that all is well where a part of the journal could not be read."""
    text = page(replace(QUIET, damages=damaged(), total_damages=2), PageOptions(made=BEGIN))
    assert "Nothing: no message was lost" not in text
    assert "Not all of the journal could be read." in text


def test_thresholds_that_are_crossed_come_first() -> None:
    """In the order in which they were given, then those that nothing is known for; those that are kept are not told."""
    said = ["errors=0", "delivered=10%", "delivery_p99=1ms", "ack_p99=1s"]
    findings = replace(sample(), latencies={"delivery": Latency([], Percentiles(1, 5, 5, 2_000, 2_000))})
    thresholds = [threshold(each) for each in reversed(said)]
    found = highlights(findings, thresholds)
    assert [(one.tone, one.target) for one in found[:3]] == [
        ("bad", "latency"),
        ("bad", "errors"),
        ("", "latency"),
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
    assert [one.tone for one in highlights(findings)] == ["bad"] * 4 + [""]
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
    lost = next(one for one in headline(findings) if one.label == "Lost or unconfirmed")
    assert (lost.tone, lost.detail.partition("; ")[2]) == ("bad", "1,114 frames were not recorded at all")


def test_what_changed() -> None:
    """By a half and more, if it is not tiny; shares by a point."""
    slow = {"delivery": Latency([], Percentiles(9, 20_000, 30_000, 90_000, 95_000))}
    fast = {"delivery": Latency([], Percentiles(9, 15_000, 20_000, 30_000, 35_000))}
    now = replace(QUIET, outcomes={"acked": 500, "undelivered": 6}, latencies=slow)
    now = replace(now, earlier=replace(before(latencies=fast, redelivered=3), gone=("/queue/a", "/queue/b")))
    assert told(now) == [
        "Messages: 506, +406 % (100 the day before).",
        "Messages that reached a consumer: 98.8 %, \u22121.2 points (100 % the day before).",
        "SEND to MESSAGE, p99: 90 ms, +200 % (30 ms the day before).",
        "Nothing passed any more, as it did the day before, at /queue/a, /queue/b.",
    ]


def test_many_names() -> None:
    """The first are told."""
    now = replace(QUIET, earlier=replace(before(), gone=tuple(f"/queue/{n}" for n in range(5))))
    assert told(now)[0].endswith("/queue/0, /queue/1, /queue/2 and 2 more.")


def test_nothing_to_compare_with() -> None:
    """Is said plainly, with the time that was looked at, in both places; the numbers have nothing below them."""
    now = replace(QUIET, earlier=Earlier("day", SINCE, UNTIL))
    sentence = (
        "There is nothing to compare with: the tables have no records of the day before, "
        "20 Nov 2026, 08:00 to 20 Nov 2026, 09:00 UTC."
    )
    assert told(now) == [sentence]
    figure = compared(now)
    assert figure is not None
    assert outline(str(figure.note)).text == sentence
    assert figure.sheet is None
    assert not any(number.before for number in headline(now))


def test_a_part_to_compare_with() -> None:
    """Of which part there is anything is said, of both times."""
    half = replace(before(), first=SINCE + HOUR // 2)
    now = replace(QUIET, earlier=half, recorded=[True] * 30 + [False] * 30)
    assert told(now) == [
        "Of the day before there are records only from 20 Nov 2026, 08:30 to 20 Nov 2026, 09:00 UTC.",
        "Of this time there are records only from 21 Nov 2026, 08:00 to 21 Nov 2026, 08:30 UTC.",
    ]
    figure = compared(now)
    assert figure is not None
    assert "only from 20 Nov 2026, 08:30" in outline(str(figure.note)).text


def test_the_comparison() -> None:
    """Each figure that was there now or then, with its name for a threshold."""
    now = replace(QUIET, outcomes={"acked": 150}, errors=[1], earlier=before())
    figure = compared(now)
    assert figure is not None
    assert figure.title == "Compared with the day before"
    assert figure.sheet is not None
    table = [[cell.replace("\u202f", " ") for cell in row] for row in cells(outline(figure.sheet.__html__()))]
    assert table == [
        ["Messages messages", "150", "100", "+50 %"],
        ["Bytes on the wire octets", "1 MiB", "1 MiB", "the same"],
        ["Messages that reached a consumer delivered", "100 %", "100 %", "the same"],
        ["Errors of brokers and the relay errors", "1", "0", "none before"],
    ]
    assert [number.before.replace("\u202f", " ") for number in headline(now)] == [
        "day before: 100, +50 %",
        "day before: 100 %, the same",
        "day before: 0, the same",
        "",
        "day before: 0, the same",
        "day before: 0, the same",
        "day before: 0, none before",
    ]
    assert compared(QUIET) is None


def test_the_page_has_it() -> None:
    """Before all other figures."""
    root = outline(page(samples.compared(sample()), PageOptions(made=BEGIN)))
    sections = [section.attributes["id"] for section in root.all("section")]
    assert sections[:4] == ["highlights", "numbers", "compared", "traffic"]

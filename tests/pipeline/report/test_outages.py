"""Outages and stuck consumers on the axis of time."""

from dataclasses import replace

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.findings import Episode, RelayRun, Span
from stomprelay.pipeline.report.outages import Bar, Row, bands, failovers, runs, stuck, timeline
from stomprelay.pipeline.report.plot import Band
from stomprelay.pipeline.report.text import HOUR, MINUTE, SECOND, Micros
from tests.pipeline.report.outline import Element, cells, outline
from tests.pipeline.report.sample import BEGIN, BROKERS, HOSTILE, sample
from tests.pipeline.report.test_findings import NOTHING

FINDINGS = sample()


SPAN = Span.over(BEGIN, BEGIN + HOUR - 1)


def plain(row: list[str]) -> list[str]:
    """With usual spaces."""
    return [cell.replace("\u202f", " ") for cell in row]


def test_failovers() -> None:
    """A row for each broker, and each cell of the table."""
    figure = failovers(FINDINGS)
    assert str(figure.note).replace("\u202f", " ") == (
        "3 outages under 51 sessions; 48 went on at another broker; 1 gave up; the longest silence was 4.2 s."
    )
    made = outline(figure.body or "")
    assert [
        who.one("bdi").text if len(who.all("bdi")) == 1 else who.all("bdi")[0].text
        for who in made.all("div", "who")
    ] == list(BROKERS)
    assert [bar.classes for bar in made.all("div", "bar")] == [
        {"bar", "outage"},
        {"bar", "planned"},
        {"bar", "outage", "open"},
    ]
    assert figure.sheet is not None
    first, _, third = cells(outline(figure.sheet.__html__()))
    assert plain(first) == [
        "21 Nov 2026, 10:24:00",
        "10.0.0.11:61613main",
        "10.0.0.12:6161310.0.0.13:61613",
        "4.2 s",
        *("37", "36", "1", "2.1 s", "4.2 s", "128", "19", "6"),
    ]
    assert plain(third)[2:] == ["\u2013", "not over", "2", "0", "0", "\u2013", "\u2013", "0", "0", "0"]


def test_outages_of_one_broker_share_a_row() -> None:
    """In the order of time."""
    first = FINDINGS.failovers[0]
    again = replace(first, began=first.began + HOUR, ended=first.began + HOUR + SECOND)
    made = outline(failovers(replace(FINDINGS, failovers=[again, first])).body or "")
    (track,) = made.all("div", "track")
    assert len(track.all("div", "bar")) == 2


def test_an_outage_with_names_that_mean_harm() -> None:
    """Stays text."""
    first = FINDINGS.failovers[0]
    several = [replace(first, broker=name, upstream=name, moved_to=(name,)) for name in HOSTILE]
    figure = failovers(replace(FINDINGS, failovers=several))
    assert figure.sheet is not None
    for html in (str(figure.body), figure.sheet.__html__()):
        assert outline(html).all("script") == []


def test_bands() -> None:
    """Outages that nobody asked for, and gaps, lie behind other charts; one that is not over lasts to the end."""
    gap, first, last = bands(FINDINGS)
    assert gap.kind == "gap"
    assert (first.since, first.until) == (FINDINGS.failovers[0].began, FINDINGS.failovers[0].ended)
    assert last.until == FINDINGS.span.until


def test_what_may_wait_and_the_runs() -> None:
    """Of each broker that was lost about how many messages; of each run how it ended, and what it lacks."""
    findings = replace(sample(), waiting={"tcp://a:1": 1200, "tcp://b:1": 1})
    told = outline(str(failovers(findings).note)).text
    assert told.endswith("about 1,200 may wait at tcp://a:1, about 1 may wait at tcp://b:1.")
    assert runs(findings) is None
    one = RelayRun("r1", "0000000a", BEGIN, BEGIN, None, "running", 1, 2, 3, 0, 0)
    dead = replace(one, run="0000000b", ended=BEGIN, outcome="killed", dropped=1114, torn=7)
    figure = runs(replace(findings, runs=[one, dead], total_runs=3, killed=1))
    assert figure is not None
    assert (
        figure.note
        == "3 runs of relays' processes, 1 of them killed. Shown: 2, those that were killed first."
    )
    assert figure.sheet is not None
    first, second = map(plain, cells(outline(figure.sheet.__html__())))
    assert first == ["r1", "0000000a", *first[2:3], "\u2013", "running", "1", "2", "3", "0", "0 B"]
    assert second == ["r1", "0000000b", *first[2:3] * 2, "killed", "1", "2", "3", "1,114", "7 B"]


def test_no_failovers() -> None:
    """Is said in a sentence, and so is nobody's being stuck."""
    assert failovers(NOTHING).body is None
    assert stuck(NOTHING, []).body is None


def test_one_that_nobody_survived() -> None:
    """Says so."""
    alone = replace(FINDINGS.failovers[2], given_up=2, ended=None)
    assert failovers(replace(FINDINGS, failovers=[alone])).note == (
        "1 outage under 2 sessions; none found another broker; 2 gave up."
    )


def test_stuck() -> None:
    """A line for each subscription and broker, a bar for each time, and for each bar a row of the table."""
    figure = stuck(FINDINGS, bands(FINDINGS))
    assert str(figure.note).replace("\u202f", " ") == (
        "3 subscriptions left deliveries unanswered, the longest for 4 h; 1 still did when the journal was last read."
    )
    assert [len(track.all("div", "bar")) for track in outline(figure.body or "").all("div", "track")] == [
        1,
        1,
        2,
        1,
    ]
    assert figure.sheet is not None
    table = [plain(row) for row in cells(outline(figure.sheet.__html__()))]
    assert table[0] == [
        "mailermail-1",
        "/queue/mail.outgoing",
        "10.0.0.13:61613",
        "21 Nov 2026, 10:00:00",
        "still waiting",
        "4 h",
        "4 h",
        "500",
        text.NOTHING,
    ]
    assert [row[2:5] for row in table[1:4]] == [
        ["10.0.0.11:61613", "21 Nov 2026, 08:40:00", "21 Nov 2026, 08:51:25"],
        ["10.0.0.12:61613", "21 Nov 2026, 08:45:00", "21 Nov 2026, 09:00:00"],
        ["10.0.0.12:61613", "21 Nov 2026, 11:00:00", "21 Nov 2026, 11:18:00"],
    ]
    assert table[4] == [
        "audit-writer",
        "/topic/audit",
        "10.0.0.11:61613",
        "21 Nov 2026, 10:00:00",
        "21 Nov 2026, 10:01:10",
        "1 min 10 s",
        "1 min 10 s",
        "4",
        "acked",
    ]


def test_bars_of_stuck_consumers() -> None:
    """Those that ended are shown as long as they were; the one that goes on reaches the end, and is open."""
    bars = outline(stuck(FINDINGS, []).body or "").all("div", "bar")
    assert [("open" in bar.classes, bar.attributes["title"].partition(" to ")[2]) for bar in bars] == [
        (True, ""),
        (False, "21 Nov 2026, 08:51:25 UTC"),
        (False, "21 Nov 2026, 09:00:00 UTC"),
        (False, "21 Nov 2026, 11:18:00 UTC"),
        (False, "21 Nov 2026, 10:01:10 UTC"),
    ]
    assert bars[0].attributes["title"] == "mailer: from 21 Nov 2026, 10:00:00 UTC, not over"


def test_more_stuck_than_shown() -> None:
    """Says how many there are."""
    one = replace(
        FINDINGS.stuck[2],
        episodes=[Episode(BEGIN, BEGIN + MINUTE, 1, None, 70 * SECOND, "acked")],
        client=None,
        destination=None,
    )
    figure = stuck(replace(FINDINGS, stuck=[one], total_stuck=200), [])
    assert str(figure.note).replace("\u202f", " ") == (
        "200 subscriptions left deliveries unanswered, the longest for 1 min 10 s; none still does. Shown: the 1 worst."
    )


def bar(since: Micros, until: Micros, *, still: bool = False) -> Bar:
    """From one minute of the hour to another."""
    return Bar(
        BEGIN + since * MINUTE, BEGIN + until * MINUTE, "outage", f"note {since}", "<title>", open=still
    )


def drawn(*bars: Bar) -> Element:
    """The track of the only row."""
    return outline(timeline(SPAN, [Row(Markup("<b>who</b>"), bars)], label="What happened")).one(
        "div", "track"
    )


def test_the_chart() -> None:
    """A row with its name for each thing, and one axis."""
    band = Band(BEGIN, BEGIN + MINUTE, "gap", "nothing recorded")
    rows = [Row(Markup("<b>a</b>"), []), Row(Markup("<b>b</b>"), [bar(6, 12)])]
    made = outline(timeline(SPAN, rows, label="What happened", bands=[band])).one("div", "timeline")
    assert (made.attributes["role"], made.attributes["aria-label"]) == ("img", "What happened")
    assert [who.text for who in made.all("div", "who")] == ["a", "b"]
    assert len(made.all("div", "gap")) == 2
    assert len(made.all("div", "xs")) == 1


def test_bars() -> None:
    """Lie where their time is; what is outside is cut off or left out."""
    track = drawn(bar(-90, -70), bar(-5, 6), bar(30, 33), bar(54, 90, still=True), bar(70, 80))
    assert [one.attributes["style"] for one in track.all("div", "bar")] == [
        "left:0%;width:10%",
        "left:50%;width:5%",
        "left:90%;width:10%",
    ]
    assert [one.classes for one in track.all("div", "open")] == [{"bar", "outage", "open"}]
    assert track.all("div", "bar")[0].attributes["title"] == "<title>"


def test_a_note_with_room() -> None:
    """Stands to the right of its bar; a narrow chart shows it where there is more room."""
    (note,) = drawn(bar(6, 12)).all("span", "note")
    assert (note.attributes["style"], note.classes) == ("left:20%", {"note", "fits"})
    (note,) = drawn(bar(30, 36)).all("span", "note")
    assert (note.attributes["style"], note.classes) == ("left:60%", {"note"})


def test_a_note_at_the_end() -> None:
    """Stands to the left."""
    (note,) = drawn(bar(48, 54)).all("span", "note")
    assert (note.attributes["style"], note.classes) == ("right:20%", {"note", "before", "fits"})


def test_notes_do_not_overlap() -> None:
    """Where bars are close, the table says it."""
    assert [note.text for note in drawn(bar(0, 6), bar(9, 12), bar(14, 15)).all("span", "note")] == [
        "note 14"
    ]
    assert drawn(bar(0, 60)).all("span", "note") == []

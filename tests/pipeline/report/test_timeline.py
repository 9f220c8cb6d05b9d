"""Rows with bars on a common time axis."""

from markupsafe import Markup

from stomprelay.pipeline.report.findings import Span
from stomprelay.pipeline.report.outages import Bar, Row, timeline
from stomprelay.pipeline.report.plot import Band
from stomprelay.pipeline.report.text import HOUR, MINUTE, Micros
from tests.pipeline.report.outline import Element, outline
from tests.pipeline.report.sample import BEGIN

SPAN = Span.over(BEGIN, BEGIN + HOUR - 1)


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

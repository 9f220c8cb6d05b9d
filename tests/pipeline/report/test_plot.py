"""The frame of a chart over time."""

from markupsafe import Markup

from stomprelay.pipeline.report.findings import Span
from stomprelay.pipeline.report.plot import Band, frame, gaps, keys_of, linear, logarithmic, times, x, y
from stomprelay.pipeline.report.text import HOUR, MINUTE, SECOND
from tests.pipeline.report.outline import outline
from tests.pipeline.report.sample import BEGIN

SPAN = Span.over(BEGIN, BEGIN + HOUR - 1)


def test_coordinates() -> None:
    """A thousand units each way, from the left and from the top."""
    assert (x(SPAN, 0), x(SPAN, 30), x(SPAN, 60)) == (0, 500, 1000)
    assert (y(linear([4]), 0), y(linear([4]), 1), y(linear([4]), 4)) == (1000, 750, 0)
    assert y(logarithmic([1, 100]), 10) == 500


def test_gaps() -> None:
    """Are told when they are long, and when there is something around them."""
    recorded = [True] * 10 + [False] * 2 + [True] * 10 + [False] * 3 + [True] * 35
    (gap,) = gaps(SPAN, recorded)
    assert (gap.since, gap.until, gap.kind) == (BEGIN + 22 * MINUTE, BEGIN + 25 * MINUTE, "gap")
    assert gaps(SPAN, [False] * 60) == gaps(SPAN, [True] * 60) == gaps(SPAN, []) == []


def test_a_frame() -> None:
    """Holds axes for the eye, a sentence for the ear, and where the script finds the figures."""
    bands = [
        Band(BEGIN + 30 * MINUTE, BEGIN + 45 * MINUTE, "outage", "a broker was out", "b was out"),
        Band(BEGIN - HOUR, BEGIN - 1, "outage", "a broker was out"),
        Band(BEGIN - HOUR, BEGIN + 6 * MINUTE, "gap", "nothing recorded"),
    ]
    made = outline(
        frame(
            SPAN,
            linear([4]),
            Markup("<g></g>"),
            label="A <b> chart",
            told=str,
            bands=bands,
            sheet="some-sheet",
            columns=[1, 2],
        )
    )
    plot = made.one("div", "plot")
    assert (plot.attributes["data-sheet"], plot.attributes["data-columns"]) == ("some-sheet", "1 2")
    svg = plot.one("svg")
    assert (svg.attributes["role"], svg.attributes["aria-label"]) == ("img", "A <b> chart")
    assert svg.one("title").text == "A <b> chart"
    assert len(svg.all("path")) == 5
    assert [span.text for span in plot.one("div", "ys").all("span")] == ["0", "1.0", "2.0", "3.0", "4.0"]
    assert [span.attributes["style"] for span in plot.one("div", "ys").all("span")][1] == "bottom:25%"
    assert [(band.attributes["title"], band.attributes["style"]) for band in plot.all("div", "band")] == [
        ("b was out", "left:50%;width:25%"),
        ("nothing recorded", "left:0%;width:10%"),
    ]


def test_without_a_table() -> None:
    """There is nothing for the script to show."""
    made = outline(frame(SPAN, linear([4]), Markup(""), label="", told=str)).one("div", "plot")
    assert {"data-sheet", "data-columns"}.isdisjoint(made.attributes)


def test_the_time_axis() -> None:
    """Marks of both ranks; those near an end are told by their class, so that they stay inside."""
    ticks = outline(times(Span.over(BEGIN, BEGIN + MINUTE - 1))).all("time")
    assert [tick.text for tick in ticks] == [f"08:00:{second}0" for second in range(6)]
    assert [tick.attributes.get("class") for tick in ticks] == [
        "main start",
        None,
        None,
        "main",
        None,
        None,
    ]
    close = Span(BEGIN, BEGIN + 50 * SECOND + SECOND, SECOND)
    assert outline(times(close)).all("time")[-1].classes == {"end"}


def test_the_legend_of_bands() -> None:
    """One entry for each kind."""
    bands = [Band(0, 1, "outage", "a broker was out", str(n)) for n in range(3)]
    assert [(key.kind, key.label) for key in keys_of(bands)] == [("band outage", "a broker was out")]

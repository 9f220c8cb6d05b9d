"""Traffic and errors over time."""

from dataclasses import replace

from stomprelay.pipeline.report.figure import Palette
from stomprelay.pipeline.report.findings import Rest, Series, Trouble
from stomprelay.pipeline.report.outages import bands
from stomprelay.pipeline.report.text import SECOND
from stomprelay.pipeline.report.timeseries import errors, traffic
from tests.pipeline.report.outline import cells, outline
from tests.pipeline.report.sample import BEGIN, sample
from tests.pipeline.report.test_findings import NOTHING

BINS = NOTHING.span.bins
BUSY = replace(
    NOTHING,
    recorded=[True] * BINS,
    series=[
        Series("/queue/a", [120] * BINS, [0] * 30 + [600] + [0] * 29),
        Series("/queue/silent", [0] * BINS, [0] * BINS),
        Series(Rest.OTHERS, [60] * BINS, [0] * BINS),
    ],
)
PALETTE = Palette(["/queue/a", "/queue/silent"])


def test_traffic() -> None:
    """Two charts of rates, with a legend and the counts behind them; what is silent is left out."""
    figure = traffic(BUSY, PALETTE, [])
    assert [(key.kind, outline(str(key.label)).text) for key in figure.legend] == [
        ("c1", "/queue/a"),
        ("c0", "all others"),
    ]
    panels = outline(figure.body or "").all("div", "panel")
    assert [panel.one("h3").text for panel in panels] == ["Sent by clients", "Delivered to clients"]
    assert [panel.one("p").text for panel in panels] == ["at most 3/s, at 08:00", "at most 10/s, at 08:30"]
    assert [panel.one("div", "plot").attributes["data-columns"] for panel in panels] == ["1 2", "3 4"]
    assert [[path.classes for path in panel.all("path", "area")] for panel in panels] == [
        [{"area", "c1"}, {"area", "c0"}],
        [{"area", "c1"}],
    ]
    assert figure.sheet is not None
    assert [column.title for column in figure.sheet.columns] == [
        "Time",
        "/queue/a in",
        "all others in",
        "/queue/a out",
        "all others out",
    ]
    table = cells(outline(figure.sheet.__html__()))
    assert len(table) == BINS
    assert table[30] == ["08:30", "120", "60", "600", "0"]


def test_no_traffic() -> None:
    """Is said in a sentence."""
    figure = traffic(NOTHING, PALETTE, [])
    assert (figure.body, figure.sheet) == (None, None)
    assert figure.note == "No messages were sent or delivered."


def test_outages_and_gaps_lie_behind_the_traffic() -> None:
    """So that a dent explains itself, in the legend too."""
    findings = sample()
    figure = traffic(findings, PALETTE, bands(findings))
    assert [key.label for key in figure.legend][-2:] == ["nothing recorded", "a broker was out"]
    for plot in outline(figure.body or "").all("div", "plot"):
        assert len(plot.all("div", "outage")) == 2
        assert len(plot.all("div", "gap")) == 1


def test_errors() -> None:
    """When, and what they said."""
    said = Trouble("No <b> here", "broker", 12, 3, BEGIN, BEGIN + 90 * SECOND)
    figure = errors(replace(NOTHING, errors=[0] * 59 + [12], troubles=[said], total_troubles=1), [])
    assert figure.note == "12 errors, at most 12 in 1\u202fmin."
    assert figure.open
    assert figure.sheet is not None
    assert cells(outline(figure.sheet.__html__())) == [
        ["No <b> here", "broker", "12", "3", "21 Nov 2026, 08:00:00", "21 Nov 2026, 08:01:30"]
    ]


def test_no_errors() -> None:
    """Is said in a sentence."""
    assert errors(NOTHING, []).body is None

"""Traffic, errors and latencies over time."""

from dataclasses import replace

from stomprelay.pipeline.report.figure import Palette
from stomprelay.pipeline.report.findings import NOTHING as UNKNOWN
from stomprelay.pipeline.report.findings import Latency, Percentiles, Rest, Series, Trouble
from stomprelay.pipeline.report.outages import bands
from stomprelay.pipeline.report.plot import Band
from stomprelay.pipeline.report.text import MINUTE, SECOND
from stomprelay.pipeline.report.timeseries import errors, latency, traffic
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


DELAY_BINS = NOTHING.span.bins
SOME = Percentiles(10, 1_000, 2_000, 3_000, 4_000_000)


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
    assert figure.listing is not None
    assert cells(outline(figure.listing.__html__())) == [
        ["No <b> here", "broker", "12", "3", "21 Nov 2026, 08:00:00", "21 Nov 2026, 08:01:30"]
    ]


def test_errors_by_time() -> None:
    """A row for each bin, as the chart has them, and what lay behind it meanwhile."""
    counted = [0] * 59 + [12]
    band = Band(BEGIN + 30 * MINUTE, BEGIN + 32 * MINUTE, "outage", "a broker was out", "a:61613 was out")
    figure = errors(replace(NOTHING, errors=counted), [band])
    assert figure.listing is None
    assert figure.sheet is not None
    assert [column.title for column in figure.sheet.columns] == ["Time", "Errors", "Meanwhile"]
    table = cells(outline(figure.sheet.__html__()))
    assert [int(row[1]) for row in table] == counted
    assert [at for at, row in enumerate(table) if row[2] == "a:61613 was out"] == [30, 31]


def test_no_errors() -> None:
    """Is said in a sentence."""
    assert errors(NOTHING, []).body is None


def test_the_panels() -> None:
    """One for each latency, on one axis, with its figures."""
    found = Latency([SOME] * 30 + [UNKNOWN] * 30, SOME)
    figure = latency(
        replace(NOTHING, latencies={"receipt": found, "ack": Latency([UNKNOWN] * DELAY_BINS)}), []
    )
    panels = outline(figure.body or "").all("div", "panel")
    assert [panel.one("h3").text for panel in panels] == [
        "Until confirmed SEND to RECEIPT",
        "Until delivered SEND to MESSAGE",
        "Until acknowledged MESSAGE to ACK",
    ]
    assert panels[0].all("p")[0].text.replace("\u202f", " ") == "p50 1 ms, p95 2 ms, p99 3 ms, longest 4 s"
    assert panels[1].one("p").text == panels[2].one("p").text == "Nothing to measure."
    assert panels[0].one("div", "plot").attributes["data-columns"] == "1 2 3"
    assert {kind for path in panels[0].all("path") for kind in path.classes} >= {
        "line-p50",
        "line-p95",
        "line-p99",
        "between",
    }
    assert figure.sheet is not None
    table = cells(outline(figure.sheet.__html__()))
    assert [cell.replace("\u202f", " ") for cell in table[0]] == ["08:00", "1 ms", "2 ms", "3 ms"] + [
        "\u2013"
    ] * 6
    assert table[59] == ["08:59"] + ["\u2013"] * 9


def test_the_axis() -> None:
    """Is logarithmic where latencies span decades, and says so."""
    assert "logarithmic" in latency(sample(), []).note
    found = Latency([SOME] * DELAY_BINS, SOME)
    assert "logarithmic" not in latency(replace(NOTHING, latencies={"ack": found}), []).note


def test_no_latency() -> None:
    """Is said in a sentence."""
    assert latency(NOTHING, []).body is None
    assert latency(replace(NOTHING, latencies={"ack": Latency([UNKNOWN] * DELAY_BINS)}), []).body is None

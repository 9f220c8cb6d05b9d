"""The three latencies over time."""

from dataclasses import replace

from stomprelay.pipeline.report.findings import NOTHING as UNKNOWN
from stomprelay.pipeline.report.findings import Latency, Percentiles
from stomprelay.pipeline.report.timeseries import latency
from tests.pipeline.report.outline import cells, outline
from tests.pipeline.report.sample import sample
from tests.pipeline.report.test_findings import NOTHING

BINS = NOTHING.span.bins
SOME = Percentiles(10, 1_000, 2_000, 3_000, 4_000_000)


def test_the_panels() -> None:
    """One for each latency, on one axis, with its figures."""
    found = Latency([SOME] * 30 + [UNKNOWN] * 30, SOME)
    figure = latency(replace(NOTHING, latencies={"receipt": found, "ack": Latency([UNKNOWN] * BINS)}), [])
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
    found = Latency([SOME] * BINS, SOME)
    assert "logarithmic" not in latency(replace(NOTHING, latencies={"ack": found}), []).note


def test_no_latency() -> None:
    """Is said in a sentence."""
    assert latency(NOTHING, []).body is None
    assert latency(replace(NOTHING, latencies={"ack": Latency([UNKNOWN] * BINS)}), []).body is None

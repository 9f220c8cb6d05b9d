"""What became of the messages, and who sends what to whom."""

from dataclasses import replace

from stomprelay.pipeline.report.figure import Palette
from stomprelay.pipeline.report.findings import Destination, Rest, Way
from stomprelay.pipeline.report.outcomes import flow, outcomes
from tests.pipeline.report.outline import cells, outline
from tests.pipeline.report.sample import sample
from tests.pipeline.report.test_findings import NOTHING

MANY = replace(
    NOTHING,
    outcomes={"acked": 900, "undelivered": 99, "unconfirmed": 1},
    redelivered=1,
    unsettled=5,
    destinations=[
        Destination("/queue/a", 900, 900, 1, {"acked": 900}),
        Destination("/queue/b", 100, 0, 1, {"undelivered": 99, "unconfirmed": 1}),
        Destination("/queue/nothing", 0, 0, 1, {}),
    ],
)


def test_outcomes() -> None:
    """Shares of all and of each destination, with the figures."""
    figure = outcomes(MANY)
    assert str(figure.note).replace("\u202f", " ") == (
        "90 % of 1,000 messages reached a consumer; 1 delivery was made again; 5 may still change."
    ).replace("90 %", "90.0 %")
    rows = outline(figure.body or "").all("div", "row")
    assert [row.one("div", "who").text for row in rows] == ["All messages", "/queue/a", "/queue/b"]
    assert [part.attributes["style"] for part in rows[0].all("span", "outcome")] == [
        "width:90%",
        "width:9.9%",
        "width:0.1%",
    ]
    assert rows[2].one("div", "share").attributes["aria-label"].replace("\u202f", " ") == (
        "not delivered yet 99.0 %, neither delivered nor confirmed 1.0 %"
    )
    assert figure.sheet is not None
    assert cells(outline(figure.sheet.__html__())) == [
        ["All messages", "900", "99", "1"],
        ["/queue/a", "900", "0", "0"],
        ["/queue/b", "0", "99", "1"],
    ]
    assert [key.kind for key in figure.legend] == [
        "outcome acked",
        "outcome undelivered",
        "outcome unconfirmed",
    ]


def test_no_messages() -> None:
    """Is said in a sentence, for both figures."""
    assert outcomes(NOTHING).body is None
    assert flow(NOTHING, Palette([])).body is None


def test_the_flow() -> None:
    """The graph, and the same as a table, the greatest first."""
    ways = [Way(None, "/queue/a", "b", 1), Way("a", "/queue/a", None, 5), Way(Rest.OTHERS, None, "b", 3)]
    figure = flow(replace(NOTHING, ways=ways), Palette(["/queue/a"]))
    assert len(outline(figure.body or "").one("div", "sankey").all("rect")) == 7
    assert figure.sheet is not None
    assert cells(outline(figure.sheet.__html__())) == [
        ["a", "/queue/a", "nobody yet", "5"],
        ["all others", "no destination", "b", "3"],
        ["not seen sending", "/queue/a", "b", "1"],
    ]
    assert figure.remark == ""


def test_the_flow_of_part_of_an_hour() -> None:
    """Says that it is of the whole hour."""
    figure = flow(replace(sample(), whole_hours=False), Palette([]))
    assert "by the hour" in figure.remark

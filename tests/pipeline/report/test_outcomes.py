"""What became of messages, and who sends what to whom."""

import itertools
from dataclasses import replace

import pytest

from stomprelay.pipeline.report.figure import Palette
from stomprelay.pipeline.report.findings import Destination, Name, Rest, Way
from stomprelay.pipeline.report.markup import name
from stomprelay.pipeline.report.outcomes import GAP, HEIGHT, SLOT, draw, flow, outcomes, sankey
from tests.pipeline.report.outline import cells, outline
from tests.pipeline.report.sample import HOSTILE, sample
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


WAYS = (
    Way("shop", "/queue/a", "billing", 300),
    Way("shop", "/queue/a", None, 100),
    Way("shop", "/topic/b", "billing", 100),
    Way(None, "/topic/b", Rest.OTHERS, 100),
    Way(Rest.OTHERS, Rest.OTHERS, "billing", 1),
    Way("silent", "/queue/none", "nobody", 0),
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
    table = [[cell.replace("\u202f", " ") for cell in row] for row in cells(outline(figure.sheet.__html__()))]
    assert table == [
        ["All messages", "1,000", "900 90.0 %", "99 9.9 %", "1 0.1 %"],
        ["/queue/a", "900", "900 100 %", "0", "0"],
        ["/queue/b", "100", "0", "99 99.0 %", "1 1.0 %"],
    ]

    assert [key.kind for key in figure.legend] == [
        "outcome acked",
        "outcome undelivered",
        "outcome unconfirmed",
    ]


def test_topics_without_subscribers_are_told_apart() -> None:
    """Nothing of theirs waits to be delivered, and their messages are in no share that a consumer should have got."""
    findings = replace(NOTHING, outcomes={"acked": 9, "undelivered": 1, "unheard": 30})
    figure = outcomes(findings)
    assert str(figure.note).replace("\u202f", " ") == (
        "90.0 % of 10 messages reached a consumer; 30 more went to topics, where nobody got them."
    )
    assert "kept for nobody else" in figure.remark
    assert "kept for nobody else" not in outcomes(replace(NOTHING, outcomes={"acked": 9})).remark


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
        ["a", "/queue/a", "nobody", "5"],
        ["all others", "no destination", "b", "3"],
        ["not seen sending", "/queue/a", "b", "1"],
    ]
    assert figure.remark == ""


def test_the_flow_of_part_of_an_hour() -> None:
    """Says that it is of the whole hour."""
    figure = flow(replace(sample(), whole_hours=False), Palette([]))
    assert "by the hour" in figure.remark


def test_nodes() -> None:
    """Names first, then all others, the unseen and nobody; no node for no message."""
    columns: list[list[tuple[Name, int]]] = [
        [(node.name, node.value) for node in column] for column in sankey(WAYS).columns
    ]
    assert columns == [
        [("shop", 500), (Rest.OTHERS, 1), (None, 100)],
        [("/queue/a", 400), ("/topic/b", 200), (Rest.OTHERS, 1)],
        [("billing", 401), (Rest.OTHERS, 100), (None, 100)],
    ]


def test_clients_stand_by_their_destinations() -> None:
    """So that bands do not cross without need, though the smaller comes first."""
    ways = [
        Way("a", "/queue/1", "small", 60),
        Way("b", "/queue/2", "great", 50),
        Way("b", "/queue/3", "great", 40),
    ]
    assert [[node.name for node in column] for column in sankey(ways).columns] == [
        ["a", "b"],
        ["/queue/1", "/queue/2", "/queue/3"],
        ["small", "great"],
    ]


def test_links() -> None:
    """What goes into a destination comes out of it."""
    before, after = sankey(WAYS).links
    assert [(link.source, link.target, link.value) for link in before] == [
        ("shop", "/queue/a", 400),
        ("shop", "/topic/b", 100),
        (Rest.OTHERS, Rest.OTHERS, 1),
        (None, "/topic/b", 100),
    ]
    assert sum(link.value for link in after) == 601


@pytest.mark.parametrize("ways", [WAYS, sample().ways, [Way(str(n), str(n % 3), "c", 1) for n in range(200)]])
def test_labels_have_room(ways: list[Way]) -> None:
    """Nodes do not overlap, nor do their labels, however small they are."""
    chart = sankey(ways)
    for column in chart.columns:
        assert column[0].top >= 0
        assert column[-1].top + column[-1].height <= chart.height + 1e-9
        for one, following in itertools.pairwise(column):
            assert one.top + one.height <= following.top
            middle = (one.top + one.height / 2, following.top + following.height / 2)
            assert middle[1] - middle[0] >= SLOT - GAP


def test_links_leave_and_reach_their_nodes() -> None:
    """Side by side, none beyond its node."""
    chart = sankey(sample().ways)
    for side, links in enumerate(chart.links):
        nodes = {node.name: node for node in chart.columns[side]}
        for link in links:
            node = nodes[link.source]
            assert link.left >= node.top - 1e-9
            assert link.left + link.width <= node.top + node.height + 1e-9


def test_nothing() -> None:
    """Has no height."""
    assert sankey([]).height == 0
    assert sankey(WAYS[-1:]).height == 0


def test_one_way() -> None:
    """Is as high as the chart."""
    assert sankey(WAYS[:1]).height == HEIGHT


def test_the_drawing() -> None:
    """Destinations keep their colour on both sides; clients have none."""
    palette = Palette(["/topic/b", "/queue/a"])
    made = outline(draw(sankey(WAYS), palette.of, "A label", name)).one("div", "sankey")
    assert [node.classes for node in made.all("rect")] == [
        *[{"node", "client"}] * 3,
        *({"node", colour} for colour in ("c2", "c1", "c0")),
        *[{"node", "client"}] * 3,
    ]
    first = made.all("path")[0]
    assert first.classes == {"link", "c2"}
    assert first.one("title").text == "shop → /queue/a: 400 messages"
    assert [label.text for label in made.all("div", "side0")] == [
        "shop500",
        "all others1",
        "not seen sending100",
    ]
    assert [label.text for label in made.all("div", "side2")][-1] == "nobody100"


def test_names_that_mean_harm() -> None:
    """Are text in every place."""
    ways = [Way(one, two, one, 5) for one, two in itertools.pairwise(HOSTILE)]
    made = outline(draw(sankey(ways), Palette(HOSTILE).of, "A label", name))
    assert made.all("script") == made.all("img") == []
    assert any("<script>alert(1)</script>" in title.text for title in made.all("title"))
    assert all("\u202e" not in title.text for title in made.all("title"))

"""The geometry of the flow chart."""

import itertools

import pytest

from stomprelay.pipeline.report.findings import Name, Rest, Way
from stomprelay.pipeline.report.plot import GAP, SLOT, Node, Sankey, sankey
from tests.pipeline.report.sample import sample

WAYS = (
    Way("shop", "/queue/a", "billing", 300),
    Way("shop", "/queue/a", None, 100),
    Way("shop", "/topic/b", "billing", 100),
    Way(None, "/topic/b", Rest.OTHERS, 100),
    Way(Rest.OTHERS, Rest.OTHERS, "billing", 1),
    Way("silent", "/queue/none", "nobody", 0),
)


def columns(chart: Sankey) -> list[list[Node]]:
    """The nodes by side."""
    return [[node for node in chart.nodes if node.side == side] for side in range(3)]


def test_nodes() -> None:
    """Names first, then all others, the unseen and nobody; no node for no message."""
    found: list[list[tuple[Name, int]]] = [
        [(node.name, node.value) for node in column] for column in columns(sankey(WAYS))
    ]
    assert found == [
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
    assert [[node.name for node in column] for column in columns(sankey(ways))] == [
        ["a", "b"],
        ["/queue/1", "/queue/2", "/queue/3"],
        ["small", "great"],
    ]


@pytest.mark.parametrize("ways", [WAYS, sample().ways, [Way(str(n), str(n % 3), "c", 1) for n in range(200)]])
def test_labels_have_room(ways: list[Way]) -> None:
    """Nodes do not overlap, nor do their labels, however small they are."""
    chart = sankey(ways)
    for column in columns(chart):
        assert column[0].top >= 0
        assert column[-1].top + column[-1].height <= chart.height + 1e-9
        for one, following in itertools.pairwise(column):
            assert one.top + one.height <= following.top
            middle = (one.top + one.height / 2, following.top + following.height / 2)
            assert middle[1] - middle[0] >= SLOT - GAP


def test_links_leave_and_reach_their_nodes() -> None:
    """Side by side, none beyond its node."""
    chart = sankey(sample().ways)
    nodes = {(node.side, node.name): node for node in chart.nodes}
    for band in chart.bands:
        node = nodes[band.side, band.source]
        assert band.left >= node.top - 1e-9
        assert band.left + band.width <= node.top + node.height + 1e-9

"""The geometry of the flow chart: who sends what to whom."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stomprelay.pipeline.report.findings import Name, Rest, Way
from stomprelay.pipeline.report.plot import UNITS
from stomprelay.pipeline.report.text import tenth

HEIGHT: Final = 300
"""Pixels for all messages together; nodes too small for their labels make the chart higher."""
SLOT: Final = 20
"""Pixels that the label of a node needs."""
GAP: Final = 6
_LEAST: Final = 2.0
_WIDTH: Final = 12
"""Width of a node; the whole chart is 1000 units wide."""
_NOBODY: Final = ("not seen sending", "no destination", "nobody")
"""What to write for a missing producer, destination and consumer."""


@dataclass(frozen=True)
class Node:
    """A producer (`side` 0), destination (1) or consumer (2), and its number of messages. `top` and `height` are in
    pixels, `left` in thousandths of the width.
    """

    side: int
    name: Name
    value: int
    top: float
    height: float

    @property
    def left(self) -> float:
        """Return where the node begins."""
        return self.side * (UNITS - _WIDTH) / 2


@dataclass(frozen=True)
class FlowBand:
    """A band from a node on this `side` to one on the next. `left` and `right`: where its upper edge is at both,
    `width`: its height, all in pixels.
    """

    side: int
    source: Name
    target: Name
    value: int
    left: float
    right: float
    width: float

    @property
    def path(self) -> str:
        """Return the `d` of the band."""
        start = self.side * (UNITS - _WIDTH) / 2 + _WIDTH
        end = (self.side + 1) * (UNITS - _WIDTH) / 2
        middle, far = tenth((start + end) / 2), tenth(end)
        upper, under, across, below = map(
            tenth, (self.left, self.left + self.width, self.right, self.right + self.width)
        )
        return (
            f"M{tenth(start)} {upper}C{middle} {upper} {middle} {across} {far} {across}"
            f"V{below}C{middle} {below} {middle} {under} {tenth(start)} {under}Z"
        )


@dataclass(frozen=True)
class Sankey:
    """The flow chart, `height` in pixels: the nodes of its three columns, and the bands between them."""

    height: float
    nodes: Sequence[Node] = ()
    bands: Sequence[FlowBand] = ()


def sankey(ways: Iterable[Way]) -> Sankey:
    """Return the flow chart. Destinations are sorted by messages, clients by the places of their destinations, so that
    few bands cross; `Rest.OTHERS` and None come last. Empty if there are no messages.
    """
    flows = [
        ((way.producer, way.destination, way.consumer), way.messages) for way in ways if way.messages > 0
    ]
    if not flows:
        return Sankey(0)
    scale = HEIGHT / sum(number for _, number in flows)
    counts: list[Counter[Name]] = [Counter(), Counter(), Counter()]
    for ends, number in flows:
        for side, name in enumerate(ends):
            counts[side][name] += number
    # Without places of their own, the greatest come first.
    places = {name: place for place, name in enumerate(_order(counts[1], Counter()))}
    columns = []
    for side in range(3):
        where: Counter[Name] = Counter()
        for ends, number in flows:
            where[ends[side]] += places[ends[1]] * number
        columns.append(_column(side, counts[side], _order(counts[side], where), scale))
    height = max(map(_height, columns))
    nodes = [
        replace(node, top=node.top + (height - _height(column)) / 2) for column in columns for node in column
    ]
    return Sankey(height, nodes, [band for side in (0, 1) for band in _bands(side, nodes, flows, scale)])


def end_name(name: Name, side: int) -> str:
    """Return a node's name as text. The caller must still make it `visible`."""
    if name is None:
        return _NOBODY[side]
    return "all others" if isinstance(name, Rest) else name


def _order(counts: Mapping[Name, int], where: Mapping[Name, int]) -> list[Name]:
    """Return the names sorted by the mean place of the destinations that they are linked to; `where` has the sums."""

    def key(name: Name) -> tuple[int, float, int, str]:
        last = 0 if isinstance(name, str) else 2 if name is None else 1
        return last, where[name] / counts[name], -counts[name], str(name)

    return sorted(counts, key=key)


def _column(side: int, counts: Mapping[Name, int], names: Iterable[Name], scale: float) -> list[Node]:
    nodes, top = [], 0.0
    for name in names:
        height = max(counts[name] * scale, _LEAST)
        slot = max(height, SLOT - GAP)
        nodes.append(Node(side, name, counts[name], top + (slot - height) / 2, height))
        top += slot + GAP
    return nodes


def _height(column: Sequence[Node]) -> float:
    last = column[-1]
    return last.top + last.height / 2 + max(last.height, SLOT - GAP) / 2


def _bands(
    side: int, nodes: Sequence[Node], flows: Iterable[tuple[tuple[Name, Name, Name], int]], scale: float
) -> list[FlowBand]:
    values: Counter[tuple[Name, Name]] = Counter()
    for ends, number in flows:
        values[ends[side], ends[side + 1]] += number
    leaves, comes = ({node.name: node.top for node in nodes if node.side == at} for at in (side, side + 1))
    bands = []
    for source in leaves:
        for target in comes:
            if value := values[source, target]:
                width = value * scale
                bands.append(FlowBand(side, source, target, value, leaves[source], comes[target], width))
                leaves[source] += width
                comes[target] += width
    return bands

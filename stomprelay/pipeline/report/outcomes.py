"""What became of the messages, and who sends what to whom."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure, Key, Palette
from stomprelay.pipeline.report.findings import SHOWN, UNHEARD, Findings, Name, Rest, Way
from stomprelay.pipeline.report.markup import Column, Sheet, figures, join, name, number, place, tag, words
from stomprelay.pipeline.report.plot import UNITS
from stomprelay.pipeline.report.text import plural, short, visible

HEIGHT: Final = 300
"""Pixels for all messages together; nodes too small for their labels make the chart higher."""
SLOT: Final = 20
"""Pixels that the label of a node needs."""
GAP: Final = 6
_LEAST: Final = 2.0
_WIDTH: Final = 12
"""Width of a node; the whole chart is 1000 units wide."""


NOBODY: Final = ("not seen sending", "no destination", "nobody")
"""What to write for a missing producer, destination and consumer."""
MEANING: Final = {
    "acked": "acknowledged",
    "delivered": "delivered, no answer",
    "returned": "returned: the consumer or broker went first",
    "nacked": "refused (NACK)",
    "undelivered": "not delivered yet",
    UNHEARD: "to a topic, nobody got it",
    "unconfirmed": "neither delivered nor confirmed",
    "aborted": "transaction aborted",
}
"""Each outcome in a few words."""


@dataclass(frozen=True)
class Node:
    """One producer, destination or consumer, and its number of messages. `top` and `height` are in pixels."""

    name: Name
    value: int
    top: float
    height: float


@dataclass(frozen=True)
class Link:
    """A band from a node of one column to one of the next. `left` and `right`: where its upper edge is at
    both, `width`: its height, all in pixels.
    """

    source: Name
    target: Name
    value: int
    left: float
    right: float
    width: float


@dataclass(frozen=True)
class Sankey:
    """The geometry of the flow chart, `height` in pixels: the nodes of its three columns, and the links
    between each two of them.
    """

    height: float
    columns: Sequence[Sequence[Node]]
    links: Sequence[Sequence[Link]]


def sankey(ways: Iterable[Way]) -> Sankey:
    """Return the geometry of the flow chart. Destinations are sorted by messages, clients by the places of
    their destinations, so that few bands cross; `Rest.OTHERS` and None come last. Empty if there are no
    messages.
    """
    flows = [way for way in ways if way.messages > 0]
    total = sum(way.messages for way in flows)
    if not total:
        return Sankey(0, ((), (), ()), ((), ()))
    ends: tuple[Callable[[Way], Name], ...] = (
        lambda way: way.producer,
        lambda way: way.destination,
        lambda way: way.consumer,
    )
    scale = HEIGHT / total
    values = [_values(flows, end) for end in ends]
    # Without places of their own, the greatest come first.
    places = {name: place for place, name in enumerate(_order(values[1], Counter()))}
    columns = []
    for counts, end in zip(values, ends, strict=True):
        where: Counter[Name] = Counter()
        for way in flows:
            where[end(way)] += places[way.destination] * way.messages
        columns.append(_column([(name, counts[name]) for name in _order(counts, where)], scale))
    height = max(_height(column) for column in columns)
    columns = [_centred(column, (height - _height(column)) / 2) for column in columns]
    links = [
        _links(flows, columns[side], columns[side + 1], ends[side], ends[side + 1], scale) for side in (0, 1)
    ]
    return Sankey(height, columns, links)


def _values(flows: Sequence[Way], end: Callable[[Way], Name]) -> Counter[Name]:
    values: Counter[Name] = Counter()
    for way in flows:
        values[end(way)] += way.messages
    return values


def _order(counts: Mapping[Name, int], where: Mapping[Name, int]) -> list[Name]:
    """Return the names of a column sorted by the mean place of the destinations they are linked to, weighted
    by messages; `where` has the sums.
    """

    def key(name: Name) -> tuple[int, float, int, str]:
        last = 0 if isinstance(name, str) else 2 if name is None else 1
        return last, where[name] / counts[name], -counts[name], str(name)

    return sorted(counts, key=key)


def _column(values: Iterable[tuple[Name, int]], scale: float) -> list[Node]:
    nodes, top = [], 0.0
    for which, value in values:
        height = max(value * scale, _LEAST)
        slot = max(height, SLOT - GAP)
        nodes.append(Node(which, value, top + (slot - height) / 2, height))
        top += slot + GAP
    return nodes


def _height(column: Sequence[Node]) -> float:
    last = column[-1]
    return max(last.top + last.height, last.top + last.height / 2 + (SLOT - GAP) / 2)


def _centred(column: Sequence[Node], by: float) -> list[Node]:
    return [Node(node.name, node.value, node.top + by, node.height) for node in column]


def _links(
    flows: Sequence[Way],
    sources: Sequence[Node],
    targets: Sequence[Node],
    source: Callable[[Way], Name],
    target: Callable[[Way], Name],
    scale: float,
) -> list[Link]:
    values: Counter[tuple[Name, Name]] = Counter()
    for way in flows:
        values[source(way), target(way)] += way.messages
    leaves = {node.name: node.top for node in sources}
    comes = {node.name: node.top for node in targets}
    links = []
    for start in sources:
        for end in targets:
            if value := values[start.name, end.name]:
                width = value * scale
                links.append(Link(start.name, end.name, value, leaves[start.name], comes[end.name], width))
                leaves[start.name] += width
                comes[end.name] += width
    return links


def told(name: Name, nobody: str) -> str:
    """Return a node's name as text, `nobody` if it has none. The caller must still make it `visible`."""
    if name is None:
        return nobody
    return "all others" if isinstance(name, Rest) else name


def draw(chart: Sankey, colour: Callable[[Name], str], label: str, shown: Callable[[str], Markup]) -> Markup:
    """Return the flow chart as HTML. `colour` returns a destination's CSS class, `shown` a name as safe HTML."""
    height = max(chart.height, 1)
    bands = [
        tag(
            "path",
            tag("title", _sentence(link, side)),
            d=_band(link, side),
            class_=f"link {colour(link.target if side == 0 else link.source)}",
        )
        for side, links in enumerate(chart.links)
        for link in links
    ]
    nodes = [
        tag(
            "rect",
            x=number(_left(side)),
            y=number(node.top),
            width=_WIDTH,
            height=number(node.height),
            class_=f"node {colour(node.name) if side == 1 else 'client'}",
        )
        for side, column in enumerate(chart.columns)
        for node in column
    ]
    labels = [
        tag(
            "div",
            tag("span", class_=f"swatch {colour(node.name)}") if side == 1 else None,
            shown(node.name) if isinstance(node.name, str) else tag("i", told(node.name, NOBODY[side])),
            tag("span", short(node.value), class_="value"),
            class_=f"label side{side}",
            style=f"top:{number(node.top + node.height / 2)}px",
        )
        for side, column in enumerate(chart.columns)
        for node in column
    ]
    svg = tag(
        "svg",
        tag("title", label),
        join(*bands, *nodes),
        viewBox=f"0 0 {UNITS} {number(height)}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return tag("div", svg, *labels, class_="sankey", style=f"height:{number(height)}px")


def _sentence(link: Link, side: int) -> str:
    source, target = (
        visible(told(end, nobody))
        for end, nobody in zip((link.source, link.target), NOBODY[side : side + 2], strict=True)
    )
    return f"{source} → {target}: {plural(link.value, 'message')}"


def _left(side: int) -> float:
    return side * (UNITS - _WIDTH) / 2


def _band(link: Link, side: int) -> str:
    start, end = _left(side) + _WIDTH, _left(side + 1)
    middle = number((start + end) / 2)
    left, right = number(start), number(end)
    upper, under = (number(at) for at in (link.left, link.left + link.width))
    across, below = (number(at) for at in (link.right, link.right + link.width))
    return (
        f"M{left} {upper}C{middle} {upper} {middle} {across} {right} {across}"
        f"V{below}C{middle} {below} {middle} {under} {left} {under}Z"
    )


def outcomes(findings: Findings) -> Figure:
    """Return the figure with the share of each outcome, over all messages and for the top destinations."""
    key, title = "outcomes", "What became of the messages"
    total = findings.messages
    if not total:
        return Figure(key, title, "No messages.")
    seen = [outcome for outcome in SHOWN if findings.outcomes.get(outcome)]
    rows: list[tuple[Markup, Mapping[str, int]]] = [(tag("b", "All messages"), findings.outcomes)]
    rows += [(name(one.name), one.outcomes) for one in findings.destinations if sum(one.outcomes.values())]
    expected, unheard = findings.expected, total - findings.expected
    note = (
        f"{text.percent(findings.reached, expected)} of {text.plural(expected, 'message')} reached a consumer"
    )
    if unheard:
        note += f"; {text.count(unheard)} more went to topics, where nobody got {'it' if unheard == 1 else 'them'}"
    if findings.redelivered:
        note += f"; {text.plural(findings.redelivered, 'delivery was', 'deliveries were')} made again"
    if findings.unsettled:
        note += f"; {text.count(findings.unsettled)} may still change"
    chart = tag("div", *(_share(label, counts) for label, counts in rows), class_="shares")
    sheet = Sheet(
        "Messages by outcome",
        [Column("Destination"), *figures("All", *(MEANING[outcome] for outcome in seen))],
        [
            [
                label,
                text.count(sum(counts.values())),
                *(_part(counts.get(outcome, 0), sum(counts.values())) for outcome in seen),
            ]
            for label, counts in rows
        ],
    )
    legend = [
        Key(
            f"outcome {outcome}",
            join(MEANING[outcome], " ", tag("b", text.percent(findings.outcomes[outcome], total))),
        )
        for outcome in seen
    ]
    remark = (
        "A message to a topic goes to whoever is subscribed when it comes, and is kept for nobody else."
        if UNHEARD in seen
        else ""
    )
    return Figure(key, title, f"{note}.", chart, legend, sheet, remark=remark)


def _part(number: int, total: int) -> Markup:
    return join(text.count(number), *(" ", tag("small", text.percent(number, total))) if number else ())


def _share(label: Markup, counts: Mapping[str, int]) -> Markup:
    total = sum(counts.values())
    parts = [
        tag(
            "span",
            class_=f"outcome {outcome}",
            style=f"width:{place(counts[outcome] / total)}",
            title=f"{MEANING[outcome]}: {text.count(counts[outcome])} ({text.percent(counts[outcome], total)})",
        )
        for outcome in SHOWN
        if counts.get(outcome)
    ]
    said = ", ".join(
        f"{MEANING[outcome]} {text.percent(counts[outcome], total)}"
        for outcome in SHOWN
        if counts.get(outcome)
    )
    return tag(
        "div",
        tag("div", label, class_="who"),
        tag("div", *parts, class_="share", role="img", aria_label=said),
        tag("div", text.short(total), class_="value"),
        class_="row",
    )


def flow(findings: Findings, palette: Palette) -> Figure:
    """Return the figure with the flow from producers through destinations to consumers."""
    key, title = "flow", "Who sends what to whom"
    chart = sankey(findings.ways)
    if not chart.height:
        return Figure(key, title, "No message was sent from one client to another.")
    note = (
        "Producers on the left, destinations in the middle, consumers on the right. A band is as wide as the messages "
        "that went that way; one that went to several consumers counts for each."
    )
    heads = tag(
        "div",
        *(tag("span", head) for head in ("Producers", "Destinations", "Consumers")),
        class_="heads",
        aria_hidden="true",
    )
    sheet = Sheet(
        "Messages by producer, destination and consumer",
        [*words("Producer", "Destination", "Consumer"), *figures("Messages")],
        [
            [*map(_end, (way.producer, way.destination, way.consumer), NOBODY), text.count(way.messages)]
            for way in sorted(findings.ways, key=lambda way: -way.messages)
        ],
    )
    body = join(heads, draw(chart, palette.of, f"{title}: {note}", name))
    remark = (
        ""
        if findings.whole_hours
        else "This is counted by the hour, so it holds all of the hours of the range."
    )
    return Figure(key, title, note, body, (), sheet, remark=remark)


def _end(which: Name, nobody: str) -> Markup:
    return name(which) if isinstance(which, str) else tag("i", told(which, nobody))

"""What became of the messages, and who sends what to whom."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure, Key
from stomprelay.pipeline.report.findings import OUTCOMES, Findings, Name
from stomprelay.pipeline.report.markup import join, name, place, tag
from stomprelay.pipeline.report.palette import Palette
from stomprelay.pipeline.report.sankey import NOBODY, draw, sankey, told
from stomprelay.pipeline.report.sheet import Column, Sheet, figures, words

MEANING: Final = {
    "acked": "acknowledged",
    "delivered": "delivered, no answer",
    "returned": "returned: the consumer or broker went first",
    "nacked": "refused (NACK)",
    "undelivered": "not delivered yet",
    "unconfirmed": "neither delivered nor confirmed",
    "aborted": "transaction aborted",
}
"""Each outcome in a few words."""


def outcomes(findings: Findings) -> Figure:
    """Shares of the outcomes, over all and for the top destinations."""
    key, title = "outcomes", "What became of the messages"
    total = findings.messages
    if not total:
        return Figure(key, title, "No messages.")
    seen = [outcome for outcome in OUTCOMES if findings.outcomes.get(outcome)]
    rows: list[tuple[Markup, Mapping[str, int]]] = [(tag("b", "All messages"), findings.outcomes)]
    rows += [(name(one.name), one.outcomes) for one in findings.destinations if sum(one.outcomes.values())]
    note = f"{text.percent(findings.reached, total)} of {text.plural(total, 'message')} reached a consumer"
    if findings.redelivered:
        note += f"; {text.plural(findings.redelivered, 'delivery was', 'deliveries were')} made again"
    if findings.unsettled:
        note += f"; {text.count(findings.unsettled)} may still change"
    chart = tag("div", *(_share(label, counts) for label, counts in rows), class_="shares")
    sheet = Sheet(
        "Messages by outcome",
        [Column("Destination"), *figures(*(MEANING[outcome] for outcome in seen))],
        [[label, *(text.count(counts.get(outcome, 0)) for outcome in seen)] for label, counts in rows],
    )
    legend = [
        Key(
            f"outcome {outcome}",
            join(MEANING[outcome], " ", tag("b", text.percent(findings.outcomes[outcome], total))),
        )
        for outcome in seen
    ]
    return Figure(key, title, f"{note}.", chart, legend, sheet)


def _share(label: Markup, counts: Mapping[str, int]) -> Markup:
    total = sum(counts.values())
    parts = [
        tag(
            "span",
            class_=f"outcome {outcome}",
            style=f"width:{place(counts[outcome] / total)}",
            title=f"{MEANING[outcome]}: {text.count(counts[outcome])} ({text.percent(counts[outcome], total)})",
        )
        for outcome in OUTCOMES
        if counts.get(outcome)
    ]
    said = ", ".join(
        f"{MEANING[outcome]} {text.percent(counts[outcome], total)}"
        for outcome in OUTCOMES
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
    """Producers, destinations and consumers."""
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

"""Rows with bars on a common time axis: outages of brokers, stuck consumers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report.markup import place, tag
from stomprelay.pipeline.report.plot import Band, bands_of, times
from stomprelay.pipeline.report.span import Span
from stomprelay.pipeline.report.text import Micros

_ROOM: Final = 0.22
"""The share of a wide chart that a note beside a bar may need."""
_NARROW: Final = 0.55
"""The same of a narrow one."""
_LATE: Final = 0.7
"""A bar that begins after this share has its note on its left, where there is room."""


@dataclass(frozen=True)
class Bar:
    """From when to when. `note` is written beside it where there is room, `title` is shown when pointed at."""

    since: Micros
    until: Micros
    kind: str
    note: str
    title: str
    open: bool = False


@dataclass(frozen=True)
class Row:
    """A thing and what happened to it, in the order of time."""

    label: Markup
    bars: Sequence[Bar]


def timeline(span: Span, rows: Sequence[Row], *, label: str, bands: Sequence[Band] = ()) -> Markup:
    """The whole chart. Bars outside the span are left out, others are cut at its ends."""
    return tag(
        "div",
        *(
            tag(
                "div",
                tag("div", row.label, class_="who"),
                tag("div", *bands_of(span, bands), *_bars(span, row.bars), class_="track"),
                class_="row",
            )
            for row in rows
        ),
        tag("div", times(span), class_="axis"),
        class_="timeline",
        role="img",
        aria_label=label,
    )


def _bars(span: Span, bars: Sequence[Bar]) -> list[Markup]:
    seen = [bar for bar in bars if bar.until >= span.since and bar.since < span.until]
    places = [(span.place(bar.since), span.place(bar.until)) for bar in seen]
    drawn, taken = [], 0.0
    alone = len(seen) == 1
    for index, (bar, (left, right)) in enumerate(zip(seen, places, strict=True)):
        following = places[index + 1][0] if index + 1 < len(places) else 1.0
        drawn.append(
            tag(
                "div",
                class_=f"bar {bar.kind}{' open' if bar.open else ''}",
                style=f"left:{place(left)};width:{place(right - left)}",
                title=bar.title,
            )
        )
        if following - right >= _ROOM and right < _LATE:
            fits = " fits" if following - right >= _NARROW else ""
            drawn.append(tag("span", bar.note, class_=f"note{fits}", style=f"left:{place(right)}"))
            taken = right + _ROOM
        else:
            if left - taken >= _ROOM:
                fits = " fits" if alone and left >= _NARROW else ""
                drawn.append(
                    tag("span", bar.note, class_=f"note before{fits}", style=f"right:{place(1 - left)}")
                )
            taken = right
    return drawn

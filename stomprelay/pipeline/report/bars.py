"""Bars on the axis of time: outages of brokers, and waits of stuck consumers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.findings import Failover, Span, Stuck
from stomprelay.pipeline.report.text import Micros

_ROOM: Final = 0.22
"""The share of a wide chart's width that must be free beside a bar for its note."""
_NARROW: Final = 0.55
"""The share of a narrow chart's width that must be free beside a bar for its note."""
_LATE: Final = 0.7
"""A bar that ends after this share of the width has its note on its left, if there is room."""


@dataclass(frozen=True)
class Bar:
    """A bar from `since` to `until`, with its CSS classes `kind`. `note` is written beside it if there is room, `title`
    is shown when pointed at.
    """

    since: Micros
    until: Micros
    kind: str
    note: str
    title: str


@dataclass(frozen=True)
class Placed:
    """A bar from `left` to `right`, as shares of the width. Its note has the CSS classes `beside`, none if it has no
    room, and is `at` this share of the width from the `side`.
    """

    left: float
    right: float
    kind: str
    title: str
    note: str
    beside: str = ""
    side: str = "left"
    at: float = 0.0


def placed(span: Span, bars: Sequence[Bar]) -> Iterator[Placed]:
    """Yield the bars that are in the span, cut at its ends, with their notes where there is room."""
    seen = [bar for bar in bars if bar.until >= span.since and bar.since < span.until]
    taken = 0.0
    for bar, following in zip_longest(seen, seen[1:]):
        left, right = span.place(bar.since), span.place(bar.until)
        beside, side, at = "", "left", right
        free = (span.place(following.since) if following else 1.0) - right
        if free >= _ROOM and right < _LATE:
            beside = "note fits" if free >= _NARROW else "note"
            taken = right + _ROOM
        else:
            if left - taken >= _ROOM:
                beside = "note before fits" if len(seen) == 1 and left >= _NARROW else "note before"
                side, at = "right", 1 - left
            taken = right
        yield Placed(left, right, bar.kind, bar.title, bar.note, beside, side, at)


def outages(
    span: Span, failovers: Sequence[Failover]
) -> Sequence[tuple[tuple[str | None, str], Sequence[Bar]]]:
    """Return the bars of each upstream and broker."""
    rows: dict[tuple[str | None, str], list[Bar]] = {}
    for one in failovers:
        silence = "" if one.silence_longest is None else f" · {text.duration(one.silence_longest)}"
        note = f"{text.plural(one.sessions, 'session')}{silence}"
        title = f"{text.visible(one.broker)}, {text.clock(one.began, 'full')} UTC, {one.lasted}: {note}, "
        title += f"{text.count(one.resent)} frames sent again"
        kind = ("planned" if one.planned else "outage") + ("" if one.ended else " open")
        rows.setdefault((one.upstream, one.broker), []).append(
            Bar(one.began, one.ended or span.until, kind, note, title)
        )
    return list(rows.items())


def waits(span: Span, stuck: Sequence[Stuck]) -> Iterator[tuple[tuple[Stuck, str | None], Sequence[Bar]]]:
    """Yield the bars of each stuck subscription and broker."""
    for one in stuck:
        for broker, episodes in one.by_broker.items():
            bars = []
            for each in episodes:
                end = each.end(span)
                note = f"{text.duration(end - each.since)} · {text.plural(each.deliveries, 'delivery', 'deliveries')}"
                title = f"{text.visible(one.client or '')}: from {text.clock(each.since, 'full')} "
                title += f"to {text.clock(each.until, 'full')} UTC" if each.until else "UTC, not over"
                bars.append(Bar(each.since, end, "stuck" if each.until else "stuck open", note, title))
            yield (one, broker), bars

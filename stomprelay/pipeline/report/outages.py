"""Outages of brokers, and consumers that were stuck, as bars on the axis of time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure, Key
from stomprelay.pipeline.report.findings import Episode, Failover, Findings, Span, Stuck
from stomprelay.pipeline.report.markup import Sheet, figures, join, name, place, tag, when, words
from stomprelay.pipeline.report.plot import Band, bands_of, gaps, keys_of, times
from stomprelay.pipeline.report.text import Micros
from stomprelay.pipeline.schema import KILLED

_ROOM: Final = 0.22
"""The share of a wide chart's width that must be free beside a bar for its note."""
_NARROW: Final = 0.55
"""The share of a narrow chart's width that must be free beside a bar for its note."""
_LATE: Final = 0.7
"""A bar that ends after this share of the width has its note on its left, if there is room."""


@dataclass(frozen=True)
class Bar:
    """A bar from `since` to `until`. `note` is written beside it if there is room, `title` is shown when
    pointed at; `open`: it has not ended.
    """

    since: Micros
    until: Micros
    kind: str
    note: str
    title: str
    open: bool = False


@dataclass(frozen=True)
class Row:
    """One line of the chart: its label and its bars, in the order of time."""

    label: Markup
    bars: Sequence[Bar]


def timeline(span: Span, rows: Sequence[Row], *, label: str, bands: Sequence[Band] = ()) -> Markup:
    """Return the whole chart. Bars outside the span are left out, others are cut at its ends. `label`: its
    text for screen readers.
    """
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


def bands(findings: Findings) -> list[Band]:
    """Return the bands to draw behind other charts: when a broker was out, and when nothing was recorded."""
    return [
        *gaps(findings.span, findings.recorded),
        *(
            Band(
                one.began,
                _end(one, findings.span),
                "outage",
                "a broker was out",
                f"{text.visible(one.broker)} was out",
            )
            for one in findings.failovers
            if not one.planned
        ),
    ]


def _end(one: Failover, span: Span) -> text.Micros:
    return span.until if one.ended is None else one.ended


def failovers(findings: Findings) -> Figure:
    """Return the figure with a row for each broker that was lost and a bar for each outage."""
    key, title, span = "failovers", "Failovers", findings.span
    if not findings.failovers:
        return Figure(key, title, "No broker was lost while sessions were on it.")
    by_broker: dict[tuple[str | None, str], list[Failover]] = defaultdict(list)
    for one in sorted(findings.failovers, key=lambda one: one.began):
        by_broker[one.upstream, one.broker].append(one)
    rows = [
        Row(_broker(upstream, broker), [_outage(one, span) for one in several])
        for (upstream, broker), several in by_broker.items()
    ]
    note = join(_summary(findings.failovers), *((" ", left(findings), ".") if findings.waiting else ()))
    chart = timeline(span, rows, label=f"Outages by broker. {_summary(findings.failovers)}")
    sheet = Sheet(
        "Outages, in the order of time",
        [
            *words("Began", "Broker", "Went on at", "Lasted"),
            *figures(
                "Sessions",
                "Recovered",
                "Given up",
                "Silence, median",
                "Silence, longest",
                "Sent again",
                "Stale ACKs",
                "Duplicates",
            ),
        ],
        [_row(one) for one in sorted(findings.failovers, key=lambda one: one.began)],
    )
    kinds = {one.planned: None for one in findings.failovers}
    legend = [
        Key("bar planned", "asked for: pause, rebalance") if planned else Key("bar outage", "lost")
        for planned in sorted(kinds)
    ]
    remark = "Silence is how long a session was without a broker; its client saw no more of it than that."
    return Figure(key, title, note, chart, legend, sheet, open=True, remark=remark)


def left(findings: Findings) -> Markup:
    """Return how many messages may wait at brokers that were lost or left, as HTML."""
    each = (
        join(", " if rank else "", f"about {text.count(count)} may wait at ", name(broker))
        for rank, (broker, count) in enumerate(findings.waiting.items())
    )
    return join(*each)


def _summary(several: Sequence[Failover]) -> str:
    sessions = sum(one.sessions for one in several)
    recovered = sum(one.recovered for one in several)
    longest = max((one.silence_longest or 0 for one in several), default=0)
    given_up = sum(one.given_up for one in several)
    said = [
        f"{text.plural(len(several), 'outage')} under {text.plural(sessions, 'session')}",
        f"{text.count(recovered)} went on at another broker" if recovered else "none found another broker",
    ]
    if given_up:
        said.append(f"{text.count(given_up)} gave up")
    if longest:
        said.append(f"the longest silence was {text.duration(longest)}")
    return "; ".join(said) + "."


def runs(findings: Findings) -> Figure | None:
    """Return the list of the runs of relays' processes; None without any."""
    if not findings.runs:
        return None
    note = f"{text.plural(findings.total_runs, 'run')} of relays' processes"
    note += f", {text.count(findings.killed)} of them killed." if findings.killed else "."
    if findings.total_runs > len(findings.runs):
        note += f" Shown: {len(findings.runs)}, those that were killed first."
    sheet = Sheet(
        "Runs of relays, in the order of time",
        [
            *words("Relay", "Run", "Began", "Ended", "How"),
            *figures("Segments", "Frames", "Events", "Dropped", "Torn"),
        ],
        [
            [
                name(one.relay),
                name(one.run),
                text.NOTHING if one.began is None else when(one.began, "full"),
                text.NOTHING if one.ended is None else when(one.ended, "full"),
                tag("b", one.outcome, class_="alarmed") if one.outcome == KILLED else one.outcome,
                *(text.count(number) for number in (one.segments, one.frames, one.events)),
                tag("b", text.count(one.dropped), class_="alarmed") if one.dropped else "0",
                text.octets(one.torn),
            ]
            for one in findings.runs
        ],
    )
    return Figure("runs", "Relays", note, sheet=sheet, open=True)


def _broker(upstream: str | None, broker: str) -> Markup:
    return join(name(broker), tag("small", name(upstream)) if upstream else None)


def _outage(one: Failover, span: Span) -> Bar:
    silence = "" if one.silence_longest is None else f" · {text.duration(one.silence_longest)}"
    note = f"{text.plural(one.sessions, 'session')}{silence}"
    title = f"{text.visible(one.broker)}, {text.clock(one.began, 'full')} UTC, {_lasted(one)}: {note}, "
    title += f"{text.count(one.resent)} frames sent again"
    kind = "planned" if one.planned else "outage"
    return Bar(one.began, _end(one, span), kind, note, title, open=one.ended is None)


def _lasted(one: Failover) -> str:
    return "not over" if one.ended is None else text.duration(one.ended - one.began)


def _row(one: Failover) -> list[str | Markup]:
    return [
        when(one.began, "full"),
        _broker(one.upstream, one.broker),
        join(*(tag("div", name(broker)) for broker in one.moved_to)) if one.moved_to else text.NOTHING,
        _lasted(one) + (" (planned)" if one.planned else ""),
        *(text.count(number) for number in (one.sessions, one.recovered, one.given_up)),
        *(text.timed(micros) for micros in (one.silence_median, one.silence_longest)),
        *(text.count(number) for number in (one.resent, one.stale_acks, one.duplicates)),
    ]


def stuck(findings: Findings, behind: Sequence[Band]) -> Figure:
    """Return the figure with a row for each subscription that left deliveries without an ACK for too long.
    `behind`: the bands to draw behind the bars.
    """
    key, title, span = "stuck", "Stuck consumers", findings.span
    if not findings.stuck:
        return Figure(key, title, "No consumer left a delivery unanswered for too long.")
    rows = [
        Row(_consumer(one, broker), [_bar(one, each, span) for each in episodes])
        for one in findings.stuck
        for broker, episodes in one.by_broker.items()
    ]
    still = sum(one.still for one in findings.stuck)
    worst = max(one.worst for one in findings.stuck)
    note = (
        f"{text.plural(findings.total_stuck, 'subscription')} left deliveries unanswered, "
        f"the longest for {text.duration(worst)}"
    )
    note += (
        f"; {text.count(still)} still did when the journal was last read." if still else "; none still does."
    )
    if findings.total_stuck > len(findings.stuck):
        note += f" Shown: the {len(findings.stuck)} worst."
    sheet = Sheet(
        "Times in which deliveries waited, the consumer with the longest wait first",
        [
            *words("Consumer", "Destination", "Broker", "From", "To"),
            *figures("Lasted", "Longest wait", "Deliveries"),
            *words("Then"),
        ],
        [
            _stuck_row(one, each, span)
            for one in findings.stuck
            for episodes in one.by_broker.values()
            for each in episodes
        ],
    )
    legend = [Key("bar stuck", "a delivery waited for its answer"), *keys_of(behind)]
    chart = timeline(span, rows, label=f"Stuck consumers. {note}", bands=behind)
    return Figure(key, title, note, chart, legend, sheet, open=True)


def _consumer(one: Stuck, broker: str | None) -> Markup:
    return join(
        name(one.client or "unnamed client"),
        tag("small", name(one.destination)) if one.destination else None,
        tag("small", name(broker)) if broker and len(one.by_broker) > 1 else None,
    )


def _last(episode: Episode, span: Span) -> Micros:
    return max(span.until, episode.since) if episode.until is None else episode.until


def _bar(one: Stuck, episode: Episode, span: Span) -> Bar:
    begin, end, last = episode.since, episode.until, _last(episode, span)
    note = f"{text.duration(last - begin)} · {text.plural(episode.deliveries, 'delivery', 'deliveries')}"
    title = f"{text.visible(one.client or '')}: from {text.clock(begin, 'full')} "
    title += "UTC, not over" if end is None else f"to {text.clock(end, 'full')} UTC"
    return Bar(begin, last, "stuck", note, title, open=end is None)


def _stuck_row(one: Stuck, episode: Episode, span: Span) -> list[str | Markup]:
    return [
        join(
            name(one.client or "unnamed client"),
            tag("small", name(one.subscription)) if one.subscription else None,
        ),
        name(one.destination) if one.destination else text.NOTHING,
        name(episode.broker) if episode.broker else text.NOTHING,
        when(episode.since, "full"),
        tag("b", "still waiting") if episode.until is None else when(episode.until, "full"),
        text.duration(_last(episode, span) - episode.since),
        text.duration(episode.worst),
        text.count(episode.deliveries),
        episode.outcome or text.NOTHING,
    ]

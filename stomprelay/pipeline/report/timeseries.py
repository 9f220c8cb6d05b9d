"""Traffic, errors and latencies over time."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure, Key, Palette, destination
from stomprelay.pipeline.report.findings import (
    MEASURES,
    NOTHING,
    Findings,
    Latency,
    Percentiles,
    Series,
    Span,
    Trouble,
)
from stomprelay.pipeline.report.markup import Column, Sheet, figures, join, name, tag, when, words
from stomprelay.pipeline.report.plot import (
    Band,
    Scale,
    between,
    fitting,
    frame,
    keys_of,
    linear,
    lines,
    meanwhile,
    stack,
    totals,
)

TITLES: Final = {
    "receipt": ("Until confirmed", "SEND to RECEIPT"),
    "delivery": ("Until delivered", "SEND to MESSAGE"),
    "ack": ("Until acknowledged", "MESSAGE to ACK"),
}
LINES: Final = ("p50", "p95", "p99")


def traffic(findings: Findings, palette: Palette, bands: Sequence[Band]) -> Figure:
    """Return the figure with messages sent and delivered over time, by destination."""
    key, title, span = "traffic", "Traffic", findings.span
    series = [one for one in findings.series if any(one.sent) or any(one.delivered)]
    if not series:
        return Figure(key, title, "No messages were sent or delivered.")
    sent = [one.sent for one in series]
    delivered = [one.delivered for one in series]
    columns: list[Column] = []
    for way in ("in", "out"):
        columns += figures(*(f"{_plain(one)} {way}" for one in series))
    sheet = _by_time(
        f"Messages in {_bin(span)} each, sent by clients (in) and delivered to them (out), by destination",
        span,
        columns,
        [[text.count(values[bin_]) for values in (*sent, *delivered)] for bin_ in range(span.bins)],
        bands,
    )
    panels = []
    for way, layers, first in (
        ("Sent by clients", sent, 1),
        ("Delivered to clients", delivered, 1 + len(series)),
    ):
        heights = totals(layers)
        scale = linear(height / span.seconds for height in heights)
        drawing = stack(
            span,
            scale,
            [
                (palette.of(one.name), [value / span.seconds for value in values])
                for one, values in zip(series, layers, strict=True)
            ],
        )
        label = f"{way}: {text.plural(int(sum(heights)), 'message')}, {_peak(span, heights)}"
        chart = frame(
            span,
            scale,
            drawing,
            label=label,
            told=partial(text.rate, like=scale.high),
            bands=bands,
            sheet=f"{key}-sheet",
            columns=range(first, first + len(series)),
        )
        panels.append(tag("div", tag("h3", way), tag("p", _peak(span, heights)), chart, class_="panel"))
    legend = [Key(palette.of(one.name), destination(one.name)) for one in series]
    note = f"Messages a second, by destination; one step is {_bin(span)}."
    return Figure(key, title, note, join(*panels), [*legend, *keys_of(bands)], sheet)


def _by_time(
    caption: str,
    span: Span,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    bands: Sequence[Band],
) -> Sheet:
    """Return a table with a row for each bin, which says at its end what the bands behind the chart say."""
    heads, cells = [Column("Time"), *columns], [list(row) for row in rows]
    said = meanwhile(span, bands)
    if any(said):
        heads.append(Column("Meanwhile"))
        cells = [[*row, each] for row, each in zip(cells, said, strict=True)]
    return Sheet(
        caption, heads, [[when(at, span.form), *row] for at, row in zip(span.starts, cells, strict=True)]
    )


def _plain(series: Series) -> str:
    return text.visible(series.name) if isinstance(series.name, str) else "all others"


def _bin(span: Span) -> str:
    return text.duration(span.step)


def _peak(span: Span, heights: Sequence[float]) -> Markup:
    most = max(heights)
    if not most:
        return Markup("none")
    at = span.starts[list(heights).index(most)]
    return join(f"at most {text.rate(most / span.seconds)}, at ", when(at, span.form))


def errors(findings: Findings, bands: Sequence[Band]) -> Figure:
    """Return the figure with the number of errors over time, and their texts."""
    key, title, span = "errors", "Errors", findings.span
    total = sum(findings.errors)
    if not total and not findings.troubles:
        return Figure(key, title, "No errors, neither from brokers nor from the relay.")
    scale = linear(findings.errors, whole=True)
    peak = f"at most {text.count(max(findings.errors))} in {_bin(span)}" if total else "none counted"
    label = f"{text.plural(total, 'error')}, {peak}"
    chart = frame(
        span,
        scale,
        stack(span, scale, [("alarm", findings.errors)]),
        label=label,
        told=text.short,
        bands=bands,
        sheet=f"{key}-sheet",
        columns=[1],
    )
    sheet = _by_time(
        f"Errors in {_bin(span)} each",
        span,
        figures("Errors"),
        [[text.count(number)] for number in findings.errors],
        bands,
    )
    listing = Sheet(
        "What the errors said, the most frequent first",
        [
            *words("Error", "Said by"),
            *figures("Times", "Clients"),
            *words("First", "Last"),
        ],
        [_trouble(trouble) for trouble in findings.troubles],
    )
    note = f"{label[0].upper()}{label[1:]}."
    body = tag("div", chart, class_="panel low")
    return Figure(
        key, title, note, body, keys_of(bands), sheet, listing=listing if findings.troubles else None
    )


def _trouble(trouble: Trouble) -> list[str | Markup]:
    return [
        name(trouble.text),
        trouble.source,
        text.count(trouble.count),
        text.count(trouble.clients),
        when(trouble.first, "full"),
        when(trouble.last, "full"),
    ]


def latency(findings: Findings, bands: Sequence[Band]) -> Figure:
    """Return the figure with percentiles over the time of the SEND: one panel for each latency, all with the
    same axis.
    """
    key, title, span = "latency", "Latency", findings.span
    known = {
        name: found for name in MEASURES if (found := findings.latencies.get(name)) and found.whole.count
    }
    if not known:
        return Figure(key, title, "No latency is known: nothing was confirmed, delivered or acknowledged.")
    scale = fitting(
        value
        for found in known.values()
        for bin_ in found.bins
        for value in (bin_.p50, bin_.p95, bin_.p99)
        if value is not None
    )
    columns: list[Column] = []
    values: list[Sequence[Percentiles]] = []
    for measure in MEASURES:
        columns += figures(*(f"{TITLES[measure][1]}, {drawn}" for drawn in LINES))
        values.append(known[measure].bins if measure in known else [NOTHING] * span.bins)
    sheet = _by_time(
        f"Latencies of the messages sent in {_bin(span)} each",
        span,
        columns,
        [[cell for bins in values for cell in _cells(bins[bin_])] for bin_ in range(span.bins)],
        bands,
    )
    panels = [
        _panel(measure, known.get(measure), span, scale, bands, place)
        for place, measure in enumerate(MEASURES)
    ]
    legend = [
        Key("line-p50", "p50, the median"),
        Key("line-p95", "p95"),
        Key("line-p99", "p99: one message in a hundred took longer"),
        *keys_of(bands),
    ]
    note = "How long messages took, by the time they were sent"
    note += ". The axis is logarithmic: each line is ten times the one below." if scale.logarithmic else "."
    return Figure(key, title, note, tag("div", *panels, class_="panels"), legend, sheet)


def _cells(found: Percentiles) -> list[str]:
    return [text.timed(value) for value in (found.p50, found.p95, found.p99)]


def _panel(
    name: str, found: Latency | None, span: Span, scale: Scale, bands: Sequence[Band], place: int
) -> Markup:
    title, between_what = TITLES[name]
    heading = tag("h3", title, " ", tag("small", between_what))
    if found is None:
        return tag("div", heading, tag("p", "Nothing to measure.", class_="none"), class_="panel")
    whole = found.whole
    values = (("p50", whole.p50), ("p95", whole.p95), ("p99", whole.p99), ("longest", whole.longest))
    said = ", ".join(f"{line} {text.timed(value)}" for line, value in values)
    drawn = {line: [getattr(bin_, line) for bin_ in found.bins] for line in LINES}
    chart = frame(
        span,
        scale,
        join(
            between(span, scale, drawn["p50"], drawn["p99"], "spread"),
            lines(span, scale, [(f"line-{line}", drawn[line]) for line in reversed(LINES)]),
        ),
        label=f"{title}, {between_what}, over time. Of {text.plural(whole.count, 'message')}: {said}",
        told=text.ticked,
        bands=bands,
        sheet="latency-sheet",
        columns=range(1 + 3 * place, 4 + 3 * place),
    )
    return tag("div", heading, tag("p", said), chart, class_="panel")

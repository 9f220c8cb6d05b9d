"""The three latencies over time."""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure, Key
from stomprelay.pipeline.report.findings import MEASURES, NOTHING, Findings, Latency, Percentiles
from stomprelay.pipeline.report.lines import between, lines
from stomprelay.pipeline.report.markup import join, tag, when
from stomprelay.pipeline.report.plot import Band, frame, keys_of
from stomprelay.pipeline.report.scale import Scale, fitting
from stomprelay.pipeline.report.sheet import Column, Sheet, figures
from stomprelay.pipeline.report.span import Span

TITLES: Final = {
    "receipt": ("Until confirmed", "SEND to RECEIPT"),
    "delivery": ("Until delivered", "SEND to MESSAGE"),
    "ack": ("Until acknowledged", "MESSAGE to ACK"),
}
LINES: Final = ("p50", "p95", "p99")


def latency(findings: Findings, bands: Sequence[Band]) -> Figure:
    """Percentiles by the time of the SEND, one panel for each latency, all with the same axis."""
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
    columns, values = [Column("Time")], []
    for name in MEASURES:
        columns += figures(*(f"{TITLES[name][1]}, {line}" for line in LINES))
        values.append(known[name].bins if name in known else [NOTHING] * span.bins)
    sheet = Sheet(
        f"Latencies of the messages sent in each {text.duration(span.step)}",
        columns,
        [
            [when(at, span.form), *(cell for bins in values for cell in _cells(bins[bin_]))]
            for bin_, at in enumerate(span.starts)
        ],
    )
    panels = [_panel(name, known.get(name), span, scale, bands, place) for place, name in enumerate(MEASURES)]
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

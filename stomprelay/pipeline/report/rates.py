"""Traffic and errors over time."""

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.figure import Figure, Key, destination
from stomprelay.pipeline.report.findings import Findings, Series, Trouble
from stomprelay.pipeline.report.markup import join, name, tag, when
from stomprelay.pipeline.report.palette import Palette
from stomprelay.pipeline.report.plot import Band, frame, keys_of
from stomprelay.pipeline.report.scale import linear
from stomprelay.pipeline.report.sheet import Column, Sheet, figures, words
from stomprelay.pipeline.report.span import Span
from stomprelay.pipeline.report.stack import stack, totals


def traffic(findings: Findings, palette: Palette, bands: Sequence[Band]) -> Figure:
    """Messages in and out, by destination."""
    key, title, span = "traffic", "Traffic", findings.span
    series = [one for one in findings.series if any(one.sent) or any(one.delivered)]
    if not series:
        return Figure(key, title, "No messages were sent or delivered.")
    sent = [one.sent for one in series]
    delivered = [one.delivered for one in series]
    columns = [Column("Time")]
    for way in ("in", "out"):
        columns += figures(*(f"{_plain(one)} {way}" for one in series))
    sheet = Sheet(
        f"Messages a {_bin(span)}, sent by clients (in) and delivered to them (out), by destination",
        columns,
        [
            [when(at, span.form), *(text.count(values[bin_]) for values in (*sent, *delivered))]
            for bin_, at in enumerate(span.starts)
        ],
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
    """How many errors, when, and what they said."""
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
    )
    sheet = Sheet(
        "What the errors said, the most frequent first",
        [
            *words("Error", "Said by"),
            *figures("Times", "Clients"),
            *words("First", "Last"),
        ],
        [_trouble(trouble) for trouble in findings.troubles],
    )
    note = f"{label[0].upper()}{label[1:]}."
    return Figure(key, title, note, tag("div", chart, class_="panel low"), keys_of(bands), sheet, open=True)


def _trouble(trouble: Trouble) -> list[str | Markup]:
    return [
        name(trouble.text),
        trouble.source,
        text.count(trouble.count),
        text.count(trouble.clients),
        when(trouble.first, "full"),
        when(trouble.last, "full"),
    ]

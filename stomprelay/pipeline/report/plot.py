"""The frame of a chart over time: axes, grid, what was going on, and the drawing in it.

The drawing has a thousand units each way and is stretched to whatever room there is; strokes and all text keep their
size. So one drawing serves a phone and a wide screen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from markupsafe import Markup

from stomprelay.pipeline.report.figure import Key
from stomprelay.pipeline.report.markup import Content, join, number, place, tag, when
from stomprelay.pipeline.report.scale import Scale
from stomprelay.pipeline.report.span import Span
from stomprelay.pipeline.report.text import Micros

UNITS: Final = 1000
_GAP_BINS: Final = 3
_GAP_SHARE: Final = 30


@dataclass(frozen=True)
class Band:
    """A stretch of time that matters to what a chart shows. `kind` is its class: `outage` or `gap`; `title` says so
    in the legend, `about` says more of this one.
    """

    since: Micros
    until: Micros
    kind: str
    title: str
    about: str = ""


def x(span: Span, bin_: float) -> float:
    """The unit at which a bin begins."""
    return UNITS * bin_ / span.bins


def y(scale: Scale, value: float) -> float:
    """The unit of a value, counted from the top."""
    return UNITS * (1 - scale.place(value))


def gaps(span: Span, recorded: Sequence[bool]) -> list[Band]:
    """Where nothing at all was recorded for long enough to be worth a word."""
    found, bin_ = [], 0
    for known, run in groupby(recorded):
        length = len(list(run))
        if not known and length >= max(_GAP_BINS, span.bins / _GAP_SHARE) and length < span.bins:
            since = span.starts[bin_]
            found.append(Band(since, since + length * span.step, "gap", "nothing recorded"))
        bin_ += length
    return found


def frame(
    span: Span,
    scale: Scale,
    drawing: Markup,
    *,
    label: str,
    told: Callable[[float], str],
    bands: Sequence[Band] = (),
    sheet: str = "",
    columns: Sequence[int] = (),
) -> Markup:
    """The whole chart. `label` is what a screen reader says, `told` writes the values on the axis.

    `sheet` is the id of the element that holds the table with a row for each bin; the page's script shows `columns`
    of it for the bin that is pointed at.
    """
    lines = join(
        *(
            tag("path", d=f"M0 {number(y(scale, tick))}H{UNITS}", class_="grid" if rank else "base")
            for rank, tick in enumerate(scale.ticks)
        )
    )
    svg = tag(
        "svg",
        tag("title", label),
        lines,
        drawing,
        viewBox=f"0 0 {UNITS} {UNITS}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )
    return tag(
        "div",
        tag("div", *(_value(scale, tick, told) for tick in scale.ticks), class_="ys", aria_hidden="true"),
        tag("div", *bands_of(span, bands), svg, class_="field"),
        times(span),
        class_="plot",
        data_bins=span.bins,
        data_sheet=sheet or None,
        data_columns=" ".join(map(str, columns)) or None,
    )


def _value(scale: Scale, tick: float, told: Callable[[float], str]) -> Markup:
    return tag("span", told(tick) if tick else "0", style=f"bottom:{place(scale.place(tick))}")


def keys_of(bands: Sequence[Band]) -> list[Key]:
    """What the bands need in a legend."""
    return [Key(f"band {kind}", title) for kind, title in {band.kind: band.title for band in bands}.items()]


def bands_of(span: Span, bands: Sequence[Band]) -> Iterator[Markup]:
    """The bands that are in the span, to lie behind a drawing."""
    for band in bands:
        if band.until >= span.since and band.since < span.until:
            left, right = span.place(band.since), span.place(band.until)
            yield tag(
                "div",
                class_=f"band {band.kind}",
                title=band.about or band.title,
                style=f"left:{place(left)};width:{place(right - left)}",
            )


def times(span: Span) -> Markup:
    """The time axis."""
    return tag(
        "div",
        *(
            when(tick.at, tick.form, style=f"left:{place(tick.place)}", class_=_rank(tick.place, tick.main))
            for tick in span.ticks()
        ),
        class_="xs",
        aria_hidden="true",
    )


def _rank(share: float, main: bool) -> Content:
    """What would stick out on a side is told by its class."""
    kinds = {"main": main, "start": share < 0.06, "end": share > 0.94}
    return " ".join(kind for kind, is_so in kinds.items() if is_so) or None

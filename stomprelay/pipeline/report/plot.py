"""Charts over time: axes, grid, bands in the background, lines or stacked areas, and bars for outages and waits.

A drawing is 1000 units wide and high. The browser stretches it to the room on the page, but strokes and text keep their
size. So the same drawing fits a phone and a wide screen.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from stomprelay.pipeline.report import text
from stomprelay.pipeline.report.findings import Failover, Findings, Span, Stuck
from stomprelay.pipeline.report.text import Micros, tenth, visible

DECADES: Final = 50
"""An axis is logarithmic if the greatest value is more than this many times the least value."""

_LEAST: Final = 1e-12
"""Smaller values count as zero."""
_ROUND: Final = (1, 2, 2.5, 5, 10)


UNITS: Final = 1000
LINES: Final = ("p50", "p95", "p99")
Values = Sequence[float | None]


@dataclass(frozen=True)
class Scale:
    """A value axis from `low`, at the bottom, to `high`. `ticks`: the values to mark."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return a value's place on the axis, from 0 (bottom) to 1 (top). A value outside is put at the nearest end."""
        if self.logarithmic:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)


def linear(values: Iterable[float], about: int = 4, *, whole: bool = False) -> Scale:
    """Return a scale from zero to a round number, not below the greatest value, in about `about` round steps. `whole`:
    the values are counts, so no tick may be a fraction.
    """
    top = max(values, default=0)
    if top < _LEAST:
        return Scale(0, 1, (0,))
    rough = max(top / about, 1.0) if whole else top / about
    power = 10.0 ** math.floor(math.log10(rough))
    steps_up = (power * lead for lead in _ROUND if not whole or (power * lead).is_integer())
    step = next((step for step in steps_up if step >= rough), power * 10)
    steps = math.ceil(top / step - 1e-9)
    return Scale(0, steps * step, tuple(step * number for number in range(steps + 1)))


def logarithmic(values: Iterable[float]) -> Scale:
    """Return a scale of whole decades, at least one. Values below 1 count as 1."""
    positive = [max(value, 1.0) for value in values] or [1.0]
    low = math.floor(math.log10(min(positive)) + 1e-9)
    high = max(math.ceil(math.log10(max(positive)) - 1e-9), low + 1)
    ticks = tuple(10.0**power for power in range(low, high + 1))
    return Scale(ticks[0], ticks[-1], ticks, logarithmic=True)


def fitting(values: Iterable[float]) -> Scale:
    """Return a logarithmic scale if the values differ by a factor of more than `DECADES`, else a linear scale."""
    known = list(values)
    positive = [value for value in known if value > 0]
    if positive and max(positive) > DECADES * min(positive):
        return logarithmic(positive)
    return linear(known)


@dataclass(frozen=True)
class TimeBand:
    """A part of the time axis that is marked behind a chart, or a bar. `kind`: its CSS classes. `title`: its words in
    the legend. `about`: the words that are shown when the user points at it, if they are others.
    """

    since: Micros
    until: Micros
    kind: str
    title: str
    about: str = ""


def x(span: Span, bin_: float) -> float:
    """Return the x coordinate, 0 to 1000, of the start of a bin."""
    return UNITS * bin_ / span.bins


def y(scale: Scale, value: float) -> float:
    """Return the y coordinate of a value, from 0 (top) to 1000."""
    return UNITS * (1 - scale.place(value))


def bands_of(findings: Findings) -> list[TimeBand]:
    """Return the bands to draw behind charts: for times without records, and for unplanned outages of brokers."""
    span = findings.span
    return [
        *gaps(span, findings.recorded),
        *(
            TimeBand(
                one.began,
                one.ended or span.until,
                "outage",
                "a broker was out",
                f"{visible(one.broker)} was out",
            )
            for one in findings.lost
        ),
    ]


def gaps(span: Span, recorded: Sequence[bool]) -> list[TimeBand]:
    """Return a band for each stretch in which nothing was recorded, if it is long enough to matter."""
    found, bin_ = [], 0
    for known, run in groupby(recorded):
        length = len(list(run))
        if not known and length >= max(3, span.bins / 30) and length < span.bins:
            since = span.starts[bin_]
            found.append(TimeBand(since, since + length * span.step, "gap", "nothing recorded"))
        bin_ += length
    return found


def meanwhile(span: Span, bands: Sequence[TimeBand]) -> list[str]:
    """Return for each bin the texts of the bands behind it, for a table with a row for each bin."""
    said: list[list[str]] = [[] for _ in range(span.bins)]
    for band in bands:
        if band.until >= span.since and band.since < span.until:
            for bin_ in range(span.index(band.since), span.index(max(band.since, band.until - 1)) + 1):
                said[bin_].append(band.about or band.title)
    return ["; ".join(dict.fromkeys(each)) for each in said]


def percentile_paths(span: Span, scale: Scale, courses: Sequence[Values]) -> list[tuple[str, str]]:
    """Return the CSS class and `d` of each path: the area between p50 and p99, then a line for each percentile."""
    p50, _, p99 = courses
    drawn = [
        (f"line line-{name}", line(span, scale, values)) for name, values in zip(LINES, courses, strict=True)
    ]
    return [("between spread", between(span, scale, p50, p99)), *reversed(drawn)]


def line(span: Span, scale: Scale, values: Values) -> str:
    """Return the `d` of a path through the values. A single value between two None is a dash as wide as its bin."""
    pieces = []
    for run in runs(values):
        if len(run) == 1:
            ((bin_, value),) = run
            pieces.append(f"M{tenth(x(span, bin_))} {_y(scale, value)}H{tenth(x(span, bin_ + 1))}")
        else:
            points = (f"{tenth(x(span, bin_ + 0.5))} {_y(scale, value)}" for bin_, value in run)
            pieces.append("M" + "L".join(points))
    return "".join(pieces)


def between(span: Span, scale: Scale, low: Values, high: Values) -> str:
    """Return the `d` of the area between two lines. Where `low` has a value, `high` must have a value, too."""
    pieces = []
    for run in runs(low):
        edges, half = [(bin_, a, high[bin_] or 0) for bin_, a in run], 0.5
        if len(edges) == 1:
            ((bin_, a, b),) = edges
            edges, half = [(bin_, a, b), (bin_ + 1, a, b)], 0.0
        upper = [f"{tenth(x(span, bin_ + half))} {_y(scale, b)}" for bin_, _, b in edges]
        lower = [f"{tenth(x(span, bin_ + half))} {_y(scale, a)}" for bin_, a, _ in reversed(edges)]
        pieces.append("M" + "L".join([*upper, *lower]) + "Z")
    return "".join(pieces)


def runs(values: Values) -> Iterator[list[tuple[int, float]]]:
    """Yield each run of neighbouring bins that have values, as a list of pairs of bin and value."""
    run: list[tuple[int, float]] = []
    for bin_, value in enumerate(values):
        if value is not None:
            run.append((bin_, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _y(scale: Scale, value: float) -> str:
    return tenth(y(scale, value))


def totals(layers: Sequence[Sequence[float]]) -> list[float]:
    """Return the sum of all layers for each bin."""
    return [sum(values) for values in zip(*layers, strict=True)]


def stack(
    span: Span, scale: Scale, colours: Iterable[str], layers: Sequence[Sequence[float]]
) -> list[tuple[str, str]]:
    """Return the CSS class and the path data `d` of each stacked area, the lowest area first. `layers`: for each area
    the values by bin, in units of `scale`.
    """
    base = [0.0] * span.bins
    areas = []
    for colour, values in zip(colours, layers, strict=True):
        top = [low + value for low, value in zip(base, values, strict=True)]
        if any(values):
            areas.append((f"area {colour}", _area(span, scale, base, top)))
        base = top
    return areas


def _area(span: Span, scale: Scale, low: Sequence[float], high: Sequence[float]) -> str:
    back = _steps(span, scale, low)
    there = _steps(span, scale, high)
    forth = "".join(f"V{tenth(level)}H{tenth(right)}" for _, right, level in there)
    home = "".join(f"V{tenth(level)}H{tenth(left)}" for left, _, level in reversed(back))
    return f"M0 {tenth(back[0][2])}{forth}{home}Z"


def _steps(span: Span, scale: Scale, values: Sequence[float]) -> list[tuple[float, float, float]]:
    """Return for each run of equal values its left edge, right edge and height, in units of the drawing."""
    runs: list[tuple[float, float, float]] = []
    for bin_, value in enumerate(values):
        level, right = round(y(scale, value), 1), x(span, bin_ + 1)
        if runs and runs[-1][2] == level:
            runs[-1] = (runs[-1][0], right, level)
        else:
            runs.append((x(span, bin_), right, level))
    return runs or [(0, UNITS, UNITS)]


def spark(values: Sequence[int]) -> str:
    """Return the `d` of a small chart without axes, 1000 units wide and 100 high."""
    top, width = max(values), UNITS / len(values)
    points = "".join(
        f"V{tenth(100 - 100 * value / top)}H{tenth(width * (bin_ + 1))}" for bin_, value in enumerate(values)
    )
    return f"M0 100{points}V100Z"


# Bars on the axis of time: outages of brokers, and waits of stuck consumers


def outages(
    span: Span, failovers: Sequence[Failover]
) -> Sequence[tuple[tuple[str | None, str], Sequence[TimeBand]]]:
    """Return for each upstream and broker the bars of the broker's outages."""
    rows: dict[tuple[str | None, str], list[TimeBand]] = {}
    for one in failovers:
        silence = "" if one.silence_longest is None else f" · {text.duration(one.silence_longest)}"
        title = f"{text.visible(one.broker)}, {text.clock(one.began, 'full')} UTC, {one.lasted}: "
        title += (
            f"{text.plural(one.sessions, 'session')}{silence}, {text.count(one.resent)} frames sent again"
        )
        kind = ("planned" if one.planned else "outage") + ("" if one.ended else " open")
        rows.setdefault((one.upstream, one.broker), []).append(
            TimeBand(one.began, one.ended or span.until, kind, title)
        )
    return list(rows.items())


def waits(
    span: Span, stuck: Sequence[Stuck]
) -> Iterator[tuple[tuple[Stuck, str | None], Sequence[TimeBand]]]:
    """For each stuck subscription and each of its brokers yield the bars of the waits."""
    for one in stuck:
        for broker, episodes in one.by_broker.items():
            bars = []
            for each in episodes:
                end = each.end(span)
                title = f"{text.visible(one.client or '')}: from {text.clock(each.since, 'full')} "
                title += f"to {text.clock(each.until, 'full')} UTC" if each.until else "UTC, not over"
                bars.append(TimeBand(each.since, end, "stuck" if each.until else "stuck open", title))
            yield (one, broker), bars

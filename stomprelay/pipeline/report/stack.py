"""Layers on top of each other in steps: amounts by bin."""

from collections.abc import Sequence

from markupsafe import Markup

from stomprelay.pipeline.report.markup import join, number, tag
from stomprelay.pipeline.report.plot import UNITS, x, y
from stomprelay.pipeline.report.scale import Scale
from stomprelay.pipeline.report.span import Span


def totals(layers: Sequence[Sequence[float]]) -> list[float]:
    """By bin, of all layers."""
    return [sum(values) for values in zip(*layers, strict=True)]


def stack(span: Span, scale: Scale, layers: Sequence[tuple[str, Sequence[float]]]) -> Markup:
    """Areas from the bottom up, each given by its class and its values by bin."""
    base = [0.0] * span.bins
    areas = []
    for kind, values in layers:
        top = [low + value for low, value in zip(base, values, strict=True)]
        if any(values):
            areas.append(tag("path", d=_area(span, scale, base, top), class_=f"area {kind}"))
        base = top
    return join(*areas)


def _area(span: Span, scale: Scale, low: Sequence[float], high: Sequence[float]) -> str:
    back = _steps(span, scale, low)
    there = _steps(span, scale, high)
    forth = "".join(f"V{number(level)}H{number(right)}" for _, right, level in there)
    home = "".join(f"V{number(level)}H{number(left)}" for left, _, level in reversed(back))
    return f"M0 {number(back[0][2])}{forth}{home}Z"


def _steps(span: Span, scale: Scale, values: Sequence[float]) -> list[tuple[float, float, float]]:
    """From, to and level of each run of equal levels."""
    runs: list[tuple[float, float, float]] = []
    for bin_, value in enumerate(values):
        level, right = round(y(scale, value), 1), x(span, bin_ + 1)
        if runs and runs[-1][2] == level:
            runs[-1] = (runs[-1][0], right, level)
        else:
            runs.append((x(span, bin_), right, level))
    return runs or [(0, UNITS, UNITS)]

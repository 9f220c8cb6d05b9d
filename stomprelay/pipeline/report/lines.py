"""Lines through the middle of the bins, broken where there is no value."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from stomprelay.pipeline.report.markup import join, number, tag
from stomprelay.pipeline.report.plot import x, y
from stomprelay.pipeline.report.scale import Scale
from stomprelay.pipeline.report.span import Span

Values = Sequence[float | None]


def lines(span: Span, scale: Scale, drawn: Sequence[tuple[str, Values]]) -> Markup:
    """One line for each class and its values by bin."""
    return join(*(tag("path", d=line(span, scale, values), class_=f"line {kind}") for kind, values in drawn))


def line(span: Span, scale: Scale, values: Values) -> str:
    """The path. A value between two bins without any is a dash as wide as its bin."""
    pieces = []
    for run in runs(values):
        if len(run) == 1:
            ((bin_, value),) = run
            pieces.append(f"M{number(x(span, bin_))} {_y(scale, value)}H{number(x(span, bin_ + 1))}")
        else:
            points = (f"{number(x(span, bin_ + 0.5))} {_y(scale, value)}" for bin_, value in run)
            pieces.append("M" + "L".join(points))
    return "".join(pieces)


def between(span: Span, scale: Scale, low: Values, high: Values, kind: str) -> Markup:
    """The area between two lines, where both are known."""
    both = [None if a is None or b is None else (a, b) for a, b in zip(low, high, strict=True)]
    pieces = []
    for run in runs([None if pair is None else pair[0] for pair in both]):
        edges = [(bin_, *pair) for bin_, _ in run if (pair := both[bin_]) is not None]
        if len(edges) == 1:
            ((bin_, a, b),) = edges
            edges, half = [(bin_, a, b), (bin_ + 1, a, b)], 0.0
        else:
            half = 0.5
        upper = [f"{number(x(span, bin_ + half))} {_y(scale, b)}" for bin_, _, b in edges]
        lower = [f"{number(x(span, bin_ + half))} {_y(scale, a)}" for bin_, a, _ in reversed(edges)]
        pieces.append("M" + "L".join([*upper, *lower]) + "Z")
    return tag("path", d="".join(pieces), class_=f"between {kind}")


def runs(values: Values) -> Iterator[list[tuple[int, float]]]:
    """Neighbouring bins that have values, with their numbers."""
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
    return number(y(scale, value))

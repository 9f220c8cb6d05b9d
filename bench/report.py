"""Figures for people: medians of ratios, tables, and whether a goal is met."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median as _median
from typing import Final, NamedTuple

NONE: Final = "-"
"""What stands in a cell that has no figure."""


def median(figures: Sequence[float]) -> float | None:
    """The middle one; None of none."""
    return _median(figures) if figures else None


def share(figures: Sequence[float], part: float) -> float | None:
    """The smallest figure that this part of them (0 to 1) does not exceed; None of none."""
    ordered = sorted(figures)
    return ordered[max(0, ceil(part * len(ordered)) - 1)] if ordered else None


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Round by round, ours over theirs; a round in which theirs is nothing has no ratio."""
    return [one / other for one, other in zip(ours, theirs, strict=True) if other]


class Spread(NamedTuple):
    """A median and the quartiles around it."""

    median: float
    low: float
    high: float

    @property
    def said(self) -> str:
        """The quartiles, in brackets."""
        return f"[{figure(self.low)} - {figure(self.high)}]"


def spread(figures: Sequence[float]) -> Spread | None:
    """The middle one and how far the middle half of them reaches; None of none."""
    middle, low, high = median(figures), share(figures, 0.25), share(figures, 0.75)
    return None if middle is None or low is None or high is None else Spread(middle, low, high)


def figure(value: float | None, unit: str = "") -> str:
    """Three digits that count, with thousands set apart."""
    if value is None:
        return NONE
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{places}f}{unit}"


@dataclass(frozen=True)
class Goal:
    """A bound to keep and one to reach for; `at_most` when less is better."""

    bound: float
    stretch: float | None = None
    at_most: bool = False

    def meets(self, value: float, bound: float) -> bool:
        """Whether a figure is on the right side of a bound, or on it."""
        return value <= bound if self.at_most else value >= bound

    def verdict(self, value: float | None) -> str:
        """The goal and whether a figure meets it, in words."""
        sign = "<=" if self.at_most else ">="
        stretch = f" (stretch {self.stretch:g})" if self.stretch is not None else ""
        said = f"{sign} {self.bound:g}{stretch}"
        if value is None:
            return f"{said}: not measured"
        if self.stretch is not None and self.meets(value, self.stretch):
            return f"{said}: met, stretch too"
        return f"{said}: {'met' if self.meets(value, self.bound) else 'NOT met'}"


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns under a title: the first to the left, a last one named `goal` too, the others to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    left = {0} | ({len(header) - 1} if header[-1] == "goal" else set())

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    return "\n".join(
        [title, "", line(header), "  ".join("-" * width for width in widths), *map(line, rows), ""]
    )

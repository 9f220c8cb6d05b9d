"""The value axis: from zero, or logarithmic where values span decades."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

DECADES: Final = 50
"""Values whose greatest is more than so many times the least get a logarithmic axis."""

_LEAST: Final = 1e-12
"""What is below counts as nothing: a rate of one in thirty thousand years."""
_ROUND: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Scale:
    """From `low`, at the bottom, to `high`. `ticks` are the values that are marked."""

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where a value is, 0 to 1 from bottom to top; clipped."""
        if self.logarithmic:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)


def linear(values: Iterable[float], about: int = 4, *, whole: bool = False) -> Scale:
    """From zero to a round number at or above the greatest value, in about so many round steps.

    `whole`: of things that are counted, so that there is no tick at half a thing.
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
    """Over whole decades, all values positive (others count as 1), and at least one decade."""
    positive = [max(value, 1.0) for value in values] or [1.0]
    low = math.floor(math.log10(min(positive)) + 1e-9)
    high = max(math.ceil(math.log10(max(positive)) - 1e-9), low + 1)
    ticks = tuple(10.0**power for power in range(low, high + 1))
    return Scale(ticks[0], ticks[-1], ticks, logarithmic=True)


def fitting(values: Iterable[float]) -> Scale:
    """Logarithmic where the values ask for it, else linear."""
    known = list(values)
    positive = [value for value in known if value > 0]
    if positive and max(positive) > DECADES * min(positive):
        return logarithmic(positive)
    return linear(known)

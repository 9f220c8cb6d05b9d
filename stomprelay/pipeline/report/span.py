"""The time axis: what range is shown, in how many bins, and where its ticks are."""

from dataclasses import dataclass
from typing import Final

from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND, Micros

BINS: Final = 200
"""Bins of a chart, at most. More would be narrower than what a phone can show."""

_STEPS: Final = (
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 28, 91, 364)),
)
FINE: Final = 30 * MINUTE
"""Ranges shorter than this have bins of less than a minute."""
_TICKS: Final = 10
_MAIN: Final = 4


@dataclass(frozen=True)
class Tick:
    """A mark on the axis. `place` is 0 to 1 from left to right; a narrow chart shows only those that are `main`."""

    at: Micros
    place: float
    form: str
    main: bool


@dataclass(frozen=True)
class Span:
    """From `since` up to, not including, `until`, in bins of `step`. All are multiples of `step`."""

    since: Micros
    until: Micros
    step: Micros

    @classmethod
    def over(cls, first: Micros, last: Micros, *, fine: bool = True) -> "Span":
        """The span with bins of a sensible width that holds all from `first` to `last`, both included. `fine`: a short
        one may have bins of less than a minute.
        """
        length = max(last - first, 0) + 1
        floor = SECOND if fine and length <= FINE else MINUTE
        step = next((step for step in _STEPS if step >= floor and length <= step * (BINS - 1)), _STEPS[-1])
        since = first - first % step
        return cls(since, last - last % step + step, step)

    @property
    def bins(self) -> int:
        """How many."""
        return (self.until - self.since) // self.step

    @property
    def seconds(self) -> float:
        """Of one bin."""
        return self.step / SECOND

    @property
    def starts(self) -> range:
        """When each bin begins."""
        return range(self.since, self.until, self.step)

    def index(self, at: Micros) -> int:
        """The bin that an instant is in; the nearest, for one outside."""
        return min(max((at - self.since) // self.step, 0), self.bins - 1)

    def place(self, at: Micros) -> float:
        """Where an instant is, 0 to 1 from left to right; clipped."""
        return min(max((at - self.since) / (self.until - self.since), 0.0), 1.0)

    @property
    def form(self) -> str:
        """How the start of a bin is told, so that two are never told the same way."""
        if self.step >= DAY:
            return "day"
        if self.until - self.since > DAY:
            return "both"
        return "second" if self.step < MINUTE else "hour"

    def ticks(self) -> list[Tick]:
        """At round times: at most ten, of which at most four are main ones."""
        length = self.until - self.since
        fine = next((step for step in _STEPS if length <= step * _TICKS), _STEPS[-1])
        main = next((step for step in _STEPS if length <= step * _MAIN and step % fine == 0), None)
        first = -(-self.since // fine) * fine
        return [
            Tick(at, self.place(at), self._told(at, fine), main is None or at % main == 0)
            for at in range(first, self.until, fine)
            if length <= fine * _TICKS
        ]

    @staticmethod
    def _told(at: Micros, fine: Micros) -> str:
        if at % DAY == 0:
            return "day"
        return "second" if fine < MINUTE else "hour"

"""When each broker was not well, to see whether that explains what a client waited for."""

from collections.abc import Iterable

Span = tuple[float, float]


class Outages:
    """The outages of some brokers. Times are in seconds of one clock."""

    def __init__(self, brokers: int) -> None:
        self._spans: list[list[Span]] = [[] for _ in range(brokers)]
        self._since: dict[int, float] = {}

    def began(self, broker: int, now: float) -> None:
        """A broker is struck."""
        self._since[broker] = now

    def ended(self, broker: int, now: float) -> None:
        """It is well again."""
        self._spans[broker].append((self._since.pop(broker), now))

    def well(self, span: Span) -> float:
        """Return for how long at a stretch, at most, one broker was well within a span."""
        return max((_longest_gap(spans, span) for spans in self._spans), default=0.0)

    def unexplained(self, waits: Iterable[Span], enough: float) -> list[Span]:
        """Return the waits that went on though a broker was well for so many seconds at a stretch."""
        return [wait for wait in waits if wait[1] - wait[0] > enough and self.well(wait) > enough]


def _longest_gap(outages: Iterable[Span], within: Span) -> float:
    longest, at, end = 0.0, *within
    for began, ended in outages:
        if ended <= at or began >= end:
            continue
        longest = max(longest, began - at)
        at = ended
    return max(longest, end - at)

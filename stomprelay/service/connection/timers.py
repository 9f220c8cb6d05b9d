"""Many timers on one delayed call of the reactor.

Each connection and each session has a time at which it wants to be called. Most of these times move on before they
come, because something was received or sent. So a later time is only noted, and looked at when the earlier one comes.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from stomprelay.service.log import logger

_log: Final = logger()


class Timed:
    """An object with one timer. Only `Timers` writes these two, in seconds; infinity is never: `due` is when `woke`
    is to be called, `armed` (the same or earlier) when `due` will be looked at.
    """

    __slots__ = ("armed", "due")

    def __init__(self) -> None:
        self.due = inf
        self.armed = inf

    def woke(self, now: float) -> None:
        """The timer calls this once, at or after `due`. For another call, set the timer again."""
        raise NotImplementedError


class Timers:
    """The timers of many objects. Times are in seconds of the clock `seconds`, which never goes back."""

    def __init__(self, reactor: IReactorTime, seconds: Callable[[], float]) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._heap: list[tuple[float, int, Timed]] = []
        self._order = count()
        self._armed = 0
        self._next = inf
        self._call: IDelayedCall | None = None

    def set(self, timed: Timed, at: float) -> None:
        """Call `timed.woke` at this time, in place of the one set before; infinity: not at all."""
        timed.due = at
        if at >= timed.armed:
            return
        if timed.armed == inf:
            self._armed += 1
        elif len(self._heap) > 4 * self._armed + 64:
            self._tidy()
        timed.armed = at
        heappush(self._heap, (at, next(self._order), timed))
        if at < self._next:
            self._schedule(at)

    def forget(self, timed: Timed) -> None:
        """Stop the object's timer. With the last one no delayed call is left."""
        timed.due = inf
        if timed.armed == inf:
            return
        timed.armed = inf
        self._armed -= 1
        if not self._armed:
            self._heap.clear()
            self._schedule(inf)
        elif len(self._heap) > 4 * self._armed + 64:
            self._tidy()

    def _tidy(self) -> None:
        """Remove times that were replaced or stopped from the heap: they are too many."""
        heap = self._heap
        heap[:] = [entry for entry in heap if entry[2].armed == entry[0]]
        heapify(heap)

    def _schedule(self, at: float) -> None:
        self._next = at
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if at < inf:
            self._call = self._reactor.callLater(max(0.0, at - self._seconds()), self._fire)

    def _fire(self) -> None:
        self._call = None
        self._next = -inf
        now = self._seconds()
        heap = self._heap
        fired = []
        while heap and heap[0][0] <= now:
            at, _, timed = heappop(heap)
            if timed.armed == at:
                timed.armed = inf
                self._armed -= 1
                fired.append(timed)
        for timed in fired:
            at = timed.due
            if at > now:
                self.set(timed, at)
                continue
            timed.due = inf
            try:
                timed.woke(now)
            except Exception:
                _log.failure("an alarm failed")
        if not self._armed:
            heap.clear()
        self._schedule(heap[0][0] if heap else inf)

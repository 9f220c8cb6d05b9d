"""Waking many sleepers with one timer.

Every relay has a time at which it wants to be called; most times move on before they come, because something was
heard or said. So a sleeper's time is only noted, and looked at when the alarm rings that was set before.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

_log: Final = Logger("stomprelay")


class Sleeper:
    """Whoever can be woken. `due`: when it wants to be; `armed`: when it will be looked at. Infinity is never."""

    __slots__ = ("armed", "due")

    def __init__(self) -> None:
        self.due = inf
        self.armed = inf

    def woke(self, now: float) -> None:
        """The time has come. Set the alarm anew if there is to be another."""
        raise NotImplementedError


class Alarms:
    """The alarms of all sleepers. Times are those of `seconds`, a clock that never goes back."""

    def __init__(self, reactor: IReactorTime, seconds: Callable[[], float]) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._heap: list[tuple[float, int, Sleeper]] = []
        self._order = count()
        self._armed = 0
        self._next = inf
        self._call: IDelayedCall | None = None

    def set(self, sleeper: Sleeper, at: float) -> None:
        """Wake the sleeper at this time, in place of the one set before; infinity: not at all."""
        sleeper.due = at
        if at >= sleeper.armed:
            return
        if sleeper.armed == inf:
            self._armed += 1
        else:
            self._tidy()
        sleeper.armed = at
        heappush(self._heap, (at, next(self._order), sleeper))
        if at < self._next:
            self._schedule(at)

    def forget(self, sleeper: Sleeper) -> None:
        """The sleeper is gone. When it was the last, no timer is left."""
        sleeper.due = inf
        if sleeper.armed == inf:
            return
        sleeper.armed = inf
        self._armed -= 1
        if self._armed:
            self._tidy()
        else:
            self._heap.clear()
            self._schedule(inf)

    def _tidy(self) -> None:
        """Times that were superseded, or whose sleepers are gone, stay in the heap; but not many of them."""
        heap = self._heap
        if len(heap) > 4 * self._armed + 64:
            heap[:] = [entry for entry in heap if entry[2].armed == entry[0]]
            heapify(heap)

    def _schedule(self, at: float) -> None:
        self._next = at
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if at < inf:
            self._call = self._reactor.callLater(max(0.0, at - self._seconds()), self._ring)

    def _ring(self) -> None:
        self._call = None
        self._next = -inf
        now = self._seconds()
        heap = self._heap
        rung = []
        while heap and heap[0][0] <= now:
            at, _, sleeper = heappop(heap)
            if sleeper.armed == at:
                sleeper.armed = inf
                self._armed -= 1
                rung.append(sleeper)
        for sleeper in rung:
            at = sleeper.due
            if at > now:
                self.set(sleeper, at)
                continue
            sleeper.due = inf
            try:
                sleeper.woke(now)
            except Exception:
                _log.failure("an alarm failed")
        if not self._armed:
            heap.clear()
        self._schedule(heap[0][0] if heap else inf)

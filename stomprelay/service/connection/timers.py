"""Many timers on one delayed call of the reactor, and work in turns. A later time is only recorded, and checked when
the earlier one comes. All timers that are due within a tick are called together at its end.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from stomprelay.service.log import logger

TICKS: Final = 64
"""Ticks a second: nobody is called later than the length of one after his time."""
BUDGET: Final = 0.01
"""Seconds of one turn of the reactor that all who wait may use together."""

_log: Final = logger()


class Timed:
    """An object with one timer of `Timers`. `due` is when `woke` is to be called, `armed` (the end of a tick) when
    `due` will be looked at: in seconds, infinity is never.
    """

    __slots__ = ("armed", "due")

    def __init__(self) -> None:
        self.due = self.armed = inf

    def woke(self, now: float) -> None:
        """The timer calls this once, at or after `due`. For another call, set the timer again."""
        raise NotImplementedError


class Timers:
    """The timers of many objects. Times are in seconds of the clock `seconds`, which never goes back."""

    def __init__(self, reactor: IReactorTime, seconds: Callable[[], float]) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._ticks: list[float] = []
        """A heap of the ends of ticks, in seconds."""
        self._waiting: dict[float, tuple[float, list[Timed]]] = {}
        """By tick, with that tick. Those whose `armed` is another by now are skipped."""
        self._places = 0
        self._armed = 0
        self._next = inf
        self._call: IDelayedCall | None = None

    def __len__(self) -> int:
        """The number of entries, including those of replaced or stopped times, which are bounded."""
        return self._places

    def set(self, timed: Timed, at: float) -> None:
        """Call `timed.woke` at this time, in place of the one set before; infinity: not at all."""
        timed.due = at
        if at >= timed.armed or (tick := ceil(at * TICKS) / TICKS) >= timed.armed:
            return
        if timed.armed == inf:
            self._armed += 1
        elif self._places > 4 * self._armed + 64:
            self._tidy()
        self._places += 1
        found = self._waiting.get(tick)
        if found is None:
            found = self._waiting[tick] = tick, []
            heappush(self._ticks, tick)
        timed.armed = found[0]
        found[1].append(timed)
        if tick < self._next:
            self._schedule(tick)

    def forget(self, timed: Timed) -> None:
        """Stop the object's timer. With the last one no delayed call is left."""
        timed.due = inf
        if timed.armed == inf:
            return
        timed.armed = inf
        self._armed -= 1
        if not self._armed:
            self._clear()
            self._schedule(inf)
        elif self._places > 4 * self._armed + 64:
            self._tidy()

    def _clear(self) -> None:
        self._ticks.clear()
        self._waiting.clear()
        self._places = 0

    def _tidy(self) -> None:
        """Remove times that were replaced or stopped. Call it where they are too many."""
        for tick, waiting in list(self._waiting.values()):
            waiting[:] = [timed for timed in waiting if timed.armed == tick]
            if not waiting:
                del self._waiting[tick]
        self._ticks[:] = self._waiting
        heapify(self._ticks)
        self._places = sum(len(waiting) for _, waiting in self._waiting.values())

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
        fired = []
        while self._ticks and self._ticks[0] <= now:
            tick, waiting = self._waiting.pop(heappop(self._ticks))
            self._places -= len(waiting)
            for timed in waiting:
                if timed.armed == tick:
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
            self._clear()
        self._schedule(self._ticks[0] if self._ticks else inf)


class TurnQueue:
    """The sessions with more work than one turn allows, in the order in which they began to wait."""

    def __init__(self, reactor: IReactorTime, seconds: Callable[[], float]) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._waiting: OrderedDict[Hashable, Callable[[], object]] = OrderedDict()
        self._called = False

    def wait(self, who: Hashable, go_on: Callable[[], object]) -> None:
        """Call `go_on` when the turn of `who` comes, in a later turn of the reactor. A second call changes nothing."""
        self._waiting.setdefault(who, go_on)
        if not self._called:
            self._called = True
            self._reactor.callLater(0, self._go_on)

    def _go_on(self) -> None:
        """Let each waiting session work once, until the time budget is used up; the others wait for the next turn."""
        self._called = False
        until = self._seconds() + BUDGET
        count = len(self._waiting)
        try:
            while count and self._waiting:
                count -= 1
                _, go_on = self._waiting.popitem(last=False)
                go_on()
                if self._seconds() >= until:
                    break
        finally:
            if self._waiting and not self._called:
                self._called = True
                self._reactor.callLater(0, self._go_on)

"""A leg that is not read from, as the journal has it."""

from collections.abc import Callable
from typing import Any, Final

from stomprelay.journal.schema import JournalEvent
from stomprelay.service.connection.failures import ASKED, PRESSURE
from stomprelay.service.connection.timers import Timed, Timers

QUIET: Final = 1.0
"""Seconds of reading after which a stop is over: under load reading stops many times a second, which is one event."""

REASONS: Final = {PRESSURE: "pressure", ASKED: "relay"}
"""The reasons of which there are events, by the sum of a connection's reasons."""

Record = Callable[[JournalEvent, str, dict[str, Any]], None]


class ReadingStop(Timed):
    """A leg that is not read from, as two events of the journal: `HELD` when it `began`, `RELEASED` at its end. Call
    `resumed` and `stopped` in turns. It ends `QUIET` seconds after the last `resumed`, or by `end`.
    """

    __slots__ = ("_ended", "_record", "_seconds", "_side", "_since", "_timers", "_total")

    def __init__(
        self,
        timers: Timers,
        seconds: Callable[[], float],
        side: str,
        record: Record,
        ended: Callable[[], None],
    ) -> None:
        super().__init__()
        self._timers = timers
        self._seconds = seconds
        self._side = side
        self._record = record
        self._ended = ended
        self._since: float | None = None
        self._total = 0.0

    def began(self, reason: str) -> None:
        """Record `HELD` with this reason: the leg is not read from any more."""
        self.stopped()
        text = f"the {self._side} is not read from"
        self._record(JournalEvent.HELD, text, {"side": self._side, "reason": reason})

    def stopped(self) -> None:
        """Go on with this stop: the leg was read from for a moment, and is not any more."""
        if self._since is None:
            self._since = self._seconds()

    def resumed(self) -> None:
        """The leg is read from: the stop ends unless `stopped` is called within `QUIET` seconds."""
        if self._since is not None:
            now = self._seconds()
            self._total += now - self._since
            self._since = None
            self._timers.set(self, now + QUIET)

    def woke(self, now: float) -> None:
        """End the stop: the leg was read from for `QUIET` seconds."""
        if self._since is None:
            self.end()

    def end(self) -> None:
        """Record `RELEASED` and call `ended`: the stop is over, or the leg is closed."""
        self.resumed()
        self._timers.forget(self)
        text = f"the {self._side} is read from again, after {self._total:.3f} s"
        self._record(JournalEvent.RELEASED, text, {"side": self._side, "seconds": round(self._total, 3)})
        self._ended()

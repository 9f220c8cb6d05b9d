"""A leg that is not read from, as the journal tells of it."""

from collections.abc import Callable
from typing import Any, Final

from stomprelay.journal.schema import JournalEvent
from stomprelay.service.connection.timers import Alarms, Sleeper

QUIET: Final = 1.0
"""Seconds for which a leg must have been read from until it is said to be: under load it stops and goes many times a
second, and that is one event.
"""

Tell = Callable[[JournalEvent, str, dict[str, Any]], None]


class Standstill(Sleeper):
    """Told of when it begins, and when it is over: see `JournalEvent.HELD` and `RELEASED`.

    Say `went_on` and `stopped` in turns; `over` calls back when it ended. With `end` it ends at once.
    """

    __slots__ = ("_alarms", "_over", "_seconds", "_side", "_since", "_tell", "_total")

    def __init__(
        self, alarms: Alarms, seconds: Callable[[], float], side: str, tell: Tell, over: Callable[[], None]
    ) -> None:
        super().__init__()
        self._alarms = alarms
        self._seconds = seconds
        self._side = side
        self._tell = tell
        self._over = over
        self._since: float | None = None
        self._total = 0.0

    def began(self, reason: str) -> None:
        """The leg is not read from any more."""
        self.stopped()
        text = f"the {self._side} is not read from"
        self._tell(JournalEvent.HELD, text, {"side": self._side, "reason": reason})

    def stopped(self) -> None:
        """It is not read from again."""
        if self._since is None:
            self._since = self._seconds()

    def went_on(self) -> None:
        """It is read from, for now."""
        if self._since is not None:
            now = self._seconds()
            self._total += now - self._since
            self._since = None
            self._alarms.set(self, now + QUIET)

    def woke(self, now: float) -> None:
        """Perhaps it is over."""
        if self._since is None:
            self.end()

    def end(self) -> None:
        """It is over, or its leg is."""
        self.went_on()
        self._alarms.forget(self)
        text = f"the {self._side} is read from again, after {self._total:.3f} s"
        self._tell(JournalEvent.RELEASED, text, {"side": self._side, "seconds": round(self._total, 3)})
        self._over()

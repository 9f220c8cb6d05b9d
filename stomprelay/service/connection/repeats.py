"""Lines of the log that peers can cause as often as they like: a few of each kind are written, the others counted."""

from collections.abc import Callable
from typing import Final

from stomprelay.service.connection.timers import Timed, Timers
from stomprelay.service.log import logger

_log: Final = logger()

MOST: Final = 5
"""Lines of one kind that are written within `EVERY` seconds."""
EVERY: Final = 10.0


class _Kind(Timed):
    """The lines of one kind within `EVERY` seconds, until `until`. A timer runs only while some were left out."""

    __slots__ = ("_name", "_timers", "_until", "_written", "left_out")

    def __init__(self, name: str, timers: Timers) -> None:
        super().__init__()
        self.left_out = 0
        self._written = 0
        self._until = 0.0
        self._name = name
        self._timers = timers

    def passes(self, now: float, most: int) -> bool:
        """Count one more line; return whether it is to be written, as `most` are."""
        if now >= self._until and not self.left_out:
            self._written = 0
            self._until = now + EVERY
        if self._written < most:
            self._written += 1
            return True
        if not self.left_out:
            self._timers.set(self, self._until)
        self.left_out += 1
        return False

    def tell(self) -> None:
        """Write how many lines were left out since the last call, if any."""
        left_out, self.left_out = self.left_out, 0
        if left_out:
            _log.warn(
                "{kind}: and {count} more in {seconds:g} s", kind=self._name, count=left_out, seconds=EVERY
            )

    def woke(self, now: float) -> None:
        """Tell what was left out. The next `EVERY` seconds have this one line, where there are lines again."""
        self.tell()
        self._until = now + EVERY


class Repeats:
    """Decides which lines are written. A `kind` is logged when lines were left out, so no peer may choose it."""

    def __init__(self, timers: Timers, seconds: Callable[[], float]) -> None:
        self._timers = timers
        self._seconds = seconds
        self._kinds: dict[str, _Kind] = {}

    def passes(self, kind: str, most: int = MOST) -> bool:
        """Return whether a line of this kind is to be written now; otherwise, behind `most` of them, it is counted."""
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = _Kind(kind, self._timers)
        return found.passes(self._seconds(), most)

    def stop(self) -> None:
        """Tell at once what was left out, and leave no timer: the service ends."""
        for kind in self._kinds.values():
            kind.tell()
            self._timers.forget(kind)
        self._kinds.clear()

"""Lines of the log that peers can cause as often as they like: a few of each kind are written, the others counted. And
how notes and peers are spelled in the log.
"""

from collections.abc import Callable
from typing import Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.logger import LogLevel

from stomprelay.service.connection.timers import Timed, Timers
from stomprelay.service.log import heard, logger, write
from stomprelay.session.effects import Event, Note
from stomprelay.session.reasons import WARNINGS
from stomprelay.wire.errors import visible

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
        """Log how many lines were left out. For the next `EVERY` seconds this counts as one line."""
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
        """Log now how many lines were left out, and stop the timers: the service ends."""
        for kind in self._kinds.values():
            kind.tell()
            self._timers.forget(kind)
        self._kinds.clear()


_ONCE: Final = frozenset({Event.CONNECTED, Event.DISCONNECTED})
"""The events that a peer brings about once in a session that was accepted: their lines are never too many."""


def unlogged(effect: Note) -> bool:
    """Whether a note is only for the journal, or too detailed for the log level."""
    return effect.quiet or (effect.detail and not heard(LogLevel.debug))


def log_note(effect: Note, form: str, repeats: Repeats, kind: str, **fields: str) -> None:
    """Write a note to the log in this form, which may use `event` and `text` beside its own fields. A quiet note is
    not logged, and of too many of one `kind` and event only the number.
    """
    if unlogged(effect):
        return
    level = LogLevel.warn if effect.event in WARNINGS else LogLevel.info
    event = effect.event.value
    if effect.detail:
        level = LogLevel.debug
    elif "attempts" in effect.facts:
        # All sessions of a broker find it away at the same time, and one of them is enough to know.
        if not repeats.passes(f"{kind}: {event} again and again", 1):
            return
    elif effect.event not in _ONCE and not repeats.passes(f"{kind}: {event}"):
        return
    write(level, form, event=event, text=visible(effect.text), **fields)


def spell_address(address: object) -> str:
    """Return a peer's address as the log shows it; for one on the network `host:port`."""
    if isinstance(address, IPv6Address):
        return f"[{address.host}]:{address.port}"
    if isinstance(address, IPv4Address):
        return f"{address.host}:{address.port}"
    return "a local socket"


_LONGEST: Final = 64


def spell_text(value: bytes) -> str:
    """Return a peer's words as the log may show them: in quotes, in one line without control characters, and cut where
    they are long.
    """
    text = value[: 4 * _LONGEST].decode("utf-8", "backslashreplace")
    shown = visible(text[:_LONGEST].replace("\\", "\\\\").replace('"', '\\"'))
    return f'"{shown}{"..." if len(text) > _LONGEST else ""}"'

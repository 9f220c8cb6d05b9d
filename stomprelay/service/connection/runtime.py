"""What the connections of one service share, the number of open sockets included.

A closed connection keeps its descriptor until its peer has read what was left, or has closed as well.
"""

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred, TimeoutError, succeed
from twisted.internet.interfaces import IReactorTime

from stomprelay.relay.counting import Tallies
from stomprelay.service.connection.departures import Departures
from stomprelay.service.connection.memory import SessionMemory
from stomprelay.service.connection.repeats import Repeats
from stomprelay.service.connection.timers import Timers, TurnQueue
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg

GRACE: Final = 1.0
"""Seconds beyond their linger that a stopping service waits for connections to end."""


def _unheard(note: Note) -> None:
    pass


class Runtime:
    """What the connections of one service share: reactor, clock, timers, turns, counters, the watch for clients that
    leave, the memory that is kept, and the protocols by leg.

    `seconds` is a clock that never goes back. `sockets` counts the open connections, `closing` those of them that were
    closed and wait for their peer. `noted` gets what sessions note, `probed` what probes note; see `observe`.
    """

    def __init__(
        self, reactor: IReactorTime, seconds: Callable[[], float], memory: SessionMemory | None = None
    ) -> None:
        self.reactor = reactor
        self.seconds = seconds
        self.sockets = 0
        self.closing = 0
        self._idle: Deferred[None] | None = None
        self.timers = Timers(reactor, seconds)
        self.turns = TurnQueue(reactor, seconds)
        self.repeats = Repeats(self.timers, seconds)
        self.tallies = Tallies()
        self.noted: Callable[[Note], None] = _unheard
        self.probed: Callable[[Note], None] = _unheard
        self.protocols: dict[Leg, Any] = {}
        self.departures = Departures(reactor)
        self.memory = SessionMemory(reactor, seconds) if memory is None else memory

    def socket_opened(self) -> None:
        """Count a connection that was established."""
        self.sockets += 1

    def socket_closed(self) -> None:
        """Count a connection that ended. With the last one `idle` fires."""
        self.sockets -= 1
        if not self.sockets and self._idle is not None:
            idle, self._idle = self._idle, None
            idle.callback(None)

    def socket_closing(self) -> None:
        """Count a connection that was closed but has not ended."""
        self.closing += 1

    def closing_socket_closed(self) -> None:
        """A closed connection has ended: count it no more."""
        self.closing -= 1

    def idle(self) -> Deferred[None]:
        """Return a Deferred that fires when no connection is left."""
        if not self.sockets:
            return succeed(None)
        if self._idle is None:
            self._idle = Deferred()
        return self._idle

    async def wait_closed(self, linger: float) -> bool:
        """Wait until all connections have ended, at most their linger and `GRACE` seconds. Return False if some are
        left.
        """
        try:
            await self.idle().addTimeout(linger + GRACE, self.reactor)
        except TimeoutError:
            return False
        return True

    def open(self) -> None:
        """Start what all connections share."""
        self.departures.open()

    def close(self) -> None:
        """Stop what all connections share: no connection will follow."""
        self.departures.close()

    def observe(self, noted: Callable[[Note], None], probed: Callable[[Note], None]) -> None:
        """From now on call these with the notes of sessions, and of probes."""
        self.noted = noted
        self.probed = probed

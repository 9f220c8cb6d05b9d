"""Counts the bytes that a relay keeps of all its clients, and limits them. From three quarters of the limit on, memory
is short: a session with more than its share is read from only in turns, in which it may complete a frame. At the limit
new clients are refused and the largest sessions are ended, except sessions with SENDs that the relay has promised to
deliver: their brokers get turns.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted.internet.interfaces import IReactorTime

from stomprelay.relay.effects import CROWDED
from stomprelay.relay.inputs import Killed
from stomprelay.service.connection.failures import MEMORY
from stomprelay.service.log import logger
from stomprelay.service.network.sockets import FIRST_READ, READ
from stomprelay.session.leg import Side

if TYPE_CHECKING:
    from stomprelay.service.connection.protocol import LegProtocol
    from stomprelay.service.connection.relay_driver import RelayDriver

SESSION: Final = 12 * 1024
"""Bytes that are counted for a session's connections and state, beside the bytes that are kept of it."""
LITTLE: Final = 4096
"""Bytes that are read at once from a connection while memory is short."""
MUCH: Final = 64 * 1024
"""Bytes that are read at once from a connection that has its turn."""
TURN: Final = 2.0
"""Seconds that a turn takes at most, and that a client may take to send more of its frame while memory is short."""
EVERY: Final = 0.1
"""Seconds between two looks at the connections that are not read from."""
TRIM: Final = 0.25
"""Freed memory is given back to the system once in so many seconds, at most."""
LOOKS: Final = 64
"""The most connections that are considered for a turn at one look."""

_log: Final = logger()


class MemoryRow(NamedTuple):
    """`kept`: how many bytes are kept of all clients. `limit`: the most bytes that may be kept; None if there is no
    limit. `held`: how many connections are not read from because memory is short.
    """

    kept: int = 0
    limit: int | None = None
    held: int = 0

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.kept >= self.limit


class _Turn(NamedTuple):
    """The turn of a connection. `until`: when the turn ends, in seconds. `kept`: the session's kept bytes before the
    turn. `begun`: the bytes of the unfinished frame before the turn.
    """

    protocol: "LegProtocol"
    until: float
    kept: int
    begun: int


@dataclass(slots=True, eq=False, repr=False)
class SessionMemory:
    """Counts the bytes that are kept of the sessions of this process. The `limit` is for the sum of all processes;
    infinity means no limit. `drivers` has the drivers of all sessions of this process, in any order. `trim` returns
    freed memory to the system. `total` gets this process's bytes and sessions, and returns the sums of all processes.
    """

    _reactor: IReactorTime
    _seconds: Callable[[], float]
    limit: float = inf
    drivers: Iterable["RelayDriver"] = ()
    total: Callable[[int, int], tuple[int, int]] = lambda size, sessions: (size, sessions)
    trim: Callable[[], object] = lambda: None
    short: bool = field(default=False, init=False)
    _size: int = field(default=0, init=False)
    _sessions: int = field(default=0, init=False)
    _held: dict["LegProtocol", tuple["RelayDriver", float]] = field(default_factory=dict, init=False)
    _turns: dict["RelayDriver", _Turn] = field(default_factory=dict, init=False)
    _leaving: set["RelayDriver"] = field(default_factory=set, init=False)
    _next: Any = field(default=None, init=False)
    _trimmed: float = field(default=-inf, init=False)

    @property
    def row(self) -> MemoryRow:
        """Return the figures. `kept` counts only the bytes of this process."""
        limit = None if self.limit == inf else int(self.limit)
        return MemoryRow(self._size, limit, len(self._held))

    @property
    def full(self) -> bool:
        """Whether the limit is reached: then no new client is accepted."""
        return self.limit < inf and self._sums()[0] >= self.limit

    def _sums(self) -> tuple[int, int]:
        return self.total(self._size, self._sessions)

    def allow(self, limit: float) -> None:
        """Use another limit from now on."""
        self.limit = limit

    # What sessions report

    def opened(self, driver: "RelayDriver") -> int:
        """Count a session. Return how many bytes it costs."""
        self._sessions += 1
        self.changed(driver, SESSION)
        return SESSION

    def closed(self, driver: "RelayDriver", size: int) -> None:
        """Record that a session ended. `size` is the number of bytes that were counted for it."""
        self._sessions -= 1
        self._leaving.discard(driver)
        self.changed(driver, -size)

    def changed(self, driver: "RelayDriver", by: int) -> None:
        """Count `by` more bytes of a session; a negative number counts fewer."""
        self._size += by
        total, _ = self._sums()
        if not self.short and total >= 0.75 * self.limit:
            self._begin()
        elif by < 0 and driver in self._turns:
            self._look_in(0.0)

    @property
    def most(self) -> int:
        """Return how many bytes may be read from a connection at once: a small part of its share."""
        return int(max(FIRST_READ, min(READ, self._share(self._sums()[1]) // 8)))

    def grew(self, driver: "RelayDriver", protocol: "LegProtocol") -> None:
        """A session keeps more bytes while memory is short. If it keeps too many, stop reading from this connection."""
        total, sessions = self._sums()
        if total < self._low or (driver in self._turns and _owes(driver, protocol)):
            return
        if total < self.limit and (driver in self._turns or driver.kept <= self._share(sessions)):
            return
        self._turns.pop(driver, None)
        self._hold(driver, protocol)

    def _hold(self, driver: "RelayDriver", protocol: "LegProtocol") -> None:
        protocol.read_at_once(LITTLE)
        protocol.hold(MEMORY)
        self._held.pop(protocol, None)
        self._held[protocol] = driver, self._seconds()

    @property
    def _low(self) -> float:
        """Return the number of bytes below which memory is not short any more."""
        return 0.5 * self.limit

    def _share(self, sessions: int) -> float:
        return 0.75 * self.limit / max(sessions, 1)

    # While memory is short

    def _begin(self) -> None:
        self.short = True
        _log.warn(
            "memory is short: {kept} bytes are kept of {sessions} clients, {limit} may be",
            kept=self._size,
            sessions=self._sessions,
            limit=int(self.limit),
        )
        share = self._share(self._sums()[1])
        for driver in self.drivers:
            for protocol in driver.protocols():
                if protocol.leg.decoder.buffered > share:
                    self._hold(driver, protocol)
                else:
                    protocol.read_at_once(LITTLE)
        self._look_in(EVERY)

    def _end(self) -> None:
        self.short = False
        self._turns.clear()
        if self._next is not None and self._next.active():
            self._next.cancel()
        _log.info("memory is no longer short: {kept} bytes are kept", kept=self._size)
        for driver in self.drivers:
            for protocol in driver.protocols():
                protocol.read_at_once(FIRST_READ)

    def _look_in(self, seconds: float) -> None:
        call, at = self._next, self._reactor.seconds() + seconds
        if call is None or not call.active():
            self._next = self._reactor.callLater(seconds, self._look)
        elif call.getTime() > at:
            call.reset(seconds)

    def _look(self) -> None:
        """Read again from connections, if there is room; otherwise give turns. At the limit end sessions."""
        for protocol in [each for each in self._held if not each.reasons]:
            del self._held[protocol]  # the connection is closed
        total, sessions = self._sums()
        if total >= self.limit:
            self._end_sessions(total, sessions)
        self._end_turns()
        if total < self._low:
            for _ in range(min(int(self._low - total) // MUCH + 1, len(self._held))):
                protocol = next(iter(self._held))
                del self._held[protocol]
                self._read_on(protocol)
            if not self._held:
                self._end()
                return
        self._give_turns(self.limit - total, self._share(sessions))
        if self._seconds() >= self._trimmed + TRIM:
            self._trimmed = self._seconds()
            self.trim()
        self._look_in(EVERY)

    def _read_on(self, protocol: "LegProtocol") -> None:
        protocol.read_at_once(MUCH)
        protocol.release(MEMORY)

    def _end_turns(self) -> None:
        """End the turns of connections that freed memory, completed their frame, or used up their time."""
        now = self._seconds()
        for driver, turn in list(self._turns.items()):
            protocol = turn.protocol
            got_on = driver.kept < turn.kept or protocol.leg.decoder.buffered < turn.begun
            if protocol.leg.closed or got_on or now >= turn.until:
                del self._turns[driver]
                if not (protocol.leg.closed or got_on):
                    self._hold(driver, protocol)

    def _give_turns(self, room: float, share: float) -> None:
        """As far as there is room, give turns to connections for which lack of memory is the only reason not to read.
        End clients that do not complete a large frame. Without room, one connection that `_owes` gets a turn.
        """
        now = self._seconds()
        room -= sum(turn.protocol.leg.decoder.missing for turn in self._turns.values())
        for _ in range(min(LOOKS, len(self._held))):
            protocol = next(iter(self._held))
            driver, idle = self._held.pop(protocol)
            decoder = protocol.leg.decoder
            if room <= 0 and (self._turns or not _owes(driver, protocol)):
                self._held[protocol] = driver, idle
            elif driver in self._turns or not driver.gets_on(protocol):
                self._held[protocol] = driver, now
            elif not protocol.has_input:
                self._held[protocol] = driver, idle
                overdue = now >= idle + TURN and protocol.leg.side is Side.DOWNSTREAM
                if overdue and decoder.buffered > share and self._sums()[0] - self._freed_soon >= self._low:
                    self._send_away(driver)
            elif self._turns and room < decoder.missing:
                self._held[protocol] = driver, now
            else:
                room -= decoder.missing
                self._turns[driver] = _Turn(protocol, now + TURN, driver.kept, decoder.buffered)
                self._read_on(protocol)

    def _end_sessions(self, total: int, sessions: int) -> None:
        """End the largest sessions that keep more than a share, until an eighth of the limit is free."""
        share = self._share(sessions)
        excess = (total - 0.875 * self.limit) * self._size / total
        excess -= self._freed_soon
        staying = [each for each in self.drivers if each not in self._leaving]
        for driver in sorted(staying, key=lambda each: -each.kept):
            if excess <= 0 or driver.kept <= share:
                return
            if not driver.relay.pledged:
                excess -= driver.kept
                self._send_away(driver)

    @property
    def _freed_soon(self) -> int:
        return sum(each.kept for each in self._leaving)

    def _send_away(self, driver: "RelayDriver") -> None:
        """End a session, once. Its memory is freed when the broker has confirmed the earlier frames."""
        if driver not in self._leaving:
            self._leaving.add(driver)
            driver.handle(Killed(CROWDED))


def _owes(driver: "RelayDriver", protocol: "LegProtocol") -> bool:
    """Return whether this connection's broker may owe a RECEIPT that frees memory, perhaps behind a MESSAGE."""
    return protocol.leg.side is Side.UPSTREAM and driver.relay.pledged

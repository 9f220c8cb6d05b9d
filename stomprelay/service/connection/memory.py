"""How many bytes a relay keeps of all its clients together, and what is done when that is too much.

Each session says how much is kept of it when that has changed. From three quarters of the limit on (memory is short
then), a session of which more than its share is kept is read from no more; what is kept of it goes on to its brokers
meanwhile. Some of that may be the beginning of a frame, and no memory is freed before its end has come. So connections
that are not read from get turns, as many at a time as there is room for. At the limit nothing is read of which more
would be kept, new clients are refused, and the sessions of which most is kept are ended, but for those with SENDs that
the relay has promised to deliver.
"""

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted.internet.interfaces import IReactorTime

from stomprelay.relay.inputs import Killed
from stomprelay.relay.notes import CROWDED
from stomprelay.service.connection import direct
from stomprelay.service.connection.backpressure import MEMORY
from stomprelay.service.log import logger
from stomprelay.session.leg import Side

if TYPE_CHECKING:
    from stomprelay.service.connection.protocol import LegProtocol
    from stomprelay.service.connection.relay_driver import RelayDriver

SESSION: Final = 12 * 1024
"""Bytes that a session takes beside all that is kept of it: its connections and its state."""
LITTLE: Final = 4096
"""Bytes that are read at once from a connection while memory is short."""
MUCH: Final = 64 * 1024
"""The same while it has its turn."""
TURN: Final = 2.0
"""Seconds that a turn takes at most, and that a client may take to send more of its frame while memory is short."""
EVERY: Final = 0.1
"""Seconds between two looks at the connections that are not read from."""
TRIM: Final = 0.25
"""Seconds between two times that freed memory is given back to the system."""
LOOKS: Final = 64
"""Connections that are considered for a turn at one look, at most."""

_log: Final = logger()


class MemoryRow(NamedTuple):
    """How many bytes are `kept` of all clients together, how many may be (None: no limit), and how many connections are
    not read from because of that.
    """

    kept: int = 0
    limit: int | None = None
    held: int = 0

    @property
    def full(self) -> bool:
        """Whether as much is kept as may be."""
        return self.limit is not None and self.kept >= self.limit


class _Turn(NamedTuple):
    """The turn of a connection: when it ends, in seconds, and how much was kept before, of its session and of a frame
    that it had begun.
    """

    protocol: "LegProtocol"
    until: float
    kept: int
    begun: int


def _alone(size: int, sessions: int) -> tuple[int, int]:
    return size, sessions


def _nothing() -> None:
    pass


class Memory:
    """The bytes that are kept of the sessions of this process, and of all that share its `limit` (infinity: as many as
    may be). `trim` gives freed memory back to the system. `total` is told the bytes and the sessions of this process,
    and returns those of all of them.
    """

    def __init__(self, reactor: IReactorTime, seconds: Callable[[], float]) -> None:
        self.limit: float = inf
        self.total: Callable[[int, int], tuple[int, int]] = _alone
        self.trim: Callable[[], object] = _nothing
        self.short = False
        self._reactor = reactor
        self._seconds = seconds
        self._size = 0
        self._sessions: set[RelayDriver] = set()
        self._held: dict[LegProtocol, tuple[RelayDriver, float]] = {}
        self._turns: dict[RelayDriver, _Turn] = {}
        self._leaving: set[RelayDriver] = set()
        self._next: Any = None
        self._trimmed = -inf

    @property
    def row(self) -> MemoryRow:
        """Return what there is to see of it; `kept` is what this process keeps."""
        limit = None if self.limit == inf else int(self.limit)
        return MemoryRow(self._size, limit, len(self._held))

    @property
    def full(self) -> bool:
        """Whether as much is kept as may be: no new client is taken."""
        return self.limit < inf and self._sums()[0] >= self.limit

    def _sums(self) -> tuple[int, int]:
        return self.total(self._size, len(self._sessions))

    # What sessions report

    def opened(self, driver: "RelayDriver") -> int:
        """Count a session. Return how many bytes it takes."""
        self._sessions.add(driver)
        self.changed(driver, SESSION)
        return SESSION

    def closed(self, driver: "RelayDriver", size: int) -> None:
        """Count a session no more, of which so many bytes were counted."""
        self._sessions.discard(driver)
        self._leaving.discard(driver)
        self.changed(driver, -size)

    def changed(self, driver: "RelayDriver", by: int) -> None:
        """Count so many bytes more of a session, or less."""
        self._size += by
        total, _ = self._sums()
        if not self.short and total >= 0.75 * self.limit:
            self._begin()
        elif by < 0 and driver in self._turns:
            self._look_in(0.0)

    @property
    def most(self) -> int:
        """How many bytes may be read of a connection at once: but a little of its share."""
        return int(max(direct.FIRST_READ, min(direct.READ, self._share(self._sums()[1]) // 8)))

    def grew(self, driver: "RelayDriver", protocol: "LegProtocol") -> None:
        """Memory is short, and more is kept of a session for what came on this connection: read from it no more, where
        that is too much.
        """
        total, sessions = self._sums()
        if total < self._low:
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
        """Return of how many bytes on memory is not short any more."""
        return 0.5 * self.limit

    def _share(self, sessions: int) -> float:
        """Return how many bytes may be kept of one of so many sessions while memory is short."""
        return 0.75 * self.limit / max(sessions, 1)

    # While memory is short

    def _begin(self) -> None:
        self.short = True
        _log.warn(
            "memory is short: {kept} bytes are kept of {sessions} clients, {limit} may be",
            kept=self._size,
            sessions=len(self._sessions),
            limit=int(self.limit),
        )
        share = self._share(self._sums()[1])
        for driver in self._sessions:
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
        _log.info("memory is short no more: {kept} bytes are kept", kept=self._size)
        for driver in self._sessions:
            for protocol in driver.protocols():
                protocol.read_at_once(direct.FIRST_READ)

    def _look_in(self, seconds: float) -> None:
        """Look after so many seconds, or earlier."""
        call, at = self._next, self._reactor.seconds() + seconds
        if call is None or not call.active():
            self._next = self._reactor.callLater(seconds, self._look)
        elif call.getTime() > at:
            call.reset(seconds)

    def _look(self) -> None:
        """Read on where there is room; where there is none give turns, and end sessions."""
        for protocol in [each for each in self._held if not each.held]:
            del self._held[protocol]  # it is closed
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
        if total < self.limit:
            self._give_turns(self.limit - total, self._share(sessions))
        if self._seconds() >= self._trimmed + TRIM:
            self._trimmed = self._seconds()
            self.trim()
        self._look_in(EVERY)

    def _read_on(self, protocol: "LegProtocol") -> None:
        """Read from a connection again."""
        protocol.read_at_once(MUCH)
        protocol.release(MEMORY)

    def _end_turns(self) -> None:
        """End the turns of those that are rid of something, or have the rest of their frame, and of those whose time is
        over.
        """
        now = self._seconds()
        for driver, turn in list(self._turns.items()):
            protocol = turn.protocol
            got_on = driver.kept < turn.kept or protocol.leg.decoder.buffered < turn.begun
            if protocol.leg.closed or got_on or now >= turn.until:
                del self._turns[driver]
                if not (protocol.leg.closed or got_on):
                    self._hold(driver, protocol)

    def _give_turns(self, room: float, share: float) -> None:
        """Give turns to connections that wait for nothing else, as many as there is room for: each may end with its
        frame. A client of whose unfinished frame more than a share is kept, and that sends no more of it, is sent away.
        """
        now = self._seconds()
        room -= sum(turn.protocol.leg.decoder.missing for turn in self._turns.values())
        for _ in range(min(LOOKS, len(self._held))):
            protocol = next(iter(self._held))
            driver, idle = self._held.pop(protocol)
            decoder = protocol.leg.decoder
            if driver in self._turns or not driver.gets_on(protocol):
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
        """End those of the sessions of which more than a share is kept, the largest first, until an eighth of the limit
        is free, or would be if the others that share it did so, too.
        """
        share = self._share(sessions)
        excess = (total - 0.875 * self.limit) * self._size / total
        excess -= self._freed_soon
        for driver in sorted(self._sessions - self._leaving, key=lambda each: -each.kept):
            if excess <= 0 or driver.kept <= share:
                return
            if not driver.relay.pledged:
                excess -= driver.kept
                self._send_away(driver)

    @property
    def _freed_soon(self) -> int:
        """Return how many bytes are kept of the sessions that are being ended."""
        return sum(each.kept for each in self._leaving)

    def _send_away(self, driver: "RelayDriver") -> None:
        """End a session, once: what is kept of it is free when its broker has confirmed what came before."""
        if driver not in self._leaving:
            self._leaving.add(driver)
            driver.handle(Killed(CROWDED))

"""Which clients are taken, and what becomes of those that are too many.

A client that is taken must be able to have its brokers, or it and all others fail together once the process has no
file descriptor left. So descriptors are counted before: those that the sessions may have at a time, and those of
connections that are closed and wait for their peer.
"""

from collections import deque
from math import inf
from typing import Final

from stomprelay.service.connection.protocol import LegOwner, LegProtocol, Runtime
from stomprelay.service.log import logger
from stomprelay.service.state import ListenerSessions, Sessions
from stomprelay.session.effects import How
from stomprelay.session.handshake import spell_versions
from stomprelay.session.leg import Leg, Side
from stomprelay.session.refusal import complain
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import StompError

RESERVED_SHARE: Final = 10
"""One descriptor in so many is kept for brokers that are changed: the old connection and the new one at a time."""
LINGERING: Final = 24
"""Refused clients that may take their time to read the ERROR; of more, the first gives way."""
RESERVE: Final = LINGERING + 32
"""Descriptors for what comes and goes: refused clients, name look-ups, files, notices to systemd."""

_log: Final = logger()


class Refused(LegOwner):
    """A client that is sent an ERROR, whatever it sends, and is closed."""

    def __init__(self, runtime: Runtime, linger: float, error: bytes) -> None:
        super().__init__(runtime, linger)
        self._error = error

    def added(self, protocol: LegProtocol) -> None:
        """Do nothing: the client has no session."""

    def connected(self, protocol: LegProtocol) -> None:
        """Send the ERROR, and close."""
        protocol.write(self._error)
        protocol.close(How.LINGER)

    def received(self, protocol: LegProtocol, data: bytes) -> None:
        """Do nothing: it is closed by then."""

    def refused(self, protocol: LegProtocol, reason: str) -> None:
        """Do nothing: it left before."""

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        """Do nothing: it left before."""

    def closed(self, protocol: LegProtocol) -> None:
        """Do nothing: there was nothing but its connection."""


class Admission:
    """Decides which clients are taken, beside those that there are. `most` is how many there may be, None: as many as
    there are descriptors for.

    `descriptors` is how many the sessions may have, infinite until `started`.
    """

    def __init__(self, runtime: Runtime, sessions: Sessions, most: int | None) -> None:
        self._runtime = runtime
        self._sessions = sessions
        self.most = most
        self._refused: deque[LegProtocol] = deque()
        self.descriptors = inf

    def started(self, limit: int | None, used: int) -> None:
        """Everything listens: the process may have `limit` descriptors (None: no limit), of which `used` are in use or
        will be by what is no session.
        """
        if limit is None:
            return
        self.descriptors = max(limit - used - RESERVE - limit // RESERVED_SHARE, 0)
        dearest = max((each.cost for each in self._sessions.counted), default=1)
        clients = int(self.descriptors // dearest)
        _log.info(
            "{limit} file descriptors: enough for {clients} clients, with {cost} each",
            limit=limit,
            clients=clients,
            cost=dearest,
        )
        if self.most is not None and self.most > clients:
            _log.warn(
                "limits.clients is {most}, but the {limit} file descriptors are enough for {clients}",
                most=self.most,
                limit=limit,
                clients=clients,
            )

    def refusal(self, sessions: ListenerSessions, address: object, *, draining: bool) -> StompError | None:
        """Return why a new client of this listener, from this address, is not taken; None where it is. `draining`: none
        is.
        """
        if draining:
            return StompError(
                "no new connections", "the relay is being drained: it keeps its clients and takes no others"
            )
        reason = self.too_many(sessions, address)
        return StompError("too many connections", reason) if reason else None

    def too_many(self, sessions: ListenerSessions, address: object) -> str:
        """Return why one client more of this listener, from this address, would be too many; "" where it is not."""
        listener = sessions.listener
        if self.most is not None and len(self._sessions) >= self.most:
            return f"the limit is {self.most}"
        if listener.clients is not None and len(sessions) >= listener.clients:
            return f"the limit of this listener is {listener.clients}"
        most = listener.clients_per_address
        if most is not None and sessions.of(address) >= most:
            return f"the limit for one address is {most}"
        used = sum(len(each) * each.cost for each in self._sessions.counted)
        used += max(self._runtime.closing - LINGERING, 0)
        if used + sessions.cost > self.descriptors:
            return "there are no file descriptors left for more"
        return ""

    def turn_away(self, sessions: ListenerSessions, reason: StompError) -> LegProtocol:
        """Return the protocol of a client that is sent an ERROR with this reason, and closed."""
        listener = sessions.listener
        sessions.counters["clients_refused"] += 1
        refused = f"{listener.name}: {reason.message}"
        if self._runtime.repeats.passes(refused, 1):
            _log.warn("a client was refused by {refused}: {reason}", refused=refused, reason=reason.detail)
        error = complain(reason, V1_0, spell_versions(listener.versions))
        owner = Refused(self._runtime, listener.linger, error)
        protocol = LegProtocol(owner, Leg(Side.DOWNSTREAM, listener.limits))
        if len(self._refused) >= LINGERING:
            self._refused.popleft().hasten()
        self._refused.append(protocol)
        return protocol

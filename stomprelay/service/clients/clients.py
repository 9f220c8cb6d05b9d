"""New clients: each gets a session, or is refused. File descriptors are counted first: if no descriptor were left for a
new client's broker, this client and all other clients would fail.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from stomprelay.relay.model.listener import Listener, Web
from stomprelay.relay.model.rates import Scope, spell_limit
from stomprelay.relay.relay import Relay
from stomprelay.service.connection.failures import Farewell
from stomprelay.service.connection.protocol import PIPE, Driver, LegProtocol
from stomprelay.service.connection.relay_driver import Asks, Endpoints, RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.log import logger
from stomprelay.service.state import ListenerSessions, RelayState, Sessions, network
from stomprelay.session.effects import How
from stomprelay.session.handshake import spell_versions
from stomprelay.session.leg import Leg, Side
from stomprelay.session.refusal import complain
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import StompError

RESERVED_SHARE: Final = 10
"""One of so many descriptors is kept for sessions that change brokers: these have two connections for a while."""
LINGERING: Final = 24
"""Refused clients that may take time to read the ERROR; if there are more, the oldest is closed."""
RESERVE: Final = LINGERING + 32
"""Descriptors kept for short uses: refused clients, name look-ups, files, notices to systemd."""

_log: Final = logger()


def _refused(sessions: ListenerSessions, scope: Scope, most: int) -> str:
    """Count a refusal because of a limit of `most` clients, and return the text for the client."""
    sessions.limiter.refuse(scope)
    return spell_limit(scope, most, rate=False)


class RefusedClient(Driver):
    """A client that gets an ERROR. `patience`: seconds to wait for the first bytes where it may speak WebSocket."""

    __slots__ = ("_error", "_patience", "_protocol")

    def __init__(self, runtime: Runtime, linger: float, error: bytes, patience: float) -> None:
        super().__init__(runtime, linger)
        self._error = error
        self._patience = patience
        self._protocol: LegProtocol | None = None

    def answer(self) -> None:
        """Send the ERROR and close the connection. A second call does nothing."""
        error, self._error = self._error, b""
        if error and self._protocol is not None:
            self._protocol.write(error)
            self._protocol.close(How.LINGER)

    def hasten(self) -> None:
        """Send the ERROR if it was not sent yet, and end the connection without waiting for the client."""
        self.answer()
        if self._protocol is not None:
            self._protocol.hasten()

    def added(self, protocol: LegProtocol) -> None:
        """Store the connection: the client has no session."""
        super().added(protocol)
        self._protocol = protocol

    def connected(self, protocol: LegProtocol) -> None:
        """Answer as soon as the protocol is known."""
        if self._patience:
            self.set_timer(self.runtime.seconds() + self._patience)
        else:
            self.answer()

    def woke(self, now: float) -> None:
        """Answer a client that sent nothing in time."""
        self.answer()

    def received(self, protocol: LegProtocol, data: bytes) -> None:
        """Answer with the refusal, whatever the client sent."""
        self.answer()

    def half_closed(self, protocol: LegProtocol) -> None:
        """Answer: the client will send nothing more."""
        self.answer()

    def refused(self, protocol: LegProtocol, reason: str) -> None:
        """Do nothing: the client left before."""

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        """Do nothing: the client left before."""

    def closed(self, protocol: LegProtocol) -> None:
        """Drop the connection, which was closed; nobody waits for its end."""
        self._error = b""
        super().closed(protocol)


class Admission:
    """Decides which new clients are accepted. `most` returns the largest number of clients; None: as many as the
    descriptors allow. `descriptors`: how many descriptors sessions may use; infinite until `started` is called.
    """

    def __init__(self, runtime: Runtime, sessions: Sessions, most: Callable[[], int | None]) -> None:
        self._runtime = runtime
        self._sessions = sessions
        self._most = most
        self._refused: deque[RefusedClient] = deque()
        self.descriptors = inf

    def started(self, limit: int | None, used: int) -> None:
        """Begin to count descriptors. Of `limit` (None: no limit), `used` are in use outside sessions."""
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
        most = self._most()
        if most is not None and most > clients:
            _log.warn(
                "limits.clients is {most}, but the {limit} file descriptors are enough for {clients}",
                most=most,
                limit=limit,
                clients=clients,
            )

    def refusal(self, sessions: ListenerSessions, address: object, *, draining: bool) -> StompError | None:
        """Return why a new client of this listener and address is refused; None if it is accepted."""
        if draining:
            return StompError(
                "no new connections", "the relay is being drained: it keeps its clients and takes no others"
            )
        if self._runtime.memory.full:
            return StompError(
                "the relay is short of memory", "it takes no new clients now; connect again later"
            )
        reason = self.too_many(sessions, address)
        if not reason:
            bucket = sessions.limiter.connect(self._runtime.seconds(), sessions.limited_by(address))
            reason = "" if bucket is None else bucket.spell()
        return StompError("too many connections", reason) if reason else None

    def admit(self, driver: RelayDriver, user: str) -> StompError | None:
        """Count an identified client's session for its user, and return None. If the user has too many sessions, or
        opens sessions too often, do not count this session, and return the ERROR. Call it before the relay continues.
        """
        sessions = self._sessions.of(driver.relay.listener.name)
        most = sessions.listener.clients_per_user
        reason = ""
        if most is not None and sessions.of(Scope.USER, user) >= most:
            reason = _refused(sessions, Scope.USER, most)
        else:
            bucket = sessions.limiter.connect(self._runtime.seconds(), None, user)
            reason = "" if bucket is None else bucket.spell()
        if not reason:
            sessions.count(driver, (Scope.USER, user))
            return None
        sessions.counters["clients_refused"] += 1
        return StompError("too many connections", reason)

    def too_many(self, sessions: ListenerSessions, address: object) -> str:
        """Return why one more client of this listener, from this address, would exceed a limit; "" if it would not."""
        listener = sessions.listener
        most = self._most()
        if most is not None and len(self._sessions) >= most:
            return f"the limit is {most}"
        if listener.clients is not None and len(sessions) >= listener.clients:
            return _refused(sessions, Scope.LISTENER, listener.clients)
        most = listener.clients_per_address
        if most is not None and sessions.of(Scope.ADDRESS, network(address)) >= most:
            return _refused(sessions, Scope.ADDRESS, most)
        used = sessions.cost + max(self._runtime.closing - LINGERING, 0)
        for each in self._sessions.counted:
            used += len(each) * each.cost
        if used > self.descriptors:
            return "there are no file descriptors left for more"
        return ""

    def turn_away(self, sessions: ListenerSessions, reason: StompError, web: Web | None) -> LegProtocol:
        """Return the protocol of a refused client. The protocol sends an ERROR, over WebSocket if the client speaks
        WebSocket, and closes the connection.
        """
        listener = sessions.listener
        sessions.counters["clients_refused"] += 1
        refused = f"{listener.name}: {reason.message}"
        if self._runtime.repeats.passes(refused, 1):
            _log.warn("a client was refused by {refused}: {reason}", refused=refused, reason=reason.detail)
        error = complain(reason, V1_0, spell_versions(listener.versions))
        patience = 0.0 if web is None else listener.connect_timeout
        owner = RefusedClient(self._runtime, listener.linger, error, patience)
        leg = Leg(Side.DOWNSTREAM, listener.limits)
        protocol = client_protocol(owner, leg, listener, web, lambda: Farewell.LATER)
        if len(self._refused) >= LINGERING:
            self._refused.popleft().hasten()
        self._refused.append(owner)
        return protocol

    def stop(self) -> None:
        """Close the connections of all refused clients now."""
        while self._refused:
            self._refused.popleft().hasten()


def client_protocol(
    owner: Driver, leg: Leg, listener: Listener, web: Web | None, farewell: Callable[[], Farewell]
) -> LegProtocol:
    """Return the protocol of a client's leg. `farewell` returns why the relay ends its connection."""
    if web is None:
        return LegProtocol(owner, leg)
    # The module for WebSocket is loaded only if it is needed.
    from stomprelay.service.connection.web import WebLegProtocol

    return WebLegProtocol(owner, leg, listener, web, farewell)


@dataclass(slots=True, eq=False, repr=False)
class Clients:
    """Begins the sessions of a relay. `endpoints`: how to connect to each broker; they may change. `identify` finds
    out a client's user. `prefix` makes the sessions' names unique among all relays. `fast_path` returns whether frames
    may pass without the core.
    """

    _state: RelayState
    _admission: Admission
    _endpoints: Endpoints
    _identify: Asks
    prefix: str
    _fast_path: Callable[[], bool]
    _named: int = 0

    def accept(self, name: str, address: object, web: Web | None = None) -> LegProtocol | None:
        """Begin a session for a client of this listener, and return its leg's protocol; None while the relay stops. A
        client that is refused gets a protocol that sends an ERROR. `web` is used in place of the listener's `web`.
        """
        state = self._state
        if state.sessions.stopping:
            return None
        sessions = state.sessions.listeners[name]
        web = web or sessions.listener.web
        refusal = self._admission.refusal(sessions, address, draining=state.sessions.draining)
        if refusal is not None:
            return self._admission.turn_away(sessions, refusal, web)
        self._named += 1
        relay = Relay(
            sessions.listener,
            f"{self.prefix}-{self._named}".encode("ascii"),
            sessions.counters,
            random.random,
            passes=PIPE is not None and self._fast_path(),
            counter=state.runtime.tallies.counter,
            limiter=sessions.limiter,
            address=sessions.limited_by(address),
        )
        driver = RelayDriver(state.runtime, relay, self._endpoints, sessions.ended, self._identify)
        state.tails.accepted(driver)
        sessions.add(driver, address)
        return client_protocol(driver, relay.client, relay.listener, web, self._farewell)

    def _farewell(self) -> Farewell:
        return Farewell.LEAVING if self._state.sessions.stopping else Farewell.DONE

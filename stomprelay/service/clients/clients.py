"""New clients: each gets a session, or is refused."""

import random
from collections.abc import Callable
from typing import Final

from stomprelay.relay.model.listener import Web
from stomprelay.relay.relay import Relay
from stomprelay.service.clients.admission import Admission, client_protocol
from stomprelay.service.connection.failures import Farewell
from stomprelay.service.connection.protocol import PIPE, LegProtocol
from stomprelay.service.connection.relay_driver import Asks, Endpoints, RelayDriver
from stomprelay.service.state import RelayState


class Clients:
    """Begins the sessions of a relay. `endpoints` have the way to each broker; they may change. `identify` finds out a
    client's user. `prefix` is that of the sessions' names. `fast_path` returns whether frames may pass without the
    core.
    """

    def __init__(
        self,
        state: RelayState,
        admission: Admission,
        endpoints: Endpoints,
        identify: Asks,
        prefix: str,
        fast_path: Callable[[], bool],
    ) -> None:
        self._state: Final = state
        self._admission: Final = admission
        self._endpoints: Final = endpoints
        self._identify: Final = identify
        self.prefix: Final = prefix
        self._named = 0
        self._fast_path = fast_path

    def accept(self, name: str, address: object, web: Web | None = None) -> LegProtocol | None:
        """Begin a session for a client of this listener, and return its leg's protocol; None while the relay stops. A
        client that is refused gets a protocol that sends an ERROR. `web` replaces the listener's.
        """
        state = self._state
        if state.sessions.stopping:
            return None
        sessions = state.sessions.listeners[name]
        web = web or sessions.listener.web
        refusal = self._admission.refusal(sessions, address, draining=state.sessions.draining)
        if refusal is not None:
            return self._admission.turn_away(sessions, refusal, web)
        relay = Relay(
            sessions.listener,
            self.next_name(),
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

    def next_name(self) -> bytes:
        """Return a name for a session, unique among all relays."""
        self._named += 1
        return f"{self.prefix}-{self._named}".encode("ascii")

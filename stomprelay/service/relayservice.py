"""The relay as a service: its listeners, its sessions, and how they end."""

import os
import time
from collections.abc import Callable
from typing import Any, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IAddress, IStreamClientEndpoint
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from stomprelay.config import Config
from stomprelay.relay.listener import Listener
from stomprelay.relay.relay import Relay
from stomprelay.relay.tally import Tally
from stomprelay.relay.upstream import Upstream
from stomprelay.service.brokerservice import BrokerService
from stomprelay.service.endpoints import MEMORY, BadEndpoint, entrance, way
from stomprelay.service.notify import Notify
from stomprelay.service.perform import Performer, Stage
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.relaying import Relaying

_log: Final = Logger("stomprelay")

GRACE: Final = 1.0
"""Seconds beyond the longest linger that a stop waits for connections to end."""


class Reception(Factory):
    """Receives the clients of one listener. `sessions` are those whose legs are not all closed."""

    noisy = False

    def __init__(self, service: "RelayService", listener: Listener, way: IStreamClientEndpoint) -> None:
        self.listener = listener
        self.tally = Tally()
        self.sessions: set[Relaying] = set()
        self._service = service
        self._ways = {listener.upstream.broker: way}

    def logPrefix(self) -> str:
        """As Twisted's lines call it."""
        return f"listener {self.listener.name}"

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A session for a new client; none while stopping."""
        service = self._service
        if service.stopping:
            return None
        relay = Relay(self.listener, service.next_name(), self.tally)
        session = Relaying(service.stage, relay, self._ways)
        self.sessions.add(session)
        return LegProtocol(session, relay.client)


class RelayService(MultiService):
    """Listens where the configuration says, and relays.

    `receptions` holds what is known of each listener, by its name. Raises `BadEndpoint` for what cannot be used.
    """

    def __init__(
        self,
        config: Config,
        reactor: Any,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.stopping = False
        self.receptions: dict[str, Reception] = {}
        self.stage = Stage(reactor, seconds, self._over)
        self._reactor = reactor
        self._prefix = f"relay-{os.urandom(4).hex()}"
        self._named = 0
        self.broker: BrokerService | None = None
        if any(listener.upstream.broker.endpoint == MEMORY for listener in config.listeners):
            self.broker = BrokerService(reactor, config.broker, seconds=seconds)
            self.broker.setServiceParent(self)
        self._ways: dict[str, IStreamClientEndpoint] = {}
        self._doors = MultiService()
        self._doors.setServiceParent(self)
        for listener in config.listeners:
            self._add(listener)
        self._add_admin(config.admin)
        self._notify = Notify(self._status, reactor)
        self._notify.setServiceParent(self)

    def _add(self, listener: Listener) -> None:
        upstream = listener.upstream
        where = f"upstream.{upstream.name}"
        try:
            if upstream.name not in self._ways:
                self._ways[upstream.name] = self._way(upstream)
            where = f"listener.{listener.name}"
            reception = Reception(self, listener, self._ways[upstream.name])
            door = entrance(self._reactor, listener.name, listener.endpoint, reception, listener.tls)
        except BadEndpoint as error:
            raise BadEndpoint(f"{where}.{error}") from error
        self.receptions[listener.name] = reception
        door.setServiceParent(self._doors)

    def _way(self, upstream: Upstream) -> IStreamClientEndpoint:
        if self.broker is not None and upstream.broker.endpoint == MEMORY:
            return self.broker.memory
        return way(self._reactor, upstream.broker, upstream.tls)

    def _add_admin(self, endpoint: str | None) -> None:
        if endpoint is None:
            return
        # A web server is not loaded where none is wanted.
        from stomprelay.service.admin import site

        try:
            door = entrance(self._reactor, "admin", endpoint, site(self, self._reactor))
        except BadEndpoint as error:
            raise BadEndpoint(f"admin: {error}") from error
        door.setServiceParent(self)

    def next_name(self) -> bytes:
        """A name for a session that no other ever had."""
        self._named += 1
        return f"{self._prefix}-{self._named}".encode("ascii")

    def _over(self, performer: Performer) -> None:
        assert isinstance(performer, Relaying)
        self.receptions[performer.place.name].sessions.discard(performer)

    @property
    def sessions(self) -> int:
        """How many clients are there."""
        return sum(len(reception.sessions) for reception in self.receptions.values())

    def _status(self) -> str:
        sessions, listeners = self.sessions, len(self.receptions)
        state = "stopping, " if self.stopping else ""
        return f"{state}{sessions} session{'s'[: sessions != 1]}, {listeners} listener{'s'[: listeners != 1]}"

    def startService(self) -> None:
        """All listeners listen, or an exception says which one cannot."""
        super().startService()
        for reception in self.receptions.values():
            listener = reception.listener
            _log.info(
                "{listener}: {endpoint} to {broker}",
                listener=listener.name,
                endpoint=listener.endpoint,
                broker=listener.upstream.broker,
            )

    def stopService(self) -> Deferred[None]:
        """Stop accepting, tell every client, and wait until their connections have ended, or long enough."""
        self.stopping = True
        self._notify.stopping()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        closed = self._doors.disownServiceParent()
        for reception in self.receptions.values():
            for session in list(reception.sessions):
                session.stop()
        if closed is not None:
            await closed
        longest = max((each.listener.linger for each in self.receptions.values()), default=0.0)
        try:
            await self.stage.idle().addTimeout(longest + GRACE, self._reactor)
        except TimeoutError:
            _log.warn("{count} connections did not end in time", count=self.stage.sockets)
        await super().stopService()

"""The embedded broker as a service: for `memory:` upstreams, and on endpoints of its own."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from stomprelay.broker.bounds import DEFAULTS, Bounds
from stomprelay.broker.broker import EmbeddedBroker
from stomprelay.service.endpoints import entrance
from stomprelay.service.memory import MemoryEndpoint
from stomprelay.service.perform import Performer, Stage
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.serving import Serving

_log: Final = Logger("stomprelay")

GRACE: Final = 1.0
"""Seconds beyond the linger that a stop waits for connections to end."""


@dataclass(frozen=True)
class _Place:
    name: str = "broker"
    linger: float = 2.0


class Reception(Factory):
    """Receives the broker's clients."""

    noisy = False

    def __init__(self, service: "BrokerService") -> None:
        self._service = service

    def logPrefix(self) -> str:
        """As Twisted's lines call it."""
        return "embedded broker"

    def buildProtocol(self, addr: IAddress | None) -> Any:
        """A connection for a new client; none while stopping."""
        return self._service.received()


class BrokerService(MultiService):
    """Serves the embedded broker on these endpoints, and to `memory`. Raises `BadEndpoint`.

    `clients` are the connections that are not closed.
    """

    def __init__(
        self,
        reactor: Any,
        bounds: Bounds = DEFAULTS,
        listen: Sequence[str] = (),
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.broker = EmbeddedBroker(bounds, name=b"memory-%b" % os.urandom(4).hex().encode("ascii"))
        self.clients: set[Performer] = set()
        self.stage = Stage(reactor, seconds, self.clients.discard)
        self.stopping = False
        self._reactor = reactor
        self._place = _Place()
        reception = Reception(self)
        self.memory = MemoryEndpoint(reactor, reception)
        self._doors = MultiService()
        self._doors.setServiceParent(self)
        for number, endpoint in enumerate(listen, 1):
            entrance(reactor, f"broker-{number}", endpoint, reception).setServiceParent(self._doors)

    def received(self) -> LegProtocol | None:
        """The protocol for one more client; None while stopping."""
        if self.stopping:
            return None
        serving = Serving(self.stage, self._place, self.broker)
        self.clients.add(serving)
        return LegProtocol(serving, serving.connection.leg)

    def stopService(self) -> Deferred[None]:
        """Stop accepting, tell every client, and wait until their connections have ended, or long enough."""
        self.stopping = True
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        closed = self._doors.disownServiceParent()
        anyone = next(iter(self.clients), None)
        if anyone is not None:
            anyone.perform(self.broker.stopped(self.stage.seconds()))
        if closed is not None:
            await closed
        try:
            await self.stage.idle().addTimeout(self._place.linger + GRACE, self._reactor)
        except TimeoutError:
            _log.warn("{count} connections of the broker did not end in time", count=self.stage.sockets)
        await super().stopService()

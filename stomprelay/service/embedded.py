"""The embedded broker as a service: drivers of clients, endpoints on which it listens, and an endpoint in memory."""

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IProtocol,
    IProtocolFactory,
    IPushProducer,
    IStreamClientEndpoint,
)
from twisted.internet.task import deferLater
from zope.interface import implementer

from stomprelay.broker.broker import EmbeddedBroker
from stomprelay.broker.message import DEFAULTS, Bounds
from stomprelay.service.connection.protocol import Driver, LegProtocol
from stomprelay.service.connection.runtime import Runtime, log_note
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import NamedFactory, listening_service
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg

_log: Final = logger()

LINGER: Final = 2.0

_FORM: Final = "embedded broker: {event}: {text}"


@implementer(IPushProducer)
class BrokerDriver(Driver):
    """Drives one client's connection to the embedded broker. Effects may concern other clients' connections. No
    publisher is paused: messages for a slow client wait in the broker.
    """

    __slots__ = ("_first", "_on_end", "connection")

    def __init__(self, runtime: Runtime, broker: EmbeddedBroker, ended: Callable[[Driver], None]) -> None:
        super().__init__(runtime, LINGER)
        self.connection, self._first = broker.opened(runtime.seconds())
        self._on_end = ended

    def end(self) -> None:
        """Stop the timer and call `ended`: the connection is over."""
        super().end()
        self._on_end(self)

    def connected(self, protocol: LegProtocol) -> None:
        """Perform the effects that the core returned when the connection was opened: the client is connected."""
        protocol.set_producer(self)
        first, self._first = self._first, []
        self.perform(first)

    def received(self, protocol: LegProtocol, data: bytes) -> None:
        """Give the core the bytes that the client sent."""
        self.perform(self.connection.received(data, self.runtime.seconds()))

    def gave_way(self, leg: Leg) -> None:
        """Other connections had their turn: the core continues with the client's frames."""
        self.perform(self.connection.gave_way(self.runtime.seconds()))

    def half_closed(self, protocol: LegProtocol) -> None:
        """Report to the core that the client sends nothing more."""
        self.perform(self.connection.half_closed(self.runtime.seconds()))

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        """Report to the core that the connection ended; unacknowledged messages go to other consumers."""
        self.perform(self.connection.lost(self.runtime.seconds()))

    def woke(self, now: float) -> None:
        """Wake the core: the time of its last `Wake` has come."""
        self.perform(self.connection.woke(now))

    def pauseProducing(self) -> None:
        """Report to the core that too much waits to be written to the client."""
        self.perform(self.connection.paused())

    def resumeProducing(self) -> None:
        """Report to the core that the transport has room again."""
        self.perform(self.connection.resumed(self.runtime.seconds()))

    def stopProducing(self) -> None:
        """Do nothing: the transport is closed, and `lost` is called next."""

    def _note(self, effect: Note) -> None:
        log_note(effect, _FORM, self.runtime.repeats, "embedded broker")

    effects: ClassVar = {**Driver.effects, Note: _note}


class BrokerService(MultiService):
    """Serves the embedded broker on endpoints and through `memory`. `clients`: open drivers. Raises `BadEndpoint`."""

    def __init__(
        self,
        reactor: Any,
        bounds: Bounds = DEFAULTS,
        listen: Sequence[str] = (),
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.broker = EmbeddedBroker(bounds, name=b"memory-%b" % os.urandom(4).hex().encode("ascii"))
        self.clients: set[Driver] = set()
        self.runtime = Runtime(reactor, seconds)
        self.stopping = False
        factory: Any = NamedFactory("embedded broker", lambda _: self.accept())
        self.memory = MemoryEndpoint(reactor, factory)
        self._listening = MultiService()
        self._listening.setServiceParent(self)
        for number, endpoint in enumerate(listen, 1):
            listening_service(reactor, f"broker-{number}", endpoint, factory).setServiceParent(
                self._listening
            )

    def accept(self) -> LegProtocol | None:
        """Return the protocol for one more client; None while the service stops."""
        if self.stopping:
            return None
        driver = BrokerDriver(self.runtime, self.broker, self.clients.discard)
        self.clients.add(driver)
        return LegProtocol(driver, driver.connection.leg)

    def startService(self) -> None:
        """Serve on all endpoints."""
        self.runtime.departures.open()
        super().startService()

    def stopService(self) -> Deferred[None]:
        """Accept no more clients, and close every client's connection. The Deferred fires when all connections have
        ended, or after `LINGER` and `GRACE` seconds.
        """
        self.stopping = True
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        closed = self._listening.disownServiceParent()
        anyone = next(iter(self.clients), None)
        if anyone is not None:
            anyone.perform(self.broker.stopped(self.runtime.seconds()))
        self.runtime.repeats.stop()
        if closed is not None:
            await closed
        if not await self.runtime.wait_closed(LINGER):
            _log.warn("{count} connections of the broker did not end in time", count=self.runtime.sockets)
        self.runtime.departures.close()
        await super().stopService()


@implementer(IStreamClientEndpoint)
class MemoryEndpoint:
    """Connects a client to the embedded broker in the next turn, by sockets: back-pressure works as with any broker."""

    def __init__(self, reactor: Any, factory: IProtocolFactory) -> None:
        self._reactor = reactor
        self._factory = factory

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        """Return a Deferred that fires with the client's protocol; it fails if the system has no sockets left."""
        return deferLater(self._reactor, 0, self._join, factory)

    def _join(self, factory: IProtocolFactory) -> IProtocol:
        built: list[Any] = []

        def build(address: Any) -> Any:
            built.append(factory.buildProtocol(address))
            return built[0]

        ends = socket.socketpair()
        try:
            for end, each in zip(ends, (self._factory, NamedFactory("memory", build)), strict=True):
                end.setblocking(False)
                # The reactor duplicates the descriptor.
                self._reactor.adoptStreamConnection(end.fileno(), socket.AF_UNIX, each)
        finally:
            for end in ends:
                end.close()
        return built[0]  # type: ignore[no-any-return]

"""One leg's connection: what Twisted tells of it goes to the core, with the time."""

from typing import TYPE_CHECKING, Any

from twisted.internet import tcp
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IHandshakeListener,
    IProtocol,
    IPushProducer,
    ITransport,
)
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.service.connection import direct
from stomprelay.service.connection.backpressure import Valve
from stomprelay.service.connection.timers import Sleeper
from stomprelay.service.network.reasons import spell
from stomprelay.service.network.tls import trouble
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side

if TYPE_CHECKING:
    from stomprelay.service.connection.driver import Performer


def _layers(transport: Any) -> tuple[Any, TLSMemoryBIOProtocol | None]:
    """The innermost transport, and the TLS above it, if any."""
    tls = None
    while isinstance(transport, ProtocolWrapper):
        if isinstance(transport, TLSMemoryBIOProtocol):
            tls = transport
        transport = transport.transport
    return transport, tls


direct.spare_memory()


@implementer(IProtocol, IHalfCloseableProtocol, IHandshakeListener)
class LegProtocol(Sleeper):
    """The connection of one leg, to a client or to a broker.

    `performer` is None once the leg was closed: what still comes is thrown away. `valve` governs whether the leg is
    read from. `attempt` is there while a broker is being connected to. `octets` counts what was received.

    As a sleeper it waits for a peer that takes too long to close.
    """

    __slots__ = (
        "_address",
        "_flushed",
        "_plain",
        "_producer",
        "_ready",
        "_tls",
        "attempt",
        "leg",
        "octets",
        "performer",
        "stage",
        "transport",
        "valve",
    )

    def __init__(self, performer: "Performer", leg: Leg) -> None:
        super().__init__()
        self.performer: Performer | None = performer
        self.stage = performer.stage
        self.leg = leg
        self.attempt: Deferred[Any] | None = None
        self.transport: Any = None
        self.valve: Valve | None = None
        self.octets = 0
        self._address: object = None
        self._plain: tcp.Connection | None = None
        self._producer: IPushProducer | None = None
        self._tls: TLSMemoryBIOProtocol | None = None
        self._flushed = False
        self._ready = False
        performer.joined(self)

    # What Twisted tells

    def makeConnection(self, transport: ITransport) -> None:
        """The connection is there; with TLS its handshake is still to come."""
        performer = self.performer
        self.attempt = None
        self.transport = transport
        self.stage.sockets += 1
        if performer is None:  # closed before it was there
            self.transport.abortConnection()
            return
        inner, self._tls = _layers(transport)
        self._plain = plain = direct.plain(transport)
        if plain is not None:
            plain.bufferSize = direct.FIRST_READ
            # A client endpoint's wrapper only passed on the news of this moment.
            plain.protocol = self
        if isinstance(inner, tcp.Connection):
            inner.setTcpNoDelay(True)
            inner.setTcpKeepAlive(True)
        self.valve = Valve(self)
        if self._tls is None or self.leg.side is Side.DOWNSTREAM:
            self._made(performer)

    def handshakeCompleted(self) -> None:
        """TLS is established, and a broker's certificate was accepted."""
        if self.performer is not None and not self._ready and not self.transport.disconnecting:
            self._made(self.performer)

    def _made(self, performer: "Performer") -> None:
        self._ready = True
        performer.made(self)

    def dataReceived(self, data: bytes) -> None:
        """Octets came."""
        performer = self.performer
        if performer is None:
            return
        size = len(data)
        self.octets += size
        if size == direct.FIRST_READ and self._plain is not None:
            self._plain.bufferSize = direct.READ
        valve = self.valve
        if valve is not None and valve.held:
            valve.passed()
        performer.received(self, data)

    def readConnectionLost(self) -> None:
        """The peer closed its direction. What is queued for it is still written, then we close ours."""
        performer = self.performer
        if performer is not None:
            performer.lost(self, "connection closed")
            self.close(How.FLUSH)
        elif self.transport is not None:
            self.transport.loseConnection()

    def connectionMade(self) -> None:
        """Nothing: `makeConnection` does it all."""

    def writeConnectionLost(self) -> None:
        """All is written, and our direction closed."""
        self._flushed = True

    def connectionLost(self, reason: Failure) -> None:
        """The connection is no more."""
        performer, tls = self.performer, self._tls
        self.stage.alarms.forget(self)
        self.stage.lost_socket()
        words = ""
        if performer is not None:
            words = (tls is not None and trouble(tls)) or spell(reason)
            self._address = self.transport.getPeer()
        self.transport = self._plain = self._tls = None
        self.part()
        if performer is not None:
            try:
                (performer.lost if self._ready else performer.refused)(self, words)
            finally:
                self.close(How.ABORT)

    def failed(self, reason: Failure) -> None:
        """The connection that was attempted cannot be had."""
        self.attempt = None
        if self.performer is not None:
            self.performer.refused(self, spell(reason))
            self.close(How.ABORT)

    # What the performer asks for

    def write(self, data: bytes) -> None:
        """Write whole frames."""
        if self._plain is not None:
            direct.write(self._plain, data)
        elif self.transport is not None:
            self.transport.write(data)

    def read(self, on: bool) -> None:
        """The valve opened or shut."""
        if self.performer is not None:
            self.performer.read(self, on)

    def throttle(self, producer: IPushProducer) -> None:
        """Tell this producer when too much waits to be written here, and when there is room again."""
        if producer is self._producer:
            return
        self.part()
        if self.transport is not None:
            self._producer = producer
            self.transport.registerProducer(producer, True)

    def part(self) -> None:
        """Nothing is produced for this leg any more, and the producer is told so."""
        producer, self._producer = self._producer, None
        if producer is not None:
            if self.transport is not None:
                self.transport.unregisterProducer()
            producer.stopProducing()

    @property
    def peer(self) -> object:
        """The address of the other end."""
        return self._address if self.transport is None else self.transport.getPeer()

    def close(self, how: How) -> None:
        """End the connection; the core hears no more of it."""
        performer = self.performer
        if performer is None:
            return
        self.performer = None
        self.part()
        valve, self.valve = self.valve, None
        transport = self.transport
        if transport is None:
            attempt, self.attempt = self.attempt, None
            if attempt is not None:
                attempt.cancel()
        elif how is How.ABORT:
            transport.abortConnection()
        else:
            if how is How.LINGER and self._tls is None:
                transport.loseWriteConnection()
            else:
                transport.loseConnection()
            self.stage.alarms.set(self, self.stage.seconds() + performer.place.linger)
        if valve is not None:
            valve.retire()
        performer.left(self)

    def woke(self, now: float) -> None:
        """The peer took too long to close, or to read what was left for it."""
        if self.transport is None:
            return
        if self._flushed:
            self.transport.loseConnection()
        else:
            self.transport.abortConnection()

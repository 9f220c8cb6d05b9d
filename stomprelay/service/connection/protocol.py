"""The connection of one leg, as a protocol of Twisted. It reports what happens to a `Driver`, which calls the core.

If nothing is queued, bytes are written to the socket at once, and the socket nearly always takes them all. Twisted
alone would write them in the reactor's next turn. In the same way a socket is closed at once.

This relies on six attributes of Twisted's connections (`connected`, `dataBuffer`, `_tempDataBuffer`, `socket`,
`disconnecting`, `_writeDisconnected`), and is done only for the exact types in `PLAIN`. Every other transport is
written to as usual. The tests check that Twisted has these attributes. `send` is compiled if possible; its twin in
Python passes the same tests.
"""

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from OpenSSL.crypto import X509
from twisted.internet import tcp, unix
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IHandshakeListener,
    IProtocol,
    IPushProducer,
    IStreamClientEndpoint,
    ITransport,
)
from twisted.protocols.policies import ProtocolWrapper
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import directlyProvides, implementer, providedBy

from stomprelay.relay.effects import Effect
from stomprelay.service.connection.failures import ASKED, TURN, shortage, spell
from stomprelay.service.connection.runtime import Runtime, Timed
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import (
    AddressEndpoint,
    BrokerEndpoint,
    OneProtocol,
    WebSocketEndpoint,
)
from stomprelay.service.network.layer import Layer
from stomprelay.service.network.sockets import FIRST_READ, READ, Socket, read_at_most
from stomprelay.service.network.tls import certificate_problem
from stomprelay.session.effects import Close, GiveWay, How, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.session.reasons import CLOSED, UNREAD, spell_fault
from stomprelay.wire.decoder import compiled

if TYPE_CHECKING:
    from stomprelay.service.connection._pipe import Pipe

_log: Final = logger()

_PROBED: Final = 1.0
"""The least number of seconds between two looks at a client that is not read from; a longer `linger` counts instead."""


COMPILED: Final = compiled("stomprelay.service.connection._pipe")
"""The compiled `_pipe`; None if it is not built or not wanted."""

PIPE: Final["type[Pipe] | None"] = None if COMPILED is None else COMPILED.Pipe
"""The class that lets frames pass from one socket to another without the core. None: all frames go through the core."""
PLAIN: Final = frozenset({Socket, tcp.Server, tcp.Client, unix.Server, unix.Client})


def plain(transport: ITransport) -> tcp.Connection | None:
    """Return the transport if it is a socket's own, without TLS or another layer above it; else None."""
    return transport if type(transport) in PLAIN and not transport.TLS else None  # type: ignore[attr-defined,return-value]


def layers(transport: Any) -> tuple[Any, TLSMemoryBIOProtocol | None]:
    """Return the innermost transport, and the TLS layer above it. Without TLS, the second value is None."""
    tls = None
    while isinstance(transport, ProtocolWrapper):
        if isinstance(transport, TLSMemoryBIOProtocol):
            tls = transport
        transport = transport.transport
    return transport, tls


def send_in_python(connection: tcp.Connection, data: bytes) -> None:
    """Send what the socket takes now, and queue the rest. An error of the socket is left to the reactor."""
    sent = 0
    if connection.connected and not connection.dataBuffer and not connection._tempDataBuffer:
        try:
            sent = connection.socket.send(data)
        except OSError:
            pass
        if sent == len(data):
            return
    read_at_most(connection, READ)
    connection.write(data[sent:] if sent else data)


send: Final = send_in_python if COMPILED is None else COMPILED.send


def close_when_written(connection: tcp.Connection) -> None:
    """Close when all is written. If nothing waits, close at once, and call `connectionLost` before this returns."""
    if not (connection.disconnecting or connection.dataBuffer or connection._tempDataBuffer):
        connection._writeDisconnected = True
    connection.loseConnection()


@dataclass(slots=True, eq=False, repr=False)
class Driver(Timed):
    """Reports to a core what happens to the connections of its legs, and performs the effects that the core returns, in
    order. A driver stands for one client (its relay, or its connection to the embedded broker) or for one probe of a
    broker. The driver's timer wakes the core.

    `linger`: how many seconds a closed connection may wait for its peer. `legs`: how many legs are not closed.
    Subclasses call the core: they implement the methods that raise `NotImplementedError`. If `_record` is set, it is
    called with this driver and all effects before the effects are performed.
    """

    linger: float
    legs: int = field(default=0, init=False)
    _record: Callable[[Any, Sequence[Effect]], None] | None = field(default=None, init=False)

    # What the connections report

    def connected(self, protocol: "LegProtocol") -> None:
        """The connection is established, with its TLS handshake if any: bytes may be written from now on."""
        raise NotImplementedError

    def received(self, protocol: "LegProtocol", data: bytes) -> None:
        """Bytes were received."""
        raise NotImplementedError

    def reading_changed(self, protocol: "LegProtocol", on: bool) -> None:
        """The leg is read from again (`on`), or not any more."""

    def refused(self, protocol: "LegProtocol", reason: str) -> None:
        """The connection could not be established."""
        raise NotImplementedError

    def prevented(self, protocol: "LegProtocol", reason: str) -> None:
        """The connection could not even be tried: this process lacks something."""
        self.refused(protocol, reason)

    def patient(self, protocol: "LegProtocol") -> bool:
        """Whether reading from the leg will continue soon. If so, a peer that left does not count as gone yet."""
        return False

    def half_closed(self, protocol: "LegProtocol") -> None:
        """A client closed its sending direction, and may still read. `lost` follows when the client reads no more."""
        raise NotImplementedError

    def lost(self, protocol: "LegProtocol", reason: str) -> None:
        """The connection was ended by the peer or by an error, without a call of `close`."""
        raise NotImplementedError

    # What the core asks for

    def perform(self, effects: Sequence[Effect]) -> None:
        """Perform the effects that the core returned, in order. If an effect raises (a bug), the other effects are
        still performed, then `failed` is called.
        """
        if self._record is not None:
            self._record(self, effects)
        protocols = self.runtime.protocols
        fault: Exception | None = None
        pending = iter(effects)
        while True:
            try:
                for effect in pending:
                    if type(effect) is Send:
                        protocol = protocols.get(effect.leg)
                        if protocol is not None:
                            protocol.write(effect.data)
                            protocol.bytes_sent += len(effect.data)
                    else:
                        self.effects[type(effect)](self, effect)
                break
            except Exception as error:
                _log.critical("an effect {fault}", fault=spell_fault(error))
                fault = fault or error
        if fault is not None:
            self.failed(fault)

    def failed(self, error: Exception) -> None:
        """An effect raised an exception, which was logged."""

    @property
    def over(self) -> bool:
        """Whether nothing more will happen, because all legs are closed."""
        return not self.legs

    def added(self, protocol: "LegProtocol") -> None:
        """Count a leg that has a connection or is about to get one."""
        self.legs += 1
        self.runtime.protocols[protocol.leg] = protocol

    def closed(self, protocol: "LegProtocol") -> None:
        """Count a leg that was closed. After the last leg call `end`, if `over` is True."""
        self.legs -= 1
        del self.runtime.protocols[protocol.leg]
        if self.over:
            self.end()

    def end(self) -> None:
        """Stop the timer: nothing more will happen. Subclasses also call their own `ended`."""
        self.stop_timer()

    def gave_way(self, leg: Leg) -> None:
        """Other sessions had their turn after a `GiveWay`: the core continues with the leg's waiting work."""
        raise NotImplementedError

    def connect(self, leg: Leg, endpoint: BrokerEndpoint) -> None:
        """Connect a leg to a broker. Its protocol reports `connected` or `refused`."""
        if not isinstance(endpoint, WebSocketEndpoint):
            LegProtocol(self, leg).connect(self.introduced(endpoint))
            return
        # The module for WebSocket is loaded only if it is needed.
        from stomprelay.service.connection.web import BrokerWebProtocol

        BrokerWebProtocol(self, leg, endpoint).connect(self.introduced(endpoint.endpoint))

    def introduced(self, endpoint: IStreamClientEndpoint) -> IStreamClientEndpoint:
        """Return an endpoint that tells the broker the client's address; without a client return the same endpoint."""
        return endpoint

    def _close(self, effect: Close) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.close(effect.how)

    def _pause(self, effect: Pause) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.hold(ASKED)

    def _resume(self, effect: Resume) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.release(ASKED)

    def _give_way(self, effect: GiveWay) -> None:
        protocol = self.runtime.protocols.get(effect.leg)
        if protocol is not None:
            protocol.hold(TURN)
        self.runtime.turns.wait(effect.leg, partial(self._next_turn, effect.leg))

    def _next_turn(self, leg: Leg) -> None:
        """Start to read again before the core continues, because the core may stop the reading again."""
        protocol = self.runtime.protocols.get(leg)
        if protocol is not None:
            protocol.release(TURN)
        self.gave_way(leg)

    def _wake(self, effect: Wake) -> None:
        if self.legs or not self.over:
            self.set_timer(effect.at)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {
        Close: _close,
        Pause: _pause,
        Resume: _resume,
        GiveWay: _give_way,
        Wake: _wake,
    }
    """The method that performs each kind of effect except `Send`. Subclasses add other kinds, such as `Note`."""


class _Watched(NamedTuple):
    """A client that is not read from, watched since `since`. At `given_up` the client counts as gone. Times are in
    seconds. `descriptor` belongs to the client's socket.
    """

    descriptor: int
    since: float
    given_up: float = inf


@implementer(IProtocol, IHalfCloseableProtocol, IHandshakeListener)
@dataclass(slots=True, eq=False, repr=False)
class LegProtocol(Timed):
    """The connection of one leg, to a client or to a broker.

    `reasons` is the sum of the reasons not to read from the connection, 0 without a reason. The driver is informed when
    reading stops and continues, because the peer's silence does not count meanwhile. `bytes_received` and `bytes_sent`
    count bytes. `plain` is the transport if that is a bare socket. After `close` nothing more is reported, and received
    bytes are discarded; the timer then ends the connection if the peer takes too long to close.
    """

    _owner: Driver | None
    leg: Leg
    runtime: Runtime = field(init=False)
    transport: Any = None
    plain: tcp.Connection | None = None
    reasons: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    _attempt: Callable[[], object] | None = None
    _address: object = None
    _producer: IPushProducer | None = None
    _tls: TLSMemoryBIOProtocol | None = None
    _watched: _Watched | None = None
    _flushed: bool = False
    _ready: bool = False
    _heard_all: bool = False
    _stopped: bool = False

    def __post_init__(self) -> None:
        assert self._owner is not None
        self.runtime = self._owner.runtime
        self._owner.added(self)

    def connect(self, endpoint: IStreamClientEndpoint) -> None:
        """Connect to a broker. The owner gets `connected` or `refused`; until then `close` cancels the attempt."""
        factory = OneProtocol(self, self._attempt_failed)
        if isinstance(endpoint, AddressEndpoint):
            self._attempt = endpoint.attempt(factory).stopConnecting
            return
        attempt = endpoint.connect(factory).addErrback(self._attempt_failed)
        if self.transport is None:
            self._attempt = attempt.cancel

    def _attempt_failed(self, reason: Failure) -> None:
        self._attempt = None
        # Reported later, because all effects that the core returned must be performed before it is called again.
        self.runtime.reactor.callLater(0, self.failed, reason)

    def failed(self, reason: Failure) -> None:
        """Report `refused` to the owner: the attempt to connect failed."""
        if self._owner is not None:
            lacking = shortage(reason)
            if lacking:
                self._owner.prevented(self, lacking)
            else:
                self._owner.refused(self, spell(reason))
            self.close(How.ABORT)

    # What Twisted reports

    def makeConnection(self, transport: ITransport) -> None:
        """Use the transport of a new connection. With TLS the owner gets `connected` only after the handshake."""
        owner = self._owner
        self._attempt = None
        self.transport = transport
        self.runtime.socket_opened(closing=owner is None)
        if owner is None:  # closed before the connection was established
            self.transport.abortConnection()
            return
        inner: Any = plain(transport)
        if inner is not None:
            self.plain = inner
            read_at_most(inner, FIRST_READ)
            # The wrapper of a client endpoint is not needed any more: received bytes need not go through it.
            inner.protocol = self
        else:
            inner, self._tls = layers(transport)
        if isinstance(self._tls, Layer):
            self._tls.partly = self._partly
            beneath: Any = self._tls.transport
            if plain(beneath) is not None:
                read_at_most(beneath, FIRST_READ)
                self._tls.send_by(beneath, send, READ)
        elif self._tls is None and isinstance(transport, ProtocolWrapper):  # it only reads a PROXY header
            wrapper: Any = transport
            wrapper.readConnectionLost = self.readConnectionLost
            wrapper.writeConnectionLost = self.writeConnectionLost
            directlyProvides(wrapper, IHalfCloseableProtocol, providedBy(wrapper))
        if type(inner) is not Socket and isinstance(inner, tcp.Connection):
            inner.setTcpNoDelay(True)
            inner.setTcpKeepAlive(True)
        if self._tls is None or self.leg.side is Side.DOWNSTREAM:
            self._connected(owner)

    def handshakeCompleted(self) -> None:
        """Report `connected` to the owner: TLS is established, and the peer's certificate was accepted."""
        if self._owner is not None and not self._ready and not self.transport.disconnecting:
            self._connected(self._owner)

    def _connected(self, owner: Driver) -> None:
        self._ready = True
        owner.connected(self)

    def socket(self) -> tcp.Connection | None:
        """Return the socket from which a pipe may read frames directly; None if there is none."""
        return self.plain

    def dataReceived(self, data: bytes) -> None:
        """Receive bytes."""
        owner = self._owner
        if owner is None:
            return
        size = len(data)
        self.bytes_received += size
        if size == FIRST_READ and self.plain is not None and not self.runtime.memory.short:
            read_at_most(self.plain, self.runtime.memory.most)
        if self.reasons and not self._stopped:
            self._stop_reading()
        owner.received(self, data)

    def _partly(self) -> None:
        """A part of a TLS record came: the peer is not silent."""
        if self._owner is not None and self.leg.state is LegState.CONNECTED:
            self._owner.received(self, b"")

    came = dataReceived
    """Receive bytes of frames. Over WebSocket these are the bytes in the messages."""

    def passed(self, received: int = 0, sent: int = 0) -> None:
        """Count bytes that were received without `dataReceived`, and bytes that were written."""
        self.bytes_received += received
        self.bytes_sent += sent

    def readConnectionLost(self) -> None:
        """The peer closed its sending direction. If the peer is a broker, it is lost. A client may still read; watch
        whether it resets the connection.
        """
        owner, before = self._owner, self._heard_all
        self._heard_all = True
        if owner is None:
            if self.transport is not None:
                self.transport.loseConnection()
        elif self.leg.side is Side.UPSTREAM:
            owner.lost(self, CLOSED)
            self.close(How.FLUSH)
        elif not before:
            owner.half_closed(self)
            if self._owner is not None:
                self._watch()

    def connectionMade(self) -> None:
        """Do nothing: Twisted calls it after `makeConnection`, which has done everything."""

    def writeConnectionLost(self) -> None:
        """Record that all bytes are written and our direction is closed; Twisted calls this."""
        self._flushed = True

    def connectionLost(self, reason: Failure) -> None:
        """Report the end of the connection to the owner."""
        owner, tls = self._owner, self._tls
        self.stop_timer()
        self.runtime.socket_closed(closing=owner is None)
        words = ""
        if owner is not None:
            words = (tls is not None and certificate_problem(tls)) or (
                CLOSED if self._heard_all else spell(reason)
            )
            if tls is not None and self.leg.side is Side.DOWNSTREAM and not tls._handshakeDone:
                words = f"no TLS handshake: {words.removeprefix('TLS: ')}"
            self._address = self.transport.getPeer()
        self.transport = self.plain = self._tls = None
        if self._producer is not None:
            self._drop_producer()
        if owner is not None:
            try:
                (owner.lost if self._ready else owner.refused)(self, words)
            finally:
                self.close(How.ABORT)

    # What the owner asks for

    def write(self, data: bytes) -> None:
        """Write bytes, always whole frames. They are dropped if there is no connection."""
        if self.plain is not None:
            send(self.plain, data)
        elif self.transport is not None:
            self.transport.write(data)

    def hold(self, reason: int) -> None:
        """Add a reason not to read from the connection, until `release`. If `ASKED` is the only reason, reading stops
        only after one more chunk, so that the end of the connection is seen.
        """
        if self._heard_all or self.transport is None or self._owner is None:
            return
        before = self.reasons
        self.reasons = before | reason
        if reason != ASKED and not self._stopped:
            self._stop_reading()
        if not before:
            self._owner.reading_changed(self, False)

    def release(self, reason: int) -> None:
        """Remove a reason not to read. If it was the last reason, reading continues."""
        if not self.reasons & reason:
            return
        self.reasons &= ~reason
        if not self.reasons:
            self._read_on()
            if self._owner is not None and not self._heard_all:
                self._owner.reading_changed(self, True)

    def read_at_once(self, size: int) -> None:
        """Read at most so many bytes at once from now on. If memory is not short, later reads may be larger again."""
        if isinstance(self._tls, Layer):
            self._tls.read_at_once(size, size if self.runtime.memory.short else READ)
        elif self.plain is not None:
            read_at_most(self.plain, size)

    @property
    def unwritten(self) -> int:
        """Return how many written bytes the socket has not taken yet."""
        inner = self._innermost
        if inner is None:
            return 0
        unwritten: int = len(inner.dataBuffer) - inner.offset + sum(map(len, inner._tempDataBuffer))
        return unwritten

    @property
    def has_input(self) -> bool:
        """Return whether the socket has something to read; True if that cannot be known."""
        inner = self._innermost
        if inner is None:
            return True
        poller = select.poll()
        poller.register(inner.fileno(), select.POLLIN)
        return bool(poller.poll(0))

    @property
    def waits(self) -> bool:
        """Return whether some written bytes were not taken by the socket yet."""
        inner = self._innermost
        return inner is not None and bool(inner.dataBuffer or inner._tempDataBuffer)

    @property
    def _innermost(self) -> Any:
        """The socket's own transport, beneath TLS and other layers; None if there is none."""
        inner, _ = layers(self.transport)
        return inner if isinstance(inner, tcp.Connection) else None

    def _stop_reading(self) -> None:
        """Stop reading. A client that leaves now counts as gone after `linger` seconds at the latest."""
        self._stopped = True
        self.transport.pauseProducing()
        if self.leg.side is Side.DOWNSTREAM and self._owner is not None and self._watch():
            self.set_timer(self.runtime.seconds() + max(self._owner.linger, _PROBED))

    def _watch(self) -> bool:
        """Call `_departed` when the client leaves while it is not read from. Return whether its socket is open."""
        inner, _ = layers(self.transport)
        if not isinstance(inner, tcp.Connection) or not inner.connected:
            return False
        self._watched = _Watched(inner.fileno(), self.runtime.seconds())
        self.runtime.departures.watch(self._watched.descriptor, self._departed)
        return True

    def _unwatch(self, watched: _Watched) -> None:
        self.runtime.departures.forget(watched.descriptor)
        self._watched = None
        if self._owner is not None:  # else the timer is that of a closed connection
            self.set_timer(inf)

    def _read_on(self) -> None:
        """Read again, if reading was stopped."""
        if not self._stopped:
            return
        self._stopped = False
        if self._watched is not None:
            self._unwatch(self._watched)
        if self.transport is not None:
            self.transport.resumeProducing()

    def _departed(self, reset: bool) -> None:
        """A client left while it was not read from. Set the time at which the client counts as gone. Bytes that it sent
        before may still be read until then.
        """
        owner, watched = self._owner, self._watched
        if owner is not None and self._heard_all:
            if reset:
                owner.lost(self, CLOSED)
                self.close(How.ABORT)
        elif owner is not None and watched is not None and (reset or not owner.patient(self)):
            since = watched.since if reset else self.runtime.seconds()
            self._watched = watched._replace(given_up=since + owner.linger)
            self.set_timer(self._watched.given_up)

    def _look(self, owner: Driver, watched: "_Watched", now: float) -> None:
        """Report to the owner a client that left while it was not read from, and end its connection. A client that
        closed its socket with unread bytes looks connected until the relay writes to it; then the client's system
        resets the connection. So the relay writes an EOL, which is allowed between frames.
        """
        if now >= watched.given_up:
            owner.lost(self, UNREAD)
            self.close(How.ABORT)
            if self.transport is not None:
                self.transport.abortConnection()
            return
        full = self.plain is not None and self.plain.dataBuffer
        if self.leg.state is LegState.CONNECTED and not full and not owner.patient(self):
            self.write(b"\n")
        self.set_timer(min(watched.given_up, now + max(owner.linger, _PROBED)))

    def set_producer(self, producer: IPushProducer) -> None:
        """Pause this producer when too many bytes wait to be written, and resume it when there is room. An earlier
        producer, if it is another object, is stopped.
        """
        if producer is self._producer:
            return
        if self._producer is not None:
            self._drop_producer()
        if self.transport is not None:
            self._producer = producer
            self.transport.registerProducer(producer, True)

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            if self.transport is not None:
                self.transport.unregisterProducer()
            producer.stopProducing()

    @property
    def peer(self) -> object:
        """Return the address of the other end."""
        return self._address if self.transport is None else self.transport.getPeer()

    @property
    def certificate(self) -> X509 | None:
        """Return the verified certificate of the other end, or None."""
        return None if self._tls is None else self._tls.getPeerCertificate()

    def close(self, how: How) -> None:
        """End the connection. The owner gets `closed`, and nothing after it."""
        owner = self._owner
        if owner is None:
            return
        self._owner = None
        if self._producer is not None:
            self._drop_producer()
        self.reasons = 0
        transport = self.transport
        if transport is None:
            cancel, self._attempt = self._attempt, None
            if cancel is not None:
                cancel()
        elif how is How.ABORT:
            self.runtime.socket_closing()
            transport.abortConnection()
        else:
            self.runtime.socket_closing()
            if how is How.LINGER and self._tls is None and not self._heard_all:
                transport.loseWriteConnection()
            elif self.plain is not None:
                close_when_written(self.plain)
            else:
                transport.loseConnection()
            if self.transport is not None:
                self.set_timer(self.runtime.seconds() + owner.linger)
        if self._stopped:
            self._read_on()
        if self._watched is not None:
            self._unwatch(self._watched)
        owner.closed(self)

    def hasten(self) -> None:
        """Wait no longer for the peer of a closed connection. With TLS, abort the connection now. Without TLS, end it
        when the remaining bytes are written.
        """
        if self.transport is None:
            return
        if self._tls is None:
            self.transport.loseConnection()
        else:
            self.transport.abortConnection()

    def woke(self, now: float) -> None:
        """If the connection is closed, end it: the peer took too long. If it is open, check the client."""
        if self.transport is None:
            return
        if self._owner is not None:
            if self._watched is not None:
                self._look(self._owner, self._watched, now)
            return
        if self._flushed:
            self.transport.loseConnection()
        else:
            self.transport.abortConnection()

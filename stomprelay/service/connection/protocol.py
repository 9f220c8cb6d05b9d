"""The connection of one leg, as Twisted knows it: what happens to it is reported to its owner.

The owner is a `Driver` (see `driver`), which knows the core.
"""

from collections.abc import Callable
from math import inf
from typing import Any, Final

from OpenSSL.crypto import X509
from twisted.internet import tcp
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

from stomprelay.service.connection import direct
from stomprelay.service.connection.backpressure import ReadControl
from stomprelay.service.connection.failures import shortage, spell
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.connection.timers import Timed
from stomprelay.service.network.endpoints import AddressEndpoint, OneProtocol
from stomprelay.service.network.layer import Layer
from stomprelay.service.network.sockets import Socket, read_at_most
from stomprelay.service.network.tls import certificate_problem
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg, Side, State
from stomprelay.session.reasons import CLOSED, UNREAD

_PROBED: Final = 1.0
"""Seconds between two looks at a client that is not read from, where it may linger for less."""


class LegOwner(Timed):
    """Receives what happens to the connections of its legs. `linger` is for how many seconds a closed connection
    may wait for its peer.
    """

    __slots__ = ("linger", "runtime")

    def __init__(self, runtime: Runtime, linger: float) -> None:
        super().__init__()
        self.runtime = runtime
        self.linger = linger

    def added(self, protocol: "LegProtocol") -> None:
        """A leg has a connection, or is about to have one."""
        raise NotImplementedError

    def connected(self, protocol: "LegProtocol") -> None:
        """The connection is established, with TLS its handshake included: bytes may be written from now on."""
        raise NotImplementedError

    def received(self, protocol: "LegProtocol", data: bytes) -> None:
        """Bytes came."""
        raise NotImplementedError

    def reading_changed(self, protocol: "LegProtocol", on: bool) -> None:
        """The leg is read from again, or not any more."""

    def refused(self, protocol: "LegProtocol", reason: str) -> None:
        """The connection could not be established."""
        raise NotImplementedError

    def prevented(self, protocol: "LegProtocol", reason: str) -> None:
        """The connection could not even be tried: this process lacks what it takes."""
        self.refused(protocol, reason)

    def patient(self, protocol: "LegProtocol") -> bool:
        """Whether a leg that is not read from will be again by itself, so that a peer that left may wait for it."""
        return False

    def half_closed(self, protocol: "LegProtocol") -> None:
        """A client closed its direction, so that it sends nothing more; perhaps it still reads what is written to it.
        `lost` follows when it does not.
        """
        raise NotImplementedError

    def lost(self, protocol: "LegProtocol", reason: str) -> None:
        """The connection was ended by the peer or by an error, without a call of `close`."""
        raise NotImplementedError

    def closed(self, protocol: "LegProtocol") -> None:
        """The protocol reports nothing more of this leg: its connection was closed, lost or refused."""
        raise NotImplementedError


class _Watched:
    """A client that is not read from, and is watched for its leaving `since` then: it has left when it is `given_up`.
    Times are in seconds; `descriptor` is its socket's.
    """

    __slots__ = ("descriptor", "given_up", "since")

    def __init__(self, descriptor: int, since: float) -> None:
        self.descriptor = descriptor
        self.since = since
        self.given_up = inf

    def give_up(self, at: float) -> float:
        """Set the time after which the client counts as gone, and return it."""
        self.given_up = at
        return at


@implementer(IProtocol, IHalfCloseableProtocol, IHandshakeListener)
class LegProtocol(Timed):
    """The connection of one leg, to a client or to a broker.

    `reading` controls whether the leg is read from, from the time when the connection is established until `close`;
    `hold` and `release` need none while there is no reason against it. `bytes_received` and `bytes_sent` count bytes,
    `plain` is the transport where that is a bare socket. After `close` nothing more is reported, and bytes that are
    still received are discarded; the timer then waits for a peer that takes too long to close.
    """

    __slots__ = (
        "_address",
        "_attempt",
        "_flushed",
        "_heard_all",
        "_owner",
        "_producer",
        "_reading",
        "_ready",
        "_tls",
        "_watched",
        "bytes_received",
        "bytes_sent",
        "leg",
        "plain",
        "runtime",
        "transport",
    )

    def __init__(self, owner: LegOwner, leg: Leg) -> None:
        super().__init__()
        self.runtime = owner.runtime
        self.leg = leg
        self.transport: Any = None
        self._reading: ReadControl | None = None
        self.bytes_received = self.bytes_sent = 0
        self.plain: tcp.Connection | None = None
        self._owner: LegOwner | None = owner
        self._attempt: Callable[[], object] | None = None
        self._address: object = None
        self._producer: IPushProducer | None = None
        self._tls: TLSMemoryBIOProtocol | None = None
        self._watched: _Watched | None = None
        self._flushed = self._ready = self._heard_all = False
        owner.added(self)

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
        # Perhaps at once: but all effects that the core returned must be performed before it is called again.
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
        """Take the transport of a connection that was established. With TLS the owner gets `connected` only after
        the handshake.
        """
        owner = self._owner
        self._attempt = None
        self.transport = transport
        self.runtime.socket_opened()
        if owner is None:  # closed before it was there
            self.runtime.socket_closing()
            self.transport.abortConnection()
            return
        inner: Any = direct.plain(transport)
        if inner is not None:
            self.plain = inner
            read_at_most(inner, direct.FIRST_READ)
            # The wrapper of a client endpoint has done its part: what is read need not go through it.
            inner.protocol = self
        else:
            inner, self._tls = direct.layers(transport)
        if isinstance(self._tls, Layer):
            beneath: Any = self._tls.transport
            if direct.plain(beneath) is not None:
                read_at_most(beneath, direct.FIRST_READ)
                self._tls.send_by(beneath, direct.write, direct.READ)
        elif self._tls is None and isinstance(transport, ProtocolWrapper):  # it reads a PROXY header, no more
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

    def _connected(self, owner: LegOwner) -> None:
        self._ready = True
        owner.connected(self)

    def socket(self) -> tcp.Connection | None:
        """Return the bare socket that frames come on, where there is one."""
        return self.plain

    def dataReceived(self, data: bytes) -> None:
        """Bytes came."""
        owner = self._owner
        if owner is None:
            return
        size = len(data)
        self.bytes_received += size
        if size == direct.FIRST_READ and self.plain is not None and not self.runtime.memory.short:
            read_at_most(self.plain, self.runtime.memory.most)
        reading = self._reading
        if reading is not None and reading.held:
            reading.received()
        owner.received(self, data)

    came = dataReceived
    """Bytes of frames came, whatever else the connection speaks."""

    def passed(self, received: int = 0, sent: int = 0) -> None:
        """Count bytes that were received without `dataReceived`, and bytes that were written."""
        self.bytes_received += received
        self.bytes_sent += sent

    def readConnectionLost(self) -> None:
        """The peer closed its direction. A broker is lost by that; a client may still read, until it resets the
        connection, which nobody is told of who does not read.
        """
        owner = self._owner
        if owner is None:
            if self.transport is not None:
                self.transport.loseConnection()
        elif self.leg.side is Side.UPSTREAM:
            owner.lost(self, CLOSED)
            self.close(How.FLUSH)
        elif not self._heard_all:
            self._heard_all = True
            owner.half_closed(self)
            if self._owner is not None:
                self._watch()

    def connectionMade(self) -> None:
        """Do nothing: Twisted calls it after `makeConnection`, which has done everything."""

    def writeConnectionLost(self) -> None:
        """Twisted calls this when all is written and our direction is closed."""
        self._flushed = True

    def connectionLost(self, reason: Failure) -> None:
        """The connection ended."""
        owner, tls = self._owner, self._tls
        self.runtime.timers.forget(self)
        self.runtime.socket_closed()
        if owner is None:
            self.runtime.closing_socket_closed()
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
        """Write bytes, always whole frames; drop them where there is no connection, or none any more."""
        if self.plain is not None:
            direct.write(self.plain, data)
        elif self.transport is not None:
            self.transport.write(data)

    @property
    def reading(self) -> ReadControl | None:
        """What stops and resumes its reading; None before there is a connection, and after its end."""
        if self._reading is None and self.transport is not None and self._owner is not None:
            self._reading = ReadControl(self)
        return self._reading

    @property
    def held(self) -> bool:
        """Whether there is a reason not to read."""
        return self._reading is not None and self._reading.held

    def hold(self, reason: int) -> None:
        """Add a reason not to read; see `ReadControl`. Of a peer that closed its direction there is nothing to read."""
        if not self._heard_all and self.reading is not None:
            self.reading.hold(reason)

    def release(self, reason: int) -> None:
        """Remove a reason not to read, where it is there."""
        reading = self._reading
        if reading is not None:
            reading.release(reason)
            if not reading.held:
                self._reading = None

    def read_at_once(self, size: int) -> None:
        """Read so many bytes at once, at most, from now on; more is read at once later where more comes, unless memory
        is short.
        """
        if isinstance(self._tls, Layer):
            self._tls.read_at_once(size, size if self.runtime.memory.short else direct.READ)
        elif self.plain is not None:
            read_at_most(self.plain, size)

    @property
    def unwritten(self) -> int:
        """The bytes that were written here and that the socket has not taken yet."""
        return 0 if self.transport is None else direct.unwritten(self.transport)

    @property
    def has_input(self) -> bool:
        """Whether the socket has something to read; also where that cannot be known."""
        return direct.has_input(self.transport)

    @property
    def reasons(self) -> int:
        """The sum of the reasons not to read from it; 0 where there is none."""
        return 0 if self._reading is None else self._reading.reasons

    def stop_reading(self) -> None:
        """Read nothing more; `reading` calls this. A client that leaves meanwhile is waited for no longer than it may
        linger.
        """
        self.transport.pauseProducing()
        if self.leg.side is Side.DOWNSTREAM and self._owner is not None and self._watch():
            self.runtime.timers.set(self, self.runtime.seconds() + max(self._owner.linger, _PROBED))

    def _watch(self) -> bool:
        """Have `_departed` called when the client leaves, which is not read from. Return whether it has a socket."""
        inner, _ = direct.layers(self.transport)
        if not isinstance(inner, tcp.Connection) or not inner.connected:
            return False
        self._watched = _Watched(inner.fileno(), self.runtime.seconds())
        self.runtime.departures.watch(self._watched.descriptor, self._departed)
        return True

    def _unwatch(self) -> None:
        if self._watched is not None:
            self.runtime.departures.forget(self._watched.descriptor)
            self._watched = None
            if self._owner is not None:  # else the timer is that of a closed connection
                self.runtime.timers.set(self, inf)

    def read_on(self) -> None:
        """Read again; `reading` calls this."""
        self._unwatch()
        if self.transport is not None:
            self.transport.resumeProducing()

    def _departed(self, reset: bool) -> None:
        """Set the time after which a client is taken for gone that left while it is not read from: what it sent before
        may still be wanted soon.
        """
        owner, watched = self._owner, self._watched
        if owner is not None and self._heard_all:
            if reset:
                owner.lost(self, CLOSED)
                self.close(How.ABORT)
        elif owner is not None and watched is not None and (reset or not owner.patient(self)):
            since = watched.since if reset else self.runtime.seconds()
            self.runtime.timers.set(self, watched.give_up(since + owner.linger))

    def _look(self, owner: LegOwner, watched: "_Watched", now: float) -> None:
        """Report a client to the owner that left while it is not read from, and end its connection. One that has closed
        its socket with more to send than anybody takes cannot be told from one that is there, until it is sent
        something: its system resets the connection then. So it is sent an EOL, which may stand between frames.
        """
        if now >= watched.given_up:
            owner.lost(self, UNREAD)
            self.close(How.ABORT)
            if self.transport is not None:
                self.transport.abortConnection()
            return
        full = self.plain is not None and self.plain.dataBuffer
        if self.leg.state is State.CONNECTED and not full and not owner.patient(self):
            self.write(b"\n")
        self.runtime.timers.set(self, min(watched.given_up, now + max(owner.linger, _PROBED)))

    def reading_changed(self, on: bool) -> None:
        """Report to the owner that reading goes on (`on`) or stopped; `reading` calls this."""
        if self._owner is not None and not self._heard_all:
            self._owner.reading_changed(self, on)

    def set_producer(self, producer: IPushProducer) -> None:
        """Pause this producer when too much waits to be written here, and resume it when there is room again. The
        producer before it, if it is another, is stopped.
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
        """Return the address of the other end, as Twisted has it."""
        return self._address if self.transport is None else self.transport.getPeer()

    @property
    def certificate(self) -> X509 | None:
        """Return the certificate that the other end has shown, which was verified; None without one."""
        return None if self._tls is None else self._tls.getPeerCertificate()

    def close(self, how: How) -> None:
        """End the connection. The owner gets `closed`, and nothing after it."""
        owner = self._owner
        if owner is None:
            return
        self._owner = None
        if self._producer is not None:
            self._drop_producer()
        reading, self._reading = self._reading, None
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
                direct.close(self.plain)
            else:
                transport.loseConnection()
            if self.transport is not None:
                self.runtime.timers.set(self, self.runtime.seconds() + owner.linger)
        if reading is not None:
            reading.retire()
        self._unwatch()
        owner.closed(self)

    def hasten(self) -> None:
        """Wait no longer for the peer of a closed connection: it ends when what is left to write was taken."""
        if self.transport is None:
            return
        if self._tls is None:
            self.transport.loseConnection()
        else:
            self.transport.abortConnection()

    def woke(self, now: float) -> None:
        """Abort the connection: the peer took too long. One that is open, but not read from, is looked after."""
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

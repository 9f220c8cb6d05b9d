"""Accepts and makes TCP connections in fewer steps than Twisted: it does not look up numeric addresses, makes no log
prefixes, and registers each descriptor once. A `Socket` is a `tcp.Connection` of Twisted with its own `__init__` and
`connectionLost`, which set the same attributes as Twisted's methods. `Socket` also sets `_writeDisconnected`. It sets
`_tempDataBuffer` only when bytes are queued. The tests check that Twisted still has these attributes.
"""

import os
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from errno import EALREADY, EINPROGRESS, EISCONN
from functools import lru_cache, partial
from sys import intern
from typing import Any, Final

from twisted.internet import error, main, tcp
from twisted.internet.abstract import FileDescriptor
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import (
    IConnector,
    IDelayedCall,
    IProtocol,
    IReadWriteDescriptor,
)
from twisted.internet.protocol import ClientFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.service.log import logger

_DONE: Final = Failure(main.CONNECTION_DONE)
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
_RESET: Final = struct.pack("ii", 1, 0)
"""The value of `SO_LINGER` with which a close resets the connection."""
_WAITING: Final = frozenset({EALREADY, EINPROGRESS})

_log: Final = logger()


def prepare(own: socket.SocketType) -> None:
    """Set the relay's socket options on a connection, or on a listening socket, whose connections inherit them."""
    own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


FIRST_READ: Final = 16 * 1024
"""Bytes read at once from a connection that receives little: large buffers for a few bytes fragment the heap."""
READ: Final = 512 * 1024
"""Bytes read at once from a busy connection. If more bytes wait to be written to it, its sources are not read."""


def read_at_most(connection: Any, size: int) -> None:
    """Read at most so many bytes at once from now on. In Python only this function sets Twisted's `bufferSize`."""
    connection.bufferSize = size


@lru_cache(256)
def _address(place: tuple[Any, ...]) -> IPv4Address | IPv6Address:
    """Return the address object for the system's form of an address. The object is kept: most addresses recur."""
    if len(place) == 2:
        return IPv4Address("TCP", *place)
    host, _ = socket.getnameinfo(place, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)  # with its scope
    return IPv6Address("TCP", host, *place[1:])


@lru_cache(256)
def _target(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    """Return the family of a numeric address, and its form for the system. The result is kept for later connections."""
    if ":" not in host:
        return socket.AF_INET, (host, port)
    [(family, *_, place)] = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM, 0, _NUMERIC)
    return family, place


_NOTHING: Final[list[bytes]] = []
"""An empty queue that all connections share until they queue bytes; most connections never do. Never add bytes to it.
"""


class Socket(tcp.Connection):
    """The transport of an established connection. `place` is the peer's address in the form that Python's `socket` has.
    `ended` is called after the protocol's `connectionLost`. The class holds default values, because most connections
    are idle and need no others.
    """

    logstr = "a connection"
    _ended: Callable[[Failure], None] | None = None
    _reading = _writing = _heard_all = False
    _tempDataBuffer = _NOTHING  # noqa: N815 - Twisted's name

    def __init__(
        self,
        own: socket.SocketType,
        protocol: IProtocol,
        place: tuple[Any, ...],
        reactor: Any,
        ended: Callable[[Failure], None] | None = None,
    ) -> None:
        FileDescriptor.__init__(self, reactor)
        del self._tempDataBuffer
        self.socket = own  # type: ignore[assignment]
        self.protocol = protocol
        self.connected = 1
        self._place = place
        if ended is not None:
            self._ended = ended
        self.startReading()

    def fileno(self) -> int:
        """Return the descriptor; -1 if the connection has ended."""
        return self.socket.fileno()

    def getPeer(self) -> IPv4Address | IPv6Address:
        """Return the address of the other end."""
        return _address(self._place)

    def getHost(self) -> IPv4Address | IPv6Address:
        """Return the address of this end."""
        return _address(self.socket.getsockname())

    def write(self, data: bytes) -> None:
        """Queue bytes, and let the reactor write them."""
        self._begin_queue()
        super().write(data)

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        """Queue several pieces of bytes, and let the reactor write them."""
        self._begin_queue()
        super().writeSequence(iovec)

    def _begin_queue(self) -> None:
        if self._tempDataBuffer is _NOTHING:
            self._tempDataBuffer = []

    # The reactor is told of changes only

    def startReading(self) -> None:
        """Let the reactor call `doRead`."""
        if not self._reading:
            self._reading = True
            self.reactor.addReader(self)

    def stopReading(self) -> None:
        """Stop the reactor from calling `doRead`."""
        if self._reading:
            self._reading = False
            self.reactor.removeReader(self)

    def startWriting(self) -> None:
        """Let the reactor call `doWrite`."""
        if not self._writing:
            self._writing = True
            self.reactor.addWriter(self)

    def stopWriting(self) -> None:
        """Stop the reactor from calling `doWrite`."""
        if self._writing:
            self._writing = False
            self.reactor.removeWriter(self)

    def doRead(self) -> Any:
        """Give the received bytes to the protocol. Return why the connection ends, or None."""
        try:
            data = self.socket.recv(self.bufferSize)
        except BlockingIOError:
            return None
        except OSError:
            return main.CONNECTION_LOST
        if data:
            self.protocol.dataReceived(data)
        else:
            self.readConnectionLost(_DONE)
        return None

    def doWrite(self) -> Any:
        """Write the waiting bytes, unless the connection ended in this turn. Return why it ends, or None."""
        return super().doWrite() if self.connected else None

    # The end

    def readConnectionLost(self, reason: Failure) -> None:
        """The peer closed its sending direction."""
        self._heard_all = True
        super().readConnectionLost(reason)
        if self.connected:
            self.stopReading()

    def loseConnection(self) -> None:
        """Close when all is written."""
        if self._writeDisconnected and self.connected and not self.disconnecting:
            self.connectionLost(_DONE)
        else:
            super().loseConnection()

    def loseWriteConnection(self) -> None:
        """Close our sending direction when all is written. If nothing waits, close it at once, without the reactor."""
        if self._writing or self.disconnecting or self._writeDisconnected:
            super().loseWriteConnection()
            return
        self._writeDisconnected = True
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        self.protocol.writeConnectionLost()  # type: ignore[attr-defined]  # only ours half-close

    def connectionLost(self, reason: Failure) -> None:
        """Close the socket, and report this to the protocol. Call it when the connection ended, or is to end now."""
        if self.disconnected:
            return
        self.disconnected, self.connected = 1, 0
        producer, self.producer = self.producer, None
        if producer is not None:
            producer.stopProducing()
        self.stopReading()
        self.stopWriting()
        # Unread bytes make the system reset the connection. First send the end of the written bytes.
        aborted = isinstance(reason.value, error.ConnectionAborted)
        with suppress(OSError):
            if aborted:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            elif not self._heard_all:
                self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        protocol, ended = self.protocol, self._ended
        del self.protocol
        protocol.connectionLost(reason)
        if ended is not None:
            self._ended = None
            ended(reason)


_NAMES: Final = (
    *("producer", "streamingProducer", "producerPaused", "bufferSize", "dataBuffer", "offset"),
    *("connected", "disconnected", "disconnecting", "socket", "protocol", "doRead"),
    *("_place", "_reading", "_writing", "_heard_all"),
)
"""The attributes that a `Socket` has and a `FileDescriptor` has not. Some of them are set only during use."""


def _spare_memory() -> None:
    """Make one instance that has all attributes, so that all connections share one table of attribute names. Python
    learns the names from the first instances. Without all names, later instances would get large dictionaries.
    """
    first: Any = object.__new__(Socket)
    FileDescriptor.__init__(first, first)
    for name in _NAMES:
        setattr(first, name, None)


_spare_memory()


def accept(port: tcp.Port) -> Callable[[], None]:
    """Return the function that a port calls when its socket has clients. For TCP it makes `Socket` objects."""
    if port.addressFamily not in (socket.AF_INET, socket.AF_INET6):
        return port.doRead
    prepare(port.socket)
    return partial(_accept, port, port.doRead)


def _accept(port: Any, otherwise: Callable[[], None]) -> None:
    listening, factory, reactor = port.socket, port.factory, port.reactor
    for _ in range(port.numberAccepts):
        try:
            own, (host, *rest) = listening.accept()
        except BlockingIOError:
            return
        except OSError:
            otherwise()  # it gets this error, too, and handles it: no descriptors, no memory
            return
        transport, place = None, (intern(host), *rest)  # clients of one host share the string
        try:
            protocol = factory.buildProtocol(_address(place))
            if protocol is None:
                own.close()
                continue
            own.setblocking(False)
            transport = Socket(own, protocol, place, reactor)
            protocol.makeConnection(transport)
        except Exception:
            _log.failure("a client could not be accepted")
            if transport is None:
                own.close()
            else:
                transport.abortConnection()


@implementer(IConnector, IReadWriteDescriptor)
@dataclass(slots=True, eq=False, repr=False)
class SocketConnector:
    """An attempt to connect to a port of an IP address, as `connectTCP` returns it. Call `connect` first. If the
    factory is a `ClientFactory`, it is also told when the connection ends. This class needs Linux: there a second call
    of `connect_ex` on a socket returns the outcome of the first call.
    """

    _reactor: Any
    _host: str
    _port: int
    _factory: Any
    _timeout: float | None
    transport: Socket | None = None
    _place: tuple[Any, ...] = ()
    _own: socket.SocketType | None = None
    _call: IDelayedCall | None = None

    def getDestination(self) -> IPv4Address | IPv6Address:
        """Return the address of the target."""
        kind = IPv6Address if ":" in self._host else IPv4Address
        return kind("TCP", self._host, self._port)

    def connect(self) -> None:
        """Begin to connect. The outcome is reported in a later turn of the reactor."""
        self._factory.doStart()
        self._factory.startedConnecting(self)
        try:
            family, self._place = _target(self._host, self._port)
            self._own = own = socket.SocketType(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            prepare(own)
        except OSError as problem:
            self._fail_later(error.ConnectBindError(problem.errno, problem.strerror))
            return
        trouble = own.connect_ex(self._place)
        if trouble and trouble not in _WAITING:
            self._fail_later(error.getConnectError((trouble, os.strerror(trouble))))
            return
        self._reactor.addWriter(self)
        if self._timeout is not None:
            self._call = self._reactor.callLater(self._timeout, self._fail, error.TimeoutError())

    def stopConnecting(self) -> None:
        """End the attempt as failed."""
        self._fail(error.UserError())

    def disconnect(self) -> None:
        """End the attempt; if the connection exists, close it."""
        if self.transport is None:
            self.stopConnecting()
        else:
            self.transport.loseConnection()

    def _fail_later(self, problem: Exception) -> None:
        self._call = self._reactor.callLater(0, self._fail, problem)

    def _fail(self, problem: Exception) -> None:
        factory, self._factory = self._factory, None
        if factory is None or self.transport is not None:
            return
        own = self._settle()
        if own is not None:
            own.close()
        factory.clientConnectionFailed(self, Failure(problem))
        factory.doStop()

    def _settle(self) -> socket.SocketType | None:
        """Stop waiting, because the outcome is known. Return the socket, or None."""
        call, self._call = self._call, None
        if call is not None and call.active():
            call.cancel()
        if self._own is not None:
            self._reactor.removeWriter(self)
        own, self._own = self._own, None
        return own

    # What the reactor asks for

    def fileno(self) -> int:
        """Return the descriptor of the socket; -1 if there is no socket any more."""
        return -1 if self._own is None else self._own.fileno()

    def logPrefix(self) -> str:
        """Return this object's name in Twisted's log lines."""
        return "an attempt to connect"

    def doWrite(self) -> None:
        """Find out whether the attempt succeeded, and report it. A second `connect_ex` returns the outcome."""
        if self._own is None:
            return
        trouble = self._own.connect_ex(self._place)
        if trouble and trouble != EISCONN:
            if trouble not in _WAITING:
                self._fail(error.getConnectError((trouble, os.strerror(trouble))))
            return
        protocol = self._factory.buildProtocol(_address(self._place))
        own = self._settle()
        if own is None:
            return
        if protocol is None:
            own.close()
            return
        told = self._lost if isinstance(self._factory, ClientFactory) else None
        self.transport = transport = Socket(own, protocol, self._place, self._reactor, told)
        protocol.makeConnection(transport)

    doRead = doWrite

    def connectionLost(self, reason: Failure) -> None:
        """End the attempt as failed: the reactor stops, or an error occurred on the socket."""
        if self.transport is not None:
            self.transport.connectionLost(reason)
        else:
            self._fail(error.ConnectError(string=reason))

    def _lost(self, reason: Failure) -> None:
        factory, self._factory, self.transport = self._factory, None, None
        if factory is None:
            return
        factory.clientConnectionLost(self, reason)
        factory.doStop()

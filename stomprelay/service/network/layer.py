"""TLS between a socket and a protocol: Twisted's own layer, in larger steps. A protocol gets all received bytes at
once. Written bytes are encrypted at once, and all their records are offered to the socket together.

This relies on two facts about Twisted's layer, which the tests check. `_flushSendBIO` moves to the transport what
OpenSSL has to send. The layer calls `bio_write` with the received bytes, then `recv` until `recv` raises.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from OpenSSL import SSL
from twisted.internet import tcp
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IProtocolFactory,
    IReactorTime,
    IStreamClientEndpoint,
)
from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.service.network.sockets import read_at_most

RECORD: Final = 16 * 1024
"""The most bytes that one record of TLS can carry."""
PIECE: Final = 32 * 1024
"""The most bytes that OpenSSL gets at once. OpenSSL keeps this much memory for each connection."""
_NOTHING: Final = memoryview(b"")


class SteppedConnection(SSL.Connection):
    """OpenSSL's end of a connection: it gets the received bytes in pieces, and returns all decrypted bytes at once."""

    gave = False
    """Whether `recv` has returned bytes since the last `bio_write`."""
    _established = False
    _rest: memoryview = _NOTHING
    _failure: SSL.Error | None = None
    problem: str | None = None
    """Why the peer's certificate is not accepted. OpenSSL itself reports no reason."""

    def do_handshake(self) -> None:
        """Continue the handshake. Raises an `SSL.Error` unless the handshake is complete."""
        super().do_handshake()
        self._established = True

    def bio_write(self, buf: Any) -> int:
        """Take received bytes, and return their number. Next call `recv` until `recv` raises."""
        self.gave, size = False, len(buf)
        if self._rest or size > PIECE:
            self._give(memoryview(b"".join((self._rest, buf)) if self._rest else buf))
        else:
            super().bio_write(buf)
        return size

    def _give(self, received: memoryview) -> None:
        most = PIECE if self._established else len(received)  # a handshake does not call `recv`
        super().bio_write(received[:most])
        self._rest = received[most:] or _NOTHING

    def recv(self, bufsiz: int, flags: int | None = None) -> bytes:
        """Return all received bytes, decrypted. If there are bytes, an `SSL.Error` is raised only in the next call.
        Without bytes it is raised at once.
        """
        if self._failure is not None:
            try:
                raise self._failure
            finally:
                self._failure = None
        records: list[bytes] = []
        try:
            while True:
                try:
                    records.append(super().recv(RECORD))
                except SSL.WantReadError:
                    if not self._rest:
                        raise
                    self._give(self._rest)
        except SSL.Error as error:
            if not records:
                raise
            self._failure = error.with_traceback(None)
        self.gave = True
        return records[0] if len(records) == 1 else b"".join(records)


class Layer(TLSMemoryBIOProtocol):
    """TLS on one connection; `transport` is the layer beneath. `partly` is called when a part of a record came."""

    partly: Callable[[], None] | None = None
    _socket: tcp.Connection | None = None
    _most = 0
    _records: list[bytes] | None = None

    def send_by(
        self, socket: tcp.Connection, send: Callable[[tcp.Connection, bytes], None], most: int
    ) -> None:
        """Send to this socket with this function. After a read that filled its buffer, read at most `most` bytes."""
        self._socket, self._send_to, self._most = socket, send, most

    def read_at_once(self, size: int, most: int) -> None:
        """Read at most `size` bytes at once from now on, and `most` bytes after a read that filled the buffer."""
        if self._socket is not None:
            read_at_most(self._socket, size)
            self._most = most

    def dataReceived(self, data: bytes) -> None:
        """Receive encrypted bytes."""
        socket = self._socket
        if socket is not None and len(data) >= socket.bufferSize:
            read_at_most(socket, self._most)
        super().dataReceived(data)
        if self.partly is not None and not self.getHandle().gave:
            self.partly()

    def write(self, data: bytes) -> None:
        """Encrypt bytes and send all their records at once. Until the handshake is complete, keep the bytes."""
        if len(data) <= RECORD:
            super().write(data)
            return
        records: list[bytes] = []
        self._records = records
        try:
            super().write(data)
        finally:
            self._records = None
            if records:  # else the bytes wait, or were dropped
                self._send(b"".join(records))

    def _flushSendBIO(self) -> None:
        try:
            record = self.getHandle().bio_read(PIECE)
        except SSL.WantReadError:
            return
        if self._records is None:
            self._send(record)
        else:
            self._records.append(record)

    def _send(self, data: bytes) -> None:
        if self._socket is not None:
            self._send_to(self._socket, data)
        elif self.transport is not None:
            self.transport.write(data)

    def abortConnection(self) -> None:
        """End the connection at once. The peer gets a reset. No end of TLS is sent: it would be queued and dropped."""
        self._socket = None
        super().abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Report the end of the connection to the protocol."""
        super().connectionLost(reason)
        self._socket = self.partly = None


class LayerFactory(TLSMemoryBIOFactory):
    """Puts TLS under the protocols of another factory."""

    protocol = Layer


@implementer(IStreamClientEndpoint)
@dataclass(eq=False, repr=False)
class SecuredEndpoint:
    """Connects as another endpoint does, and puts TLS on the connection, which `creator` makes."""

    creator: IOpenSSLClientConnectionCreator
    endpoint: IStreamClientEndpoint
    _reactor: IReactorTime

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        """Connect. The Deferred fires with the protocol, before the handshake."""
        secured = LayerFactory(self.creator, True, protocolFactory, self._reactor)
        connected: Deferred[Any] = self.endpoint.connect(secured)
        return connected.addCallback(lambda layer: layer.wrappedProtocol)

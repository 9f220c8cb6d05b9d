"""What stands between STOMP and a socket: WebSocket and TLS, as clients and brokers of a world speak them."""

import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from OpenSSL import SSL
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage
from wsproto.utilities import RemoteProtocolError

PATH: Final = "/ws"
"""Where WebSocket is spoken."""
NAME: Final = "sim.example"
"""The name in the certificate."""
_KEPT: Final = TemporaryDirectory(prefix="sim-")


@cache
def certificate() -> str:
    """Return the path of a certificate with its key. Their lengths are fixed: the handshakes of a world are alike."""
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2049, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, None)
    )
    path = Path(_KEPT.name, "own.pem")
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made.public_bytes(Encoding.PEM)
    )
    return str(path)


class Web:
    """WebSocket. A `server` accepts whatever is asked for; a client offers all versions. `open`: the handshake is over.
    `over`: it is closed.
    """

    def __init__(self, server: bool) -> None:
        self.open = self.over = False
        self._ws = WSConnection(ConnectionType.SERVER if server else ConnectionType.CLIENT)
        self._first = b""
        if not server:
            asked = Request(NAME, PATH, subprotocols=["v12.stomp", "v11.stomp", "v10.stomp"])
            self._first = self._ws.send(asked)

    def put(self, data: bytes) -> bytes:
        """Return a message of these bytes; the handshake's beginning before it, once."""
        below, self._first = self._first, b""
        return below + self._ws.send(BytesMessage(data=data)) if data and not self.over else below

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the payloads in these bytes, and what is to be answered."""
        above, below = b"", b""
        try:
            self._ws.receive_data(data)
        except RemoteProtocolError:
            if self.open:
                raise
            self.over = True  # an ERROR: a relay that stops does not wait for the first bytes
            return b"", b""
        for event in self._ws.events():
            match event:
                case Request():
                    self.open = True
                    below += self._ws.send(AcceptConnection(subprotocol=event.subprotocols[0]))
                case AcceptConnection():
                    self.open = True
                case TextMessage():
                    above += event.data.encode()
                case BytesMessage():
                    above += event.data
                case Ping() | CloseConnection():
                    below += self._ws.send(event.response())
                    self.over = isinstance(event, CloseConnection)
        return above, below


@cache
def _context(server: bool) -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    if server:
        context.use_certificate_file(certificate())
        context.use_privatekey_file(certificate())
    return context


class Secure:
    """TLS 1.3. `open`: the handshake is over. `over`: the other end has closed it."""

    def __init__(self, server: bool) -> None:
        self.open = self.over = False
        self._tls = SSL.Connection(_context(server))
        (self._tls.set_accept_state if server else self._tls.set_connect_state)()
        self._early = b""

    def put(self, data: bytes) -> bytes:
        """Return the records of these bytes; before the handshake is over the handshake's."""
        self._early += data
        try:
            self._tls.do_handshake()
            self.open = True
            if self._early:
                self._tls.sendall(self._early)
                self._early = b""
        except SSL.WantReadError:
            pass
        return self._all(self._tls.bio_read)

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what is in these records, and what the handshake goes on with."""
        self._tls.bio_write(data)
        below = self.put(b"")
        above = self._all(self._tls.recv)
        return above, below + self.put(b"")

    def _all(self, read: Any) -> bytes:
        found = b""
        try:
            while True:
                found += read(1 << 16)
        except SSL.WantReadError:
            return found
        except SSL.ZeroReturnError:
            self.over = True
            return found


Layer = Web | Secure


def layers(server: bool, web: bool, secure: bool) -> tuple[Layer, ...]:
    """Return new layers, the highest first."""
    return (*([Web(server)] if web else ()), *([Secure(server)] if secure else ()))

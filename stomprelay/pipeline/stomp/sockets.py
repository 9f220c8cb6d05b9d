"""How to connect to a broker's address, with TLS or without, and the connection of one leg."""

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from stomprelay.config.address import MEMORY, client
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.reasons import CLOSED, RESET, TIMED_OUT, UNKNOWN_HOST, rejected, spell_tls

if TYPE_CHECKING:
    from stomprelay.pipeline.stomp.relay_thread import RelayThread

STAGGER: Final = 2.0
"""Seconds to wait for one address of a host if there are other addresses to try."""
ASKED: Final = 1
"""A reason not to read: the relay's core asked for a pause."""
PRESSURE: Final = 2
"""A reason not to read: the client has not yet taken the bytes that were read before."""
FULL: Final = 256 * 1024
"""A connection is full when this many bytes wait to be written, and until fewer than a quarter of this number wait."""
LINGER: Final = 2.0
"""Seconds that a closed connection has to write its last bytes and to see its peer close."""
_READ: Final = 256 * 1024
_RESET: Final = struct.pack("ii", 1, 0)


class Unreachable(ValueError):
    """An address or a certificate that cannot be used from Spark. The error's text has the reason."""


class SocketAddress(NamedTuple):
    """Where to connect to: `host` and `port`, or the Unix socket `path` if `host` is empty. `bind`: the local address.
    `tls`: the context; None without TLS. `name`: the host name that the certificate must have.
    """

    host: str
    port: int = 0
    path: str = ""
    bind: str = ""
    tls: ssl.SSLContext | None = None
    name: str = ""

    async def connected(self, within: float) -> socket.socket:
        """Return a connected socket. Waits `within` seconds for each address. Raises `OSError` and `ValueError`."""
        loop = asyncio.get_running_loop()
        places: list[tuple[int, Any]] = [(socket.AF_UNIX, self.path)]
        if self.host:
            found = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            places = [(family, address) for family, _, _, _, address in found]
        failure = OSError(f"host name {self.host} not found")
        for number, (family, address) in enumerate(places, 1):
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.setblocking(False)
                if self.bind:
                    made.bind((self.bind, 0))
                async with asyncio.timeout(within if number == len(places) else min(within, STAGGER)):
                    await loop.sock_connect(made, address)
                if self.host:
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                return made
            except OSError as error:
                failure = error
                made.close()
            except BaseException:
                made.close()
                raise
        raise failure


def endpoint(broker: Broker, secured: ClientTLS) -> SocketAddress:
    """Return the address of a broker, with the certificates for TLS loaded. Raises `Unreachable`."""
    way = plain_endpoint(broker)
    return way._replace(tls=_context(secured), name=secured.name or broker.host) if broker.tls else way


def plain_endpoint(broker: Broker) -> SocketAddress:
    """Return the address of a broker, without TLS. Raises `Unreachable`."""
    if broker.endpoint == MEMORY:
        raise Unreachable(
            f"{MEMORY} is the embedded broker of a relay, in the relay's own process: give the address of that relay"
        )
    if broker.path is not None:
        raise Unreachable(
            f"{broker} is STOMP over WebSocket, which the relay speaks, not Spark: write tcp://host:port, or the"
            " address of a relay to it"
        )
    parts = client(broker.endpoint)
    told = parts.arguments
    if parts.kind == "unix":
        return SocketAddress("", path=told["path"])
    if parts.kind != "tcp":
        raise Unreachable(
            f"{broker} is an endpoint that only Twisted knows, and Spark runs without Twisted: write tcp://host:port,"
            " ssl://host:port, or failover:(...) of those"
        )
    return SocketAddress(told["host"], int(told["port"]), bind=told.get("bindAddress", ""))


def _context(secured: ClientTLS) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if secured.ca is None:
        context.load_default_certs()
    else:
        for file in _files(secured.ca):
            _loaded("tls.ca", file, partial(context.load_verify_locations, file))
    if secured.certificate is not None:
        certificate, key = secured.certificate, secured.key or secured.certificate
        # OpenSSL would ask for a passphrase on the terminal.
        _loaded(
            "tls.certificate", certificate, lambda: context.load_cert_chain(certificate, key, lambda: b"")
        )
    return context


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path]
    files = sorted(map(str, Path(path).glob("*.pem")))
    if not files:
        raise Unreachable(f"tls.ca: {path}: no .pem file in it")
    return files


def _loaded(key: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except OSError as error:
        why = spell(error) if isinstance(error, ssl.SSLError) else error.strerror or str(error)
        raise Unreachable(f"{key}: {path}: {why}") from None


def spell(error: Exception) -> str:
    """Return why a connection failed, in a few words for the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return rejected(error.verify_message)
    if isinstance(error, ssl.SSLError):
        return spell_tls([(error.reason or str(error)).replace("_", " ").lower()])
    if isinstance(error, TimeoutError):
        return TIMED_OUT
    if isinstance(error, socket.gaierror):
        return UNKNOWN_HOST
    if isinstance(error, ConnectionResetError):
        return RESET
    number = error.errno if isinstance(error, OSError) else None
    text = os.strerror(number) if number else str(error)  # asyncio's own text has the address
    return " ".join(text.split()).lower() or type(error).__name__


class LegConnection(asyncio.Protocol):
    """The connection of one leg. It reports to its owner. `full`: too many bytes wait to be written."""

    def __init__(self, owner: "RelayThread", leg: Leg) -> None:
        self.full = False
        self._owner = owner
        self._leg = leg
        self._socket: socket.socket | None = None
        self._transport: asyncio.Transport | None = None
        self._holds = 0
        self._closed = False

    # What the owner asks for

    async def open(self, endpoint: SocketAddress, within: float) -> None:
        """Connect. Wait `within` seconds for each address, and for the handshake. Raises `OSError` and `ValueError`."""
        self._socket = await endpoint.connected(within)
        tls, loop = endpoint.tls, asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: self,
                sock=self._socket,
                ssl=tls,
                server_hostname=endpoint.name if tls else None,
                ssl_handshake_timeout=within if tls else None,
            )
        except ConnectionAbortedError:  # asyncio raises it if the handshake takes too long
            raise TimeoutError from None

    def write(self, data: bytes) -> None:
        """Write these bytes after the bytes that wait already. After `close`, the bytes are dropped."""
        if self._transport is not None and not self._closed and not self._transport.is_closing():
            self._transport.write(data)

    def hold(self, reason: int) -> bool:
        """Stop reading for this reason (`ASKED` or `PRESSURE`). Return True if there was no such reason before."""
        before, self._holds = self._holds, self._holds | reason
        if self._transport is not None:
            self._transport.pause_reading()
        return not before

    def release(self, reason: int) -> bool:
        """Remove this reason not to read. Return whether it was the last reason; then reading continues."""
        before, self._holds = self._holds, self._holds & ~reason
        if self._holds or not before:
            return False
        if self._transport is not None:
            self._transport.resume_reading()
        return True

    def close(self, how: How) -> bool:
        """Close the connection. If the connection exists, return True, and call `gone` of its owner when it has ended.
        Otherwise return False. Then the caller must cancel `open`. `How.ABORT` also ends a connection that is already
        closing.
        """
        closed, self._closed = self._closed, True
        transport = self._transport
        if transport is None or self._socket is None:
            return False
        if how is How.ABORT:
            if not closed:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        elif not closed:
            transport.resume_reading()
            if transport.can_write_eof():
                transport.write_eof()
            else:
                transport.close()
            asyncio.get_running_loop().call_later(LINGER, transport.abort)
        return True

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Report the connection to the owner, or abort it if it was closed meanwhile."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(FULL, FULL // 4)
        if self._closed:
            self._transport.abort()
            return
        if self._holds:
            self._transport.pause_reading()
        self._owner.made(self._leg)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to the owner."""
        if not self._closed:
            self._owner.received(self._leg, data)

    def pause_writing(self) -> None:
        """Record that too many bytes wait to be written."""
        self.full = True

    def resume_writing(self) -> None:
        """Record that few bytes wait to be written, and report that to the owner."""
        self.full = False
        self._owner.drained()

    def eof_received(self) -> None:
        """End the connection, because a peer that sends no more does not read any more, either."""
        self._lost(CLOSED)
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass the peer's last bytes to the owner, then report the end."""
        if error is not None:
            self._read_rest()
        self._lost(CLOSED if error is None else spell(error))
        self._owner.gone(self)

    def _lost(self, reason: str) -> None:
        if not self._closed:
            self._closed = True
            self._owner.lost(self._leg, reason)

    def _read_rest(self) -> None:
        """Read the bytes that came before a write failed; asyncio does not read them. With TLS these bytes are lost."""
        transport, made = self._transport, self._socket
        if made is None or transport is None or self._holds or not transport.can_write_eof():
            return
        with suppress(OSError):
            while data := made.recv(_READ):
                self.data_received(data)

"""How to connect to a broker's address, with TLS or without, and the socket of one leg."""

import os
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector
from typing import Any, Final, NamedTuple, Protocol

from stomprelay.config.address import MEMORY
from stomprelay.config.endpoint import client
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.reasons import CLOSED, RESET, TIMED_OUT, UNKNOWN_HOST, rejected, spell_tls

STAGGER: Final = 2.0
"""Seconds to wait for one address of a host while there are others to try."""


ASKED: Final = 1
"""Reason not to read: the relay's core asked for a pause."""
PRESSURE: Final = 2
"""Reason not to read: the client has not taken what was read already."""
FULL: Final = 256 * 1024
"""Unwritten bytes from which on a socket is full; it is no longer full below a quarter of that."""
LINGER: Final = 2.0
"""Seconds that a closed socket has to write what is left and to see its peer close."""
_READ: Final = 256 * 1024
_RESET: Final = struct.pack("ii", 1, 0)
_LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Unreachable(ValueError):
    """An address that cannot be connected to from Spark, or a certificate that cannot be used; the text has
    the reason.
    """


class Endpoint(NamedTuple):
    """Where to connect to: `host` and `port`, or, if `host` is empty, the Unix socket `path`. `bind`: the
    local address, if any. `tls`: the context for TLS, None without; `name`: the host name that the
    certificate must have.
    """

    host: str
    port: int = 0
    path: str = ""
    bind: str = ""
    tls: ssl.SSLContext | None = None
    name: str = ""

    def connect(self, within: float) -> socket.socket:
        """Return a connected socket that does not block, its TLS handshake done. Takes up to `within` seconds
        for each address and for the handshake. Raises `OSError`, or `ValueError` for a host name that is
        none.
        """
        made = self._connected(within)
        try:
            made.settimeout(within)
            if made.family != socket.AF_UNIX:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self.tls is not None:
                made = self.tls.wrap_socket(made, server_hostname=self.name)
            made.setblocking(False)
        except BaseException:
            made.close()
            raise
        return made

    def _connected(self, within: float) -> socket.socket:
        places = list(self._places())
        failure: OSError | None = None
        for number, (family, address) in enumerate(places, 1):
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.settimeout(within if number == len(places) else min(within, STAGGER))
                if self.bind:
                    made.bind((self.bind, 0))
                made.connect(address)
                return made
            except OSError as error:
                failure = error
                made.close()
        raise failure or OSError(f"host name {self.host} not found")

    def _places(self) -> Iterator[tuple[int, tuple[Any, ...] | str]]:
        if not self.host:
            yield socket.AF_UNIX, self.path
            return
        for family, _, _, _, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            yield family, address


def endpoint(broker: Broker, secured: ClientTLS) -> Endpoint:
    """Return where to connect to for a broker, with its certificates loaded. Raises `Unreachable`."""
    way = plain_endpoint(broker)
    return way._replace(tls=_context(secured), name=secured.name or broker.host) if broker.tls else way


def plain_endpoint(broker: Broker) -> Endpoint:
    """Return where to connect to for a broker, without TLS. Raises `Unreachable`."""
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
        return Endpoint("", path=told["path"])
    if parts.kind != "tcp":
        raise Unreachable(
            f"{broker} is an endpoint that only Twisted knows, and Spark runs without Twisted: write tcp://host:port,"
            " ssl://host:port, or failover:(...) of those"
        )
    return Endpoint(told["host"], int(told["port"]), bind=told.get("bindAddress", ""))


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
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()).lower() or type(error).__name__


class Owner(Protocol):
    """The owner of sockets: it has the selector and receives their events. Except `soon`, each method is
    called in the owner's thread.
    """

    selector: BaseSelector

    def soon(self, what: Callable[[], None]) -> None:
        """Call `what` in the owner's thread, in its next turn. May be called in any thread."""

    def made(self, socket: "LegSocket") -> None:
        """The socket is connected."""

    def received(self, socket: "LegSocket", data: bytes) -> None:
        """The socket has received bytes."""

    def refused(self, socket: "LegSocket", reason: str) -> None:
        """The socket could not be connected; it has ended."""

    def lost(self, socket: "LegSocket", reason: str) -> None:
        """The peer or the network ended the connection; the socket has ended."""

    def held(self, socket: "LegSocket", on: bool) -> None:
        """The socket is no longer read from (`on`), or is again."""

    def gone(self, socket: "LegSocket") -> None:
        """A socket that was closed with `close` has ended."""


class LegSocket:
    """The socket of one leg. Call `open`; then `ready` whenever the selector reports it or it is `eager` (TLS
    may hold bytes that the selector does not see), and `late` when `deadline` has passed. All in the owner's
    thread.
    """

    def __init__(self, owner: Owner, leg: Leg, endpoint: Endpoint) -> None:
        self.leg = leg
        self.deadline: float | None = None
        self.eager = False
        self._owner = owner
        self._endpoint = endpoint
        self._socket: socket.socket | None = None
        self._out: deque[memoryview] = deque()
        self._size = 0
        self._holds = 0
        self._closed = False
        self._said_all = False
        self._full = False

    def open(self, within: float) -> None:
        """Begin to connect, in a thread of its own. The owner's `made` or `refused` is called later."""

        def connect() -> None:
            made, reason = None, ""
            try:
                made = self._endpoint.connect(within)
            except (OSError, ValueError) as error:
                reason = spell(error)
            self._owner.soon(lambda: self._opened(made, reason))

        # A thread of its own: neither name servers nor handshakes hold up what else the owner does.
        threading.Thread(target=connect, name="stomp connect", daemon=True).start()

    def _opened(self, made: socket.socket | None, reason: str) -> None:
        if self._closed:
            if made is not None:
                made.close()
            self._end()
        elif made is None:
            self._closed = True
            self._owner.refused(self, reason)
        else:
            self._socket = made
            self._watch()
            self.eager = isinstance(made, ssl.SSLSocket)
            self._owner.made(self)

    # What the owner asks for

    def write(self, data: bytes) -> None:
        """Write these bytes after those that wait already. After `close` they are dropped."""
        if self._closed or self._said_all:
            return
        self._out.append(memoryview(data))
        self._size += len(data)
        if len(self._out) == 1:
            self._write()
            self._watch()

    @property
    def full(self) -> bool:
        """Return whether too many bytes wait to be written."""
        self._full = self._size >= FULL // 4 if self._full else self._size >= FULL
        return self._full

    def hold(self, reason: int) -> None:
        """Stop reading, for this reason (`ASKED` or `PRESSURE`)."""
        before, self._holds = self._holds, self._holds | reason
        if not before:
            self._watch()
            self._owner.held(self, True)

    def release(self, reason: int) -> None:
        """Withdraw this reason not to read; reading goes on once there is none left."""
        before, self._holds = self._holds, self._holds & ~reason
        if before and not self._holds:
            self.eager = isinstance(self._socket, ssl.SSLSocket)
            self._watch()
            self._owner.held(self, False)

    def close(self, how: How, now: float) -> None:
        """Close the socket; of the owner's methods only `gone` is called after this. Calling it again with
        `How.ABORT` ends a socket that is still closing.
        """
        if self._closed:
            if how is How.ABORT and self._socket is not None:
                self._end()
            return
        self._closed = True
        if self._socket is None:
            return  # it is being connected: what comes of that is thrown away
        if how is How.ABORT:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._end()
            return
        self.deadline = now + LINGER
        self._holds = 0
        self._write()
        self._watch()

    # Called for the selector and the clock

    def ready(self, mask: int) -> None:
        """Write or read, as the selector's `mask` says."""
        if mask & EVENT_WRITE:
            self._write()
        if mask & EVENT_READ and self._socket is not None and not self._holds:
            self._read(self._socket)
        self._watch()

    def late(self) -> None:
        """End the socket: the peer did not close before `deadline`."""
        self._end()

    def _read(self, made: socket.socket) -> None:
        self.eager = False
        try:
            data = made.recv(_READ)
        except _LATER:
            return
        except OSError as error:
            self._ended(spell(error))
            return
        if not data:
            self._ended(CLOSED)
            return
        self.eager = isinstance(made, ssl.SSLSocket)  # it may have more, of which the selector knows nothing
        if not self._closed:
            self._owner.received(self, data)

    def _write(self) -> None:
        made = self._socket
        while self._out and made is not None:
            try:
                sent = made.send(self._out[0])
            except _LATER:
                return
            except OSError:
                # What the peer still has for us is read first; the end of that is the end of the socket.
                self._out.clear()
                self._size = 0
                self._said_all = True
                return
            self._size -= sent
            if sent == len(self._out[0]):
                self._out.popleft()
            else:
                self._out[0] = self._out[0][sent:]
        if self._closed and not self._said_all and made is not None:
            self._said_all = True
            try:
                made.shutdown(socket.SHUT_WR)
            except OSError:
                self._end()

    def _watch(self) -> None:
        """Register with the selector for reading and writing as needed."""
        made, selector = self._socket, self._owner.selector
        if made is None:
            return
        mask = (0 if self._holds else EVENT_READ) | (EVENT_WRITE if self._out else 0)
        known = selector.get_map().get(made)
        if known is None:
            if mask:
                selector.register(made, mask, self)
        elif not mask:
            selector.unregister(made)
        elif known.events != mask:
            selector.modify(made, mask, self)

    # Ends

    def _ended(self, reason: str) -> None:
        """End the socket because the peer or the network ended the connection; the owner is told unless it
        was closed.
        """
        if self._closed:
            self._end()
            return
        self._closed = True
        self._drop()
        self._owner.lost(self, reason)

    def _drop(self) -> None:
        made, self._socket = self._socket, None
        self.deadline = None
        self.eager = False
        if made is not None:
            if self._owner.selector.get_map().get(made) is not None:
                self._owner.selector.unregister(made)
            made.close()

    def _end(self) -> None:
        self._drop()
        self._owner.gone(self)

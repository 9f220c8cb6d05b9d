"""Connecting to a broker: where an address leads, and the socket that comes of it, with TLS where it asks for it."""

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from stomprelay.config.address import MEMORY
from stomprelay.config.endpoint import client
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.upstream import ClientTLS

STAGGER: Final = 2.0
"""Seconds that one address of a host has to answer while there are more of them."""


class Unreachable(ValueError):
    """An address that leads nowhere from here, or a certificate that cannot be used; the text says why."""


class Dial(NamedTuple):
    """The way to one broker: a host and a port or, without a host, the path of a Unix socket. `bind` is the local
    address. `tls` is for whom its certificate must be (`name`), where TLS is spoken.
    """

    host: str
    port: int = 0
    path: str = ""
    bind: str = ""
    tls: ssl.SSLContext | None = None
    name: str = ""

    def connect(self, within: float) -> socket.socket:
        """A socket that does not block, its TLS handshake done. It takes as long as it takes, up to `within` seconds
        for each address and for the handshake. Raises `OSError`.
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


def dial(broker: Broker, secured: ClientTLS) -> Dial:
    """The way to a broker, its certificates loaded. Raises `Unreachable`."""
    way = reach(broker)
    return way._replace(tls=_context(secured), name=secured.name or broker.host) if broker.tls else way


def reach(broker: Broker) -> Dial:
    """The way to a broker, without TLS. Raises `Unreachable`."""
    if broker.endpoint == MEMORY:
        raise Unreachable(
            f"{MEMORY} is the embedded broker of a relay, in the relay's own process: give the address of that relay"
        )
    parts = client(broker.endpoint)
    told = parts.arguments
    if parts.kind == "unix":
        return Dial("", path=told["path"])
    if parts.kind != "tcp":
        raise Unreachable(
            f"{broker} is an endpoint that only Twisted knows, and Spark runs without Twisted: write tcp://host:port,"
            " ssl://host:port, or failover:(...) of those"
        )
    return Dial(told["host"], int(told["port"]), bind=told.get("bindAddress", ""))


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
    """What went wrong with a connection, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        said = (error.reason or str(error)).replace("_", " ").lower()
        return f"TLS: the peer does not speak TLS ({said})" if said in _NOT_TLS else f"TLS: {said}"
    if isinstance(error, TimeoutError):
        return "connection timed out"
    if isinstance(error, socket.gaierror):
        return "host name not found"
    if isinstance(error, ConnectionResetError):
        return "connection reset"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()).lower() or type(error).__name__


_NOT_TLS: Final = frozenset(
    {"wrong version number", "packet length too long", "record layer failure", "http request"}
)

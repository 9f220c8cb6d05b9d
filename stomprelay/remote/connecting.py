"""The connection to the admin endpoint of a running relay, and the credentials for it."""

import socket
import ssl
from collections.abc import Callable
from http.client import HTTPConnection, HTTPSConnection
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from stomprelay.config import endpoint

DEFAULT: Final = "http://127.0.0.1:61680"

_REQUEST: Final = 10.0
LONGEST: Final = 64 * 1024 * 1024
"""The largest size of a response, or of a file, in bytes."""
_END: Final = "-----END CERTIFICATE-----\n"
_EVERYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class AdminError(Exception):
    """The relay cannot be connected to, or refused a request. The caller shows the text and stops."""


class Credentials(NamedTuple):
    """For an admin endpoint: its `token`; for TLS our `certificate` with its `key`, and `ca`, the relay's authorities
    (None: the system's). `own` is the relay's certificate, if known: then an endpoint string uses TLS, too, and only it
    is accepted.
    """

    token: bytes | None = None
    certificate: str | None = None
    key: str | None = None
    ca: str | None = None
    own: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(certificate={self.certificate!r}, ca={self.ca!r}, own={self.own!r})"

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for these credentials. Raises `AdminError` for a file that cannot be used."""
        file = self.own or self.ca
        try:
            context = ssl.create_default_context(cafile=self.ca, cadata=self.own and _leaf(self.own))
            if self.own is not None:
                context.check_hostname = False
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            if self.certificate is not None:
                file = self.certificate if self.key is None else f"{self.certificate}, {self.key}"
                # OpenSSL would ask for the passphrase on the terminal.
                context.load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise AdminError(f"{file}: cannot be used for TLS: {why(error)}") from None
        return context


def _leaf(path: str) -> str:
    """Return the first certificate of a file; those after it are authorities, which vouch for others as well."""
    with open(path, encoding="ascii", errors="replace") as stream:
        return stream.read(LONGEST).partition(_END)[0] + _END


def why(error: Exception) -> str:
    """Return the reason of an error in words."""
    return getattr(error, "strerror", None) or str(error)


def connector(place: str, credentials: Credentials) -> tuple[Callable[[], HTTPConnection], str]:
    """Return what connects to the admin endpoint, and the prefix of its paths. Raises `AdminError`."""
    try:
        return _by_url(place, credentials) if "://" in place else (_by_endpoint(place, credentials), "")
    except ValueError as error:
        raise AdminError(f"{place}: {error}") from None


def _by_url(place: str, credentials: Credentials) -> tuple[Callable[[], HTTPConnection], str]:
    url = urlsplit(place)
    host, port = url.hostname, url.port
    if url.scheme not in ("http", "https") or not host or "@" in url.netloc or url.query or url.fragment:
        raise ValueError("must be a URL such as http://127.0.0.1:61680")
    prefix = url.path.rstrip("/")
    if url.scheme == "https":
        return lambda: _secured(host, port, credentials), prefix
    return lambda: HTTPConnection(host, port, timeout=_REQUEST), prefix


def _secured(host: str, port: int | None, credentials: Credentials) -> HTTPConnection:
    return HTTPSConnection(host, port, timeout=_REQUEST, context=credentials.context())


def _by_endpoint(place: str, credentials: Credentials) -> Callable[[], HTTPConnection]:
    found = endpoint.server(place)
    if found.kind == "unix":
        return lambda: _UnixConnection(found.arguments["address"])
    if found.kind not in ("tcp", "tcp6") or place.lower().startswith("haproxy:"):
        raise ValueError(
            "does not tell where to connect to: say the URL, as in --admin http://127.0.0.1:61680"
        )
    port = endpoint.port(found.arguments["port"])
    interface = found.arguments.get("interface", "::" if found.kind == "tcp6" else "")
    host = _EVERYWHERE.get(interface, interface)
    if credentials.own is not None:
        return lambda: _secured(host, port, credentials)
    return lambda: HTTPConnection(host, port, timeout=_REQUEST)


class _UnixConnection(HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_REQUEST)
        self._path = path

    def connect(self) -> None:
        """Open the socket. Raises `OSError`."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_REQUEST)
        self.sock.connect(self._path)

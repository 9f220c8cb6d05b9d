"""Requests to the admin endpoint of a running relay: the states of its brokers, to pause one and to resume it."""

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from stomprelay.config import endpoint
from stomprelay.config.address import broker as read_broker
from stomprelay.config.address import host_and_port
from stomprelay.config.table import nearest

DEFAULT: Final = "http://127.0.0.1:61680"
"""The admin endpoint, where none is given."""

ALL: Final = "*"
"""In place of a broker: all of them."""

_REQUEST: Final = 10.0
"""Seconds that one response may take."""
_LONGEST: Final = 64 * 1024 * 1024
"""Bytes of a response that are read."""
_END: Final = "-----END CERTIFICATE-----\n"
_UNAUTHORIZED: Final = 401
_MISDIRECTED: Final = 421
_POLL: Final = 0.25
_GRACE: Final = 5.0
"""Seconds added to the time that sessions have to leave a broker."""
_WAIT: Final = 60.0
"""Seconds to wait for sessions to leave where the time is the relay's own setting, which is not known here."""
_EVERYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}

PrintLine = Callable[[str], None]


class AdminError(Exception):
    """The relay cannot be connected to, or refused a request. The caller shows the text and stops."""


@dataclass(frozen=True)
class BrokerStatus:
    """One broker, as a relay reports it. `moving` of its `sessions` are about to leave it."""

    uri: str
    upstream: str
    group: str
    state: str
    sessions: int
    moving: int


class Credentials(NamedTuple):
    """What an admin endpoint may ask for: its `token`; by TLS, our own `certificate` with its `key` (paths of PEM
    files).

    `ca` has the authorities that the relay's certificate is verified by, None: those of the system. `own` is the
    relay's certificate itself where it is known: then TLS is spoken to an endpoint that is no URL, too, and no other
    certificate is accepted, whatever its names.
    """

    token: bytes | None = None
    certificate: str | None = None
    key: str | None = None
    ca: str | None = None
    own: str | None = None

    def __repr__(self) -> str:
        """Return it without the token."""
        return f"Credentials(certificate={self.certificate!r}, ca={self.ca!r}, own={self.own!r})"

    def context(self) -> ssl.SSLContext:
        """Return how TLS is spoken with these. Raises `AdminError` for a file that cannot be used."""
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
            raise AdminError(f"{file}: cannot be used for TLS: {_why(error)}") from None
        return context


def _leaf(path: str) -> str:
    """Return the first certificate of a file. What follows it are its authorities, which vouch for others, too."""
    with open(path, encoding="ascii", errors="replace") as stream:
        return stream.read(_LONGEST).partition(_END)[0] + _END


def _why(error: Exception) -> str:
    """Return the reason of an error in words."""
    return getattr(error, "strerror", None) or str(error)


_NONE: Final = Credentials()


class AdminClient:
    """The admin endpoint of a running relay: a URL, or the server endpoint string that the relay was given.

    Raises `AdminError`, as all its methods do.
    """

    def __init__(self, place: str, credentials: Credentials = _NONE) -> None:
        self._place = place
        self._token = credentials.token
        self._connect, self._prefix = _connector(place, credentials)

    def brokers(self) -> list[BrokerStatus]:
        """Return all brokers, with their states."""
        return self._request("GET", "/brokers")

    def pause(self, broker: str, within: float | None = None) -> list[BrokerStatus]:
        """Take a broker (by its URI) out of service, and return all brokers. Its sessions leave it `within` so
        many seconds; None is the relay's own setting.
        """
        values = {"broker": broker} if within is None else {"broker": broker, "within": within}
        return self._request("POST", "/brokers/pause", values)

    def resume(self, broker: str) -> list[BrokerStatus]:
        """Let a broker (by its URI) serve again, and return all brokers."""
        return self._request("POST", "/brokers/resume", {"broker": broker})

    def _request(self, method: str, path: str, values: object = None) -> list[BrokerStatus]:
        body = None if values is None else json.dumps(values).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token.decode('ascii')}"
        connection = self._connect()
        try:
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            status, text = response.status, response.read(_LONGEST)
        except OSError as error:
            raise AdminError(f"cannot ask the relay at {self._place}: {_why(error)}") from None
        except HTTPException as error:
            raise AdminError(
                f"what is at {self._place} does not speak HTTP: {type(error).__name__}"
            ) from None
        finally:
            connection.close()
        if status == _MISDIRECTED:
            raise AdminError(
                f"the relay at {self._place} is not asked by that host: its admin_hosts must name it"
            )
        if status == _UNAUTHORIZED:
            raise AdminError(
                f"the relay at {self._place} wants its token: name the file with --token-file"
                if self._token is None
                else f"the relay at {self._place} has another token"
            )
        try:
            answer = json.loads(text)
            if status == 200:
                return [_broker_status(each) for each in answer["brokers"]]
            raise AdminError(f"the relay at {self._place} says: {answer['error']}")
        except (ValueError, KeyError, TypeError, RecursionError):
            raise AdminError(
                f"what is at {self._place} is no relay that can be asked for its brokers (status {status})"
            ) from None


def _broker_status(row: Any) -> BrokerStatus:
    values = {field.name: row[field.name] for field in fields(BrokerStatus)}
    if any(type(values[field.name]) is not field.type for field in fields(BrokerStatus)):
        raise TypeError
    return BrokerStatus(**values)


def _connector(place: str, credentials: Credentials) -> tuple[Callable[[], HTTPConnection], str]:
    """Return a function that connects to the admin endpoint, and the prefix of its paths. Raises `AdminError` for
    a place that is not valid.
    """
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
    """Return a connection by TLS. Raises `AdminError` for files that cannot be used."""
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


def brokers(admin: AdminClient, print_line: PrintLine) -> int:
    """Print all brokers and their states, and return the exit status."""
    for line in _table(admin.brokers()):
        print_line(line)
    return 0


def resume(admin: AdminClient, name: str, print_line: PrintLine) -> int:
    """Let a broker serve again, print its state, and return the exit status."""
    uri = _uri(admin.brokers(), name)
    for line in _table(_of(uri, admin.resume(uri))):
        print_line(line)
    return 0


def pause(
    admin: AdminClient,
    name: str,
    within: float | None,
    print_line: PrintLine,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Take a broker out of service and wait until no session is left on it. Returns the exit status, 0. Raises
    `AdminError` where some are left when the time is over.
    """
    uri = _uri(admin.brokers(), name)
    statuses = _of(uri, admin.pause(uri, within))
    end = clock() + (_WAIT if within is None else within + _GRACE)
    printed = None
    while True:
        if any(each.state != "paused" for each in statuses):
            raise AdminError(f"{name}: is not paused any more")
        left = sum(each.sessions for each in statuses)
        if left != printed:
            print_line(f"{name}: paused, {left or 'no'} session{'' if left == 1 else 's'} left")
            printed = left
        if not left:
            return 0
        if clock() >= end:
            raise AdminError(f"{name}: the sessions that are left did not leave in time; it stays paused")
        sleep(_POLL)
        statuses = _of(uri, admin.brokers())


def _of(uri: str, statuses: Iterable[BrokerStatus]) -> list[BrokerStatus]:
    found = [each for each in statuses if uri in (ALL, each.uri)]
    if not found:
        raise AdminError(f"{uri}: the relay does not know it any more")
    return found


def _uri(statuses: Iterable[BrokerStatus], name: str) -> str:
    """Return the URI of the broker with this name: its URI, or its `host:port`. Raises `AdminError` where none or
    several have it.
    """
    uris = list(dict.fromkeys(each.uri for each in statuses))
    if name == ALL or name in uris:
        return name
    found = [uri for uri in uris if name.lower() == _host_and_port(uri)]
    if len(found) > 1:
        raise AdminError(f"{name}: may be any of {', '.join(found)}; say which")
    if not found:
        raise AdminError(f"{name}: the relay knows no such broker; {nearest(name, uris)}")
    return found[0]


def _host_and_port(uri: str) -> str | None:
    try:
        found = host_and_port(read_broker(uri))
    except ValueError:
        return None
    return None if found is None else found.lower()


def _table(statuses: Iterable[BrokerStatus]) -> Iterator[str]:
    rows = [("broker", "upstream", "group", "state", "sessions", "moving")]
    rows += [
        (each.uri, each.upstream, each.group, each.state, str(each.sessions), str(each.moving))
        for each in statuses
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        words = [f"{cell:{width}}" for cell, width in zip(row[:4], widths, strict=False)]
        numbers = [f"{cell:>{width}}" for cell, width in zip(row[4:], widths[4:], strict=True)]
        yield "  ".join([*words, *numbers])

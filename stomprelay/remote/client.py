"""The admin endpoint of a running relay: the connection to it, the credentials for it, and the requests."""

import json
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlencode, urlsplit

from stomprelay.config import address
from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.wire.errors import visible

_UNAUTHORIZED: Final = 401
_MISDIRECTED: Final = 421

Answer = TypeVar("Answer")
Record = TypeVar("Record", "BrokerStatus", "MoveStatus", "SessionPage", "ReloadAnswer", "DrainStatus")
DEFAULT: Final = "http://127.0.0.1:61680"

_REQUEST: Final = 10.0
LONGEST: Final = 64 * 1024 * 1024
"""The largest size of a response, or of a file, in bytes."""
_END: Final = "-----END CERTIFICATE-----\n"
_EVERYWHERE: Final = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}


class AdminError(Exception):
    """The relay cannot be connected to, or refused a request. The caller shows the text and stops."""


class AdminCredentials(NamedTuple):
    """The credentials for an admin endpoint. `token`: the endpoint's token. `certificate`, `key`: files with the
    client's certificate and its key. `ca`: a file with the authorities that sign the relay's certificate; None: the
    system's authorities. `own`: a file with the relay's certificate. With `own`, TLS is used in any case, and no other
    certificate is accepted.
    """

    token: bytes | None = None
    certificate: str | None = None
    key: str | None = None
    ca: str | None = None
    own: str | None = None

    def __repr__(self) -> str:
        return f"AdminCredentials(certificate={self.certificate!r}, ca={self.ca!r}, own={self.own!r})"

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for these credentials. Raises `AdminError` if a file cannot be used."""
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
    """Return the first certificate of a file. Further certificates belong to authorities, who may sign anything."""
    with open(path, encoding="ascii", errors="replace") as stream:
        return stream.read(LONGEST).partition(_END)[0] + _END


def why(error: Exception) -> str:
    """Return the text of an error, without its number or file name."""
    return getattr(error, "strerror", None) or str(error)


def _by_url(place: str, credentials: AdminCredentials) -> tuple[Callable[[], HTTPConnection], str]:
    url = urlsplit(place)
    host, port = url.hostname, url.port
    if url.scheme not in ("http", "https") or not host or "@" in url.netloc or url.query or url.fragment:
        raise ValueError("must be a URL such as http://127.0.0.1:61680")
    prefix = url.path.rstrip("/")
    if url.scheme == "https":
        return lambda: _secured(host, port, credentials), prefix
    return lambda: HTTPConnection(host, port, timeout=_REQUEST), prefix


def _secured(host: str, port: int | None, credentials: AdminCredentials) -> HTTPConnection:
    return HTTPSConnection(host, port, timeout=_REQUEST, context=credentials.context())


def _by_endpoint(place: str, credentials: AdminCredentials) -> Callable[[], HTTPConnection]:
    found = address.server(place)
    if found.kind == "unix":
        return lambda: _UnixConnection(found.arguments["address"])
    if found.kind not in ("tcp", "tcp6") or place.lower().startswith("haproxy:"):
        raise ValueError(
            "does not tell where to connect to: say the URL, as in --admin http://127.0.0.1:61680"
        )
    port = address.port(found.arguments["port"])
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


RATES: Final = {
    "frames_rate": ("client_frames_rate", "broker_frames_rate"),
    "bytes_rate": ("client_bytes_rate", "broker_bytes_rate"),
}
"""For each order by traffic the two fields of a session whose sum is sorted: the rates of the two directions."""

# Requests

_NONE: Final = AdminCredentials()


class BrokerStatus(NamedTuple):
    """A broker, as a relay reports it. `sessions`: how many sessions it has. `moving`: how many of them are about to
    leave the broker. `staying`: how many cannot leave the broker, for the reason `stays`.
    """

    uri: str
    upstream: str
    group: str
    state: str
    sessions: int
    moving: int
    waiting: int = 0
    staying: int = 0
    stays: str = ""


class SessionPage(NamedTuple):
    """Some sessions. `next`: the argument for the next page, or None. `missing`: workers that did not answer."""

    sessions: list[dict[str, Any]]
    next: str | None
    missing: list[str]


class ReloadAnswer(NamedTuple):
    """The keys that a reload changed, and the keys whose changes need a restart."""

    changed: list[str]
    restart: list[str]


class DrainStatus(NamedTuple):
    """Whether a relay refuses new clients, and how many sessions it has."""

    draining: bool
    sessions: int


class MoveStatus(NamedTuple):
    """A move, as a relay reports it: see `stomprelay move status`. `since`: seconds since 1970, 0 for never. `stays`:
    some of the sessions that stay at OLD, each with the reason. `away`: some of the durable subscribers that have not
    been connected in this phase.
    """

    name: str
    pattern: str
    to: str
    phase: str
    since: float
    sessions: int
    followed: int
    waiting: int
    staying: int
    older: int
    copied: int
    failed: int
    stopped: str
    stays: list[list[str]]
    away: list[str]


class AdminClient:
    """Sends requests to a relay's admin endpoint. `place`: its URL or endpoint string. Methods raise `AdminError`."""

    def __init__(self, place: str, credentials: AdminCredentials = _NONE) -> None:
        self._place = place
        self._token = credentials.token
        try:
            if "://" in place:
                self._connect, self._prefix = _by_url(place, credentials)
            else:
                self._connect, self._prefix = _by_endpoint(place, credentials), ""
        except ValueError as error:
            raise AdminError(f"{place}: {error}") from None

    def brokers(self) -> list[BrokerStatus]:
        """Return all brokers, with their states."""
        return self._request("GET", "/brokers", _brokers)

    def pause(self, broker: str, within: float | None = None) -> list[BrokerStatus]:
        """Take a broker out of service, and return all brokers. The broker's sessions have `within` seconds to leave
        it; None: as long as the relay's setting says.
        """
        values = {"broker": broker} if within is None else {"broker": broker, "within": within}
        return self._request("POST", "/brokers/pause", _brokers, values)

    def resume(self, broker: str) -> list[BrokerStatus]:
        """Take the broker with this URI into service again, and return all brokers."""
        return self._request("POST", "/brokers/resume", _brokers, {"broker": broker})

    def moves(self) -> list[MoveStatus]:
        """Return all moves."""
        return self._request("GET", "/moves", _moves)

    def move(self, name: str, phase: str) -> list[MoveStatus]:
        """Begin a phase of a move (also `next` or `back`), and return all moves."""
        return self._request("POST", "/moves", _moves, {"move": name, "phase": phase})

    def sessions(
        self,
        filters: Iterable[tuple[str, str]],
        sort: str,
        limit: int,
        after: str,
        *,
        subscriptions: bool = False,
    ) -> SessionPage:
        """Return at most `limit` sessions that match all filters: the first ones, or those that follow `after`. With
        `subscriptions` each has its subscriptions with their headers.
        """
        more = [("subscriptions", "yes")] if subscriptions else []
        said = urlencode([*filters, ("sort", sort), ("limit", limit), ("after", after), *more])
        return self._request("GET", f"/sessions?{said}", _session_page)

    def reload(self) -> ReloadAnswer:
        """Make the relay read its configuration again, and return what changed."""
        return self._request("POST", "/reload", partial(_read, ReloadAnswer), {})

    def kill(self, name: str) -> None:
        """End the session with this name."""
        self._request("POST", f"/sessions/{quote(name, safe='')}/kill", lambda answer: answer["killed"], {})

    def drain(self) -> DrainStatus:
        """Make the relay refuse new clients from now on."""
        return self._request("POST", "/drain", partial(_read, DrainStatus), {})

    def cancel_drain(self) -> DrainStatus:
        """Make the relay accept clients again."""
        return self._request("POST", "/drain/cancel", partial(_read, DrainStatus), {})

    def drain_status(self) -> DrainStatus:
        """Return whether the relay refuses clients, and how many sessions it has."""
        return self._request("GET", "/drain", partial(_read, DrainStatus))

    def tail(self, request: TailRequest) -> TailAnswer:
        """Return the frames that passed since the last request of this name. Call this method again within seconds."""
        return self._request("POST", "/tail", TailAnswer.parse, request._asdict())

    def _request(
        self, method: str, path: str, read: Callable[[Any], Answer], values: object = None
    ) -> Answer:
        """Send a request, and return the result of `read` for the JSON of a response with status 200."""
        body = None if values is None else json.dumps(values).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token.decode('ascii')}"
        connection = self._connect()
        try:
            connection.request(method, self._prefix + path, body, headers)
            response = connection.getresponse()
            status, text = response.status, response.read(LONGEST)
        except OSError as error:
            raise AdminError(f"cannot ask the relay at {self._place}: {why(error)}") from None
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
                return read(answer)
            raise AdminError(f"the relay at {self._place} says: {answer['error']}")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise AdminError(
                f"what is at {self._place} is no relay that can be asked for that (status {status})"
            ) from None


def _brokers(answer: Any) -> list[BrokerStatus]:
    return [_read(BrokerStatus, each) for each in answer["brokers"]]


def _moves(answer: Any) -> list[MoveStatus]:
    return [_read(MoveStatus, each) for each in answer["moves"]]


def _session_page(answer: Any) -> SessionPage:
    page = _read(SessionPage, answer)
    for row in page.sessions:
        session_cells(row)  # raises an error if the row is no session
    return page


def _read(kind: type[Record], answer: Any) -> Record:
    """Return the record in an answer. Raises `LookupError` or `TypeError` if the answer has no such record."""
    values = [answer[name] for name in kind._fields]
    for value, wanted in zip(values, get_type_hints(kind).values(), strict=True):
        inner = get_args(wanted) or (wanted,)
        several = isinstance(value, list) and get_origin(wanted) is list
        if any(
            type(each) not in (get_origin(one) or one for one in inner)
            for each in (value if several else [value])
        ):
            raise TypeError
    return kind(*values)


def session_cells(row: Any) -> tuple[str, ...]:
    """Return the cells of a session's line, with rates if the session has some. Raises `KeyError` or `TypeError`."""
    more = [f"{row['more_destinations']} more"] if row["more_destinations"] else []
    numbers = [row[name] for name in ("unconfirmed", "unacknowledged", "client_bytes", "broker_bytes")]
    if any(type(number) is not int for number in numbers):
        raise TypeError
    if "client_bytes_rate" in row:
        frames = sum(row[name] for name in RATES["frames_rate"])
        rates = [frames, *(row[name] for name in RATES["bytes_rate"])]
        numbers = [*numbers[:2], *(f"{rate:.0f}" for rate in rates)]
    return (
        visible(row["session"]),
        visible(row["login"] or "-"),
        visible(row["client"]),
        visible(row["version"] or "-"),
        visible(", ".join(each or "searching" for each in row["brokers"])) or "-",
        _duration(row["age"]),
        "-" if row["idle"] is None else _duration(row["idle"]),
        *map(str, numbers),
        visible(row["limited"] or "-"),
        visible(", ".join([*row["destinations"], *more])) or "-",
        visible(", ".join(row["sent_to"])) or "-",
    )


def _duration(seconds: float) -> str:
    """Return a duration in its two largest units: 41s, 3m05s, 2d07h."""
    rest = int(seconds)
    for unit, name, smaller, its in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if rest >= unit:
            return f"{rest // unit}{name}{rest % unit // smaller:02}{its}"
    return f"{rest}s"

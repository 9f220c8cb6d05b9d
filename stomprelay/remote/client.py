"""The admin endpoint of a running relay, and the requests to it."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from http.client import HTTPException
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.remote.connecting import LONGEST, AdminError, Credentials, connector, why
from stomprelay.remote.tables import session_cells

_UNAUTHORIZED: Final = 401
_MISDIRECTED: Final = 421
_NONE: Final = Credentials()

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class BrokerStatus:
    """A broker, as a relay reports it. Of its `sessions`, `moving` are about to leave it; `staying` cannot, for the
    reason `stays`.
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
    """Some sessions. `next` is the argument for the following ones, or None. `missing`: workers that did not answer."""

    sessions: list[dict[str, Any]]
    next: str | None
    missing: list[str]


class Reloaded(NamedTuple):
    """The settings that a reload changed, and those that need a restart."""

    changed: list[str]
    restart: list[str]


class DrainStatus(NamedTuple):
    """Whether a relay refuses new clients, and how many sessions it has."""

    draining: bool
    sessions: int


class AdminClient:
    """The admin endpoint of a running relay: a URL, or its endpoint string. All methods raise `AdminError`."""

    def __init__(self, place: str, credentials: Credentials = _NONE) -> None:
        self._place = place
        self._token = credentials.token
        self._connect, self._prefix = connector(place, credentials)

    def brokers(self) -> list[BrokerStatus]:
        """Return all brokers, with their states."""
        return self._request("GET", "/brokers", _brokers)

    def pause(self, broker: str, within: float | None = None) -> list[BrokerStatus]:
        """Take a broker out of service, and return all brokers. Its sessions leave within these seconds; None: the
        relay's setting.
        """
        values = {"broker": broker} if within is None else {"broker": broker, "within": within}
        return self._request("POST", "/brokers/pause", _brokers, values)

    def resume(self, broker: str) -> list[BrokerStatus]:
        """Take a broker (by its URI) into service again, and return all brokers."""
        return self._request("POST", "/brokers/resume", _brokers, {"broker": broker})

    def sessions(self, filters: Iterable[tuple[str, str]], sort: str, limit: int, after: str) -> SessionPage:
        """Return the first `limit` sessions that match all filters, or the first ones after `after`."""
        said = urlencode([*filters, ("sort", sort), ("limit", limit), ("after", after)])
        return self._request("GET", f"/sessions?{said}", _session_page)

    def reload(self) -> Reloaded:
        """Make the relay read its configuration again, and return what changed."""
        return self._request("POST", "/reload", _reloaded, {})

    def kill(self, name: str) -> None:
        """End a session, by its name."""
        self._request("POST", f"/sessions/{quote(name, safe='')}/kill", lambda answer: answer["killed"], {})

    def drain(self) -> DrainStatus:
        """Make the relay refuse new clients from now on."""
        return self._request("POST", "/drain", _drain_status, {})

    def cancel_drain(self) -> DrainStatus:
        """Make the relay accept clients again."""
        return self._request("POST", "/drain/cancel", _drain_status, {})

    def drain_status(self) -> DrainStatus:
        """Return whether the relay refuses clients, and how many sessions it has."""
        return self._request("GET", "/drain", _drain_status)

    def tail(self, request: TailRequest) -> TailAnswer:
        """Return the frames that passed since the last request of this kind, which should be seconds ago at most."""
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
    return [_broker_status(each) for each in answer["brokers"]]


def _reloaded(answer: Any) -> Reloaded:
    changed, restart = answer["changed"], answer["restart"]
    if not all(isinstance(key, str) for key in [*changed, *restart]):
        raise TypeError
    return Reloaded(list(changed), list(restart))


def _session_page(answer: Any) -> SessionPage:
    rows, following, missing = answer["sessions"], answer["next"], answer["missing"]
    for row in rows:
        session_cells(row)  # raises what tells that it is none
    if not isinstance(following, str | None) or not all(isinstance(each, str) for each in missing):
        raise TypeError
    return SessionPage(rows, following, missing)


def _drain_status(answer: Any) -> DrainStatus:
    draining, sessions = answer["draining"], answer["sessions"]
    if type(draining) is not bool or type(sessions) is not int:
        raise TypeError
    return DrainStatus(draining, sessions)


def _broker_status(row: Any) -> BrokerStatus:
    values = {field.name: row[field.name] for field in fields(BrokerStatus)}
    if any(type(values[field.name]) is not field.type for field in fields(BrokerStatus)):
        raise TypeError
    return BrokerStatus(**values)

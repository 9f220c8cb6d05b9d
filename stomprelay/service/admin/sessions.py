"""The list of sessions: the filters and the order of a request, and the sessions, in JSON.

    GET /sessions?login=app*&destination=/queue/*&sort=idle&limit=100&after=...

A response has at most `LARGEST` sessions. `total` is the number of all sessions. `matching` is the number of sessions
that match, apart from the sessions of earlier pages. If the response does not have all of them, `next` is the value of
`after` for the next request. If pages are sorted by a figure, which changes meanwhile, a session may occur twice, or
not at all. Sorted by `session`, each session occurs once. `missing` names the workers that did not answer. The sessions
of these workers are not included. With `subscriptions=yes` each session has its subscriptions with their headers.

A relay may have very many sessions. It reads a few sessions in each turn of the reactor, and serves clients in between.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from typing import Final, NamedTuple

from twisted.internet.task import deferLater

from stomprelay.relay.relay import Relay
from stomprelay.service.connection.relay_driver import (
    LONGEST,
    SessionInfo,
    SubscriptionInfo,
    destinations,
    subscribed,
    subscriptions,
)
from stomprelay.service.state import RelayState

LARGEST: Final = 1000
USUAL: Final = 100
TURN: Final = 100
ANY: Final = "any"
"""The filter that compares all values, without regard to case."""
_DESTINATIONS: Final = 32
"""The number of destinations whose comparison takes as long as reading one session."""


class BadRequest(Exception):
    """The body of a request is not valid; the text is the reason, and is sent in the response."""


class Unavailable(Exception):
    """The requested data is not available now; the text is the reason, and is sent in the response."""


_VALUES: Final[dict[str, Callable[[SessionInfo, Relay], Iterable[str]]]] = {
    "session": lambda info, _: (info.session,),
    "listener": lambda info, _: (info.listener,),
    "login": lambda info, _: () if info.login is None else (info.login,),
    "client": lambda info, _: (info.client,),
    "broker": lambda info, _: [each for each in info.brokers if each is not None],
    "destination": lambda _, relay: destinations(relay),
    ANY: lambda info, relay: (
        value for name, values in _VALUES.items() if name != ANY for value in values(info, relay)
    ),
}

_TEXTS: Final[dict[str, Callable[[SessionInfo], str]]] = {
    "session": lambda info: "",  # only the name counts, see `Place`
    "listener": lambda info: info.listener,
    "login": lambda info: info.login or "",
    "client": lambda info: info.client,
}
_NUMBERS: Final[dict[str, Callable[[SessionInfo], float]]] = {
    "age": lambda info: info.age,
    "idle": lambda info: info.idle or 0,
    "destinations": lambda info: len(info.destinations) + info.more_destinations,
    "unconfirmed": lambda info: info.unconfirmed,
    "unacknowledged": lambda info: info.unacknowledged,
    "frames": lambda info: info.client_frames + info.broker_frames,
    "bytes": lambda info: info.client_bytes + info.broker_bytes,
    "to_client_bytes": lambda info: info.to_client_bytes,
    "to_broker_bytes": lambda info: info.to_broker_bytes,
    "client_frames": lambda info: info.client_frames,
    "broker_frames": lambda info: info.broker_frames,
    "client_bytes": lambda info: info.client_bytes,
    "broker_bytes": lambda info: info.broker_bytes,
}
"""Orders: texts ascending, numbers descending, equal values by the session's name. A minus sign reverses the order."""
_REVERSED: Final = "-"

Place = tuple[str | float, str, int]
"""The place of a session in an order: its value, and its name in two parts."""


class SessionQuery(NamedTuple):
    """Asks for the first `limit` sessions, in the order of `sort` and after `after`, that match all `filters`.
    `subscriptions`: each with its subscriptions.
    """

    filters: tuple[tuple[str, str], ...] = ()
    sort: str = "session"
    limit: int = USUAL
    after: str = ""
    subscriptions: bool = False

    @classmethod
    def read(cls, arguments: Mapping[bytes, list[bytes]]) -> "SessionQuery":
        """Return the query in the arguments of a URL. Raises `BadRequest`."""
        said: dict[str, str] = {}
        known = [*_VALUES, "sort", "limit", "after", "subscriptions"]
        for name, values in ((_text(name), values) for name, values in arguments.items()):
            if name not in known:
                raise BadRequest(f"there is no {json.dumps(name)} here; there is {', '.join(known)}")
            if len(values) > 1:
                raise BadRequest(f'"{name}" must be said once')
            said[name] = _text(values[0])
        sort, after = said.pop("sort", "session"), said.pop("after", "")
        if sort.removeprefix(_REVERSED) not in (*_TEXTS, *_NUMBERS):
            orders = ", ".join([*_TEXTS, *_NUMBERS])
            raise BadRequest(f'"sort" cannot be {json.dumps(sort)}; there is {orders}')
        limit = said.pop("limit", str(USUAL))
        if not (limit.isascii() and limit.isdigit() and len(limit) < 6 and 1 <= int(limit) <= LARGEST):
            raise BadRequest(f'"limit" must be a number from 1 to {LARGEST}')
        whole = said.pop("subscriptions", "no")
        if whole not in ("yes", "no"):
            raise BadRequest('"subscriptions" must be "yes" or "no"')
        for name, pattern in said.items():
            if len(pattern) > LONGEST:
                raise BadRequest(f'"{name}" must not be longer than {LONGEST} characters')
        query = cls(tuple(said.items()), sort, int(limit), after, whole == "yes")
        _ = query.behind
        return query

    def place(self, info: SessionInfo) -> Place:
        """Return the place of a session in the order."""
        name, _, number = info.session.rpartition("-")
        value = _TEXTS[self.key](info) if self.key in _TEXTS else -_NUMBERS[self.key](info)
        return value, name, int(number)

    @property
    def key(self) -> str:
        """The name of the order, without its minus sign."""
        return self.sort.removeprefix(_REVERSED)

    @property
    def backwards(self) -> bool:
        """Whether the order is reversed."""
        return self.sort.startswith(_REVERSED)

    def first(self, found: list[tuple[Place, SessionInfo]]) -> list[tuple[Place, SessionInfo]]:
        """Return the first `limit` of these sessions in the query's order."""
        return sorted(found, reverse=self.backwards)[: self.limit]

    @property
    def behind(self) -> Place | None:
        """The place after which the page begins; None for the first page. Raises `BadRequest` for a wrong `after`."""
        if not self.after:
            return None
        try:
            value, name, number = json.loads(self.after)
        except (ValueError, TypeError, RecursionError):
            value, name, number = None, None, None
        kind = str if self.key in _TEXTS else (int, float)
        if not isinstance(value, kind) or not isinstance(name, str) or not isinstance(number, int):
            raise BadRequest('"after" must be the "next" of a response in the same order')
        return value, name, number


class SessionList(NamedTuple):
    """The sessions of a response; `total` is the number of all sessions. See the module."""

    sessions: tuple[SessionInfo, ...]
    total: int
    matching: int
    next: str | None = None
    missing: tuple[str, ...] = ()

    def spell(self) -> str:
        """Return the list as JSON text."""
        return json.dumps({**self._asdict(), "sessions": [*map(_spelled, self.sessions)]}) + "\n"


def _spelled(info: SessionInfo) -> dict[str, object]:
    """Return the values of a session by name. Only if it was asked for them, `subscriptions` is among them."""
    row: dict[str, object] = info._asdict()
    if info.subscriptions is None:
        del row["subscriptions"]
    else:
        row["subscriptions"] = [SubscriptionInfo(*each)._asdict() for each in info.subscriptions]
    return row


async def list_sessions(state: RelayState, query: SessionQuery) -> SessionList:
    """Return the sessions of this process that match a query, after as many turns of the reactor as needed."""
    filters = [
        (_VALUES[name], re.compile(translate(pattern), re.IGNORECASE if name == ANY else 0).match)
        for name, pattern in query.filters
    ]
    compares = any(name in ("destination", ANY) for name, _ in query.filters)
    found: list[tuple[Place, SessionInfo]] = []
    behind, backwards, matching, work = query.behind, query.backwards, 0, 0
    for session in tuple(state.sessions):
        if work >= TURN:
            work = 0
            await deferLater(state.runtime.reactor, 0)
        if session.over:
            continue
        info, relay = session.info(), session.relay
        work += 1 + (subscribed(relay) // _DESTINATIONS if compares else 0)
        place = query.place(info)
        if behind is not None and (place >= behind if backwards else place <= behind):
            continue
        if all(any(map(match, values(info, relay))) for values, match in filters):
            matching += 1
            if query.subscriptions:
                info = info._replace(subscriptions=subscriptions(relay))
                work += len(info.subscriptions or ()) // _DESTINATIONS
            found.append((place, info))
            if len(found) >= 2 * query.limit:
                found = query.first(found)
    return _first(query, found, SessionList((), len(state.sessions), matching))


def merged(query: SessionQuery, lists: Iterable[SessionList], missing: Iterable[str]) -> SessionList:
    """Return the lists of several processes as one list; `missing` are the workers that did not answer."""
    each = tuple(lists)
    found = [(query.place(info), info) for one in each for info in one.sessions]
    total, matching = sum(one.total for one in each), sum(one.matching for one in each)
    return _first(query, found, SessionList((), total, matching, missing=tuple(missing)))


def _first(query: SessionQuery, found: list[tuple[Place, SessionInfo]], rest: SessionList) -> SessionList:
    shown = query.first(found)
    following = json.dumps(shown[-1][0]) if shown and rest.matching > len(shown) else None
    return rest._replace(sessions=tuple(info for _, info in shown), next=following)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")

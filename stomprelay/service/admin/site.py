"""Probes, metrics, a status page, who is connected, and requests to pause brokers and end sessions, over HTTP.

Two endpoints may have them: `metrics` the first four of the list, with which nothing can be done; `admin` all. Where
`admin` has a token, each request has to say it but probes, else it is refused with 401; where it has none, whoever can
connect may do all of that. Pages of other sites in a browser of this machine can connect, too: a request is answered
only where its `Host` is ours (see `access`), else with 421.

    GET /livez              200 while the process answers
    GET /readyz             200 while clients may come, else 503 with the reasons, in JSON (see `readiness`)
    GET /healthz            200 while clients are served, 503 while the relay stops, or holds them for a journal that
                            cannot be written
    GET /metrics            counters and gauges, in the text format of Prometheus
    GET /                   what runs, for people
    GET /brokers            the brokers and how they are, in JSON
    POST /brokers/pause     take brokers out of service: {"broker": "host:port", "within": 30}
    POST /brokers/resume    take them into service again: {"broker": "*"}
    GET /sessions           who is connected, in JSON: see `sessions`
    POST /sessions/NAME/kill    end a session: its client gets an ERROR that says so

The body of a POST is JSON, and its `content-type` must be so, which no HTML form can send; a request with an `origin`
or a `sec-fetch-site`, which browsers add for web pages, is refused. The response of those about brokers is that of
`/brokers`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from twisted.internet.defer import Deferred, DeferredLock, fail
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from stomprelay.config import Config
from stomprelay.config.address import Authority
from stomprelay.service.admin.access import Hosts, Token
from stomprelay.service.admin.metrics import metrics
from stomprelay.service.admin.readiness import alive, obstacles
from stomprelay.service.admin.readiness import spell as spell_readiness
from stomprelay.service.admin.requests import BadRequest, BrokerRequest, Unavailable, brokers, parse
from stomprelay.service.admin.server import CONNECTIONS, LONGEST_BODY, AdminSite
from stomprelay.service.admin.sessions import LARGEST, SessionList, SessionQuery, list_sessions
from stomprelay.service.admin.snapshot import SERVES, Snapshot, snapshot, spell
from stomprelay.service.admin.status import status
from stomprelay.service.brokers.brokers import Brokers, ConfiguredBroker
from stomprelay.service.connection.repeats import Repeats
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import BadEndpoint, ListeningService, listening_service
from stomprelay.service.state import RelayState

T = TypeVar("T")

READY: Final = "/readyz"
PROBES: Final = frozenset({b"/livez", b"/readyz", b"/healthz"})
"""The pages that nobody needs a token for: they are for machines that are given none, and say little."""
STATE: Final = "/state"
"""The page of a worker that has its snapshot; `STATE_WHOLE` the whole one."""
STATE_WHOLE: Final = "/state/whole"

_log: Final = logger()

_KILL: Final = re.compile(rb"/sessions/([^/]+)/kill")
_JSON: Final = "application/json"
_PHRASES: Final = {421: b"Misdirected Request"}
"""Those that Twisted does not know."""
_GUARDS: Final = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"content-security-policy": b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    b"cross-origin-resource-policy": b"same-origin",
    b"referrer-policy": b"no-referrer",
}
"""Headers of every response: no page of another site may show it, run it or embed it."""


class Response(NamedTuple):
    """The response to a request."""

    text: str
    kind: str = "text/plain; charset=utf-8"
    status: int = 200


Page = Callable[[Mapping[bytes, list[bytes]]], Response | Deferred[Response]]
"""Returns the response to a GET whose URL has these arguments, at once or later."""
Action = Callable[[bytes], Response | Deferred[Response]]
"""Does what the body of a POST asks for, and returns the response, at once or later."""
Kill = Callable[[str, bytes], Response | Deferred[Response]]
"""The same for the session of this name."""


class Shown(Protocol):
    """What the pages are about: the relay of this process, or one that has several. What takes its time is returned
    as a Deferred. `repeats` decides which lines are too many for the log.
    """

    brokers: Brokers
    repeats: Repeats

    def snapshot(self, *, whole: bool) -> Snapshot | Deferred[Snapshot]:
        """Return what it is now; for `whole` see `snapshot.snapshot`."""

    def obstacles(self) -> list[str] | Deferred[list[str]]:
        """Return why it is not to be sent clients; see `readiness.obstacles`."""

    def pause(self, found: tuple[ConfiguredBroker, ...], within: float | None) -> Deferred[None] | None:
        """Take these brokers out of service."""

    def resume(self, found: tuple[ConfiguredBroker, ...]) -> Deferred[None] | None:
        """Take these brokers into service again."""

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the sessions that are asked for. The Deferred fails with `Unavailable` where they cannot be had."""

    def kill(self, name: str) -> Deferred[bool] | bool:
        """End the session of this name, and return whether there is one. A Deferred may fail with `Unavailable`."""


class OwnRelay:
    """The relay of this process."""

    def __init__(self, state: RelayState) -> None:
        self._state = state
        self.brokers = state.brokers
        self.repeats = state.runtime.repeats
        self.pause = state.pauses.pause
        self.resume = state.pauses.resume
        self.kill = state.sessions.kill
        self._listing = DeferredLock()

    def snapshot(self, *, whole: bool) -> Snapshot:
        """Return what it is now."""
        return snapshot(self._state, whole=whole)

    def obstacles(self) -> list[str]:
        """Return why it is not to be sent clients."""
        return obstacles(self._state)

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the sessions that are asked for, after those who asked before: all together take no longer turns of
        the reactor than one.
        """
        if len(self._listing.waiting) >= CONNECTIONS:
            return fail(Unavailable("too many ask for sessions at a time"))
        return self._listing.run(lambda: Deferred.fromCoroutine(list_sessions(self._state, query)))


def refusal(status: int, reason: str) -> Response:
    """Return the JSON response to a POST that is not carried out: `status` and the reason."""
    return Response(json.dumps({"error": reason}) + "\n", _JSON, status)


class AdminPages(Resource):
    """All pages and actions by path. Twisted's own page for a path that is not there does not escape it properly.

    `token` is needed for all but `PROBES`. `repeats` decides how often it is logged that a wrong one was said.
    """

    isLeaf = True

    def __init__(
        self,
        pages: Mapping[bytes, Page],
        actions: Mapping[bytes, Action],
        kill: Kill | None,
        hosts: Hosts,
        token: Token | None,
        repeats: Repeats,
    ) -> None:
        super().__init__()
        self._pages = pages
        self._actions = actions
        self._kill = kill
        self._hosts = hosts
        self._token = token
        self._repeats = repeats

    def render(self, request: Any) -> Any:
        """Respond to GET and HEAD of pages, and to POST of actions, where the request has a `Host` of ours, and the
        token.
        """
        response = self._response(request)
        if isinstance(response, Response):
            return _begun(request, response)
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)

        def respond(found: Response) -> None:
            if not gone:
                request.write(_begun(request, found))
                request.finish()

        _ = response.addErrback(_failed).addCallback(respond)
        return NOT_DONE_YET

    def _response(self, request: Any) -> Response | Deferred[Response]:
        page, action = self._pages.get(request.path), self._action(request.path)
        refused = self._misdirected(request) or self._unauthorized(request)
        if refused is not None:
            return refused
        if page is not None and request.method in (b"GET", b"HEAD"):
            return page(request.args)
        if action is not None and request.method == b"POST":
            return _post(request, action)
        if page is not None:
            request.setHeader(b"allow", b"GET, HEAD")
            return Response("GET only\n", status=405)
        if action is not None:
            request.setHeader(b"allow", b"POST")
            return refusal(405, "POST only")
        return Response("not found\n", status=404)

    def _action(self, path: bytes) -> Action | None:
        killed = _KILL.fullmatch(path)
        if self._kill is None or killed is None:
            return self._actions.get(path)
        return partial(self._kill, unquote(killed[1]))

    def _misdirected(self, request: Any) -> Response | None:
        """Return the refusal of a request to a host that is not ours; None where it is. Every browser says one, so that
        a client of HTTP/1.0 need not.
        """
        named = request.requestHeaders.getRawHeaders(b"host", [])
        if len(named) != 1:
            fine = not named and request.clientproto == b"HTTP/1.0"
            return None if fine else Response("there must be one Host\n", status=400)
        if self._hosts.known(named[0], request.getHost(), secure=request.isSecure()):
            return None
        return Response("this host is not the relay's: name it in admin_hosts\n", status=421)

    def _unauthorized(self, request: Any) -> Response | None:
        """Return the refusal of a request that does not say the token; None where it does, or need not."""
        if self._token is None or request.path in PROBES:
            return None
        said = request.getHeader(b"authorization")
        if said is not None and self._token.said(said):
            return None
        if said is not None and self._repeats.passes("admin: wrong token"):
            address = getattr(request.getClientAddress(), "host", "a local socket")
            _log.warn("admin: a request from {address} said a wrong token", address=address)
        request.setHeader(b"www-authenticate", b'Basic realm="stomprelay", charset="UTF-8"')
        return refusal(401, "this needs the token of admin_token_file, as a bearer token or as a password")


def _begun(request: Any, response: Response) -> bytes:
    """Set status and headers of a response, and return the body to send."""
    body = response.text.encode("utf-8")
    request.setResponseCode(response.status, _PHRASES.get(response.status))
    request.setHeader(b"content-type", response.kind.encode("ascii"))
    request.setHeader(b"content-length", b"%d" % len(body))
    request.setHeader(b"cache-control", b"no-store")
    for name, value in _GUARDS.items():
        request.setHeader(name, value)
    return b"" if request.method == b"HEAD" else body


def _failed(failure: Failure) -> Response:
    if failure.check(Unavailable):
        return refusal(503, failure.getErrorMessage())
    _log.failure("a request could not be responded to", failure)
    return refusal(500, "the relay failed; see its log")


def _post(request: Any, action: Action) -> Response | Deferred[Response]:
    """Return the response of `action`, or a refusal where a web page in a browser could have sent the request."""
    if request.getHeader(b"origin") is not None or request.getHeader(b"sec-fetch-site") is not None:
        return refusal(403, "not from a web page")
    kind = request.getHeader(b"content-type") or b""
    if kind.partition(b";")[0].strip().lower() != _JSON.encode("ascii"):
        return refusal(415, f"the content-type must be {_JSON}")
    if request.excess:
        return refusal(413, f"the body must not be longer than {LONGEST_BODY} bytes")
    return action(request.content.read())


def _health(taken: Snapshot) -> Response:
    """Return the response to GET /healthz. A journal that cannot be written is reported, and workers that are away; the
    status is 503 only where sessions are held for the journal, no worker serves, or the relay stops.
    """
    journal, workers = taken.journal, taken.workers
    serve = sum(each.state == SERVES for each in workers)
    if taken.stopping:
        return Response("stopping\n", status=503)
    if workers and not serve:
        return Response("no worker serves\n", status=503)
    if journal is not None and journal.stuck:
        return Response(f"nobody is read from: the journal {journal.state}\n", status=503)
    trouble = [f"{serve} of {len(workers)} workers serve"] if serve < len(workers) else []
    if journal is not None and journal.trouble:
        trouble.append(f"the journal {journal.state}")
    return Response(f"ok, but {', and '.join(trouble)}\n" if trouble else "ok\n")


def _readiness(found: list[str]) -> Response:
    return Response(spell_readiness(found), _JSON, 503 if found else 200)


def _later(
    made: T | Deferred[T], page: Callable[[T], Response | Deferred[Response]]
) -> Deferred[Response] | Response:
    """Return the page that is made of something, or a Deferred of it where that takes its time."""
    return made.addCallback(page) if isinstance(made, Deferred) else page(made)


def _page(relay: Shown, made: Callable[[Snapshot], str], kind: str, *, whole: bool) -> Page:
    return lambda _: _later(relay.snapshot(whole=whole), lambda taken: Response(made(taken), kind))


def _watching(relay: Shown) -> dict[bytes, Page]:
    """Return the pages for machines that watch a relay."""
    return {
        b"/livez": lambda _: Response(alive(), _JSON),
        READY.encode(): lambda _: _later(relay.obstacles(), _readiness),
        b"/healthz": lambda _: _later(relay.snapshot(whole=False), _health),
        b"/metrics": _page(relay, metrics, "text/plain; version=0.0.4; charset=utf-8", whole=False),
    }


def metrics_site(shown: Shown | RelayState, reactor: Any, hosts: Iterable[Authority] = ()) -> Site:
    """Return the factory of the HTTP server of `metrics`: it has what machines watch, and does nothing. `hosts` are
    names by which it may be asked beside its own.
    """
    relay = _relay(shown)
    pages = AdminPages(_watching(relay), {}, None, Hosts(hosts), None, relay.repeats)
    return AdminSite("metrics", pages, reactor)


def _relay(shown: Shown | RelayState) -> Shown:
    return OwnRelay(shown) if isinstance(shown, RelayState) else shown


def site(
    shown: Shown | RelayState,
    reactor: Any,
    hosts: Iterable[Authority] = (),
    token: bytes | None = None,
    *,
    worker: bool = False,
) -> Site:
    """Return the factory of the HTTP server of `admin`, with all pages and actions. `hosts` are names by which it may
    be asked beside its own; `token` has to be said, where there is one. That of a `worker` has its snapshots, too.
    """
    relay = _relay(shown)

    def act(
        body: bytes,
        do: Callable[[tuple[ConfiguredBroker, ...], BrokerRequest], Deferred[None] | None],
        *,
        timed: bool,
    ) -> Response | Deferred[Response]:
        try:
            request = parse(body, timed=timed)
        except BadRequest as error:
            return refusal(400, str(error))
        found = relay.brokers.find(request.broker)
        if not found:
            return refusal(404, f"there is no broker {json.dumps(request.broker)}")
        done = do(found, request)
        return _later(done, lambda _: listed({}))

    def pause(found: tuple[ConfiguredBroker, ...], request: BrokerRequest) -> Deferred[None] | None:
        return relay.pause(found, request.within)

    def resume(found: tuple[ConfiguredBroker, ...], _request: BrokerRequest) -> Deferred[None] | None:
        return relay.resume(found)

    def kill(name: str, body: bytes) -> Response | Deferred[Response]:
        if body.strip() not in (b"", b"{}"):
            return refusal(400, "the body must be {}")
        missing = refusal(404, f"there is no session {json.dumps(name)}")
        killed = Response(json.dumps({"killed": name}) + "\n", _JSON)
        return _later(relay.kill(name), lambda found: killed if found else missing)

    def sessions(arguments: Mapping[bytes, list[bytes]]) -> Response | Deferred[Response]:
        try:
            query = SessionQuery.read(arguments)
        except BadRequest as error:
            return refusal(400, str(error))
        return relay.sessions(query).addCallback(lambda found: Response(found.spell(), _JSON))

    def overview(taken: Snapshot) -> Deferred[Response]:
        listing = relay.sessions(SessionQuery(limit=LARGEST))
        return listing.addCallback(lambda found: Response(status(taken, found), "text/html; charset=utf-8"))

    listed = _page(relay, brokers, _JSON, whole=True)
    pages: dict[bytes, Page] = {
        b"/": lambda _: _later(relay.snapshot(whole=False), overview),
        b"/brokers": listed,
        b"/sessions": sessions,
        **_watching(relay),
    }
    if worker:
        pages[STATE.encode()] = _page(relay, spell, _JSON, whole=False)
        pages[STATE_WHOLE.encode()] = _page(relay, spell, _JSON, whole=True)
    actions: dict[bytes, Action] = {
        b"/brokers/pause": lambda body: act(body, pause, timed=True),
        b"/brokers/resume": lambda body: act(body, resume, timed=False),
    }
    secret = None if token is None else Token(token)
    return AdminSite("admin", AdminPages(pages, actions, kill, Hosts(hosts), secret, relay.repeats), reactor)


def admin_services(
    config: Config, shown: Shown | RelayState, reactor: Any, *, worker: bool = False
) -> list[ListeningService]:
    """Return what listens on the endpoints `admin` and `metrics` of a configuration, of which `CONNECTIONS` may be open
    each. Raises `BadEndpoint`, which names the key.
    """
    made = []
    if config.admin is not None:
        pages = site(shown, reactor, config.admin_hosts, config.admin_token, worker=worker)
        try:
            made.append(listening_service(reactor, "admin", config.admin, pages, config.admin_tls))
        except BadEndpoint as error:
            said = str(error)
            raise BadEndpoint(f"admin_{said}" if said.startswith("tls.") else f"admin: {said}") from error
    if config.metrics is not None:
        pages = metrics_site(shown, reactor, config.admin_hosts)
        try:
            made.append(listening_service(reactor, "metrics", config.metrics, pages))
        except BadEndpoint as error:
            raise BadEndpoint(f"metrics: {error}") from error
    return made

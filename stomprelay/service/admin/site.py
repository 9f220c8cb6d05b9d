"""Health, metrics, a status page, who is connected, and requests to pause brokers and end sessions, over HTTP.

There is no authentication: nothing that is shown is secret, but every client that can connect may do all of that.
So let it listen on the loopback interface, or on a UNIX socket. Pages of other sites in a browser of this machine can
connect, too: a request is answered only where its `Host` is ours (see `hosts`), else with 421.

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

No client holds a connection for longer than it has use for it: a request has `REQUEST` seconds, its response as many,
and of more than `CONNECTIONS` the one that waits longest gives way.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

from twisted.internet.defer import Deferred, DeferredLock, fail
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from stomprelay.config.address import Authority
from stomprelay.service.admin.hosts import Hosts
from stomprelay.service.admin.metrics import metrics
from stomprelay.service.admin.requests import BadRequest, BrokerRequest, Unavailable, brokers, parse
from stomprelay.service.admin.sessions import LARGEST, SessionList, SessionQuery, list_sessions
from stomprelay.service.admin.snapshot import SERVES, Snapshot, snapshot, spell
from stomprelay.service.admin.status import status
from stomprelay.service.brokers.brokers import Brokers, ConfiguredBroker
from stomprelay.service.log import logger
from stomprelay.service.state import RelayState

LONGEST_BODY: Final = 4096
"""Bytes of a request's body, at most."""
REQUEST: Final = 30.0
"""Seconds until a request must have come, from the beginning of its connection or the response before; and seconds that
the last response may wait to be read.
"""
CONNECTIONS: Final = 32
"""Connections at a time, at most."""

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


class Shown(Protocol):
    """What the pages are about: the relay of this process, or one that has several. What takes its time is returned
    as a Deferred.
    """

    brokers: Brokers

    def snapshot(self, *, whole: bool) -> Snapshot | Deferred[Snapshot]:
        """Return what it is now; for `whole` see `snapshot.snapshot`."""

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
        self.pause = state.pauses.pause
        self.resume = state.pauses.resume
        self.kill = state.sessions.kill
        self._listing = DeferredLock()

    def snapshot(self, *, whole: bool) -> Snapshot:
        """Return what it is now."""
        return snapshot(self._state, whole=whole)

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


class BoundedRequest(Request):
    """A request of whose body no more than `LONGEST_BODY` is kept; `excess` is set where more came."""

    content: Any
    excess = False

    def gotLength(self, length: int | None) -> None:
        """Start the body in memory: Twisted would write one with a large announced `length` to a file."""
        super().gotLength(0)

    def handleContentChunk(self, data: bytes) -> None:
        """Append a part of the body; set `excess` instead once the body would exceed `LONGEST_BODY`."""
        if self.excess or self.content.tell() + len(data) > LONGEST_BODY:
            self.excess = True
        else:
            super().handleContentChunk(data)


class AdminPages(Resource):
    """All pages and actions by path. Twisted's own page for a path that is not there does not escape it properly."""

    isLeaf = True

    def __init__(
        self,
        pages: Mapping[bytes, Page],
        actions: Mapping[bytes, Action],
        kill: Callable[[str, bytes], Response | Deferred[Response]],
        hosts: Hosts,
    ) -> None:
        super().__init__()
        self._pages = pages
        self._actions = actions
        self._kill = kill
        self._hosts = hosts

    def render(self, request: Any) -> Any:
        """Respond to GET and HEAD of pages, and to POST of actions, where the request has a `Host` of ours."""
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
        misdirected = self._misdirected(request)
        if misdirected is not None:
            return misdirected
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
        return self._actions.get(path) if killed is None else partial(self._kill, unquote(killed[1]))

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


class AdminChannel(HTTPChannel):
    """A connection to the admin endpoint, whose time does not begin anew with every byte."""

    site: "AdminSite"
    transport: Any

    def connectionMade(self) -> None:
        """Begin the time of the first request, and take a place among the connections."""
        super().connectionMade()
        self.site.waiting(self)

    def resetTimeout(self) -> None:
        """Do nothing, where Twisted would give a request its time again for every part of it that comes."""

    def requestDone(self, request: Any) -> None:
        """Begin the time of the next request: one was responded to."""
        self.site.waiting(self)
        super().requestDone(request)

    def timeoutConnection(self) -> None:
        """Close the connection: no request came in time."""
        self.loseConnection()

    def loseConnection(self) -> None:
        """Close the connection when all is written, or abort it after `REQUEST` seconds."""
        if self._abortingCall is None:
            self._abortingCall = self.callLater(REQUEST, self.forceAbortClient)
        super().loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Give the place away: the connection ended."""
        self.site.left(self)
        super().connectionLost(reason)


class AdminSite(Site):
    """A site without an access log, which would have little but the requests of monitoring. It has room for
    `CONNECTIONS` connections.
    """

    noisy = False
    protocol: Callable[[], Any] = AdminChannel

    def __init__(self, pages: AdminPages, reactor: Any) -> None:
        super().__init__(
            pages,
            requestFactory=BoundedRequest,
            parsePOSTFormSubmission=False,
            reactor=reactor,
            timeout=REQUEST,
        )
        self._waiting: OrderedDict[AdminChannel, None] = OrderedDict()

    def waiting(self, channel: AdminChannel) -> None:
        """Record that a connection waits for its next request. The one that has waited longest is aborted where there
        are too many.
        """
        self._waiting[channel] = None
        self._waiting.move_to_end(channel)
        if len(self._waiting) > CONNECTIONS:
            oldest, _ = self._waiting.popitem(last=False)
            oldest.transport.abortConnection()

    def left(self, channel: AdminChannel) -> None:
        """Forget a connection that ended."""
        self._waiting.pop(channel, None)

    def logPrefix(self) -> str:
        """Return the name that Twisted's log lines have for it."""
        return "admin"

    def startFactory(self) -> None:
        """Open no log file, which Twisted's own site would do."""

    def log(self, request: Any) -> None:
        """Write no line to an access log."""


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


def _later(taken: Any, page: Callable[[Any], Response | Deferred[Response]]) -> Response | Deferred[Response]:
    """Return a page about what was taken, such as a snapshot, or a Deferred of it where that takes its time."""
    response: Response | Deferred[Response]
    response = taken.addCallback(page) if isinstance(taken, Deferred) else page(taken)
    return response


def site(
    shown: Shown | RelayState, reactor: Any, hosts: Iterable[Authority] = (), *, worker: bool = False
) -> Site:
    """Return the factory of the HTTP server, with all pages and actions. `hosts` are names by which it may be asked
    beside its own. That of a `worker` has its snapshots, too.
    """
    relay: Shown = OwnRelay(shown) if isinstance(shown, RelayState) else shown

    def page(made: Callable[[Snapshot], str], kind: str, *, whole: bool) -> Page:
        return lambda _: _later(relay.snapshot(whole=whole), lambda taken: Response(made(taken), kind))

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
        return _later(relay.sessions(query), lambda found: Response(found.spell(), _JSON))

    def overview(taken: Snapshot) -> Response | Deferred[Response]:
        listing = relay.sessions(SessionQuery(limit=LARGEST))
        return _later(listing, lambda found: Response(status(taken, found), "text/html; charset=utf-8"))

    listed = page(brokers, _JSON, whole=True)
    pages: dict[bytes, Page] = {
        b"/": lambda _: _later(relay.snapshot(whole=False), overview),
        b"/healthz": lambda _: _later(relay.snapshot(whole=False), _health),
        b"/metrics": page(metrics, "text/plain; version=0.0.4; charset=utf-8", whole=False),
        b"/brokers": listed,
        b"/sessions": sessions,
    }
    if worker:
        pages[STATE.encode()] = page(spell, _JSON, whole=False)
        pages[STATE_WHOLE.encode()] = page(spell, _JSON, whole=True)
    actions: dict[bytes, Action] = {
        b"/brokers/pause": lambda body: act(body, pause, timed=True),
        b"/brokers/resume": lambda body: act(body, resume, timed=False),
    }
    return AdminSite(AdminPages(pages, actions, kill, Hosts(hosts)), reactor)

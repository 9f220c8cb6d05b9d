"""Health, metrics, a status page and requests to pause brokers, over HTTP.

There is no authentication: nothing that is shown is secret, but every client that can connect may pause brokers.
So let it listen on the loopback interface, or on a UNIX socket.

    GET /healthz            200 while clients are served, 503 while the relay stops, or holds them for a journal that
                            cannot be written
    GET /metrics            counters and gauges, in the text format of Prometheus
    GET /                   what runs, for people
    GET /brokers            the brokers and how they are, in JSON
    POST /brokers/pause     take brokers out of service: {"broker": "host:port", "within": 30}
    POST /brokers/resume    take them into service again: {"broker": "*"}

The body of a POST is JSON, and its `content-type` must be so, which no HTML form can send; a request with an `origin`,
which browsers add for web pages, is refused. The response is that of `/brokers`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from stomprelay.service.admin.metrics import metrics
from stomprelay.service.admin.requests import BadRequest, BrokerRequest, brokers, parse
from stomprelay.service.admin.status import status
from stomprelay.service.brokers.brokers import ConfiguredBroker
from stomprelay.service.state import RelayState

LONGEST_BODY: Final = 4096
"""Bytes of a request's body, at most."""

_JSON: Final = "application/json"


class Response(NamedTuple):
    """The response to a request."""

    text: str
    kind: str = "text/plain; charset=utf-8"
    status: int = 200


Page = Callable[[], Response]
"""Returns the response to a GET."""
Action = Callable[[bytes], Response]
"""Does what the body of a POST asks for, and returns the response."""


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

    def __init__(self, pages: Mapping[bytes, Page], actions: Mapping[bytes, Action]) -> None:
        super().__init__()
        self._pages = pages
        self._actions = actions

    def render(self, request: Any) -> bytes:
        """Respond to GET and HEAD of pages, and to POST of actions."""
        page, action = self._pages.get(request.path), self._actions.get(request.path)
        if page is not None and request.method in (b"GET", b"HEAD"):
            response = page()
        elif action is not None and request.method == b"POST":
            response = _post(request, action)
        elif page is not None:
            response = Response("GET only\n", status=405)
            request.setHeader(b"allow", b"GET, HEAD")
        elif action is not None:
            response = refusal(405, "POST only")
            request.setHeader(b"allow", b"POST")
        else:
            response = Response("not found\n", status=404)
        body = response.text.encode("utf-8")
        request.setResponseCode(response.status)
        request.setHeader(b"content-type", response.kind.encode("ascii"))
        request.setHeader(b"content-length", b"%d" % len(body))
        request.setHeader(b"cache-control", b"no-store")
        request.setHeader(b"x-content-type-options", b"nosniff")
        return b"" if request.method == b"HEAD" else body


def _post(request: Any, action: Action) -> Response:
    """Return the response of `action`, or a refusal where a web page in a browser could have sent the request."""
    if request.getHeader(b"origin") is not None:
        return refusal(403, "not from a web page")
    kind = request.getHeader(b"content-type") or b""
    if kind.partition(b";")[0].strip().lower() != _JSON.encode("ascii"):
        return refusal(415, f"the content-type must be {_JSON}")
    if request.excess:
        return refusal(413, f"the body must not be longer than {LONGEST_BODY} bytes")
    return action(request.content.read())


class AdminSite(Site):
    """A site without an access log, which would have little but the requests of monitoring."""

    noisy = False

    def logPrefix(self) -> str:
        """Return the name that Twisted's log lines have for it."""
        return "admin"

    def startFactory(self) -> None:
        """Open no log file, which Twisted's own site would do."""

    def log(self, request: Any) -> None:
        """Write no line to an access log."""


def _health(state: RelayState) -> Response:
    """Return the response to GET /healthz. A journal that cannot be written is reported; the status is 503 only
    where all sessions are held for it, or the relay stops.
    """
    journal = state.journal
    if state.sessions.stopping:
        return Response("stopping\n", status=503)
    if journal is None or not journal.trouble:
        return Response("ok\n")
    text = f"the journal {journal.state}\n"
    if journal.stuck:
        return Response(f"nobody is read from: {text}", status=503)
    return Response(f"ok, but {text}")


def site(state: RelayState, reactor: Any) -> Site:
    """Return the factory of the HTTP server, with all pages and actions."""

    def act(
        body: bytes, do: Callable[[tuple[ConfiguredBroker, ...], BrokerRequest], None], *, timed: bool
    ) -> Response:
        try:
            request = parse(body, timed=timed)
        except BadRequest as error:
            return refusal(400, str(error))
        found = state.brokers.find(request.broker)
        if not found:
            return refusal(404, f"there is no broker {json.dumps(request.broker)}")
        do(found, request)
        return Response(brokers(state), _JSON)

    def pause(found: tuple[ConfiguredBroker, ...], request: BrokerRequest) -> None:
        state.pauses.pause(found, request.within)

    def resume(found: tuple[ConfiguredBroker, ...], _request: BrokerRequest) -> None:
        state.pauses.resume(found)

    pages: dict[bytes, Page] = {
        b"/": lambda: Response(status(state), "text/html; charset=utf-8"),
        b"/healthz": lambda: _health(state),
        b"/metrics": lambda: Response(metrics(state), "text/plain; version=0.0.4; charset=utf-8"),
        b"/brokers": lambda: Response(brokers(state), _JSON),
    }
    actions: dict[bytes, Action] = {
        b"/brokers/pause": lambda body: act(body, pause, timed=True),
        b"/brokers/resume": lambda body: act(body, resume, timed=False),
    }
    pages_and_actions = AdminPages(pages, actions)
    return AdminSite(
        pages_and_actions, requestFactory=BoundedRequest, parsePOSTFormSubmission=False, reactor=reactor
    )

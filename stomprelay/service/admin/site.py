"""Health, metrics, a status page and a few orders over HTTP.

Nothing here asks who wants to know, nothing here is secret, and whoever reaches it may pause brokers: let it listen on
the loopback interface, or on a UNIX socket.

    GET /healthz            200 while clients are served, 503 while the relay stops, or holds them for a journal that
                            cannot be written
    GET /metrics            counters and gauges, in the text format of Prometheus
    GET /                   what runs, for people
    GET /brokers            the brokers and how they are, in JSON
    POST /brokers/pause     take brokers out of service: {"broker": "host:port", "within": 30}
    POST /brokers/resume    take them into service again: {"broker": "*"}

An order is JSON and says so in its `content-type`, which a form of another site cannot; and none is taken from a web
page at all, which its `origin` would tell of. It is answered as `/brokers` is.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from stomprelay.service.admin.metrics import metrics
from stomprelay.service.admin.requests import BadOrder, Order, brokers, read
from stomprelay.service.admin.status import status
from stomprelay.service.brokers.brokers import Entry
from stomprelay.service.relay import RelayService

LONGEST_BODY: Final = 4096
"""Octets of an order, at most."""

_JSON: Final = "application/json"


class Answer(NamedTuple):
    """What is answered to a request."""

    text: str
    kind: str = "text/plain; charset=utf-8"
    status: int = 200


Page = Callable[[], Answer]
"""What a GET is answered."""
Deed = Callable[[bytes], Answer]
"""What is done with the body of a POST, and answered."""


def refusal(status: int, reason: str) -> Answer:
    """An order that is not carried out, and why."""
    return Answer(json.dumps({"error": reason}) + "\n", _JSON, status)


class Bounded(Request):
    """A request of whose body no more is kept than an order needs; `excess` is set where more came."""

    content: Any
    excess = False

    def gotLength(self, length: int | None) -> None:
        """Whatever length it announces, it is kept in memory."""
        super().gotLength(0)

    def handleContentChunk(self, data: bytes) -> None:
        """Part of the body came."""
        if self.excess or self.content.tell() + len(data) > LONGEST_BODY:
            self.excess = True
        else:
            super().handleContentChunk(data)


class Pages(Resource):
    """All there is, by its path. Twisted's own pages for what there is not are not used: they quote badly."""

    isLeaf = True

    def __init__(self, pages: Mapping[bytes, Page], deeds: Mapping[bytes, Deed]) -> None:
        super().__init__()
        self._pages = pages
        self._deeds = deeds

    def render(self, request: Any) -> bytes:
        """Answer GET, HEAD, and POST where there is something to do."""
        page, deed = self._pages.get(request.path), self._deeds.get(request.path)
        if page is not None and request.method in (b"GET", b"HEAD"):
            answer = page()
        elif deed is not None and request.method == b"POST":
            answer = _ordered(request, deed)
        elif page is not None:
            answer = Answer("GET only\n", status=405)
            request.setHeader(b"allow", b"GET, HEAD")
        elif deed is not None:
            answer = refusal(405, "POST only")
            request.setHeader(b"allow", b"POST")
        else:
            answer = Answer("not found\n", status=404)
        body = answer.text.encode("utf-8")
        request.setResponseCode(answer.status)
        request.setHeader(b"content-type", answer.kind.encode("ascii"))
        request.setHeader(b"content-length", b"%d" % len(body))
        request.setHeader(b"cache-control", b"no-store")
        request.setHeader(b"x-content-type-options", b"nosniff")
        return b"" if request.method == b"HEAD" else body


def _ordered(request: Any, deed: Deed) -> Answer:
    """Do it, unless it could be a web page in somebody's browser that asks."""
    if request.getHeader(b"origin") is not None:
        return refusal(403, "not from a web page")
    kind = request.getHeader(b"content-type") or b""
    if kind.partition(b";")[0].strip().lower() != _JSON.encode("ascii"):
        return refusal(415, f"the content-type must be {_JSON}")
    if request.excess:
        return refusal(413, f"the body must not be longer than {LONGEST_BODY} bytes")
    return deed(request.content.read())


class Quiet(Site):
    """Without an access log: it would hold little but the probes of monitors."""

    noisy = False

    def logPrefix(self) -> str:
        """As Twisted's lines call it."""
        return "admin"

    def startFactory(self) -> None:
        """No log to open."""

    def log(self, request: Any) -> None:
        """No line to write."""


def _health(service: RelayService) -> Answer:
    """A journal that cannot be written is told; it makes the relay unfit only where nobody is read from for it."""
    journal = service.journal
    if service.stopping:
        return Answer("stopping\n", status=503)
    if journal is None or not journal.trouble:
        return Answer("ok\n")
    told = f"the journal {journal.state}\n"
    return Answer(f"nobody is read from: {told}", status=503) if journal.stuck else Answer(f"ok, but {told}")


def site(service: RelayService, reactor: Any) -> Site:
    """The factory of the HTTP server."""

    def act(body: bytes, carry_out: Callable[[tuple[Entry, ...], Order], None], *, timed: bool) -> Answer:
        try:
            order = read(body, timed=timed)
        except BadOrder as error:
            return refusal(400, str(error))
        entries = service.roster.named(order.broker)
        if not entries:
            return refusal(404, f"there is no broker {json.dumps(order.broker)}")
        carry_out(entries, order)
        return Answer(brokers(service), _JSON)

    def pause(entries: tuple[Entry, ...], order: Order) -> None:
        service.switchover.pause(entries, order.within)

    def resume(entries: tuple[Entry, ...], _order: Order) -> None:
        service.switchover.resume(entries)

    pages: dict[bytes, Page] = {
        b"/": lambda: Answer(status(service), "text/html; charset=utf-8"),
        b"/healthz": lambda: _health(service),
        b"/metrics": lambda: Answer(metrics(service), "text/plain; version=0.0.4; charset=utf-8"),
        b"/brokers": lambda: Answer(brokers(service), _JSON),
    }
    deeds: dict[bytes, Deed] = {
        b"/brokers/pause": lambda body: act(body, pause, timed=True),
        b"/brokers/resume": lambda body: act(body, resume, timed=False),
    }
    return Quiet(Pages(pages, deeds), requestFactory=Bounded, parsePOSTFormSubmission=False, reactor=reactor)

"""Health, metrics and a status page over HTTP.

Nothing here asks who wants to know, and nothing here is secret; still, let it listen on the loopback interface.

    /healthz    200 while clients are accepted, 503 while the relay stops
    /metrics    counters and gauges, in the text format of Prometheus
    /           what runs, for people
"""

from collections.abc import Callable, Iterator, Mapping
from html import escape
from itertools import islice
from typing import Any, Final, NamedTuple

from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import Site

from stomprelay import __version__
from stomprelay.relay.tally import COUNTERS
from stomprelay.service.relayservice import RelayService

SHOWN: Final = 1000
"""Sessions on the status page, at most."""

_HEAD: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>stomprelay</title><style>
body { font: 14px/1.5 sans-serif; margin: 2em; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ccc; }
td.number, th.number { text-align: right; }
</style></head><body>
"""


class Answer(NamedTuple):
    """What is answered to a GET."""

    text: str
    kind: str = "text/plain; charset=utf-8"
    status: int = 200


class Pages(Resource):
    """All there is, by its path. Twisted's own pages for what there is not are not used: they quote badly."""

    isLeaf = True

    def __init__(self, pages: Mapping[bytes, Callable[[], Answer]]) -> None:
        super().__init__()
        self._pages = pages

    def render(self, request: Request) -> bytes:
        """Answer GET and HEAD."""
        page = self._pages.get(request.path)
        if page is None:
            answer = Answer("not found\n", status=404)
        elif request.method not in (b"GET", b"HEAD"):
            answer = Answer("GET only\n", status=405)
            request.setHeader(b"allow", b"GET, HEAD")
        else:
            answer = page()
        body = answer.text.encode("utf-8")
        request.setResponseCode(answer.status)
        request.setHeader(b"content-type", answer.kind.encode("ascii"))
        request.setHeader(b"content-length", b"%d" % len(body))
        request.setHeader(b"cache-control", b"no-store")
        request.setHeader(b"x-content-type-options", b"nosniff")
        return b"" if request.method == b"HEAD" else body


class Quiet(Site):
    """Without an access log: it would hold little but the probes of monitors."""

    noisy = False

    def logPrefix(self) -> str:
        """As Twisted's lines call it."""
        return "admin"

    def startFactory(self) -> None:
        """No log to open."""

    def log(self, request: Request) -> None:
        """No line to write."""


def site(service: RelayService, reactor: Any) -> Site:
    """The factory of the HTTP server."""
    pages = {
        b"/": lambda: Answer(status(service), "text/html; charset=utf-8"),
        b"/healthz": lambda: Answer("stopping\n", status=503) if service.stopping else Answer("ok\n"),
        b"/metrics": lambda: Answer(metrics(service), "text/plain; version=0.0.4; charset=utf-8"),
    }
    return Quiet(Pages(pages), parsePOSTFormSubmission=False, reactor=reactor)


def metrics(service: RelayService) -> str:
    """Every counter of every listener, and how many sessions there are now."""
    return "".join(f"{line}\n" for line in _metrics(service))


def _metrics(service: RelayService) -> Iterator[str]:
    receptions = [(_label(name), each) for name, each in service.receptions.items()]
    yield "# HELP stomprelay_info the version that runs"
    yield "# TYPE stomprelay_info gauge"
    yield f'stomprelay_info{{version="{_label(__version__)}"}} 1'
    yield "# HELP stomprelay_sessions clients that are there now"
    yield "# TYPE stomprelay_sessions gauge"
    for name, reception in receptions:
        yield f'stomprelay_sessions{{listener="{name}"}} {len(reception.sessions)}'
    yield "# HELP stomprelay_connections connections to clients and brokers that are open now"
    yield "# TYPE stomprelay_connections gauge"
    yield f"stomprelay_connections {service.stage.sockets}"
    for counter, meaning in COUNTERS.items():
        yield f"# HELP stomprelay_{counter}_total {meaning}"
        yield f"# TYPE stomprelay_{counter}_total counter"
        for name, reception in receptions:
            yield f'stomprelay_{counter}_total{{listener="{name}"}} {reception.tally[counter]}'


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def status(service: RelayService) -> str:
    """What runs, as a page."""
    state = "stopping" if service.stopping else "running"
    return "".join(
        (
            _HEAD,
            f"<h1>stomprelay {escape(__version__)}, {state}</h1>\n",
            "<h2>Listeners</h2>\n",
            _table(("listener", "endpoint", "broker", "#sessions", "#ever", "#errors"), _listeners(service)),
            f"<h2>Sessions: {service.sessions}</h2>\n",
            _table(
                ("session", "listener", "client", "versions", "#bytes from client", "#bytes from broker"),
                _sessions(service),
            ),
            "</body></html>\n",
        )
    )


def _listeners(service: RelayService) -> Iterator[tuple[object, ...]]:
    for reception in service.receptions.values():
        listener, tally = reception.listener, reception.tally
        yield (
            listener.name,
            listener.endpoint,
            listener.upstream.broker,
            len(reception.sessions),
            tally["sessions_opened"],
            tally["errors_sent"] + tally["errors_passed"],
        )


def _sessions(service: RelayService) -> Iterator[tuple[object, ...]]:
    everyone = (session for reception in service.receptions.values() for session in reception.sessions)
    for session in islice(everyone, SHOWN):
        glance = session.glance()
        versions = f"{glance.client} to {glance.broker}" if glance.broker else glance.client or "none yet"
        yield (glance.name, session.place.name, glance.peer, versions, glance.sent, glance.received)


def _table(names: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> str:
    """A column whose name begins with # is of numbers."""
    classes = [' class="number"' if name.startswith("#") else "" for name in names]
    pieces = ["<table><tr>"]
    pieces += [
        f"<th{kind}>{escape(name.lstrip('#'))}</th>" for name, kind in zip(names, classes, strict=True)
    ]
    pieces.append("</tr>\n")
    for row in rows:
        pieces.append("<tr>")
        pieces += [f"<td{kind}>{escape(str(value))}</td>" for value, kind in zip(row, classes, strict=True)]
        pieces.append("</tr>\n")
    pieces.append("</table>\n")
    return "".join(pieces)

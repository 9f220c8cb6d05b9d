"""The console: a page that speaks STOMP with a listener of this relay, for tests and debugging.

    GET /console            the page; its scripts and its style are below this path
    GET /console/listeners  the listeners: names and versions, in JSON; "closed" is why no console may use a listener
    POST /console/open      {"listener": NAME}: asks for a ticket, which opens one WebSocket within `TICKET` seconds
    GET /console/socket     that WebSocket; its subprotocols are a version and the ticket

The page's script speaks STOMP itself. This module turns the page's connection into the connection of a client of the
listener. The client has an ordinary session, which limits, journal and the list of sessions include. The ticket
replaces the token, because not every browser sends the token with a WebSocket. The ticket is not in the address, so no
proxy logs it.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from stomprelay.relay.effects import KILLED
from stomprelay.relay.inputs import Killed
from stomprelay.relay.model.listener import Listener, Web
from stomprelay.service.admin.pages import JSON, Asked, Response, own_page, refusal
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.service.state import RelayState

PAGE: Final = b"/console"
LISTENERS: Final = b"/console/listeners"
OPEN: Final = b"/console/open"
SOCKET: Final = b"/console/socket"
FILES: Final = {
    PAGE: ("console.html", "text/html; charset=utf-8"),
    b"/console.css": ("console.css", "text/css; charset=utf-8"),
    b"/stomp.js": ("stomp.js", "text/javascript; charset=utf-8"),
    b"/console.js": ("console.js", "text/javascript; charset=utf-8"),
}

CONSOLES: Final = 8
"""The most consoles at a time, including consoles that have a ticket and are not connected yet."""
TICKET: Final = 30.0
"""Seconds for which a ticket is valid."""
_TICKET_WORD: Final = b"ticket."


Accept = Callable[[str, object, Web], LegProtocol | None]
"""Begins a session for a client of this listener, from this address. Returns its protocol; None while the relay stops.
"""


class Console:
    """Connects pages of this relay to its listeners. `accept` begins their sessions; `seconds` is a clock."""

    def __init__(self, state: RelayState, accept: Accept, seconds: Callable[[], float]) -> None:
        self._state = state
        self._accept = accept
        self._seconds = seconds
        self._tickets: dict[bytes, tuple[str, float]] = {}
        self._legs: list[LegProtocol] = []

    def listeners(self, _: Asked) -> Response:
        """Return the listeners, in JSON."""
        rows = [
            {
                "name": each.listener.name,
                "versions": [version.decode("ascii") for version in sorted(each.listener.versions)],
                "closed": _closed(each.listener),
            }
            for each in self._state.sessions.listeners.values()
        ]
        return Response(json.dumps({"listeners": rows}) + "\n", JSON)

    def open(self, body: bytes) -> Response:
        """Return a ticket for the listener that a POST names, or the reason why there is none."""
        try:
            values = json.loads(body)
        except (ValueError, RecursionError):
            values = None
        name = values.get("listener") if isinstance(values, dict) and len(values) == 1 else None
        if not isinstance(name, str):
            return refusal(400, 'the body must be {"listener": NAME}')
        found = self._state.sessions.listeners.get(name)
        if found is None:
            return refusal(404, f"there is no listener {json.dumps(name)}")
        closed = _closed(found.listener)
        if closed:
            return refusal(403, closed)
        if self._state.sessions.stopping or self._state.sessions.draining:
            return refusal(503, "no new client is let in")
        self._forget()
        if len(self._tickets) + len(self._legs) >= CONSOLES:
            return refusal(503, f"there are {CONSOLES} consoles already")
        ticket = os.urandom(24).hex()
        self._tickets[ticket.encode()] = name, self._seconds() + TICKET
        return Response(json.dumps({"ticket": ticket}) + "\n", JSON)

    def connect(self, request: Any) -> Response | None:
        """Let the request's connection become the connection of a client of the ticket's listener, and return None. If
        that is not allowed, return a refusal.
        """
        headers = request.requestHeaders
        if request.method != b"GET":
            request.setHeader(b"allow", b"GET")
            return refusal(405, "GET only")
        if not own_page(headers, secure=request.isSecure()):
            return refusal(403, "not from a web page but the relay's own")
        name = self._redeemed(headers.getRawHeaders(b"sec-websocket-protocol", []))
        if name is None:
            return refusal(403, f"this needs a ticket of POST {OPEN.decode()}, which is good once")
        found = self._state.sessions.listeners.get(name)
        if found is None or _closed(found.listener):
            return refusal(404, "the listener is gone")
        origins = tuple(each.decode("latin-1") for each in headers.getRawHeaders(b"origin", []))
        web = replace(found.listener.web or Web(), path=SOCKET.decode(), origins=origins)
        leg = self._accept(name, request.getClientAddress(), web)
        if leg is None:
            return refusal(503, "the relay stops")
        self._legs.append(leg)
        request.channel.upgrade(leg, _head(request))
        return None

    def end(self) -> None:
        """End all consoles: the endpoint was closed, and the next endpoint may have another token."""
        self._tickets.clear()
        ended = {id(each.leg) for each in self._legs}
        for session in tuple(self._state.sessions) if ended else ():
            if id(session.relay.client) in ended:
                session.handle(Killed(KILLED))

    def _forget(self) -> None:
        now = self._seconds()
        self._tickets = {ticket: each for ticket, each in self._tickets.items() if now < each[1]}
        self._legs = [each for each in self._legs if each.transport is not None]

    def _redeemed(self, offered: list[bytes]) -> str | None:
        """Use up the ticket in these subprotocols. Return its listener's name; None if no ticket is valid."""
        self._forget()
        for each in b",".join(offered).split(b","):
            word = each.strip()
            if word.startswith(_TICKET_WORD):
                listener, _ = self._tickets.pop(word.removeprefix(_TICKET_WORD), (None, 0.0))
                return listener
        return None


def _closed(listener: Listener) -> str:
    """Return why no console may use a listener; "" if a console may use it."""
    if listener.tls is not None and listener.tls.require_client_certificate:
        return "this listener asks each client for a certificate, and a console has none to show to it"
    return ""


def _head(request: Any) -> bytes:
    lines = [
        b"%b: %b\r\n" % (name, value)
        for name, values in request.requestHeaders.getAllRawHeaders()
        for value in values
    ]
    return b"GET %b HTTP/1.1\r\n%b\r\n" % (SOCKET, b"".join(lines))

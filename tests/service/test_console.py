"""The console as it is asked for: who gets a ticket, who a WebSocket, and what becomes of it on the way to a broker."""

import json
from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from stomprelay.relay.model.listener import ServerTLS, Web
from stomprelay.service.admin.console import CONSOLES, TICKET
from stomprelay.service.admin.site import site
from tests.service.harness import CONNECT, CONNECTED, FakeTransport, RelayHarness, listener, movable
from tests.service.test_admin import JSON, Answer
from tests.service.test_admin_access import TOKEN, basic
from tests.service.test_websocket import BINARY, CLOSE, ended, masked, said

HERE = "http://localhost:61680"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
PATHS = ("/console", "/console.css", "/console.js", "/stomp.js", "/console/listeners")


class Site:
    """An endpoint `admin` with a console, and a token."""

    def __init__(self, relay: RelayHarness, *, console: bool = True) -> None:
        self.relay = relay
        accept = relay.service.clients.accept if console else None
        self.factory: Any = site(relay.service.state, relay.reactor, (), TOKEN, guarded=True, console=accept)

    def ask(self, path: str, method: str = "GET", *body: bytes, **headers: str) -> Answer:
        """The answer to a request that says the token."""
        headers.setdefault("authorization", basic(TOKEN))
        return Answer(self.relay, path, method, *body, factory=self.factory, **headers)

    def open(self, body: str = '{"listener": "public"}', **headers: str) -> Answer:
        """The answer to who wants a ticket."""
        return self.ask("/console/open", "POST", body.encode(), **{"content_type": JSON, **headers})

    def ticket(self) -> str:
        """A ticket for the listener."""
        found: str = json.loads(self.open().text)["ticket"]
        return found

    def handshake(self, protocols: str, **headers: str | None) -> FakeTransport:
        """A browser that asks for the WebSocket; `behind` is what it sends at once behind that."""
        behind = headers.pop("behind", None) or ""
        shown = {
            "host": "localhost:61680",
            "upgrade": "websocket",
            "connection": "Upgrade",
            "sec-websocket-key": KEY,
            "sec-websocket-version": "13",
            "sec-websocket-protocol": protocols,
            "origin": HERE,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}\r\n" for name, value in shown.items() if value is not None]
        place = IPv4Address("TCP", "192.0.2.9", 4711)
        transport = FakeTransport(self.factory.buildProtocol(place), place)
        transport.hostAddr = IPv4Address("TCP", "127.0.0.1", 61680)
        transport.protocol.makeConnection(transport)
        request = f"GET /console/socket HTTP/1.1\r\n{''.join(lines)}\r\n".encode()
        transport.sends(request + behind.encode("latin-1"))
        return transport

    def session(self) -> tuple[FakeTransport, FakeTransport]:
        """A console that is connected, and its broker."""
        client = self.handshake(f"v12.stomp, ticket.{self.ticket()}")
        assert client.written().startswith(b"HTTP/1.1 101 ")
        client.sends(masked(BINARY, CONNECT))
        broker = self.relay.broker()
        assert broker.written().startswith(b"CONNECT\n")
        broker.sends(CONNECTED)
        assert CONNECTED in client.written()
        return client, broker


def status(transport: FakeTransport) -> int:
    """That of an answer."""
    return int(transport.written().split()[1])


@pytest.fixture
def admin() -> Site:
    """One in front of two brokers, whose listener speaks no WebSocket itself."""
    return Site(RelayHarness(listener(upstream=movable())))


def test_it_is_off_unless_it_is_enabled(admin: Site) -> None:
    """Nothing of it is there then, and nothing points to it."""
    off = Site(admin.relay, console=False)
    for path in (*PATHS, "/console/socket"):
        assert off.ask(path).status == 404
    assert off.open().status == 404
    assert status(off.handshake("v12.stomp, ticket.x", authorization=basic(TOKEN))) == 404
    assert "/console/open" not in json.loads(off.ask("/overview").text)["orders"]
    assert "/console/open" in json.loads(admin.ask("/overview").text)["orders"]


@pytest.mark.parametrize("path", PATHS)
def test_it_is_for_who_has_the_token(admin: Site, path: str) -> None:
    """Like all that is no probe; what it sends has the policy of every page."""
    assert admin.ask(path, authorization="Bearer wrong").status == 401
    answer = admin.ask(path)
    assert answer.status == 200
    assert "trusted-types 'none'" in answer.headers["content-security-policy"]
    assert admin.ask(path, host="attacker.example").status == 421


# A ticket


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("", 400, "the body must be"),
        ("[", 400, "the body must be"),
        ("[1]", 400, "the body must be"),
        ('{"listener": 1}', 400, "the body must be"),
        ('{"listener": "public", "more": 1}', 400, "the body must be"),
        ('{"listener": "other"}', 404, 'there is no listener "other"'),
    ],
)
def test_what_is_no_request_for_a_ticket(admin: Site, body: str, code: int, words: str) -> None:
    """It says what is wrong."""
    answer = admin.open(body)
    assert (answer.status, answer.error.startswith(words)) == (code, True)


def test_who_gets_no_ticket(admin: Site) -> None:
    """Pages of other sites, who has no token, and nobody where the relay lets no client in; nor is one good then."""
    ticket = admin.ticket()
    assert admin.open(authorization="Bearer wrong").status == 401
    assert admin.open(origin="http://attacker.example").status == 403
    assert admin.open(host="attacker.example").status == 421
    assert admin.open(content_type="text/plain").status == 415
    admin.relay.service.state.sessions.drain(True)
    assert (admin.open().status, admin.open().error) == (503, "no new client is let in")
    admin.relay.service.state.sessions.drain(False)
    admin.relay.service.state.sessions.stopping = True
    assert admin.open().status == 503
    assert status(admin.handshake(f"v12.stomp, ticket.{ticket}")) == 503


def test_a_listener_that_asks_for_certificates() -> None:
    """A console has none, and must not get in without."""
    relay = RelayHarness(listener(upstream=movable()))
    sessions = relay.service.state.sessions.listeners["public"]
    admin = Site(relay)
    ticket = admin.ticket()
    sessions.listener = listener(upstream=movable(), tls=ServerTLS("c", "k", "ca", True))
    assert (admin.open().status, "certificate" in admin.open().error) == (403, True)
    [row] = json.loads(admin.ask("/console/listeners").text)["listeners"]
    assert "certificate" in row["closed"]
    assert status(admin.handshake(f"v12.stomp, ticket.{ticket}")) == 404


# The WebSocket


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "http://attacker.example"}, 403),
        ({"origin": "https://localhost:61680"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 101),
        ({"host": "attacker.example:61680", "origin": "http://attacker.example:61680"}, 421),
        ({"origin": None}, 101),
        ({"authorization": "Bearer wrong"}, 101),
        ({"upgrade": None}, 426),
        ({"sec_websocket_version": "8"}, 426),
    ],
)
def test_who_gets_a_websocket(admin: Site, headers: dict[str, str | None], code: int) -> None:
    """Who has a ticket, from our own page or no page at all; a ticket stands in for the token."""
    assert status(admin.handshake(f"v12.stomp, ticket.{admin.ticket()}", **headers)) == code


@pytest.mark.parametrize("protocols", ["v12.stomp", "v12.stomp, ticket.", "v12.stomp, ticket.0123", "ticket"])
def test_without_a_ticket(admin: Site, protocols: str) -> None:
    """The token does not help: a page of another site would have it said by the browser."""
    refused = admin.handshake(protocols, authorization=basic(TOKEN)).written()
    assert refused.startswith(b"HTTP/1.1 403 ")
    assert b"this needs a ticket" in refused


def test_a_ticket_is_good_once_and_soon(admin: Site) -> None:
    """Not twice, not late, not for a wrong version."""
    offered = f"v12.stomp, ticket.{admin.ticket()}"
    assert status(admin.handshake(offered)) == 101
    assert status(admin.handshake(offered)) == 403
    late = f"v12.stomp, ticket.{admin.ticket()}"
    admin.relay.reactor.advance(TICKET)
    assert status(admin.handshake(late)) == 403
    assert status(admin.handshake(f"v13.stomp, ticket.{admin.ticket()}")) == 400


def test_other_methods(admin: Site) -> None:
    """There are none."""
    answer = admin.ask("/console/socket", "POST", b"{}", content_type=JSON)
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
    assert admin.ask("/console/open").status == 405


def test_bytes_behind_the_handshake(admin: Site) -> None:
    """The connection is cut: no browser sends any, and a proxy may have taken them for a body. A body is refused."""
    client = admin.handshake(f"v12.stomp, ticket.{admin.ticket()}", behind="GET / HTTP/1.1\r\n")
    assert client.ends[0] == "abort"
    assert (
        status(admin.handshake(f"v12.stomp, ticket.{admin.ticket()}", behind="{}", content_length="2")) == 400
    )


def test_too_many(admin: Site) -> None:
    """Those that are about to connect count, too; who leaves and a ticket that is too old make room."""
    clients = [admin.session()[0] for _ in range(CONSOLES - 1)]
    admin.ticket()
    assert (admin.open().status, admin.open().error) == (503, f"there are {CONSOLES} consoles already")
    clients[0].disconnects()
    admin.ticket()
    assert admin.open().status == 503
    admin.relay.reactor.advance(TICKET)
    assert admin.open().status == 200


def test_the_limits_of_the_listener() -> None:
    """Hold for a console: clients at a time, bytes of a message."""
    admin = Site(RelayHarness(listener(upstream=movable(), web=Web(message=1000), clients=1)))
    client, _ = admin.session()
    refused = admin.handshake(f"v12.stomp, ticket.{admin.ticket()}")
    refused.sends(masked(BINARY, CONNECT))
    assert b"the limit of this listener is 1" in refused.written()
    client.sends(masked(BINARY, b"x" * 1001))
    assert client.written().startswith(said(CLOSE, b"")[:1])
    assert admin.relay.service.state.sessions.listeners["public"].counters["clients_refused"] == 1


def test_nobody_listens_with_it_any_more(admin: Site) -> None:
    """Its consoles are ended, and its tickets are good no more: another one may have another token."""
    client, _ = admin.session()
    ticket = admin.ticket()
    admin.factory.stopFactory()
    error, _, rest = client.written().partition(b"\0")
    assert b"message:the session was ended" in error
    assert rest.endswith(ended(1000))
    assert len(admin.relay.service.state.sessions) == 0
    assert status(admin.handshake(f"v12.stomp, ticket.{ticket}")) == 403

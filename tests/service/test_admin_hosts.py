"""Who may ask the admin endpoint, by which name, and for how long."""

import json
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionAborted
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers

from stomprelay.config import Config
from stomprelay.config.address import authority
from stomprelay.service.admin.pages import Hosts, own_page
from stomprelay.service.admin.server import CONNECTIONS, REQUEST
from stomprelay.service.admin.site import site
from stomprelay.service.relay import RelayService
from tests.service.harness import RelayHarness, listener
from tests.service.sockets import ANY_PORT, reactor
from tests.service.test_admin import Answer, order

LOOPBACK = IPv4Address("TCP", "127.0.0.1", 61680)
LAN = IPv4Address("TCP", "10.0.0.5", 61680)
V6 = IPv6Address("TCP", "fe80::1%eth0", 61680)
MAPPED = IPv6Address("TCP", "::ffff:10.0.0.5", 61680)
SOCKET = UNIXAddress(b"/run/admin")
LISTED = (authority("relay.example.net"), authority("Other.example.net:8443"))


OURS: list[tuple[Any, str]] = [
    (LOOPBACK, "127.0.0.1:61680 127.9.9.9:61680 localhost:61680 LocalHost.:61680 [::1]:61680"),
    (IPv6Address("TCP", "::1", 61680), "[0:0::1]:61680"),
    (LAN, "localhost:61680 10.0.0.5:61680 relay.example.net relay.example.net:1"),
    (V6, "[fe80::1]:61680"),
    (MAPPED, "10.0.0.5:61680 [::ffff:10.0.0.5]:61680"),
    (IPv4Address("TCP", "127.0.0.1", 80), "localhost"),
    (SOCKET, "localhost 127.0.0.1:61680 other.example.net:8443"),
]
NOT_OURS: list[tuple[Any, list[str]]] = [
    (
        LOOPBACK,
        [f"{name}.example:61680" for name in ("attacker", "127.0.0.1.attacker", "localhost.attacker")],
    ),
    (LOOPBACK, ["127.0.0.1:61681", "localhost", "10.0.0.5:61680", "127.1:61680", "2130706433:61680", ""]),
    (LOOPBACK, ["user@localhost:61680", "localhost:61680/x", "localhost:61680 ", "localhost:+61680"]),
    (LOOPBACK, ["::1:61680", "[::1:61680", "l\xf6calhost:61680"]),
    (LAN, ["attacker.example:61680", "10.0.0.6:61680", "other.example.net", "other.example.net:8444"]),
    (SOCKET, ["attacker.example"]),
]
"""By the address that a connection came to: what is said as `Host`."""


@pytest.mark.parametrize(
    ("host", "local"), [(host, local) for local, hosts in OURS for host in hosts.split()]
)
def test_a_host_that_is_ours(host: str, local: Any) -> None:
    """Loopback by any name, the address that the connection came to, what is listed."""
    assert Hosts(LISTED).known(host.encode(), local, secure=False)


@pytest.mark.parametrize(("host", "local"), [(host, local) for local, hosts in NOT_OURS for host in hosts])
def test_a_host_that_is_not_ours(host: str, local: Any) -> None:
    """Names that anybody can have point here, other ports, what is no host."""
    assert not Hosts(LISTED).known(host.encode("latin-1"), local, secure=False)


def test_the_port_that_is_not_said() -> None:
    """It is that of the protocol."""
    for port, secure in ((80, False), (443, True)):
        for told in (False, True):
            assert Hosts(()).known(b"localhost", IPv4Address("TCP", "127.0.0.1", port), secure=told) is (
                told is secure
            )


@pytest.mark.parametrize(
    "path", ["/", "/overview", "/healthz", "/livez", "/readyz", "/metrics", "/brokers", "/nothing"]
)
def test_a_page_of_another_site_reads_nothing(pair: RelayHarness, path: str) -> None:
    """Its own name points to this machine: the browser would let it read the response."""
    answer = Answer(pair, path, host="attacker.example")
    assert answer.status == 421
    assert answer.text == "this host is not the relay's: name it in admin_hosts\n"


def test_a_page_of_another_site_pauses_nothing(pair: RelayHarness) -> None:
    """Neither under a name of its own nor from its own place; the browser says in several ways whose page it is."""
    body = '{"broker": "*"}'
    assert order(pair, "pause", body, host="attacker.example").status == 421
    places = ("http://localhost:8080", "https://localhost", "http://localhost.", "http://localhost/")
    for origin in ("https://evil.example", *places, "null", ""):
        refused = order(pair, "pause", body, origin=origin)
        assert (refused.status, "access-control-allow-origin" in refused.headers) == (403, False)
    assert order(pair, "pause", body, sec_fetch_site="same-origin").status == 403
    for site_ in ("cross-site", "same-site", "none", ""):
        assert order(pair, "pause", body, sec_fetch_site=site_).status == 403
        assert order(pair, "pause", body, sec_fetch_site=site_, origin="http://localhost").status == 403
    assert not any(each.broker.health.paused for each in pair.service.state.brokers)
    assert order(pair, "pause", body).status == 200


@pytest.mark.parametrize(
    ("headers", "secure", "ours"),
    [
        ({}, False, True),
        ({"origin": "http://relay:61680"}, False, True),
        ({"origin": "http://relay:61680", "sec-fetch-site": "same-origin"}, False, True),
        ({"origin": "https://relay:61680"}, True, True),
        # By a proxy that speaks TLS to the browser: it is the browser that says that both are one site.
        ({"origin": "https://relay:61680"}, False, False),
        ({"origin": "https://relay:61680", "sec-fetch-site": "same-origin"}, False, True),
        ({"origin": "http://relay:61680", "sec-fetch-site": "same-origin"}, True, False),
        ({"origin": "http://relay:61680"}, True, False),
        ({"sec-fetch-site": "same-origin"}, False, False),
        ({"origin": "http://relay:61681"}, False, False),
        ({"origin": "http://relay"}, False, False),
        ({"origin": "relay:61680"}, False, False),
    ],
)
def test_a_page_of_ours(headers: dict[str, str], secure: bool, ours: bool) -> None:
    """It was loaded from the place that it asks; who says nothing of a page is none."""
    said = Headers({"host": ["relay:61680"], **{name: [value] for name, value in headers.items()}})
    assert own_page(said, secure=secure) is ours


def test_what_is_said_twice_is_not_ours() -> None:
    """Whoever reads the other one could think otherwise."""
    for name, values in (("origin", ["http://relay"] * 2), ("host", ["relay"] * 2)):
        said = Headers({"host": ["relay"], "origin": ["http://relay"], name: values})
        assert not own_page(said, secure=False)


def test_a_page_of_another_site_embeds_nothing(pair: RelayHarness) -> None:
    """Not as a frame, not as a script, not as an image."""
    headers = Answer(pair, "/").headers
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= {
        each.strip() for each in headers["content-security-policy"].split(";")
    }
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def raw(pair: RelayHarness, *requests: bytes) -> tuple[StringTransport, Any]:
    """A connection to the admin endpoint, with what was written to it, and its protocol."""
    channel = site(pair.service.state, pair.reactor).buildProtocol(None)
    transport = StringTransport(hostAddress=LOOPBACK)
    channel.makeConnection(transport)
    for each in requests:
        channel.dataReceived(each)
    return transport, channel


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /healthz HTTP/1.0\r\n", b"200"),
        (b"GET /healthz HTTP/1.0\r\nhost: attacker.example\r\n", b"421"),
        (b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:61680\r\n", b"200"),
        (b"GET /healthz HTTP/1.1\r\n", b"400"),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost:61680\r\nhost: attacker.example\r\n", b"400"),
        (b"GET http://localhost:61680/healthz HTTP/1.1\r\nhost: attacker.example\r\n", b"421"),
    ],
)
def test_the_host_on_the_wire(pair: RelayHarness, head: bytes, status: bytes) -> None:
    """One, but for a client so old that it is no browser."""
    transport, _ = raw(pair, head, b"\r\n")
    assert transport.value().split()[1] == status


# For how long


def test_a_request_that_comes_byte_by_byte(pair: RelayHarness) -> None:
    """Its time is that of the whole, not that of each byte."""
    transport, channel = raw(pair)
    for octet in b"GET / HTTP/1.1\r\n"[:15]:
        channel.dataReceived(b"%c" % octet)
        pair.reactor.advance(REQUEST / 16)
    assert not transport.disconnecting
    channel.dataReceived(b"x")
    pair.reactor.advance(REQUEST / 16)
    assert transport.disconnecting


def test_a_body_without_end(pair: RelayHarness) -> None:
    """Nothing of it is kept, and its time is that of the request."""
    head = b"POST /brokers/pause HTTP/1.1\r\nhost: localhost:61680\r\ncontent-type: application/json\r\n"
    transport, channel = raw(pair, head, b"content-length: 1000000000000\r\n\r\n")
    for _ in range(10):
        channel.dataReceived(b"x" * 10_000)
        pair.reactor.advance(REQUEST / 10)
    assert transport.disconnecting
    assert len(channel.requests[0].content.getvalue()) <= 4096


def test_a_response_that_nobody_reads(pair: RelayHarness) -> None:
    """The connection is cut when it could not be closed in time."""
    transport, _ = raw(pair, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert transport.disconnecting
    assert not transport.disconnected
    pair.reactor.advance(REQUEST)
    assert transport.disconnected


def test_too_many_connections(pair: RelayHarness) -> None:
    """The one that has waited longest for its request makes room; nobody is kept out by those that hold on."""
    factory = site(pair.service.state, pair.reactor)
    opened = []
    for _ in range(CONNECTIONS):
        channel = factory.buildProtocol(None)
        transport = StringTransport(hostAddress=LOOPBACK)
        channel.makeConnection(transport)
        opened.append((transport, channel))
    first, busy = opened[0]
    busy.dataReceived(b"GET /healthz HTTP/1.1\r\nhost: localhost:61680\r\n\r\n")
    for _ in range(2):
        factory.buildProtocol(None).makeConnection(StringTransport(hostAddress=LOOPBACK))
    assert not first.disconnected
    assert [transport.disconnected for transport, _ in opened[:4]] == [False, True, True, False]
    for transport, channel in opened[3:]:
        assert not transport.disconnected
        channel.connectionLost(Failure(ConnectionAborted()))
    for _ in range(CONNECTIONS - 3):
        factory.buildProtocol(None).makeConnection(StringTransport(hostAddress=LOOPBACK))
    assert not first.disconnected


# Who asks it


@pytest_twisted.ensureDeferred
async def test_names_of_the_configuration() -> None:
    """They are the endpoint's, too."""
    config = Config((listener(endpoint=ANY_PORT),), admin=ANY_PORT, admin_hosts=LISTED)
    pages = RelayService(config, reactor).admin.getServiceNamed("admin").factory
    channel = pages.buildProtocol(None)
    transport = StringTransport(hostAddress=LOOPBACK)
    channel.makeConnection(transport)
    channel.dataReceived(b"GET /brokers HTTP/1.1\r\nhost: relay.example.net\r\nconnection: close\r\n\r\n")
    head, _, body = transport.value().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(body)["brokers"]

"""Who the client is, told to brokers: by the PROXY protocol, and by a header of CONNECT."""

from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.testing import MemoryReactorClock

from stomprelay.config.address import broker
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.network.endpoints import client_endpoint
from stomprelay.service.network.proxy_protocol import LOCAL, ProxyHeaderEndpoint, header
from tests.e2e.certificates import Authority
from tests.service.harness import CONNECT, FakeTransport, RelayHarness, listener, movable, upstream
from tests.service.sockets import Accepting, Peer, reactor

SIGNATURE = bytes.fromhex("0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A")
"""The first twelve octets, as section 2.2 of the specification has them."""
CLIENT = IPv4Address("TCP", "192.0.2.7", 4711)
LISTENER = IPv4Address("TCP", "192.0.2.9", 61613)


# The octets


@pytest.mark.parametrize(
    ("source", "destination", "octets"),
    [
        (CLIENT, LISTENER, "21 11 000C C0000207 C0000209 1267 F0AD"),
        (
            IPv6Address("TCP", "fe80::1%eth0", 4711),
            IPv6Address("TCP", "2001:db8::2", 61613),
            "21 21 0024FE80 0000 0000 0000 0000 0000 0000 00012001 0DB8 0000 0000 0000 0000 0000 00021267 F0AD",
        ),
    ],
)
def test_the_octets(source: Any, destination: Any, octets: str) -> None:
    """Version 2, PROXY, TCP over IPv4 or IPv6, addresses and ports; a zone means something to its host alone."""
    assert header(source, destination) == SIGNATURE + bytes.fromhex(octets)


# In front of a connection


def _connect(endpoint: ProxyHeaderEndpoint, host: object, peer: object) -> tuple[bytes, Peer]:
    """Connect in memory; return what was written, and the protocol."""
    memory: MemoryReactorClock = endpoint.endpoint._reactor  # type: ignore[attr-defined]
    accepting = Accepting()
    fired: list[Peer] = []
    _ = endpoint.connect(accepting).addCallback(fired.append)
    transport = FakeTransport(memory.tcpClients.pop()[2].buildProtocol(None), peer)
    transport.hostAddr = host
    transport.protocol.makeConnection(transport)
    [peer_protocol] = fired
    return transport.written(), peer_protocol


def test_a_connection_of_the_relays_own() -> None:
    """A probe's header has the ends of its own connection: RabbitMQ 3.10 wants addresses in every header."""
    endpoint = client_endpoint(MemoryReactorClock(), broker("tcp://192.0.2.1"), ClientTLS(), introduces=True)
    assert isinstance(endpoint, ProxyHeaderEndpoint)
    here, there = IPv4Address("TCP", "192.0.2.9", 40000), IPv4Address("TCP", "192.0.2.1", 61613)
    written, protocol = _connect(endpoint, here, there)
    assert written == header(here, there)
    assert type(protocol) is Peer
    assert _connect(endpoint, UNIXAddress(None), there)[0] == LOCAL


@pytest.mark.parametrize("address", ["ssl://localhost:{}", "tls:localhost:{}:trustRoots={}"])
@pytest_twisted.ensureDeferred
async def test_before_tls(tmp_path: Path, address: str) -> None:
    """The header comes in plain octets, then the hello of TLS; by whichever address TLS is asked for."""
    authority = Authority(tmp_path, "authority")
    accepting = Accepting()
    door = reactor.listenTCP(0, accepting, interface="127.0.0.1")
    place = broker(address.format(door.getHost().port, str(tmp_path)))
    secured = ClientTLS(ca=str(authority.file))
    endpoint = client_endpoint(reactor, place, secured, introduces=True)
    assert isinstance(endpoint, ProxyHeaderEndpoint)
    first = header(CLIENT, LISTENER)
    attempt = ProxyHeaderEndpoint(endpoint.endpoint, first).connect(Accepting())
    server = await accepting.accepted.get()
    octets = await server.receive_bytes(len(first) + 1)
    assert octets == first + b"\x16"
    server.transport.abortConnection()
    ours = await attempt
    await ours.gone()
    await door.stopListening()


# In the relay


def _client(harness: RelayHarness, connect: bytes = CONNECT, address: Any = CLIENT) -> FakeTransport:
    """A client at this address, that connected to `LISTENER`, asks for a session."""
    transport = FakeTransport(harness.reactor.tcpServers[0][1].buildProtocol(address), address)
    transport.hostAddr = LISTENER
    transport.protocol.makeConnection(transport)
    transport.sends(connect)
    return transport


def test_behind_a_proxy_that_introduces_its_clients() -> None:
    """The addresses are those that the proxy told."""
    harness = RelayHarness(listener(endpoint="haproxy:tcp:61613", upstream=upstream(proxy_protocol=True)))
    client = harness.client()
    client.sends(b"PROXY TCP4 198.51.100.9 203.0.113.1 5555 443\r\n" + CONNECT)
    told = header(IPv4Address("TCP", "198.51.100.9", 5555), IPv4Address("TCP", "203.0.113.1", 443))
    assert harness.broker().written().startswith(told + b"CONNECT\n")


def test_each_broker_of_a_session() -> None:
    """The next broker is introduced to the client as the first one was, though the client may be gone by then."""
    harness = RelayHarness(listener(upstream=movable(proxy_protocol=True, confirm=True)))
    client = _client(harness)
    told = header(CLIENT, LISTENER)
    first = harness.broker()
    assert first.written().startswith(told)
    first.sends(b"CONNECTED\nversion:1.2\n\n\0")
    client.sends(b"SEND\ndestination:/queue/a\n\nhello\0")
    client.disconnects()
    first.disconnects()
    harness.reactor.advance(1)
    assert harness.broker().written().startswith(told + b"CONNECT\n")


# A header of CONNECT

FORGED = b"CONNECT\naccept-version:1.2\nhost:/\nX-Client:192.0.2.66\n\n\0"


def test_the_address_in_connect() -> None:
    """It is the client's own, whatever the client says; one on no network has none."""
    harness = RelayHarness(listener(upstream=upstream(client_address_header=b"x-client")))
    _client(harness, FORGED)
    assert harness.broker().written().endswith(b"\nx-client:192.0.2.7\n\n\0")
    _client(harness, FORGED, UNIXAddress(None))
    assert b"lient:" not in harness.broker().written()

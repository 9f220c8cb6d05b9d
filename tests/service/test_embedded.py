"""The embedded broker: its clients in memory and on sockets, its endpoint in memory, its start and its stop."""

from typing import Any

import pytest
from twisted.internet.address import UNIXAddress

from stomprelay.service.embedded import BrokerService
from stomprelay.service.network.endpoints import BadEndpoint
from tests.service.harness import CONNECT, SEND, BrokerHarness, FakeTransport, result
from tests.service.sockets import reactor


def reads(transport: FakeTransport) -> bool:
    """Whether the service reads from this client now."""
    return bool(transport.reading)


def test_a_client_that_is_not_read_from_is_not_silent() -> None:
    """It is we who do not listen; when we do again, its time begins anew."""
    harness = BrokerHarness(unread=10)
    beating = CONNECT.replace(b"\n\n", b"\nheart-beat:1000,0\n\n")
    client = harness.client(connect=beating)
    client.fills()
    order = SEND.replace(b"\n\n", b"\nreceipt:of-some-length\n\n")
    client.sends(order)
    client.sends(order)
    assert not reads(client)
    harness.reactor.advance(60)
    assert client.ends == []
    client.drains()
    assert reads(client)
    harness.reactor.pump([0.1] * 15)
    assert client.ends == []
    harness.reactor.pump([0.1] * 10)
    assert b"heart-beat missed" in client.written()


def test_the_log_names_the_session_and_no_secret(log: list[str]) -> None:
    """One line for each thing worth one; an ERROR is a warning."""
    harness = BrokerHarness()
    secret = CONNECT.replace(b"host:/\n", b"host:/\nlogin:alice\npasscode:sesame\n")
    good, bad = harness.client(connect=secret), harness.client(connect=secret)
    bad.sends(b"NONSENSE\n\nsesame\0")
    good.disconnects()
    name = f"{harness.service.broker.name.decode()}-session"
    assert f"info: embedded broker: connected: {name}-1: STOMP 1.2" in log
    assert f"info: embedded broker: vanished: {name}-1: client left without DISCONNECT" in log
    (error,) = (line for line in log if line.startswith("warn: "))
    assert error.startswith(f"warn: embedded broker: error: {name}-2: ")
    assert not [line for line in log if "sesame" in line or "alice" in line]


# The service around them


def test_a_client_that_lingers_is_a_connection_and_no_client() -> None:
    """The stop waits for it all the same."""
    harness = BrokerHarness()
    staying, leaving = harness.client(), harness.client()
    assert (len(harness.service.clients), harness.service.runtime.sockets) == (2, 2)
    leaving.sends(b"DISCONNECT\n\n\0")
    assert (len(harness.service.clients), harness.service.runtime.sockets) == (1, 2)
    staying.disconnects()
    stopped: Any = harness.service.stopService()
    assert not stopped.called
    leaving.disconnects()
    result(stopped)


def test_no_two_brokers_give_the_same_ids() -> None:
    """Clients may remember ids, and a broker that was started anew must not seem the old one."""
    sessions = set()
    for _ in range(2):
        caller = BrokerHarness().caller()
        caller.sends(CONNECT)
        sessions.add(caller.written().partition(b"session:")[2].partition(b"\n")[0])
    assert len(sessions) == 2


def test_stopping_tells_every_client() -> None:
    """And waits until they have gone."""
    harness = BrokerHarness()
    clients = [harness.caller(data=CONNECT) for _ in range(3)]
    stopped: Any = harness.service.stopService()
    for client in clients:
        assert b"ERROR\nmessage:the broker is stopping\n" in client.written()
        assert client.ends == ["half"]
        assert not stopped.called
        client.disconnects()
    result(stopped)
    assert harness.reactor.getDelayedCalls() == []


def test_nobody_is_received_while_stopping() -> None:
    """A client that was about to be accepted is not."""
    harness = BrokerHarness()
    _ = harness.service.stopService()
    assert harness.reactor.tcpServers[0][1].buildProtocol(UNIXAddress(None)) is None


def test_a_bad_endpoint() -> None:
    """Recorded before anything starts."""
    with pytest.raises(BadEndpoint, match="nonsense:1"):
        BrokerService(reactor, listen=["nonsense:1"])

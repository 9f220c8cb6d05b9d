"""The embedded broker: its clients in memory and on sockets, its endpoint in memory, its start and its stop."""

from typing import Any

import pytest
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import maybeDeferred
from twisted.logger import LogLevel, capturedLogs, formatEvent

from stomprelay.service.embedded import BrokerService
from stomprelay.service.network.endpoints import BadEndpoint
from tests.service.harness import CONNECT, SEND, BrokerHarness, FakeTransport
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


def test_the_log_names_the_session_and_no_secret() -> None:
    """One line for each thing worth one; an ERROR is a warning."""
    harness = BrokerHarness()
    secret = CONNECT.replace(b"host:/\n", b"host:/\nlogin:alice\npasscode:sesame\n")
    with capturedLogs() as logs:
        good, bad = harness.client(connect=secret), harness.client(connect=secret)
        bad.sends(b"NONSENSE\n\nsesame\0")
        good.disconnects()
    name = harness.service.broker.name.decode()
    lines = [(event["log_level"], formatEvent(event)) for event in logs]
    assert (LogLevel.info, f"embedded broker: connected: {name}-session-1: STOMP 1.2") in lines
    assert (
        LogLevel.info,
        f"embedded broker: vanished: {name}-session-1: client left without DISCONNECT",
    ) in lines
    (error,) = (text for level, text in lines if level is LogLevel.warn)
    assert error.startswith(f"embedded broker: error: {name}-session-2: ")
    assert not [text for _, text in lines if "sesame" in text or "alice" in text]


# The service around them


def stop(harness: BrokerHarness) -> list[Any]:
    """Begin to stop; the list holds what `stopService` fired with, once it did."""
    results: list[Any] = []
    _ended = maybeDeferred(harness.service.stopService).addBoth(results.append)
    return results


def test_a_client_that_lingers_is_a_connection_and_no_client() -> None:
    """The stop waits for it all the same."""
    harness = BrokerHarness()
    staying, leaving = harness.client(), harness.client()
    assert (len(harness.service.clients), harness.service.runtime.sockets) == (2, 2)
    leaving.sends(b"DISCONNECT\n\n\0")
    assert (len(harness.service.clients), harness.service.runtime.sockets) == (1, 2)
    staying.disconnects()
    stopped = stop(harness)
    assert stopped == []
    leaving.disconnects()
    assert stopped == [None]


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
    stopped: list[object] = []
    _ = harness.service.stopService().addCallback(stopped.append)
    for client in clients:
        assert b"ERROR\nmessage:the broker is stopping\n" in client.written()
        assert client.ends == ["half"]
        assert stopped == []
        client.disconnects()
    assert stopped == [None]
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

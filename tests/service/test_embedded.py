"""The embedded broker: its clients in memory and on sockets, its endpoint in memory, its start and its stop."""

import os
import socket
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock

from stomprelay.service.embedded import BrokerService, MemoryEndpoint
from stomprelay.service.network.endpoints import BadEndpoint
from tests.service.harness import CONNECT, SEND, BrokerHarness, FakeTransport, result
from tests.service.sockets import Accepting, reactor


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


# Its endpoint: pairs of sockets, their ends, and the descriptors that they cost


FULL = OSError(24, "Too many open files")


def attempt(memory: Any, inside: Accepting) -> Deferred[Any]:
    """A connection to `inside`, of which all is done that this reactor can do at once."""
    coming = MemoryEndpoint(memory, inside).connect(Accepting())
    memory.advance(0)
    return coming


def test_no_sockets_left() -> None:
    """The attempt fails, as one over the network would."""
    with patch.object(socket, "socketpair", side_effect=FULL):
        coming = attempt(MemoryReactorClock(), Accepting())
    with pytest.raises(OSError, match="Too many open files"):
        result(coming)


@pytest.mark.parametrize("full", [False, True])
def test_our_own_ends_are_closed(full: bool) -> None:
    """Once the reactor has its own, so that a connection costs two descriptors, not four; or cannot take them."""
    offered: list[int] = []

    class Adopting(MemoryReactorClock):
        def adoptStreamConnection(self, fileDescriptor: int, addressFamily: int, factory: Any) -> None:  # noqa: N802, N803
            offered.append(fileDescriptor)
            assert addressFamily == socket.AF_UNIX
            if full:
                raise FULL
            factory.buildProtocol(None)

    inside = Accepting()
    coming = attempt(Adopting(), inside)
    if full:
        with pytest.raises(OSError, match="Too many open files"):
            result(coming)
    else:
        assert result(coming) not in inside.accepted.pending
        assert (len(offered), len(inside.accepted.pending)) == (2, 1)
    for descriptor in offered:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)

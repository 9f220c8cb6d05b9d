"""The embedded broker as a service: where it listens, whom it serves, how it stops."""

import socket
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import maybeDeferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs, formatEvent

from stomprelay.broker.bounds import DEFAULTS, Bounds
from stomprelay.service.brokerservice import GRACE, BrokerService
from stomprelay.service.endpoints import BadEndpoint
from tests.service.house import CONNECT, SEND
from tests.service.pub import Pub
from tests.service.sockets import ANY_PORT, call, port_of, reactor, running
from tests.service.talker import Talker

SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
STOPPING = b"ERROR\nmessage:the broker is stopping\n"


def stop(pub: Pub) -> list[Any]:
    """Begin to stop; the list holds what `stopService` fired with, once it did."""
    results: list[Any] = []
    maybeDeferred(pub.service.stopService).addBoth(results.append)
    return results


# Where it listens


def test_it_listens_on_every_endpoint() -> None:
    """All lead to the same broker."""
    pub = Pub("tcp:61613", "tcp:61614:interface=127.0.0.1")
    assert [server[0] for server in pub.reactor.tcpServers] == [61613, 61614]
    consumer, publisher = pub.client(0), pub.client(1)
    consumer.says(SUBSCRIBE)
    publisher.says(SEND)
    assert b"\n\nhello\0" in consumer.written()


def test_it_need_not_listen() -> None:
    """For a relay's own use `memory` is enough."""
    memory = MemoryReactorClock()
    service = BrokerService(memory)
    service.privilegedStartService()
    service.startService()
    assert memory.tcpServers == []
    assert service.broker.bounds is DEFAULTS


def test_an_endpoint_that_cannot_be() -> None:
    """It is told when the service is made."""
    with pytest.raises(BadEndpoint, match="^endpoint 'pigeon:x:y': "):
        BrokerService(MemoryReactorClock(), listen=["pigeon:x:y"])


@pytest_twisted.ensureDeferred
async def test_a_port_that_is_taken() -> None:
    """It is told when the service starts, with the number of the endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
        service = BrokerService(reactor, listen=[ANY_PORT, place])
        with capturedLogs(), pytest.raises(SystemExit, match=f"^broker-2: cannot listen on {place}: "):
            service.startService()
    await service._doors.getServiceNamed("broker-1").stopService()


# Whom it serves


@pytest_twisted.ensureDeferred
async def test_clients_of_sockets_and_of_memory_meet() -> None:
    """Over real sockets: what one sends reaches the other, wherever each came in."""
    service = BrokerService(reactor, listen=[ANY_PORT])
    async with running(service):
        outside = await call(service._doors.getServiceNamed("broker-1"))
        factory = Factory.forProtocol(Talker)
        factory.noisy = False
        inside = await service.memory.connect(factory)
        assert isinstance(inside, Talker)
        for talker in (outside, inside):
            talker.transport.write(CONNECT)
            assert (await talker.frame()).startswith(b"CONNECTED\nversion:1.2\n")
        assert len(service.clients) == len(service.broker) == 2
        for one, other in ((outside, inside), (inside, outside)):
            one.transport.write(SUBSCRIBE.replace(b"\n\n", b"\nreceipt:s\n\n"))
            await one.frame()
            other.transport.write(SEND)
            assert (await one.frame()).endswith(b"\n\nhello\0")
            one.transport.write(b"UNSUBSCRIBE\nid:0\nreceipt:u\n\n\0")
            await one.frame()
        for talker in (outside, inside):
            talker.transport.write(b"DISCONNECT\nreceipt:bye\n\n\0")
            assert await talker.frame() == b"RECEIPT\nreceipt-id:bye\n\n\0"
            await talker.ended()
            talker.transport.loseConnection()
            await talker.gone()
    assert (len(service.clients), len(service.broker)) == (0, 0)


def test_clients_are_those_whose_connections_are_not_closed() -> None:
    """One that lingers is a socket, and no client any more."""
    pub = Pub()
    staying, leaving = pub.client(), pub.client()
    assert (len(pub.service.clients), pub.service.stage.sockets) == (2, 2)
    leaving.says(b"DISCONNECT\n\n\0")
    assert (len(pub.service.clients), pub.service.stage.sockets) == (1, 2)
    leaving.goes()
    assert (len(pub.service.clients), pub.service.stage.sockets) == (1, 1)
    staying.goes()
    assert (len(pub.service.clients), pub.service.stage.sockets) == (0, 0)


def test_the_bounds_count() -> None:
    """They are those of the configuration."""
    pub = Pub(subscriptions=1)
    assert pub.service.broker.bounds == Bounds(subscriptions=1)
    client = pub.client()
    client.says(SUBSCRIBE + SUBSCRIBE.replace(b"id:0", b"id:1"))
    assert client.written().startswith(b"ERROR\nmessage:too many subscriptions\n")


def test_no_two_brokers_give_the_same_ids() -> None:
    """Clients may remember ids, and a broker that was started anew must not seem the old one."""
    sessions = set()
    for _ in range(2):
        caller = Pub().caller()
        caller.says(CONNECT)
        sessions.add(caller.written().partition(b"session:")[2].partition(b"\n")[0])
    assert len(sessions) == 2
    assert all(session.startswith(b"memory-") and session.endswith(b"-session-1") for session in sessions)


# How it stops


def test_it_stops_at_once_when_nobody_is_there() -> None:
    """And no timer is left."""
    pub = Pub()
    assert stop(pub) == [None]
    assert pub.reactor.getDelayedCalls() == []
    assert not pub.service.running


def test_everybody_is_told_that_it_stops() -> None:
    """Whether they said CONNECT or not; the stop waits until all have gone, and not longer."""
    pub = Pub()
    wires = [pub.caller(), pub.client(), pub.subscriber()]
    stopped = stop(pub)
    for wire in wires:
        assert wire.written().startswith(STOPPING)
        assert wire.ends == ["half"]
    assert stopped == []
    for wire in wires:
        wire.goes()
    assert stopped == [None]
    assert pub.reactor.getDelayedCalls() == []


def test_nobody_is_received_while_it_stops() -> None:
    """A client that was accepted in the last moment is closed, not served."""
    pub = Pub()
    staying = pub.client()
    stop(pub)
    assert pub.service.received() is None
    assert pub.reactor.tcpServers[0][1].buildProtocol(None) is None
    assert pub.service.stopping
    staying.goes()


def test_a_client_that_does_not_go_is_cut_off() -> None:
    """After the linger, and then the stop goes on."""
    pub = Pub()
    client = pub.client()
    stopped = stop(pub)
    pub.reactor.advance(1.9)
    assert client.ends == ["half"]
    pub.reactor.advance(0.1)
    assert client.ends == ["half", "abort"]
    client.goes(ConnectionDone())
    assert stopped == [None]


def test_a_connection_that_cannot_be_ended_holds_up_nothing() -> None:
    """A stop has an end; the log says that it did not wait."""
    pub = Pub()
    client = pub.client()
    stopped = stop(pub)
    with capturedLogs() as logs:
        pub.reactor.pump([1.0, 1.0])
        assert stopped == []
        pub.reactor.advance(GRACE)
    assert stopped == [None]
    texts = [formatEvent(event) for event in logs]
    assert texts == ["1 connections of the broker did not end in time"]
    client.goes()


@pytest_twisted.ensureDeferred
async def test_a_stop_over_real_sockets() -> None:
    """The port is closed, the client reads why, and the end comes when it has closed."""
    service = BrokerService(reactor, listen=[ANY_PORT])
    service.privilegedStartService()
    service.startService()
    door = service._doors.getServiceNamed("broker-1")
    port = port_of(door)
    client = await call(door)
    client.transport.write(CONNECT)
    await client.frame()
    stopped = maybeDeferred(service.stopService)
    assert (await client.frame()).startswith(STOPPING)
    assert (await client.ended()).strip(b"\n") == b""
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass
    assert not stopped.called
    client.transport.loseConnection()
    await client.gone()
    await stopped

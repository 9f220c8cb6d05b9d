"""Clients of the embedded broker on transports in memory: pieces, beats, slowness, and what is left behind."""

import socket
from math import inf
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.address import IPv4Address
from twisted.internet.defer import maybeDeferred
from twisted.logger import LogLevel, capturedLogs, formatEvent

from stomprelay.service.embedded import BrokerService
from tests.service.house import CONNECT, SEND, Wire
from tests.service.pub import Pub
from tests.service.sockets import ANY_PORT, call, port_of, reactor


def reads(wire: Wire) -> bool:
    """Whether the service reads from this client now."""
    return bool(wire.reading)


def test_octets_may_come_in_any_pieces() -> None:
    """One at a time, too."""
    pub = Pub()
    consumer, publisher = pub.subscriber(), pub.caller()
    for octet in CONNECT + SEND:
        publisher.says(bytes([octet]))
    assert publisher.written().startswith(b"CONNECTED\n")
    assert b"\n\nhello\0" in consumer.written()


def test_messages_wait_while_the_client_reads_too_slowly() -> None:
    """They are kept by the broker, not by the transport; the publisher is not slowed down."""
    pub = Pub()
    consumer, publisher = pub.subscriber(), pub.client()
    consumer.fills()
    for number in range(3):
        publisher.says(SEND.replace(b"hello", b"%d" % number))
    assert consumer.written() == b""
    assert publisher.reading
    assert consumer.reading
    consumer.drains()
    bodies = [frame.partition(b"\n\n")[2] for frame in consumer.written().split(b"\0")[:-1]]
    assert bodies == [b"0", b"1", b"2"]


def test_a_client_that_is_not_read_from_is_not_silent() -> None:
    """It is we who do not listen; when we do again, its time begins anew."""
    pub = Pub(unread=10)
    beating = CONNECT.replace(b"\n\n", b"\nheart-beat:1000,0\n\n")
    client = pub.client(connect=beating)
    client.fills()
    order = SEND.replace(b"\n\n", b"\nreceipt:of-some-length\n\n")
    client.says(order)
    client.says(order)
    assert not reads(client)
    pub.reactor.advance(60)
    assert client.ends == []
    client.drains()
    assert reads(client)
    pub.reactor.pump([0.1] * 15)
    assert client.ends == []
    pub.reactor.pump([0.1] * 10)
    assert b"heart-beat missed" in client.written()


def test_beats_are_written_when_there_is_nothing_else() -> None:
    """The connection's alarm is the service's timer."""
    pub = Pub()
    client = pub.client(connect=CONNECT.replace(b"\n\n", b"\nheart-beat:0,1000\n\n"))
    pub.reactor.pump([0.1] * 10)
    beats = client.written()
    assert beats
    assert beats == b"\n" * len(beats)
    assert client.ends == []


def test_the_transport_is_left_alone_once_the_connection_is_over() -> None:
    """No producer is registered with it any more, and nothing is written."""
    pub = Pub()
    consumer = pub.subscriber(b"/topic/a")
    assert consumer.producer is not None
    consumer.says(b"DISCONNECT\nreceipt:bye\n\n\0")
    assert consumer.written().rstrip(b"\n") == b"RECEIPT\nreceipt-id:bye\n\n\0"
    assert consumer.producer is None
    assert consumer.ends == ["half"]
    pub.client().says(SEND.replace(b"/queue/a", b"/topic/a"))
    assert consumer.written() == b""
    consumer.goes()


def test_nothing_is_armed_for_a_client_that_is_gone() -> None:
    """However it left."""
    pub = Pub()
    client = pub.client(connect=CONNECT.replace(b"\n\n", b"\nheart-beat:1000,1000\n\n"))
    assert pub.reactor.getDelayedCalls() != []
    client.goes()
    assert pub.reactor.getDelayedCalls() == []
    assert pub.service.runtime.timers._next == inf
    assert pub.service.runtime.protocols == {}


def test_the_log_names_the_session_and_no_secret() -> None:
    """One line for each thing worth one; an ERROR is a warning."""
    pub = Pub()
    secret = CONNECT.replace(b"host:/\n", b"host:/\nlogin:alice\npasscode:sesame\n")
    with capturedLogs() as logs:
        good, bad = pub.client(connect=secret), pub.client(connect=secret)
        bad.says(b"NONSENSE\n\nsesame\0")
        good.goes()
    name = pub.service.broker.name.decode()
    lines = [(event["log_level"], formatEvent(event)) for event in logs]
    assert (LogLevel.info, f"embedded broker: connected: {name}-session-1: STOMP 1.2") in lines
    assert (
        LogLevel.info,
        f"embedded broker: vanished: {name}-session-1: client left without DISCONNECT",
    ) in lines
    (error,) = (text for level, text in lines if level is LogLevel.warn)
    assert error.startswith(f"embedded broker: error: {name}-session-2: ")
    assert not [text for _, text in lines if "sesame" in text or "alice" in text]


@pytest.mark.parametrize("peer", [IPv4Address("TCP", "192.0.2.8", 1), None])
def test_a_foreign_protocol_is_answered_in_its_own_way(peer: object) -> None:
    """A browser gets HTTP, not an ERROR frame."""
    pub = Pub()
    caller = pub.caller()
    caller.peerAddr = peer
    caller.says(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert caller.written().startswith(b"HTTP/1.1 ")
    assert caller.ends == ["half"]
    caller.goes()


def test_a_long_backlog_leaves_nothing_behind_for_the_alarms() -> None:
    """Each portion asks to be woken at once, before a beat that is an hour away."""
    pub = Pub(burst=1)
    consumer = pub.client(connect=CONNECT.replace(b"\n\n", b"\nheart-beat:0,3600000\n\n"))
    consumer.fills()
    consumer.says(b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0")
    pub.client().says(SEND * 500)
    consumer.drains()
    pub.reactor.advance(0)
    assert consumer.written().count(b"MESSAGE\n") == 500
    assert len(pub.service.runtime.timers._heap) < 100


# The service around them


def stop(pub: Pub) -> list[Any]:
    """Begin to stop; the list holds what `stopService` fired with, once it did."""
    results: list[Any] = []
    _ended = maybeDeferred(pub.service.stopService).addBoth(results.append)
    return results


def test_all_endpoints_lead_to_one_broker() -> None:
    """A message may come in by one and go out by another."""
    pub = Pub("tcp:61613", "tcp:61614:interface=127.0.0.1")
    assert [server[0] for server in pub.reactor.tcpServers] == [61613, 61614]
    consumer, publisher = pub.client(0), pub.client(1)
    consumer.says(b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0")
    publisher.says(SEND)
    assert b"\n\nhello\0" in consumer.written()


def test_a_client_that_lingers_is_a_connection_and_no_client() -> None:
    """The stop waits for it all the same."""
    pub = Pub()
    staying, leaving = pub.client(), pub.client()
    assert (len(pub.service.clients), pub.service.runtime.sockets) == (2, 2)
    leaving.says(b"DISCONNECT\n\n\0")
    assert (len(pub.service.clients), pub.service.runtime.sockets) == (1, 2)
    staying.goes()
    stopped = stop(pub)
    assert stopped == []
    leaving.goes()
    assert stopped == [None]


def test_no_two_brokers_give_the_same_ids() -> None:
    """Clients may remember ids, and a broker that was started anew must not seem the old one."""
    sessions = set()
    for _ in range(2):
        caller = Pub().caller()
        caller.says(CONNECT)
        sessions.add(caller.written().partition(b"session:")[2].partition(b"\n")[0])
    assert len(sessions) == 2


def test_it_stops_at_once_when_nobody_is_there() -> None:
    """And no timer is left."""
    pub = Pub()
    assert stop(pub) == [None]
    assert pub.reactor.getDelayedCalls() == []


def test_a_client_that_does_not_go_is_cut_off() -> None:
    """After the linger, and then the stop goes on."""
    pub = Pub()
    client = pub.client()
    stopped = stop(pub)
    pub.reactor.advance(1.9)
    assert client.ends == ["half"]
    pub.reactor.advance(0.1)
    assert client.ends == ["half", "abort"]
    client.goes()
    assert stopped == [None]


@pytest_twisted.ensureDeferred
async def test_a_stop_over_real_sockets() -> None:
    """The port is closed, the client reads why, and the end comes when it has closed."""
    service = BrokerService(reactor, listen=[ANY_PORT])
    service.privilegedStartService()
    service.startService()
    door = service._listening.getServiceNamed("broker-1")
    port = port_of(door)
    client = await call(door)
    client.transport.write(CONNECT)
    await client.frame()
    stopped = maybeDeferred(service.stopService)
    assert (await client.frame()).startswith(b"ERROR\nmessage:the broker is stopping\n")
    await client.ended()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        pass
    assert not stopped.called
    client.transport.loseConnection()
    await client.gone()
    await stopped

"""One connection of the embedded broker: what its transport tells, and what is written and when."""

from math import inf

import pytest
from twisted.internet.address import IPv4Address
from twisted.logger import LogLevel, capturedLogs, formatEvent

from tests.service.house import CONNECT, SEND
from tests.service.pub import Pub


def test_a_message_of_one_client_is_written_to_another() -> None:
    """At once, in the input that brought it."""
    pub = Pub()
    consumer, publisher = pub.subscriber(), pub.client()
    publisher.says(SEND)
    message = consumer.written()
    assert message.startswith(b"MESSAGE\n")
    assert b"\n\nhello\0" in message
    assert publisher.written() == b""


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


def test_what_waits_is_written_bit_by_bit() -> None:
    """A burst each turn of the reactor, so that one client's plenty does not hold up the others."""
    pub = Pub(burst=100)
    consumer, publisher = pub.subscriber(), pub.client()
    consumer.fills()
    publisher.says(b"".join(SEND.replace(b"hello", b"%d" % number * 80) for number in range(3)))
    consumer.drains()
    turns = [consumer.written().count(b"MESSAGE\n")]
    for _ in range(3):
        pub.reactor.advance(0)
        turns.append(consumer.written().count(b"MESSAGE\n"))
    print(turns)


def test_a_client_that_reads_no_receipts_is_not_read_from() -> None:
    """Until it reads: what it asks for must fit in memory."""
    pub = Pub(unread=100)
    client = pub.client()
    client.fills()
    order = SEND.replace(b"\n\n", b"\nreceipt:%b\n\n" % (b"r" * 60))
    client.says(order)
    assert client.reading
    client.says(order)
    client.says(order)
    assert not client.reading
    client.drains()
    assert client.reading
    assert client.written().count(b"RECEIPT\n") == 3


def test_a_client_that_is_not_read_from_is_not_silent() -> None:
    """It is we who do not listen; when we do again, its time begins anew."""
    pub = Pub(unread=10)
    beating = CONNECT.replace(b"\n\n", b"\nheart-beat:1000,0\n\n")
    client = pub.client(connect=beating)
    client.fills()
    order = SEND.replace(b"\n\n", b"\nreceipt:of-some-length\n\n")
    client.says(order)
    client.says(order)
    assert not client.reading
    pub.reactor.advance(60)
    assert client.ends == []
    client.drains()
    assert client.reading
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


def test_connect_must_come_in_time() -> None:
    """Then the client is told, given time to read it, and cut off."""
    pub = Pub(connect_timeout=3.0)
    caller = pub.caller()
    pub.reactor.advance(2.9)
    assert caller.written() == b""
    pub.reactor.advance(0.1)
    assert caller.written().startswith(b"ERROR\nmessage:no CONNECT in time\n")
    assert caller.ends == ["half"]
    caller.says(CONNECT)
    assert caller.written() == b""
    pub.reactor.advance(2)
    assert caller.ends == ["half", "abort"]
    caller.goes()
    assert pub.reactor.getDelayedCalls() == []


def test_what_a_client_owed_goes_to_another_when_it_goes() -> None:
    """A lost connection acknowledges nothing."""
    pub = Pub()
    first = pub.subscriber(ack=b"client")
    pub.client().says(SEND)
    assert b"\n\nhello\0" in first.written()
    second = pub.subscriber(ack=b"client")
    assert second.written() == b""
    assert first.producer is not None
    first.producer.stopProducing()
    first.goes()
    message = second.written()
    assert b"\nredelivered:true\n" in message
    assert b"\n\nhello\0" in message


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
    assert pub.service.stage.alarms._next == inf
    assert pub.service.stage.lines == {}


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

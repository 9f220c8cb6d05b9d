"""One connection of the embedded broker, on a reactor in memory."""

from twisted.internet.address import UNIXAddress
from twisted.internet.testing import MemoryReactorClock

from stomprelay.broker.bounds import Bounds
from stomprelay.service.embedded import BrokerService
from tests.service.house import CONNECT, SEND, Wire

SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"


class Shop:
    """A broker service and its clients."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self.reactor = MemoryReactorClock()
        self.service = BrokerService(self.reactor, bounds or Bounds(), ["tcp:61613"], self.reactor.seconds)
        self.service.startService()

    def client(self, said: bytes = b"") -> Wire:
        factory = self.reactor.tcpServers[0][1]
        wire = Wire(factory.buildProtocol(UNIXAddress(None)))
        wire.protocol.makeConnection(wire)
        if said:
            wire.says(said)
        return wire


def test_a_message_from_one_client_to_another(log: list[str]) -> None:
    """What one says is written to the other; the log knows of both."""
    shop = Shop()
    consumer = shop.client(CONNECT + SUBSCRIBE)
    assert consumer.written().startswith(b"CONNECTED\n")
    producer = shop.client(CONNECT + SEND)
    assert producer.written().startswith(b"CONNECTED\n")
    message = consumer.written()
    assert message.startswith(b"MESSAGE\n")
    assert b"\n\nhello\0" in message
    for client in (consumer, producer):
        client.goes()
    assert shop.service.clients == set()
    assert shop.reactor.getDelayedCalls() == []
    assert sum("connected: " in line for line in log) == 2
    assert all(line.startswith("info: embedded broker: ") for line in log if "session" in line)


def test_a_client_that_does_not_read() -> None:
    """Its messages wait in the broker, not in its transport, and come when it reads on."""
    shop = Shop()
    consumer = shop.client(CONNECT + SUBSCRIBE)
    consumer.written()
    consumer.fills()
    shop.client(CONNECT + SEND * 10)
    assert consumer.written() == b""
    consumer.drains()
    shop.reactor.advance(0)
    assert consumer.written().count(b"MESSAGE\n") == 10


def test_a_client_that_only_asks_for_receipts() -> None:
    """When too many wait for it, it is not read from until it reads."""
    shop = Shop(Bounds(unread=1000))
    client = shop.client(CONNECT)
    client.fills()
    for number in range(100):
        client.says(b"SEND\ndestination:/queue/a\nreceipt:%d\n\n\0" % number)
        if not client.reading:
            break
    assert not client.reading
    client.drains()
    assert client.reading


def test_a_client_that_never_says_connect() -> None:
    """Is told so in time, and its connection is ended."""
    shop = Shop()
    client = shop.client()
    shop.reactor.advance(10)
    assert client.written().startswith(b"ERROR\nmessage:no CONNECT in time\n")
    assert client.ends == ["half"]
    shop.reactor.advance(2)
    assert client.ends == ["half", "abort"]
    client.goes()
    assert shop.reactor.getDelayedCalls() == []


def test_a_client_that_vanishes() -> None:
    """What it did not acknowledge goes to the next."""
    shop = Shop()
    first = shop.client(CONNECT + SUBSCRIBE.replace(b"\n\n", b"\nack:client\n\n"))
    shop.client(CONNECT + SEND)
    assert b"MESSAGE\n" in first.written()
    first.goes()
    second = shop.client(CONNECT + SUBSCRIBE)
    assert b"redelivered:true\n" in second.written()


def test_a_backlog_is_written_in_portions() -> None:
    """Turn by turn, so that others are heard meanwhile."""
    shop = Shop(Bounds(burst=1000))
    shop.client(CONNECT + SEND * 100)
    consumer = shop.client(CONNECT + SUBSCRIBE)
    first = consumer.written().count(b"MESSAGE\n")
    assert 0 < first < 100
    shop.reactor.advance(0)
    assert first + consumer.written().count(b"MESSAGE\n") == 100

"""The embedded broker as a service: on endpoints, for memory, and its end."""

from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.address import UNIXAddress

from stomprelay.broker.bounds import Bounds
from stomprelay.service.embedded import BrokerService
from stomprelay.service.network.endpoints import BadEndpoint
from tests.service.house import CONNECT, SEND
from tests.service.talker import connect, until
from tests.service.test_serving import SUBSCRIBE, Shop

PLACE = "tcp:0:interface=127.0.0.1"


def address(service: Any, door: int = 0) -> str:
    """Where it listens."""
    port = list(service._listening)[door]._waitingForPort.result
    return f"tcp:127.0.0.1:{port.getHost().port}"


@pytest_twisted.ensureDeferred
async def test_clients_over_the_network_and_in_memory_meet() -> None:
    """They are clients of one broker, on every endpoint."""
    service = BrokerService(reactor, listen=[PLACE, PLACE])
    service.startService()
    consumer = await connect(address(service, 0))
    consumer.transport.write(CONNECT + SUBSCRIBE)
    await consumer.frame()
    for place in (address(service, 1), service.memory):
        producer = await connect(place)
        producer.transport.write(CONNECT + SEND)
        await producer.frame()
        assert (await consumer.frame()).endswith(b"\n\nhello\0")
        producer.transport.loseConnection()
    consumer.transport.loseConnection()
    await until(lambda: not service.clients and not service.runtime.sockets)
    await service.stopService()


@pytest_twisted.ensureDeferred
async def test_a_large_backlog_arrives_whole() -> None:
    """More than sockets hold, to a reader that takes its time."""
    service = BrokerService(reactor)
    service.startService()
    producer = await connect(service.memory)
    body = b"x" * 50_000
    send = b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n%b\0" % (len(body), body)
    producer.transport.write(CONNECT + send * 200)
    await until(lambda: producer.transport.dataBuffer == b"" and not producer.transport._tempDataBuffer)
    consumer = await connect(service.memory)
    consumer.transport.write(CONNECT + SUBSCRIBE)
    await consumer.frame()
    for _ in range(200):
        assert (await consumer.frame()).endswith(body + b"\0")
    for client in (producer, consumer):
        client.transport.loseConnection()
    await until(lambda: not service.runtime.sockets)
    await service.stopService()


def test_stopping_tells_every_client() -> None:
    """And waits until they have gone."""
    shop = Shop()
    clients = [shop.client(CONNECT) for _ in range(3)]
    stopped: list[object] = []
    _ = shop.service.stopService().addCallback(stopped.append)
    for client in clients:
        assert b"ERROR\nmessage:the broker is stopping\n" in client.written()
        assert client.ends == ["half"]
        assert stopped == []
        client.goes()
    assert stopped == [None]
    assert shop.reactor.getDelayedCalls() == []


def test_stopping_does_not_wait_for_ever() -> None:
    """A client that does not close is given the time to linger, and then a little."""
    shop = Shop()
    client = shop.client(CONNECT)
    stopped: list[object] = []
    _ = shop.service.stopService().addCallback(stopped.append)
    shop.reactor.advance(2)
    assert client.ends == ["half", "abort"]
    assert stopped == []
    shop.reactor.advance(1)
    assert stopped == [None]


def test_nobody_is_received_while_stopping() -> None:
    """A client that was about to be accepted is not."""
    shop = Shop()
    _ = shop.service.stopService()
    assert shop.reactor.tcpServers[0][1].buildProtocol(UNIXAddress(None)) is None


def test_the_bounds_are_the_brokers() -> None:
    """What is configured is what holds."""
    shop = Shop(Bounds(connect_timeout=1.0))
    client = shop.client()
    shop.reactor.advance(1)
    assert client.written().startswith(b"ERROR\n")


def test_a_bad_endpoint() -> None:
    """Told before anything starts."""
    with pytest.raises(BadEndpoint, match="nonsense:1"):
        BrokerService(reactor, listen=["nonsense:1"])

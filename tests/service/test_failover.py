"""A session with several brokers on real sockets: the brokers are played by the test."""

import re

import pytest_twisted
from twisted.internet.endpoints import TCP4ServerEndpoint

from stomprelay.config import Config
from stomprelay.config.address import broker
from stomprelay.relay.model.group import Group, Reconnect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.relay import RelayService
from tests.service.harness import CONNECT, CONNECTED, listener
from tests.service.sockets import ANY_PORT, Accepting, Peer, call, reactor, running, until

COUNT = 120
"""Frames of a hundred thousand bytes: more than all sockets on the way can hold."""


def numbered(count: int) -> bytes:
    """So many large SENDs, in order."""
    return b"".join(
        b"SEND\ndestination:/queue/a\nnumber:%d\n\n%b\0" % (number, b"x" * 100_000) for number in range(count)
    )


def numbers(said: bytes | bytearray) -> list[int]:
    """Their numbers in what was said, where it is all there."""
    found = re.findall(rb"\nnumber:(\d+)\n", said)
    assert said.count(b"\n\n" + b"x" * 100_000 + b"\0") == len(found)
    return list(map(int, found))


async def accepted(by: Accepting) -> Peer:
    """The next connection to this broker, whose CONNECT is answered."""
    served = await by.accepted.get()
    assert (await served.frame()).startswith(b"CONNECT\n")
    served.transport.write(CONNECTED)
    return served


@pytest_twisted.ensureDeferred
async def test_a_slow_group_of_a_fan_out_holds_nobody() -> None:
    """While one broker does not read, the client is read from and the other broker gets everything; it catches up
    when it reads on.
    """
    brokers = Accepting(), Accepting()
    ports = [await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(each) for each in brokers]
    groups = tuple(
        Group(f"group-{at}", (broker(f"tcp://127.0.0.1:{port.getHost().port}"),), Reconnect())
        for at, port in enumerate(ports)
    )
    front = listener(endpoint=ANY_PORT, upstream=Upstream("main", groups, resend_buffer=64 * 1024 * 1024))
    service = RelayService(Config((front,)), reactor)
    async with running(service):
        client = await call(service._listening.getServiceNamed("public"))
        client.transport.write(CONNECT)
        slow, quick = [await accepted(each) for each in brokers]
        assert (await client.frame()).startswith(b"CONNECTED\n")
        slow.read_slowly()
        frames = numbered(COUNT)
        client.transport.write(frames)
        await until(lambda: len(quick.received) >= len(frames))
        assert numbers(quick.received) == list(range(COUNT))
        assert len(slow.received) < len(frames) / 2
        waiting = [
            len(protocol.transport.dataBuffer) + protocol.transport._tempDataLen
            for protocol in service.state.runtime.protocols.values()
        ]
        assert max(waiting) < 1_500_000  # the rest is in the group's own queue, which has its bound
        slow.transport.resumeProducing()
        await until(lambda: len(slow.received) >= len(frames))
        assert numbers(slow.received) == list(range(COUNT))
        client.transport.loseConnection()
        for peer in (client, slow, quick):
            await peer.gone()
        await until(lambda: not service.state.runtime.sockets)
        assert service.state.runtime.protocols == {}
    for port in ports:
        await port.stopListening()

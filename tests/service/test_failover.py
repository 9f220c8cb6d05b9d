"""Sessions that outlive their brokers, on real sockets: the brokers are played by the tests."""

import re
from typing import Any

import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint

from stomprelay.config import Config
from stomprelay.config.address import broker
from stomprelay.relay.model.group import Broker, Group, Reconnect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.relay import RelayService
from tests.service.harness import CONNECT, CONNECTED, listener
from tests.service.sockets import ANY_PORT, Accepting, Peer, call, until

COUNT = 120
"""Frames of a hundred thousand bytes: more than all sockets on the way can hold."""

SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:auto\n\n\0"


class RelayWithBrokers:
    """A relay on real sockets, in front of groups of brokers that the test plays: so many in each."""

    def __init__(self, *sizes: int, **settings: Any) -> None:
        self._sizes = sizes or (2,)
        self._settings = settings
        self._ports: list[Any] = []
        self._stopped: Deferred[None] | None = None
        self.groups: list[list[Accepting]] = []
        self.brokers: list[list[Broker]] = []

    async def __aenter__(self) -> "RelayWithBrokers":
        groups = []
        for number, size in enumerate(self._sizes):
            self.groups.append([Accepting() for _ in range(size)])
            self.brokers.append([await self._listen(factory) for factory in self.groups[-1]])
            options = Reconnect(randomize=False, initial_delay=0.0, longest_delay=0.2)
            groups.append(Group(f"group-{number}", tuple(self.brokers[-1]), options))
        upstream = Upstream("main", tuple(groups), **self._settings)
        self.service = RelayService(Config((listener(endpoint=ANY_PORT, upstream=upstream),)), reactor)
        self.service.privilegedStartService()
        self.service.startService()
        return self

    async def _listen(self, factory: Accepting) -> Broker:
        port = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(factory)
        self._ports.append(port)
        return broker(f"tcp://127.0.0.1:{port.getHost().port}")

    async def __aexit__(self, *trouble: object) -> None:
        if trouble[0] is None:
            await until(lambda: not self.service.state.runtime.sockets)
        await self.stop()
        for port in self._ports:
            await port.stopListening()
        if trouble[0] is None:
            assert self.service.state.runtime.protocols == {}
            assert len(self.service.state.sessions) == 0
            assert all(
                each.health.sessions == each.health.coming == 0 for group in self.brokers for each in group
            )

    def stop(self) -> Deferred[None]:
        """The relay stops."""
        self._stopped = self._stopped or maybeDeferred(self.service.stopService)
        return self._stopped

    async def accepts(self, number: int = 0, group: int = 0) -> Peer:
        """The next connection to this broker, whose CONNECT is answered."""
        served = await self.groups[group][number].accepted.get()
        assert (await served.frame()).startswith(b"CONNECT\n")
        served.transport.write(CONNECTED)
        return served

    async def client(self) -> Peer:
        """A client that said CONNECT."""
        client = await call(self.service._listening.getServiceNamed("public"))
        client.transport.write(CONNECT)
        return client

    async def session(self) -> tuple[Peer, Peer]:
        """A connected client and its broker, the first one."""
        client = await self.client()
        served = await self.accepts()
        assert (await client.frame()).startswith(b"CONNECTED\n")
        return client, served


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


async def leave(*peers: Peer) -> None:
    """All of them close their connections."""
    for peer in peers:
        peer.transport.loseConnection()
    for peer in peers:
        await peer.gone()


# Several brokers at a time


@pytest_twisted.ensureDeferred
async def test_a_slow_group_of_a_fan_out_holds_nobody() -> None:
    """While one broker does not read, the client is read from and the other broker gets everything; it catches up
    when it reads on.
    """
    async with RelayWithBrokers(1, 1, resend_buffer=64 * 1024 * 1024) as relay:
        client = await relay.client()
        slow, quick = await relay.accepts(group=0), await relay.accepts(group=1)
        assert (await client.frame()).startswith(b"CONNECTED\n")
        slow.read_slowly()
        frames = numbered(COUNT)
        client.transport.write(frames)
        await until(lambda: len(quick.received) >= len(frames))
        assert numbers(quick.received) == list(range(COUNT))
        assert len(slow.received) < len(frames) / 2
        waiting = [
            len(protocol.transport.dataBuffer) + protocol.transport._tempDataLen
            for protocol in relay.service.state.runtime.protocols.values()
        ]
        assert max(waiting) < 1_500_000  # the rest is in the group's own queue, which has its bound
        slow.transport.resumeProducing()
        await until(lambda: len(slow.received) >= len(frames))
        assert numbers(slow.received) == list(range(COUNT))
        await leave(client)
        await slow.gone()
        await quick.gone()

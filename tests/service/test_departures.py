"""Clients that leave while they are not read from, because what they send is not wanted yet."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.testing import MemoryReactorClock

from stomprelay.config import Config
from stomprelay.config.address import broker
from stomprelay.relay.model.group import Group, Reconnect, alone
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.connection.runtime import AVAILABLE, Departures
from stomprelay.service.relay import RelayService
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.harness import CONNECT, CONNECTED, listener
from tests.service.sockets import (
    ANY_PORT,
    Accepting,
    Peer,
    connect,
    port_of,
    reactor,
    running,
    socket_pair,
    turns,
    until,
)

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="only Linux tells of it")

FRAME = b"SEND\ndestination:/queue/a\ncontent-length:100000\n\n" + b"x" * 100_000 + b"\0"
LOCAL = "tcp:host=127.0.0.1"
COUNT = 150
"""Frames that are more than all sockets on the way can hold."""


class Scene:
    """A relay on real sockets, and a broker that the test plays."""

    def __init__(self, service: RelayService, accepting: Accepting) -> None:
        self.service = service
        self.runtime = service.state.runtime
        self._accepting = accepting

    async def session(self, kind: str) -> tuple[Peer, Peer]:
        """A connected client, and its broker, which reads nothing from now on."""
        client = await connect(f"{kind}:port={port_of(self.service._listening.getServiceNamed('public'))}")
        client.transport.write(CONNECT)
        answering = await self._accepting.accepted.get()
        await answering.frame()
        answering.transport.write(CONNECTED)
        await client.frame()
        answering.read_slowly()
        return client, answering

    @property
    def held(self) -> bool:
        """Whether a client is not read from."""
        return any(each._watched is not None for each in self.runtime.protocols.values())

    async def over(self) -> None:
        """Wait until no session and no descriptor is left."""
        await until(lambda: not len(self.service.state.sessions) and not self.runtime.sockets)


@asynccontextmanager
async def scene(*, survives: bool = False, **settings: Any) -> AsyncIterator[Scene]:
    """A relay, and a broker that the test plays; `settings` are the listener's."""
    accepting = Accepting()
    port = await TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(accepting)
    place = broker(f"tcp://127.0.0.1:{port.getHost().port}")
    groups = (Group("main", (place,), Reconnect()),) if survives else alone(place)
    behind = Upstream("main", groups, disconnect_timeout=0.2, resend_buffer=1000)
    service = RelayService(Config((listener(endpoint=ANY_PORT, upstream=behind, **settings),)), reactor)
    async with running(service):
        yield Scene(service, accepting)
    await port.stopListening()


def reset_at_close(client: Peer) -> None:
    """The client's connection will be cut as that of a process that was killed."""
    handle = client.transport.getHandle()
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize(
    ("survives", "cut", "secured"),
    [
        (False, False, False),
        (False, True, False),
        (True, False, False),
        (True, True, False),
        (False, True, True),
    ],
)
@pytest_twisted.ensureDeferred
async def test_a_client_that_leaves_while_its_broker_reads_nothing(
    tmp_path: Path, survives: bool, cut: bool, secured: bool
) -> None:
    """Descriptor, session and broker connection are gone; with TLS it is the socket that is watched."""
    tls = serving(Authority(tmp_path, "Authority").issue("Broker", ("localhost",))) if secured else None
    async with scene(survives=survives, linger=0.1, tls=tls) as play:
        client, answering = await play.session(f"tls:localhost:trustRoots={tmp_path}" if secured else LOCAL)
        for _ in range(COUNT if cut else COUNT // 10):
            client.transport.write(FRAME)
        if cut:
            await until(lambda: play.held)
            if not secured:
                reset_at_close(client)
            client.transport.abortConnection()
        else:
            while not play.held:
                client.transport.write(FRAME)
                await turns(1)
            await until(lambda: not client.transport.dataBuffer or play.held)
            client.transport.getHandle().shutdown(socket.SHUT_WR)
        await play.over()
        answering.transport.abortConnection()
        if not cut:
            client.transport.abortConnection()
        await client.gone()


# The watch itself


class Pair:
    """Two sockets, of which one is watched."""

    def __init__(self) -> None:
        self.reactor = MemoryReactorClock()
        self.departures = Departures(self.reactor)
        self.departures.open()
        self.peer, self.watched = socket_pair()
        self.count = 0

    def watch(self) -> None:
        """From now on the peer's leaving is counted."""
        self.departures.watch(self.watched.fileno(), self._departed)

    def _departed(self, reset: bool) -> None:
        self.count += 1

    def close(self) -> None:
        """Everything."""
        self.departures.close()
        self.peer.close()
        self.watched.close()


@pytest.fixture
def pair() -> Any:
    """Closed behind the test."""
    pair = Pair()
    yield pair
    pair.close()


def test_watched_again(pair: Pair) -> None:
    """Who left is found again, at once; who is forgotten is not."""
    pair.peer.shutdown(socket.SHUT_WR)
    for count in (1, 2):
        pair.watch()
        pair.departures.doRead()
        assert pair.count == count
        pair.departures.forget(pair.watched.fileno())
    pair.watch()
    pair.watch()
    pair.departures.forget(pair.watched.fileno())
    pair.departures.forget(pair.watched.fileno())
    pair.departures.doRead()
    assert pair.count == 2


def test_a_watch_that_is_over(pair: Pair) -> None:
    """The reactor asks nothing of it any more."""
    assert pair.departures.fileno() >= 0
    assert pair.departures in pair.reactor.getReaders()
    pair.departures.close()
    pair.departures.close()
    assert pair.departures not in pair.reactor.getReaders()
    assert pair.departures.fileno() == -1
    pair.watch()
    assert pair.departures._watched == {}

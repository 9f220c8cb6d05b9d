"""Peers and services on real sockets of the loopback interface."""

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from twisted.application.service import IService
from twisted.internet import endpoints
from twisted.internet import reactor as real_reactor
from twisted.internet.defer import Deferred, DeferredQueue, maybeDeferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.main import CONNECTION_DONE
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.service.network.endpoints import ListeningService

reactor: Any = real_reactor

PATIENCE = 20.0
"""Seconds until a test gives up."""


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection: who connected, and what was accepted, which does not block."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        client = socket.create_connection(door.getsockname())
        accepted, _ = door.accept()
    accepted.setblocking(False)
    return client, accepted


@contextmanager
def turning(kind: type[Any]) -> Iterator[Any]:
    """A reactor of this kind that turns when the test says so; what it has is closed at the end."""
    made = kind()
    try:
        yield made
    finally:
        for each in [*made.removeAll(), *made._internalReaders]:
            each.connectionLost(Failure(CONNECTION_DONE))
        made._poller.close()


@implementer(IHalfCloseableProtocol)
class Peer(Protocol):
    """Keeps what it receives; a test waits for what should come, or for the end."""

    transport: Any

    def __init__(self) -> None:
        self.received = bytearray()
        self.closed = False
        self.half_closed = False
        self._waiting: list[Deferred[None]] = []

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        self._changed()

    def readConnectionLost(self) -> None:
        self.half_closed = True
        self._changed()

    def writeConnectionLost(self) -> None:
        """Nothing to do."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.closed = True
        self.reason = reason
        self._changed()

    def _changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def receive_until(self, words: bytes) -> bytes:
        """Wait for these words; return all up to their end, and forget it."""
        searched = 0
        while (found := self.received.find(words, searched)) < 0:
            assert not self.closed, (words, self.received)
            searched = max(0, len(self.received) - len(words))
            await self._next()
        return self._take(found + len(words))

    async def receive_bytes(self, count: int) -> bytes:
        """Wait for so many bytes; return them, and forget them."""
        while len(self.received) < count:
            assert not self.closed, len(self.received)
            await self._next()
        return self._take(count)

    def _take(self, count: int) -> bytes:
        taken = bytes(self.received[:count])
        del self.received[:count]
        return taken

    async def frame(self) -> bytes:
        """Wait for a frame; EOLs before it do not count."""
        return (await self.receive_until(b"\0")).lstrip(b"\n")

    async def ended(self) -> bytes:
        """Wait until the peer closed its direction; return what came last."""
        while not (self.closed or self.half_closed):
            await self._next()
        return bytes(self.received)

    async def gone(self) -> None:
        """Wait until the connection is no more; a peer that closed its direction is answered in kind."""
        while not self.closed:
            if self.half_closed:
                self.transport.loseConnection()
            if not self.closed:
                await self._next()

    def _next(self) -> Deferred[None]:
        changed: Deferred[None] = Deferred()
        self._waiting.append(changed)
        return changed.addTimeout(PATIENCE, reactor)

    def read_slowly(self) -> None:
        """Have the kernel keep little for this end, so that the other one is soon stopped, and stop reading."""
        self.transport.getHandle().setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        self.transport.pauseProducing()


async def connect(endpoint: str | Any) -> Peer:
    """A client on this endpoint, which may be a string."""
    if isinstance(endpoint, str):
        endpoint = endpoints.clientFromString(reactor, endpoint)
    peer = Peer()
    await endpoints.connectProtocol(endpoint, peer)
    return peer


class Accepting(Factory):
    """Accepts clients, for the test to take one after the other."""

    def __init__(self) -> None:
        self.accepted: DeferredQueue[Peer] = DeferredQueue()

    def buildProtocol(self, addr: object) -> Peer:
        peer = Peer()
        self.accepted.put(peer)
        return peer


async def until(reached: Callable[[], object]) -> None:
    """Wait until a condition holds, which is looked at every few milliseconds."""
    for _ in range(int(PATIENCE / 0.005)):
        if reached():
            return
        await deferLater(reactor, 0.005)
    raise AssertionError("not reached")


async def turns(count: int = 50) -> None:
    """Let the reactor look at all its sockets so many times: whatever can happen at once has happened then."""
    for _ in range(count):
        await deferLater(reactor, 0)


ANY_PORT = "tcp:0:interface=127.0.0.1"


def port_of(entrance: Any) -> int:
    """The port that an entrance listens on."""
    assert isinstance(entrance, ListeningService)
    listening: Any = entrance._opened
    port: int = listening.result.getHost().port
    return port


async def call(entrance: Any) -> Peer:
    """A client that came in by an entrance."""
    return await connect(f"tcp:host=127.0.0.1:port={port_of(entrance)}")


async def stopped(service: IService) -> None:
    """Stop a service, and wait until it has stopped."""
    await maybeDeferred(service.stopService).addTimeout(PATIENCE, reactor)


@asynccontextmanager
async def running(service: IService) -> AsyncIterator[None]:
    """Start a service, and stop it when the block ends."""
    service.privilegedStartService()
    service.startService()
    try:
        yield
    finally:
        await stopped(service)

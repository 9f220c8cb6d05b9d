"""Peers on real sockets, for tests in the real reactor."""

from typing import Any

from twisted.internet import endpoints
from twisted.internet.defer import Deferred, DeferredQueue
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from zope.interface import implementer

PATIENCE = 20.0


@implementer(IHalfCloseableProtocol)
class Talker(Protocol):
    """Keeps what it hears; a test waits for what it wants to hear, or for the end."""

    transport: Any

    def __init__(self) -> None:
        self.heard = b""
        self.closed = False
        self.half_closed = False
        self._news: list[Deferred[None]] = []

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        self._tell()

    def readConnectionLost(self) -> None:
        self.half_closed = True
        self._tell()

    def writeConnectionLost(self) -> None:
        """Nothing to do."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.closed = True
        self.reason = reason
        self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, []
        for each in news:
            each.callback(None)

    async def hears(self, words: bytes) -> bytes:
        """Wait for these words; return all up to their end, and forget it."""
        while words not in self.heard:
            assert not self.closed, (words, self.heard)
            await self._next()
        end = self.heard.index(words) + len(words)
        said, self.heard = self.heard[:end], self.heard[end:]
        return said

    async def hears_all(self, count: int) -> bytes:
        """Wait for so many octets; return them, and forget them."""
        while len(self.heard) < count:
            assert not self.closed, len(self.heard)
            await self._next()
        said, self.heard = self.heard[:count], self.heard[count:]
        return said

    async def frame(self) -> bytes:
        """Wait for a frame; EOLs before it do not count."""
        return (await self.hears(b"\0")).lstrip(b"\n")

    async def ended(self) -> bytes:
        """Wait until the peer closed its direction; return what it said last."""
        while not (self.closed or self.half_closed):
            await self._next()
        return self.heard

    async def gone(self) -> None:
        """Wait until the connection is no more; a peer that closed its direction is answered in kind."""
        while not self.closed:
            if self.half_closed:
                self.transport.loseConnection()
            if not self.closed:
                await self._next()

    def _next(self) -> Deferred[None]:
        from twisted.internet import reactor

        news: Deferred[None] = Deferred()
        self._news.append(news)
        return news.addTimeout(PATIENCE, reactor)


async def connect(endpoint: str | Any) -> Talker:
    """A client on this endpoint, which may be a string."""
    from twisted.internet import reactor

    if isinstance(endpoint, str):
        endpoint = endpoints.clientFromString(reactor, endpoint)
    talker = Talker()
    await endpoints.connectProtocol(endpoint, talker)
    return talker


class Accepting(Factory):
    """Accepts clients, for the test to take one after the other."""

    noisy = False

    def __init__(self) -> None:
        self.accepted: DeferredQueue[Talker] = DeferredQueue()

    def buildProtocol(self, addr: object) -> Talker:
        talker = Talker()
        self.accepted.put(talker)
        return talker


async def until(reached: Any) -> None:
    """Wait turn by turn until a condition holds."""
    from twisted.internet import reactor

    for _ in range(int(PATIENCE / 0.01)):
        if reached():
            return
        await deferLater(reactor, 0.01)
    raise AssertionError("not reached")

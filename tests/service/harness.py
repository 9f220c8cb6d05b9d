"""Services on a reactor in memory: a relay, one that keeps a journal, the embedded broker; and the test's own ends."""

import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar
from unittest.mock import patch

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from stomprelay.broker.message import Bounds
from stomprelay.config import Config
from stomprelay.journal.block import Block, BlockKind, decode
from stomprelay.journal.schema import Context, JournalEvent, SegmentHeader
from stomprelay.journal.settings import JournalSettings
from stomprelay.relay.model.group import Broker, Group, Reconnect, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.embedded import BrokerService
from stomprelay.service.journal.journal import Journal
from stomprelay.service.journal.writer_thread import WriterThread
from stomprelay.service.relay import RelayService

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
CONNECTED = b"CONNECTED\nversion:1.2\nserver:scripted/1\nsession:s1\n\n\0"
SEND = b"SEND\ndestination:/queue/a\n\nhello\0"
SUBSCRIBE = b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0"
MESSAGE = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/queue/a\n\nhello\0"


T = TypeVar("T")


def result(deferred: Deferred[T]) -> T:
    """What came of it by now; a failure is raised."""
    found: list[Any] = []
    _ = deferred.addBoth(found.append)
    assert found, "nothing came of it yet"
    if isinstance(found[0], Failure):
        found[0].raiseException()
    came: T = found[0]
    return came


class FakeTransport(StringTransport):
    """One end of a connection: keeps what is written to it, and how it was ended."""

    def __init__(self, protocol: Any = None, peer: object = None) -> None:
        super().__init__(peerAddress=peer or IPv4Address("TCP", "192.0.2.7", 4711), lenient=True)
        self.protocol = protocol
        self.ends: list[str] = []

    def loseConnection(self) -> None:
        self.ends.append("flush")
        super().loseConnection()

    def loseWriteConnection(self) -> None:
        self.ends.append("half")

    def abortConnection(self) -> None:
        self.ends.append("abort")

    def unregisterProducer(self) -> None:
        self.producer = None
        self.streaming = None

    @property
    def reading(self) -> Any:  # not bool, for it changes between two looks
        """Whether the protocol takes what comes."""
        return self.producerState == "producing"

    def written(self) -> bytes:
        """What was written since the last look."""
        data: bytes = self.value()
        self.clear()
        return data

    # What the peer does

    def sends(self, data: bytes) -> None:
        self.protocol.dataReceived(data)

    def parts(self) -> bytes:
        """The relay's own DISCONNECT, which was written last, is confirmed. Returns what was written before."""
        before, receipt = self.written().split(b"DISCONNECT\nreceipt:")
        self.sends(b"RECEIPT\nreceipt-id:" + receipt)
        return before

    def disconnects(self, error: Exception | None = None) -> None:
        """The connection is lost."""
        self.protocol.connectionLost(Failure(error or ConnectionDone()))

    # What the socket does

    def fills(self) -> None:
        """Too much waits to be written."""
        assert self.producer is not None
        self.producer.pauseProducing()

    def drains(self) -> None:
        """There is room again."""
        assert self.producer is not None
        self.producer.resumeProducing()


def upstream(**settings: Any) -> Upstream:
    """An upstream at 192.0.2.1, a plain address."""
    place = settings.pop("broker", None) or broker()
    return Upstream("main", alone(place), **settings)


def broker(number: int = 1) -> Broker:
    """A broker at 192.0.2.<number>."""
    host = f"192.0.2.{number}"
    return Broker(f"tcp://{host}:61613", f"tcp:host={host}:port=61613", host)


def failover(*numbers: int, **options: Any) -> Group:
    """A group of these brokers, tried in this order without a pause. `options` are those of `Reconnect`."""
    options = {"randomize": False, "initial_delay": 0.0, **options}
    brokers = tuple(map(broker, numbers))
    return Group(",".join(map(str, brokers)), brokers, Reconnect(**options))


def movable(*groups: Group, **settings: Any) -> Upstream:
    """An upstream of these groups; without any, of one with brokers at 192.0.2.1 and 192.0.2.2."""
    return Upstream(settings.pop("name", "main"), groups or (failover(1, 2),), **settings)


def listener(**settings: Any) -> Listener:
    """A listener called public."""
    return Listener(
        settings.pop("name", "public"),
        settings.pop("endpoint", "tcp:61613"),
        settings.pop("upstream", None) or upstream(),
        **settings,
    )


class RelayHarness:
    """A running relay service, its clients and its brokers. Time passes by `reactor.advance`."""

    reactors: ClassVar[type[MemoryReactorClock]] = MemoryReactorClock

    def __init__(self, *listeners: Listener, **settings: Any) -> None:
        self.reactor = self.reactors()
        self.config = Config(listeners or (listener(),), **settings)
        self.service = RelayService(self.config, self.reactor, self.reactor.seconds)
        self.service.privilegedStartService()
        self.service.startService()

    def client(self, door: int = 0, address: Any = None) -> FakeTransport:
        """A client connects, from this address."""
        factory = self.reactor.tcpServers[door][1]
        transport = FakeTransport(factory.buildProtocol(address or UNIXAddress(None)))
        transport.protocol.makeConnection(transport)
        return transport

    def broker(self) -> FakeTransport:
        """The broker that the relay tries to reach is reached."""
        _, _, factory, _, _ = self.reactor.tcpClients.pop()
        transport = FakeTransport(factory.buildProtocol(None), IPv4Address("TCP", "192.0.2.1", 61613))
        transport.protocol.makeConnection(transport)
        return transport

    def refuse(self, error: Exception) -> None:
        """The broker that the relay tries to reach cannot be reached."""
        factory: Any = self.reactor.tcpClients.pop()[2]
        factory.clientConnectionFailed(None, Failure(error))
        self.reactor.advance(0)

    def session(self, connect: bytes = CONNECT, address: Any = None) -> tuple[FakeTransport, FakeTransport]:
        """A connected client, which said this and came from this address, and its broker."""
        client = self.client(address=address)
        client.sends(connect)
        broker = self.broker()
        assert broker.written().startswith(b"CONNECT\n")
        broker.sends(CONNECTED)
        assert client.written().startswith(b"CONNECTED\n")
        return client, broker


# With a journal


HEADER = SegmentHeader(1, "here", "00000000", 1, 0, 60.0, "tests")
"""Tells how contexts are written."""


class Recorded(NamedTuple):
    """A block, read: frames (their heads and what is kept of their bodies) or an event with its facts."""

    context: Context
    number: int
    frames: tuple[bytes, ...] = ()
    event: str = ""
    text: str = ""
    facts: Any = None


def told(block: Block) -> Recorded:
    """What a block says."""
    context = HEADER.contexts(block.context)
    if block.kind is BlockKind.FRAMES:
        return Recorded(context, block.number, tuple(each.head + each.kept for each in block.frames))
    happening = json.loads(block.payload)
    return Recorded(context, block.number, (), happening["event"], happening["text"], happening["facts"])


class ThreadedReactor(MemoryReactorClock):
    """A reactor in memory that other threads may call; they are heard when the test lets it `turn`."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: deque[Callable[[], object]] = deque()

    def callFromThread(self, callable: Callable[..., object], *args: Any, **named: Any) -> None:
        """From any thread."""
        self._calls.append(lambda: callable(*args, **named))

    def turn(self) -> None:
        """Do what other threads asked for."""
        while self._calls:
            self._calls.popleft()()


class JournalHarness(RelayHarness):
    """A harness with a journal that nobody writes: `read` has what waits to be written."""

    reactors: ClassVar[type[MemoryReactorClock]] = ThreadedReactor
    reactor: ThreadedReactor

    def __init__(self, directory: Path, *listeners: Listener, **settings: Any) -> None:
        with patch.object(WriterThread, "start"):
            super().__init__(*listeners, journal=JournalSettings(str(directory), **settings))

    @property
    def journal(self) -> Journal:
        """It is there."""
        journal = self.service.state.journal
        assert journal is not None
        return journal

    def read(self) -> list[Recorded]:
        """What was recorded since the last look, that the journal began apart."""
        return [each for each in self._waiting() if each.event != JournalEvent.BEGUN.value]

    def _waiting(self) -> Iterator[Recorded]:
        queue = self.journal._queue
        while batch := queue.take():
            data = bytes(batch.data)
            queue.done()
            for block in decode(data):
                assert isinstance(block, Block)
                yield told(block)


# The embedded broker


class BrokerHarness:
    """A running broker service. `bounds` are keyword arguments of `Bounds`; time passes by `reactor.advance`."""

    def __init__(self, *endpoints: str, **bounds: Any) -> None:
        self.reactor = MemoryReactorClock()
        places = endpoints or ("tcp:61613",)
        self.service = BrokerService(self.reactor, Bounds(**bounds), places, self.reactor.seconds)
        self.service.privilegedStartService()
        self.service.startService()

    def caller(self, door: int = 0, data: bytes = b"") -> FakeTransport:
        """A client whose socket is connected, and that has sent no more than this."""
        transport = FakeTransport(self.reactor.tcpServers[door][1].buildProtocol(UNIXAddress(None)))
        transport.protocol.makeConnection(transport)
        if data:
            transport.sends(data)
        return transport

    def client(self, door: int = 0, connect: bytes = CONNECT) -> FakeTransport:
        """A client that was answered CONNECTED."""
        transport = self.caller(door)
        transport.sends(connect)
        assert transport.written().startswith(b"CONNECTED\n")
        return transport

"""A relay service on a reactor in memory, and the sockets that a test plays."""

from typing import Any, ClassVar

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from stomprelay.config import Config
from stomprelay.relay.model.group import Broker, Group, Reconnect, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.relayservice import RelayService

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
CONNECTED = b"CONNECTED\nversion:1.2\nserver:scripted/1\nsession:s1\n\n\0"
SEND = b"SEND\ndestination:/queue/a\n\nhello\0"
MESSAGE = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/queue/a\n\nhello\0"


class Wire(StringTransport):
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

    def says(self, data: bytes) -> None:
        self.protocol.dataReceived(data)

    def goes(self, error: Exception | None = None) -> None:
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


class House:
    """A running relay service, its clients and its brokers. Time passes by `reactor.advance`."""

    reactors: ClassVar[type[MemoryReactorClock]] = MemoryReactorClock

    def __init__(self, *listeners: Listener, **settings: Any) -> None:
        self.reactor = self.reactors()
        self.config = Config(listeners or (listener(),), **settings)
        self.service = RelayService(self.config, self.reactor, self.reactor.seconds)
        self.service.privilegedStartService()
        self.service.startService()

    def client(self, door: int = 0) -> Wire:
        """A client connects."""
        factory = self.reactor.tcpServers[door][1]
        wire = Wire(factory.buildProtocol(UNIXAddress(None)))
        wire.protocol.makeConnection(wire)
        return wire

    def broker(self) -> Wire:
        """The broker that the relay tries to reach is reached."""
        _, _, factory, _, _ = self.reactor.tcpClients.pop()
        wire = Wire(factory.buildProtocol(None), IPv4Address("TCP", "192.0.2.1", 61613))
        wire.protocol.makeConnection(wire)
        return wire

    def refuse(self, error: Exception) -> None:
        """The broker that the relay tries to reach cannot be reached."""
        factory: Any = self.reactor.tcpClients.pop()[2]
        factory.clientConnectionFailed(None, Failure(error))
        self.reactor.advance(0)

    def session(self) -> tuple[Wire, Wire]:
        """A connected client and its broker."""
        client = self.client()
        client.says(CONNECT)
        broker = self.broker()
        assert broker.written().startswith(b"CONNECT\n")
        broker.says(CONNECTED)
        assert client.written().startswith(b"CONNECTED\n")
        return client, broker

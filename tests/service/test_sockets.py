"""TCP connections with less ado: they begin and end as Twisted's own do."""

import errno
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from unittest.mock import Mock, call

import pytest
import pytest_twisted
from twisted.internet import epollreactor, error, tcp
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.protocol import ClientFactory, Protocol, connectionDone
from twisted.internet.testing import MemoryReactor, MemoryReactorClock
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.service.connection.failures import shortage, spell
from stomprelay.service.connection.reactor import RelayReactor
from stomprelay.service.network import sockets
from stomprelay.service.network.endpoints import listening_service
from stomprelay.service.network.sockets import READ, Socket, SocketConnector
from tests.service.sockets import Accepting, port_of, reactor, running, socket_pair, turning, until


def turn(made: Any, count: int = 5) -> None:
    """Let it look at all its sockets, and perform what is due, so many times."""
    for _ in range(count):
        made.runUntilCurrent()
        made.doPoll(0.02)


class Whole(Protocol):
    """Keeps what it is told; it knows no half of a connection."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def dataReceived(self, data: bytes) -> None:
        self.told.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.told.append(reason.type)


@implementer(IHalfCloseableProtocol)
class Half(Whole):
    """The same of a protocol that does."""

    def readConnectionLost(self) -> None:
        self.told.append("the peer closed")

    def writeConnectionLost(self) -> None:
        self.told.append("all is written")


class Pair:
    """A connection of ours, or Twisted's, on a reactor of ours or Twisted's, and the peer's plain socket."""

    def __init__(self, made: Any, protocol: Any, kind: type[tcp.Connection]) -> None:
        self.peer, own = socket_pair()
        self.peer.settimeout(5)
        place = own.getpeername()
        self.made = made
        self.protocol = protocol
        self.connection: Any
        if kind is Socket:
            self.connection = Socket(own, protocol, place, made)
        else:
            self.connection = tcp.Server(own, protocol, place, None, 0, made)  # type: ignore[arg-type]
        protocol.makeConnection(self.connection)


KINDS = [
    (epollreactor.EPollReactor, tcp.Server),
    (epollreactor.EPollReactor, Socket),
    (RelayReactor, tcp.Server),
    (RelayReactor, Socket),
]


@pytest.fixture(params=KINDS, ids=lambda kinds: " ".join(each.__name__ for each in kinds))
def made(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Makes pairs, all of which behave alike."""
    with turning(request.param[0]) as each:
        pairs: list[Pair] = []

        def make(protocol: Any) -> Pair:
            pairs.append(Pair(each, protocol, request.param[1]))
            return pairs[-1]

        yield make
        for pair in pairs:
            pair.peer.close()
            if hasattr(pair.connection, "socket"):
                pair.connection.connectionLost(Failure(CONNECTION_LOST))
        assert not [reader for reader in each.getReaders() if isinstance(reader, tcp.Connection)]
        assert not each.getWriters()


# The end of a connection, as Twisted has it


def test_a_peer_that_closes(made: Any) -> None:
    """It may have half of its connection closed; who knows no halves has lost it."""
    half, whole = made(Half()), made(Whole())
    for pair in (half, whole):
        pair.peer.sendall(b"last words")
        pair.peer.shutdown(socket.SHUT_WR)
        turn(pair.made)
    assert half.protocol.told == [b"last words", "the peer closed"]
    assert whole.protocol.told == [b"last words", error.ConnectionDone]
    half.connection.write(b"answer")
    half.connection.loseConnection()
    turn(half.made)
    assert half.protocol.told[2:] == [error.ConnectionDone]
    assert half.peer.recv(100) == b"answer"
    assert half.peer.recv(100) == whole.peer.recv(100) == b""


def test_our_own_half(made: Any) -> None:
    """It is closed when all is written, at once where nothing waits; what is written later is dropped."""
    for first in (b"", b"first"):
        pair = made(Half())
        pair.connection.write(first)
        pair.connection.loseWriteConnection()
        turn(pair.made)
        pair.connection.write(b"too late")
        turn(pair.made)
        assert pair.protocol.told == ["all is written"]
        received = b"".join(iter(lambda pair=pair: pair.peer.recv(100), b""))  # type: ignore[misc]
        assert received == first
        pair.peer.sendall(b"still heard")
        turn(pair.made)
        pair.peer.close()
        turn(pair.made)
        assert pair.protocol.told == ["all is written", b"still heard", "the peer closed"]
        pair.connection.loseConnection()
        assert pair.protocol.told[3:] == [error.ConnectionDone]


def test_an_abort(made: Any) -> None:
    """What waits is dropped, and the peer's connection is reset."""
    pair = made(Half())
    pair.connection.write(b"never")
    pair.connection.abortConnection()
    assert pair.protocol.told == []
    turn(pair.made)
    assert pair.protocol.told == [error.ConnectionAborted]
    with pytest.raises(ConnectionResetError):
        pair.peer.recv(100)
    pair.connection.loseConnection()
    pair.connection.connectionLost(Failure(CONNECTION_LOST))
    assert pair.protocol.told == [error.ConnectionAborted]


def test_two_that_queue(made: Any) -> None:
    """What one connection queues, in one piece or in several, no other one writes."""
    one, other = made(Half()), made(Half())
    one.connection.write(b"one")
    other.connection.writeSequence([b"the ", b"other"])
    turn(one.made)
    assert (one.peer.recv(100), other.peer.recv(100)) == (b"one", b"the other")


def test_producers(made: Any) -> None:
    """They are paused and resumed, and stopped at the end."""

    pair, producer = made(Half()), Mock()
    pair.connection.registerProducer(producer, True)
    data = b"x" * 8_000_000
    pair.connection.write(data)
    assert producer.method_calls == [call.pauseProducing()]
    left = len(data)
    while left:
        turn(pair.made, 1)
        left -= len(pair.peer.recv(1 << 20))
    turn(pair.made)
    assert producer.method_calls[1:] == [call.resumeProducing()]
    pair.connection.connectionLost(Failure(CONNECTION_LOST))
    assert producer.method_calls[2:] == [call.stopProducing()]


def test_a_protocol_that_fails(made: Any) -> None:
    """That is logged, and its connection ends, no other."""

    class Failing(Whole):
        def dataReceived(self, data: bytes) -> None:
            raise ZeroDivisionError("a bug")

    one, other = made(Failing()), made(Whole())
    one.peer.sendall(b"hello")
    other.peer.sendall(b"hello")
    turn(one.made)
    assert one.protocol.told == [ZeroDivisionError]
    assert other.protocol.told == [b"hello"]


@pytest.fixture(autouse=True)
def logged_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that a test provokes go nowhere."""
    monkeypatch.setattr("twisted.python.log.err", lambda *_: None)


NOT_OURS = {"fileno", "server", "client", "sessionno", "hostname", "repstr", "logstr"}
"""What Twisted's connections have of their own, and ours do without."""


def test_twisted_sets_what_we_set() -> None:
    """Attributes of a connection at its beginning and at its end: where this fails, `Socket` needs another look."""
    states = []
    for kind in (tcp.Server, Socket):
        pair = Pair(MemoryReactor(), Whole(), kind)
        begun = dict(vars(pair.connection))
        pair.connection.connectionLost(Failure(CONNECTION_DONE))
        pair.peer.close()
        ended = dict(vars(pair.connection))
        for each in (begun, ended):
            for name in NOT_OURS:
                each.pop(name, None)
            for name in [name for name in each if name in vars(Socket) or name == "_place"]:
                del each[name]
        ended.pop("socket", None)  # closed
        assert ended.pop("producer", None) is None
        states.append((begun.keys(), {k: v for k, v in ended.items() if k != "reactor"}))
    assert states[0] == states[1]


def test_the_attributes_shown_to_python_are_twisteds_and_ours() -> None:
    """Each name that all connections share a table of is one that they have, or Twisted's."""
    pair = Pair(MemoryReactor(), Whole(), Socket)
    assert all(hasattr(pair.connection, name) for name in sockets._NAMES)
    pair.connection.connectionLost(Failure(CONNECTION_DONE))
    pair.peer.close()


def test_what_our_reactor_knows_of_twisteds() -> None:
    """Where descriptors are kept, how they are polled, read from, and ended."""
    with turning(epollreactor.EPollReactor) as made:
        pair = Pair(made, Whole(), tcp.Server)
        pair.connection.startReading()
        descriptor = pair.connection.fileno()
        assert made._selectables[descriptor] is pair.connection
        pair.peer.sendall(b"hello")
        assert made._poller.poll(1, len(made._selectables)) == [(descriptor, made._POLL_IN)]
        made._doReadOrWrite(pair.connection, descriptor, made._POLL_IN)
        made._disconnectSelectable(pair.connection, CONNECTION_DONE, True)
        assert pair.protocol.told == [b"hello", type(CONNECTION_DONE)]
        assert descriptor not in made._selectables
        made.callLater(5, print)
        assert 0 < made.timeout() <= 5
        pair.peer.close()


# Clients that are accepted


def server(host: str) -> socket.socket:
    """A socket that listens at this address. Skips the test where there is no such address."""
    try:
        return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError:
        pytest.skip("no such addresses here")


@pytest.mark.parametrize(
    ("interface", "kind", "host"), [("127.0.0.1", IPv4Address, "127.0.0.1"), ("\\:\\:1", IPv6Address, "::1")]
)
@pytest_twisted.ensureDeferred
async def test_a_client_is_accepted(interface: str, kind: type, host: str) -> None:
    """With the addresses and the options that it should have."""
    accepting = Accepting()
    server(host).close()
    service = listening_service(reactor, "public", f"tcp:0:interface={interface}", accepting)
    async with running(service):
        with closing(socket.create_connection((host, port_of(service)))) as client:
            peer: Any = await accepting.accepted.get()
            await until(lambda: peer.transport is not None)
            transport = peer.transport
            assert type(transport) is Socket
            assert transport.getPeer() == kind("TCP", *client.getsockname())
            assert transport.getHost() == kind("TCP", *client.getpeername())
            assert transport.getTcpNoDelay()
            assert transport.getTcpKeepAlive()
            client.sendall(b"hello")
            await peer.receive_until(b"hello")
        await peer.ended()
        transport.loseConnection()
        await peer.gone()


@pytest_twisted.ensureDeferred
async def test_without_descriptors_twisted_knows_what_to_do() -> None:
    """It is asked to accept what could not be accepted."""
    service = listening_service(reactor, "public", "tcp:0:interface=127.0.0.1", Accepting())
    async with running(service):
        port: Any = service._opened.result  # type: ignore[union-attr]
        kept = port.socket
        accept = Mock(side_effect=OSError(errno.EMFILE, "Too many open files"))
        port.socket = Mock(wraps=kept, accept=accept, _accept=accept)  # ours, and Twisted's
        try:
            port.doRead()
        finally:
            port.socket = kept
        assert accept.call_count > 1


# Attempts to connect


class Told(ClientFactory):
    """Keeps what it is told."""

    def __init__(self, protocol: Any) -> None:
        self.told: list[Any] = []
        self.made = protocol

    def doStart(self) -> None:
        self.told.append("start")

    def doStop(self) -> None:
        self.told.append("stop")

    def startedConnecting(self, connector: Any) -> None:
        self.told.append(("begun", connector.getDestination()))

    def buildProtocol(self, addr: Any) -> Any:
        self.told.append(("built", addr))
        return self.made

    def clientConnectionFailed(self, connector: object, reason: Failure) -> None:
        self.told.append(("failed", reason.type, spell(reason)))

    def clientConnectionLost(self, connector: object, reason: Failure) -> None:
        self.told.append(("lost", reason.type))


REACTORS = pytest.mark.parametrize("kind", [epollreactor.EPollReactor, RelayReactor])


@REACTORS
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_connection_is_made(kind: type, host: str) -> None:
    """Whoever makes it, the factory is told the same."""
    with turning(kind) as made, server(host) as door:
        factory = Told(Whole())
        port = door.getsockname()[1]
        connector = made.connectTCP(host, port, factory, 5)
        assert isinstance(connector, SocketConnector) == (kind is RelayReactor)
        turn(made)
        peer, place = door.accept()
        with peer:
            transport = factory.made.transport
            assert (transport.getHost().host, transport.getHost().port) == place[:2]
            assert transport.getPeer().port == port
            assert type(transport) is Socket or kind is not RelayReactor
            peer.sendall(b"hello")
            turn(made)
        turn(made)
        assert factory.made.told == [b"hello", error.ConnectionDone]
        address = IPv6Address("TCP", host, port) if ":" in host else IPv4Address("TCP", host, port)
        begun, built, lost = ("begun", address), ("built", address), ("lost", error.ConnectionDone)
        assert factory.told == ["start", begun, built, lost, "stop"]
        assert made.getDelayedCalls() == []


@REACTORS
def test_a_connection_is_refused(kind: type) -> None:
    """In the same words, and not before the reactor's next turn."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    with turning(kind) as made:
        factory = Told(Whole())
        made.connectTCP("127.0.0.1", port, factory, 5)
        assert len(factory.told) == 2
        turn(made)
        assert factory.told[2:] == [("failed", error.ConnectionRefusedError, "connection refused"), "stop"]
        assert made.getDelayedCalls() == []
        assert made.getWriters() == []


@contextmanager
def silent() -> Iterator[int]:
    """A port that answers nobody: more wait there already than may."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen(0)
        waiting = []
        for _ in range(3):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(door.getsockname())
            waiting.append(client)
        try:
            yield door.getsockname()[1]
        finally:
            for client in waiting:
                client.close()


@contextmanager
def attempting() -> Iterator[tuple[MemoryReactorClock, Told, SocketConnector]]:
    """An attempt to connect that has begun, its reactor, and what it is for."""
    with silent() as port:
        memory, factory = MemoryReactorClock(), Told(Whole())
        attempt = SocketConnector(memory, "127.0.0.1", port, factory, 5)
        attempt.connect()
        yield memory, factory, attempt


def test_a_reactor_that_stops() -> None:
    """Ends attempts, and connections that were made."""
    with attempting() as (_, factory, attempt):
        attempt.connectionLost(Failure(CONNECTION_LOST))
        assert factory.told[2][:2] == ("failed", error.ConnectError)


def test_an_event_of_another_connection_establishes_nothing() -> None:
    """A descriptor may be used again in the turn in which its last connection ended, of which an event may follow."""
    with attempting() as (memory, factory, attempt):
        attempt.doRead()
        attempt.doWrite()
        assert len(factory.told) == 2
        assert memory.getWriters() == [attempt]
        attempt.disconnect()
        assert factory.told[2:] == [("failed", error.UserError, "cancelled"), "stop"]
        assert memory.getWriters() == []
        attempt.disconnect()
        attempt.doWrite()
        assert len(factory.told) == 4


def test_there_is_no_descriptor_for_an_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is nobody's fault but this process's."""
    memory, factory = MemoryReactorClock(), Told(Whole())
    reasons: list[Failure] = []
    monkeypatch.setattr(factory, "clientConnectionFailed", lambda _, reason: reasons.append(reason))
    monkeypatch.setattr(socket, "SocketType", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
    SocketConnector(memory, "127.0.0.1", 1, factory, 5).connect()
    assert reasons == []
    memory.advance(0)
    assert shortage(reasons[0]) == "Too many open files"


def test_other_ways_to_connect_are_twisteds() -> None:
    """Names, and addresses of one's own to bind to."""
    with turning(RelayReactor) as made, socket.create_server(("127.0.0.1", 0)) as door:
        factory = Told(Whole())
        connector = made.connectTCP(*door.getsockname(), factory, 5, ("127.0.0.1", 0))
        assert type(connector) is tcp.Connector
        connector.stopConnecting()
        turn(made)


# Turns


@contextmanager
def much_is_sent(protocol: type[Whole]) -> Iterator[tuple[Any, list[Pair]]]:
    """A reactor of ours, and four connections whose peers have sent 60,000 bytes each."""
    with turning(RelayReactor) as made:
        pairs = [Pair(made, protocol(), Socket) for _ in range(4)]
        for pair in pairs:
            pair.connection.bufferSize = READ
            pair.peer.sendall(bytes(60_000))
        yield made, pairs
        for pair in pairs:
            pair.peer.close()
            pair.connection.connectionLost(Failure(CONNECTION_LOST))


def test_all_together_receive_so_much_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where many have sent much, each is read from for its share; who is alone, for as much as it has."""
    monkeypatch.setattr("stomprelay.service.connection.reactor._RECEIVED", 4 * 20_000)
    with much_is_sent(Whole) as (made, pairs):
        made.doPoll(0.02)
        assert [[len(each) for each in pair.protocol.told] for pair in pairs] == [[20_000]] * 4
        for pair in pairs[1:]:
            pair.connection.stopReading()
        made.doPoll(0.02)
        assert [len(each) for each in pairs[0].protocol.told] == [20_000, 40_000]


def test_what_takes_long_is_read_in_smaller_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a turn takes eight times its time, the next one reads an eighth; after a short one, twice as much."""
    now, seconds = 0.0, 0.0

    class Slow(Whole):
        def dataReceived(self, data: bytes) -> None:
            nonlocal now
            now += seconds
            super().dataReceived(data)

    with much_is_sent(Slow) as (made, pairs):
        monkeypatch.setattr(made, "seconds", lambda: now)
        monkeypatch.setattr("stomprelay.service.connection.reactor._TURN", 0.25)
        monkeypatch.setattr(made, "_most", 4 * 20_000.0)
        for seconds in (0.5, 0.0, 0.0):  # noqa: B007
            made.doPoll(0.02)
        assert [[len(each) for each in pair.protocol.told] for pair in pairs] == [[20_000, 2_500, 5_000]] * 4

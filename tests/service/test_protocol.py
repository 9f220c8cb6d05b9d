"""One leg's connection: what its driver is told, and how it ends."""

import gc
import socket
import struct
import weakref
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import defer, endpoints, error, reactor
from twisted.internet.address import UNIXAddress
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.protocols.tls import TLSMemoryBIOFactory

from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.connection import direct
from stomprelay.service.connection.backpressure import ASKED, PRESSURE
from stomprelay.service.connection.protocol import LegProtocol, Runtime
from stomprelay.service.network import tls
from stomprelay.session.effects import Close, How
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits
from tests.e2e.certificates import Authority
from tests.service.ground import Ground, Recording
from tests.service.house import Wire
from tests.service.talker import Accepting, Talker, connect, until

CLIENT, BROKER = Side.DOWNSTREAM, Side.UPSTREAM


@pytest.fixture
def ground() -> Ground:
    """A connected client."""
    ground = Ground()
    assert ground.said() == [("connected", CLIENT)]
    return ground


def test_octets_are_told_and_counted(ground: Ground) -> None:
    """As they come."""
    ground.wire.says(b"one")
    ground.wire.says(b"three")
    assert ground.said() == [("received", CLIENT, b"one"), ("received", CLIENT, b"three")]
    assert ground.protocol.bytes_received == 8


def test_a_connection_that_is_lost(ground: Ground) -> None:
    """Told with a reason; then the leg is closed, and nothing of it is kept."""
    ground.wire.goes(error.ConnectionLost())
    assert ground.said() == [("lost", CLIENT, "connection reset")]
    assert ground.over == [ground.driver]
    assert ground.runtime.protocols == {}
    assert ground.runtime.sockets == 0
    assert ground.protocol.peer == ground.wire.getPeer()


def test_a_peer_that_closes_its_direction(ground: Ground) -> None:
    """What is queued for it is written before the connection ends."""
    ground.protocol.readConnectionLost()
    assert ground.said() == [("lost", CLIENT, "connection closed")]
    assert ground.wire.ends == ["flush"]
    ground.wire.goes()
    assert ground.said() == []


def test_the_answer_to_a_half_closed_peer_decides_how_it_ends(ground: Ground) -> None:
    """Where the core closes the leg itself, that counts."""
    ground.driver.lost = lambda protocol, reason: protocol.close(How.LINGER)  # type: ignore[method-assign]
    ground.protocol.readConnectionLost()
    assert ground.wire.ends == ["half"]


def test_pressure_is_told_to_the_producer(ground: Ground) -> None:
    """Whose octets are written here stops when they are too many."""
    source = Ground()
    source.said()
    assert source.protocol.reading is not None
    ground.protocol.set_producer(source.protocol.reading)
    ground.wire.fills()
    assert not source.wire.reading
    assert source.said() == [("read", CLIENT, False)]
    ground.wire.drains()
    assert source.wire.reading
    ground.wire.fills()
    ground.protocol.close(How.ABORT)
    assert source.wire.reading
    assert ground.wire.producer is None


def test_another_producer_takes_the_place_of_the_first(ground: Ground) -> None:
    """The first one is released."""
    one, two = Ground(), Ground()
    assert one.protocol.reading is not None
    assert two.protocol.reading is not None
    ground.protocol.set_producer(one.protocol.reading)
    ground.wire.fills()
    ground.protocol.set_producer(two.protocol.reading)
    assert one.wire.reading
    assert ground.wire.producer is two.protocol.reading


@pytest.mark.parametrize("how", [How.FLUSH, How.LINGER])
def test_a_closed_connection_is_read_and_thrown_away(ground: Ground, how: How) -> None:
    """Whatever stood against reading: the peer's end has to be seen."""
    assert ground.protocol.reading is not None
    ground.protocol.reading.hold(PRESSURE)
    ground.said()
    ground.protocol.close(how)
    assert ground.wire.reading
    ground.wire.says(b"x")
    assert ground.said() == []


@pytest.mark.parametrize("flushed", [True, False])
def test_a_peer_that_does_not_close(ground: Ground, flushed: bool) -> None:
    """After the time to linger it is closed without it: in order when all was sent, else at once."""
    ground.protocol.close(How.LINGER)
    if flushed:
        ground.protocol.writeConnectionLost()
    ground.clock.advance(1.9)
    assert ground.wire.ends == ["half"]
    ground.clock.advance(0.1)
    assert ground.wire.ends == ["half", "flush" if flushed else "abort"]
    ground.wire.goes()
    assert ground.clock.getDelayedCalls() == []


def test_a_peer_that_does_not_read_what_is_left_for_it(ground: Ground) -> None:
    """The time to linger bounds the flush, too."""
    ground.protocol.close(How.FLUSH)
    ground.clock.advance(2)
    assert ground.wire.ends == ["flush", "abort"]


def test_closing_twice(ground: Ground) -> None:
    """The first counts."""
    ground.protocol.close(How.FLUSH)
    ground.protocol.close(How.ABORT)
    assert ground.wire.ends == ["flush"]
    assert ground.over == [ground.driver]


class Endpoint:
    """An endpoint that does what a test tells it."""

    def __init__(self, connect: Any) -> None:
        self._connect = connect

    def connect(self, factory: Any) -> Any:
        return self._connect(factory)


def attempt(ground: Ground, connect: Any) -> LegProtocol:
    """A broker's leg that is being connected by such an endpoint."""
    protocol = LegProtocol(ground.driver, Leg(BROKER, Limits()))
    endpoint: Any = Endpoint(connect)
    protocol.connect(endpoint)
    return protocol


def test_an_attempt_that_succeeds_at_once(ground: Ground) -> None:
    """The driver is told, and there is nothing left to cancel."""

    def connect(factory: Any) -> defer.Deferred[Any]:
        factory.doStart()
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(Wire(protocol))
        return defer.succeed(protocol)

    protocol = attempt(ground, connect)
    assert ground.said() == [("connected", BROKER)]
    assert ground.runtime.protocols[protocol.leg] is protocol
    assert protocol._attempt is None


def test_an_attempt_that_is_given_up(ground: Ground) -> None:
    """It is cancelled, and nothing is told of it."""
    cancelled: list[object] = []
    protocol = attempt(ground, lambda factory: defer.Deferred(cancelled.append))
    assert ground.said() == []
    ground.driver.perform([Close(protocol.leg, How.ABORT)])
    assert len(cancelled) == 1
    ground.clock.advance(0)
    assert ground.said() == []
    assert protocol.leg not in ground.runtime.protocols


@pytest.mark.parametrize("later", [True, False])
def test_an_attempt_that_fails(ground: Ground, later: bool) -> None:
    """Told as refused with the reason, never before the reactor's next turn."""
    attempts: list[defer.Deferred[Any]] = []

    def connect(factory: Any) -> defer.Deferred[Any]:
        attempts.append(defer.Deferred() if later else defer.fail(error.ConnectionRefusedError()))
        return attempts[0]

    protocol = attempt(ground, connect)
    if later:
        attempts[0].errback(error.ConnectionRefusedError())
    assert ground.said() == []
    ground.clock.advance(0)
    assert ground.said() == [("refused", BROKER, "connection refused")]
    assert protocol.leg not in ground.runtime.protocols


def test_several_attempts_at_a_time(ground: Ground) -> None:
    """Each with a leg of its own; giving up one leaves the other."""
    cancelled: list[object] = []
    factories: list[Any] = []

    def connect(factory: Any) -> defer.Deferred[Any]:
        factories.append(factory)
        return defer.Deferred(cancelled.append)

    first, second = attempt(ground, connect), attempt(ground, connect)
    first.close(How.ABORT)
    assert len(cancelled) == 1
    protocol = factories[1].buildProtocol(None)
    protocol.makeConnection(Wire(protocol))
    assert ground.said() == [("connected", BROKER)]
    assert list(ground.runtime.protocols) == [ground.leg, second.leg]


def test_a_connection_that_comes_too_late(ground: Ground) -> None:
    """Where an attempt cannot be cancelled any more, what comes of it is dropped."""
    protocol = LegProtocol(ground.driver, Leg(BROKER, Limits()))
    protocol.close(How.FLUSH)
    wire = Wire(protocol)
    protocol.makeConnection(wire)
    assert wire.ends == ["abort"]
    wire.goes()
    assert ground.said() == []
    assert ground.runtime.sockets == 1


def test_writing_to_a_connection_that_is_not_there(ground: Ground) -> None:
    """Nothing to write to, nothing raised."""
    LegProtocol(ground.driver, Leg(BROKER, Limits())).write(b"x")


def test_a_connection_is_small() -> None:
    """It has slots and no dictionary."""
    assert not hasattr(Ground().protocol, "__dict__")


def test_a_lost_connection_is_freed_at_once() -> None:
    """Nothing of it waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        ground = Ground()
        ground.wire.says(b"x")
        assert ground.protocol.reading is not None
        seen = weakref.finalize(ground.wire, int)
        driver = weakref.finalize(ground.driver, int)
        ground.wire.goes()
        ground.over.clear()
        ground.wire.protocol = None
        del ground
        assert not seen.alive
        assert not driver.alive
    finally:
        gc.enable()


# On real sockets


class Real:
    """A driver that keeps its connections, on the real reactor."""

    def __init__(self) -> None:
        self.runtime = Runtime(reactor, reactor.seconds)
        self.driver = Recording(self.runtime, lambda driver: None)
        self.protocols: list[LegProtocol] = []

    def protocol(self, side: Side) -> LegProtocol:
        protocol = LegProtocol(self.driver, Leg(side, Limits()))
        self.protocols.append(protocol)
        return protocol

    def factory(self, side: Side = CLIENT) -> Factory:
        """Builds a protocol for each connection."""
        real = self

        class Building(Factory):
            noisy = False

            def buildProtocol(self, addr: IAddress | None) -> Any:
                return real.protocol(side)

        return Building()

    def told(self, what: str) -> list[tuple[Any, ...]]:
        """What the driver was told of this kind."""
        return [each for each in self.driver.told if each[0] == what]


async def listening(factory: Any) -> Any:
    """A port on the loopback interface."""
    return await endpoints.TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(factory)


def at(port: Any) -> str:
    """The way to it."""
    return f"tcp:127.0.0.1:{port.getHost().port}"


@pytest_twisted.ensureDeferred
async def test_lingering_on_a_real_socket() -> None:
    """The peer gets everything and an end; what it says meanwhile is thrown away; its end ends it."""
    real = Real()
    port = await listening(real.factory())
    peer = await connect(at(port))
    await until(lambda: real.protocols)
    (protocol,) = real.protocols
    protocol.write(b"x" * 5_000_000)
    protocol.close(How.LINGER)
    peer.transport.write(b"y" * 100_000)
    assert len(await peer.hears_all(5_000_000)) == 5_000_000
    await peer.ended()
    assert peer.half_closed
    assert real.runtime.sockets == 1
    peer.transport.loseConnection()
    await until(lambda: real.runtime.sockets == 0)
    assert real.told("lost") == []
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_half_closed_peer_on_a_real_socket() -> None:
    """It is told as lost, and still gets what was queued for it."""
    real = Real()
    port = await listening(real.factory())
    peer = await connect(at(port))
    await until(lambda: real.protocols)
    real.protocols[0].write(b"x" * 5_000_000)
    peer.transport.loseWriteConnection()
    await until(lambda: real.told("lost"))
    assert len(await peer.hears_all(5_000_000)) == 5_000_000
    await peer.gone()
    assert real.told("lost") == [("lost", CLIENT, "connection closed")]
    assert real.runtime.sockets == 0
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_peer_that_breaks_off_on_a_real_socket() -> None:
    """A reset is seen when the leg is read from again."""
    real = Real()
    port = await listening(real.factory())
    raw = socket.create_connection(("127.0.0.1", port.getHost().port))
    await until(lambda: real.protocols)
    reading = real.protocols[0].reading
    assert reading is not None
    reading.hold(PRESSURE)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()
    reading.release(PRESSURE)
    await until(lambda: real.told("lost"))
    assert real.told("lost") == [("lost", CLIENT, "connection reset")]
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_the_end_is_seen_where_only_the_core_does_not_want_to_read() -> None:
    """A client that gives up while its broker is awaited is seen to go."""
    real = Real()
    port = await listening(real.factory())
    peer = await connect(at(port))
    await until(lambda: real.protocols)
    reading = real.protocols[0].reading
    assert reading is not None
    reading.hold(ASKED)
    peer.transport.loseConnection()
    await until(lambda: real.told("lost"))
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_the_settings_of_a_socket() -> None:
    """No delay, keep alive, small reads until there is much to read; and nothing between socket and leg."""
    real = Real()
    accepting = Accepting()
    port = await listening(accepting)
    attempt = endpoints.clientFromString(reactor, at(port)).connect(real.factory(BROKER))
    await attempt
    peer: Talker = await accepting.accepted.get()
    (protocol,) = real.protocols
    transport = protocol.transport
    assert type(transport).__name__ == "Client"
    assert transport.protocol is protocol
    assert transport.getTcpNoDelay()
    assert transport.getTcpKeepAlive()
    assert transport.bufferSize == direct.FIRST_READ
    peer.transport.write(b"x" * 1_000_000)
    await until(lambda: protocol.bytes_received == 1_000_000)
    assert transport.bufferSize == direct.READ
    peer.transport.loseConnection()
    await until(lambda: real.runtime.sockets == 0)
    await port.stopListening()


# TLS


class Secured:
    """A listener's connection, and a broker's that reaches it, with TLS between."""

    def __init__(self, directory: Path, *names: str) -> None:
        authority = Authority(directory, "authority")
        own = authority.issue("server", names or ("localhost",))
        self.server = tls.for_listener(ServerTLS(str(own.certificate), str(own.key)))
        self.client = tls.for_broker(ClientTLS(str(authority.file)), "localhost")
        self.ours, self.theirs = Real(), Real()

    async def __aenter__(self) -> "Secured":
        wrapped = TLSMemoryBIOFactory(self.server, False, self.theirs.factory(), reactor)
        self.port = await listening(wrapped)
        plain = endpoints.clientFromString(reactor, at(self.port))
        endpoint = endpoints.wrapClientTLS(self.client, plain, reactor)
        await endpoint.connect(self.ours.factory(BROKER))
        return self

    async def __aexit__(self, *_: object) -> None:
        await until(lambda: self.ours.runtime.sockets == 0 and self.theirs.runtime.sockets == 0)
        await self.port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_broker_with_tls_is_there_after_the_handshake(tmp_path: Path) -> None:
    """A client is there before it, for its time runs from the first moment."""
    async with Secured(tmp_path) as secured:
        assert secured.ours.told("connected") == []
        await until(lambda: secured.theirs.told("connected"))
        await until(lambda: secured.ours.told("connected"))
        secured.ours.protocols[0].write(b"hello")
        await until(lambda: secured.theirs.told("received"))
        secured.theirs.protocols[0].write(b"bye")
        secured.theirs.protocols[0].close(How.LINGER)
        await until(lambda: secured.ours.told("lost"))
    assert secured.ours.told("received") == [("received", BROKER, b"bye")]
    assert secured.ours.told("lost") == [("lost", BROKER, "connection closed")]
    assert secured.theirs.told("lost") == []


@pytest_twisted.ensureDeferred
async def test_a_broker_with_a_wrong_certificate_is_refused(tmp_path: Path) -> None:
    """It was never there; the reason names both names."""
    async with Secured(tmp_path, "elsewhere.example") as secured:
        await until(lambda: secured.ours.told("refused"))
    assert secured.ours.told("connected") == []
    ((_, _, reason),) = secured.ours.told("refused")
    assert reason == "TLS: certificate verify failed: it is for elsewhere.example, not for localhost"


@pytest_twisted.ensureDeferred
async def test_tls_throttles(tmp_path: Path) -> None:
    """A peer that does not read fills the transport, which says so; and everything arrives."""
    async with Secured(tmp_path) as secured:
        await until(lambda: secured.ours.told("connected"))
        ours, theirs = secured.ours.protocols[0], secured.theirs.protocols[0]
        source = Ground()
        assert source.protocol.reading is not None
        assert theirs.reading is not None
        theirs.reading.hold(PRESSURE)
        ours.set_producer(source.protocol.reading)
        written = 0
        while source.wire.reading:
            ours.write(b"x" * 100_000)
            written += 100_000
            assert written < 50_000_000
            await until(lambda: True)
            await defer.ensureDeferred(turn())
        theirs.reading.release(PRESSURE)
        await until(lambda: theirs.bytes_received == written)
        await until(lambda: source.wire.reading)
        ours.close(How.FLUSH)


async def turn() -> None:
    """Let the reactor turn once."""
    from twisted.internet.task import deferLater

    await deferLater(reactor, 0)


@pytest_twisted.ensureDeferred
async def test_closing_during_the_handshake(tmp_path: Path) -> None:
    """Gives it up at once, and nothing is told."""
    async with Secured(tmp_path) as secured:
        secured.ours.protocols[0].close(How.FLUSH)
    assert secured.ours.driver.told == []


@pytest_twisted.ensureDeferred
async def test_a_plain_peer_on_a_tls_port(tmp_path: Path) -> None:
    """It is lost with a reason that says so."""
    async with Secured(tmp_path) as secured:
        await until(lambda: secured.ours.told("connected"))
        plain = await connect(at(secured.port))
        plain.transport.write(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        await plain.gone()
        secured.ours.protocols[0].close(How.FLUSH)
    reasons = [reason for _, _, reason in secured.theirs.told("lost")]
    assert any("does not speak TLS" in reason for reason in reasons), reasons


def test_wrapped_transports() -> None:
    """Behind a PROXY header the transport is used as it is: it has a socket beneath, yet not one to write to."""
    ground = Ground()
    memory = MemoryReactorClock()
    endpoint = endpoints.serverFromString(memory, "haproxy:tcp:61613")
    protocol = LegProtocol(ground.driver, Leg(CLIENT, Limits()))

    class Building(Factory):
        noisy = False

        def buildProtocol(self, addr: IAddress | None) -> Any:
            return protocol

    endpoint.listen(Building())
    factory = memory.tcpServers[0][1]
    wire = Wire(factory.buildProtocol(UNIXAddress(None)))
    wire.protocol.makeConnection(wire)
    ground.said()
    wire.says(b"PROXY TCP4 198.51.100.9 192.0.2.1 5555 61613\r\nhello")
    assert ground.said() == [("received", CLIENT, b"hello")]
    assert protocol.peer.host == "198.51.100.9"  # type: ignore[attr-defined]
    protocol.write(b"answer")
    assert wire.written() == b"answer"
    protocol.close(How.LINGER)
    assert wire.ends == ["half"]
    wire.goes()

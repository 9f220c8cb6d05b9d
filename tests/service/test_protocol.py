"""One leg's connection: what its performer is told, and how it ends."""

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
from twisted.python.failure import Failure

from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service import direct, tls
from stomprelay.service.perform import Stage
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.valve import ASKED, PRESSURE
from stomprelay.session.effects import How
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
    assert ground.said() == [("made", CLIENT)]
    return ground


def test_octets_are_told_and_counted(ground: Ground) -> None:
    """As they come."""
    ground.wire.says(b"one")
    ground.wire.says(b"three")
    assert ground.said() == [("received", CLIENT, b"one"), ("received", CLIENT, b"three")]
    assert ground.line.octets == 8


def test_a_connection_that_is_lost(ground: Ground) -> None:
    """Told with a reason; then the leg is closed, and nothing of it is kept."""
    ground.wire.goes(error.ConnectionLost())
    assert ground.said() == [("lost", CLIENT, "connection reset")]
    assert ground.over == [ground.performer]
    assert ground.stage.lines == {}
    assert ground.stage.sockets == 0
    assert ground.line.peer == ground.wire.getPeer()


def test_a_peer_that_closes_its_direction(ground: Ground) -> None:
    """What is queued for it is written before the connection ends."""
    ground.line.readConnectionLost()
    assert ground.said() == [("lost", CLIENT, "connection closed")]
    assert ground.wire.ends == ["flush"]
    ground.wire.goes()
    assert ground.said() == []


def test_the_answer_to_a_half_closed_peer_decides_how_it_ends(ground: Ground) -> None:
    """Where the core closes the leg itself, that counts."""
    ground.performer.lost = lambda line, reason: line.close(How.LINGER)  # type: ignore[method-assign]
    ground.line.readConnectionLost()
    assert ground.wire.ends == ["half"]


def test_pressure_is_told_to_the_producer(ground: Ground) -> None:
    """Whose octets are written here stops when they are too many."""
    source = Ground()
    source.said()
    assert source.line.valve is not None
    ground.line.throttle(source.line.valve)
    ground.wire.fills()
    assert not source.wire.reading
    assert source.said() == [("read", CLIENT, False)]
    ground.wire.drains()
    assert source.wire.reading
    ground.wire.fills()
    ground.line.part()
    assert source.wire.reading
    assert ground.wire.producer is None
    ground.line.part()


def test_another_producer_takes_the_place_of_the_first(ground: Ground) -> None:
    """The first one is released."""
    one, two = Ground(), Ground()
    assert one.line.valve is not None
    assert two.line.valve is not None
    ground.line.throttle(one.line.valve)
    ground.wire.fills()
    ground.line.throttle(two.line.valve)
    assert one.wire.reading
    assert ground.wire.producer is two.line.valve


@pytest.mark.parametrize("how", [How.FLUSH, How.LINGER])
def test_a_closed_connection_is_read_and_thrown_away(ground: Ground, how: How) -> None:
    """Whatever stood against reading: the peer's end has to be seen."""
    assert ground.line.valve is not None
    ground.line.valve.hold(PRESSURE)
    ground.said()
    ground.line.close(how)
    assert ground.wire.reading
    ground.wire.says(b"x")
    assert ground.said() == []


@pytest.mark.parametrize("flushed", [True, False])
def test_a_peer_that_does_not_close(ground: Ground, flushed: bool) -> None:
    """After the time to linger it is closed without it: in order when all was sent, else at once."""
    ground.line.close(How.LINGER)
    if flushed:
        ground.line.writeConnectionLost()
    ground.clock.advance(1.9)
    assert ground.wire.ends == ["half"]
    ground.clock.advance(0.1)
    assert ground.wire.ends == ["half", "flush" if flushed else "abort"]
    ground.wire.goes()
    assert ground.clock.getDelayedCalls() == []


def test_a_peer_that_does_not_read_what_is_left_for_it(ground: Ground) -> None:
    """The time to linger bounds the flush, too."""
    ground.line.close(How.FLUSH)
    ground.clock.advance(2)
    assert ground.wire.ends == ["flush", "abort"]


def test_closing_twice(ground: Ground) -> None:
    """The first counts."""
    ground.line.close(How.FLUSH)
    ground.line.close(How.ABORT)
    assert ground.wire.ends == ["flush"]
    assert ground.over == [ground.performer]


def test_an_attempt_that_fails(ground: Ground) -> None:
    """Told as refused, with the reason."""
    line = LegProtocol(ground.performer, Leg(BROKER, Limits()))
    line.failed(Failure(error.ConnectionRefusedError()))
    assert ground.said() == [("refused", BROKER, "connection refused")]
    assert line.leg not in ground.stage.lines


def test_an_attempt_that_is_given_up(ground: Ground) -> None:
    """It is cancelled, and nothing is told of it."""
    cancelled: list[object] = []
    line = LegProtocol(ground.performer, Leg(BROKER, Limits()))
    line.attempt = defer.Deferred(cancelled.append).addErrback(line.failed)
    line.close(How.FLUSH)
    assert len(cancelled) == 1
    assert ground.said() == []
    assert line.leg not in ground.stage.lines


def test_a_connection_that_comes_too_late(ground: Ground) -> None:
    """Where an attempt cannot be cancelled any more, what comes of it is dropped."""
    line = LegProtocol(ground.performer, Leg(BROKER, Limits()))
    line.close(How.FLUSH)
    wire = Wire(line)
    line.makeConnection(wire)
    assert wire.ends == ["abort"]
    wire.goes()
    assert ground.said() == []
    assert ground.stage.sockets == 1


def test_writing_to_a_connection_that_is_not_there(ground: Ground) -> None:
    """Nothing to write to, nothing raised."""
    LegProtocol(ground.performer, Leg(BROKER, Limits())).write(b"x")


def test_a_connection_is_small() -> None:
    """It has slots and no dictionary."""
    assert not hasattr(Ground().line, "__dict__")


def test_a_lost_connection_is_freed_at_once() -> None:
    """Nothing of it waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        ground = Ground()
        ground.wire.says(b"x")
        assert ground.line.valve is not None
        seen = weakref.finalize(ground.wire, int)
        valve = weakref.finalize(ground.performer.place, int)
        ground.wire.goes()
        ground.over.clear()
        ground.wire.protocol = None
        del ground
        assert not seen.alive
        assert not valve.alive
    finally:
        gc.enable()


# On real sockets


class Real:
    """A performer that keeps its connections, on the real reactor."""

    def __init__(self) -> None:
        self.stage = Stage(reactor, reactor.seconds, lambda performer: None)
        self.performer = Recording(self.stage)
        self.lines: list[LegProtocol] = []

    def line(self, side: Side) -> LegProtocol:
        line = LegProtocol(self.performer, Leg(side, Limits()))
        self.lines.append(line)
        return line

    def factory(self, side: Side = CLIENT) -> Factory:
        """Builds a line for each connection."""
        real = self

        class Building(Factory):
            noisy = False

            def buildProtocol(self, addr: IAddress | None) -> Any:
                return real.line(side)

        return Building()

    def told(self, what: str) -> list[tuple[Any, ...]]:
        """What the performer was told of this kind."""
        return [each for each in self.performer.told if each[0] == what]


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
    await until(lambda: real.lines)
    (line,) = real.lines
    line.write(b"x" * 5_000_000)
    line.close(How.LINGER)
    peer.transport.write(b"y" * 100_000)
    assert len(await peer.hears_all(5_000_000)) == 5_000_000
    await peer.ended()
    assert peer.half_closed
    assert real.stage.sockets == 1
    peer.transport.loseConnection()
    await until(lambda: real.stage.sockets == 0)
    assert real.told("lost") == []
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_half_closed_peer_on_a_real_socket() -> None:
    """It is told as lost, and still gets what was queued for it."""
    real = Real()
    port = await listening(real.factory())
    peer = await connect(at(port))
    await until(lambda: real.lines)
    real.lines[0].write(b"x" * 5_000_000)
    peer.transport.loseWriteConnection()
    await until(lambda: real.told("lost"))
    assert len(await peer.hears_all(5_000_000)) == 5_000_000
    await peer.gone()
    assert real.told("lost") == [("lost", CLIENT, "connection closed")]
    assert real.stage.sockets == 0
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_peer_that_breaks_off_on_a_real_socket() -> None:
    """A reset is seen when the leg is read from again."""
    real = Real()
    port = await listening(real.factory())
    raw = socket.create_connection(("127.0.0.1", port.getHost().port))
    await until(lambda: real.lines)
    valve = real.lines[0].valve
    assert valve is not None
    valve.hold(PRESSURE)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()
    valve.release(PRESSURE)
    await until(lambda: real.told("lost"))
    assert real.told("lost") == [("lost", CLIENT, "connection reset")]
    await port.stopListening()


@pytest_twisted.ensureDeferred
async def test_the_end_is_seen_where_only_the_core_does_not_want_to_read() -> None:
    """A client that gives up while its broker is awaited is seen to go."""
    real = Real()
    port = await listening(real.factory())
    peer = await connect(at(port))
    await until(lambda: real.lines)
    valve = real.lines[0].valve
    assert valve is not None
    valve.hold(ASKED)
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
    (line,) = real.lines
    transport = line.transport
    assert type(transport).__name__ == "Client"
    assert transport.protocol is line
    assert transport.getTcpNoDelay()
    assert transport.getTcpKeepAlive()
    assert transport.bufferSize == direct.FIRST_READ
    peer.transport.write(b"x" * 1_000_000)
    await until(lambda: line.octets == 1_000_000)
    assert transport.bufferSize == direct.READ
    peer.transport.loseConnection()
    await until(lambda: real.stage.sockets == 0)
    await port.stopListening()


# TLS


class Secured:
    """A listener's connection, and a broker's that reaches it, with TLS between."""

    def __init__(self, directory: Path, *names: str) -> None:
        authority = Authority(directory, "authority")
        own = authority.issue("server", names or ("localhost",))
        self.server = tls.server(ServerTLS(str(own.certificate), str(own.key)))
        self.client = tls.client(ClientTLS(str(authority.file)), "localhost")
        self.ours, self.theirs = Real(), Real()

    async def __aenter__(self) -> "Secured":
        wrapped = TLSMemoryBIOFactory(self.server, False, self.theirs.factory(), reactor)
        self.port = await listening(wrapped)
        plain = endpoints.clientFromString(reactor, at(self.port))
        endpoint = endpoints.wrapClientTLS(self.client, plain, reactor)
        await endpoint.connect(self.ours.factory(BROKER))
        return self

    async def __aexit__(self, *_: object) -> None:
        await until(lambda: self.ours.stage.sockets == 0 and self.theirs.stage.sockets == 0)
        await self.port.stopListening()


@pytest_twisted.ensureDeferred
async def test_a_broker_with_tls_is_there_after_the_handshake(tmp_path: Path) -> None:
    """A client is there before it, for its time runs from the first moment."""
    async with Secured(tmp_path) as secured:
        assert secured.ours.told("made") == []
        await until(lambda: secured.theirs.told("made"))
        await until(lambda: secured.ours.told("made"))
        secured.ours.lines[0].write(b"hello")
        await until(lambda: secured.theirs.told("received"))
        secured.theirs.lines[0].write(b"bye")
        secured.theirs.lines[0].close(How.LINGER)
        await until(lambda: secured.ours.told("lost"))
    assert secured.ours.told("received") == [("received", BROKER, b"bye")]
    assert secured.ours.told("lost") == [("lost", BROKER, "connection closed")]
    assert secured.theirs.told("lost") == []


@pytest_twisted.ensureDeferred
async def test_a_broker_with_a_wrong_certificate_is_refused(tmp_path: Path) -> None:
    """It was never there; the reason names both names."""
    async with Secured(tmp_path, "elsewhere.example") as secured:
        await until(lambda: secured.ours.told("refused"))
    assert secured.ours.told("made") == []
    ((_, _, reason),) = secured.ours.told("refused")
    assert reason == "TLS: certificate verify failed: it is for elsewhere.example, not for localhost"


@pytest_twisted.ensureDeferred
async def test_tls_throttles(tmp_path: Path) -> None:
    """A peer that does not read fills the transport, which says so; and everything arrives."""
    async with Secured(tmp_path) as secured:
        await until(lambda: secured.ours.told("made"))
        ours, theirs = secured.ours.lines[0], secured.theirs.lines[0]
        source = Ground()
        assert source.line.valve is not None
        assert theirs.valve is not None
        theirs.valve.hold(PRESSURE)
        ours.throttle(source.line.valve)
        written = 0
        while source.wire.reading:
            ours.write(b"x" * 100_000)
            written += 100_000
            assert written < 50_000_000
            await until(lambda: True)
            await defer.ensureDeferred(turn())
        theirs.valve.release(PRESSURE)
        await until(lambda: theirs.octets == written)
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
        secured.ours.lines[0].close(How.FLUSH)
    assert secured.ours.performer.told == []


@pytest_twisted.ensureDeferred
async def test_a_plain_peer_on_a_tls_port(tmp_path: Path) -> None:
    """It is lost with a reason that says so."""
    async with Secured(tmp_path) as secured:
        await until(lambda: secured.ours.told("made"))
        plain = await connect(at(secured.port))
        plain.transport.write(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        await plain.gone()
        secured.ours.lines[0].close(How.FLUSH)
    reasons = [reason for _, _, reason in secured.theirs.told("lost")]
    assert any("does not speak TLS" in reason for reason in reasons), reasons


def test_wrapped_transports() -> None:
    """Behind a PROXY header the transport is used as it is: it has a socket beneath, yet not one to write to."""
    ground = Ground()
    memory = MemoryReactorClock()
    endpoint = endpoints.serverFromString(memory, "haproxy:tcp:61613")
    line = LegProtocol(ground.performer, Leg(CLIENT, Limits()))

    class Building(Factory):
        noisy = False

        def buildProtocol(self, addr: IAddress | None) -> Any:
            return line

    endpoint.listen(Building())
    factory = memory.tcpServers[0][1]
    wire = Wire(factory.buildProtocol(UNIXAddress(None)))
    wire.protocol.makeConnection(wire)
    ground.said()
    wire.says(b"PROXY TCP4 198.51.100.9 192.0.2.1 5555 61613\r\nhello")
    assert ground.said() == [("received", CLIENT, b"hello")]
    assert line.peer.host == "198.51.100.9"  # type: ignore[attr-defined]
    line.write(b"answer")
    assert wire.written() == b"answer"
    line.close(How.LINGER)
    assert wire.ends == ["half"]
    wire.goes()

"""What passes from socket to socket without the core: on Twisted's epoll reactor, and on ours."""

import gc
import socket
import struct
from collections.abc import Callable, Iterator
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet import epollreactor, unix
from twisted.internet.defer import succeed
from twisted.internet.protocol import Protocol
from twisted.python.log import addObserver, removeObserver

from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import Effect, Open, Pass
from stomprelay.service.connection.failures import ASKED, PRESSURE
from stomprelay.service.connection.protocol import PIPE, LegProtocol
from stomprelay.service.connection.reactor import RelayReactor
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.network.sockets import FIRST_READ, READ, Socket
from stomprelay.service.state import Sessions
from stomprelay.session.effects import Close, How, Send
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CLIENT_COMMANDS
from stomprelay.wire.run import Passing, Rule, Run
from tests.sanitizer import run_sanitized
from tests.service.harness import SEND, FakeTransport, JournalHarness, RelayHarness, broker, listener
from tests.service.scripted import ScriptedRelay
from tests.service.sockets import socket_pair, turning

pytestmark = pytest.mark.skipif(PIPE is None, reason="pipes are not compiled here")

ODD = b"SEND\ndestination:/queue/a\nreceipt:1\n\nhello\0"
NESTED = b"SEND\ndestination:/queue/a\ncontent-length:%d\n\n%b\0" % (10 * len(SEND), SEND * 10)
"""What its body holds looks like frames that pass."""
RULES = (Rule(b"SEND", unless=(b"receipt",)),)
PATIENCE = 5.0


class Scene:
    """A session whose core is played by the test, on a reactor that turns when the test says so. `client` and `broker`
    are the peers' ends of its two connections.
    """

    def __init__(
        self,
        reactor: Any,
        kind: socket.AddressFamily = socket.AF_INET,
        relay: ScriptedRelay | None = None,
        upstream: Leg | None = None,
    ) -> None:
        self.reactor = reactor
        self.now = 100.0
        self.ended: list[RelayDriver] = []
        self.runtime = Runtime(reactor, lambda: self.now)
        self.relay = relay or ScriptedRelay()
        self.relay.over = False
        self.upstream = upstream or Leg(Side.UPSTREAM, Limits())
        place = broker()
        endpoints: Any = {place: self}
        core: Any = self.relay
        self.driver = self.driver_of(core, endpoints)
        self._kind = kind
        self.client = self.accept(self.client_protocol())
        self.relay.client.enter(LegState.CONNECTING, V1_2)
        self.relay.client.enter(LegState.CONNECTED)
        self.broker: Any = None
        self.does(Open(self.upstream, place))
        self.takes: Callable[[Run], bool] = lambda run: True
        self.said()

    def driver_of(self, core: Any, endpoints: Any) -> RelayDriver:
        """Return the driver of a core."""
        return RelayDriver(self.runtime, core, endpoints, self.ended.append)

    def client_protocol(self) -> LegProtocol:
        """Return the protocol of the client's leg."""
        return LegProtocol(self.driver, self.relay.client)

    def accept(self, protocol: LegProtocol) -> socket.socket:
        """Give a leg a connection, and return its other end."""
        theirs, ours = socket.socketpair() if self._kind is socket.AF_UNIX else socket_pair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        theirs.settimeout(PATIENCE)
        if self._kind is socket.AF_UNIX:
            transport: Any = unix.Server(ours, protocol, None, None, 0, self.reactor)
        else:
            transport = Socket(ours, protocol, ("127.0.0.1", 4711), self.reactor)
        protocol.makeConnection(transport)
        transport.startReading()
        return theirs

    def connect(self, factory: Any) -> Any:
        """The broker is there at once."""
        protocol = factory.buildProtocol(None)
        self.broker = self.accept(protocol)
        return succeed(protocol)

    def protocol(self, leg: Leg) -> Any:
        """The connection of a leg."""
        return self.runtime.protocols[leg]

    @property
    def transport(self) -> Any:
        """The client's transport."""
        return self.protocol(self.relay.client).transport

    def does(self, *effects: Effect) -> None:
        """The relay asks for this."""
        self.driver.perform(effects)

    def lets_pass(self, trails: bool = False) -> None:
        """SENDs of the client pass that ask for no receipt, as far as `takes` lets them."""
        passing = Passing(RULES, self.takes)
        self.does(Pass(self.relay.client, self.upstream, passing, trails))

    def turn(self, count: int = 1) -> None:
        """The reactor looks at all its sockets, so many times."""
        for _ in range(count):
            self.reactor.runUntilCurrent()
            self.reactor.doPoll(0)

    def sends(self, data: bytes) -> None:
        """The client sends this, and it is read."""
        self.client.sendall(data)
        self.turn()

    def reported(self) -> list[tuple[Any, ...]]:
        """What the relay was told since the last look, once somebody has asked for it."""
        asked: object = self.driver.relay
        assert asked is self.relay
        return self.relay.told

    def said(self) -> list[tuple[Any, ...]]:
        """What the relay was told since the last look."""
        told, self.relay.told = self.relay.told, []
        return told

    def received(self) -> bytes:
        """What is there for the broker now."""
        self.broker.setblocking(False)
        data = b""
        try:
            while chunk := self.broker.recv(1 << 20):
                data += chunk
        except BlockingIOError:
            pass
        return data

    def received_bytes(self, count: int) -> bytes:
        """What the broker receives, until it is so much; the reactor does its part meanwhile."""
        data = b""
        for _ in range(100_000):
            data += self.received()
            if len(data) >= count:
                break
            self.turn()
        return data

    def passed(self, frames: int, size: int) -> tuple[Any, ...]:
        """What the relay is told of so much that passed."""
        return "passed", self.relay.client, self.upstream, frames, size

    def heard(self, data: bytes) -> tuple[Any, ...]:
        """What the relay is told of bytes that did not pass."""
        return "received", self.relay.client, data

    def close(self) -> None:
        """End what is left."""
        for leg in list(self.runtime.protocols):
            self.does(Close(leg, How.ABORT))
        self.turn()
        self.client.close()
        self.broker.close()


@pytest.fixture(params=[epollreactor.EPollReactor, RelayReactor], ids=["stock", "ours"])
def reactor(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A reactor of each kind, which is not the one that runs."""
    with turning(request.param) as reactor:
        yield reactor


@pytest.fixture
def scene(reactor: Any) -> Iterator[Scene]:
    """A session on it."""
    scene = Scene(reactor)
    yield scene
    scene.close()


@pytest.fixture
def faults() -> Iterator[list[type]]:
    """The exceptions that Twisted logged."""
    found: list[type] = []

    def look(event: dict[str, Any]) -> None:
        if event["isError"]:
            found.append(event["failure"].type)

    addObserver(look)
    yield found
    removeObserver(look)


# What passes


def test_whole_frames_pass(scene: Scene) -> None:
    """They are with the broker at once; the relay is told before it is asked for anything, and only once."""
    scene.lets_pass()
    scene.sends(SEND + SEND + b"\n")
    assert scene.received() == SEND + SEND + b"\n"
    scene.sends(SEND)
    assert scene.received() == SEND
    assert scene.said() == []
    assert scene.reported() == [scene.passed(3, 3 * len(SEND) + 1)]
    scene.said()
    assert scene.reported() == []


def test_the_relay_sees_nothing_out_of_order(scene: Scene) -> None:
    """An odd frame in the middle of a chunk is given to the relay with all that follows it, after what passed."""
    scene.lets_pass()
    scene.sends(SEND + SEND + ODD + SEND)
    assert scene.received() == SEND + SEND
    assert scene.said() == [scene.passed(2, 2 * len(SEND)), scene.heard(ODD + SEND)]
    scene.sends(SEND)
    scene.sends(ODD)
    assert scene.said() == [scene.passed(1, len(SEND)), scene.heard(ODD)]


def test_leave_is_given_and_taken_back(scene: Scene) -> None:
    """Without it nothing passes, and everything goes to the relay."""
    scene.sends(SEND)
    assert (scene.received(), scene.said()) == (b"", [scene.heard(SEND)])
    scene.lets_pass()
    scene.sends(SEND)
    scene.does(Pass(scene.relay.client, scene.upstream, None))
    scene.sends(SEND)
    assert scene.reported() == [scene.passed(1, len(SEND)), scene.heard(SEND)]
    scene.said()
    scene.lets_pass()
    scene.sends(SEND)
    assert scene.reported() == [scene.passed(1, len(SEND))]


def test_both_directions(scene: Scene) -> None:
    """Each has leave of its own."""
    scene.upstream.enter(LegState.CONNECTED) if scene.upstream.state is LegState.OPENING else None
    message = b"MESSAGE\nsubscription:0\nmessage-id:1\ndestination:/queue/a\n\nhello\0"
    scene.lets_pass()
    scene.does(Pass(scene.upstream, scene.relay.client, Passing((Rule(b"MESSAGE"),), lambda run: True)))
    scene.broker.sendall(message)
    scene.sends(SEND)
    assert scene.client.recv(1000) == message
    assert scene.received() == SEND
    assert scene.reported() == [
        scene.passed(1, len(SEND)),
        ("passed", scene.upstream, scene.relay.client, 1, len(message)),
    ]
    scene.does(Pass(scene.upstream, scene.relay.client, None))
    scene.sends(SEND)
    assert scene.received() == SEND


def test_where_the_peer_trails_its_lf_is_awaited(scene: Scene) -> None:
    """A chunk that ends with a NUL is the relay's, for the LF that belongs to the frame may come by itself."""
    scene.lets_pass(trails=True)
    scene.sends(SEND + b"\n")
    assert scene.received() == SEND + b"\n"
    scene.sends(SEND + b"\n" + SEND)
    assert scene.received() == b""
    assert scene.said() == [scene.passed(1, len(SEND) + 1), scene.heard(SEND + b"\n" + SEND)]


class CarryingRelay(ScriptedRelay):
    """Carries the client's frames, and gives leave whenever no frame is unfinished. `frames` counts them all."""

    def __init__(self, to: Leg, takes: Callable[[Run], bool]) -> None:
        super().__init__()
        self.frames = 0
        self._to = to
        self._passing = Passing(RULES, takes)

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        decoder = leg.decoder
        decoder.feed(data)
        frames = list(decoder.frames())
        self.frames += len(frames)
        passing = None if decoder.buffered else self._passing
        sent = [Send(self._to, frame.wire) for frame in frames]
        return [*sent, Pass(leg, self._to, passing, decoder.trails)]

    def passed(self, leg: Leg, to: Leg, frames: int, size: int, at: float) -> None:
        self.frames += frames
        assert not leg.decoder.buffered


@given(
    st.lists(st.sampled_from([SEND, SEND + b"\n", ODD, ODD + b"\n", b"\n", NESTED]), max_size=20),
    st.lists(st.integers(1, 200), max_size=20),
    st.lists(st.booleans(), max_size=5),
)
def test_however_it_comes(frames: list[bytes], cuts: list[int], answers: list[bool]) -> None:
    """Cut anywhere, taken or not: the same frames reach the broker in their order, and each is counted once."""
    with turning(RelayReactor) as reactor:
        takes = cycle(answers or [True])
        upstream = Leg(Side.UPSTREAM, Limits())
        relay = CarryingRelay(upstream, lambda run: next(takes))
        scene = Scene(reactor, socket.AF_UNIX, relay, upstream)
        scene.does(*relay.received(relay.client, b"", 0.0))
        stream, at = b"".join(frames), 0
        for cut in (*cuts, len(stream)):
            if stream[at : at + cut]:
                scene.sends(stream[at : at + cut])
            at += cut
        received = scene.received()
        scene.driver.report_passed()
        scene.close()
    sent = b"".join(each for each in frames if each != b"\n")
    assert received.replace(b"\0\n", b"\0") == sent.replace(b"\0\n", b"\0")
    assert relay.frames == sum(each != b"\n" for each in frames)


# Chunks small and large


def test_a_chunk_that_fills_the_room_is_the_relays(scene: Scene) -> None:
    """It is part of more, for which more room is made; smaller ones pass, whatever the room."""
    scene.lets_pass()
    frame = SEND.replace(b"hello", b"x" * (FIRST_READ // 4 - len(SEND) + 5))
    assert len(frame) * 4 == FIRST_READ
    scene.sends(frame * 4)
    assert scene.said() == [scene.heard(frame * 4)]
    assert scene.transport.bufferSize == READ
    scene.client.sendall(frame * 4)
    scene.turn()
    assert scene.received_bytes(len(frame) * 4) == frame * 4
    assert scene.reported() == [scene.passed(4, 4 * len(frame))]


def test_a_layer_above_the_socket_is_respected(scene: Scene) -> None:
    """What a leg with TLS or the like receives is not what its socket has; what is written to one goes through it."""
    inner = FakeTransport()
    other = Leg(Side.UPSTREAM, Limits())
    protocol = LegProtocol(scene.driver, other)
    protocol.makeConnection(inner)
    scene.does(Pass(other, scene.relay.client, Passing(RULES, scene.takes)))
    assert scene.driver._pipes == ()
    scene.does(Pass(scene.relay.client, other, Passing(RULES, scene.takes)))
    scene.sends(SEND)
    assert inner.written() == SEND


# Back-pressure


def test_what_the_broker_does_not_take_waits(scene: Scene) -> None:
    """Some of it in the kernel, some here; then the client is not read from, and in the end all has come, in order."""
    scene.lets_pass()
    client = scene.protocol(scene.relay.client)
    sent = b""
    for number in range(2000):
        frame = SEND.replace(b"hello", b"%06d" % number + b"x" * 9000)
        scene.client.sendall(frame)
        sent += frame
        if client.reasons:  # and this one waits, too
            break
        scene.turn()
    assert client.reasons == PRESSURE
    queue = scene.protocol(scene.upstream).transport
    assert 0 < len(queue.dataBuffer) + queue._tempDataLen < 2 * READ
    assert scene.received_bytes(len(sent)) == sent
    assert not client.reasons
    told = [what for what, *_ in scene.reported()]
    assert told == ["passed", "paused", "resumed", "passed"]


def test_nothing_overtakes_what_waits(scene: Scene) -> None:
    """What passes stands behind what the relay sent before, and in front of what it sends later."""
    scene.lets_pass()
    for _ in range(1000):
        queue = scene.protocol(scene.upstream).transport
        if queue._tempDataBuffer:
            break
        scene.does(Send(scene.upstream, b"\n" * 50_000))
    scene.sends(SEND)
    scene.does(Send(scene.upstream, ODD))
    assert scene.reported() == [scene.passed(1, len(SEND))]
    came = b""
    while not came.endswith(ODD):
        scene.turn()
        came += scene.received()
    assert came.lstrip(b"\n") == SEND + ODD


def test_a_leg_that_is_held_passes_nothing(scene: Scene) -> None:
    """One chunk may still come where the relay asked for a pause: it is the relay's."""
    scene.lets_pass()
    client = scene.protocol(scene.relay.client)
    client.hold(ASKED)
    scene.sends(SEND)
    scene.sends(SEND)
    assert scene.said() == [("paused", scene.relay.client), scene.heard(SEND)]
    assert scene.received() == b""
    client.release(ASKED)
    scene.turn()
    assert scene.received() == SEND
    assert scene.reported() == [("resumed", scene.relay.client), scene.passed(1, len(SEND))]


# Ends


def half_close(end: socket.socket) -> None:
    """It may still receive."""
    end.shutdown(socket.SHUT_WR)


def reset(end: socket.socket) -> None:
    """It takes nothing more."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


@pytest.mark.parametrize("end", [socket.socket.close, half_close, reset])
@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("last", [b"", SEND])
def test_the_client_goes(
    scene: Scene, end: Callable[[socket.socket], None], passes: bool, last: bytes
) -> None:
    """The relay hears the same of it, pipe or no pipe, after all that came before."""
    if passes:
        scene.lets_pass()
    if last:
        scene.client.sendall(last)
        if end is reset:
            scene.turn()  # what was not read before a reset is lost
    end(scene.client)
    scene.turn(3)
    came = [] if not last else [scene.passed(1, len(last))] if passes else [scene.heard(last)]
    if end is reset:
        assert scene.said() == [*came, ("lost", scene.relay.client, "connection reset")]
        assert scene.relay.client not in scene.runtime.protocols
        assert scene.driver._pipes == ()
    else:
        assert scene.said() == [*came, ("half_closed",)]
    assert scene.received() == (last if passes else b"")


def test_sessions_leave_no_pipes(reactor: Any) -> None:
    """Nor anything that a pipe knows."""
    gc.collect()
    before = sum(type(each) in (PIPE, RelayDriver) for each in gc.get_objects())
    for end in (socket.socket.close, reset):
        scene = Scene(reactor)
        scene.lets_pass()
        scene.sends(SEND)
        end(scene.client)
        scene.turn(2)
        scene.close()
        assert scene.driver._pipes == ()
        del scene
    gc.collect()
    assert sum(type(each) in (PIPE, RelayDriver) for each in gc.get_objects()) == before


# Faults


def fails(*_: object) -> bool:
    """A bug."""
    raise ZeroDivisionError("a bug")


def test_a_relay_that_fails_to_take(scene: Scene) -> None:
    """Nobody knows in what state it is: it is told, and ends the session; nothing more is sent."""
    scene.takes = lambda run: run.count == 1 or fails()
    scene.lets_pass()
    scene.sends(SEND)
    assert scene.received() == SEND
    scene.relay.answers.append([Close(scene.relay.client, How.ABORT), Close(scene.upstream, How.ABORT)])
    scene.sends(SEND + SEND)
    first, (what, error) = scene.said()
    assert first == scene.passed(1, len(SEND))
    assert what == "failed"
    assert isinstance(error, ZeroDivisionError)
    assert scene.received() == b""
    assert scene.runtime.protocols == {}


def test_a_write_that_fails(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay is told what it took for passed, and ends the session."""
    scene.lets_pass()
    monkeypatch.setattr("stomprelay.service.connection._pipe.send", fails)
    scene.relay.answers.append([Close(scene.relay.client, How.ABORT)])
    scene.sends(SEND)
    assert [what for what, *_ in scene.said()] == ["passed", "failed"]
    assert scene.relay.client not in scene.runtime.protocols


def test_an_exception_ends_its_own_connection_only(
    scene: Scene, faults: list[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is logged, and the others are read in the same turn."""
    other = Scene(scene.reactor)
    for each in (scene, other):
        each.lets_pass()
    monkeypatch.setattr(scene.relay, "received", fails)
    scene.client.sendall(ODD)
    other.client.sendall(SEND)
    scene.turn()
    assert faults == [ZeroDivisionError]
    assert [what for what, *_ in scene.said()] == ["lost"]
    assert other.received() == SEND
    other.close()


# What we know of Twisted


def test_what_is_due_comes_between_what_is_read() -> None:
    """Calls are made at their time however much there is to read, those of other threads and the end as well."""
    reactor: Any = RelayReactor()
    turn, turns = reactor.runUntilCurrent, count()
    reactor.runUntilCurrent = lambda: (next(turns), turn())
    theirs, ours = socket_pair()
    with ours, theirs:
        told: list[str] = []

        def read() -> None:
            told.append("read")
            theirs.send(b"x")  # there is more to read at once
            if told.count("read") == 3:
                reactor.callLater(0, told.append, "soon")
                reactor.callFromThread(told.append, "from a thread")
            elif "in time" in told:
                reactor.stop()

        class Always(Protocol):
            def dataReceived(self, data: bytes) -> None:
                read()

        Socket(ours, Always(), ("127.0.0.1", 1), reactor)
        theirs.send(b"x")
        reactor.callLater(0.05, told.append, "in time")
        reactor.run(installSignalHandlers=False)
        assert [each for each in told if each != "read"] == ["from a thread", "soon", "in time"]
        assert told[3:5] == ["from a thread", "soon"]
        assert told[-1] == "read"
        assert next(turns) < 30 < told.count("read")


# The service


def test_counters_are_complete_when_they_are_shown(scene: Scene) -> None:
    """The relay is asked to count before, though nothing happens that it should know of."""
    sessions = Sessions([listener()])
    sessions.listeners["public"].add(scene.driver)
    scene.lets_pass()
    scene.sends(SEND)
    for session in sessions:
        session.report_passed()
    assert scene.said() == [scene.passed(1, len(SEND))]


def test_it_can_be_ruled_out(tmp_path: Path) -> None:
    """By a setting: then the core gives no leave. A journal is no reason."""

    def asked(harness: RelayHarness) -> bool:
        harness.client()
        (session,) = harness.service.state.sessions
        return session.relay.passes

    assert asked(RelayHarness())
    assert not asked(RelayHarness(fast_path=False))
    assert asked(JournalHarness(tmp_path))


@pytest.mark.deep
def test_all_this_under_address_sanitizer(tmp_path: Path) -> None:
    """Again in another process, whose compiled modules tell of any read or write out of bounds."""
    sources = ["stomprelay/wire/_scan.pyx", "stomprelay/service/connection/_pipe.pyx"]
    run_sanitized(tmp_path, sources, "tests/service/test_pipes.py", "tests/service/test_direct.py")


def session() -> Session:
    """What the client of a scene believes."""
    return Session(b"s", V1_2, 10, {})


def counted_alone(data: bytes) -> DestinationCounter:
    """What is counted of frames that are looked at one by one."""
    counter = DestinationCounter()
    decoder = Decoder(V1_2, CLIENT_COMMANDS, Limits())
    decoder.feed(data)
    for _ in counter.counting(decoder.frames(), session(), V1_2):
        pass
    return counter


@pytest.mark.parametrize("together", [1, 3, 50])
def test_what_passes_is_counted_by_destination(scene: Scene, together: int) -> None:
    """As what is looked at is, however many frames pass at a time; and the client is known to send there."""
    scene.runtime.tallies.count_destinations()
    counter, known = scene.runtime.tallies.counter, session()
    scene.relay.__dict__["session"] = known
    scene.lets_pass()
    assert counter is not None
    frames = [
        SEND.replace(b"/queue/a", b"/queue/%d" % (number % 7)) + b"\n" * (number % 2) for number in range(100)
    ]
    for at in range(0, len(frames), together):
        scene.sends(b"".join(frames[at : at + together]))
    scene.received_bytes(len(b"".join(frames)))
    assert scene.reported()[-1][0] == "passed"
    assert counter.table.shown == counted_alone(b"".join(frames)).table.shown
    assert sum(tally.sends for tally in counter.table.shown.values()) == 100
    assert len(known.sent_to) == 7

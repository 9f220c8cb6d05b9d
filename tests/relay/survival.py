"""A world of embedded brokers that die, and of clients that must not notice: what the model-based test plays with.

Nothing here has a socket. A `Pipe` is one connection of a relay to a broker, with the octets that are in flight in
each direction: when its broker is killed they are cut off at any octet, as SIGKILL does it. A `Caller` is a client
of any version with its relay in front of it; it keeps account of what it was promised. The `World` moves octets and
time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from stomprelay.broker.broker import Connection, EmbeddedBroker
from stomprelay.broker.message import DEFAULTS
from stomprelay.relay import effects as asked
from stomprelay.relay import inputs
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Effect, Event, GiveWay, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, Terms
from tests.playbook import PRODUCTS
from tests.relay.reference import Heard, Pairs, cut, write

BEAT: Final = Terms(1000, 1000)


# The brokers


class Node:
    """An embedded broker. `refusing`: it is down."""

    def __init__(self, name: bytes, version: bytes, product: str) -> None:
        self.version = version
        self.product = product
        self.refusing = False
        self.broker = EmbeddedBroker(DEFAULTS, BEAT, name)
        self.pipes: list[Pipe] = []

    def __repr__(self) -> str:
        return f"node {self.broker.name.decode()}"

    def opens(self, pipe: "Pipe", now: float) -> None:
        """A connection is accepted."""
        pipe.connection, effects = self.broker.opened(now)
        self.pipes.append(pipe)
        self.perform(pipe, effects)

    def perform(self, pipe: "Pipe", effects: Iterable[Effect]) -> None:
        """The broker's service."""
        for effect in effects:
            match effect:
                case Send(leg, data):
                    self._pipe(leg).told(data)
                case Close(leg):
                    self.forget(self._pipe(leg))
                case Wake(at):
                    pipe.wake = at
                case Note() | Pause() | Resume():
                    pass

    def forget(self, pipe: "Pipe") -> None:
        """A connection is no more."""
        pipe.connection = None
        pipe.ended = True
        pipe.wake = inf
        self.pipes.remove(pipe)

    def _pipe(self, leg: Leg) -> "Pipe":
        return next(each for each in self.pipes if each.connection and each.connection.leg is leg)


class Pipe:
    """One connection: `up` is in flight to the broker, `down` to the relay. `version` and `product` are what the broker
    was when it was asked.

    `accepted`: there is a connection. `bound`: the relay heard something. `dead`: the relay does not know it any more.
    `ended`: the broker does not.
    """

    def __init__(self, caller: "Caller", leg: Leg, node: Node) -> None:
        self.caller = caller
        self.leg = leg
        self.node = node
        self.version = node.version
        self.product = node.product
        self.connection: Connection | None = None
        self.accepted = False
        self.up = b""
        self.down = b""
        self.wake = inf
        self.paused = False
        self.bound = False
        self.dead = False
        self.ended = False

    def __repr__(self) -> str:
        return f"pipe from {self.caller} to {self.node}"

    def says(self, data: bytes) -> None:
        """The relay writes. CONNECT is made to ask for the broker's only version."""
        if data.startswith(b"CONNECT\n"):
            lines = [each for each in data.split(b"\n") if not each.startswith(b"accept-version:")]
            data = b"\n".join([lines[0], b"accept-version:" + self.version, *lines[1:]])
        self.up += data

    def told(self, data: bytes) -> None:
        """The broker writes. CONNECTED names its product."""
        if data.startswith(b"CONNECTED\n"):
            at = data.index(b"server:")
            data = data[:at] + PRODUCTS[self.product] + data[data.index(b"\n", at) + 1 :]
        self.down += data


# The clients


@dataclass(eq=False)
class Letter:
    """Something that a client said."""


@dataclass(eq=False)
class Order:
    """A subscription."""

    id: bytes | None
    destination: bytes
    mode: bytes
    open: bool = True


class Caller:
    """A client and its relay."""

    def __init__(self, world: "World", name: bytes, version: bytes) -> None:
        self.world = world
        self.name = name
        self.version = version
        self.counters = Counters()
        self.relay = Relay(world.front, name, self.counters, world.chance)
        self.wake = inf
        self.pipes: list[Pipe] = []
        self.source: Pipe | None = None
        self.paused = False
        self.unread: list[tuple[bytes, list[Letter]]] = []
        self.rest = b""
        self.resent = 0
        self.connected = False
        self.closed = False
        self.gone = False
        self.leaving = False
        self.orders: list[Order] = []
        self._numbers = 0
        self.breathing = False
        self._breath = b""
        self._breathed: list[Letter] = []
        self._behind: list[Leg] = []
        self.perform(self.relay.handle(inputs.Opened(), world.now))
        beats = [] if version == b"1.0" else [(b"heart-beat", b"0,1000")]
        self.say(b"CONNECT", [(b"accept-version", version), (b"host", b"/"), *beats])

    def __repr__(self) -> str:
        return f"caller {self.name.decode()}"

    # What it says

    @property
    def talks(self) -> bool:
        """Whether it may go on saying things."""
        return self.connected and not (self.closed or self.gone or self.leaving)

    @property
    def names(self) -> bool:
        """Whether its version names subscriptions."""
        return self.version != b"1.0"

    def number(self) -> int:
        """Another one each time."""
        self._numbers += 1
        return self._numbers

    def say(self, command: bytes, headers: Pairs, body: bytes = b"", letters: Iterable[Letter] = ()) -> int:
        """A frame; answers its octets."""
        data = write(self.version, command, headers, body)
        self._breath += data
        self._breathed += letters
        if not self.breathing:
            self.breathes()
        return len(data)

    def breathes(self) -> None:
        """Everything that was said since `breathing` was set is read in one chunk."""
        self.breathing = False
        data, letters = self._breath, self._breathed
        self._breath, self._breathed = b"", []
        self.unread.append((data, letters))
        self.read()

    def asks(self, what: object) -> Pairs:
        """A receipt for something."""
        return [(b"receipt", b"%b-r%d" % (self.name, self.number()))]

    @property
    def heard_at_once(self) -> bool:
        """Whether a broker is told at once what it says now."""
        held = self.paused or self.unread or self.breathing
        resenders = [link.resender for link in self.relay.links if link.up]
        return not held and any(each is not None and each.line is None for each in resenders)

    def read(self) -> bool:
        """The relay reads what the client wrote, unless it paused it. Answers whether there was anything."""
        read = False
        while self.unread and not self.paused and not self.closed:
            read = True
            data, _ = self.unread.pop(0)
            self.perform(self.relay.received(self.relay.client, data, self.world.now))
        return read

    # What it hears

    def hear(self, data: bytes) -> None:
        """The relay wrote this."""
        frames, self.rest = cut(self.version, self.rest + data)
        for frame in frames:
            if frame.command == b"CONNECTED":
                self.connected = True
            elif frame.command == b"MESSAGE":
                self.message(frame)

    def message(self, frame: Heard) -> None:
        """A MESSAGE came."""

    # The service's part

    def perform(self, effects: Iterable[asked.Effect]) -> None:
        """All effects of one input, in order; then those that gave way have their turns."""
        self._carry_out(effects)
        while self._behind:
            self._carry_out(self.relay.handle(inputs.GaveWay(self._behind.pop(0)), self.world.now))

    def _carry_out(self, effects: Iterable[asked.Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(leg, data) if leg is self.relay.client:
                    assert not self.closed, f"written after Close: {data!r}"
                    assert not self.gone, f"written to nobody: {data!r}"
                    self.hear(data)
                case Send(leg, data):
                    pipe = self._pipe(leg)
                    assert pipe.accepted, "written before the connection was there"
                    assert not pipe.dead, f"written after Close: {data!r}"
                    pipe.says(data)
                case asked.Open(leg, broker):
                    assert not broker.health.paused, "a paused broker was asked"
                    self.pipes.append(Pipe(self, leg, self.world.node(broker)))
                case Close(leg) if leg is self.relay.client:
                    assert not self.closed, "closed twice"
                    self.closed = True
                case Close(leg, how):
                    self.loses(self._pipe(leg), how)
                case Pause(leg) | Resume(leg):
                    self._paced(leg, pause=isinstance(effect, Pause))
                case GiveWay(leg):
                    self._behind.append(leg)
                case Wake(at):
                    assert at >= self.world.now, "woken in the past"
                    self.wake = at
                case Note(Event.RECOVERED, _, facts):
                    self.resent += int(facts["resent"])

    def _paced(self, leg: Leg, *, pause: bool) -> None:
        if leg is self.relay.client:
            self.paused = pause
        else:
            self._pipe(leg).paused = pause
        if pause:
            self._carry_out(self.relay.handle(inputs.Paused(leg), self.world.now))
        else:
            self._carry_out(self.relay.handle(inputs.Resumed(leg), self.world.now))

    def loses(self, pipe: Pipe, how: How) -> None:
        """A pipe is not the relay's any more; what it wrote is still in flight unless it aborted it."""
        assert not pipe.dead, "closed twice"
        pipe.dead = True
        pipe.down = b""
        if how is How.ABORT:
            pipe.up = b""

    def _pipe(self, leg: Leg) -> Pipe:
        return next(pipe for pipe in self.pipes if pipe.leg is leg)


# All of it


class World:
    """Brokers, clients, and a clock of plain numbers."""

    def __init__(self, front: Listener, nodes: list[Node]) -> None:
        self.front = front
        self.nodes = nodes
        self.now = 1000.0
        self.callers: list[Caller] = []
        self._dice = 1
        self._by_broker = dict(zip(front.upstream.brokers, nodes, strict=True))

    def chance(self) -> float:
        """A number from 0 up to 1, the same ones in each run."""
        self._dice = self._dice * 1103515245 + 12345 & 0x7FFFFFFF
        return self._dice / 0x80000000

    def node(self, broker: Broker) -> Node:
        """What stands at this address."""
        return self._by_broker[broker]

    def called(self, uri: str | int) -> Node:
        """What stands at the address that a note names."""
        return next(node for broker, node in self._by_broker.items() if str(broker) == uri)

    # Octets

    def flows(self) -> None:
        """All that is in flight arrives, and what it brings about as well."""
        for _ in range(10_000):
            moved = [self._step(pipe) for caller in self.callers for pipe in list(caller.pipes)]
            moved += [caller.read() for caller in self.callers]
            if not any(moved):
                return
        raise AssertionError("octets go round and round")

    def _step(self, pipe: Pipe) -> bool:
        if self._accepts(pipe) or self.rises(pipe, inf) or self.falls(pipe, inf):
            return True
        return self._ends(pipe)

    def _accepts(self, pipe: Pipe) -> bool:
        relay, node = pipe.caller.relay, pipe.node
        if pipe.accepted or pipe.dead:
            if pipe.accepted and not (pipe.connection or pipe.ended):
                node.opens(pipe, self.now)
            return False
        if node.refusing:
            pipe.caller.perform(relay.handle(inputs.NotConnected(pipe.leg, "Connection refused"), self.now))
            pipe.dead = True
        else:
            pipe.accepted = True
            pipe.caller.perform(relay.handle(inputs.BrokerConnected(pipe.leg), self.now))
        return True

    def rises(self, pipe: Pipe, most: float) -> bool:
        """So many octets at most reach the broker. Answers whether there were any."""
        node, connection = pipe.node, pipe.connection
        if connection is None:
            return False
        woken = pipe.wake <= self.now
        size = len(pipe.up) if most == inf else int(most)
        data, pipe.up = pipe.up[:size], pipe.up[size:]
        if data:
            node.perform(pipe, connection.received(data, self.now))
        elif woken:
            pipe.wake = inf
            node.perform(pipe, connection.woke(self.now))
        if pipe.dead:
            pipe.down = b""
        return bool(data) or woken

    def falls(self, pipe: Pipe, most: float) -> bool:
        """So many octets at most reach the relay. Answers whether there were any."""
        if pipe.dead or pipe.paused or not pipe.down:
            return False
        size = len(pipe.down) if most == inf else int(most)
        caller = pipe.caller
        data, pipe.down = pipe.down[:size], pipe.down[size:]
        if data:
            pipe.bound = True
            caller.source = pipe
            caller.perform(caller.relay.received(pipe.leg, data, self.now))
        return bool(data)

    def _ends(self, pipe: Pipe) -> bool:
        """An end that was closed is noticed at the other one."""
        connection = pipe.connection
        if pipe.dead and connection is not None and not pipe.up:
            pipe.node.perform(pipe, connection.lost(self.now))
            pipe.node.forget(pipe)
            return True
        if pipe.ended and not pipe.dead and not pipe.down:
            self._loses(pipe)
            return True
        return False

    def _loses(self, pipe: Pipe) -> None:
        caller = pipe.caller
        pipe.up = pipe.down = b""
        if pipe.accepted and not pipe.dead:
            caller.perform(caller.relay.handle(inputs.Lost(pipe.leg, "Connection reset by peer"), self.now))
            assert pipe.dead, "the relay keeps a leg that was lost"

    # Faults

    def cuts(self, pipes: list[Pipe], up: int, down: int) -> None:
        """These connections break: of what was in flight so many octets each still arrive."""
        for pipe in pipes:
            self.rises(pipe, up)
        alive = [pipe for pipe in pipes if pipe.connection is not None]
        for pipe in alive:
            assert pipe.connection is not None
            pipe.node.perform(pipe, pipe.connection.paused())
        for pipe in alive:
            if pipe.connection is not None:
                pipe.node.perform(pipe, pipe.connection.lost(self.now))
                pipe.node.forget(pipe)
        for pipe in pipes:
            pipe.ended = True
            self.falls(pipe, down)
            self._loses(pipe)

    def kills(self, node: Node, up: int, down: int) -> None:
        """SIGKILL. What the broker had taken is on its disk."""
        node.refusing = True
        live = [pipe for caller in self.callers for pipe in caller.pipes if pipe.node is node]
        live = [pipe for pipe in live if pipe.accepted and not (pipe.dead and pipe.ended)]
        self.cuts(live, up, down)

    def pauses(self, broker: Broker, within: float) -> None:
        """An operator takes a broker out of service, as the switch-over does it."""
        broker.health.paused = True
        for caller in self.callers:
            caller.perform(caller.relay.handle(inputs.Leave(broker, within), self.now))

    def resumes(self, broker: Broker) -> None:
        """The operator gives it back."""
        broker.health.paused = False
        for caller in self.callers:
            caller.perform(caller.relay.handle(inputs.Reconsidered(), self.now))

    # Time

    def passes(self, seconds: float) -> None:
        """The clock goes on."""
        end = self.now + seconds
        for _ in range(10_000):
            self.flows()
            due = min([caller.wake for caller in self.callers], default=inf)
            for node in self.nodes:
                due = min([due, *(pipe.wake for pipe in node.pipes)])
            if due > end:
                self.now = end
                return
            self.now = max(self.now, due)
            for caller in self.callers:
                if caller.wake <= self.now:
                    caller.wake = inf
                    caller.perform(caller.relay.handle(inputs.Woke(), self.now))
        raise AssertionError("somebody asks to be woken again and again")

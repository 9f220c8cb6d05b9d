"""A world of embedded brokers that die, and of clients that must not notice: what the model-based test plays with.

Nothing here has a socket. A `Pipe` is one connection of a relay to a broker, with the octets that are in flight in
each direction: when its broker is killed they are cut off at any octet, as SIGKILL does it. A `Caller` is a client
of any version with its relay in front of it; it keeps account of what it was promised. The `World` moves octets and
time.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from stomprelay.broker.broker import Connection, EmbeddedBroker
from stomprelay.broker.destinations import Destinations
from stomprelay.broker.message import DEFAULTS, Message
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
SILENCE: Final = 1.0
"""Seconds after which a client that asked for beats must have heard something."""


# The brokers


class Register(Destinations):
    """Destinations that remember what was taken, in order: where to, what, and whether it is marked as said again; and
    with which traces each message came.
    """

    taken: list[tuple[bytes, bytes, bool]]
    traces: dict[bytes, set[bytes]]

    def publish(self, message: Message) -> None:
        """A message came, by itself."""
        super().publish(message)
        self._note(message)

    def add(self, message: Message) -> None:
        """A message came, in a transaction that was committed."""
        super().add(message)
        self._note(message)

    def _note(self, message: Message) -> None:
        lines = message.head.lines or b""
        body = message.body.rstrip(b"\n\0")
        self.taken.append((message.head.destination, body, b"relay-resent:true\n" in lines))
        self.traces.setdefault(body, set()).update(re.findall(rb"^relay-trace:(.*)$", lines, re.MULTILINE))


class Node:
    """An embedded broker. `refusing`: it is down; `stalled`: its process is stopped, though its port is open.
    `forgotten` are messages that it had taken and lost when it was killed.
    """

    def __init__(self, name: bytes, version: bytes, product: str) -> None:
        self.version = version
        self.product = product
        self.refusing = False
        self.stalled = False
        self.broker = EmbeddedBroker(DEFAULTS, BEAT, name)
        register = Register(DEFAULTS, name, lambda _: None)
        register.taken = []
        register.traces = {}
        self.broker.destinations = register
        self.taken = register.taken
        self.traces = register.traces
        self.forgotten: set[bytes] = set()
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

    def forgets(self, body: bytes) -> None:
        """A message was not on the disk when the broker was killed. It may have been delivered all the same."""
        last = max(at for at, each in enumerate(self.taken) if each[1] == body)
        del self.taken[last]
        self.forgotten.add(body)

    def forget(self, pipe: "Pipe") -> None:
        """A connection is no more."""
        pipe.connection = None
        pipe.ended = True
        pipe.wake = inf
        self.pipes.remove(pipe)

    def drained(self, now: float) -> list[bytes]:
        """Everything that nobody consumed, when all connections are gone."""
        assert not self.pipes
        assert len(self.broker.connections) == 0
        places = sorted(self.broker.destinations.kept)
        connection, _ = self.broker.opened(now)
        said = [write(b"1.1", b"CONNECT", [(b"accept-version", b"1.1"), (b"host", b"/")])]
        said += [write(b"1.1", b"SUBSCRIBE", [(b"id", each), (b"destination", each)]) for each in places]
        effects = connection.received(b"".join(said), now)
        data = b""
        while any(isinstance(each, Send) for each in effects):
            data += b"".join(each.data for each in effects if isinstance(each, Send))
            effects = connection.woke(now)
        frames, _ = cut(b"1.1", data)
        return [each.body for each in frames if each.command == b"MESSAGE"]

    def _pipe(self, leg: Leg) -> "Pipe":
        return next(each for each in self.pipes if each.connection and each.connection.leg is leg)


class Pipe:
    """One connection: `up` is in flight to the broker, `down` to the relay. `version` and `product` are what the broker
    was when it was asked.

    RabbitMQ confirms in any order: `late` are RECEIPTs that it holds back, with the message that each is for; when it
    is killed then, that message is not on its disk.

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
        self.late: list[tuple[bytes, bytes]] = []
        self._asked: dict[bytes, bytes] = {}
        self._sends: list[tuple[int, list[bytes]]] = []
        self._told = 0

    def __repr__(self) -> str:
        return f"pipe from {self.caller} to {self.node}"

    def says(self, data: bytes) -> None:
        """The relay writes. CONNECT is made to ask for the broker's only version."""
        if data.startswith(b"CONNECT\n"):
            lines = [each for each in data.split(b"\n") if not each.startswith(b"accept-version:")]
            data = b"\n".join([lines[0], b"accept-version:" + self.version, *lines[1:]])
        self.up += data
        if self.product == "rabbitmq":
            for frame in cut(self.version, data)[0]:
                receipt = frame.first(b"receipt")
                if frame.command == b"SEND" and receipt is not None and frame.first(b"transaction") is None:
                    self._asked[receipt] = frame.body

    def confirms(self) -> bool:
        """RECEIPTs that were held back are written at last. Answers whether there were any."""
        late, self.late = self.late, []
        self._tells(b"".join(data for data, _ in late))
        return bool(late)

    def told(self, data: bytes) -> None:
        """The broker writes. CONNECTED names its product."""
        if data.startswith(b"CONNECTED\n"):
            at = data.index(b"server:")
            data = data[:at] + PRODUCTS[self.product] + data[data.index(b"\n", at) + 1 :]
        self.confirms()
        if self._asked and data != b"\n":
            data = self._held_back(data)
        self._tells(data)

    def _held_back(self, data: bytes) -> bytes:
        """What is written at once: many a RECEIPT is not."""
        written = []
        for frame in cut(self.version, data)[0]:
            wire = write(self.version, frame.command, frame.headers, frame.body)
            body = self._asked.pop(frame.first(b"receipt-id") or b"", None)
            if body is not None and self.caller.world.chance() < 0.4:
                self.late.append((wire, body))
            else:
                written.append(wire)
        return b"".join(written)

    def _tells(self, data: bytes) -> None:
        self.down += data
        self._told += len(data)
        frames, rest = cut(self.version, data)
        assert not rest.strip(b"\n")
        self._sends.append((self._told, [each.body for each in frames if each.command == b"MESSAGE"]))

    def coming(self) -> list[bytes]:
        """The messages that are in flight to the relay, even if only the end of them is."""
        heard = self._told - len(self.down)
        return [body for end, bodies in self._sends if end > heard for body in bodies]


# The clients


@dataclass(eq=False)
class Letter:
    """One SEND. `read`: the relay took it. `order` is its place among those of its sender, once it counts."""

    body: bytes
    destination: bytes
    receipt: bytes | None
    transaction: "Transaction | None"
    order: int | None = None
    read: bool = False


@dataclass(eq=False)
class Order:
    """A subscription, and the copies that its client has not settled, oldest first."""

    id: bytes | None
    destination: bytes
    mode: bytes
    open: bool = True
    owed: list["Copy"] = field(default_factory=list)


@dataclass(eq=False)
class Copy:
    """A MESSAGE that came, and the pipe that it came by."""

    frame: Heard
    order: Order
    pipe: Pipe
    number: int


@dataclass(eq=False)
class Transaction:
    """From BEGIN on. `losses` is how many brokers the client had lost when it said BEGIN, then when it said COMMIT.
    `copies` are what it settled, whether by ACK, and whether by name. `read`: the relay took its COMMIT.
    """

    name: bytes
    losses: int
    letters: list[Letter] = field(default_factory=list)
    copies: list[tuple[Copy, bool, bool]] = field(default_factory=list)
    octets: int = 0
    large: bool = False
    read: bool = False


class Caller:
    """A client and its relay. `wrongs` is what must not have happened to it."""

    def __init__(self, world: "World", name: bytes, version: bytes) -> None:
        self.world = world
        self.name = name
        self.version = version
        self.counters = Counters()
        self.relay = Relay(world.front, name, self.counters, world.chance)
        self.wake = inf
        self.pipes: list[Pipe] = []
        self.source: Pipe | None = None
        self.losses = 0
        self.paused = False
        self.unread: list[tuple[bytes, list[Letter | Transaction]]] = []
        self.rest = b""
        self.notes: list[str] = []
        self.ends: list[str | int] = []
        self.on: str | int | None = None
        self.off: str | int | None = None
        self.resent = 0
        self.answers: list[str | int] = []
        self.wrongs: list[str] = []
        self.received_at = inf
        self.connected = False
        self.closed = False
        self.gone = False
        self.leaving = False
        self.failed = False
        self.tidy = True
        self.letters: list[Letter] = []
        self.orders: list[Order] = []
        self.open: dict[bytes, Transaction] = {}
        self.committing: list[Transaction] = []
        self.receipts: dict[bytes, Any] = {}
        self.given: list[bytes] = []
        self.seen: set[bytes] = set()
        self.came: dict[bytes | None, list[Pipe]] = {}
        self.settled: set[bytes] = set()
        self.consumed: set[bytes] = set()
        self._numbers = 0
        self.breathing = False
        self._breath = b""
        self._breathed: list[Letter | Transaction] = []
        self._errors: list[Heard] = []
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

    def say(
        self, command: bytes, headers: Pairs, body: bytes = b"", letters: Iterable[Letter | Transaction] = ()
    ) -> int:
        """A frame; answers its octets."""
        data = write(self.version, command, headers, body)
        self._breath += data
        self._breathed += letters
        if not self.breathing:
            self.breathes(len(data))
        return len(data)

    def breathes(self, most: int) -> None:
        """Everything that was said since `breathing` was set is read in one chunk, but for the rest behind so many
        octets, which comes late.
        """
        self.breathing = False
        data, letters = self._breath, self._breathed
        self._breath, self._breathed = b"", []
        if most < len(data):
            # A COMMIT may stand in the first part; that it does is not to be relied on.
            self.unread.append((data[:most], [each for each in letters if isinstance(each, Transaction)]))
            self.read()
            self.unread.append((data[most:], letters))
        else:
            self.unread.append((data, letters))
            self.read()

    def asks(self, what: object) -> Pairs:
        """A receipt for something."""
        receipt = b"%b-r%d" % (self.name, self.number())
        self.receipts[receipt] = what
        return [(b"receipt", receipt)]

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
            data, letters = self.unread.pop(0)
            for letter in letters:
                letter.read = True
            self.perform(self.relay.received(self.relay.client, data, self.world.now))
        return read

    # What it hears

    def hear(self, data: bytes) -> None:
        """The relay wrote this."""
        self.received_at = self.world.now
        frames, self.rest = cut(self.version, self.rest + data)
        for frame in frames:
            match frame.command:
                case b"CONNECTED":
                    if self.connected:
                        self.wrongs.append("CONNECTED came twice")
                    self.connected = True
                case b"MESSAGE":
                    self._message(frame)
                case b"RECEIPT":
                    self._receipt(frame.first(b"receipt-id") or b"")
                case _:
                    self._error(frame)

    def _message(self, frame: Heard) -> None:
        assert self.source is not None
        self.seen.add(frame.body)
        if frame.first(b"relay-trace") is not None:
            self.wrongs.append(f"a trace in {frame}")
        if frame.first(b"receipt") is not None:
            self.wrongs.append(f"a receipt header in {frame}")
        id = frame.first(b"subscription")
        orders = [
            each
            for each in self.orders
            if (each.id == id if id is not None else each.id is None)
            and each.destination == frame.first(b"destination")
        ]
        if not orders:
            self.wrongs.append(f"not subscribed: {frame}")
            return
        order = orders[-1]
        self.came.setdefault(frame.first(b"message-id"), []).append(self.source)
        self.tidy = self.tidy and order.open
        if order.mode == b"auto":
            self.consumed.add(frame.body)
        elif order.open:
            ack = frame.first(b"ack")
            known = [copy for each in self.orders for copy in each.owed]
            known += [copy for each in self.open.values() for copy, _, _ in each.copies]
            if self.version == b"1.2" and any(copy.frame.first(b"ack") == ack for copy in known):
                self.wrongs.append(f"two deliveries go by one ack: {frame}")
            order.owed.append(Copy(frame, order, self.source, self.number()))

    def _receipt(self, receipt: bytes) -> None:
        if receipt not in self.receipts:
            self.wrongs.append(f"nobody asked for {receipt!r}")
        elif receipt in self.given:
            self.wrongs.append(f"twice: {receipt!r}")
        self.given.append(receipt)
        match self.receipts.get(receipt):
            case Letter(body, transaction=None):
                if not self.world.has_taken(body):
                    self.wrongs.append(f"{receipt!r} for {body!r}, which no broker took")
            case Transaction() as transaction if transaction in self.committing:
                self._committed(transaction)

    def _committed(self, transaction: Transaction) -> None:
        self.committing.remove(transaction)
        if any(
            copy.pipe.dead and named and not self._came_again(copy) for copy, _, named in transaction.copies
        ):
            self.wrongs.append(f"{transaction.name!r} was doomed")
        bodies = {letter.body for letter in transaction.letters}
        if not any(bodies <= {body for _, body, _ in node.taken} for node in self.world.nodes):
            self.wrongs.append(f"no broker took all of {transaction.name!r}")

    def _came_again(self, copy: Copy) -> bool:
        """Whether an ACK of a copy may mean a later one, of another connection: before 1.2 both have one name."""
        pipes = self.came.get(copy.frame.first(b"message-id"), ())
        return self.version != b"1.2" and any(pipe is not copy.pipe for pipe in pipes)

    def _error(self, frame: Heard) -> None:
        self.failed = True
        self._errors.append(frame)

    def doomed(self, transaction: Transaction) -> bool:
        """Whether it acknowledged messages of a broker that is no more."""
        return any(copy.pipe.dead for copy, _, _ in transaction.copies)

    # The service's part

    def perform(self, effects: Iterable[asked.Effect]) -> None:
        """All effects of one input, in order; then those that gave way have their turns."""
        self._carry_out(effects)
        while self._behind:
            self._carry_out(self.relay.handle(inputs.GaveWay(self._behind.pop(0)), self.world.now))
        while self._errors:
            frame = self._errors.pop()
            if self.leaving and self.abandoned:
                continue
            ending = [each for each in self.committing if each.read]
            if not any(self.doomed(each) or self.losses > each.losses for each in ending):
                self.wrongs.append(f"{frame}")

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
                case Note(event, text, facts):
                    self.notes.append(text)
                    self._told(event, facts)

    def _told(self, event: Event, facts: Mapping[str, str | int]) -> None:
        """The facts of a note agree with those of the notes before it: `on` is the broker that it has, `off` the one
        that it lost or left.
        """
        if "end" in facts:
            self.ends.append(facts["end"])
        match event:
            case Event.CONNECTED:
                assert (self.on, self.off) == (None, None)
                self.on = facts["broker"]
            case Event.RECOVERED:
                assert (self.on, self.off) == (None, facts["lost"])
                self.on, self.off = facts["broker"], None
                self.resent += int(facts["resent"])
            case Event.LOST | Event.MOVED if "broker" in facts:
                assert self.on == facts["broker"]
                self.on, self.off = None, self.on
            case Event.ANSWERED:
                self.answers.append(facts["receipt"])

    @property
    def abandoned(self) -> bool:
        """Whether each of its brokers had its time to confirm, and did not; or all of them, once it is gone."""
        each = sum("did not confirm" in note for note in self.notes) > len(self.world.nodes)
        return each or self.counters["clients_undelivered"] > 0

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
        self.losses += pipe.bound
        self.world.spills(pipe)
        if how is How.ABORT:
            pipe.up = b""

    def _pipe(self, leg: Leg) -> Pipe:
        return next(pipe for pipe in self.pipes if pipe.leg is leg)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.relay.over and (self.closed or self.gone or not self.unread)


# All of it


class World:
    """Brokers, clients, and a clock of plain numbers. `spilled` are messages that brokers wrote and nobody read."""

    def __init__(self, front: Listener, nodes: list[Node]) -> None:
        self.front = front
        self.nodes = nodes
        self.now = 1000.0
        self.callers: list[Caller] = []
        self.spilled: set[bytes] = set()
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

    def has_taken(self, body: bytes) -> bool:
        """Whether any broker took this message."""
        return any(body == each for node in self.nodes for _, each, _ in node.taken)

    def calls(self, version: bytes) -> Caller:
        """A client comes."""
        caller = Caller(self, b"c%d" % len(self.callers), version)
        self.callers.append(caller)
        return caller

    def spills(self, pipe: Pipe) -> None:
        """What is in flight to the relay is lost."""
        self.spilled.update(pipe.coming())
        pipe.down = b""

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
        return (not pipe.dead and not pipe.node.stalled and pipe.confirms()) or self._ends(pipe)

    def _accepts(self, pipe: Pipe) -> bool:
        relay, node = pipe.caller.relay, pipe.node
        if pipe.accepted or pipe.dead:
            if pipe.accepted and not (pipe.connection or pipe.ended or node.stalled):
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
        if connection is None or node.stalled:
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
            self.spills(pipe)
        return bool(data) or woken

    def falls(self, pipe: Pipe, most: float) -> bool:
        """So many octets at most reach the relay. Answers whether there were any."""
        if pipe.dead or pipe.paused or not pipe.down:
            return False
        size = len(pipe.down) if most == inf else int(most)
        caller = pipe.caller
        if caller.gone or caller.relay.ending:  # what still comes is for nobody
            self.spilled.update(pipe.coming())
        data, pipe.down = pipe.down[:size], pipe.down[size:]
        if data:
            pipe.bound = True
            caller.source = pipe
            caller.perform(caller.relay.received(pipe.leg, data, self.now))
        return bool(data)

    def _ends(self, pipe: Pipe) -> bool:
        """An end that was closed is noticed at the other one."""
        connection = pipe.connection
        if pipe.dead and connection is not None and not pipe.up and not pipe.node.stalled:
            pipe.node.perform(pipe, connection.lost(self.now))
            pipe.node.forget(pipe)
            return True
        if pipe.ended and not pipe.dead and not pipe.down:
            self._loses(pipe)
            return True
        return False

    def _loses(self, pipe: Pipe) -> None:
        caller = pipe.caller
        self.spills(pipe)
        pipe.up = b""
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
        for pipe in live:
            for _, body in pipe.late:
                node.forgets(body)
            pipe.late.clear()
        node.stalled = False

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
                if not node.stalled:
                    due = min([due, *(pipe.wake for pipe in node.pipes)])
            if due > end:
                self.now = end
                self._listens()
                return
            self.now = max(self.now, due)
            self._listens()
            for caller in self.callers:
                if caller.wake <= self.now:
                    caller.wake = inf
                    caller.perform(caller.relay.handle(inputs.Woke(), self.now))
        raise AssertionError("somebody asks to be woken again and again")

    def _listens(self) -> None:
        for caller in self.callers:
            silent = self.now - caller.received_at
            if caller.talks and caller.names and silent > SILENCE:
                caller.wrongs.append(f"silence for {silent:g} s")
                caller.received_at = self.now

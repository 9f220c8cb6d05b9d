"""A world of brokers that die and of clients that must not notice, its journal, and an account of what clients saw.

Nothing here has a socket. A `Pipe` is one connection of a relay to a broker, with the octets that are in flight in
each direction: when its broker is killed they are cut off at any octet, as SIGKILL does it.

The account knows nothing of the journal: it is what each client said and heard, with the times at which the relay
dealt with it, and what was written to brokers. `expected` says what the tables must say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from random import Random
from typing import Any, Final

from sim.stomp import Frame, Pairs, Reader, write
from stomprelay.broker.broker import Connection, EmbeddedBroker
from stomprelay.broker.message import DEFAULTS
from stomprelay.journal.capture import Capture, LegRecorder
from stomprelay.journal.schema import Context, JournalSide
from stomprelay.journal.settings import ALL, NOTHING
from stomprelay.pipeline.settings import SECOND
from stomprelay.relay import effects as asked
from stomprelay.relay import inputs
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker, Checks
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Effect, Event, GiveWay, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, Terms
from tests.pipeline.journals import BEGUN, Run
from tests.playbook import PRODUCTS, VERSIONS, listener
from tests.relay.failing import movable

BEAT: Final = Terms(1000, 1000)
STEP: Final = 137_000
"""Nanoseconds from one input of a relay to the next."""
PLACES: Final = (b"/queue/a", b"/queue/b", b"/topic/t")
MODES: Final = (b"auto", b"client", b"client-individual")


def cut(version: bytes, data: bytes) -> list[Frame]:
    """The whole frames in `data`."""
    reader = Reader(version)
    reader.feed(data)
    return [*iter(reader.next, None)]


class Node:
    """An embedded broker. `refusing`: it is down."""

    def __init__(self, name: bytes, version: bytes, product: str) -> None:
        self.version = version
        self.product = product
        self.refusing = False
        self.broker = EmbeddedBroker(DEFAULTS, BEAT, name)
        self.pipes: list[Pipe] = []

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

    def forget(self, pipe: "Pipe") -> None:
        """A connection is no more."""
        pipe.connection = None
        pipe.ended = True
        pipe.wake = inf
        self.pipes.remove(pipe)

    def _pipe(self, leg: Leg) -> "Pipe":
        return next(each for each in self.pipes if each.connection and each.connection.leg is leg)


@dataclass(eq=False)
class Pipe:
    """One connection: `up` is in flight to the broker, `down` to the relay. `version` and `product` are what the broker
    was when it was asked.

    `accepted`: there is a connection. `bound`: the relay heard something. `dead`: the relay does not know it any more.
    `ended`: the broker does not.
    """

    caller: "RecordedClient"
    leg: Leg
    node: Node
    version: bytes
    product: str
    connection: Connection | None = None
    up: bytes = b""
    down: bytes = b""
    wake: float = inf
    accepted: bool = False
    paused: bool = False
    bound: bool = False
    dead: bool = False
    ended: bool = False

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


@dataclass(eq=False)
class Order:
    """A subscription."""

    id: bytes | None
    destination: bytes
    mode: bytes
    open: bool = True


@dataclass
class Sent:
    """A message that a client sent; `ns` when a broker was told first."""

    caller: "RecordedClient"
    body: bytes
    destination: bytes
    receipt: bytes | None
    transaction: "Unit | None"
    ns: int | None = None
    receipt_ns: int | None = None


@dataclass
class Unit:
    """A transaction: whether its COMMIT was written to a broker, and what was answered in it, when."""

    name: bytes
    committed: bool = False
    aborted: bool = False
    named: list["Seen"] = field(default_factory=list)
    answers: list[tuple["Seen", str, int]] = field(default_factory=list)


@dataclass(eq=False)
class Seen:
    """A MESSAGE that a client heard, or that came to a session which the relay was ending. `held`: an ACK or NACK in an
    open transaction is about it. `replaced`: it was delivered again by its name, after its broker was lost.
    """

    caller: "RecordedClient"
    body: bytes
    ns: int
    order: Order
    pipe: Pipe
    frame: Frame
    settled_ns: int | None = None
    outcome: str | None = None
    held: bool = False
    replaced: bool = False

    @property
    def lost(self) -> bool:
        """Whether its broker was left."""
        return self.pipe.leg in self.caller.world.left

    def settle(self, ns: int, outcome: str) -> None:
        """Once and for all."""
        if self.outcome is None:
            self.settled_ns, self.outcome = ns, outcome


@dataclass(eq=False)
class Said:
    """Something whose time is to be known: `what` is called with it."""

    what: Any
    answered: Seen

    @property
    def live(self) -> bool:
        """Whether a broker waits for it."""
        return not self.answered.lost


class RecordedClient:
    """A client that remembers, and its relay, which keeps a journal."""

    def __init__(self, world: "RecordedWorld", name: bytes, version: bytes) -> None:
        self.world = world
        self.name = name
        self.version = version
        self.counters = Counters()
        self.relay = Relay(world.front, name, self.counters, world.chance)
        self.wake = inf
        self.pipes: list[Pipe] = []
        self.source: Pipe | None = None
        self.unread: list[tuple[bytes, list[Said]]] = []
        self.reader = Reader(version)
        self.paused = self.connected = self.closed = self.gone = self.leaving = self.breathing = False
        self.resent = self.depth = self._numbers = 0
        self.orders: list[Order] = []
        self._breath = b""
        self._breathed: list[Said] = []
        self._behind: list[Leg] = []
        self.reels: dict[Leg, tuple[LegRecorder, Context]] = {}
        self.context = Context(
            listener="public", session=name.decode(), peer="127.0.0.1:1", client=f"client of {name.decode()}"
        )
        self.reading: list[Said] = []
        self.confirmed: list[bytes] = []
        self.unheard: list[tuple[Pipe, Frame]] = []
        self.seen_all: list[Seen] = []
        self.units: dict[bytes, Unit] = {}
        self.losses_seen: list[dict[str, Any]] = []
        self.perform(self.relay.handle(inputs.Opened(), world.now))
        beats = [] if version == b"1.0" else [(b"heart-beat", b"0,1000")]
        self.say(b"CONNECT", [(b"accept-version", version), (b"host", b"/"), *beats])

    # The relay's journal

    def perform(self, effects: Iterable[asked.Effect]) -> None:
        """All effects of one input, in order; then those that gave way have their turns."""
        effects = list(effects)
        if not self.depth:
            self.world.ticks += 1
        self.depth += 1
        ns = self.world.ns
        if self.relay.client not in self.reels and self.depth == 1:
            self._tape(self.relay.client, self.context._replace(side=JournalSide.CLIENT.value))
        said, self.reading = self.reading, []
        answers = self._answers(effects)
        for each in said:
            if each.live and answers is not None:
                answers -= 1
                if answers < 0:
                    break  # the relay ended the session before it came to this one
            each.what(ns)
        for receipt in self.confirmed:
            self._confirms(receipt, ns)
        self.confirmed.clear()
        self.seen_all += [self._seen(pipe, frame) for pipe, frame in self.unheard]
        self.unheard.clear()
        for effect in effects:
            if isinstance(effect, asked.Open):
                broker = self.context._replace(
                    side=JournalSide.BROKER.value, upstream="main", broker=str(effect.broker)
                )
                self._tape(effect.leg, broker)
            elif isinstance(effect, Note):
                self._cut(ns)
                self.world.run.happened(ns, self.context, effect.event.value, effect.text, {**effect.facts})
                self._noted(effect, ns)
            elif isinstance(effect, Send) and effect.leg is not self.relay.client:
                self.writes(self._pipe(effect.leg), effect.data)
        self._cut(ns)
        self._carry_out(effects)
        while self._behind:
            self._carry_out(self.relay.handle(inputs.GaveWay(self._behind.pop(0)), self.world.now))
        if any(isinstance(effect, Close) and effect.leg is self.relay.client for effect in effects):
            self._return(None, ns)
        self.depth -= 1

    def _answers(self, effects: list[asked.Effect]) -> int | None:
        """How many ACKs and NACKs are passed on, where not all that was said is."""
        closed = any(isinstance(each, Close) and each.leg is self.relay.client for each in effects)
        if not (closed or self.relay.ending):
            return None
        sends = [each for each in effects if isinstance(each, Send) and each.leg is not self.relay.client]
        frames = [frame for each in sends for frame in cut(self._pipe(each.leg).version, each.data)]
        return sum(frame.command in (b"ACK", b"NACK") for frame in frames)

    def _tape(self, leg: Leg, context: Context) -> None:
        self.reels[leg] = LegRecorder(leg, self.world.capture, traced=self.world.front.trace), context

    def _cut(self, ns: int) -> None:
        for leg, (tape, context) in self.reels.items():
            if tape.frames:
                version = leg.dialect.version.decode()
                number, sizes, payload = tape.take()
                self.world.run.frames(ns, context._replace(version=version), number, sizes, payload)

    # What it says

    @property
    def talks(self) -> bool:
        """Whether it may go on saying things."""
        return self.connected and not (self.closed or self.gone or self.leaving)

    def number(self) -> int:
        """Another one each time."""
        self._numbers += 1
        return self._numbers

    def say(self, command: bytes, headers: Pairs, body: bytes = b"", said: Iterable[Said] = ()) -> None:
        """A frame."""
        self._breath += write(self.version, command, headers, body)
        self._breathed += said
        if not self.breathing:
            self.breathes()

    def breathes(self) -> None:
        """Everything that was said since `breathing` was set is read in one chunk."""
        self.breathing = False
        self.unread.append((self._breath, self._breathed))
        self._breath, self._breathed = b"", []
        self.read()

    def asks(self) -> Pairs:
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
            data, said = self.unread.pop(0)
            self.reading += said
            self.perform(self.relay.received(self.relay.client, data, self.world.now))
        return read

    def sends(self, where: bytes, unit: Unit | None, *, receipt: bool) -> None:
        """SEND."""
        number = self.number()
        body = b"%b.%03d" % (self.name, number) + b"x" * (number % 3)
        asks = self.asks() if receipt else []
        sent = Sent(self, body, where, asks[0][1] if asks else None, unit)
        self.world.sent[body] = sent
        if asks:
            self.world.receipts[asks[0][1]] = sent
        inside = [] if unit is None else [(b"transaction", unit.name)]
        own = [(b"correlation-id", b"id of " + body)] if self.world.own else []
        self.say(b"SEND", [(b"destination", where), *asks, *inside, *own], body)

    def settles(self, copy: Seen, unit: Unit | None, *, refuse: bool, asks: bool) -> None:
        """ACK or NACK, by the name that the client was given; the first delivery of that name is meant that a broker
        awaits, or else the first of a lost one.
        """
        names = {b"1.2": [b"ack"], b"1.1": [b"message-id", b"subscription"], b"1.0": [b"message-id"]}
        named = [(name, copy.frame.headers.get(name, b"")) for name in names[self.version]]
        copy = next(
            each
            for each in sorted(self.owed, key=lambda each: each.lost)
            if [(name, each.frame.headers.get(name, b"")) for name, _ in named] == named
        )
        gone = [copy]
        if copy.order.mode == b"client" and not copy.replaced:
            earlier = [each for each in self.owed if each.order is copy.order and each.ns <= copy.ns]
            gone = [each for each in earlier[: earlier.index(copy) + 1] if not each.replaced]
        for each in gone:
            each.held = True
        headers = [(b"id" if name == b"ack" else name, value) for name, value in named]
        if unit is not None:
            headers.append((b"transaction", unit.name))
            unit.named += gone
        outcome = "nacked" if refuse else "acked"

        def read(ns: int) -> None:
            for each in gone:
                if unit is not None:
                    unit.answers.append((each, outcome, ns))
                elif not each.lost:
                    each.settle(ns, outcome)

        asked = self.asks() if asks else []
        self.say(b"NACK" if refuse else b"ACK", headers + asked, said=[Said(read, copy)])

    @property
    def owed(self) -> list[Seen]:
        """The deliveries that it has not answered, lost ones included, oldest first."""
        return [
            each for each in self.seen_all if each.order.mode != b"auto" and each.order.open and not each.held
        ]

    @property
    def held(self) -> list[Seen]:
        """The deliveries that it answered in transactions that are open."""
        return [seen for unit in self.units.values() for seen in unit.named]

    def commits(self, unit: Unit) -> None:
        """COMMIT: it counts when it is written to a broker."""
        del self.units[unit.name]
        self.world.units[self, unit.name] = unit
        self.say(b"COMMIT", [(b"transaction", unit.name), *self.asks()])

    def aborts(self, unit: Unit) -> None:
        """ABORT."""
        del self.units[unit.name]
        for each in unit.named:
            each.held = False
        unit.aborted = True
        self.say(b"ABORT", [(b"transaction", unit.name)])

    # What it hears, and what brokers are told

    def hear(self, data: bytes) -> None:
        """The relay wrote this."""
        self.reader.feed(data)
        for frame in iter(self.reader.next, None):
            if frame.command == b"CONNECTED":
                self.connected = True
            elif frame.command == b"MESSAGE":
                self._message(frame)

    def _message(self, frame: Frame) -> None:
        assert self.source is not None
        seen = self._seen(self.source, frame)
        name = frame.headers[b"message-id"]
        for each in self.owed:
            if each.order is seen.order and each.lost and each.frame.headers[b"message-id"] == name:
                each.replaced = True
        self.seen_all.append(seen)

    def _seen(self, pipe: Pipe, frame: Frame) -> Seen:
        """A MESSAGE of this broker's, which the client hears unless the relay ends its session."""
        id, destination = frame.headers.get(b"subscription"), frame.headers[b"destination"]
        if id is not None and id.startswith(b"relay-"):
            id = None  # the client gave none
        order = [
            each
            for each in self.orders
            if each.destination == destination and (each.id or destination) == (id or destination)
        ][-1]
        seen = Seen(self, frame.body, self.world.ns, order, pipe, frame)
        if order.mode == b"auto":
            seen.settle(seen.ns, "acked")
        elif seen.lost:
            seen.settle(seen.ns, "returned")
        return seen

    def _confirms(self, receipt: bytes, ns: int) -> None:
        sent = self.world.receipts.get(receipt)
        if sent is not None and sent.receipt_ns is None:
            sent.receipt_ns = ns

    def writes(self, pipe: Pipe, data: bytes) -> None:
        """The relay wrote to a broker."""
        for frame in cut(pipe.version, data):
            if frame.command == b"SEND":
                sent = self.world.sent[frame.body]
                sent.ns = sent.ns or self.world.ns
            elif frame.command == b"COMMIT":
                unit = self.world.units.get((self, frame.headers[b"transaction"]))
                if unit is not None and not unit.committed:
                    unit.committed = True
                    for seen, outcome, ns in unit.answers:
                        seen.settle(ns, outcome)

    def _noted(self, note: Note, ns: int) -> None:
        broker = note.facts.get("broker")
        match note.event:
            case Event.LOST | Event.MOVED if broker is not None:
                loss = {"broker": broker, "lost_ns": ns, "planned": note.event is Event.MOVED}
                self.losses_seen.append({**loss, "recovered_ns": None, "moved_to": None})
                for pipe in self.pipes:
                    # One that the session is to move to has answered already.
                    if not pipe.dead and pipe.bound and pipe.node is self.world.called(broker):
                        self._return(pipe, ns)
            case Event.RECOVERED:
                self.losses_seen[-1].update(recovered_ns=ns, moved_to=broker)
            case Event.ANSWERED:
                self._confirms(str(note.facts["receipt"]).encode(), ns)
            case Event.VANISHED:
                self._return(None, ns)

    def _return(self, pipe: Pipe | None, ns: int) -> None:
        """What came from a broker, or from any, and was not answered goes back."""
        for each in self.seen_all:
            if pipe is None or each.pipe is pipe:
                each.settle(ns, "returned")
        self.world.left.update(each.leg for each in self.pipes if pipe is None or each is pipe)

    # The service's part

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
                    node = self.world.by_broker[broker]
                    self.pipes.append(Pipe(self, leg, node, node.version, node.product))
                case Close(leg) if leg is self.relay.client:
                    self.closed = True
                case Close(leg, how):
                    pipe = self._pipe(leg)
                    pipe.dead, pipe.down = True, b""
                    if how is How.ABORT:
                        pipe.up = b""  # otherwise it is still in flight
                case Pause(leg) | Resume(leg):
                    pause = isinstance(effect, Pause)
                    if leg is self.relay.client:
                        self.paused = pause
                    else:
                        self._pipe(leg).paused = pause
                    told = inputs.Paused(leg) if pause else inputs.Resumed(leg)
                    self._carry_out(self.relay.handle(told, self.world.now))
                case GiveWay(leg):
                    self._behind.append(leg)
                case Wake(at):
                    self.wake = at
                case Note(Event.RECOVERED, _, facts):
                    self.resent += int(facts["resent"])

    def _pipe(self, leg: Leg) -> Pipe:
        return next(pipe for pipe in self.pipes if pipe.leg is leg)


class RecordedWorld:
    """Brokers, clients, a clock of plain numbers, the journal and the account. `seed` decides all that happens."""

    def __init__(
        self, seed: int, *, faults: bool = True, trace: bool = True, bodies: bool = False, own: bool = False
    ) -> None:
        self.random = Random(seed)
        self.faults = faults
        self.own = own
        self.now = 1000.0
        self.ticks = 0
        self.run = Run(f"relay{seed}", f"{seed:08x}")
        self.capture = Capture(ALL if bodies else NOTHING)
        self.callers: list[RecordedClient] = []
        self.sent: dict[bytes, Sent] = {}
        self.receipts: dict[bytes, Sent] = {}
        self.units: dict[tuple[RecordedClient, bytes], Unit] = {}
        self.left: set[Leg] = set()
        self.name = f"w{seed}c".encode()
        count = self.random.randint(2, 3) if faults else 1
        over = movable(
            count,
            options={"longest_delay": 1.0},
            confirm=self.random.random() < 0.5,
            heart_beat=BEAT,
            connect_timeout=3.0,
            checks=Checks(longest_pause=2.0),
        )
        versions = [self.random.choice(VERSIONS) for _ in range(count)]
        nodes = [
            Node(b"abc"[at : at + 1] + b"%d" % seed, version, self.random.choice(("generic", "activemq")))
            for at, version in enumerate(versions)
        ]
        self.front = listener(over, heart_beat=BEAT, trace=trace)
        self.by_broker = dict(zip(self.front.upstream.brokers, nodes, strict=True))
        self._dice = 1

    @property
    def ns(self) -> int:
        """The time, as journals have it."""
        return BEGUN + round((self.now - 1000) * SECOND) + self.ticks * STEP

    def chance(self) -> float:
        """A number from 0 up to 1, the same ones in each run."""
        self._dice = self._dice * 1103515245 + 12345 & 0x7FFFFFFF
        return self._dice / 0x80000000

    def called(self, uri: str | int) -> Node:
        """What stands at the address that a note names."""
        return next(node for broker, node in self.by_broker.items() if str(broker) == uri)

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
        return self._accepts(pipe) or self._rises(pipe, None) or self._falls(pipe) or self._ends(pipe)

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

    def _rises(self, pipe: Pipe, most: int | None) -> bool:
        """So many octets at most reach the broker. Answers whether there were any."""
        node, connection = pipe.node, pipe.connection
        if connection is None:
            return False
        woken = pipe.wake <= self.now
        data, pipe.up = pipe.up[:most], b"" if most is None else pipe.up[most:]
        if data:
            node.perform(pipe, connection.received(data, self.now))
        elif woken:
            pipe.wake = inf
            node.perform(pipe, connection.woke(self.now))
        if pipe.dead:
            pipe.down = b""
        return bool(data) or woken

    def _falls(self, pipe: Pipe) -> bool:
        """What there is reaches the relay: receipts, and messages that the client does not hear, are noted. Answers
        whether there was any.
        """
        if pipe.dead or pipe.paused or not pipe.down:
            return False
        caller = pipe.caller
        frames = cut(pipe.version, pipe.down)
        caller.confirmed += [each.headers[b"receipt-id"] for each in frames if each.command == b"RECEIPT"]
        if caller.relay.ending:
            caller.unheard += [(pipe, each) for each in frames if each.command == b"MESSAGE"]
        data, pipe.down = pipe.down, b""
        pipe.bound = True
        caller.source = pipe
        caller.perform(caller.relay.received(pipe.leg, data, self.now))
        return True

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

    def kills(self, node: Node, up: int) -> None:
        """SIGKILL. What the broker had taken is on its disk: of what was in flight so many octets each, too."""
        node.refusing = True
        live = [pipe for caller in self.callers for pipe in caller.pipes if pipe.node is node]
        live = [pipe for pipe in live if pipe.accepted and not (pipe.dead and pipe.ended)]
        for pipe in live:
            self._rises(pipe, up)
        alive = [pipe for pipe in live if pipe.connection is not None]
        for pipe in alive:
            assert pipe.connection is not None
            node.perform(pipe, pipe.connection.paused())
        for pipe in alive:
            if pipe.connection is not None:
                node.perform(pipe, pipe.connection.lost(self.now))
                node.forget(pipe)
        for pipe in live:
            pipe.ended = True
            self._falls(pipe)
            self._loses(pipe)

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

    def passes(self, seconds: float) -> None:
        """The clock goes on."""
        end = self.now + seconds
        for _ in range(10_000):
            self.flows()
            wakes = [caller.wake for caller in self.callers]
            wakes += [pipe.wake for node in self.by_broker.values() for pipe in node.pipes]
            due = min(wakes, default=inf)
            if due > end:
                self.now = end
                return
            self.now = max(self.now, due)
            for caller in self.callers:
                if caller.wake <= self.now:
                    caller.wake = inf
                    caller.perform(caller.relay.handle(inputs.Woke(), self.now))
        raise AssertionError("somebody asks to be woken again and again")

    # What happens

    def plays(self, breaths: int) -> None:
        """So many things happen, and then everybody who is there is heard out."""
        random = self.random
        for _ in range(random.randint(1, 3)):
            self._comes()
        self.flows()
        for _ in range(breaths):
            talking = [each for each in self.callers if each.talks]
            if self.faults and random.random() < 0.12:
                self._fails()
            elif not talking or (len(self.callers) < 4 and random.random() < 0.03):
                self._comes()
            elif random.random() < 0.04:
                self._goes(random.choice(talking))
            else:
                self._breathes(random.choice(talking))
            if random.random() < 0.7:
                self.flows()
            if random.random() < 0.2:
                self.passes(random.choice((0.01, 0.3, 1.5)))
        for broker, node in self.by_broker.items():
            node.refusing = False
            self.resumes(broker)
        self.passes(15.0)

    def _comes(self) -> None:
        name = self.name + b"%d" % len(self.callers)
        self.callers.append(RecordedClient(self, name, self.random.choice(VERSIONS)))
        self.flows()

    def _goes(self, caller: RecordedClient) -> None:
        if self.random.random() < 0.5:
            caller.say(b"DISCONNECT", caller.asks())
            caller.leaving = True
        else:
            caller.gone = True
            caller.unread.clear()
            caller.perform(
                caller.relay.handle(inputs.Lost(caller.relay.client, "Connection reset by peer"), self.now)
            )

    def _fails(self) -> None:
        random = self.random
        broker, node = [*self.by_broker.items()][random.randrange(len(self.by_broker))]
        match random.choice(("kill", "kill", "start", "pause", "resume", "upgrade")):
            case "kill":
                self.kills(node, random.choice((0, 1000, 10_000)))
            case "start":
                node.refusing = False
            case "upgrade":
                self.kills(node, 10_000)
                node.refusing, node.version = False, random.choice(VERSIONS)
            case "pause":
                self.pauses(broker, random.choice((0.0, 0.5, 5.0)))
            case "resume":
                self.resumes(broker)

    def _breathes(self, caller: RecordedClient) -> None:
        caller.breathing = self.random.random() < 0.5
        for _ in range(self.random.randint(1, 6)):
            self._says(caller)
        if caller.breathing:
            caller.breathes()

    def _says(self, caller: RecordedClient) -> None:
        random = self.random
        unit = random.choice([None, None, *caller.units.values()])
        match random.choice(
            ("send",) * 4 + ("settle",) * 4 + ("subscribe", "begin", "commit", "abort", "leave")
        ):
            case "send":
                caller.sends(random.choice(PLACES), unit, receipt=random.random() < 0.5)
            case "settle" if caller.owed:
                refuse = caller.version != b"1.0" and random.random() < 0.2 and self._can_refuse(caller)
                caller.settles(random.choice(caller.owed), unit, refuse=refuse, asks=random.random() < 0.3)
            case "subscribe":
                self._subscribes(caller)
            case "begin" if len(caller.units) < 2:
                begun = Unit(b"t%d" % caller.number())
                caller.units[begun.name] = begun
                caller.say(b"BEGIN", [(b"transaction", begun.name)])
            case "commit" if caller.units:
                caller.commits(random.choice([*caller.units.values()]))
            case "abort" if caller.units:
                caller.aborts(random.choice([*caller.units.values()]))
            case "leave" if len(caller.orders) > 1:
                opened = [each for each in caller.orders if each.open]
                if opened:
                    order = random.choice(opened)
                    order.open = False
                    named = (b"destination", order.destination) if order.id is None else (b"id", order.id)
                    caller.say(b"UNSUBSCRIBE", [named])

    def _can_refuse(self, caller: RecordedClient) -> bool:
        """Whether all brokers know NACK."""
        return caller.heard_at_once and all(node.version != b"1.0" for node in self.by_broker.values())

    def _subscribes(self, caller: RecordedClient) -> None:
        where = self.random.choice(PLACES)
        id: bytes | None = b"s%d" % caller.number()
        if caller.version == b"1.0" and all(order.destination != where for order in caller.orders):
            id = None
        elif any(order.id is None and order.destination == where for order in caller.orders):
            return
        order = Order(id, where, self.random.choice(MODES))
        caller.orders.append(order)
        named = [] if id is None else [(b"id", id)]
        caller.say(b"SUBSCRIBE", [*named, (b"destination", where), (b"ack", order.mode)])

    # What must be

    def expected(self) -> dict[str, dict[str, Any]]:
        """What `messages` must say of each message, by its body."""
        seen = sorted([seen for caller in self.callers for seen in caller.seen_all], key=lambda each: each.ns)
        return {
            body.decode(): _expected(sent, sent.ns, [each for each in seen if each.body == body])
            for body, sent in self.sent.items()
            if sent.ns is not None
        }


def _expected(sent: Sent, ns: int, seen: list[Seen]) -> dict[str, Any]:
    topic = sent.destination.startswith(b"/topic/")
    deliveries = [
        (
            each.ns // 1000,
            each.caller.name.decode(),
            (each.order.id or each.order.destination).decode(),
            each.order.mode.decode(),
            None if each.settled_ns is None else each.settled_ns // 1000,
            each.outcome or "delivered",
        )
        for each in seen
    ]
    ends = {(each.caller, each.order.id) if topic else None: each.outcome for each in seen}
    outcomes = [*ends.values()]
    if not seen:
        outcome = "undelivered" if sent.receipt is None or sent.receipt_ns is not None else "unconfirmed"
        unit, caller = sent.transaction, sent.caller
        ended = caller.closed or caller.relay.over
        if unit is not None and not unit.committed and (unit.aborted or ended):
            outcome = "aborted"
    elif None in outcomes:
        outcome = "delivered"
    else:
        outcome = next(each for each in ("returned", "nacked", "acked") if each in outcomes)
    again = 0
    for at, each in enumerate(seen):
        before = seen[:at]
        same = [other for other in before if (other.caller, other.order) == (each.caller, each.order)]
        back = [other.outcome in ("nacked", "returned") for other in (same if topic else before)]
        again += bool(same) or any(back)
    acked = [each for each in seen if each.outcome == "acked" and each.order.mode != b"auto"]
    return {
        "destination": sent.destination.decode(),
        "producer_session": sent.caller.name.decode(),
        "sent": ns // 1000,
        "receipt_us": None if sent.receipt_ns is None else (sent.receipt_ns - ns) // 1000,
        "delivery_us": (seen[0].ns - ns) // 1000 if seen else None,
        "ack_us": (acked[0].settled_ns - acked[0].ns) // 1000 if acked and acked[0].settled_ns else None,
        "outcome": outcome,
        "redelivered": again,
        "deliveries": deliveries,
    }


def told(row: dict[str, Any]) -> dict[str, Any]:
    """The same of a row of `messages`."""
    same = (
        "destination",
        "producer_session",
        "receipt_us",
        "delivery_us",
        "ack_us",
        "outcome",
        "redelivered",
    )
    of_each = ("seen_at", "session", "subscription", "mode", "settled_at", "outcome")
    return {
        **{name: row[name] for name in same},
        "sent": micros(row["sent_at"]),
        "deliveries": [tuple(micros(each[name]) for name in of_each) for each in row["deliveries"]],
    }


def micros(value: Any) -> Any:
    """A time as microseconds since 1970; anything else as it is."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value

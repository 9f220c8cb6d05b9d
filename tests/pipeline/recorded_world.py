"""A world of brokers that die (see `tests.relay.survival`), its journal, and an account of what clients saw.

The account knows nothing of the journal: it is what each client said and heard, with the times at which the relay
dealt with it, and what was written to brokers. `expected` says what the tables must say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from stomprelay.journal.capture import Capture, LegRecorder
from stomprelay.journal.schema import Context, JournalSide
from stomprelay.journal.settings import ALL, NOTHING
from stomprelay.pipeline.settings import SECOND
from stomprelay.relay import effects as asked
from stomprelay.relay import inputs
from stomprelay.relay.model.group import Checks
from stomprelay.relay.model.listener import Listener
from stomprelay.session.effects import Close, Event, Note, Send
from stomprelay.session.leg import Leg
from tests.pipeline.journals import BEGUN, Run
from tests.playbook import VERSIONS, listener
from tests.relay.failing import movable
from tests.relay.reference import Heard, Pairs, cut
from tests.relay.survival import BEAT, Caller, Letter, Node, Order, Pipe, World

STEP: Final = 137_000
"""Nanoseconds from one input of a relay to the next."""
PLACES: Final = (b"/queue/a", b"/queue/b", b"/topic/t")
MODES: Final = (b"auto", b"client", b"client-individual")


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
    """A MESSAGE that a client heard, or that came to a session which the relay was ending."""

    caller: "RecordedClient"
    body: bytes
    ns: int
    order: Order
    pipe: Pipe
    frame: Heard
    settled_ns: int | None = None
    outcome: str | None = None
    held: bool = False
    """An ACK or NACK in an open transaction is about it."""
    replaced: bool = False
    """It was delivered again by its name, after its broker was lost."""

    @property
    def lost(self) -> bool:
        """Whether its broker was left."""
        return self.pipe.leg in self.caller.world.left

    def settle(self, ns: int, outcome: str) -> None:
        """Once and for all."""
        if self.outcome is None:
            self.settled_ns, self.outcome = ns, outcome


@dataclass(eq=False)
class Said(Letter):
    """Something whose time is to be known: `what` is called with it."""

    what: Any
    answered: Seen | None = None

    @property
    def live(self) -> bool:
        """Whether a broker waits for it."""
        return self.answered is not None and self.answered.pipe.leg not in self.answered.caller.world.left


class RecordedClient(Caller):
    """A client that remembers, and whose relay keeps a journal."""

    world: "RecordedWorld"

    def __init__(self, world: "RecordedWorld", name: bytes, version: bytes) -> None:
        self.world = world
        self.depth = 0
        self.reels: dict[Leg, tuple[LegRecorder, Context]] = {}
        self.context = Context(
            listener="public", session=name.decode(), peer="127.0.0.1:1", client=f"client of {name.decode()}"
        )
        self.reading: list[Said] = []
        self.confirmed: list[bytes] = []
        self.unheard: list[tuple[Pipe, Heard]] = []
        self.seen_all: list[Seen] = []
        self.units: dict[bytes, Unit] = {}
        self.losses_seen: list[dict[str, Any]] = []
        super().__init__(world, name, version)

    # The relay's journal

    def perform(self, effects: Iterable[asked.Effect]) -> None:
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
        for pipe, frame in self.unheard:
            self.seen_all.append(self._seen(pipe, frame))
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
        super().perform(effects)
        if any(isinstance(effect, Close) and effect.leg is self.relay.client for effect in effects):
            self._ends(ns)
        self.depth -= 1

    def _answers(self, effects: list[asked.Effect]) -> int | None:
        """How many ACKs and NACKs are passed on, where not all that was said is."""
        closed = any(isinstance(each, Close) and each.leg is self.relay.client for each in effects)
        if not (closed or self.relay.ending):
            return None
        sends = [each for each in effects if isinstance(each, Send) and each.leg is not self.relay.client]
        frames = [frame for each in sends for frame in cut(self._pipe(each.leg).version, each.data)[0]]
        return sum(frame.command in (b"ACK", b"NACK") for frame in frames)

    def _tape(self, leg: Leg, context: Context) -> None:
        self.reels[leg] = (
            LegRecorder(leg, self.world.capture, traced=self.world.front.trace),
            context,
        )

    def _cut(self, ns: int) -> None:
        for leg, (tape, context) in self.reels.items():
            if tape.frames:
                version = leg.dialect.version.decode()
                number, sizes, payload = tape.take()
                self.world.run.frames(ns, context._replace(version=version), number, sizes, payload)

    # What it says

    def says(self, what: Any, answered: Seen, command: bytes, headers: Pairs, body: bytes = b"") -> None:
        """A frame; `what` is called with the time at which the relay read it."""
        self.say(command, headers, body, [Said(what, answered)])

    def read(self) -> bool:
        read = False
        while self.unread and not self.paused and not self.closed:
            read = True
            data, letters = self.unread.pop(0)
            self.reading += [each for each in letters if isinstance(each, Said)]
            self.perform(self.relay.received(self.relay.client, data, self.world.now))
        return read

    def sends(self, where: bytes, unit: Unit | None, *, receipt: bool) -> None:
        """SEND."""
        number = self.number()
        body = b"%b.%03d" % (self.name, number) + b"x" * (number % 3)
        asks = self.asks(b"SEND") if receipt else []
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
        frame = copy.frame
        names = {b"1.2": [b"ack"], b"1.1": [b"message-id", b"subscription"], b"1.0": [b"message-id"]}
        named = [(name, frame.first(name) or b"") for name in names[self.version]]
        copy = next(
            each
            for each in sorted(self.owed, key=lambda each: each.lost)
            if [(name, each.frame.first(name) or b"") for name, _ in named] == named
        )
        mode, gone = copy.order.mode, [copy]
        if mode == b"client" and not copy.replaced:
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
                elif each.pipe.leg not in self.world.left:
                    each.settle(ns, outcome)

        self.says(read, copy, b"NACK" if refuse else b"ACK", headers + (self.asks(b"ACK") if asks else []))

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
        self.say(b"COMMIT", [(b"transaction", unit.name), *self.asks(b"COMMIT")])

    def aborts(self, unit: Unit) -> None:
        """ABORT."""
        del self.units[unit.name]
        for each in unit.named:
            each.held = False
        unit.aborted = True
        self.say(b"ABORT", [(b"transaction", unit.name)])

    # What it hears, and what brokers are told

    def message(self, frame: Heard) -> None:
        assert self.source is not None
        seen = self._seen(self.source, frame)
        name = frame.first(b"message-id")
        for each in self.owed:
            if each.order is seen.order and each.lost and each.frame.first(b"message-id") == name:
                each.replaced = True
        self.seen_all.append(seen)

    def _seen(self, pipe: Pipe, frame: Heard) -> Seen:
        """A MESSAGE of this broker's, which the client hears unless the relay ends its session."""
        id, destination = frame.first(b"subscription"), frame.first(b"destination")
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
        elif pipe.leg in self.world.left:
            seen.settle(seen.ns, "returned")
        return seen

    def _confirms(self, receipt: bytes, ns: int) -> None:
        sent = self.world.receipts.get(receipt)
        if sent is not None and sent.receipt_ns is None:
            sent.receipt_ns = ns

    def writes(self, pipe: Pipe, data: bytes) -> None:
        """The relay wrote to a broker."""
        for frame in cut(pipe.version, data)[0]:
            if frame.command == b"SEND":
                sent = self.world.sent[frame.body]
                sent.ns = sent.ns or self.world.ns
            elif frame.command == b"COMMIT":
                unit = self.world.units.get((self, frame.first(b"transaction") or b""))
                if unit is not None and not unit.committed:
                    unit.committed = True
                    for seen, outcome, ns in unit.answers:
                        seen.settle(ns, outcome)

    def _noted(self, note: Note, ns: int) -> None:
        broker = note.facts.get("broker")
        match note.event:
            case Event.LOST | Event.MOVED if broker is not None:
                planned = note.event is Event.MOVED
                self.losses_seen.append(
                    {
                        "broker": broker,
                        "lost_ns": ns,
                        "planned": planned,
                        "recovered_ns": None,
                        "moved_to": None,
                    }
                )
                for pipe in self.pipes:
                    # One that the session is to move to has answered already.
                    if not pipe.dead and pipe.bound and pipe.node is self.world.called(broker):
                        self._return(pipe, ns)
            case Event.RECOVERED:
                self.losses_seen[-1].update(recovered_ns=ns, moved_to=broker, resent=note.facts["resent"])
            case Event.ANSWERED:
                self._confirms(str(note.facts["receipt"]).encode(), ns)
            case Event.VANISHED:
                self._ends(ns)

    def _return(self, pipe: Pipe | None, ns: int) -> None:
        """What came from a broker, or from any, and was not answered goes back."""
        for each in self.seen_all:
            if pipe is None or each.pipe is pipe:
                each.settle(ns, "returned")
        self.world.left.update(each.leg for each in self.pipes if pipe is None or each is pipe)

    def _ends(self, ns: int) -> None:
        self._return(None, ns)


class RecordedWorld(World):
    """The world, its journal, and the account. `seed` decides all that happens."""

    def __init__(
        self, seed: int, *, faults: bool = True, trace: bool = True, bodies: bool = False, own: bool = False
    ) -> None:
        self.random = Random(seed)
        self.faults = faults
        self.own = own
        self.ticks = 0
        self.run = Run(f"relay{seed}", f"{seed:08x}")
        self.capture = Capture(ALL if bodies else NOTHING)
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
        super().__init__(listener(over, heart_beat=BEAT, trace=trace), nodes)

    front: Listener

    @property
    def ns(self) -> int:
        """The time, as journals have it."""
        return BEGUN + round((self.now - 1000) * SECOND) + self.ticks * STEP

    def falls(self, pipe: Pipe, most: float) -> bool:
        """A look at what comes: the receipts among it, and messages that the client does not hear."""
        if not (pipe.dead or pipe.paused or not pipe.down):
            caller = pipe.caller
            assert isinstance(caller, RecordedClient)
            frames, _ = cut(pipe.version, pipe.down)
            caller.confirmed += [
                each.first(b"receipt-id") or b"" for each in frames if each.command == b"RECEIPT"
            ]
            if caller.relay.ending:
                caller.unheard += [(pipe, each) for each in frames if each.command == b"MESSAGE"]
        return super().falls(pipe, most)

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
        for node, broker in zip(self.nodes, self.front.upstream.brokers, strict=True):
            node.refusing = False
            self.resumes(broker)
        self.passes(15.0)

    def _comes(self) -> None:
        caller = RecordedClient(self, self.name + b"%d" % len(self.callers), self.random.choice(VERSIONS))
        self.callers.append(caller)
        self.flows()

    def _goes(self, caller: Caller) -> None:
        if self.random.random() < 0.5:
            caller.say(b"DISCONNECT", caller.asks(b"DISCONNECT"))
            caller.leaving = True
        else:
            caller.gone = True
            caller.unread.clear()
            caller.perform(
                caller.relay.handle(inputs.Lost(caller.relay.client, "Connection reset by peer"), self.now)
            )

    def _fails(self) -> None:
        random = self.random
        at = random.randrange(len(self.nodes))
        node, broker = self.nodes[at], self.front.upstream.brokers[at]
        match random.choice(("kill", "kill", "start", "pause", "resume", "upgrade")):
            case "kill":
                self.kills(node, random.choice((0, 1000, 10_000)), 100_000)
            case "start":
                node.refusing = False
            case "upgrade":
                self.kills(node, 10_000, 100_000)
                node.refusing, node.version = False, random.choice(VERSIONS)
            case "pause":
                self.pauses(broker, random.choice((0.0, 0.5, 5.0)))
            case "resume":
                self.resumes(broker)

    def _breathes(self, caller: Caller) -> None:
        assert isinstance(caller, RecordedClient)
        random = self.random
        caller.breathing = random.random() < 0.5
        for _ in range(random.randint(1, 6)):
            self._says(caller)
        if caller.breathing:
            caller.breathes()

    def _says(self, caller: "RecordedClient") -> None:
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

    def _can_refuse(self, caller: Caller) -> bool:
        """Whether all brokers know NACK."""
        return caller.heard_at_once and all(node.version != b"1.0" for node in self.nodes)

    def _subscribes(self, caller: Caller) -> None:
        where = self.random.choice(PLACES)
        id: bytes | None = b"s%d" % caller.number()
        if not caller.names and all(order.destination != where for order in caller.orders):
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
        by_body: dict[bytes, list[Seen]] = {}
        for caller in self.callers:
            assert isinstance(caller, RecordedClient)
            for seen in caller.seen_all:
                by_body.setdefault(seen.body, []).append(seen)
        return {
            body.decode(): _expected(sent, sorted(by_body.get(body, []), key=lambda each: each.ns))
            for body, sent in self.sent.items()
            if sent.ns is not None
        }


def _expected(sent: Sent, seen: list[Seen]) -> dict[str, Any]:
    ns = sent.ns
    assert ns is not None
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
        same = any((other.caller, other.order) == (each.caller, each.order) for other in before)
        back = [other for other in before if other.outcome in ("nacked", "returned")]
        if topic:
            back = [other for other in back if (other.caller, other.order) == (each.caller, each.order)]
        again += same or bool(back)
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
    return {
        **{
            name: row[name]
            for name in ("destination", "producer_session", "receipt_us", "delivery_us", "ack_us")
        },
        **{name: row[name] for name in ("outcome", "redelivered")},
        "sent": micros(row["sent_at"]),
        "deliveries": [
            (
                micros(each["seen_at"]),
                each["session"],
                each["subscription"],
                each["mode"],
                micros(each["settled_at"]),
                each["outcome"],
            )
            for each in row["deliveries"]
        ],
    }


def micros(time: datetime | None) -> int | None:
    """Microseconds since 1970."""
    return None if time is None else (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


__all__ = ["RecordedClient", "RecordedWorld"]

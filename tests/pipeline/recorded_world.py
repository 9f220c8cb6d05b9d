"""A world of the simulator whose relay keeps a journal, and an account of what its sessions heard and were told.

The account knows nothing of the journal: it is what passed a relay's core, with the times. `expected` says what the
tables must say. Both end at a moment at which much goes on.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from sim.clients import Habit
from sim.disk import Disk
from sim.net import BEGIN, Clock
from sim.plan import PLAIN, VERSIONS, Plan, Scene, Step, client_act, draw
from sim.stomp import Frame, Reader
from sim.world import World, simulated
from stomprelay.journal import segment
from stomprelay.journal.block import Block, encode
from stomprelay.journal.settings import ALL, NOTHING, JournalSettings
from stomprelay.relay import effects as asked
from stomprelay.relay import inputs
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Event, Note, Send
from stomprelay.session.leg import Leg
from tests.pipeline.journals import Run

_NAMES: Final = {b"1.2": (b"ack",), b"1.1": (b"message-id", b"subscription"), b"1.0": (b"message-id",)}
"""By the version of a client the headers of a MESSAGE by which it answers it."""
_OF_RELAYS: Final = {"cut", "pause", "resume"}
"""What may happen to the relay."""


@dataclass(eq=False)
class Pipe:
    """A connection to a broker. `bound`: the relay heard something. `dead`: the relay does not know it any more."""

    leg: Leg
    broker: str
    heard: Reader = field(default_factory=Reader)
    bound: bool = False
    dead: bool = False


@dataclass(eq=False)
class Order:
    """A subscription."""

    id: bytes | None
    destination: bytes
    mode: bytes
    open: bool = True

    @property
    def name(self) -> str:
        """By which the tables know it."""
        return (self.id or self.destination).decode()


@dataclass
class Sent:
    """A message that a client sent; `ns` when a broker was told first."""

    session: "RecordedSession"
    body: bytes
    destination: bytes
    receipt: bytes | None
    transaction: "Unit | None"
    ns: int | None = None
    receipt_ns: int | None = None


@dataclass
class Unit:
    """A transaction: whether its COMMIT was written to a broker, and what was answered in it, when."""

    committed: bool = False
    aborted: bool = False
    named: list["Seen"] = field(default_factory=list)
    answers: list[tuple["Seen", str, int]] = field(default_factory=list)


@dataclass(eq=False)
class Seen:
    """A MESSAGE that a client was told, or that came to a session which the relay was ending. `held`: it was answered.
    `replaced`: it was delivered again by its name, after its broker was lost.
    """

    session: "RecordedSession"
    ns: int
    order: Order
    pipe: Pipe
    frame: Frame
    settled_ns: int | None = None
    outcome: str | None = None
    held: bool = False
    replaced: bool = False

    @property
    def owed(self) -> bool:
        """Whether an answer may be about it."""
        return self.order.mode != b"auto" and self.order.open and not self.held

    @property
    def lost(self) -> bool:
        """Whether its broker was left."""
        return self.pipe.leg in self.session.left

    def settle(self, ns: int, outcome: str) -> None:
        """Once and for all."""
        if self.outcome is None:
            self.settled_ns, self.outcome = ns, outcome


class RecordedSession:
    """The account of one session. `closed`: by the relay. `gone`: the client is."""

    def __init__(self, world: "RecordedWorld", relay: Relay) -> None:
        self.world = world
        self.relay = relay
        self.name = relay.name.decode()
        self.over = self.closed = self.gone = False
        self.resent = 0
        self.seen_all: list[Seen] = []
        self.losses_seen: list[dict[str, Any]] = []
        self.left: set[Leg] = set()
        self._said = Reader()
        self._pipes: dict[Leg, Pipe] = {}
        self._orders: list[Order] = []
        self._units: dict[bytes, Unit] = {}
        self.ended: dict[bytes, Unit] = {}
        self._receipts: dict[bytes, Sent] = {}

    @property
    def version(self) -> bytes:
        """The client's."""
        return self.relay.client.dialect.version

    @property
    def held(self) -> list[Seen]:
        """The deliveries that it answered in transactions that are open."""
        return [seen for unit in self._units.values() for seen in unit.named]

    def came(self, leg: Leg, data: bytes, ending: bool, effects: list[asked.Effect], ns: int) -> None:
        """The relay read this. `ending`: it was ending the session."""
        if leg is self.relay.client:
            self._say(_frames(data, self.version, self._said), effects, ns)
            self.perform(effects, None, ns)
        elif (pipe := self._pipes.get(leg)) is not None and not pipe.dead:
            pipe.bound = True
            frames = _frames(data, leg.dialect.version, pipe.heard)
            for each in frames:
                if each.command == b"RECEIPT":
                    self._confirms(each.headers[b"receipt-id"], ns)
                elif each.command == b"ERROR":  # an answer to the tables, also where the SEND goes out again
                    self._receipts.pop(each.headers.get(b"receipt-id", b""), None)
            if ending:
                self.seen_all += [self._seen(pipe, each, ns) for each in frames if each.command == b"MESSAGE"]
            self.perform(effects, pipe, ns)

    def perform(self, effects: list[asked.Effect], source: Pipe | None, ns: int) -> None:
        """All effects of one input, in order."""
        client = self.relay.client
        self.over = self.relay.over
        for effect in effects:
            match effect:
                case asked.Open(leg, broker):
                    self._pipes[leg] = Pipe(leg, str(broker))
                case Note():
                    self._noted(effect, ns)
                case Send(leg, data) if leg is not client:
                    self._writes(_frames(data, leg.dialect.version), ns)
        for effect in effects:
            match effect:
                case Send(leg, data) if leg is client:
                    for frame in _frames(data, self.version):
                        if frame.command == b"MESSAGE":
                            assert source is not None
                            self._hears(source, frame, ns)
                case Close(leg) if leg is client:
                    self.closed = True
                case Close(leg):
                    self._pipes[leg].dead = True
        if any(isinstance(effect, Close) and effect.leg is client for effect in effects):
            self._return(None, ns)

    # What the client says

    def _say(self, frames: list[Frame], effects: list[asked.Effect], ns: int) -> None:
        answers = self._answers(effects)
        for frame in frames:
            headers = frame.headers
            transaction = headers.get(b"transaction", b"")
            match frame.command:
                case b"SEND":
                    receipt = headers.get(b"receipt")
                    unit = self._units.get(transaction)
                    sent = Sent(self, frame.body, headers[b"destination"], receipt, unit)
                    self.world.sent[frame.body] = sent
                    if receipt is not None:
                        self._receipts[receipt] = sent
                case b"SUBSCRIBE":
                    mode = headers.get(b"ack", b"auto")
                    self._orders.append(Order(headers.get(b"id"), headers[b"destination"], mode))
                case b"UNSUBSCRIBE":
                    name = headers.get(b"id") or headers[b"destination"]
                    for order in self._orders:
                        order.open = order.open and (order.id or order.destination) != name
                case b"BEGIN":
                    self._units[transaction] = Unit()
                case b"COMMIT":
                    self.ended[transaction] = self._units.pop(transaction)
                case b"ABORT":
                    unit = self._units.pop(transaction)
                    unit.aborted = True
                    for each in unit.named:
                        each.held = False
                case b"ACK" | b"NACK":
                    live = self._answer(frame, self._units.get(transaction), answers, ns)
                    if live and answers is not None:
                        answers -= 1

    def _answers(self, effects: list[asked.Effect]) -> int | None:
        """How many ACKs and NACKs are passed on, where not all that was said is."""
        client = self.relay.client
        if not (self.relay.ending or any(isinstance(each, Close) and each.leg is client for each in effects)):
            return None
        data = b"".join(each.data for each in effects if isinstance(each, Send) and each.leg is not client)
        return sum(frame.command in (b"ACK", b"NACK") for frame in _frames(data, b"1.2"))

    def _answer(self, frame: Frame, unit: Unit | None, answers: int | None, ns: int) -> bool:
        """An answer to the first delivery of that name that a broker awaits, else of a lost one. Whether one waits."""
        names = _NAMES[self.version]
        said = [frame.headers.get(b"id" if name == b"ack" else name) for name in names]
        owed = [each for each in self.seen_all if each.owed]
        meant = [each for each in owed if [each.frame.headers.get(name) for name in names] == said]
        meant.sort(key=lambda each: each.lost)
        if not meant:
            return False
        copy, gone = meant[0], meant[:1]
        if copy.order.mode == b"client" and not copy.replaced:
            earlier = [each for each in owed if each.order is copy.order]
            gone = [each for each in earlier[: earlier.index(copy) + 1] if not each.replaced]
        for each in gone:
            each.held = True
        if unit is not None:
            unit.named += gone
        outcome = "acked" if frame.command == b"ACK" else "nacked"
        if not copy.lost and answers is not None and answers <= 0:
            return True  # the relay ended the session before it came to this one
        for each in gone:
            if unit is not None:
                unit.answers.append((each, outcome, ns))
            elif not each.lost:
                each.settle(ns, outcome)
        return not copy.lost

    # What it is told, and what brokers are

    def _hears(self, source: Pipe, frame: Frame, ns: int) -> None:
        seen = self._seen(source, frame, ns)
        name = frame.headers[b"message-id"]
        for each in self.seen_all:
            if (
                each.owed
                and each.order is seen.order
                and each.lost
                and each.frame.headers[b"message-id"] == name
            ):
                each.replaced = True
        self.seen_all.append(seen)

    def _seen(self, pipe: Pipe, frame: Frame, ns: int) -> Seen:
        """A MESSAGE of this broker's, which the client hears unless the relay ends its session."""
        id, destination = frame.headers.get(b"subscription"), frame.headers[b"destination"]
        orders = (each for each in reversed(self._orders) if each.destination == destination)
        order = next(each for each in orders if each.id in (None, id))
        seen = Seen(self, ns, order, pipe, frame)
        if order.mode == b"auto":
            seen.settle(ns, "acked")
        elif seen.lost:
            seen.settle(ns, "returned")
        return seen

    def _confirms(self, receipt: bytes, ns: int) -> None:
        sent = self._receipts.get(receipt)
        if sent is not None and sent.receipt_ns is None:
            sent.receipt_ns = ns

    def _writes(self, frames: list[Frame], ns: int) -> None:
        """The relay wrote to a broker."""
        for frame in frames:
            if frame.command == b"SEND":
                sent = self.world.sent[frame.body]
                sent.ns = sent.ns or ns
            elif frame.command == b"COMMIT":
                unit = self.ended.get(frame.headers[b"transaction"])
                if unit is not None and not unit.committed:
                    unit.committed = True
                    for seen, outcome, at in unit.answers:
                        seen.settle(at, outcome)

    def _noted(self, note: Note, ns: int) -> None:
        broker = note.facts.get("broker")
        match note.event:
            case Event.LOST | Event.MOVED if broker is not None:
                loss = {"broker": broker, "lost_ns": ns, "planned": note.event is Event.MOVED}
                self.losses_seen.append({**loss, "recovered_ns": None, "moved_to": None})
                for pipe in self._pipes.values():
                    # One that the session is to move to has answered already.
                    if not pipe.dead and pipe.bound and pipe.broker == str(broker):
                        self._return(pipe, ns)
            case Event.RECOVERED:
                self.losses_seen[-1].update(recovered_ns=ns, moved_to=broker)
                self.resent += int(note.facts["resent"])
            case Event.ANSWERED:
                self._confirms(str(note.facts["receipt"]).encode(), ns)
            case Event.VANISHED:
                self.gone = True
                self._return(None, ns)

    def _return(self, pipe: Pipe | None, ns: int) -> None:
        """What came from a broker, or from any, and was not answered goes back."""
        for each in self.seen_all:
            if pipe is None or each.pipe is pipe:
                each.settle(ns, "returned")
        self.left.update(self._pipes if pipe is None else (pipe.leg,))


def _frames(data: bytes, version: bytes, reader: Reader | None = None) -> list[Frame]:
    """The frames that are whole by now."""
    reader = reader or Reader()
    reader.version, reader.lenient = version, True
    reader.feed(data)
    return [*iter(reader.next, None)]


class _KeptDisk(Disk):
    """A disk whose journal is read, block by block."""

    def __init__(self, bodies: int, clock: Clock) -> None:
        super().__init__(clock)
        self.blocks: list[Block] = []
        self._bodies = bodies

    def settings(self) -> JournalSettings:
        return replace(super().settings(), bodies=self._bodies)

    def recorded(self) -> tuple[Counter[tuple[str, bytes, bytes]], list[str], bool]:
        for path in sorted(Path(self._folder.name).iterdir()):
            self.blocks += [each for each in segment.read(path) if isinstance(each, Block)]
        return super().recorded()


def _plan(seed: int, trace: bool) -> Plan:
    """A world of one relay that does not end before its three clients, without fan-out or what makes brokers go."""
    plan, chance = draw(0, seed), Random(seed)
    scene = plan.scene
    drawn = {name: scene.settings[name] for name in ("confirm", "beats", "randomize", "policy")}
    brokers = {name: (product, max(b"1.1", version)) for name, (product, version) in scene.brokers.items()}
    clients = {}
    for number, version in enumerate(chance.choices(VERSIONS, k=3), 1):
        again, login = chance.choice((None, 0.1)), b"c%d" % number
        clients[login.decode()] = Habit(version, returns=again, login=login, nacks=version > b"1.0")
    more = [Step(chance.uniform(0.5, 10.0), name, *client_act(chance)) for name in clients for _ in range(40)]
    for name in [*clients] * 3:
        at, ends = chance.uniform(0.5, 8.0), chance.choice(("commit", "abort"))
        answers = [Step(at + delay, name, "ack", (0, 0, 1)) for delay in (0.2, 0.4)]
        more += [Step(at, name, "begin", (0,)), *answers, Step(at + 1.0, name, ends, (0, 0))]
    steps = [
        step
        for step in sorted([*plan.steps, *more, *[Step(0.0, name, "connect") for name in clients]])
        if (step.who in {*clients, *brokers} and step.act != "poison")
        or (step.who == "relay" and step.act in _OF_RELAYS)
    ]
    kind, weather = "plain" if len(brokers) == 1 else "failover", (0.0, 0.0, scene.weather[2])
    settings = {**PLAIN, **drawn, "journal": True, "trace": trace}
    return Plan(plan.seed, Scene(kind, brokers, clients, weather, settings), tuple(steps))


class RecordedWorld:
    """The journal and the account of a world; `seed` decides all that happens."""

    def __init__(self, seed: int, *, trace: bool = True, bodies: bool = False) -> None:
        self.sent: dict[bytes, Sent] = {}
        self.stale = 0
        self._sessions: dict[int, RecordedSession] = {}
        self._until = BEGIN + Random(seed).uniform(3.0, 12.0)
        kept = partial(_KeptDisk, ALL if bodies else NOTHING)
        with simulated(), self._watched(), patch("sim.world.Disk", kept):
            world = World(_plan(seed, trace), relays=f"w{seed}")
            world.play()
        assert isinstance(world.disk, _KeptDisk)
        self.run = Run(f"relay{seed}", f"{seed:08x}")
        for each in world.disk.blocks:
            if each.time <= _ns(self._until):
                data = encode(each.kind, each.time, each.number, each.context, each.sizes, each.payload)
                self.run.blocks.append((each.time, data))
        self.ns = self.run.blocks[-1][0]

    @property
    def callers(self) -> list[RecordedSession]:
        """The sessions."""
        return [*self._sessions.values()]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        received, handle = Relay.received, Relay.handle

        def noted(relay: Relay, now: float) -> RecordedSession | None:
            if now > self._until:
                return None
            if id(relay) not in self._sessions:
                self._sessions[id(relay)] = RecordedSession(self, relay)
            return self._sessions[id(relay)]

        @wraps(received)
        def came(relay: Relay, leg: Leg, data: bytes, now: float) -> list[asked.Effect]:
            ending = relay.ending
            effects = received(relay, leg, data, now)
            if (session := noted(relay, now)) is not None:
                session.came(leg, data, ending, effects, _ns(now))
                self.stale = relay.counters["acks_stale"]
            return effects

        @wraps(handle)
        def happened(relay: Relay, event: inputs.Input, now: float) -> list[asked.Effect]:
            effects = handle(relay, event, now)
            if (session := noted(relay, now)) is not None:
                session.perform(effects, None, _ns(now))
            return effects

        with patch.object(Relay, "received", came), patch.object(Relay, "handle", happened):
            yield

    @property
    def whole(self) -> bool:
        """Whether brokers were told all SENDs and COMMITs that were read."""
        committed = all(unit.committed for caller in self.callers for unit in caller.ended.values())
        return committed and all(sent.ns is not None for sent in self.sent.values())

    # What must be

    def expected(self) -> dict[str, dict[str, Any]]:
        """What `messages` must say of each message, by its body."""
        seen = sorted([seen for caller in self.callers for seen in caller.seen_all], key=lambda each: each.ns)
        return {
            body.decode(): _expected(sent, sent.ns, [each for each in seen if each.frame.body == body])
            for body, sent in self.sent.items()
            if sent.ns is not None
        }


def _ns(now: float) -> int:
    """A time of the world as its journal has it."""
    return int((1_790_000_000 + now) * 1e9)


def _expected(sent: Sent, ns: int, seen: list[Seen]) -> dict[str, Any]:
    topic = sent.destination.startswith(b"/topic/")
    who = [(each.ns // 1000, each.session.name, each.order.name, each.order.mode.decode()) for each in seen]
    ended = [None if each.settled_ns is None else each.settled_ns // 1000 for each in seen]
    deliveries = [
        (*told, at, each.outcome or "delivered") for told, at, each in zip(who, ended, seen, strict=True)
    ]
    ends = {(each.session, each.order.id) if topic else None: each.outcome for each in seen}
    outcomes = [*ends.values()]
    if not seen:
        outcome = "undelivered" if sent.receipt is None or sent.receipt_ns is not None else "unconfirmed"
        unit = sent.transaction
        if unit is not None and not unit.committed and (unit.aborted or sent.session.over):
            outcome = "aborted"
    elif None in outcomes:
        outcome = "delivered"
    else:
        outcome = next(each for each in ("returned", "nacked", "acked") if each in outcomes)
    again = 0
    for at, each in enumerate(seen):
        before = seen[:at]
        same = [other for other in before if (other.session, other.order) == (each.session, each.order)]
        back = [other.outcome in ("nacked", "returned") for other in (same if topic else before)]
        again += bool(same) or any(back)
    acked = [each for each in seen if each.outcome == "acked" and each.order.mode != b"auto"]
    return {
        "destination": sent.destination.decode(),
        "producer_session": sent.session.name,
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
    same = ("destination", "producer_session", "outcome", "redelivered")
    took = ("receipt_us", "delivery_us", "ack_us")
    of_each = ("seen_at", "session", "subscription", "mode", "settled_at", "outcome")
    return {
        **{name: row[name] for name in (*same, *took)},
        "sent": micros(row["sent_at"]),
        "deliveries": [tuple(micros(each[name]) for name in of_each) for each in row["deliveries"]],
    }


def micros(value: Any) -> Any:
    """A time as microseconds since 1970; anything else as it is."""
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return value

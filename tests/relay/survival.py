"""A world of embedded brokers that die, and of clients that must not notice: what the model-based test plays with.

Nothing here has a socket. A `Pipe` is one connection of a relay to a broker, with the octets that are in flight in
each direction: when its broker is killed they are cut off at any octet, as SIGKILL does it. A `Caller` is a client
of any version with its relay in front of it; it keeps account of what it was promised. The `World` moves octets and
time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from stomprelay.broker.bounds import DEFAULTS
from stomprelay.broker.broker import Broker as Embedded
from stomprelay.broker.connection import Connection
from stomprelay.broker.destinations import Destinations
from stomprelay.broker.message import Message
from stomprelay.relay import effects as asked
from stomprelay.relay.group import Broker
from stomprelay.relay.listener import Listener
from stomprelay.relay.relay import Relay
from stomprelay.relay.tally import Tally
from stomprelay.session.effects import Close, Effect, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg
from tests.playbook import PRODUCTS
from tests.relay.model import Heard, Pairs, cut, write

BEAT: Final = Terms(1000, 1000)
SILENCE: Final = 1.0
"""Seconds after which a client that asked for beats must have heard something."""


# The brokers


class Register(Destinations):
    """Destinations that remember what was taken, in order: where to, what, and whether it is marked as said again."""

    taken: list[tuple[bytes, bytes, bool]]

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
        self.taken.append(
            (message.head.destination, message.body.rstrip(b"\n\0"), b"relay-resent:true\n" in lines)
        )


class Node:
    """An embedded broker. `refusing`: it is down; `stalled`: its process is stopped, though its port is open."""

    def __init__(self, name: bytes, version: bytes, product: str) -> None:
        self.version = version
        self.product = product
        self.refusing = False
        self.stalled = False
        self.broker = Embedded(DEFAULTS, BEAT, name)
        register = Register(DEFAULTS, name, lambda _: None, lambda _: None)
        register.taken = []
        self.broker.destinations = register
        self.taken = register.taken
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
                    other = self._pipe(leg)
                    other.connection = None
                    other.ended = True
                case Wake(at):
                    pipe.wake = at
                case Note() | Pause() | Resume():
                    pass

    def _pipe(self, leg: Leg) -> "Pipe":
        return next(each for each in self.pipes if each.connection and each.connection.leg is leg)


class Pipe:
    """One connection: `up` is in flight to the broker, `down` to the relay.

    `dead`: the relay does not know it any more. `ended`: the broker closed its end, `closing`: the relay did.
    """

    def __init__(self, caller: "Caller", leg: Leg, node: Node) -> None:
        self.caller = caller
        self.leg = leg
        self.node = node
        self.connection: Connection | None = None
        self.accepted = False
        self.up = b""
        self.down = b""
        self.wake = inf
        self.paused = False
        self.dead = False
        self.ended = False
        self.closing = False
        self._sends: list[tuple[int, list[bytes]]] = []
        self._told = 0

    def says(self, data: bytes) -> None:
        """The relay writes. CONNECT is made to ask for the broker's only version."""
        if data.startswith(b"CONNECT\n"):
            lines = [each for each in data.split(b"\n") if not each.startswith(b"accept-version:")]
            data = b"\n".join([lines[0], b"accept-version:" + self.node.version, *lines[1:]])
        self.up += data

    def told(self, data: bytes) -> None:
        """The broker writes. CONNECTED names its product."""
        if data.startswith(b"CONNECTED\n"):
            at = data.index(b"server:")
            data = data[:at] + PRODUCTS[self.node.product] + data[data.index(b"\n", at) + 1 :]
        self.down += data
        self._told += len(data)
        frames, rest = cut(self.node.version, data)
        assert not rest.strip(b"\n")
        self._sends.append((self._told, [each.body for each in frames if each.command == b"MESSAGE"]))

    def drops(self) -> Iterator[bytes]:
        """What is in flight to the relay is lost: the messages in it."""
        heard = self._told - len(self.down)
        for end, bodies in self._sends:
            if end > heard:
                yield from bodies
        self.up = self.down = b""


# The clients


@dataclass(eq=False)
class Letter:
    """One SEND. `read`: the relay took it. `order` is its place among those of its sender that count, once it has one."""

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
    """From BEGIN on. `committing` is set with COMMIT, until it is answered; `losses` is how many brokers the client
    had lost when it said BEGIN, then when it said COMMIT.
    """

    name: bytes
    losses: int
    letters: list[Letter] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    octets: int = 0
    committing: bool = False
    receipt: bytes | None = None


class Caller:
    """A client and its relay. `wrongs` is what must not have happened to it."""

    def __init__(self, world: "World", name: bytes, version: bytes) -> None:
        self.world = world
        self.name = name
        self.version = version
        self.tally = Tally()
        self.relay = Relay(world.front, name, self.tally, world.chance)
        self.wake = inf
        self.pipes: list[Pipe] = []
        self.source: Pipe | None = None
        self.losses = 0
        self.paused = False
        self.unread: list[tuple[bytes, list[Letter]]] = []
        self.rest = b""
        self.notes: list[str] = []
        self.wrongs: list[str] = []
        self.heard_at = inf
        self.connected = False
        self.closed = False
        self.gone = False
        self.leaving = False
        self.failed = False
        self.letters: list[Letter] = []
        self.orders: list[Order] = []
        self.open: dict[bytes, Transaction] = {}
        self.committing: list[Transaction] = []
        self.receipts: dict[bytes, Any] = {}
        self.given: list[bytes] = []
        self.seen: set[bytes] = set()
        self.settled: set[bytes] = set()
        self.consumed: set[bytes] = set()
        self._numbers = 0
        self.perform(self.relay.opened(world.now))
        beats = [] if version == b"1.0" else [(b"heart-beat", b"0,1000")]
        self.say(b"CONNECT", [(b"accept-version", version), (b"host", b"/"), *beats])

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
        self, command: bytes, headers: Pairs, body: bytes = b"", letters: Iterable[Letter] = ()
    ) -> int:
        """A frame; answers its octets."""
        data = write(self.version, command, headers, body)
        self.unread.append((data, list(letters)))
        self.read()
        return len(data)

    def asks(self, what: object) -> Pairs:
        """A receipt for something."""
        receipt = b"%b-r%d" % (self.name, self.number())
        self.receipts[receipt] = what
        return [(b"receipt", receipt)]

    def read(self) -> None:
        """The relay reads what the client wrote, unless it paused it."""
        while self.unread and not self.paused and not self.closed:
            data, letters = self.unread.pop(0)
            for letter in letters:
                letter.read = True
            self.perform(self.relay.received(self.relay.client, data, self.world.now))

    # What it hears

    def hear(self, data: bytes) -> None:
        """The relay wrote this."""
        self.heard_at = self.world.now
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
        if order.mode == b"auto":
            self.consumed.add(frame.body)
        elif order.open:
            ack = frame.first(b"ack")
            if self.version == b"1.2" and any(
                copy.frame.first(b"ack") == ack for each in self.orders for copy in each.owed
            ):
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
        if self.doomed(transaction):
            self.wrongs.append(f"{transaction.name!r} was doomed")
        bodies = {letter.body for letter in transaction.letters}
        if not any(bodies <= {body for _, body, _ in node.taken} for node in self.world.nodes):
            self.wrongs.append(f"no broker took all of {transaction.name!r}")

    def _error(self, frame: Heard) -> None:
        self.failed = True
        if not any(self.doomed(each) or self.losses > each.losses for each in self.committing):
            self.wrongs.append(f"{frame}")

    def doomed(self, transaction: Transaction) -> bool:
        """Whether it acknowledged messages of a broker that is no more."""
        return any(copy.pipe.dead for copy in transaction.copies)

    # The service's part

    def perform(self, effects: Iterable[asked.Effect]) -> None:
        """All effects of one input, in order."""
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
                case Wake(at):
                    assert at >= self.world.now, "woken in the past"
                    self.wake = at
                case Note(_, text):
                    self.notes.append(text)

    def _paced(self, leg: Leg, *, pause: bool) -> None:
        if leg is self.relay.client:
            self.paused = pause
        else:
            self._pipe(leg).paused = pause
        if pause:
            self.relay.paused(leg)
        else:
            self.perform(self.relay.resumed(leg, self.world.now))

    def loses(self, pipe: Pipe, how: How) -> None:
        """A pipe is not the relay's any more; what was written is still in flight unless it was aborted."""
        assert not pipe.dead, "closed twice"
        pipe.dead = pipe.closing = True
        self.losses += 1
        self.world.spilled.update(pipe.drops() if how is How.ABORT else ())

    def _pipe(self, leg: Leg) -> Pipe:
        return next(pipe for pipe in self.pipes if pipe.leg is leg)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.relay.over and not self.unread

"""Brokers of a world: one model for all products, whose differences are facts of a `Product`. The facts come from the
recorded conversations in `tests/corpus` and from `docs/translation.md`; `make sim-models` holds them to the brokers.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from sim.actors import Line
from sim.history import History, What
from sim.layers import layers
from sim.net import End, Network
from sim.stomp import Frame, Malformed, Pairs, Reader, write

OWN: Final = frozenset(
    {b"receipt", b"transaction", b"destination", b"subscription", b"message-id", b"ack", b"redelivered"}
)
"""Headers of a SEND that are not in its MESSAGE, or that the broker sets itself."""


class Product(NamedTuple):
    """How a broker product behaves. `late`: it confirms each SEND by itself, in any order, and COMMIT before the SENDs
    in it. `across`: an ACK of mode `client` covers the deliveries of all subscriptions. `same_id`: a message keeps its
    id when it is delivered again. `dead`: a NACK removes the message, as to a dead-letter queue. `closes`: it closes
    the connection behind an ERROR. `strict`: an ACK that it does not await is an ERROR.
    """

    name: str
    server: bytes
    late: bool = False
    across: bool = False
    same_id: bool = False
    dead: bool = True
    closes: bool = True
    strict: bool = True


PRODUCTS: Final = (
    Product("rabbitmq", b"RabbitMQ/3.10.8", late=True, across=True, dead=False),
    Product("activemq", b"ActiveMQ/5.17.2", same_id=True, closes=False),
    Product("artemis", b"ActiveMQ-Artemis/2.31.2 ActiveMQ Artemis Messaging Engine", same_id=True),
)


@dataclass(eq=False)
class Message:
    """A message in a queue. `safe`: it survives a kill. `returned`: it was delivered before."""

    number: int
    body: bytes
    headers: dict[bytes, bytes]
    destination: bytes
    safe: bool = False
    returned: bool = False


class Delivery(NamedTuple):
    """A message that was delivered, by its `id`, and waits for an ACK."""

    id: bytes
    subscription: "Subscription"
    message: Message


@dataclass(eq=False)
class Subscription:
    """A subscription of one connection."""

    id: bytes | None
    destination: bytes
    mode: bytes


class Broker:
    """A broker at one place of the network. It begins to listen with `start`."""

    def __init__(
        self, name: str, product: Product, version: bytes, net: Network, history: History, chance: Random
    ) -> None:
        self.name = name
        self.product = product
        self.versions = [each for each in (b"1.0", b"1.1", b"1.2") if each <= version]
        self.place = (f"192.0.2.{1 + ord(name[-1]) - ord('a')}", 61613)
        self.net = net
        self.history = history
        self.chance = chance
        self.beat = chance.choice((0, 1000))
        self.slowness = chance.choice((0.0, 0.001, 0.05))
        self.prefetch = chance.choice((1000, 4, 1))
        self.queues: dict[bytes, deque[Message]] = {}
        self.sessions: list[Session] = []
        self.stalled = False
        self.up = False
        self.web = self.secure = False
        self._count = 0
        self._connections = 0

    def note(self, what: What, session: int = 0, frame: Frame | None = None, detail: str = "") -> None:
        """Add an event of this broker to the history."""
        self.history.add(self.net.clock.now, self.name, what, session, frame, detail)

    # Fate

    def start(self) -> None:
        """Listen, with the messages that survived."""
        if not self.up:
            self.up = True
            self.net.places[self.place] = self._accept
            self.note(What.FATE, detail="starts")

    def kill(self, most: int) -> None:
        """Be killed: of what was written at most so many bytes arrive, and what is not on the disk may be lost."""
        if not self.up:
            return
        self.up = self.stalled = False
        self.net.silent.discard(self.place)
        del self.net.places[self.place]
        self.note(What.FATE, detail=f"is killed; of what is on its way {most} bytes arrive")
        for session in list(self.sessions):
            if session.line.end.peer is not None:
                session.line.end.cut(most)
            session.line.close()
            session.over(again=True)
        for queue in self.queues.values():
            for message in list(queue):
                if not message.safe and self.chance.random() < 0.5:
                    queue.remove(message)
                    self.note(What.FORGOT, detail=message.body.decode())
                else:
                    message.safe = True

    def stall(self, on: bool) -> None:
        """Hang: the port is open, and nothing is answered. Or go on."""
        if self.up and self.stalled is not on:
            self.stalled = on
            self.note(What.FATE, detail="hangs" if on else "goes on")
            for session in self.sessions:
                session.line.slow = on
                session.line.end.changed()

    def mute(self, on: bool) -> None:
        """Take no new connection, as where the queue is full; those that are there go on. Or take them again."""
        if self.up and on is not (self.place in self.net.silent):
            (self.net.silent.add if on else self.net.silent.discard)(self.place)
            self.note(What.FATE, detail="takes no connections" if on else "takes connections again")

    def _accept(self, end: End) -> None:
        self._connections += 1
        end.name = self.name
        session = Session(self, self._connections, end)
        session.line.slow = self.stalled
        self.sessions.append(session)

    # Messages

    def take(self, frame: Frame, session: int) -> Message | None:
        """Take a SEND. Return its message if it is in a queue."""
        self._count += 1
        destination = frame.headers[b"destination"]
        headers = {name: value for name, value in frame.headers.items() if name not in OWN}
        message = Message(self._count, frame.body, headers, destination)
        self.note(What.TOOK, session, frame)
        if destination.startswith(b"/topic/"):
            for each in list(self.sessions):
                for subscription in each.subscriptions:
                    if subscription.destination == destination:
                        each.deliver(subscription, message)
            return None
        self.queues.setdefault(destination, deque()).append(message)
        self.dispatch(destination)
        return message

    def back(self, message: Message) -> None:
        """Put a message that was not acknowledged into its queue again, at its old place; a topic drops it."""
        if message.destination.startswith(b"/topic/"):
            return
        message.returned = True
        queue = self.queues.setdefault(message.destination, deque())
        at = next((at for at, each in enumerate(queue) if each.number > message.number), len(queue))
        queue.insert(at, message)
        self.note(What.RETURNED, detail=message.body.decode())

    def dispatch(self, destination: bytes) -> None:
        """Deliver what waits in a queue to consumers that have room."""
        queue = self.queues.get(destination)
        while queue:
            ready = [
                (session, each)
                for session in self.sessions
                for each in session.subscriptions
                if each.destination == destination and session.room(each)
            ]
            if not ready:
                return
            session, subscription = ready[int(self.chance.random() * len(ready))]
            session.deliver(subscription, queue.popleft())

    def remaining(self) -> Iterator[Message]:
        """Yield the messages in all queues."""
        for queue in self.queues.values():
            yield from queue


class Session:
    """A connection to a broker."""

    def __init__(self, broker: Broker, number: int, end: End) -> None:
        self.broker = broker
        self.number = number
        self.version = b""
        self.subscriptions: list[Subscription] = []
        self.given: deque[Delivery] = deque()
        self._reader = Reader(b"1.2")
        self._transactions: dict[bytes, list[Frame]] = {}
        self._taken: list[Message] = []
        self._covered: set[bytes] = set()
        self._gives = 0
        self._leaving = False
        self._answered = 0.0
        over = layers(server=True, web=broker.web, secure=broker.secure)
        self.line = Line(broker.net.clock, end, self._received, self._ended, over)

    def note(self, what: What, frame: Frame | None = None, detail: str = "") -> None:
        """Add an event of this connection to the history."""
        self.broker.note(what, self.number, frame, detail)

    def room(self, subscription: Subscription) -> bool:
        """Whether one more message may be delivered to a subscription."""
        if self.broker.stalled or self.line.over or subscription.mode == b"auto":
            return not (self.broker.stalled or self.line.over)
        return sum(each.subscription is subscription for each in self.given) < self.broker.prefetch

    def deliver(self, subscription: Subscription, message: Message) -> None:
        """Write a message to a subscriber."""
        self._gives += 1
        id = b"m-%b-%d" % (self.broker.name.encode(), message.number)
        if not self.broker.product.same_id:
            id = b"T_%b@@session-%d@@%d" % (subscription.id or b"0", self.number, self._gives)
        headers: Pairs = [(b"destination", message.destination), (b"message-id", id)]
        if subscription.id is not None:
            headers.append((b"subscription", subscription.id))
        if message.returned:
            headers.append((b"redelivered", b"true"))
        name = id
        if self.version == b"1.2" and subscription.mode != b"auto":
            name = b"%b-%d" % (id, self._gives)
            headers.append((b"ack", name))
        headers += message.headers.items()
        self.note(What.GAVE, Frame(b"MESSAGE", dict(headers), message.body))
        if subscription.mode == b"auto":
            self.note(What.SETTLED, detail=message.body.decode())
        else:
            self.given.append(Delivery(name, subscription, message))
        self._say(b"MESSAGE", headers, message.body)

    def over(self, again: bool) -> None:
        """Forget the connection: what was not acknowledged goes back; `again`: no other consumer gets it now."""
        if self not in self.broker.sessions:
            return
        self.broker.sessions.remove(self)
        places = dict.fromkeys(each.message.destination for each in self.given)
        self.subscriptions.clear()
        for each in reversed(self.given):
            self.broker.back(each.message)
        self.given.clear()
        if not again:
            for place in places:
                self.broker.dispatch(place)

    # What is read

    def _ended(self, how: str) -> None:
        self.over(again=False)

    def _received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while not (self.line.over or self._leaving) and (frame := self._reader.next()) is not None:
                self._frame(frame)
        except (Malformed, KeyError, ValueError) as error:
            self.note(What.WRONG, detail=f"the relay wrote what the broker cannot read: {error!r}")
            self._error(b"bad frame", None)

    def _frame(self, frame: Frame) -> None:
        receipt = frame.headers.get(b"receipt")
        if not self.version:
            if frame.command in (b"CONNECT", b"STOMP"):
                self._connect(frame)
            else:
                self.note(What.WRONG, detail=f"{frame} before CONNECT")
            return
        command = frame.command.decode().lower()
        act: Callable[[Frame], bool] | None = getattr(self, f"_{command}", None)
        if act is None:
            self._error(b"unknown command", receipt)
        elif act(frame) and receipt is not None:
            self._receipt(receipt)

    def _connect(self, frame: Frame) -> None:
        asked = frame.headers.get(b"accept-version", b"1.0").split(b",")
        both = [each for each in self.broker.versions if each in asked]
        if not both:
            self._say(b"ERROR", [(b"message", b"Supported versions are 1.0"), (b"version", b"1.0")])
            self._leave()
            return
        self.version = self._reader.version = both[-1]
        beat = self.broker.beat if self.version != b"1.0" else 0
        headers = [(b"server", self.broker.product.server), (b"session", b"s-%d" % self.number)]
        headers += [(b"version", self.version), (b"heart-beat", b"%d,%d" % (beat, beat))]
        self._say(b"CONNECTED", headers)
        if beat and int(frame.headers.get(b"heart-beat", b"0,0").split(b",")[1]):
            self._beat(beat / 1000)

    def _beat(self, seconds: float) -> None:
        if not self.line.over:
            if not self.broker.stalled:
                self.line.write(b"\n")
            self.broker.net.clock.after(seconds, self._beat, seconds)

    def _send(self, frame: Frame) -> bool:
        name = frame.headers.get(b"transaction")
        if name is not None:
            return self._inside(name, frame)
        message = self.broker.take(frame, self.number)
        if message is not None:
            self._taken.append(message)
        receipt = frame.headers.get(b"receipt")
        if receipt is not None and self.broker.product.late:
            delay = self.broker.slowness * self.broker.chance.random() * 10
            self.broker.net.clock.after(delay, self._confirm, receipt, message)
            return False
        return True

    def _confirm(self, receipt: bytes, message: Message | None) -> None:
        if self.line.over or not self.broker.up:
            return
        if self.broker.stalled:
            self.broker.net.clock.after(0.5, self._confirm, receipt, message)
            return
        if message is not None:
            message.safe = True
        self._say(b"RECEIPT", [(b"receipt-id", receipt)])

    def _inside(self, name: bytes, frame: Frame) -> bool:
        frames = self._transactions.get(name)
        if frames is None:
            self._error(b"no such transaction", frame.headers.get(b"receipt"))
            return False
        frames.append(frame)
        return not (self.broker.product.late and frame.command == b"SEND")

    def _subscribe(self, frame: Frame) -> bool:
        headers = frame.headers
        made = Subscription(headers.get(b"id"), headers[b"destination"], headers.get(b"ack", b"auto"))
        self.subscriptions.append(made)
        self.broker.net.clock.after(0.0, self.broker.dispatch, made.destination)
        return True

    def _unsubscribe(self, frame: Frame) -> bool:
        name, place = frame.headers.get(b"id"), frame.headers.get(b"destination")
        found = [
            each for each in self.subscriptions if (each.id == name if name else each.destination == place)
        ]
        if not found:
            self._error(b"no such subscription", frame.headers.get(b"receipt"))
            return False
        self.subscriptions.remove(found[0])
        back = [each for each in self.given if each.subscription is found[0]]
        self.given = deque(each for each in self.given if each.subscription is not found[0])
        for each in reversed(back):
            self.broker.back(each.message)
        self.broker.net.clock.after(0.0, self.broker.dispatch, found[0].destination)
        return True

    def _ack(self, frame: Frame) -> bool:
        return self._settle(frame, accept=True)

    def _nack(self, frame: Frame) -> bool:
        return self._settle(frame, accept=False)

    def _settle(self, frame: Frame, accept: bool) -> bool:
        name = frame.headers.get(b"transaction")
        if name is not None:
            return self._inside(name, frame)
        return self._settle_now(frame, accept)

    def _settle_now(self, frame: Frame, accept: bool) -> bool:
        headers = frame.headers
        id = headers.get(b"id") if self.version == b"1.2" else headers.get(b"message-id")
        wanted = headers.get(b"subscription") if self.version != b"1.2" else None
        found = next(
            (each for each in self.given if each.id == id and wanted in (None, each.subscription.id)), None
        )
        if found is None:
            if id not in self._covered:
                self.note(What.WRONG, detail=f"an ACK names nothing that waits: {frame}")
            if self.broker.product.strict:
                self._error(b"not found", headers.get(b"receipt"))
            return False
        covered = [found]
        if found.subscription.mode == b"client":
            before = list(self.given)[: self.given.index(found)]
            across = self.broker.product.across
            covered = [
                each
                for each in before
                if each.subscription.mode == b"client" and (across or each.subscription is found.subscription)
            ] + [found]
        for each in covered:
            self.given.remove(each)
            if each.subscription is not found.subscription:
                self._covered.add(each.id)
            if accept or self.broker.product.dead:
                self.note(What.SETTLED, detail=each.message.body.decode())
            else:
                self.broker.back(each.message)
        for place in dict.fromkeys(each.subscription.destination for each in covered):
            self.broker.net.clock.after(0.0, self.broker.dispatch, place)
        return True

    def _begin(self, frame: Frame) -> bool:
        name = frame.headers[b"transaction"]
        if name in self._transactions:
            self._error(b"transaction exists", frame.headers.get(b"receipt"))
            return False
        self._transactions[name] = []
        return True

    def _commit(self, frame: Frame) -> bool:
        frames = self._transactions.pop(frame.headers[b"transaction"], None)
        if frames is None:
            self._error(b"no such transaction", frame.headers.get(b"receipt"))
            return False
        for each in frames:
            outside = each._replace(headers={n: v for n, v in each.headers.items() if n != b"transaction"})
            if each.command != b"SEND":
                self._settle_now(outside, each.command == b"ACK")
            elif self._send(outside) and self.broker.product.late:
                pass  # no receipt was asked for
        return True

    def _abort(self, frame: Frame) -> bool:
        return self._transactions.pop(frame.headers[b"transaction"], None) is not None

    def _disconnect(self, frame: Frame) -> bool:
        receipt = frame.headers.get(b"receipt")
        if receipt is not None:
            self._receipt(receipt)
        self.broker.net.clock.at(max(self._answered, self.broker.net.clock.now), self._leave)
        return False

    def _leave(self) -> None:
        if not (self.line.over or self._leaving):
            self._leaving = True
            self.line.half_close()
            self.over(again=False)

    # What is written

    def _receipt(self, receipt: bytes) -> None:
        """Confirm a frame, and everything before it, after some time. Receipts keep their order."""
        clock = self.broker.net.clock
        delay = self.broker.slowness * self.broker.chance.random()
        self._answered = max(self._answered, clock.now + delay)
        clock.at(self._answered, self._confirm_all, receipt, len(self._taken))

    def _confirm_all(self, receipt: bytes, count: int) -> None:
        if self.line.over or not self.broker.up:
            return
        if self.broker.stalled:
            self.broker.net.clock.after(0.5, self._confirm_all, receipt, count)
            return
        if not self.broker.product.late:
            for message in self._taken[:count]:
                message.safe = True
        self._say(b"RECEIPT", [(b"receipt-id", receipt)])

    def _error(self, message: bytes, receipt: bytes | None) -> None:
        named = [] if receipt is None else [(b"receipt-id", receipt)]
        self._say(b"ERROR", [(b"message", message), *named])
        if self.broker.product.closes:
            self._leave()

    def _say(self, command: bytes, headers: Pairs, body: bytes = b"") -> None:
        self.line.write(write(self.version or b"1.0", command, headers, body))

"""Brokers of a world: one model for all products, whose differences are facts of a `Product`. The facts come from the
recorded conversations in `tests/corpus` and from `docs/translation.md`; `make sim-models` holds them to the brokers.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from sim.actors import Line
from sim.history import History, What
from sim.layers import layers
from sim.net import End, Network
from sim.stomp import Frame, Malformed, Pairs, Reader, write

OWN: Final = frozenset({b"destination", b"subscription", b"message-id", b"ack", b"redelivered", b"from"})
"""Headers of a MESSAGE that the broker sets itself."""
ASKED: Final = frozenset({b"receipt", b"transaction"})
"""Headers of a SEND that are about the SEND."""
FEELINGS: Final = ("", "refuses", "goes")
"""How a broker answers CONNECT: well, with an ERROR, or so that it goes at once after CONNECTED."""
REFUSED: Final = b"access refused by the broker"
"""The message with which a broker refuses all clients."""
SILENT: Final = (
    b"AMQ229014: Did not receive data from 127.0.0.1:1 within the %dms connection TTL. "
    b"The connection will now be closed."
)
_STOPPED: Final = b"Broker has been stopped: org.apache.activemq.broker.BrokerService$3@271053e1"
_CANCELLED: Final = b"Timer already cancelled."
_WHERE: Final = b"\tat java.base/java.util.Timer.sched(Timer.java:409)\n"
_CLOSING: Final = (
    b"Reason: {shutdown,\n            {connection_closing,\n                "
    b'{server_initiated_close,320,<<"maintenance">>}}}'
)


class Product(NamedTuple):
    """How a broker product behaves."""

    name: str
    server: bytes
    goodbyes: tuple[tuple[bytes, bytes], ...]  # `message` and body of its ERRORs when it ends a connection
    # Receipts
    late: bool = False  # it confirms each SEND by itself, in any order, and COMMIT before the SENDs in it
    defers: bool = False  # what came before is on its disk at a RECEIPT of COMMIT, or of a SEND to a queue
    leaks: bool = False  # a MESSAGE has `receipt` and `transaction` of its SEND
    # Deliveries
    across: bool = False  # what settles a delivery of mode `client` settles all before, of any subscription
    together: bool = False  # NACK of mode `client` settles those before it, as ACK does
    dead: bool = False  # NACK removes a message, as to a dead-letter queue
    same_id: bool = False  # a message keeps its id when it is delivered again
    counts: bool = False  # its message-ids count from 1 on each connection
    holds: bool = False  # what an ended subscription was given stays given until the connection ends
    marks: bool = False  # `redelivered` is said whenever it is true
    recovers: bool = False  # it is also said of all that was read from the disk
    lags: bool = False  # MESSAGEs may come for some time behind the RECEIPT of UNSUBSCRIBE
    strays: bool = False  # deliveries that an UNSUBSCRIBE crosses may cause an ERROR that names no frame
    # Transactions
    early: bool = False  # ACK and NACK in one take effect at once, and a SEND begins one
    nacks_inside: bool = False  # NACK may be in one
    begins_twice: bool = False  # BEGIN of one that is open is confirmed
    # Errors
    names: bool = False  # an ERROR has the receipt of its frame
    closes: bytes = b"never"  # the version from which on it ends the connection behind an ERROR
    nacks_1_0: bool = False  # it has NACK on 1.0
    refuses_1_0: bool = False  # it ends the connection at that
    poison: bool = False  # it closes without a word for a `priority` that is no number
    twice: bool = False  # it takes a second SUBSCRIBE of one name
    chokes: bool = False  # it closes without a word at a login with a bad escape
    # Connections
    lingers: float = 0.0  # seconds for which one whose CONNECT was refused stays open
    silence: float = 0.0  # seconds of silence after which it ends any, 0 for none
    hasty: bool = False  # behind an acknowledgement it may end one without the RECEIPT of its DISCONNECT
    twofold: bool = False  # it may confirm DISCONNECT twice
    nameless: bool = False  # on 1.0 it makes up names of subscriptions, and does not name itself
    escapes: tuple[tuple[bytes, tuple[bytes, bytes]], ...] = ()  # by version, those that it reads and writes


def _has(facts: str) -> dict[str, Any]:
    return dict.fromkeys(facts.split(), True)


PRODUCTS: Final = (
    Product(
        "rabbitmq",
        b"RabbitMQ/3.10.8",
        ((b"AMQP channel died", _CLOSING),),
        escapes=((b"1.0", (b"1.2", b"1.2")), (b"1.1", (b"1.2", b"1.2"))),
        lingers=10.0,
        **_has(
            "late leaks across together holds marks recovers strays nacks_inside begins_twice nacks_1_0 chokes"
        ),
    ),
    Product(
        "activemq",
        b"ActiveMQ/5.17.2",
        (
            (_STOPPED, b"org.apache.activemq.broker.BrokerStoppedException: " + _STOPPED),
            (_CANCELLED, b"java.lang.IllegalStateException: %b\n%b" % (_CANCELLED, _WHERE)),
        ),
        escapes=((b"1.0", (b"1.1", b"1.0")),),
        **_has("defers dead same_id marks lags names poison twice twofold"),
    ),
    Product(
        "artemis",
        b"ActiveMQ-Artemis/2.44.0 ActiveMQ Artemis Messaging Engine",
        ((b"AMQ229005: connections for 127.0.0.1 closed by management", b""),),
        closes=b"1.2",
        silence=60.0,
        escapes=((b"1.1", (b"1.1", b"1.2")),),
        **_has("leaks together dead early nacks_inside names refuses_1_0 nameless hasty"),
    ),
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

    @property
    def text(self) -> str:
        """Return the body as the history has it."""
        return self.body.decode(errors="replace")


@dataclass(eq=False)
class Subscription:
    """A subscription. Its name is its id, or else its destination. `ends`: it was ended, but may be given some."""

    id: bytes | None
    name: bytes
    destination: bytes
    mode: bytes
    number: int
    prefetch: int
    ends: bool = False


class Delivery(NamedTuple):
    """A message that was delivered, by its `id`, and waits for an ACK."""

    id: bytes
    subscription: Subscription
    message: Message


class Wrong(Exception):
    """A frame that gets an ERROR, which names it."""


class Broker:
    """A broker at one place of the network. It begins to listen with `start`. `rude`: it closes at DISCONNECT without
    a RECEIPT. `feeling`: one of `FEELINGS`. `overlooks`: full queues reject without a word, as from 4.3 on.
    """

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
        self.slowness = chance.choice((0.0, 0.001, 0.05, 0.05, 0.4))
        self.prefetch = chance.choice((1000, 4, 1))
        self.kind = Session
        self.queues: dict[bytes, deque[Message]] = {}
        self.sessions: list[Session] = []
        self.up = self.stalled = self.refuses = self.full = self.muted = False
        self.overlooks = False
        self.rude = chance.random() < 0.15
        self.feeling = ""
        self.web = self.secure = False
        self._count = self._connections = 0

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
        self.up = self.stalled = self.refuses = self.full = self.muted = False
        self.net.silent.discard(self.place)
        del self.net.places[self.place]
        self.note(What.FATE, detail=f"is killed; of what is on its way {most} bytes arrive")
        for session in list(self.sessions):
            session.line.end.cut(most)
            session.line.close()
            session.over(again=True)
        for queue in self.queues.values():
            for message in list(queue):
                if not message.safe and self.chance.random() < 0.5:
                    queue.remove(message)
                    self.note(What.FORGOT, detail=message.text)
                else:
                    message.safe = True
                    message.returned = self.product.recovers

    def cut(self, which: int, most: int) -> None:
        """Cut a connection off: in each direction at most so many bytes arrive that are on their way."""
        for session in self._one(which):
            session.note(What.FATE, detail=f"is cut off; of what is on its way {most} bytes arrive")
            session.line.end.cut(most)

    def half_close(self, which: int, *_: int) -> None:
        """Close the sending direction of a connection."""
        for session in self._one(which):
            session.note(What.FATE, detail="half-closes")
            session.line.half_close()

    def _one(self, which: int) -> list["Session"]:
        """Return one of the connections, if there is one."""
        return [self.sessions[which % len(self.sessions)]] if self.sessions else []

    def _turn(self, name: str, on: int, *words: str) -> bool:
        """Turn what has this name on or off, of a broker that is up. Return whether it was otherwise."""
        if not self.up or getattr(self, name) == on:
            return False
        setattr(self, name, bool(on))
        self.note(What.FATE, detail=words[not on])
        return True

    def stall(self, on: int) -> None:
        """Hang: the port is open, and nothing is answered. Or go on."""
        for session in self.sessions if self._turn("stalled", on, "hangs", "goes on") else ():
            session.line.slow = self.stalled
            session.line.end.changed()

    def mute(self, on: int) -> None:
        """Take no new connection, as where the queue is full; those that are there go on. Or take them again."""
        if self._turn("muted", on, "takes no connections", "takes connections again"):
            (self.net.silent.add if on else self.net.silent.discard)(self.place)

    def refuse(self, on: int) -> None:
        """End all connections, and answer each CONNECT with an ERROR: the broker serves nobody. Or serve again."""
        if on and not self.refuses:
            self.part()
        self._turn("refuses", on, "serves nobody", "serves again")

    def part(self) -> None:
        """End all connections with an ERROR that says that an operator wants it so."""
        if self.up and not self.stalled:
            self.note(What.FATE, detail="ends its connections")
            for session in list(self.sessions):
                session.part()

    def fill(self, on: int) -> None:
        """Reject what comes for a queue, where the product does that: all queues are full; 2: without a word. Or have
        room again.
        """
        if self.product.late:
            self._turn("full", min(on, 1), "has full queues", "has room again")
            self.overlooks = on > 1

    def feel(self, how: int) -> None:
        """Answer CONNECT in this way from now on."""
        if self.feeling != FEELINGS[how]:
            self.feeling = FEELINGS[how]
            self.note(What.FATE, detail=self.feeling or "is well")

    def calm(self) -> None:
        """Run and serve, whatever was before."""
        for end in (self.stall, self.refuse, self.fill, self.feel, self.mute):
            end(0)
        self.start()

    def _accept(self, end: End) -> None:
        self._connections += 1
        end.name = self.name
        key = self.name, self._connections
        end.arrived = self.history.arrived[key]
        if end.peer is not None and end.peer.owner is not None:
            self.history.owners[key] = end.peer.owner
        self.note(What.MET, self._connections)
        session = self.kind(self, self._connections, end)
        session.line.slow = self.stalled
        self.sessions.append(session)

    # Messages

    def take(self, frame: Frame, session: int) -> list[Message]:
        """Take a SEND. Return its message if it is in a queue."""
        self._count += 1
        destination = frame.headers[b"destination"]
        taken = OWN if self.product.leaks else OWN | ASKED
        headers = {name: value for name, value in frame.headers.items() if name not in taken}
        message = Message(self._count, frame.body, headers, destination)
        self.note(What.TOOK, session, frame)
        if destination.startswith(b"/topic/"):
            for each in list(self.sessions):
                for subscription in each.subscriptions:
                    if subscription.destination == destination:
                        each.deliver(subscription, message)
            return []
        if self.full:
            self.note(What.FORGOT, session, detail=message.text)
            return []
        self.queues.setdefault(destination, deque()).append(message)
        self.dispatch(destination)
        return [message]

    def back(self, message: Message) -> None:
        """Put a message that was not acknowledged into its queue again, at its old place; a topic drops it."""
        if message.destination.startswith(b"/topic/"):
            return
        message.returned = True
        queue = self.queues.setdefault(message.destination, deque())
        queue.insert(sum(each.number < message.number for each in queue), message)
        self.note(What.RETURNED, detail=message.text)

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


class Session:
    """A connection. What reads a frame returns whether it is confirmed; it raises `Wrong`, or `KeyError` of a name."""

    def __init__(self, broker: Broker, number: int, end: End) -> None:
        self.broker = broker
        self.product = broker.product
        self.clock = broker.net.clock
        self.number = number
        self.version = b""
        self._writes = b"1.0"
        self.subscriptions: list[Subscription] = []
        self.given: list[Delivery] = []
        self._reader = Reader(b"1.2")
        self._transactions: dict[bytes, list[Frame]] = {}
        self._taken: list[Message] = []
        self._due: list[Any] = []
        self._covered: set[bytes] = set()
        self._dropped: set[bytes] = set()
        self._made = self._gives = self._took = 0
        self._leaving = self._confirms = self._settled = self._parted = False
        self._unanswered: bytes | None = None
        self._refused: bytes | None = None
        self._answered = self._heard = self.clock.now
        over = layers(server=True, web=broker.web, secure=broker.secure)
        self.line = Line(self.clock, end, self._received, lambda how: self.over(again=False), over)

    def note(self, what: What, frame: Frame | None = None, detail: str = "") -> None:
        """Add an event of this connection to the history."""
        self.broker.note(what, self.number, frame, detail)

    def room(self, subscription: Subscription) -> bool:
        """Whether one more message may be delivered to a subscription."""
        if self.broker.stalled or self.line.over or subscription.mode == b"auto":
            return not (self.broker.stalled or self.line.over)
        return sum(each.subscription is subscription for each in self.given) < subscription.prefetch

    def deliver(self, subscription: Subscription, message: Message) -> None:
        """Write a message to a subscriber."""
        self._gives += 1
        product, giver = self.product, self.broker.name.encode()
        if product.counts:
            id = b"%d" % self._gives
        elif product.same_id:
            id = b"ID:%b-%d" % (giver, message.number)
        elif product.across:
            id = b"T_%b@@session-%b%d@@%d" % (subscription.name, giver, self.number, self._gives)
        else:  # two brokers do not give the same
            id = b"%d,%d%d" % (1000 * self.number + subscription.number, giver[-1], message.number)
        headers: Pairs = [(b"destination", message.destination), (b"message-id", id), (b"from", giver)]
        if subscription.id is not None:
            headers.append((b"subscription", subscription.id))
        elif product.nameless:
            headers.append((b"subscription", b"subscription/" + message.destination.split(b"/", 2)[-1]))
        if message.returned and (product.marks or self.broker.chance.random() < 0.5):
            headers.append((b"redelivered", b"true"))
        name = id
        if self.version == b"1.2" and subscription.mode != b"auto":
            name = b"ID:%d-%d" % (self.number, self._gives) if product.same_id else id
            headers.append((b"ack", name))
        for each, value in message.headers.items():
            if self._writes != b"1.0":
                headers.append((each, value))
            elif not set(each) & {*b":\n"}:
                headers.append((each, value.replace(b"\n", b" ")))
        frame = Frame(b"MESSAGE", dict(headers), message.body)
        self.note(What.GAVE, frame)
        if subscription.mode == b"auto":
            self._settled = True
            self.note(What.SETTLED, detail=message.text)
        else:
            self.given.append(Delivery(name, subscription, message))
        self._say(b"MESSAGE", headers, message.body, frame=frame)

    def over(self, again: bool) -> None:
        """Forget the connection: what was not acknowledged goes back; `again`: no other consumer gets it now."""
        if self not in self.broker.sessions:
            return
        self.broker.sessions.remove(self)
        self.subscriptions.clear()
        places = self._back(self.given)
        self.given = []
        for place in () if again else places:
            self.broker.dispatch(place)

    def _back(self, given: list[Delivery]) -> dict[bytes, None]:
        """Put what was delivered back. Return its destinations."""
        for each in reversed(given):
            self.broker.back(each.message)
        return dict.fromkeys(each.message.destination for each in given)

    def part(self) -> None:
        """End the connection with the product's own words."""
        if self.version and not self._leaving:
            message, body = self.broker.chance.choice(self.product.goodbyes)
            headers: Pairs = [(b"message", message)]
            if self.product.twofold and self._unanswered is not None:
                headers.append((b"receipt-id", self._unanswered))  # as ActiveMQ answers while it stops
                self._refused = self._unanswered
            self._say(b"ERROR", headers, body)
            self._leave()

    # What is read

    def _received(self, data: bytes) -> None:
        self._heard = self.clock.now
        self._reader.feed(data)
        try:
            while not (self.line.over or self._leaving) and (frame := self._reader.next()) is not None:
                self._frame(frame)
            if self._parted and (frame := self._reader.next()) is not None:
                self.note(What.WRONG, detail=f"the relay wrote behind DISCONNECT: {frame}")
        except (Malformed, ValueError) as error:
            self.note(What.WRONG, detail=f"the relay wrote what the broker cannot read: {error!r}")
            self._error(b"bad frame", None, ends=True)

    def _frame(self, frame: Frame) -> None:
        receipt = frame.headers.get(b"receipt")
        self._unanswered = receipt or self._unanswered
        if not self.version:
            if frame.command in (b"CONNECT", b"STOMP"):
                self._connect(frame)
            else:
                self.note(What.WRONG, detail=f"{frame} before CONNECT")
            return
        act: Callable[[Frame], bool] | None = getattr(self, f"_{frame.command.decode().lower()}", None)
        try:
            if act is None:
                raise Wrong(b"unknown command")
            if act(frame) and receipt is not None:
                topic = frame.headers.get(b"destination", b"").startswith(b"/topic/")
                stores = frame.command in (b"SEND", b"COMMIT") and not topic
                self._receipt(receipt, stores or not self.product.defers)
        except Wrong as wrong:
            self._error(wrong.args[0], receipt)
        except KeyError as error:
            self._error(b"missing header: %b" % error.args[0], receipt)

    def _connect(self, frame: Frame) -> None:
        headers, product, refuses = frame.headers, self.product, self.broker.refuses
        asked_for = headers.get(b"accept-version", b"1.0").split(b",")
        both = [each for each in self.broker.versions if each in asked_for]
        if product.chokes and b"\\q" in headers.get(b"login", b""):
            self._leave()
        elif self.broker.feeling == "refuses":
            self._say(b"ERROR", [(b"message", REFUSED)])
            self._leave()
        elif refuses or not both or headers.get(b"passcode") == b"wrong":
            refusal = (b"Bad CONNECT", b"Access refused") if both else (b"Version mismatch", b"1.0")
            message, body = product.goodbyes[0] if refuses else refusal
            self._say(b"ERROR", [(b"message", message)], body)
            self._leave(0.0 if refuses else product.lingers)
        else:
            self._agree(headers, both[-1])

    def _agree(self, headers: dict[bytes, bytes], version: bytes) -> None:
        """Speak this version from now on."""
        product = self.product
        self.version = self._reader.version = version
        spelled = dict(product.escapes).get(version, (version, version))
        self._reader.escapes, self._writes = spelled
        self._reader.lenient = spelled != (version, version)
        self.note(What.CONNECTED, detail=version.decode())
        promised, asked = 0, 0
        answer: Pairs = [(b"session", b"s-%d" % self.number)]
        if not (product.nameless and version == b"1.0"):
            answer += [(b"version", version), (b"server", product.server)]
        if version != b"1.0" and b"heart-beat" in headers:
            promised, asked = map(int, headers[b"heart-beat"].split(b","))
            answer.append((b"heart-beat", b"%d,%d" % (asked, promised or product.silence * 500)))
        self._say(b"CONNECTED", answer)
        if self.broker.feeling:
            self._leave()
        if asked:
            self._beat(asked / 1000)
        if promised or product.silence:
            self._listen(3 * promised / 1000 or product.silence)

    def _listen(self, seconds: float) -> None:
        """End the connection when it has been silent for so long."""
        if not self.line.over:
            if self.clock.now >= self._heard + seconds and not self.broker.stalled:
                if self.product.silence:
                    self._say(b"ERROR", [(b"message", SILENT % (seconds * 1000))])
                self._leave()
            self.clock.at(max(self._heard + seconds, self.clock.now + 0.1), self._listen, seconds)

    def _beat(self, seconds: float) -> None:
        if not self.line.over:
            if not self.broker.stalled:
                self.line.write(b"\n")
            self.clock.after(seconds, self._beat, seconds)

    def _send(self, frame: Frame) -> bool:
        if not frame.headers.get(b"priority", b"4").isdigit():
            if not self.product.poison:
                raise Wrong(b"Processing error")
            self._leave()
            return False
        frame.headers[b"destination"]
        if b"transaction" in frame.headers:
            self._put_inside(frame)
        else:
            self._take(frame)
        return not self.product.late

    def _take(self, frame: Frame) -> None:
        """Take a SEND, which may have been in a transaction."""
        taken, receipt = self.broker.take(frame, self.number), frame.headers.get(b"receipt")
        self._took += 1
        self._confirms = self._confirms or receipt is not None
        if self.broker.full and not (taken or frame.headers[b"destination"].startswith(b"/topic/")):
            if self._confirms and not self.broker.overlooks:
                self._leave()
        elif not self.product.late:
            self._taken += taken
        elif receipt is not None:
            delay = self.broker.slowness * self.broker.chance.random() * 6
            self.clock.at(
                max(self.clock.now, self._answered) + delay, self._confirm, receipt, taken, self._took
            )

    def _put_inside(self, frame: Frame) -> None:
        """Put a frame into its transaction."""
        name = frame.headers[b"transaction"]
        if self.product.early:
            self._transactions.setdefault(name, [])
        if name not in self._transactions:
            raise Wrong(b"no such transaction")
        self._transactions[name].append(frame)

    def _subscribe(self, frame: Frame) -> bool:
        headers, product = frame.headers, self.product
        prefetch = int(
            headers.get(b"prefetch-count" if product.late else b"activemq.prefetchSize", self.broker.prefetch)
        )
        self._made += 1
        id, place, mode = headers.get(b"id"), headers[b"destination"], headers.get(b"ack", b"auto")
        made = Subscription(id, id or place, place, mode, self._made, prefetch)
        if not product.twice and any(each.name == made.name for each in self.subscriptions):
            self._error(b"Duplicated subscription identifier", None)
            if product.late:
                if b"receipt" in headers:
                    self._receipt(headers[b"receipt"])
                self._leave()
            return False
        self.subscriptions.append(made)
        self.clock.after(0.0, self.broker.dispatch, made.destination)
        return True

    def _unsubscribe(self, frame: Frame) -> bool:
        name = frame.headers.get(b"id") or frame.headers.get(b"destination")
        found = next((each for each in self.subscriptions if each.name == name and not each.ends), None)
        if found is None:
            self.note(What.WRONG, detail=f"an UNSUBSCRIBE names nothing that there is: {frame}")
            raise Wrong(b"no such subscription")
        found.ends = True
        random = self.broker.chance.random
        if self.product.lags:
            self.clock.after(0.25 * random(), self._end, found)
        else:
            self._end(found)
        if self.product.strays and random() < 0.1:
            self.clock.after(0.0, self._error, b"Subscription not found", None)
        return True

    def _end(self, found: Subscription) -> None:
        """Deliver nothing to a subscription any more."""
        if found not in self.subscriptions:
            return
        self.subscriptions.remove(found)
        if not self.product.holds:
            back = [each for each in self.given if each.subscription is found]
            self.given = [each for each in self.given if each.subscription is not found]
            self._dropped.update([each.id for each in back])
            self._back(back)
            self.clock.after(0.0, self.broker.dispatch, found.destination)

    def _nack(self, frame: Frame) -> bool:
        product = self.product
        if self.version == b"1.0" and product.refuses_1_0:
            self._error(b"no NACK in 1.0", None, ends=True)
            return False
        if self.version == b"1.0" and not product.nacks_1_0:
            raise Wrong(b"no NACK in 1.0")
        if b"transaction" in frame.headers and not product.nacks_inside:
            raise Wrong(b"NACK in a transaction")
        return self._ack(frame)

    def _id(self, frame: Frame) -> bytes:
        return frame.headers.get(b"id" if self.version == b"1.2" else b"message-id", b"")

    def _named(self, frame: Frame) -> Delivery | None:
        """Return the delivery that an ACK names, of a subscription that there is."""
        id = self._id(frame)
        wanted = frame.headers.get(b"subscription") if self.version != b"1.2" else None
        names = {each.name for each in self.subscriptions}
        for each in self.given:
            if each.id == id and wanted in (None, each.subscription.id) and each.subscription.name in names:
                return each
        return None

    def _ack(self, frame: Frame) -> bool:
        """Do what ACK or NACK says, now or in its transaction."""
        found, inside = self._named(frame), b"transaction" in frame.headers
        if found is None and not (self.product.across and inside and self._tagged(frame)):
            return self._unawaited(frame)
        if inside:
            self._put_inside(frame)
        if not inside or self.product.early:
            self._settle(frame)
        if found is not None and inside:
            self._covered.add(found.id)  # a client that aborts may say it again
        return True

    def _tagged(self, frame: Frame) -> bool:
        """Whether an ACK names a subscription in the way of RabbitMQ's ids."""
        id = self._id(frame)
        name = id.removeprefix(b"T_").partition(b"@@")[0]
        return id.startswith(b"T_") and any(each.name == name for each in self.subscriptions)

    def _unawaited(self, frame: Frame) -> bool:
        """Answer an ACK that names nothing that waits. Return whether it is confirmed."""
        product, receipt, id = self.product, frame.headers.get(b"receipt"), self._id(frame)
        if id not in self._covered | self._dropped:
            self.note(What.WRONG, detail=f"an ACK names nothing that waits: {frame}")
        if product.across and self._tagged(frame):  # the channel ends, behind the receipt
            if receipt is not None and b"transaction" not in frame.headers:
                self._receipt(receipt)
            self._error(b"AMQP channel died", None, ends=True)
        elif product.same_id and self.version == b"1.2" and id in self._dropped:
            return True
        elif product.same_id and self.version != b"1.2" and not id.startswith(b"ID:"):
            self._leave()
        else:
            self._error(b"not found", receipt)
        return False

    def _settle(self, frame: Frame) -> None:
        product, accept = self.product, frame.command == b"ACK"
        found = self._named(frame)
        if found is None:
            self._unawaited(frame)
            return
        covered = [found]
        if found.subscription.mode == b"client" and (accept or product.together):
            before = self.given[: self.given.index(found) + 1]
            covered = [each for each in before if product.across or each.subscription is found.subscription]
        for each in covered:
            self.given.remove(each)
            if each.subscription is not found.subscription:
                self._covered.add(each.id)
            self._settled = True
            if accept or product.dead:
                self.note(What.SETTLED, detail=each.message.text)
            else:
                self.broker.back(each.message)
        for place in dict.fromkeys(each.subscription.destination for each in covered):
            self.clock.after(0.0, self.broker.dispatch, place)

    def _begin(self, frame: Frame) -> bool:
        name = frame.headers[b"transaction"]
        if name in self._transactions and not self.product.begins_twice:
            raise Wrong(b"transaction exists")
        self._transactions[name] = []
        return True

    def _commit(self, frame: Frame) -> bool:
        product, receipt = self.product, frame.headers.get(b"receipt")
        frames = self._ended_transaction(frame)
        if product.late and receipt is not None:
            self._receipt(receipt)
        for each in frames:
            if self._leaving:
                return False
            if each.command == b"SEND":
                self._take(each)
            elif not product.early:
                self._settle(each)
        return not product.late

    def _abort(self, frame: Frame) -> bool:
        self._ended_transaction(frame)
        return True

    def _ended_transaction(self, frame: Frame) -> list[Frame]:
        if frame.headers[b"transaction"] not in self._transactions:
            raise Wrong(b"no such transaction")
        return self._transactions.pop(frame.headers[b"transaction"])

    def _disconnect(self, frame: Frame) -> bool:
        receipt, random = frame.headers.get(b"receipt"), self.broker.chance.random
        self._parted = True
        hasty = self.product.hasty and self._settled and random() < 0.1
        if self.broker.rude:
            self.note(What.FATE, detail="closes at DISCONNECT")
            self._answered = 0.0
        elif hasty:
            self.note(What.FATE, detail="closes in haste")
        elif receipt is not None:
            self._receipt(receipt)
            if self.product.twofold and random() < 0.3:
                self._receipt(receipt)
        self._leave()
        return False

    def _leave(self, seconds: float = 0.0) -> None:
        """Close the connection, when all answers are written and so many seconds are over. Nothing more is read."""
        if not (self.line.over or self._leaving):
            self._leaving = True
            self.clock.at(max(self._answered, self.clock.now) + seconds, self._close)

    def _close(self) -> None:
        if self.broker.stalled:
            self.clock.after(0.5, self._close)
        else:
            self.line.half_close()
            self.over(again=False)

    # What is written

    def _receipt(self, receipt: bytes, stores: bool = True) -> None:
        """Confirm a frame, and everything before it if it `stores` that, after some time. Receipts keep their order."""
        delay = self.broker.slowness * self.broker.chance.random()
        self._answered = max(self._answered, self.clock.now + delay)
        self.clock.at(self._answered, self._confirm, receipt, self._taken if stores else [], self._took)
        self._taken = [] if stores else self._taken

    def _confirm(self, *answer: Any) -> None:
        """Write a RECEIPT, behind those that were due while the broker was hanging."""
        self._due += [answer] if answer else []
        if self.broker.stalled:
            self.clock.after(0.5, self._confirm)
        elif self.broker.up and not self.line.over:
            due, self._due = self._due, []
            for receipt, taken, behind in due:
                for message in taken:
                    message.safe = True
                self._say(b"RECEIPT", [(b"receipt-id", receipt)], behind=behind)

    def _error(self, message: bytes, receipt: bytes | None, ends: bool = False) -> None:
        """Say that a frame is wrong, behind all answers, and end the connection where the product does, or `ends`."""
        if self.line.over or self._leaving:
            return
        headers = [(b"message", message)]
        if receipt is not None and self.product.names:
            headers.append((b"receipt-id", receipt))
        self.clock.at(max(self._answered, self.clock.now), self._say, b"ERROR", headers)
        if ends or self.version >= self.product.closes:
            self._leave()

    def _say(
        self,
        command: bytes,
        headers: Pairs,
        body: bytes = b"",
        frame: Frame | None = None,
        behind: int = 0,
    ) -> None:
        if command == b"RECEIPT" and headers[0][1] == self._refused:
            return
        if headers == [(b"receipt-id", self._unanswered)]:
            self._unanswered = None
        frame = frame or Frame(command, dict(headers), body)
        self.line.write(write(self._writes, command, headers, body), frame, behind)

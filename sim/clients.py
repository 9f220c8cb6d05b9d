"""Clients of a world. What a client does comes from the plan, step by step; how it does it is its habit."""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from sim.actors import Line
from sim.history import History, What
from sim.layers import layers
from sim.net import Network
from sim.stomp import Frame, Malformed, Pairs, Reader, write

CHOKING: Final = b"a\\q"
"""A login with an escape that there is not."""
MODES: Final = (b"auto", b"client", b"client-individual")
HEADERS: Final = [
    each.partition(b"=")[::2]
    for each in (
        b"x=|x=plain|x=a:b\\c\\\\n|x-\xc3\xa9=a\nb|x.y z= blanks |x=the end\r|x=a\rb|x=\\|x:y=a name|x\ny=a name"
    ).split(b"|")
]
"""Headers of SENDs. A client of 1.0 cannot say an LF."""


class Habit(NamedTuple):
    """How a client behaves."""

    version: bytes
    pipelines: bool = False  # it does not wait for CONNECTED
    returns: float | None = None  # seconds after which it connects again, longer each time; None: never
    beat: int = 0  # milliseconds between the relay's heart-beats that it asks for
    known: bool = True  # brokers take it; else it comes with a wrong passcode
    web: bool = False  # it speaks WebSocket
    secure: bool = False  # it speaks TLS
    rough: float = 0.0  # the share of its frames that are wrong
    lenient: bool = False  # it reads what brokers say wrongly
    beats: bool = False  # it promises heart-beats, and keeps the promise
    login: bytes = b""  # its name, and its passcode, too
    chokes: bool = False  # RabbitMQ cannot read its login
    nacks: bool = True  # brokers have NACK in its version


class Owed(NamedTuple):
    """A MESSAGE that the client has not acknowledged."""

    frame: Frame
    subscription: bytes
    mode: bytes


class Client:
    """A client. `act` does a step of the plan. `comes_back`: it connects again, if its habit is so."""

    def __init__(
        self, name: str, habit: Habit, place: tuple[str, int], net: Network, history: History
    ) -> None:
        self.name = name
        self.habit = habit
        self.place = place
        self.net = net
        self.history = history
        self.session = 0
        self.line: Line | None = None
        self.comes_back = True
        self._inside: dict[bytes, list[Owed]] = {}
        self._number = self._bodies = 0
        self._heard = 0.0
        self._renew()

    def _renew(self) -> None:
        """Forget what was of a connection."""
        self._interval = 0.0
        self.connected = self.leaving = self.silent = False
        self.subscriptions: dict[bytes, tuple[bytes, bytes]] = {}
        self.transactions: list[bytes] = []
        self.owed: list[Owed] = []
        self.awaited: dict[bytes, Frame] = {}
        self._used: set[bytes] = set()
        self._waiting: deque[Callable[[], None]] = deque()
        # RabbitMQ and Artemis write escapes on 1.1 that it does not have.
        self._reader = Reader(self.habit.version, self.habit.lenient or self.habit.version == b"1.1")

    def note(self, what: What, frame: Frame | None = None, detail: str = "") -> None:
        """Add an event of this client to the history."""
        self.history.add(self.net.clock.now, self.name, what, self.session, frame, detail)

    # The connection

    def connect(self) -> None:
        """Connect to the relay, and send CONNECT. Does nothing if there is a connection."""
        if self._there() is not None:
            return
        self.session += 1
        self._renew()
        end = self.net.end(self.name)
        self.note(What.CONNECTED)
        self.net.clients[end.address] = key = self.name, self.session
        end.arrived = self.history.arrived[key]
        over = layers(server=False, web=self.habit.web, secure=self.habit.secure)
        self.line = Line(self.net.clock, end, self._received, self._ended, over)
        end.connect_ex(self.place)
        headers: Pairs = []
        if self.habit.version != b"1.0":
            headers = [(b"accept-version", self.habit.version), (b"host", b"/")]
            if self.habit.beat or self.habit.beats:
                headers.append((b"heart-beat", b"%d,%d" % (1000 * self.habit.beats, self.habit.beat)))
        if self.habit.login:
            headers += [(b"login", self.habit.login), (b"passcode", self.habit.login)]
        elif not self.habit.known:
            headers.append((b"passcode", b"wrong"))
        if self.habit.chokes:
            headers.append((b"login", CHOKING))
        self._say(b"CONNECT", headers)
        if self.habit.beats:
            self._beat(self.line)

    def _there(self) -> Line | None:
        """Return the connection, if there is one."""
        return None if self.line is None or self.line.over else self.line

    @property
    def open(self) -> bool:
        """Whether the client has a connection, and did not send DISCONNECT on it."""
        return self._there() is not None and not self.leaving

    def _ended(self, how: str) -> None:
        self.note(What.ENDED, detail=how)
        self.connected = False
        if self.comes_back and self.habit.known and self.habit.returns is not None and not self.leaving:
            self.net.clock.after(self.habit.returns * self.session, self._again)

    def _again(self) -> None:
        if self.comes_back:
            self.connect()

    def _beat(self, line: Line) -> None:
        """Send heart-beats on a connection until it ends or the client falls silent."""
        if not (line.over or self.silent or line.leaving):
            line.write(b"\n")
            self.net.clock.after(0.6, self._beat, line)

    def _hears(self) -> None:
        """The relay is heard, or was until now: within twice the interval that it offered, and a second for the way."""
        now, before = self.net.clock.now, self._heard
        self._heard = max(now, before)
        if self._interval and not self.leaving and now > before + 2 * self._interval + 1.0:
            self.note(What.WRONG, detail=f"heard nothing for {now - before:.1f} s")

    def _received(self, data: bytes) -> None:
        self._hears()
        self._reader.feed(data)
        try:
            while (frame := self._reader.next()) is not None:
                self._read(frame)
        except (Malformed, ValueError) as error:
            self.note(What.WRONG, detail=f"the relay wrote what the client cannot read: {error!r}")

    def _read(self, frame: Frame) -> None:
        self.note(What.READ, frame)
        if frame.command == b"CONNECTED":
            self.connected = True
            offered, _, _ = frame.headers.get(b"heart-beat", b"0,0").partition(b",")
            if self.habit.beat and not self.habit.rough and offered.isdigit() and int(offered):
                self._interval = max(int(offered), self.habit.beat) / 1000
            while self._waiting:
                self._waiting.popleft()()
        elif frame.command == b"MESSAGE":
            subscription = frame.headers.get(b"subscription", b"")
            _, mode = self.subscriptions.get(subscription, (b"", b"auto"))
            if self.habit.version == b"1.0":  # any name is made up by the broker
                place = frame.headers.get(b"destination")
                found = [(name, mode) for name, (at, mode) in self.subscriptions.items() if at == place]
                subscription, mode = found[0] if found else (b"", b"auto")
            if mode != b"auto":
                self.owed.append(Owed(frame, subscription, mode))
        elif frame.command in (b"RECEIPT", b"ERROR"):
            asked = self.awaited.pop(frame.headers.get(b"receipt-id", b""), None)
            if frame.command == b"RECEIPT" and asked is not None and asked.command == b"DISCONNECT":
                self.vanish()

    # What the plan asks for

    def act(self, name: str, *values: int) -> None:
        """Do a step of the plan: now, or when CONNECTED has come. Without a connection do nothing."""
        if name in ("connect", "vanish", "reset", "half_close", "pause"):
            getattr(self, name)(*values)
        elif self.open and (not self.silent or name == "disconnect"):
            if self.connected or self.habit.pipelines:
                getattr(self, name)(*values)
            else:
                self._waiting.append(lambda: self.act(name, *values))

    def vanish(self) -> None:
        """Close the connection without a word."""
        if self._there() is not None:
            self._hears()
            self._leave(Line.close)

    def reset(self) -> None:
        """Reset the connection."""
        self._leave(Line.abort)

    def _leave(self, how: Callable[[Line], None]) -> None:
        if (line := self._there()) is not None:
            self.comes_back = False
            self.note(What.ENDED, detail="left")
            how(line)

    def half_close(self) -> None:
        """Close the sending direction only, or all where there is no such thing."""
        if self.habit.web or self.habit.secure:
            self.vanish()
        elif self.open and self.line is not None:
            self.comes_back = False
            self.leaving = True
            self.note(What.FATE, detail="half-closes")
            self.line.half_close()

    def silence(self) -> None:
        """Hang: send nothing any more, no heart-beats either."""
        self.note(What.FATE, detail="falls silent")
        self.silent = True
        self.comes_back = False
        self.transactions.clear()
        self.awaited.clear()

    def fault(self) -> None:
        """Send a frame that nobody knows, and wait for the ERROR."""
        self.comes_back = False
        self._ask(b"NONSENSE", [], 0)
        self.leaving = True

    def pause(self, milliseconds: int) -> None:
        """Read nothing for so long."""
        if (line := self._there()) is not None:
            self._heard = self.net.clock.now + milliseconds / 1000
            line.pause(milliseconds / 1000)

    def poison(self, place: int, receipt: int) -> None:
        """Send a message that no broker takes: ActiveMQ closes the connection without a word."""
        self.send(place, receipt, 0, 0, b"abc")
        if receipt:
            self.awaited.pop(b"r-%d" % self._number, None)  # it is not owed an answer that names it

    def send(self, place: int, receipt: int, inside: int, size: int, priority: bytes = b"4") -> None:
        """Send a message to a destination, with odd headers; `inside`: in an open transaction."""
        self._bodies += 1
        body = b"%b.%d" % (self.name.encode(), self._bodies)
        name, value = HEADERS[place // 5 % len(HEADERS)]
        if self.habit.version == b"1.0":
            name, value = name.translate(None, b":\n"), value.replace(b"\n", b"")
        headers: Pairs = [(b"destination", place_name(place)), (b"persistent", b"true"), (name, value)]
        if priority != b"4":
            headers.append((b"priority", priority))
        if inside and self.transactions:
            headers.append((b"transaction", self.transactions[inside % len(self.transactions)]))
        self._ask(b"SEND", headers, receipt, body.ljust(size, b"."))

    def burst(self, place: int, count: int) -> None:
        """Send messages at once that ask for nothing, so that some pass on the fast path. The sixth goes to a topic."""
        for number in range(count):
            self.send(4 if number == 5 else place, 0, 0, 0)

    def subscribe(self, place: int, mode: int, receipt: int) -> None:
        """Subscribe to a destination, where the client is not subscribed to it; with 1.0, where it never was: what came
        for the subscription before could not be told apart.
        """
        destination = place_name(place)
        places = [place for place, _ in self.subscriptions.values()]
        if destination in (self._used if self.habit.version == b"1.0" else places):
            return
        self._used.add(destination)
        self._number += 1
        name = destination
        headers: Pairs = [(b"destination", destination), (b"ack", MODES[mode % 3])]
        if self.habit.version != b"1.0":
            name = b"%d" % self._number
            headers.append((b"id", name))
        self.subscriptions[name] = (destination, MODES[mode % 3])
        self._ask(b"SUBSCRIBE", headers, receipt)

    def unsubscribe(self, which: int, receipt: int) -> None:
        """End a subscription. With an open transaction do nothing: its ACKs would name nothing any more."""
        if self.subscriptions and not self.transactions:
            name = list(self.subscriptions)[which % len(self.subscriptions)]
            destination, _ = self.subscriptions.pop(name)
            self.owed = [each for each in self.owed if each.subscription != name]
            header = (b"destination", destination) if self.habit.version == b"1.0" else (b"id", name)
            self._ask(b"UNSUBSCRIBE", [header], receipt)

    def ack(self, which: int, receipt: int, inside: int = 0) -> None:
        """Acknowledge a delivery, and with mode `client` all before it of its subscription."""
        self._settle(b"ACK", which, receipt, inside)

    def nack(self, which: int, receipt: int) -> None:
        """Refuse a delivery. Only RabbitMQ takes that of 1.0."""
        if self.habit.nacks:
            self._settle(b"NACK", which, receipt, 0)

    def _settle(self, command: bytes, which: int, receipt: int, inside: int) -> None:
        if not self.owed:
            return
        meant = self.owed[which % len(self.owed)]
        covered = [meant]
        if meant.mode == b"client":
            same = [each for each in self.owed if each.subscription == meant.subscription]
            covered = same[: same.index(meant) + 1]
        self.owed = [each for each in self.owed if each not in covered]
        for each in covered:
            self.note(What.ACKED, each.frame)
        headers: Pairs = [(b"id", meant.frame.headers.get(b"ack", b""))]
        if self.habit.version != b"1.2":
            headers = [(b"message-id", meant.frame.headers.get(b"message-id", b""))]
            if self.habit.version == b"1.1":
                headers.append((b"subscription", meant.subscription))
        if inside and self.transactions and meant.mode == MODES[2]:
            name = self.transactions[inside % len(self.transactions)]
            headers.append((b"transaction", name))
            self._inside[name] += covered
        self._ask(command, headers, receipt)

    def begin(self, receipt: int) -> None:
        """Begin a transaction."""
        if len(self.transactions) < 2:
            self._number += 1
            self.transactions.append(b"t%d" % self._number)
            self._inside[self.transactions[-1]] = []
            self._ask(b"BEGIN", [(b"transaction", self.transactions[-1])], receipt)

    def commit(self, which: int, receipt: int) -> None:
        """Commit a transaction."""
        if self.transactions:
            name = self.transactions.pop(which % len(self.transactions))
            self._ask(b"COMMIT", [(b"transaction", name)], receipt)

    def abort(self, which: int, receipt: int) -> None:
        """Abort a transaction: what it acknowledged waits again. RabbitMQ gives no RECEIPT for what was in it."""
        if self.transactions:
            name = self.transactions.pop(which % len(self.transactions))
            self.owed += self._inside[name]
            self.awaited = {
                asked: each
                for asked, each in self.awaited.items()
                if each.headers.get(b"transaction") != name or each.command == b"BEGIN"
            }
            self._ask(b"ABORT", [(b"transaction", name)], receipt)

    def disconnect(self) -> None:
        """Leave in order: DISCONNECT, its RECEIPT, and the end."""
        self.comes_back = False
        self._ask(b"DISCONNECT", [], 1)
        self.leaving = True

    # The end of a world

    def settle(self) -> None:
        """Abort what is open, and send one more message: the relay must serve it. From now on nobody comes back."""
        self.comes_back = False
        while self.open and self.transactions:
            self.act("abort", 0, 1)
        self.act("send", 0, 1, 0, 0)

    def complain(self) -> None:
        """Note what the relay has not answered, if the client is still there."""
        if self.open and not self.connected:
            self.note(What.WRONG, detail="was not answered in calm weather")
        for receipt, frame in self.awaited.items() if self.open else ():
            detail = f"got no RECEIPT {receipt.decode()} in calm weather, for {frame}"
            self.note(What.WRONG, detail=detail)

    # What is written

    def _ask(self, command: bytes, headers: Pairs, receipt: int, body: bytes = b"") -> None:
        if receipt:
            self._number += 1
            name = b"r-%d" % self._number
            headers = [*headers, (b"receipt", name)]
            self.awaited[name] = Frame(command, dict(headers), body)
        self._say(command, headers, body)

    def _say(self, command: bytes, headers: Pairs, body: bytes = b"") -> None:
        assert self.line is not None
        frame = Frame(command, dict(headers), body)
        self.note(What.SENT, frame)
        self.line.write(write(self.habit.version, command, headers, body), frame)


def place_name(number: int) -> bytes:
    """Return the destination of this number: queues, then topics."""
    return (b"/queue/a", b"/queue/a", b"/queue/b", b"/queue/c", b"/topic/t")[number % 5]

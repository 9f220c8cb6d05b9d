"""Brokers of a world: the embedded one behind an address, and one that follows no rule but a mood."""

from collections import deque
from collections.abc import Iterable
from math import inf
from typing import Final, Protocol

from fuzz.client import COPY
from fuzz.words import Words
from stomprelay.broker.broker import Connection, EmbeddedBroker
from stomprelay.session.effects import Close, Effect, GiveWay, Send, Wake
from stomprelay.session.leg import Leg
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import CONNECT, DISCONNECT, MESSAGE

PRODUCTS: Final = (
    b"",
    b"server:RabbitMQ/3.10.8\n",
    b"server:ActiveMQ/5.17.2\n",
    b"server:ActiveMQ-Artemis/2.31.2 ActiveMQ Artemis Messaging Engine\n",
)
VERSIONS: Final = (b"1.0", b"1.1", b"1.2")
REFUSALS: Final = (
    b"message:Bad CONNECT\n\nlogin was 'shutdown'",
    b"message:The user 'too many' is unavailable\n",
    b"message:connection.forced\n",
    b"message:Supported versions are 1.0,1.1,1.2\nversion:1.0,1.1\n",
    b"version:1.1\n",
    b"",
)
ERRORS: Final = (b"message:shutdown\n", b"message:bad selector 'shutdown'\n", b"message:no\n", b"")


class Mouth(Protocol):
    """One connection of a broker: what it says comes out of `said` (bytes, or None for its end)."""

    said: deque[bytes | None]
    wake: float

    def heard(self, data: bytes, frames: list[Frame], now: float) -> None:
        """The relay wrote these bytes, which are these frames."""

    def woke(self, now: float) -> None:
        """The time `wake` has come, or the mood has."""

    def lost(self, now: float) -> None:
        """The connection is gone."""


class Address:
    """A place where a broker stands: `opened` returns the next connection to it. `honest`: it is the embedded one."""

    honest = False

    def opened(self, now: float) -> Mouth:
        """Accept a connection."""
        raise NotImplementedError


# The embedded broker


class Embedded(Address):
    """The embedded broker."""

    honest = True

    def __init__(self, name: bytes) -> None:
        self.broker = EmbeddedBroker(name=name)
        self._mouths: dict[Leg, _EmbeddedMouth] = {}

    def opened(self, now: float) -> Mouth:
        """Accept a connection."""
        connection, effects = self.broker.opened(now)
        mouth = _EmbeddedMouth(self, connection)
        self._mouths[connection.leg] = mouth
        self.perform(mouth, effects)
        return mouth

    def perform(self, mouth: "_EmbeddedMouth", effects: Iterable[Effect]) -> None:
        """Do what the broker's service would; some of it concerns other connections."""
        for effect in effects:
            match effect:
                case Send(leg, data):
                    self._mouths[leg].said.append(data)
                case Close(leg):
                    self._mouths[leg].said.append(None)
                    self._mouths[leg].wake = inf
                case GiveWay(leg):
                    self._mouths[leg].behind = True
                case Wake(at):
                    mouth.wake = at

    def forget(self, leg: Leg) -> None:
        """A connection is no more."""
        self._mouths.pop(leg, None)


class _EmbeddedMouth:
    def __init__(self, address: Embedded, connection: Connection) -> None:
        self.said: deque[bytes | None] = deque()
        self.wake = inf
        self.behind = False
        self._address = address
        self._connection = connection

    def heard(self, data: bytes, frames: list[Frame], now: float) -> None:
        self._address.perform(self, self._connection.received(data, now))

    def woke(self, now: float) -> None:
        if self.behind:
            self.behind = False
            self._address.perform(self, self._connection.gave_way(now))
        if self.wake <= now:
            self.wake = inf
            self._address.perform(self, self._connection.woke(now))

    def lost(self, now: float) -> None:
        self._address.perform(self, self._connection.lost(now))
        self._address.forget(self._connection.leg)


# The scripted broker


class Scripted(Address):
    """A broker that answers as its mood has it. `astray` are the ACKs that settled another message than they are for.

    `mood`: the share of answers that are not what they should be. `redelivers`: each connection counts its messages
    from 1, so that ids come again after a loss. `quits` are bytes for which it ends the connection, as ActiveMQ does.
    `group` is what the addresses have in common that take each other's place; `told_apart`: clients can tell messages
    of one id apart, though they came from one group.
    """

    def __init__(
        self,
        name: bytes,
        group: bytes,
        words: Words,
        mood: float,
        version: bytes,
        product: bytes,
        *,
        redelivers: bool,
        told_apart: bool,
    ) -> None:
        self.name = name
        self.group = group
        self.told_apart = told_apart
        self.words = words
        self.mood = mood
        self.version = version
        self.product = product
        self.redelivers = redelivers
        self.astray: list[str] = []
        self.quits = (b"\npriority:abc\n", b"\\q")
        self._copies = 0
        self._messages = 0

    def opened(self, now: float) -> Mouth:
        """Accept a connection."""
        return _ScriptedMouth(self)

    def number(self, last: int) -> tuple[int, bytes]:
        """Return the number of the next message, behind `last` of this connection, and a name that no other has."""
        self._copies += 1
        self._messages += 1
        copy = b"%b.%b.%d" % (self.group, self.name, self._copies)
        return last + 1 if self.redelivers else self._messages, copy


class _ScriptedMouth:
    def __init__(self, address: Scripted) -> None:
        self.said: deque[bytes | None] = deque()
        self.wake = inf
        self._address = address
        self._words = address.words
        self._connected = False
        self._version = address.version
        self._subscriptions: list[tuple[bytes | None, bytes, bytes]] = []
        self._held: list[bytes] = []
        self._given: dict[bytes, tuple[bytes, bytes | None]] = {}
        self._last = 0

    def heard(self, data: bytes, frames: list[Frame], now: float) -> None:
        for frame in frames:
            if self._connected:
                self._received(frame)
            elif frame.command == CONNECT:
                self._greet(frame)

    def lost(self, now: float) -> None:
        pass

    def woke(self, now: float) -> None:
        """Say something unasked: messages, receipts that were held back, beats; or what is wrong."""
        if not self._connected:
            if self._words.random() < self._address.mood:
                self._misbehave()
            return
        random, words = self._words.random, self._words
        dice = random()
        if dice < 0.6:
            for _ in range(1 + int(random() * 5)):
                self._message()
        elif dice < 0.8:
            self._confirm_late()
        elif dice < 0.9:
            self.said.append(b"\n")
        elif random() < self._address.mood:
            self._misbehave()
        elif random() < words.wild:
            self.said.append(words.remembered(False))

    def _greet(self, frame: Frame) -> None:
        random, address = self._words.random, self._address
        if any(quit in frame.wire for quit in address.quits):
            self.said.append(None)
            return
        if random() < address.mood:
            match int(random() * 5):
                case 0:
                    self.said.append(
                        b"ERROR\n" + REFUSALS[int(random() * len(REFUSALS))].rstrip(b"\n") + b"\n\n\0"
                    )
                    self.said.append(None)
                case 1:
                    self.said.append(None)
                case 2:
                    self._misbehave()
                case 3:
                    self.said.append(
                        b"CONNECTED\nversion:%b\n\n\0" % self._words.one_of(b"1.3", b"1.2", b"2.0")
                    )
            return
        asked = (frame.raw(b"accept-version") or b"1.0").split(b",")
        if self._version not in asked:
            if b"1.0" in asked and random() < 0.5:
                self._version = b"1.0"
            else:
                self._version = max(asked)
        lines = [address.product]
        if self._version != b"1.0" or random() < 0.2:
            lines.append(b"version:%b\n" % self._version)
        if random() < 0.3:
            lines.append(b"heart-beat:%b\n" % (b"0,0", b"1000,1000", b"0,5000")[int(random() * 3)])
        if random() < 0.5:
            lines.append(b"session:s-%d\n" % int(random() * 9))
        self._connected = True
        self.said.append(b"CONNECTED\n%b\n\0" % b"".join(lines))

    def _received(self, frame: Frame) -> None:
        random, address = self._words.random, self._address
        receipt = frame.raw(b"receipt")
        wire = frame.data[frame.start : frame.body]
        if address.mood and any(quit in wire for quit in address.quits):
            self.said.append(None)
            return
        match frame.command:
            case b"SUBSCRIBE":
                destination = frame.raw(b"destination") or b""
                self._subscriptions.append((frame.raw(b"id"), destination, frame.raw(b"ack") or b"auto"))
            case b"UNSUBSCRIBE":
                name = frame.raw(b"id")
                self._subscriptions = [each for each in self._subscriptions if each[0] != name]
            case b"ACK" | b"NACK":
                self._settled(frame)
        if random() < address.mood / 4:
            self._misbehave(receipt)
        elif receipt is not None:
            answer = b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt
            if random() < 0.8:
                self.said.append(answer + (b"\n" if random() < 0.5 else b""))
            elif random() >= address.mood:
                self._held.append(answer)
        if frame.command == DISCONNECT and random() < 0.7:
            self.said.append(None)

    def _confirm_late(self) -> None:
        held, self._held = self._held, []
        self._words.chance.shuffle(held)
        if held:
            self.said.append(b"".join(held))

    def _message(self) -> None:
        words, random, address = self._words, self._words.random, self._address
        if not self._subscriptions:
            return
        name, destination, mode = self._subscriptions[int(random() * len(self._subscriptions))]
        self._last, copy = address.number(self._last)
        number = self._last
        message_id = b"m%d" % number if address.redelivers else b"%b-m%d" % (address.name, number)
        headers = [(b"destination", destination), (b"message-id", message_id)]
        if name is not None:
            headers.append((b"subscription", name))
        if mode != b"auto" and self._version == b"1.2":
            headers.append((b"ack", b"a%d" % number))
            self._given[copy] = b"a%d" % number, name
        else:
            self._given[copy] = message_id, name
        headers.append((COPY, copy))
        if random() < 0.1:
            headers.append((b"x", words.one_of(b"y")))
        self.said.append(words.frame(MESSAGE, headers, words.body()))

    def _settled(self, frame: Frame) -> None:
        """Look whether an ACK names another message of this connection than the one that it is for.

        One that names none is for a message that was settled before, or lost; and what is named settles nothing where
        its subscription is over.
        """
        copy, address = frame.raw(COPY), self._address
        if copy is None or (copy.startswith(address.group + b".") and not address.told_apart):
            return
        named = frame.raw(b"id") if self._version == b"1.2" else frame.raw(b"message-id")
        names = {each[0] for each in self._subscriptions}
        meant = {each for each, (id, name) in self._given.items() if id == named and name in names}
        if meant and copy not in meant:
            address.astray.append(f"{named!r} is {sorted(meant)!r}, and not {copy!r}")

    def _misbehave(self, receipt: bytes | None = None) -> None:
        words, random = self._words, self._words.random
        match int(random() * 7):
            case 0:
                self.said.append(None)
            case 1:
                named = b"" if receipt is None or random() < 0.5 else b"receipt-id:%b\n" % receipt
                self.said.append(b"ERROR\n%b%b\n\0" % (named, ERRORS[int(random() * len(ERRORS))]))
                if random() < 0.5:
                    self.said.append(None)
            case 2:
                self.said.append(b"RECEIPT\nreceipt-id:%b\n\n\0" % words.one_of(b"r1", b"c0-1", b"c0-vote-1"))
            case 3:
                self.said.append(
                    words.spoil(MESSAGE, b"subscription:1\nmessage-id:1\ndestination:/queue/a\n", b"b")
                )
            case 4:
                self.said.append(words.remembered(False))
            case 5:
                self.said.append(b"CONNECTED\nversion:1.2\n\n\0")
            case _:
                pass  # silence

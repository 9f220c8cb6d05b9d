"""A client and a broker that speak STOMP by the letter, each a few lines long, with a codec of their own.

They share nothing with what they test: frames are cut, spelled and read here once more, as simply as can be.
"""

from dataclasses import dataclass, field

Pairs = list[tuple[bytes, bytes]]

SPELLED = {
    b"1.0": {},
    b"1.1": {0x5C: b"\\\\", 0x0A: b"\\n", 0x3A: b"\\c"},
    b"1.2": {0x5C: b"\\\\", 0x0A: b"\\n", 0x3A: b"\\c", 0x0D: b"\\r"},
}
MEANT = {version: {value: bytes([key]) for key, value in table.items()} for version, table in SPELLED.items()}


def spell(version: bytes, text: bytes) -> bytes:
    """A name or value as this version writes it."""
    table = SPELLED[version]
    return b"".join(table.get(octet, bytes([octet])) for octet in text)


def read(version: bytes, text: bytes) -> bytes:
    """What a spelled name or value means; octet by octet, so that no escape is read twice."""
    table = MEANT[version]
    meant, at = b"", 0
    while at < len(text):
        two = text[at : at + 2]
        if table and two[:1] == b"\\":
            meant += table[two]
            at += 2
        else:
            meant += two[:1]
            at += 1
    return meant


def write(version: bytes, command: bytes, headers: Pairs, body: bytes = b"") -> bytes:
    """A frame as this version writes it. The blank line ends the head, the NUL the frame."""
    lines = [spell(version, name) + b":" + spell(version, value) + b"\n" for name, value in headers]
    return command + b"\n" + b"".join(lines) + b"\n" + body + b"\0"


@dataclass
class Heard:
    """A frame that was read."""

    command: bytes
    headers: Pairs
    body: bytes

    def first(self, name: bytes) -> bytes | None:
        """Of repeated headers the first counts."""
        return next((value for each, value in self.headers if each == name), None)


def cut(version: bytes, data: bytes) -> tuple[list[Heard], bytes]:
    """The frames in `data`, and what is left of it."""
    frames: list[Heard] = []
    while True:
        data = data.lstrip(b"\n")
        end = data.find(b"\n\n")
        if end < 0:
            return frames, data
        command, *lines = data[:end].split(b"\n")
        headers = []
        for line in lines:
            name, colon, value = line.partition(b":")
            assert colon, f"no colon in {line!r}"
            headers.append((read(version, name), read(version, value)))
        start = end + 2
        length = next((int(value) for name, value in headers if name == b"content-length"), None)
        stop = data.find(b"\0", start) if length is None else start + length
        if stop < 0 or stop >= len(data):
            return frames, data
        assert data[stop : stop + 1] == b"\0", "the body is not as long as it says"
        frames.append(Heard(command, headers, data[start:stop]))
        data = data[stop + 1 :]


@dataclass
class Order:
    """A subscription at the broker."""

    id: bytes | None
    destination: bytes
    mode: bytes


@dataclass
class Copy:
    """One delivery of one message to one subscription. `number` is unique; it travels as the header `copy`."""

    number: int
    order: Order
    message_id: bytes
    ack: bytes


@dataclass
class TinyBroker:
    """Topics only: what is sent goes to all who subscribed. Acknowledged is what `settled` lists, in order."""

    version: bytes
    orders: list[Order] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    """The copies that ACKs and NACKs named, one each, in order."""
    held: dict[bytes, list[tuple[bytes, list[Copy]]]] = field(default_factory=dict)
    wrongs: list[bytes] = field(default_factory=list)
    sent: int = 0
    rest: bytes = b""

    def hear(self, data: bytes) -> bytes:
        """Take octets from the relay; answer with octets for it."""
        frames, self.rest = cut(self.version, self.rest + data)
        return b"".join(self._answer(frame) for frame in frames)

    def _answer(self, frame: Heard) -> bytes:
        match frame.command:
            case b"SEND":
                said = self._publish(frame)
            case b"SUBSCRIBE":
                said = self._subscribe(frame)
            case b"UNSUBSCRIBE":
                said = self._unsubscribe(frame)
            case b"ACK" | b"NACK":
                said = self._settle(frame)
            case b"BEGIN":
                self.held[frame.first(b"transaction") or b""] = []
                said = b""
            case b"COMMIT" | b"ABORT":
                said = self._end(frame)
            case other:
                self.wrongs.append(other)
                said = b""
        receipt = frame.first(b"receipt")
        if receipt is not None:
            said += write(self.version, b"RECEIPT", [(b"receipt-id", receipt)])
        return said

    def _publish(self, frame: Heard) -> bytes:
        self.sent += 1
        message_id = b"ID:m\\%d" % self.sent
        said = b""
        for order in self.orders:
            if order.destination != frame.first(b"destination"):
                continue
            number = len(self.copies) + 1
            copy = Copy(number, order, message_id, b"k:%d\\" % number)
            self.copies.append(copy)
            headers = [(b"message-id", message_id)]
            if order.id is not None:
                headers.append((b"subscription", order.id))
            if self.version == b"1.2" and order.mode != b"auto":
                headers.append((b"ack", copy.ack))
            headers += [pair for pair in frame.headers if pair[0] != b"receipt"]
            headers.append((b"copy", b"%d" % number))
            said += write(self.version, b"MESSAGE", headers, frame.body)
        return said

    def _subscribe(self, frame: Heard) -> bytes:
        id = frame.first(b"id")
        if self.version != b"1.0" and (id is None or any(order.id == id for order in self.orders)):
            self.wrongs.append(b"SUBSCRIBE")
        self.orders.append(Order(id, frame.first(b"destination") or b"", frame.first(b"ack") or b"auto"))
        return b""

    def _unsubscribe(self, frame: Heard) -> bytes:
        id, destination = frame.first(b"id"), frame.first(b"destination")
        for order in self.orders:
            if (
                order.id == id
                if id is not None
                else order.destination == destination and self.version == b"1.0"
            ):
                self.orders.remove(order)
                return b""
        self.wrongs.append(b"UNSUBSCRIBE")
        return b""

    @property
    def unsettled(self) -> list[Copy]:
        """What awaits its ACK, oldest first."""
        held = [copy.number for pending in self.held.values() for _, copies in pending for copy in copies]
        done = {*self.settled, *self.refused, *held}
        return [copy for copy in self.copies if copy.order.mode != b"auto" and copy.number not in done]

    @property
    def by_likelihood(self) -> list[Copy]:
        """What awaits its ACK, oldest first, but what ended subscriptions left last."""
        going_on = {id(order) for order in self.orders}
        return sorted(self.unsettled, key=lambda copy: id(copy.order) not in going_on)

    def _find(self, frame: Heard) -> Copy | None:
        message_id, subscription, id = (frame.first(name) for name in (b"message-id", b"subscription", b"id"))
        for copy in self.by_likelihood:
            if self.version == b"1.2":
                right = id == copy.ack
            elif self.version == b"1.1":
                right = (message_id, subscription) == (copy.message_id, copy.order.id) and id is None
            else:
                right = message_id == copy.message_id and subscription in (None, copy.order.id) and id is None
            if right:
                return copy
        return None

    def _settle(self, frame: Heard) -> bytes:
        copy = self._find(frame)
        if copy is None:
            self.wrongs.append(frame.command)
            return b""
        self.named.append(copy.number)
        gone = [copy]
        if copy.order.mode == b"client":
            gone = [
                each for each in self.unsettled if each.order is copy.order and each.number <= copy.number
            ]
        transaction = frame.first(b"transaction")
        if transaction is not None:
            self.held[transaction].append((frame.command, gone))
        else:
            self._done(frame.command, gone)
        return b""

    def _done(self, command: bytes, copies: list[Copy]) -> None:
        (self.settled if command == b"ACK" else self.refused).extend(copy.number for copy in copies)

    def _end(self, frame: Heard) -> bytes:
        for command, copies in self.held.pop(frame.first(b"transaction") or b""):
            if frame.command == b"COMMIT":
                self._done(command, copies)
        return b""


@dataclass
class TinyClient:
    """Says what a program asks for in its version, and remembers what it was delivered."""

    version: bytes
    messages: list[Heard] = field(default_factory=list)
    receipts: list[bytes] = field(default_factory=list)
    errors: list[Heard] = field(default_factory=list)
    rest: bytes = b""

    def hear(self, data: bytes) -> None:
        """Take octets from the relay."""
        frames, self.rest = cut(self.version, self.rest + data)
        for frame in frames:
            match frame.command:
                case b"MESSAGE":
                    self.messages.append(frame)
                case b"RECEIPT":
                    self.receipts.append(frame.first(b"receipt-id") or b"")
                case _:
                    self.errors.append(frame)

    def say(self, command: bytes, headers: Pairs, body: bytes = b"") -> bytes:
        """A frame of this client."""
        return write(self.version, command, headers, body)

    def settle(self, command: bytes, message: Heard, more: Pairs) -> bytes:
        """ACK or NACK of a message that came, the way of this version."""
        if self.version == b"1.2":
            named = [(b"id", message.first(b"ack") or b"")]
        else:
            named = [(b"message-id", message.first(b"message-id") or b"")]
        if self.version == b"1.1":
            named.append((b"subscription", message.first(b"subscription") or b""))
        return self.say(command, named + more)

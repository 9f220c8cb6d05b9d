"""Clients and brokers that break the rules: their words are mostly right, and wrong where it is meant to be.

All is drawn from one `Random`. What is drawn is written as it stands, without escaping: a value may hold escapes, right
ones and wrong ones.
"""

from functools import cache
from random import Random
from typing import Any, Final

from sim.brokers import Broker, Session
from sim.clients import Client
from sim.history import What
from sim.stomp import Frame, Pairs, escaped
from tests.transcripts import recordings


def _words(text: bytes) -> tuple[bytes, ...]:
    return tuple(text.split(b"|"))


LEGAL: Final = _words(
    b"|||| | a|a |0|-1|\\n|\\c|\\\\|a\\nb\\\\n|x:y|\xc3\xa4|\xff|auto|shutdown|too many|relay-1-1|relay-ack-1|1|r-1|t1|"
    b"%b|\t" % (b"a" * 300)
)
"""Odd values that every version may read."""
RETURNS: Final = _words(b"s\r|\r|a\rb|\r\r")
"""Odd values with a CR: bytes of the value, a line's end or an error, by the version."""
WRONG: Final = _words(b"a\\qb|\\|\\t|a\\|a\0b|\\r|%b" % (b"a" * 11000))
"""Values that some version refuses."""
BODIES: Final = _words(b"|\n|\n\n\n|\0|a\0b|SEND\n\n\0|\r\n|\xff\xfe|%b" % (b"x" * 40))
COMMANDS: Final = _words(
    b"CONNECT|STOMP|CONNECTED|SEND|SUBSCRIBE|UNSUBSCRIBE|ACK|NACK|BEGIN|COMMIT|ABORT|DISCONNECT|MESSAGE|RECEIPT|ERROR|"
    b"send|NOOP||SEND "
)
LENGTHS: Final = _words(b"0|1|5|65535|99999999|999999999999999999999|-1|a|| 3|3 |0x3|\xd9\xa3")
"""Of a `content-length` that does not fit."""
GREETINGS: Final = _words(b"GET / HTTP/1.1\r\n\r\n|\x16\x03\x01|\n\n|SEND\n\n\0|\0|CONNECT\n\n\0")
"""What a client writes in front of CONNECT."""
LOGINS: Final = _words(b"guest|a\\qb|shutdown|unavailable|too many|time-out")
BEATS: Final = _words(b"0,0|0,1000|1000,1000|100,0|1,1|1|x,y")
REFUSALS: Final = _words(
    b"ERROR\nmessage:Bad CONNECT\n\nlogin was 'shutdown'\0|"
    b"ERROR\nmessage:The user 'too many' is unavailable\n\n\0|"
    b"ERROR\nmessage:connection.forced\n\n\0|"
    b"ERROR\nmessage:Supported versions are 1.0,1.1,1.2\nversion:1.0,1.1\n\n\0|"
    b"ERROR\n\n\0|CONNECTED\nversion:1.3\n\n\0|CONNECTED\nversion:2.0\n\n\0|"
)
"""What a broker writes in place of CONNECTED; `b""`: nothing."""
LIES: Final = _words(
    b"ERROR\nmessage:shutdown\n\n\0|ERROR\nreceipt-id:%b\nmessage:bad selector 'shutdown'\n\n\0|"
    b"ERROR\nreceipt-id:%b\n\n\0|RECEIPT\nreceipt-id:r-1\n\n\0|RECEIPT\nreceipt-id:r-7\n\n\0|"
    b"RECEIPT\nreceipt-id:relay-1-1-receipt-1\n\n\0|RECEIPT\n\n\0|CONNECTED\nversion:1.2\n\n\0|"
    b"MESSAGE\nsubscription:1\nmessage-id:m\ndestination:/queue/a\n\nno name\0|"
)
"""What a broker writes at any time, `%b` being a receipt that it owes."""


@cache
def recorded(sent: bool) -> tuple[bytes, ...]:
    """What clients wrote to real brokers (`sent`), or what these wrote to them, chunk by chunk."""
    return tuple(
        dict.fromkeys(chunk.data for each in recordings() for chunk in each.chunks if chunk.sent is sent)
    )


class Words:
    """Draws values and frames. `wild` is the share of frames that are spoilt, `odd` that of values that are odd."""

    def __init__(self, chance: Random, wild: float, odd: float) -> None:
        self.random = chance.random
        self.wild = wild
        self.odd = odd

    def pick(self, values: tuple[bytes, ...]) -> bytes:
        """Return one of these."""
        return values[int(self.random() * len(values))]

    def value(self, right: bytes) -> bytes:
        """Return this value, or an odd one."""
        if self.random() >= self.odd:
            return right
        return self.pick(WRONG if self.random() < self.wild else LEGAL + RETURNS + RETURNS)

    def frame(self, command: bytes, headers: Pairs, body: bytes = b"") -> bytes:
        """Return a frame: often as it should be, at times spelled in another way, at times spoilt."""
        random = self.random
        if random() < self.odd:
            self._embellish(headers)
        if body and (b"\0" in body or random() < 0.5):
            headers.append((b"content-length", b"%d" % len(body)))
        head = b"".join([b"%b:%b\n" % pair for pair in headers])
        wire = b"%b\n%b\n%b\0" % (command, head, body)
        if random() < self.wild / 2:
            wire = self.spoil(command, head, body)
        if random() < self.odd / 2:
            wire += self.pick((b"\n", b"\r\n", b"\n\n\n", b"\0"))
        return wire

    def _embellish(self, headers: Pairs) -> None:
        random = self.random
        dice = random()
        if dice < 0.3 and headers:
            name, _ = headers[int(random() * len(headers))]
            headers.append((name, self.value(b"again")))
        elif dice < 0.6:
            name = self.value(b"x-y") or b"z"
            headers.insert(int(random() * (len(headers) + 1)), (name, self.value(b"v")))
        elif dice < 0.7:
            headers.reverse()
        elif dice < 0.8:
            headers.append((b"priority", self.value(b"abc")))
        elif dice < 0.9 and headers:
            del headers[int(random() * len(headers))]
        else:
            headers.extend([(b"h%d" % number, b"v") for number in range(int(random() * 140))])

    def spoil(self, command: bytes, head: bytes, body: bytes) -> bytes:
        """Return a frame that is wrong, or nearly."""
        random = self.random
        match int(random() * 13):
            case 0:
                command = self.pick(COMMANDS)
            case 1:
                head += b"content-length:%b\n" % self.pick(LENGTHS)
            case 2:
                head = b"content-length:%d\n" % max(0, len(body) + int(random() * 5) - 2) + head
            case 3:
                head = head.replace(b":", b"", 1)
            case 4:
                head = head.replace(b"\n", b"\r\n")
                command += b"\r" if random() < 0.7 else b""
            case 5:
                body = self.pick((b"\n", b"\n\n", b"\r\n", b"x"))
            case 6:
                head += b":v\n" if random() < 0.5 else b"n\n"
            case 7:
                head += b"x:" + b"y" * int(random() * 12000) + b"\n"
            case 8:
                return command + b"\n" + head  # and whatever comes next
            case 9:
                head += b"h:v\n" * int(random() * 200)
            case 10:
                body = body[: len(body) // 2] + b"\0" + body[len(body) // 2 :]
            case _:
                return self.mangle(b"%b\n%b\n%b\0" % (command, head, body))
        return b"%b\n%b\n%b\0" % (command, head, body)

    def mangle(self, data: bytes) -> bytes:
        """Return bytes with something put in, left out, doubled or replaced."""
        random = self.random
        at = int(random() * (len(data) + 1))
        to = min(len(data), at + int(random() * 6))
        match int(random() * 5):
            case 0:
                return data[:at] + data[to:]
            case 1:
                return data[:to] + data[at:]
            case 2:
                return data[:at] + b"\0\n\r:\\ "[int(random() * 6) :][:1] + data[at:]
            case 3:
                return data[:at] + bytes([int(random() * 256)]) + data[at + 1 :]
        return data[:at]

    def remembered(self, sent: bool) -> bytes:
        """Return what was said to a real broker, or by one, perhaps mangled."""
        data = self.pick(recorded(sent))
        return self.mangle(data) if self.random() < self.wild else data


class RoughClient(Client):
    """A client that says what it should, and what it should not."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.words = Words(self.net.chance, self.habit.rough, self.habit.rough / 2)

    def _again(self) -> None:
        if self.session < 12:
            super()._again()

    def _ask(self, command: bytes, headers: Pairs, receipt: int, body: bytes = b"") -> None:
        """Say a frame. Where it is a last one, do not wait long for the end: perhaps another one was said."""
        super()._ask(command, headers, receipt, body)
        if command in (b"DISCONNECT", b"NONSENSE"):
            self.net.clock.after(3.0, self.vanish)

    def _received(self, data: bytes) -> None:
        if not data.startswith(b"HTTP/1.1 400"):
            super()._received(data)

    def _read(self, frame: Frame) -> None:
        if frame.command == b"CONNECTED":
            self._reader.version = frame.headers.get(b"version", b"1.0")
        super()._read(frame)

    def _say(self, command: bytes, headers: Pairs, body: bytes = b"") -> None:
        assert self.line is not None
        words, random = self.words, self.words.random
        if random() < words.wild / 4:
            self.line.write(words.pick(GREETINGS) if command == b"CONNECT" else words.remembered(True))
        headers = [(name, words.value(escaped(value, self.habit.version))) for name, value in headers]
        if command == b"CONNECT":
            headers += [(b"login", words.pick(LOGINS)), (b"passcode", words.value(b"guest"))]
            headers.append((b"heart-beat", words.pick(BEATS)))
        if command == b"SEND" and random() < words.odd:
            body = words.pick(BODIES)
        self.note(What.SENT, Frame(command, dict(headers), body))
        self.awaited = {name: each for name, each in self.awaited.items() if each.command == b"DISCONNECT"}
        many = random() < words.wild / 20 and len(body) < 1000  # a slow network takes them all
        self.line.write(words.frame(command, headers, body) * (40 if many else 1))


class RoughBroker(Broker):
    """A broker whose answers are right but for the share `mood`."""

    def __init__(self, mood: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.mood = mood
        self.words = Words(self.chance, mood, mood / 2)
        self.kind = RoughSession


class RoughSession(Session):
    """A connection to a rough broker. `_deaf`: nobody knows any more in which version the relay speaks."""

    broker: RoughBroker
    _deaf = False

    def _received(self, data: bytes) -> None:
        if not self._deaf:
            super()._received(data)

    def _frame(self, frame: Frame) -> None:
        words = self.broker.words
        if words.random() < self.broker.mood / (4 if self.version else 2):
            self._misbehave(frame.headers.get(b"receipt", b""))
        else:
            super()._frame(frame)
            if words.random() < self.broker.mood / 4:
                self.broker.net.clock.after(words.random(), self._misbehave, b"")

    def _misbehave(self, receipt: bytes) -> None:
        words, random = self.broker.words, self.broker.words.random
        if not self.version:
            self._deaf = True
            said = words.pick(REFUSALS)
        elif random() < 0.6:
            said = words.pick(LIES).replace(b"%b", receipt)
        elif random() < 0.5:
            said = words.spoil(b"MESSAGE", b"subscription:1\nmessage-id:1\ndestination:/queue/a\n", b"b")
        else:
            said = words.remembered(False)
        self.line.write(said)
        if random() < 0.3:
            self._leave()

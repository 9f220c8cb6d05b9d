"""Values, frames and what spoils them.

Everything is drawn from one `Random`. What is drawn is written as it stands, without escaping: a value may hold
escapes, right ones and wrong ones.
"""

from functools import cache
from random import Random
from typing import Final

from tests.transcripts import recordings

Pairs = list[tuple[bytes, bytes]]

LEGAL: Final = (
    *(
        b"",
        b"",
        b"",
        b"",
        b" ",
        b" a",
        b"a ",
        b"0",
        b"-1",
        b"\\n",
        b"\\c",
        b"\\\\",
        b"a\\nb\\\\n",
        b"x:y",
        b"\xc3\xa4",
        b"\xff",
    ),
    *(
        b"auto",
        b"shutdown",
        b"too many",
        b"relay-1",
        b"relay-ack-1",
        b"c0-1",
        b"c0-vote-1",
        b"a" * 300,
        b"\t",
    ),
)
"""Odd values that every version may read."""

RETURNS: Final = (b"s\r", b"\r", b"a\rb", b"\r\r")
"""Odd values that hold a CR: bytes of the value, a line's end or an error, by the version."""

WRONG: Final = (b"a\\qb", b"\\", b"\\t", b"a\\", b"a\0b", b"\\r", b"a" * 11000)
"""Values that some version refuses."""

BODIES: Final = (b"", b"\n", b"\n\n\n", b"\0", b"a\0b", b"SEND\n\n\0", b"\r\n", b"\xff\xfe", b"x" * 40)

COMMANDS: Final = (
    *(b"CONNECT", b"STOMP", b"CONNECTED", b"SEND", b"SUBSCRIBE", b"UNSUBSCRIBE", b"ACK", b"NACK", b"BEGIN"),
    *(b"COMMIT", b"ABORT", b"DISCONNECT", b"MESSAGE", b"RECEIPT", b"ERROR", b"send", b"NOOP", b"", b"SEND "),
)

LENGTHS: Final = (
    *(
        b"0",
        b"1",
        b"5",
        b"65535",
        b"99999999",
        b"999999999999999999999",
        b"-1",
        b"a",
        b"",
        b" 3",
        b"3 ",
        b"0x3",
    ),
    b"\xd9\xa3",
)
"""Of a `content-length` that does not fit."""

_SIZES: Final = (0, 1, 3, 10, 30, 100, 300)
_LARGE: Final = (1000, 5000, 20000, 60000)
_OCTETS: Final = bytes(range(1, 256)) * 512


@cache
def recorded(sent: bool) -> tuple[bytes, ...]:
    """What clients wrote to real brokers (`sent`), or what these wrote to them, chunk by chunk."""
    return tuple(
        dict.fromkeys(chunk.data for each in recordings() for chunk in each.chunks if chunk.sent is sent)
    )


class Words:
    """Draws them. `wild` is the share of frames that are spoilt, `odd` that of values that are odd but legal; `large`
    bodies are such as fill buffers. `returns`: CRs in values are legal.
    """

    def __init__(
        self, chance: Random, *, wild: float, odd: float, large: bool = False, returns: bool = False
    ) -> None:
        self.chance = chance
        self.wild = wild
        self.odd = odd
        self.large = large
        self._odd = LEGAL + RETURNS + RETURNS if returns or wild else LEGAL
        self.random = chance.random

    def one_of(self, *values: bytes) -> bytes:
        """Return one of these, or an odd value."""
        dice = self.random()
        if dice >= self.odd:
            return values[int(self.random() * len(values))]
        if dice < self.odd * self.wild:
            return WRONG[int(self.random() * len(WRONG))]
        return self._odd[int(self.random() * len(self._odd))]

    def right(self, *values: bytes) -> bytes:
        """Return one of these: another one would end the session. A wild speaker says something odd all the same."""
        return self.one_of(*values) if self.wild else values[int(self.random() * len(values))]

    def body(self) -> bytes:
        """Return a body."""
        dice = self.random()
        if dice < 0.1:
            return BODIES[int(self.random() * len(BODIES))]
        sizes = _LARGE if self.large and dice < 0.6 else _SIZES
        size = int(sizes[int(self.random() * len(sizes))] * (0.5 + self.random()))
        at = int(self.random() * 255)
        return _OCTETS[at : at + size]

    def frame(self, command: bytes, headers: Pairs, body: bytes = b"") -> bytes:
        """Return a frame: often as it should be, at times spelled in another way, at times spoilt."""
        random = self.random
        if random() < self.odd:
            self._embellish(headers)
        if body and (b"\0" in body or random() < 0.5):
            headers.append((b"content-length", b"%d" % len(body)))
        head = b"".join([b"%b:%b\n" % pair for pair in headers])
        wire = b"%b\n%b\n%b\0" % (command, head, body)
        if self.wild and random() < self.wild:
            wire = self.spoil(command, head, body)
        if random() < self.odd / 2:
            wire += (b"\n", b"\r\n", b"\n\n\n", b"\0")[int(random() * 4)]
        return wire

    def _embellish(self, headers: Pairs) -> None:
        random = self.random
        dice = random()
        if dice < 0.3 and headers:
            name, _ = headers[int(random() * len(headers))]
            headers.append((name, self.one_of(b"2", b"again")))
        elif dice < 0.6:
            headers.insert(
                int(random() * (len(headers) + 1)), (self.one_of(b"x", b"x-y") or b"z", self.one_of(b"v"))
            )
        elif dice < 0.7:
            headers.reverse()
        elif dice < 0.8 or not self.wild:
            headers.append((b"priority", self.one_of(b"abc", b"4")))
        elif dice < 0.9 and headers:
            del headers[int(random() * len(headers))]
        else:
            headers.extend([(b"h%d" % number, b"v") for number in range(int(random() * 140))])

    def spoil(self, command: bytes, head: bytes, body: bytes) -> bytes:
        """Return a frame that is wrong, or nearly."""
        random = self.random
        match int(random() * 13):
            case 0:
                command = COMMANDS[int(random() * len(COMMANDS))]
            case 1:
                head += b"content-length:%b\n" % LENGTHS[int(random() * len(LENGTHS))]
            case 2:
                head = b"content-length:%d\n" % max(0, len(body) + int(random() * 5) - 2) + head
            case 3:
                head = head.replace(b":", b"", 1)
            case 4:
                head = head.replace(b"\n", b"\r\n")
                command += b"\r" if random() < 0.7 else b""
            case 5:
                body = (b"\n", b"\n\n", b"\r\n", b"x")[int(random() * 4)]
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
        pool = recorded(sent)
        data = pool[int(self.random() * len(pool))]
        return self.mangle(data) if self.random() < self.wild else data

    def pieces(self, data: bytes) -> list[bytes]:
        """Return bytes as they come from a socket: mostly whole, at times in two, rarely one by one."""
        dice = self.random()
        if dice < 0.7 or len(data) < 2:
            return [data]
        if dice < 0.98 or len(data) > 2000:
            at = 1 + int(self.random() * (len(data) - 1))
            return [data[:at], data[at:]]
        return [data[at : at + 1] for at in range(len(data))]

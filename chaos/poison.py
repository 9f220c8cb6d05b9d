"""Clients that the good ones must not notice: what they say makes brokers close the connection, or is too much.

They send to topics, so that no queue is left with what they sent.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final

TOPIC: Final = b"/topic/chaos-poison"
_CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:%b\npasscode:guest\n\n\0"
_GUEST: Final = _CONNECT % b"guest"
_SEND: Final = b"SEND\ndestination:" + TOPIC + b"\n%b\n%b\0"
_SUBSCRIBE: Final = b"SUBSCRIBE\nid:1\nack:client\ndestination:" + TOPIC + b"\n%b\n\0"

_LARGE: Final = _SEND % (b"", b"x" * 1000)

STAY: Final = b"stay"
"""In place of a piece: stay, and read nothing."""

SAID: Final[Mapping[str, tuple[bytes, ...]]] = {
    "a login that RabbitMQ closes on": (_CONNECT % b"a\\qb", _SEND % (b"", b"hi")),
    "a login named as an end": (_CONNECT % b"shutdown",),
    "a login named as a lack": (_CONNECT % b"too many unavailable",),
    "a SEND that ActiveMQ closes on": (_GUEST, _SEND % (b"priority:abc\nreceipt:1\n", b"hi")),
    "more behind what ActiveMQ closes on": (
        _GUEST,
        _SEND % (b"priority:abc\n", b"hi") + _SEND % (b"", b"x") * 20,
    ),
    "a selector that is none": (_GUEST, _SUBSCRIBE % b"selector:shutdown ==== 1\n"),
    "a flood": (_GUEST, _LARGE * 500),
    "one that never reads": (_GUEST, _SUBSCRIBE % b"", _LARGE * 200, STAY),
    "one that vanishes at once": (),
    "one that vanishes before it is answered": (_GUEST + _SUBSCRIBE % b"" + _SEND % (b"receipt:1\n", b"x"),),
    "half a frame": (_GUEST, b"SEND\ndestination:" + TOPIC + b"\ncontent-length:1000000\n\nx"),
    "what is not STOMP": (b"GET / HTTP/1.1\r\n\r\n",),
    "an empty receipt": (_GUEST, b"BEGIN\ntransaction:t\n\n\0COMMIT\ntransaction:t\nreceipt:\n\n\0"),
    "a CR in an id": (
        _GUEST.replace(b"1.2", b"1.1"),
        _SUBSCRIBE.replace(b"id:1", b"id:s\r") % b"" + _SEND % (b"receipt:1\n", b"x"),
    ),
    "many transactions": (
        _GUEST,
        b"".join([b"BEGIN\ntransaction:t%d\n\n\0" % number for number in range(2000)]),
    ),
}
"""What each kind writes, piece by piece."""

LONG: Final = 3.0
"""Seconds that a client stays at most."""


class Poison:
    """So many clients at a time, one after the other; `came` counts them by kind. Call `stop` when it is enough."""

    def __init__(self, seed: int, clients: int) -> None:
        self.came: Counter[str] = Counter()
        self._seed = seed
        self._clients = clients
        self._stopping = False

    def stop(self) -> None:
        """Send no more."""
        self._stopping = True

    async def run(self, port: int) -> None:
        """Send clients until stopped."""
        await asyncio.gather(*(self._one_by_one(port, number) for number in range(self._clients)))

    async def _one_by_one(self, port: int, number: int) -> None:
        chance = Random(f"{self._seed}/poison/{number}")
        kinds = sorted(SAID)
        while not self._stopping:
            kind = chance.choice(kinds)
            self.came[kind] += 1
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(_speak(port, SAID[kind], chance), 2 * LONG)
            await asyncio.sleep(chance.uniform(0, 0.2))


async def _speak(port: int, said: tuple[bytes, ...], chance: Random) -> None:
    """Be one of them: write, and read what comes or not; then stay a while, or leave at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in said:
            if piece is STAY:
                await asyncio.sleep(LONG)
                continue
            writer.write(piece)
            if STAY not in said and chance.random() < 0.7:
                await asyncio.wait_for(reader.read(65536), chance.uniform(0.1, LONG))
    finally:
        if chance.random() < 0.5:
            writer.transport.abort()
        writer.close()

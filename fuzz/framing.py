"""STOMP over WebSocket between a client and its relay: what the client says goes in any messages, what it hears must be
whole ones; and what is no WebSocket at all must be refused, and never raise.
"""

import zlib
from collections.abc import Callable, Iterable
from itertools import pairwise
from random import Random
from struct import pack
from typing import Final

from wsproto.frame_protocol import FrameProtocol

from fuzz.caller import Finding, raised
from stomprelay.relay.model.listener import Web
from stomprelay.service.network.deflate import Inflation, compressed
from stomprelay.service.network.messages import masked
from stomprelay.service.network.upgrade import AcceptedUpgrade, HttpRefusal, WebSocketHandshake
from stomprelay.service.network.websocket import WebSocket

MOST: Final = 1 << 40
_HEAD: Final = (
    b"GET /ws HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: v12.stomp\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
)
_VERSIONS: Final = (b"1.0", b"1.1", b"1.2")
_CODE: Final = 1000
_OPCODES: Final = (0x00, 0x01, 0x02, 0x80, 0x81, 0x82, 0x88, 0x89, 0x8A, 0xC1, 0x83, 0xFF)
_TEXT, _BINARY, _PING, _FINAL, _COMPRESSED = 0x01, 0x02, 0x89, 0x80, 0x40


def spoilt(chance: Random, data: bytes) -> bytes:
    """Return bytes with a few things put in, left out, doubled or replaced."""
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, to = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        data = chance.choice(
            (
                data[:at] + chance.randbytes(1) + data[at + 1 :],
                data[:at] + data[at:to] * 2 + data[to:],
                data[:at] + data[min(to, at + 20) :],
                data[:at] + chance.choice((b"\r\n", b"\0", b",", b": ", b"\xff" * 2000)) + data[at:],
            )
        )
    return data


class _Wire:
    """What is beneath a WebSocket here."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.write = write

    def loseConnection(self) -> None:
        """Do nothing: what comes behind is looked at, too."""


class Framing:
    """The WebSocket of one client, whose relay is never told of it. `found` gets what must not be."""

    def __init__(self, chance: Random, found: Callable[[Finding], None]) -> None:
        self._chance = chance
        self._found = found
        self._window = chance.choice((0, 0, 9, 15))
        self._wire: list[bytes] = []
        self._socket = self._opened(self._window, MOST)
        self._client = FrameProtocol(client=True, extensions=[Inflation()] if self._window else [])

    def _opened(self, window: int, most: float) -> WebSocket:
        return WebSocket(_Wire(self._wire.append), most, lambda: _CODE, window=window)

    def carry(self, pieces: Iterable[bytes]) -> list[bytes]:
        """Return what the relay reads of what the client says in these pieces."""
        said = list(pieces)
        wire = b"".join(self._message(each) for each in said)
        read: list[bytes] = []
        for piece in self._cut(wire):
            found = self._socket.received(piece)
            read.append(found.data)
            while self._socket.waits:
                found = self._socket.received()
                read.append(found.data)
            if found.ping is not None:
                self._socket.pong(found.ping)
            if found.end:
                self._found(Finding("a good WebSocket is refused", found.end))
        if b"".join(read) != b"".join(said):
            self._found(Finding("a WebSocket changes what a client says", repr(b"".join(said))[:500]))
        return [each for each in read if each]

    def bring(self, data: bytes) -> None:
        """The relay says something: it must be what the client hears."""
        self._wire.clear()
        self._socket.write(data)
        heard: list[bytes] = []
        for piece in self._cut(b"".join(self._wire)):
            self._client.receive_bytes(piece)
            for frame in self._client.received_frames():
                assert not isinstance(frame.payload, tuple)
                heard.append(frame.payload.encode() if isinstance(frame.payload, str) else frame.payload)
        if b"".join(heard) != data:
            self._found(Finding("a WebSocket changes what a relay says", repr(data)[:500]))

    def tear(self) -> None:
        """Something else comes: a request with faults, and frames that are none."""
        try:
            self._request()
            self._rubbish()
        except Exception as error:
            self._found(raised("a WebSocket", error))

    # What a client writes

    def _message(self, data: bytes) -> bytes:
        """Return bytes as a message of some frames, with others between them."""
        random, chance = self._chance.random, self._chance
        kind = _BINARY
        if random() < 0.5:
            try:
                data.decode()
                kind = _TEXT
            except UnicodeDecodeError:
                pass
        if self._window and random() < 0.5:
            data, kind = compressed(data, chance.choice((9, 15))), kind | _COMPRESSED
        cuts = sorted(chance.randint(0, len(data)) for _ in range(chance.choice((0, 0, 0, 1, 3))))
        parts = [data[start:stop] for start, stop in pairwise([0, *cuts, len(data)])]
        wire = b""
        for number, part in enumerate(parts, 1):
            wire += self._frame(kind | (_FINAL if number == len(parts) else 0), part)
            kind = 0
            if random() < 0.1:
                wire += self._frame(_PING, chance.randbytes(int(random() * 126)))
        return wire

    def _frame(self, first: int, payload: bytes) -> bytes:
        mask, size = self._chance.randbytes(4), len(payload)
        if size < 126:
            head = pack("!BB", first, 0x80 | size)
        elif size < 65536:
            head = pack("!BBH", first, 0xFE, size)
        else:
            head = pack("!BBQ", first, 0xFF, size)
        return head + mask + masked(payload, mask)

    def _cut(self, wire: bytes) -> list[bytes]:
        """Return bytes as they come from a socket: in any pieces, none of them empty."""
        size, chance = len(wire), self._chance
        if size < 200 and chance.random() < 0.05:
            return [wire[at : at + 1] for at in range(size)]
        places = {0, size, *(chance.randint(0, size) for _ in range(chance.choice((0, 0, 1, 4))))}
        return [wire[start:stop] for start, stop in pairwise(sorted(places))]

    # What is none

    def _request(self) -> None:
        handshake = WebSocketHandshake(Web(compression=bool(self._window)), _VERSIONS, 1000)
        for piece in self._cut(spoilt(self._chance, _HEAD)):
            answer = handshake.received(piece)
            if answer is None:
                continue
            good = isinstance(answer, AcceptedUpgrade) and answer.answer.startswith(b"HTTP/1.1 101 ")
            bad = isinstance(answer, HttpRefusal) and answer.status >= 400
            if not (good or bad) or b"\r\n\r\n" not in answer.answer:
                self._found(Finding("a request has no answer that is one", repr(answer)))
            return

    def _rubbish(self) -> None:
        chance = self._chance
        socket = self._opened(self._window, 1000)
        wire = b""
        for _ in range(chance.randint(1, 8)):
            data = chance.randbytes(chance.choice((0, 1, 4, 130)))
            if self._window and chance.random() < 0.3:
                data = zlib.compress(data * 3000)[2:]
            wire += self._frame(chance.choice(_OPCODES), data)
        ends = 0
        self._wire.clear()
        for piece in self._cut(spoilt(chance, wire) if chance.random() < 0.5 else wire):
            found = socket.received(piece)
            while True:
                if ends and found.data:
                    self._found(Finding("a WebSocket goes on behind its end", repr(wire)[:500]))
                ends += bool(found.end)
                if not socket.waits:
                    break
                found = socket.received()
        if ends > 1 or sum(each[0] == 0x88 for each in self._wire) != ends:
            self._found(Finding("a WebSocket ends more than once, or in silence", repr(wire)[:500]))

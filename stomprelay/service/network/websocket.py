"""WebSocket between a transport and a protocol (RFC 6455): it turns written bytes into messages, and received messages
into bytes.

The bytes of all messages, text or binary, are one stream: a frame of STOMP may be spread over several messages, and one
message may have several frames. Brokers get one frame in each message, because some brokers accept only one.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from itertools import islice
from secrets import token_bytes
from struct import pack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted.protocols.policies import ProtocolWrapper
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed

from stomprelay.service.network.deflate import COMPRESSED, PIECE, SMALLEST, Inflation, compressed
from stomprelay.wire.decoder import compiled

if TYPE_CHECKING:
    from stomprelay.service.network._messages import Messages

FRAMES: Final = 16
"""How many frames wsproto reads in one go: less than half a millisecond's work."""

SHORT: Final = 125
"""The most bytes of payload in a control frame (ping, pong, close)."""

_FINAL: Final = 0x80
_CONTROL: Final = 0x8
_OPCODE: Final = 0xF
_MIDDLE: Final = 0xFFFF
_MASKED: Final = 0x80
_MASK: Final = 4
_NOTHING: Final = memoryview(b"")

_WORDS: Final = {
    CloseReason.INVALID_FRAME_PAYLOAD_DATA: "text is not UTF-8",
    CloseReason.MESSAGE_TOO_BIG: "a message is too large",
}


@dataclass(slots=True, eq=False, repr=False)
class Division:
    """Divides received bytes. The compiled `_messages` takes a client's whole messages, of `most` bytes at most, its
    pings and its pongs. wsproto reads everything else: fragments, compressed or wrong frames, and the close frame.
    `most` is None for a broker: wsproto reads all its bytes.
    """

    most: InitVar[int | None]
    _messages: "Messages | None" = None
    _carried: bytes = b""
    _due: int = 0
    _fragments: bool = False
    first: int = 0
    """The opcode of the first message, 0 while there was none."""

    def __post_init__(self, most: int | None) -> None:
        if _COMPILED is not None and most is not None:
            self._messages = _COMPILED.Messages(most)

    def came(self, opcode: int) -> None:
        """Store this as the opcode of the first message, unless a message came before."""
        self.first = self.first or opcode

    def begun(self, data: bytes) -> tuple[bytes, int]:
        """Return the payloads at the beginning of these bytes, and where they end. Give the rest to `others`."""
        if self._messages is None or self._carried or self._due or self._fragments:
            return b"", 0
        found = self._messages.take(data, 0, False)
        self.came(self._messages.first)
        return found

    def pinged(self) -> bytes | None:
        """Return the payload of the last ping that `_messages` read since the last call, or None."""
        return None if self._messages is None else self._messages.pinged()

    def others(self, data: bytes, payloads: list[bytes]) -> Iterator[bytes]:
        """Read more messages, and append their payloads to `payloads`. Yield the bytes that wsproto must read: append
        their payloads before you take the next item. Raises `ParseFailed`.
        """
        if self._messages is None or _COMPILED is None:
            yield data
            return
        if self._carried:
            data, self._carried = self._carried + data, b""
        at, end = 0, len(data)
        while at < end:
            if not self._due and not self._fragments:
                at = self._take(self._messages, data, at, payloads)
                if at == end:
                    return
            if not self._due:
                self._due = _COMPILED.extent(data, at)
                if not self._due:
                    self._carried = data[at:]
                    return
                if not data[at] & _CONTROL:
                    if self._messages.open and data[at] & _OPCODE:
                        raise ParseFailed("a message begins where another is not over")
                    self._fragments = not data[at] & _FINAL
            part = data[at : at + self._due]
            self._due -= len(part)
            at += len(part)
            yield part

    def _take(self, messages: "Messages", data: bytes, at: int, payloads: list[bytes]) -> int:
        if not messages.broken:
            payload, at = messages.take(data, at, True)
            self.came(messages.first)
            if payload:
                payloads.append(payload)
        if messages.broken:
            raise ParseFailed("text is not UTF-8", CloseReason.INVALID_FRAME_PAYLOAD_DATA)
        if messages.large:
            raise ParseFailed("a message is too large", CloseReason.MESSAGE_TOO_BIG)
        return at


_COMPILED: Final = compiled("stomprelay.service.network._messages")
"""The compiled `_messages`. None if it is not built or not wanted: then wsproto reads everything."""


def framed_in_python(data: bytes, binary: bool) -> bytes:
    """Return a whole message as servers send it: text if the data is UTF-8 and `binary` is False."""
    return frame(opcode_of(data, binary), data)


framed: Final = framed_in_python if _COMPILED is None else _COMPILED.framed


def opcode_of(data: bytes, binary: bool) -> int:
    """Return the opcode for this message: text if the data is UTF-8 and `binary` is False."""
    if binary:
        return Opcode.BINARY
    try:
        data.decode()
    except UnicodeDecodeError:
        return Opcode.BINARY
    return Opcode.TEXT


def frame(first: int, payload: bytes, mask: bytes = b"") -> bytes:
    """Return a message, or a control frame, as it is on the wire: `first` is the opcode with extension bits. The
    payload is masked if there is a mask.
    """
    size = len(payload)
    mark = 0
    if mask:
        mark, payload = _MASKED, mask + masked(payload, mask)
    if size <= SHORT:
        return pack("!BB", _FINAL | first, mark | size) + payload
    if size <= _MIDDLE:
        return pack("!BBH", _FINAL | first, mark | 126, size) + payload
    return pack("!BBQ", _FINAL | first, mark | 127, size) + payload


def masked(payload: bytes, mask: bytes) -> bytes:
    """Mask a payload, or unmask a masked payload, and return the result. Both are the same operation."""
    size = len(payload)
    key = (mask * (size // _MASK + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(key)).to_bytes(size)


class Received(NamedTuple):
    """`data`: the bytes for the protocol. `end`: why no more bytes follow, "" if more may follow. `ping`: the payload
    of the last ping, which the caller must answer, or None.
    """

    data: bytes
    end: str = ""
    ping: bytes | None = None


@dataclass(slots=True, eq=False, repr=False)
class WebSocket(ProtocolWrapper):
    """The transport of a protocol whose peer speaks WebSocket after the handshake. Messages have `_most` bytes at most.
    `_farewell` returns our close code. `client`: the peer is a broker, so this end is the WebSocket's client. `window`:
    the logarithm of our window, if compression was agreed. Give received bytes to `received`, and call `received` again
    while `waits` is True. A sent message is binary if the peer's first message was binary, or if the bytes to send are
    not UTF-8.
    """

    transport: Any = field()  # Twisted's class has a default
    _most: float
    _farewell: Callable[[], int]
    _: KW_ONLY
    client: bool = False
    window: int = 0
    _frames: FrameProtocol | None = None
    _division: Division = field(init=False)
    _rest: memoryview = _NOTHING
    _reading: tuple[Iterator[Any], list[bytes]] | None = None
    _size: int = 0
    _said: bool = False
    _heard: bool = False
    _failed: bool = False
    _losing: bool = False

    def __post_init__(self) -> None:
        self._division = Division(None if self.client else int(self._most))

    def _send(self, data: bytes) -> None:
        self.transport.write(data)

    def _close(self) -> None:
        self.transport.loseConnection()

    def _shut(self) -> None:
        """Close our sending direction of the connection, if that is possible."""

    @property
    def waits(self) -> bool:
        """Whether received bytes still have to be examined."""
        return self._reading is not None or bool(self._rest)

    def received(self, data: bytes = b"") -> Received:
        """Read the waiting bytes and these bytes, and return the next part of the payload. If the result has an `end`,
        call `loseConnection`. Give all later bytes to this method, too.
        """
        if self._heard or self._failed:
            self._rest, self._reading = _NOTHING, None
            return Received(b"")
        reading = self._reading
        if self._rest or reading is not None or self.window:
            rest = memoryview(b"".join((self._rest, data)) if self._rest else data) if data else self._rest
            if reading is None:
                data, rest = bytes(rest[:PIECE]), rest[PIECE:]
            self._rest = rest
        payloads: list[bytes] = []
        frames, payloads = reading or (self._read(data, payloads), payloads)
        end, ping, count = "", None, 0
        try:
            for opcode, payload, _, finished in islice(frames, FRAMES):
                count += 1
                if opcode is Opcode.PING:
                    ping = payload
                elif opcode is Opcode.CLOSE:
                    end = self._ended(payload[0])
                    break
                elif opcode is not Opcode.PONG:
                    payloads.append(self._taken(opcode, payload, finished))
        except ParseFailed as error:
            end = self._broken(error)
        self._reading = None if end or count < FRAMES else (frames, payloads)
        pinged = self._division.pinged()
        taken = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        payloads.clear()
        return Received(taken, end, ping if pinged is None else pinged)

    def _read(self, data: bytes, payloads: list[bytes]) -> Iterator[Any]:
        """Return the frames in these bytes that wsproto must read. `payloads` gets the payloads before each frame."""
        for part in self._division.others(data, payloads):
            if self._frames is None:  # most peers send only a close frame that wsproto must read
                self._frames = FrameProtocol(self.client, [Inflation()] if self.window else [])
            self._frames.receive_bytes(part)
            yield from self._frames.received_frames()

    def begun(self, data: bytes) -> tuple[bytes, int]:
        """Return the payloads at the beginning of bytes, uncompressed, and where they end. `received` gets the rest."""
        return (b"", 0) if self._heard or self._failed else self._division.begun(data)

    def _taken(self, opcode: Opcode, payload: Any, finished: bool) -> bytes:
        self._division.came(opcode)
        taken: bytes = payload.encode() if isinstance(payload, str) else payload
        self._size = self._size + len(taken)
        if self._size > self._most:
            raise ParseFailed(f"the limit is {self._most} bytes", CloseReason.MESSAGE_TOO_BIG)
        if finished:
            self._size = 0
        return taken

    def _ended(self, code: int) -> str:
        """Answer the close frame of the peer. Return the reason for the log."""
        self._heard = True
        if self._said:
            self._close()
            return ""
        self._say_end(CloseReason.NORMAL_CLOSURE if code == CloseReason.NO_STATUS_RCVD else code)
        return f"it closed its WebSocket with code {int(code)}"

    def _broken(self, error: ParseFailed) -> str:
        """The peer broke the protocol: close the WebSocket and read nothing more. Return why, for the log."""
        self._failed = True
        why = _WORDS.get(error.code, str(error))
        self._say_end(error.code, why)
        return f"what it sent over WebSocket is refused with code {int(error.code)}: {why}"

    def peer_left(self) -> None:
        """Record that the peer ended the connection without a close frame."""
        self._heard = True

    # What the protocol asks for

    def write(self, data: bytes) -> None:
        """Send whole frames of STOMP: to a client as one message, to a broker as one message for each frame. Bytes that
        are written after our close frame are dropped.
        """
        if self._said:
            return
        binary = self._division.first == Opcode.BINARY
        if self.client:
            for each in each_frame(data):
                self._control(opcode_of(each, binary), each)
        elif self.window and len(data) >= SMALLEST:
            self._control(opcode_of(data, binary) | COMPRESSED, compressed(data, self.window))
        else:
            self._send(framed(data, binary))

    def _control(self, first: int, payload: bytes) -> None:
        self._send(frame(first, payload, token_bytes(_MASK) if self.client else b""))

    def ping(self) -> None:
        """Send a ping, which the peer has to answer."""
        if not self._said:
            self._control(Opcode.PING, b"")

    def pong(self, payload: bytes) -> None:
        """Answer a ping with this payload."""
        if not self._said:
            self._control(Opcode.PONG, payload)

    def loseConnection(self) -> None:
        """Send a close frame, and close when the peer has sent one; close at once if this method is called again."""
        self._say_end(self._farewell())
        if self._heard or self._losing:
            self._close()
        elif self._failed:
            self._shut()
        self._losing = True

    def loseWriteConnection(self) -> None:
        """Call `loseConnection`, because WebSocket closes both directions together."""
        self.loseConnection()

    def _say_end(self, code: int, why: str = "") -> None:
        if not self._said:
            self._said = True
            self._control(Opcode.CLOSE, pack("!H", code) + why.encode()[: SHORT - 2])


_EOLS: Final = re.compile(rb"[\r\n]*")
_BLANK: Final = re.compile(rb"\n\r?\n")
_LENGTH: Final = re.compile(rb"\ncontent-length: *([0-9]{1,18}) *\r?\n")


def each_frame(data: bytes) -> Iterator[bytes]:
    """Yield each frame of written bytes, with the EOLs behind the frame. A heart-beat counts as a frame."""
    start = 0
    while start < len(data):
        stop = _past_eols(data, start)
        if stop == start:
            stop = _past_eols(data, _end(data, start))
        yield data[start:stop]
        start = stop


def _past_eols(data: bytes, start: int) -> int:
    found = _EOLS.match(data, start)
    return start if found is None else found.end()


def _end(data: bytes, start: int) -> int:
    head = _BLANK.search(data, start)
    if head is None:
        return len(data)
    length = _LENGTH.search(data, start, head.end())
    return data.find(b"\0", head.end() + (0 if length is None else int(length[1]))) + 1 or len(data)

"""Messages of a WebSocket on the wire. Of what comes, the compiled `_messages` takes messages, pings and pongs at once;
wsproto reads all else, whole fragments only: what is compressed, what is wrong, and the end of the connection. What
goes is framed here.
"""

from collections.abc import Iterator
from struct import pack
from typing import TYPE_CHECKING, Final

from wsproto.frame_protocol import CloseReason, Opcode, ParseFailed

from stomprelay.wire.decoder import compiled

if TYPE_CHECKING:
    from stomprelay.service.network._messages import Messages

SHORT: Final = 125
"""Bytes that what controls a connection may have."""

_FINAL: Final = 0x80
_CONTROL: Final = 0x8
_OPCODE: Final = 0xF
_MIDDLE: Final = 0xFFFF
_MASKED: Final = 0x80
_MASK: Final = 4


class Division:
    """The bytes of one client, with messages of `most` bytes; None: of a broker, which wsproto reads."""

    __slots__ = ("_carried", "_due", "_fragments", "_messages", "first")

    def __init__(self, most: int | None) -> None:
        self._messages: Messages | None = None
        if _COMPILED is not None and most is not None:
            self._messages = _COMPILED.Messages(most)
        self._carried = b""
        self._due = 0
        self._fragments = False
        self.first = 0
        """The opcode of the first message, 0 while there was none."""

    def begun(self, data: bytes) -> tuple[bytes, int]:
        """Return the payloads at the beginning of these bytes, and their end. Give the rest to `others`."""
        if self._messages is None or self._carried or self._due or self._fragments:
            return b"", 0
        found = self._messages.take(data, 0, False)
        self.first = self.first or self._messages.first
        return found

    def pinged(self) -> bytes | None:
        """Return the payload of the last ping that did not go to wsproto, since the last call; None without one."""
        return None if self._messages is None else self._messages.pinged()

    def others(self, data: bytes, payloads: list[bytes]) -> Iterator[bytes]:
        """Append the payloads that can be taken. Yield what is for wsproto: append its payloads before asking for more.
        Raises `ParseFailed`.
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
            self.first = self.first or messages.first
            if payload:
                payloads.append(payload)
        if messages.broken:
            raise ParseFailed("text is not UTF-8", CloseReason.INVALID_FRAME_PAYLOAD_DATA)
        if messages.large:
            raise ParseFailed("a message is too large", CloseReason.MESSAGE_TOO_BIG)
        return at


_COMPILED: Final = compiled("stomprelay.service.network._messages")
"""None where nothing compiled is wanted, or it was not built: then wsproto reads all."""


def framed_in_python(data: bytes, binary: bool) -> bytes:
    """Return a whole message as servers send it: text where it is UTF-8 and need not be `binary`."""
    return frame(opcode_of(data, binary), data)


framed: Final = framed_in_python if _COMPILED is None else _COMPILED.framed


def opcode_of(data: bytes, binary: bool) -> int:
    """Return the opcode for this message: text if it is UTF-8 and need not be `binary`."""
    if binary:
        return Opcode.BINARY
    try:
        data.decode()
    except UnicodeDecodeError:
        return Opcode.BINARY
    return Opcode.TEXT


def frame(first: int, payload: bytes, mask: bytes = b"") -> bytes:
    """Return a message, or a control frame, as it is on the wire: opcode with extension bits, and payload, masked if
    there is a mask.
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
    """Return a masked payload unmasked, or an unmasked one masked."""
    size = len(payload)
    key = (mask * (size // _MASK + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(key)).to_bytes(size)

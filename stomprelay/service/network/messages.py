"""What comes over a WebSocket, divided: messages in one fragment, which the compiled `_messages` takes at once, and all
else, which is wsproto's to read.

Most clients send nothing but such messages, of which wsproto takes some ten microseconds each. It gets the others
fragment by fragment, so that it never has the beginning of one that it is not to read to the end: what is wrong, what
is in many fragments, and what controls the connection is judged by wsproto alone.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from wsproto.frame_protocol import CloseReason, ParseFailed

from stomprelay.wire import decoder

if TYPE_CHECKING:
    from stomprelay.service.network._messages import Messages

_FINAL: Final = 0x80
_CONTROL: Final = 0x8


class Division:
    """The bytes of one client, whose messages may have `most` bytes each."""

    def __init__(self, most: int) -> None:
        self._messages = None if _COMPILED is None else _COMPILED[0](most)
        self._carried = b""
        self._due = 0
        self._fragments = False

    @property
    def first(self) -> int:
        """The opcode of the first message that was taken; 0 while none was."""
        return 0 if self._messages is None else self._messages.first

    def others(self, data: bytes, payloads: list[bytes]) -> Iterator[bytes]:
        """Append the payloads that can be taken of these bytes. Yield what is for wsproto, as it came: have it read,
        and its payloads appended, before more is asked for. Raises `ParseFailed` for a text that is not UTF-8.
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
                self._due = _COMPILED[1](data, at)
                if not self._due:
                    self._carried = data[at:]
                    return
                if not data[at] & _CONTROL:
                    self._fragments = not data[at] & _FINAL
            part = data[at : at + self._due]
            self._due -= len(part)
            at += len(part)
            yield part

    def _take(self, messages: "Messages", data: bytes, at: int, payloads: list[bytes]) -> int:
        payload, at = messages.take(data, at)
        if payload:
            payloads.append(payload)
        if messages.broken:
            raise ParseFailed("text is not UTF-8", CloseReason.INVALID_FRAME_PAYLOAD_DATA)
        return at


def _compiled() -> "tuple[type[Messages], Callable[[bytes, int], int]] | None":
    if decoder.SCANNER is None:
        return None
    try:
        from stomprelay.service.network._messages import Messages, extent
    except ImportError:
        return None
    return Messages, extent


_COMPILED: Final = _compiled()
"""None where nothing compiled is wanted, or it was not built: then wsproto reads all."""

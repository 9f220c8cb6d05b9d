"""The frames in a text that a user wrote: a client's and a broker's, in the order in which they are sent."""

import re
from typing import Final

from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, Dialect
from stomprelay.wire.errors import FrameError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import BODIES, BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, OPENING

FROM_BROKER: Final = BROKER_COMMANDS | {CONNECTED}
FROM_CLIENT: Final = CLIENT_COMMANDS | OPENING

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_GAP: Final = re.compile(rb"[\r\n\0]*")
_LAST_LINE_END: Final = re.compile(rb"\r?\n\Z")


class FrameText:
    """Ask for the next `command`, then for its `frame` in the sender's dialect, until there is none. Without a NUL in
    the text, `^@` stands for it. A last frame's end is completed.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text if b"\0" in text else text.replace(b"^@", b"\0")
        self._at = 0
        self.said = b""
        """The last frame as it was written, and ended."""
        self._decoder = Decoder(V1_0, FROM_CLIENT, Upstream.limits)
        self._decoder.feed(self._text)

    @property
    def command(self) -> bytes | None:
        """Return the command line of the next frame; None at the end of the text."""
        gap = _GAP.match(self._text, self._at)
        self._at = gap.end() if gap else self._at
        if self._at == len(self._text):
            return None
        end = self._text.find(b"\n", self._at)
        return self._text[self._at : None if end < 0 else end].removesuffix(b"\r").removesuffix(b"\0")

    def frame(self, dialect: Dialect) -> Frame:
        """Return the next frame. Raises `StompError`, after which no more can be read."""
        commands = FROM_BROKER if self.command in FROM_BROKER else FROM_CLIENT
        if self._text.find(b"\0", self._at) >= 0:
            self._decoder.expect(dialect, commands)
            frame = next(self._decoder.frames(), None)
            if frame is not None:
                start, self._at = self._at, len(self._text) - self._decoder.buffered
                self.said = self._text[start : self._at]
                return frame
        for text in self._completed():
            decoder = Decoder(dialect, commands, Upstream.limits)
            decoder.feed(text)
            frame = next(decoder.frames(), None)
            if frame is not None:
                self._at = len(self._text)
                self.said = text
                return frame
        raise FrameError("the frame does not end", "content-length says more than there is")

    def _completed(self) -> list[bytes]:
        """Yield the completions of the last frame, the likeliest first."""
        rest = self._text[self._at :]
        blank = _BLANK_LINE.search(rest)
        if blank is None:
            return [rest.rstrip(b"\r\n") + b"\n\n\0"]
        if self.command not in BODIES and not rest[blank.end() :].strip(b"\r\n"):
            return [rest[: blank.end()] + b"\0"]
        head, body = rest[: blank.end()], rest[blank.end() :]
        return [head + _LAST_LINE_END.sub(b"", body) + b"\0", rest + b"\0"]

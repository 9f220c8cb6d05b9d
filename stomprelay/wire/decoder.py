"""Chunks to frames, resumable anywhere.

One rule guards the border between relay and broker: both must agree where a frame ends. So there is one
`content-length`, of digits only; a body where the specification forbids one is an error; and a NUL in a head is
an error. The hot path finds and slices; a head is looked into only when it is not plain.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.errors import FrameError, LimitError, ProtocolError, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.head import Head, Limits
from stomprelay.wire.names import BODIES, BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, OPENING, SEND

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_GAP: Final = re.compile(rb"[\n\r\0]*")
_HEAD_MARK: Final = re.compile(rb"[\n\0]")
_BODY_MARK: Final = re.compile(rb"\0")
_KNOWN: Final = OPENING | CLIENT_COMMANDS | {CONNECTED} | BROKER_COMMANDS
_COMMAND_LINE: Final = max(map(len, _KNOWN)) + 2
_NO_FACTS: Final = (b"", 0, -1, False)
_CR: Final = 13
_LF: Final = 10


_head = lru_cache(Head)


@lru_cache
def _spellings(commands: frozenset[bytes]) -> dict[bytes, tuple[bytes, bool]]:
    """The command line as it may stand -> the command, and whether it may have a body."""
    return {command + end: (command, command in BODIES) for command in commands for end in (b"", b"\r")}


class Decoder:
    """Feed it chunks, then exhaust `frames()`; it keeps what is unfinished.

    `dialect` and the commands that may come (`expect`) can change between two frames of one chunk, as they do
    after CONNECT. `trails` tells that the peer writes an LF behind its frames. With `record` a list is given each
    frame before `frames()` yields it.
    """

    __slots__ = (
        "_at",
        "_commands",
        "_data",
        "_head",
        "_held",
        "_mark",
        "_memo",
        "_memo_facts",
        "_most",
        "_need",
        "_pieces",
        "_recording",
        "dialect",
        "limits",
        "trails",
    )

    def __init__(self, dialect: Dialect, commands: frozenset[bytes], limits: Limits) -> None:
        self.limits = limits
        self._head = _head(limits)
        self._data = b""
        self._at = 0
        self._pieces: list[bytes] | None = None
        self._held = 0
        self._need = 0
        self._mark: re.Pattern[bytes] | None = None
        self._most = 0
        self.trails = False
        self._recording: list[Frame] | None = None
        self.expect(dialect, commands)

    def expect(self, dialect: Dialect, commands: frozenset[bytes]) -> None:
        """From the next frame on: its dialect, and the commands that may come."""
        self.dialect = dialect
        self._commands = _spellings(commands)
        self._memo: bytes | None = None
        self._memo_facts = _NO_FACTS

    def record(self, frames: list[Frame]) -> None:
        """From the next frame on, put each into this list before it is yielded; the caller empties the list."""
        self._recording = frames

    @property
    def buffered(self) -> int:
        """How many bytes wait for the rest of their frame, or for `frames()`."""
        return self._held if self._pieces else len(self._data) - self._at

    @property
    def behind(self) -> bool:
        """Whether `frames()` was left before it came to the end of what was fed: there may be more frames."""
        return not self._pieces and self._at < len(self._data)

    def feed(self, data: bytes) -> None:
        """Take a chunk. Then exhaust `frames()`.

        Raises `LimitError` when an unfinished line or body grows over its limit.
        """
        pieces = self._pieces
        if pieces:
            pieces.append(data)
            self._held += len(data)
            if self._held < self._need or (self._mark and not self._mark.search(data)):
                if self._held > self._most:
                    raise self._overgrown(b"".join(pieces))
                if len(pieces) > 64 and (self._held > 2 * len(pieces[0]) or len(pieces) > 4096):
                    pieces[:] = [b"".join(pieces)]
                return
            data = b"".join(pieces)
            self._pieces = None
        elif self._at < len(self._data):
            data = self._data[self._at :] + data
        self._data = data
        self._at = 0

    def frames(self) -> Iterator[Frame]:  # noqa: PLR0912, PLR0915 - the hot path: one loop without calls
        """The frames that are complete, in order. Stop whenever you like and come back for the rest.

        Raises `FrameError`, `LimitError` or `ProtocolError` at the first bad frame, after the good ones before
        it; the stream is lost then.
        """
        recording = self._recording
        while not self._pieces:
            data = self._data
            at = self._at
            size = len(data)
            if at < size and data[at] <= _CR:
                gap = _GAP.match(data, at)
                assert gap is not None
                at = self._at = gap.end()
            if at >= size:
                self._data = b""
                self._at = 0
                return
            memo = self._memo
            if memo is not None and data.startswith(memo, at):
                command, head, length, plain = self._memo_facts
                head += at
                body = at + len(memo)
            else:
                blank = _BLANK_LINE.search(data, at)
                if blank is None:
                    self._await_head(data, at)
                    return
                body = blank.end()
                memo = None
                head = data.find(b"\n", at) + 1
                known = self._commands.get(data[at : head - 1])
                if known is None:
                    raise self._unexpected(data[at : head - 1])
                command, may_have_body = known
                plain = self._head.examine(data, head, body, self.dialect)
                length = self._head.content_length(data, head, body, self.dialect)
                if not may_have_body:
                    if length > 0:
                        raise FrameError(f"{command.decode()} must not have a body")
                    length = 0
                elif command is SEND:
                    memo = self._memo = data[at:body]
                    self._memo_facts = (command, head - at, length, plain)
            if length >= 0:
                end = body + length
                if end >= size:
                    if length > self.limits.body:
                        raise self._too_large()
                    self._await(data, at, end + 1 - at, end + 1 - at)
                    return
                if data[end]:
                    raise self._unterminated(command, length)
            else:
                end = data.find(b"\0", body)
                if end < 0:
                    if size - body > self.limits.body:
                        raise self._too_large()
                    self._await(data, at, 0, body - at + self.limits.body, _BODY_MARK)
                    return
            if end - body > self.limits.body:
                raise self._too_large()
            after = end + 1
            if after < size and data[after] == _LF:
                after += 1
                self.trails = True
            self._at = after
            frame = Frame(command, data, at, head, body, end, after, plain, memo)
            if recording is not None:
                recording.append(frame)
            yield frame

    def _await(
        self,
        data: bytes,
        at: int,
        need: int,
        most: int,
        mark: re.Pattern[bytes] | None = None,
    ) -> None:
        """Keep the unfinished frame until there are `need` bytes of it and a new piece has the mark.

        Without a mark in sight it may grow to `most` bytes.
        """
        rest = data[at:] if at else data
        self._pieces = [rest]
        self._held = len(rest)
        self._need = need
        self._most = most
        self._mark = mark
        self._data = b""
        self._at = 0

    def _await_head(self, data: bytes, at: int) -> None:
        """Keep an unfinished head, unless it can already be seen that it will not be one."""
        size = len(data) - at
        line = data.find(b"\n", at)
        if line < 0:
            if size > _COMMAND_LINE or data.find(b"\0", at) >= 0:
                raise self._unexpected(data[at:])
        else:
            if data[at:line] not in self._commands:
                raise self._unexpected(data[at:line])
            if data.find(b"\0", at) >= 0:
                raise FrameError("NUL in a frame's head")
            if size > self.limits.header_line and self._head.has_long_line(data[at:]):
                raise self._head.too_long()
            if data.count(b"\n", at) > self.limits.headers + 1:
                raise self._head.too_many()
        last_line = data.rfind(b"\n", at) + 1 - at if line >= 0 else 0
        allowed = self.limits.header_line if line >= 0 else _COMMAND_LINE
        self._await(data, at, 0, last_line + allowed, _HEAD_MARK)

    def _unexpected(self, line: bytes) -> ProtocolError:
        command = line.removesuffix(b"\r")
        if command in _KNOWN:
            expected = sorted({name.decode() for name, _ in self._commands.values()})
            return ProtocolError(
                f"{command.decode()} is not allowed here", f"expected: {', '.join(expected)}"
            )
        shown = command[:32].decode("ascii", "backslashreplace")
        return ProtocolError("unknown command", f"{shown!r} is not a STOMP command that may come here")

    def _overgrown(self, unfinished: bytes) -> StompError:
        if self._mark is _BODY_MARK:
            return self._too_large()
        return self._head.too_long() if b"\n" in unfinished else self._unexpected(unfinished)

    def _too_large(self) -> LimitError:
        return LimitError("body too large", f"the limit is {self.limits.body} bytes")

    def _unterminated(self, command: bytes, length: int) -> FrameError:
        if command not in BODIES:
            return FrameError(f"{command.decode()} must not have a body")
        return FrameError(
            "content-length does not fit the body",
            f"the octet after {length} bytes of body is not NUL",
        )

"""Makes frames from chunks of bytes. A chunk may end anywhere in a frame.

Relay and broker must agree where a frame ends. So a frame has one `content-length` at most, of digits only; a NUL in a
head is an error, and so is a body after a command that has none. There is one exception: some clients write LFs in
place of such a body, and every reader ignores these LFs. A CR is not ignored there, because before STOMP 1.2 the next
command would begin with it. Each byte is looked at and copied a few times at most, however the stream is cut.
"""

import re
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from functools import lru_cache
from importlib import import_module
from sys import maxsize
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from stomprelay import PURE
from stomprelay.wire.dialect import Dialect
from stomprelay.wire.errors import FrameError, LimitError, ProtocolError, StompError
from stomprelay.wire.frame import CONTENT_LENGTH_LINE, Frame, Limits
from stomprelay.wire.names import (
    BODIES,
    BROKER_COMMANDS,
    CLIENT_COMMANDS,
    CONNECTED,
    OPENING,
    RECEIPT_HEADER,
    SEND,
    UNESCAPED,
)
from stomprelay.wire.run import MOST_NAMES, NOTHING_PASSES, Keep, Passing, Rules, Run

if TYPE_CHECKING:
    from stomprelay.wire._scan import Scanner

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
GAP: Final = b"\n\r\0"
"""The bytes that mean nothing between two frames."""
_GAP: Final = re.compile(b"[%b]*" % GAP)
_LFS: Final = re.compile(rb"\n*")
_LINE_END: Final = re.compile(rb"[\n\0]")
_NUL: Final = re.compile(rb"\0")
_WORD: Final = re.compile(rb"[A-Za-z]{1,16}")
"""Matches an unknown command that the error may quote. A part of a head or of a body must not be quoted."""
_NO_LF: Final = re.compile(rb"[^\n]")
_FROM_CLIENTS: Final = OPENING | CLIENT_COMMANDS
_FROM_BROKERS: Final = BROKER_COMMANDS | {CONNECTED}
_NOT_ASKING: Final = tuple(command + end for command in _FROM_BROKERS for end in (b"\n", b"\r\n"))
_KNOWN: Final = _FROM_CLIENTS | _FROM_BROKERS
_COMMAND_LINE: Final = max(map(len, _KNOWN)) + 2
_RECEIPT_LINE: Final = b"%b:" % RECEIPT_HEADER
_WORTH_A_CUT: Final = 4096
_FEW, _MANY = 8, 64
"""How many frames the scanner finds in its first call, and in later calls. If the caller stops early, frames that were
found but not yielded have to be found again.
"""
_APART: Final = 16
"""How many pieces of an unfinished frame are kept as they came; later small pieces are copied into one."""
_SMALL: Final = 4096
_CR: Final = 13
_LF: Final = 10


def compiled(module: str) -> Any:
    """Return a compiled module; None if it was not built from these sources, or compiled modules are switched off."""
    try:
        return None if PURE else import_module(module)
    except ImportError:
        return None


_scan: Final = compiled("stomprelay.wire._scan")
SCANNER: "Final[type[Scanner] | None]" = None if _scan is None else _scan.Scanner
"""The compiled scanner; None if it was not built, or `STOMPRELAY_PURE=1` is set."""


@lru_cache
def _command_lines(commands: frozenset[bytes]) -> dict[bytes, tuple[bytes, bool]]:
    """Return a dict from each permitted command line, with and without CR, to its command and whether it has a body."""
    return {command + end: (command, command in BODIES) for command in commands for end in (b"", b"\r")}


class Awaited(NamedTuple):
    """What an unfinished frame waits for: `need` bytes and, if `mark` is not None, a new piece that has the mark in it.
    More than `most` bytes without the mark are an error.
    """

    need: int
    most: int
    mark: re.Pattern[bytes] | None


class HeadSoFar(NamedTuple):
    """The state of an unfinished head: how many lines have begun, the size of the last line, and the last two bytes."""

    lines: int
    line: int
    end: bytes


class Pieces:
    """Collects pieces of bytes; `joined` returns them as one. Small pieces need little more memory than their bytes."""

    __slots__ = ("_pieces", "size")

    def __init__(self, first: bytes) -> None:
        self._pieces: list[bytes | bytearray] = [first]
        self.size = len(first)

    def add(self, data: bytes) -> None:
        """Add one piece."""
        size = len(data)
        self.size += size
        pieces = self._pieces
        if size >= _SMALL or len(pieces) < _APART:
            pieces.append(data)
        elif type(pieces[-1]) is bytearray:
            pieces[-1] += data
        else:
            pieces.append(bytearray(data))

    def joined(self) -> bytes:
        """Return all pieces as one."""
        return b"".join(self._pieces)


@dataclass(slots=True, eq=False, repr=False)
class Decoder:
    """Makes frames of a stream. Call `feed` with each chunk, then iterate over `frames()` to its end; the decoder keeps
    the unfinished frame.

    `dialect` and the commands to `expect` may change between two frames. `trails`: the peer writes an LF behind its
    frames. `buffered`: how many bytes wait for the rest of their frame, or for `frames()`.
    """

    dialect: Dialect
    commands: InitVar[frozenset[bytes]]
    limits: Limits
    buffered: int = 0
    trails: bool = False
    _data: bytes = b""
    _at: int = 0
    _rest: tuple[bytes, int] | None = None
    _later: Pieces | None = None
    _pieces: Pieces | None = None
    _awaited: Awaited | HeadSoFar | None = None
    _recording: list[Frame | Run] | None = None
    _keeping: Keep | None = None
    _allowed: frozenset[bytes] = field(init=False)
    _commands: dict[bytes, tuple[bytes, bool]] = field(init=False)
    _memo: tuple[bytes, bytes, int, int, bool] | None = field(init=False)
    _rules: Rules | None = field(init=False)
    _scanner: Any = field(init=False)
    _ahead: object = field(init=False)

    def __post_init__(self, commands: frozenset[bytes]) -> None:
        self.expect(self.dialect, commands)

    def expect(self, dialect: Dialect, commands: frozenset[bytes]) -> None:
        """Set the dialect and the allowed commands from the next frame on."""
        self.dialect = dialect
        self._allowed = commands
        self._commands = _command_lines(commands)
        self._memo = self._rules = self._scanner = self._ahead = None
        if self._at == len(self._data):
            self._data, self._at = b"", 0  # frees the chunk, even if no more bytes come on this leg

    def drop(self) -> None:
        """Forget everything that was fed: nothing more is read."""
        self._data, self._at = b"", 0
        self.buffered = 0
        self._rest = self._later = self._pieces = self._ahead = None

    def record(self, frames: list[Frame | Run] | None, keep: Keep | None = None) -> None:
        """From now on append each frame and run to this list before it is yielded. None: record nothing more. While
        frames are recorded without `keep`, there are no runs.
        """
        self._recording = frames
        self._keeping = keep
        self._rules = self._ahead = None

    @property
    def missing(self) -> int:
        """The number of bytes of the unfinished frame that may still come; 0 without an unfinished frame."""
        if self._pieces is None:
            return 0
        awaited, size = self._awaited, self._pieces.size
        if type(awaited) is not Awaited:
            return self.limits.body
        return (awaited.need if awaited.mark is None else awaited.most) - size

    @property
    def begun(self) -> bytes:
        """The beginning of an incomplete command line; empty if there is no such line."""
        if self._pieces is None or not self._awaits_command:
            return b""
        return self._pieces.joined()

    @property
    def behind(self) -> bool:
        """Whether the caller left `frames()` before the end of the fed bytes, so that there may be more frames."""
        return self._pieces is None and self.buffered > 0

    def feed(self, data: bytes) -> None:
        """Add a chunk; iterate over `frames()` next. Raises `StompError` if the unfinished frame is wrong already."""
        self.buffered += len(data)
        pieces = self._pieces
        if pieces is None:
            if self._later is not None:
                self._later.add(data)
            elif self._at < len(self._data) or self._rest is not None:
                self._later = Pieces(data)
            else:
                self._data, self._at = data, 0
            return
        if self._completed(pieces, data):
            return
        pieces.add(data)
        awaited = self._awaited
        if type(awaited) is not Awaited:
            if self._head_goes_on(pieces, data):
                return
        elif pieces.size < awaited.need or (awaited.mark is not None and not awaited.mark.search(data)):
            if pieces.size > awaited.most:
                unfinished = pieces.joined()
                error = self._unexpected(unfinished) if self._awaits_command else self._too_large()
                raise self._with_receipt(error, unfinished, 0)
            return
        self._data, self._at = pieces.joined(), 0
        self._pieces = None

    def _completed(self, pieces: Pieces, data: bytes) -> bool:
        """Finish the frame if it ends at a known place, far before this chunk's end. Return whether it is finished."""
        stop, awaited = 0, self._awaited
        if type(awaited) is Awaited:
            if awaited.mark is None:
                stop = awaited.need - pieces.size
            elif awaited.mark is _NUL:
                stop = data.find(b"\0") + 1
        if stop <= 0 or len(data) - stop < _WORTH_A_CUT:
            return False
        stop += data[stop] == _LF
        pieces.add(data[:stop])
        self._data, self._at = pieces.joined(), 0
        self._pieces = None
        self._rest = (data, stop)
        return True

    def frames(self) -> Iterator[Frame]:
        """Yield the complete frames; the caller may stop and continue later. Raises `FrameError`, `LimitError` or
        `ProtocolError` at the first bad frame; after that nothing more can be read.
        """
        return cast("Iterator[Frame]", self.runs(NOTHING_PASSES))

    def runs(  # noqa: PLR0912, PLR0915 - the hot path: one loop without calls
        self, passing: Passing, most: int = maxsize
    ) -> Iterator[Frame | Run]:
        """Yield at most `most` frames, as `frames()` does. Neighbours become one `Run` if `passing` takes it."""
        compiled = SCANNER is not None
        recording = self._recording
        rules = passing.rules if recording is None or self._keeping is not None else ()
        data, at, refused, few = b"", 0, -1, _FEW
        try:
            while most > 0 and self._pieces is None:
                data, at = self._data, self._at
                if compiled:
                    asked = rules if at >= refused else ()
                    scanner = self._scanner if self._rules is asked else self._scanning(asked)
                    found = scanner.some(data, at, most, min(most, few))
                    if type(found) is Run:
                        if not passing.takes(found):
                            refused = found.after
                            continue
                        most -= found.count - 1
                        found = [found]
                    self.trails |= scanner.trails
                    most -= len(found)
                    few = _MANY
                    self._ahead = ahead = object()
                    for each in found:
                        if recording is not None:
                            recording.append(each)
                        self.buffered -= each.after - self._at
                        self._at = each.after
                        yield each
                        if self._ahead is not ahead:  # a method was called meanwhile
                            break
                    if self._ahead is not ahead or (found and not scanner.need):
                        continue
                    at = self._at
                    if scanner.need > 0:
                        self._await(data, at, scanner.need, scanner.need)
                        continue
                size = len(data)
                if at < size and data[at] <= _CR:
                    gap = _GAP.match(data, at)
                    assert gap is not None
                    gap_end = gap.end()
                    self.buffered -= gap_end - at
                    self._at = gap_end
                    if compiled and gap_end > at:
                        continue
                    at = gap_end
                if at >= size:
                    self._data, self._at = b"", 0
                    if self._rest is None and self._later is None:
                        return
                    self._go_on()
                    continue
                memo = spelled = None
                known_head = self._memo
                if known_head is not None and data.startswith(known_head[0], at):
                    memo, command, head, length, plain = known_head
                    head += at
                    body = at + len(memo)
                else:
                    blank = _BLANK_LINE.search(data, at)
                    if blank is None:
                        self._await_head(data, at)
                        continue
                    body = blank.end()
                    head = data.find(b"\n", at) + 1
                    known = self._commands.get(data[at : head - 1])
                    if known is None:
                        raise self._unexpected(data[at : head - 1])
                    command, may_have_body = known
                    plain = self.limits.examine(data, head, body, self.dialect)
                    if not plain:
                        spelled = self._spelled_out(data[head - 1 : body])
                    length = -1
                    if data.find(CONTENT_LENGTH_LINE, head - 1, body) >= 0:
                        length = self.limits.content_length(data, head, body, self.dialect)
                    if not may_have_body:
                        if length > 0 or (body < size and data[body]):
                            length = self._lfs(command, data, body, length)
                            if length < 0:
                                self._await(data, at, 0, body - at + self.limits.body, _NO_LF)
                                continue
                        else:
                            length = 0
                    elif command is SEND and spelled is None:
                        memo = data[at:body]
                        self._memo = memo, command, head - at, length, plain
                if length >= 0:
                    end = body + length
                    if end >= size:
                        if length > self.limits.body:
                            raise self._too_large()
                        self._await(data, at, end + 1 - at, end + 1 - at)
                        continue
                    if data[end]:
                        raise self._unterminated(command, length)
                else:
                    end = data.find(b"\0", body)
                    if end < 0:
                        if size - body > self.limits.body:
                            raise self._too_large()
                        self._await(data, at, 0, body - at + self.limits.body, _NUL)
                        continue
                if end - body > self.limits.body:
                    raise self._too_large()
                after = end + 1
                if after < size and data[after] == _LF:
                    after += 1
                    self.trails = True
                self.buffered -= after - at
                self._at = after
                frame = Frame(command, data, at, head, body, end, after, plain, memo)
                if spelled is not None:
                    frame = frame.with_lines(spelled)
                if recording is not None:
                    recording.append(frame)
                most -= 1
                yield frame
        except StompError as error:
            raise self._with_receipt(error, data, at) from None

    def _spelled_out(self, lines: bytes) -> bytes | None:
        """Return a head's lines as all readers understand them, by `Dialect.spell_out`; None if no line changes."""
        spelled = self.dialect.spell_out(lines)
        if len(spelled) == len(lines):
            return None
        if self.limits.has_long_line(spelled):
            raise self.limits.too_long()
        return spelled

    def _scanning(self, rules: Rules) -> "Scanner":
        """Return the scanner for these rules, in the present dialect and with the allowed commands."""
        assert SCANNER is not None
        self._rules = rules
        taken = tuple([each for each in rules if len(each.unless) + len(each.wants) <= MOST_NAMES])
        self._scanner = scanner = SCANNER(self.limits, self.dialect, self._allowed, taken, self._keeping)
        return scanner

    def _await(
        self, data: bytes, at: int, need: int, most: int, mark: re.Pattern[bytes] | None = None
    ) -> None:
        """Keep the unfinished frame at `at`, and record what it waits for, see `Awaited`."""
        self._awaited = Awaited(need, most, mark)
        self._keep(data[at:] if at else data)

    @property
    def _awaits_command(self) -> bool:
        """Whether the command line of the unfinished frame is not complete."""
        return type(self._awaited) is Awaited and self._awaited.mark is _LINE_END

    def _await_head(self, data: bytes, at: int) -> None:
        """Keep an unfinished head. Raises `StompError` if the head is already known to be wrong."""
        line = data.find(b"\n", at)
        if line < 0:
            if len(data) - at > _COMMAND_LINE or data.find(b"\0", at) >= 0:
                raise self._unexpected(data[at:])
            self._await(data, at, 0, _COMMAND_LINE, _LINE_END)
            return
        command = data[at:line]
        if command not in self._commands and command.removesuffix(b"\r") not in _FROM_CLIENTS:
            raise self._unexpected(command)
        # The head of a client's frame is read even if its command is not allowed: the frame may ask for a receipt.
        self._awaited = HeadSoFar(1, 0, data[max(at, line - 1) : line + 1])
        wrong = self._count_lines(data[line + 1 :])
        if wrong is not None:
            raise self._first_error(wrong, data, at)
        self._keep(data[at:] if at else data)

    def _head_goes_on(self, pieces: Pieces, data: bytes) -> bool:
        """Check a new piece of a head, and raise the error of a wrong head. Return whether the head is unfinished."""
        so_far = cast("HeadSoFar", self._awaited)
        if _BLANK_LINE.search(data) or _BLANK_LINE.search(so_far.end + data[:2]):
            return False
        wrong = self._count_lines(data)
        if wrong is not None:
            raise self._first_error(wrong, pieces.joined(), 0)
        return True

    def _count_lines(self, lines: bytes) -> StompError | None:
        """Count more lines of a head, without the blank line. Return the error of a wrong head, otherwise None."""
        count, line, end = cast("HeadSoFar", self._awaited)
        if b"\0" in lines:
            return FrameError("NUL in a frame's head")
        if line + len(lines) > self.limits.header_line and self.limits.has_long_line(lines, line):
            return self.limits.too_long()
        ends = lines.count(b"\n")
        if count + ends > self.limits.headers + 1:
            return self.limits.too_many()
        line = len(lines) - lines.rfind(b"\n") - 1 if ends else line + len(lines)
        self._awaited = HeadSoFar(count + ends, line, (end + lines[-2:])[-2:])
        return None

    def _first_error(self, wrong: StompError, data: bytes, at: int) -> StompError:
        """Return the error for the frame at `at`: about its command if this is not allowed, otherwise `wrong`."""
        command = data[at : data.find(b"\n", at)]
        return self._with_receipt(wrong if command in self._commands else self._unexpected(command), data, at)

    def _keep(self, unfinished: bytes) -> None:
        """Keep the unfinished frame at the end of the chunk, and continue with the bytes that were fed later."""
        self._data, self._at = b"", 0
        self._pieces = Pieces(unfinished)
        if self._rest is not None or self._later is not None:
            self._go_on()

    def _go_on(self) -> None:
        """Continue with the rest of the chunk, and with bytes that were fed in the meantime."""
        rest, later = self._rest, self._later
        self._rest = None
        if rest is not None and self._pieces is None:
            self._data, self._at = rest
            return
        self._later = None
        more = (rest[0][rest[1] :] if rest else b"") + (later.joined() if later else b"")
        self.buffered -= len(more)
        self.feed(more)

    def _lfs(self, command: bytes, data: bytes, body: int, length: int) -> int:
        """For a frame that must have no body: return the number of LFs before its NUL, or -1 if more bytes may come.
        Raises an error if there is a body. `length`: the `content-length`, -1 without this header.
        """
        if length <= self.limits.body:
            run = _LFS.match(data, body)
            assert run is not None
            end = run.end()
            if end - body > self.limits.body:
                raise self._too_large()
            if end == len(data):
                return -1
            if not data[end] and length in (-1, end - body):
                return end - body
        raise FrameError(f"{command.decode()} must not have a body")

    def _unexpected(self, line: bytes) -> ProtocolError:
        command = line.removesuffix(b"\r")
        if command in _KNOWN:
            expected = sorted({name.decode() for name, _ in self._commands.values()})
            return ProtocolError(
                f"{command.decode()} is not allowed here", f"expected: {', '.join(expected)}"
            )
        quoted = command if _WORD.fullmatch(command) else None
        return ProtocolError("unknown command", "no STOMP command that may come here", quoted=quoted)

    def _with_receipt(self, error: StompError, data: bytes, at: int) -> StompError:
        """Return the error, with the receipt that the frame at `at` asks for, if the receipt can be read."""
        if (
            (self._allowed and self._allowed <= _FROM_BROKERS)
            or error.receipt is not None
            or data.startswith(_NOT_ASKING, at)
        ):
            return error
        stop = data.find(b"\0", at)
        stop = len(data) if stop < 0 else stop
        blank = _BLANK_LINE.search(data, at, stop)
        command, *lines = data[at : blank.start() if blank else stop].split(b"\n", self.limits.headers + 1)
        # The part behind the last LF is a complete line only if the blank line follows.
        for line in lines[: self.limits.headers] if blank else lines[:-1]:
            if len(line) > self.limits.header_line:
                break
            if line.startswith(_RECEIPT_LINE):
                error.asked_for(self._receipt(command, line[len(_RECEIPT_LINE) :]))
                break
        return error

    def _receipt(self, command: bytes, value: bytes) -> bytes | None:
        """Return the receipt in a header's value; None if it cannot be read."""
        dialect = self.dialect
        if command.removesuffix(b"\r") in UNESCAPED:
            return value.removesuffix(b"\r")
        try:
            receipt = dialect.decode(RECEIPT_HEADER, value, crlf=command.endswith(b"\r"))
            if dialect.utf8:
                receipt.decode("utf-8")
        except (FrameError, UnicodeDecodeError):
            return None
        return receipt

    def _too_large(self) -> LimitError:
        return LimitError("body too large", f"the limit is {self.limits.body} bytes")

    def _unterminated(self, command: bytes, length: int) -> FrameError:
        if command not in BODIES:
            return FrameError(f"{command.decode()} must not have a body")
        return FrameError(
            "content-length does not fit the body",
            f"the octet after {length} bytes of body is not NUL",
        )

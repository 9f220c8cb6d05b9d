"""A frame as offsets into the chunk that carried it; nothing is copied until a caller asks for it. The module also has
the limits on sizes, the check of a head, and the reader of `content-length`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import FrameError, LimitError
from stomprelay.wire.names import UNESCAPED

_CR: Final = 13
_ORDINARY: Final = bytes(byte for byte in range(256) if byte not in b":\n\\\r\0")
CONTENT_LENGTH_LINE: Final = b"\ncontent-length:"


@dataclass(frozen=True)
class Limits:
    """A leg's limits: the header lines of a frame, the bytes of a header line, the bytes of a body (defaults:
    `config/stomprelay.toml`). The methods check heads. Their `head` and `body` are the offsets of `Frame`.
    """

    headers: int = 128
    header_line: int = 10240
    body: int = 16 * 1024 * 1024

    def examine(self, data: bytes, head: int, body: int, dialect: Dialect) -> bool:
        """Return whether the head is plain, see `Frame`. Raises `FrameError` or `LimitError` for an invalid head."""
        lines = data[head : body - 1]
        skeleton = lines.translate(None, _ORDINARY)
        if len(lines) > self.header_line and self.has_long_line(lines):
            raise self.too_long()
        if (lines[:1] == b":" or b"\n:" in lines) and dialect.strict:
            raise FrameError("empty header name")
        if dialect.utf8 and not lines.isascii():
            try:
                lines.decode("utf-8")
            except UnicodeDecodeError as error:
                raise FrameError("a header is not UTF-8", f"at octet {error.start} of the head") from None
        count = len(skeleton) // 2
        if count <= self.headers and skeleton == b":\n" * count:
            return not (
                dialect.padded and b" " in lines and (b": " in lines or b" \n" in lines or b" :" in lines)
            )
        self._examine_odd(lines, skeleton, dialect, crlf=data[head - 2] == _CR)
        return False

    def _examine_odd(self, lines: bytes, skeleton: bytes, dialect: Dialect, *, crlf: bool) -> None:
        """Check a head that is not plain, or has too many lines. Raises its error, if it has one."""
        if b"\0" in skeleton:
            raise FrameError("NUL in a frame's head")
        if skeleton.count(b"\n") > self.headers:
            raise self.too_many()
        if not dialect.strict:
            return
        if skeleton.endswith(b"\r"):
            if not (crlf or dialect.crlf):
                raise FrameError("malformed header line", "nothing but a carriage return")
            skeleton = skeleton[:-1]
            lines = lines[:-1]
        if b"\r" in skeleton and not dialect.raw_cr and lines.count(b"\r") != lines.count(b"\r\n"):
            raise FrameError("carriage return inside a header")
        colons = skeleton.translate(None, b"\\\r")
        if colons.startswith(b"\n") or b"\n\n" in colons:
            raise FrameError("malformed header line", "a header line has no colon")
        if dialect.reads and b"\\" in skeleton:
            undefined = dialect.undefined.search(lines.replace(b"\\\\", b""))
            if undefined:
                raise FrameError("undefined escape sequence in a header")

    @staticmethod
    def content_length(data: bytes, head: int, body: int, dialect: Dialect) -> int:
        """Return the value of `content-length`, -1 without this header. Raises `FrameError` if the header is repeated
        or its value is no number, `LimitError` for a number of more than 18 digits.
        """
        at = data.find(CONTENT_LENGTH_LINE, head - 1, body)
        if at < 0:
            return -1
        if data.find(CONTENT_LENGTH_LINE, at + 1, body) >= 0:
            raise FrameError("more than one content-length")
        at += len(CONTENT_LENGTH_LINE)
        digits = data[at : data.find(b"\n", at)]
        if not digits.isdigit():
            if digits.endswith(b"\r") and (dialect.crlf or data[head - 2] == _CR):
                digits = digits[:-1]
            if dialect.padded:
                digits = digits.strip(b" ")
            if not digits.isdigit():
                raise FrameError("content-length is not a number", "it says", quoted=digits)
        if len(digits) > 18:
            raise LimitError("body too large", "no body is that long")
        return int(digits)

    def has_long_line(self, lines: bytes, before: int = 0) -> bool:
        """Whether a line is longer than the limit. The first line has `before` more bytes in front of `lines`."""
        first, *others = map(len, lines.split(b"\n"))
        return max([before + first, *others]) > self.header_line

    def too_long(self) -> LimitError:
        """Return the error for a line that is longer than the limit."""
        return LimitError("header line too long", f"the limit is {self.header_line} bytes")

    def too_many(self) -> LimitError:
        """Return the error for more header lines than the limit."""
        return LimitError("too many headers", f"the limit is {self.headers}")


@dataclass(slots=True, eq=False, repr=False)
class Frame:
    """One frame of a chunk. Use it before the next chunk is fed, then drop it, because it keeps the whole chunk in
    memory.

    `data[start:after]`: the frame with its NUL and an LF behind it. `data[head:body]`: header lines and blank line.
    `data[body:end]`: the body. `plain`: the head has one colon a line, no backslash, no CR and no padding, so it means
    the same in every dialect. `memo`: `data[start:body]`, or None. Neighbours with equal heads share one `memo`.
    `trace`: set only if the frame is sent on with this trace. Then the journal records the frame with its trace.
    """

    command: bytes
    data: bytes
    start: int
    head: int
    body: int
    end: int
    after: int
    plain: bool
    memo: bytes | None = None
    trace: bytes = field(init=False)

    @property
    def wire(self) -> bytes:
        """The frame as it came, with its NUL and an LF directly behind the NUL, without further EOLs."""
        return self.data[self.start : self.after]

    @property
    def head_lines(self) -> bytes:
        """The header lines as they came, each with its line end, without the blank line."""
        return self.data[self.head : self.body - (2 if self.data[self.body - 2] == _CR else 1)]

    @property
    def payload(self) -> bytes:
        """The bytes of the body."""
        return self.data[self.body : self.end]

    @property
    def crlf(self) -> bool:
        """Whether the command line ended in CR LF."""
        return self.data[self.head - 2] == _CR

    def raw(self, name: bytes) -> bytes | None:
        """Return the first value of a header as it stands between colon and LF; None without this header."""
        data = self.data
        needle = b"\n%b:" % name
        at = data.find(needle, self.head - 1, self.body)
        if at < 0:
            return None
        at += len(needle)
        return data[at : data.find(b"\n", at)]

    def header(self, name: bytes, dialect: Dialect) -> bytes | None:
        """Return the first value of a header, decoded; None without this header."""
        value = self.raw(name)
        if value is None or (
            not dialect.padded and (self.plain or (b"\\" not in value and b"\r" not in value))
        ):
            return value
        return dialect.decode(name, value, crlf=self.crlf)

    def headers(self, dialect: Dialect) -> Headers:
        """Return all headers, decoded. `dialect`: that of the leg on which the frame came."""
        if self.plain:
            lines = self.data[self.head : self.body - 1].split(b"\n")[:-1]
            return [(name, value) for name, _, value in [line.partition(b":") for line in lines]]
        escaped = self.command not in UNESCAPED
        return dialect.read(self.head_lines, crlf=self.crlf, escaped=escaped)

    def with_lines(self, lines: bytes, *, body: bool = True) -> "Frame":
        """Return a new frame with these header lines in place of the old lines, without the body if `body` is False.
        `lines` begin with the LF of the command line and end with the LF of the blank line. If this frame is plain, the
        lines must be plain, too.
        """
        front = self.data[self.start : self.head - 1]
        rest = self.data[self.body : self.after] if body else b""
        at = len(front) + len(lines)
        end, after = (self.end - self.body, self.after - self.body) if body else (0, 0)
        data = b"".join((front, lines, rest))
        return Frame(self.command, data, 0, self.head - self.start, at, at + end, at + after, self.plain)

    def with_header(self, name: bytes, value: bytes) -> "Frame":
        """Return a new frame with one more header in front. Name and value must need no escapes in any dialect."""
        return self.with_lines(b"\n%b:%b%b" % (name, value, self.data[self.head - 1 : self.body]))

    def __repr__(self) -> str:
        """Command and size only: heads carry secrets."""
        return f"<{self.command.decode()} frame, {self.end + 1 - self.start} bytes>"


END: Final = b"\0\n"
"""The end of a broker's frames: NUL, and an LF that old clients wait for (not part of the frame: STOMP 1.2, BNF)."""


def compose(command: bytes, headers: Headers, dialect: Dialect, body: bytes = b"") -> bytes:
    """Return a whole frame for a client, in its dialect. A body with a NUL needs a `content-length` in `headers`."""
    return b"%b\n%b\n%b%b" % (command, dialect.write(headers), body, END)


def compose_raw(command: bytes, headers: Iterable[tuple[bytes, bytes]], end: bytes = END) -> bytes:
    """Return a CONNECT, STOMP or CONNECTED frame, unescaped. Raises `ValueError` for an LF or NUL in a header."""
    lines = [b":".join(pair) for pair in headers]
    head = b"\n".join((command, *lines, b"\n"))
    if head.count(b"\n") != len(lines) + 2 or b"\0" in head:
        raise ValueError(f"LF or NUL in a header of {command.decode()}")
    return head + end

"""Whether a frame's head is right, what it says of the body, and how large it may be."""

from dataclasses import dataclass
from typing import Final

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.errors import FrameError, LimitError


@dataclass(frozen=True)
class Limits:
    """A leg's limits: header lines a frame, bytes a header line, bytes a body. Defaults: `config/stomprelay.toml`."""

    headers: int = 128
    header_line: int = 10240
    body: int = 16 * 1024 * 1024


_ORDINARY: Final = bytes(byte for byte in range(256) if byte not in b":\n\\\r\0")
CONTENT_LENGTH_LINE: Final = b"\ncontent-length:"
_CR: Final = 13


class Head:
    """The examination of heads under some limits. Offsets are those of `Frame`."""

    __slots__ = ("_limits", "_plain")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._plain = b":\n" * limits.headers

    def examine(self, data: bytes, head: int, body: int, dialect: Dialect) -> bool:
        """Whether the head is plain, as `Frame` has it. Raises `FrameError` or `LimitError` for one that is wrong."""
        lines = data[head : body - 1]
        skeleton = lines.translate(None, _ORDINARY)
        if len(lines) > self._limits.header_line and self.has_long_line(lines):
            raise self.too_long()
        if (lines[:1] == b":" or b"\n:" in lines) and dialect.strict:
            raise FrameError("empty header name")
        if dialect.utf8 and not lines.isascii():
            _require_utf8(lines)
        if self._plain.startswith(skeleton):
            return not (
                dialect.padded and b" " in lines and (b": " in lines or b" \n" in lines or b" :" in lines)
            )
        self._examine_odd(lines, skeleton, dialect, crlf=data[head - 2] == _CR)
        return False

    def _examine_odd(self, lines: bytes, skeleton: bytes, dialect: Dialect, *, crlf: bool) -> None:
        """Raise what is wrong with a head that has more in it than ordinary bytes and one colon a line."""
        if b"\0" in skeleton:
            raise FrameError("NUL in a frame's head")
        if skeleton.count(b"\n") > self._limits.headers:
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
        """Return `content-length`, or -1. Raises `FrameError` for two of them or no digits, `LimitError` for too large
        a one.
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
        """Whether a line is over the limit, where so many bytes `before` these belong to the first of them."""
        first, *others = map(len, lines.split(b"\n"))
        return max([before + first, *others]) > self._limits.header_line

    def too_long(self) -> LimitError:
        """The error for a line that is over the limit."""
        return LimitError("header line too long", f"the limit is {self._limits.header_line} bytes")

    def too_many(self) -> LimitError:
        """The error for more lines than the limit."""
        return LimitError("too many headers", f"the limit is {self._limits.headers}")


def _require_utf8(lines: bytes) -> None:
    try:
        lines.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FrameError("a header is not UTF-8", f"at octet {error.start} of the head") from None

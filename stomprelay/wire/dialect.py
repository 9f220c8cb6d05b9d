"""What one STOMP version does on the wire, as a record of facts. Code reads the fact that it depends on, never the
version's name; a broker that departs from its version has a changed record (see `relay.model.profile`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import Final

from stomprelay.wire.errors import FrameError
from stomprelay.wire.names import (
    ACK_HEADER,
    CLIENT_COMMANDS,
    CONTENT_LENGTH,
    DESTINATION,
    HEART_BEAT,
    ID,
    MESSAGE_ID,
    NACK,
    RECEIPT_HEADER,
    RECEIPT_ID,
    SUBSCRIPTION,
    TRANSACTION,
)

Headers = list[tuple[bytes, bytes]]
"""Decoded (name, value) pairs in wire order; if a name is repeated, its first value counts."""

ESCAPES: Final = {b"\\": b"\\\\", b"\r": b"\\r", b"\n": b"\\n", b":": b"\\c"}
"""Every escape of STOMP: byte -> its spelling. The backslash comes first, because the other escapes contain it."""

_UNESCAPED: Final = bytes(byte for byte in range(256) if bytes([byte]) not in ESCAPES)

_LAST_CRS: Final = re.compile(rb"(?<!\r)\r++\Z")
_LINE_ENDS: Final = re.compile(rb"(?<!\r)(?:\r*+\n|\r++\Z)")
"""`_LAST_CRS` and `_LINE_ENDS` match only from the first of several CRs, so that each CR is looked at only once."""

_ESCAPE: Final = re.compile(rb"\\(.?)", re.DOTALL)
"""Matches a backslash and the byte behind it, if there is one."""

LETTERS: Final = {escape[1:]: byte for byte, escape in ESCAPES.items()}

PROTOCOL_HEADERS: Final = frozenset(
    {
        ACK_HEADER,
        CONTENT_LENGTH,
        DESTINATION,
        HEART_BEAT,
        ID,
        MESSAGE_ID,
        RECEIPT_HEADER,
        RECEIPT_ID,
        SUBSCRIPTION,
        TRANSACTION,
    },
)
"""Headers whose values in STOMP 1.0 may be padded at both ends. Values of other headers are padded only in front."""


class DeliveryNaming(Enum):
    """How an ACK names its MESSAGE."""

    MESSAGE_ID = "message-id"
    SUBSCRIPTION_AND_MESSAGE_ID = "subscription and message-id"
    ACK = "id, the MESSAGE's ack header"


@dataclass(frozen=True)
class Dialect:
    """The facts of one version, or of one broker's variant of it. `reads`: the bytes that are escaped in frames from
    such a peer. `writes`: the bytes that are escaped in frames to such a peer.
    """

    version: bytes
    reads: frozenset[bytes]
    writes: frozenset[bytes]
    padded: bool
    """Blanks after the colon are not part of the value (STOMP 1.0's examples are padded)."""
    crlf: bool
    """CR LF ends a line in every frame. False: only in a frame whose command line ends in CR LF."""
    raw_cr: bool
    """A CR that is not part of a line's end is a byte of the value."""
    named_subscriptions: bool
    """SUBSCRIBE must carry `id`; UNSUBSCRIBE and MESSAGE name the subscription by this id."""
    delivery: DeliveryNaming
    negotiates: bool
    """CONNECT and CONNECTED name versions."""
    heart_beats: bool
    """CONNECT and CONNECTED may agree on heart-beats."""
    commands: frozenset[bytes]
    """The commands that a broker of this dialect accepts from a connected client."""
    strict: bool = True
    """Errors in a head are fatal. False: undefined escapes stay as they are, and a line may have no colon."""
    keeps_undefined: bool = False
    """In a value, a backslash that begins no escape stands for itself. False: such a backslash is fatal."""
    escaped_names: bool = True
    """Header names are escaped as values are; ActiveMQ neither escapes nor unescapes them."""
    utf8: bool = False
    """Heads that are not UTF-8 are fatal."""
    trims_cr: bool = False
    """This broker does not read a CR at the end of a line as part of the value. It sends no lines with such a CR."""

    def __hash__(self) -> int:
        """Return equal hashes for equal dialects, without reading all facts."""
        return hash(self.version)

    @cached_property
    def single_escapes(self) -> tuple[tuple[bytes, bytes], ...]:
        """Each escape with the byte that it stands for, except a doubled backslash. For values without a doubled
        backslash these escapes are enough.
        """
        return tuple((ESCAPES[byte], byte) for byte in ESCAPES if byte != b"\\" and byte in self.reads)

    @cached_property
    def undefined(self) -> re.Pattern[bytes]:
        """Matches each undefined escape that is an error, in header lines without their doubled backslashes."""
        letters = b"".join(ESCAPES[byte][1:] for byte in self.reads if byte != b"\\")
        where = rb"(?m)^[^:\n]*" if self.keeps_undefined else b""
        return re.compile(where + (rb"\\(?![" + letters + rb"])" if letters else rb"\\"))

    def spell_out(self, lines: bytes) -> bytes:
        """Return the header lines. If the dialect accepts backslashes that begin no escape, these are doubled."""
        if not (self.strict and self.keeps_undefined and b"\\" in lines):
            return lines
        return _ESCAPE.sub(self._spelled_out, lines)

    def _spelled_out(self, match: re.Match[bytes]) -> bytes:
        defined = match[1] == b"\\" or LETTERS.get(match[1]) in self.reads
        return match[0] if defined else b"\\" + match[0]

    def decode(self, name: bytes, value: bytes, *, crlf: bool = False) -> bytes:
        """Return the decoded value. `crlf`: the command line ended in CR LF. Raises `FrameError` for a bad escape."""
        if (crlf or self.crlf or self.trims_cr) and value.endswith(b"\r"):
            value = value[:-1]
        if self.padded:
            value = value.strip(b" ") if name in PROTOCOL_HEADERS else value.lstrip(b" ")
        return self._unescape(value) if b"\\" in value and self.reads else value

    def spells_once(self, lines: bytes) -> bool:
        """Return whether raw values, with LFs between them, surely have the spelling of `encode`, for `decode_once`."""
        if b"\r" in lines or (self.padded and b" " in lines):
            return False
        if not self.reads:
            return True
        # Only values whose backslashes all begin the escape of a colon: peers rarely need another escape.
        if b":" in lines:
            return False
        return b"\\" not in lines or lines.count(b"\\") == lines.count(ESCAPES[b":"])

    def decode_once(self, lines: bytes) -> bytes:
        """Return raw values, with LFs between them, decoded all at once. `spells_once` must be True for each value."""
        return lines.replace(ESCAPES[b":"], b":") if self.reads else lines

    def decode_all(self, lines: bytes) -> list[bytes] | None:
        """Return raw values, each with an LF behind it, decoded; None if the caller has to decode them one by one."""
        if b"\\" in lines or b"\r" in lines or (self.padded and b" " in lines):
            if not self.spells_once(lines):
                return None
            lines = self.decode_once(lines)
        return lines.split(b"\n")[:-1]

    def _unescape(self, text: bytes) -> bytes:
        if b"\\\\" in text:
            return _ESCAPE.sub(self._unescaped, text)
        for escape, byte in self.single_escapes:
            text = text.replace(escape, byte)
        return _ESCAPE.sub(self._unescaped, text) if b"\\" in text else text

    def _unescaped(self, match: re.Match[bytes]) -> bytes:
        byte = LETTERS.get(match[1])
        if byte is not None and (byte in self.reads or not self.strict):
            return byte
        if self.strict and not self.keeps_undefined:
            raise FrameError("undefined escape sequence in a header", "not defined here", quoted=match[0])
        return match[0]

    def read(self, head: bytes, *, crlf: bool = False, escaped: bool = True) -> Headers:
        """Return the decoded headers of these header lines, in order. Pass `escaped=False` for CONNECT, STOMP and
        CONNECTED. Raises `FrameError` for a bad escape or a line without a colon.
        """
        lines = head.split(b"\n")[:-1]
        if escaped:
            return [self.read_line(line, crlf=crlf) for line in lines]
        return [self._split(line.removesuffix(b"\r")) for line in lines]

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        name, colon, value = line.partition(b":")
        if not colon:
            if not self.strict:
                return b"", line
            raise FrameError("malformed header line", "a header line has no colon")
        return name, value

    def read_line(self, line: bytes, *, crlf: bool = False) -> tuple[bytes, bytes]:
        """Return the name and the value of one header, from its line without the LF. Raises as `read` does."""
        name, value = self._split(line)
        if b"\\" in name and self.escaped_names and self.reads:
            name = self._unescape(name)
        return name, self.decode(name, value, crlf=crlf)

    def encode(self, text: bytes) -> bytes:
        """Return a name or a value in the spelling for a peer of this dialect."""
        if not text.translate(None, _UNESCAPED):
            return text
        for byte, escape in ESCAPES.items():
            if byte in self.writes and byte in text:
                text = text.replace(byte, escape)
        return text

    def spelled(self, text: bytes) -> bool:
        """Whether `encode` can return this text."""
        try:
            return self.encode(self._unescape(text)) == text
        except FrameError:
            return False

    def speakable(self, text: bytes) -> bool:
        """Whether a value can be written. An LF, or a CR at the end, needs an escape, which not every dialect has."""
        if b"\n" in text and b"\n" not in self.writes:
            return False
        return not (text.endswith(b"\r") and b"\r" not in self.writes)

    def replace_line_ends(self, value: bytes, replacement: Callable[[bytes], bytes]) -> bytes:
        """Return a `speakable` form of the value. `replacement` gets each line end that this dialect cannot express,
        with the CRs before it, and returns the text that replaces the line end.
        """
        if self.speakable(value):
            return value
        pattern = _LAST_CRS if b"\n" in self.writes else _LINE_ENDS
        return pattern.sub(lambda match: replacement(match[0]), value)

    def nameable(self, name: bytes) -> bool:
        """Whether a header name can be written."""
        if not name:
            return False
        if self.escaped_names and self.writes:
            return self.speakable(name)
        return b":" not in name and b"\n" not in name

    def write_line(self, name: bytes, value: bytes) -> bytes:
        """Return one header line without its LF. Check `speakable` first."""
        return b"%b:%b" % (self.encode(name) if self.escaped_names else name, self.encode(value))

    def write(self, headers: Headers) -> bytes:
        """Return the header lines that `write_line` makes of these headers, each with its LF."""
        return b"".join([self.write_line(name, value) + b"\n" for name, value in headers])


_ALL = frozenset(ESCAPES)

V1_0: Final = Dialect(
    version=b"1.0",
    reads=frozenset(),
    writes=frozenset(),
    padded=True,
    crlf=False,
    raw_cr=True,
    named_subscriptions=False,
    delivery=DeliveryNaming.MESSAGE_ID,
    negotiates=False,
    heart_beats=False,
    commands=CLIENT_COMMANDS - {NACK},
)
V1_1: Final = Dialect(
    version=b"1.1",
    reads=_ALL - {b"\r"},
    writes=_ALL - {b"\r"},
    padded=False,
    crlf=False,
    raw_cr=True,
    named_subscriptions=True,
    delivery=DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID,
    negotiates=True,
    heart_beats=True,
    commands=CLIENT_COMMANDS,
    keeps_undefined=True,
)
V1_2: Final = Dialect(
    version=b"1.2",
    reads=_ALL,
    writes=_ALL,
    padded=False,
    crlf=True,
    raw_cr=False,
    named_subscriptions=True,
    delivery=DeliveryNaming.ACK,
    negotiates=True,
    heart_beats=True,
    commands=CLIENT_COMMANDS,
)

DIALECTS: Final = {dialect.version: dialect for dialect in (V1_0, V1_1, V1_2)}
"""The dialects of the specifications by version, the lowest version first."""


def highest(offered: frozenset[bytes], spoken: frozenset[bytes]) -> Dialect | None:
    """Return the dialect of the highest version in both sets, or None."""
    both = offered & spoken
    return next((dialect for version, dialect in reversed(DIALECTS.items()) if version in both), None)


_UP_TO: Final = {version: frozenset(list(DIALECTS)[: number + 1]) for number, version in enumerate(DIALECTS)}


def up_to(dialect: Dialect) -> frozenset[bytes]:
    """Return this dialect's version and all lower versions."""
    return _UP_TO[dialect.version]


@lru_cache
def demanding_utf8(dialect: Dialect) -> Dialect:
    """Return the dialect for a peer whose heads have to be UTF-8."""
    return replace(dialect, utf8=True)

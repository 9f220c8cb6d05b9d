"""Messages, and the limits of the embedded broker. A message is read once, in the dialect of its sender, and written in
the dialect of each consumer. A head that is the same in every dialect is kept as bytes.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import LimitError, ProtocolError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import DESTINATION, RECEIPT_HEADER, RESERVED, TRANSACTION

QUEUE: Final = b"/queue/"
TOPIC: Final = b"/topic/"

_OURS: Final = frozenset({DESTINATION, RECEIPT_HEADER, TRANSACTION, *RESERVED})
"""Headers of a SEND that consumers do not get: requests to the broker, or headers that only a broker may set."""

_OUR_LINES: Final = re.compile(rb"\n(?:%b):[^\n]*" % b"|".join(sorted(_OURS)))

_OVERHEAD: Final = 512
"""The approximate number of bytes for keeping a message, in addition to its head and body."""


@dataclass(frozen=True)
class Bounds:
    """A broker's limits, each at least 1; sizes in bytes. A client that exceeds a limit is disconnected with an ERROR.

    `memory`: all kept messages. `queue_messages`, `queue_bytes`: of one queue. `topic_messages`, `topic_bytes`: of one
    slow subscriber. `subscriptions`, `transactions`: of one connection. `transaction_frames`: of one transaction.
    `prefetch`: unacknowledged messages of a consumer whose SUBSCRIBE has no number. `refusals`: after so many NACKs a
    message becomes a dead letter. `headers`, `header_line`, `body`: of one frame. `before_connect`: bytes until CONNECT
    is complete. `connect_timeout`: seconds until CONNECT is complete. `burst`: bytes of messages written at once.
    `unread`: with more bytes of waiting receipts the broker stops reading from the client.
    """

    memory: int = 256 * 1024 * 1024
    queue_messages: int = 100_000
    queue_bytes: int = 128 * 1024 * 1024
    topic_messages: int = 10_000
    topic_bytes: int = 32 * 1024 * 1024
    subscriptions: int = 1000
    transactions: int = 100
    transaction_frames: int = 10_000
    prefetch: int = 1000
    refusals: int = 5
    headers: int = Limits.headers
    header_line: int = Limits.header_line
    body: int = Limits.body
    before_connect: int = 65536
    connect_timeout: float = 10.0
    burst: int = 256 * 1024
    unread: int = 1024 * 1024


DEFAULTS: Final = Bounds()


def require_destination(name: bytes | None, command: str) -> bytes:
    """Return the name if it is a valid destination; otherwise raise `ProtocolError`."""
    if name is None:
        raise ProtocolError(f"{command} needs a destination header")
    if name in (b"", QUEUE, TOPIC):
        shown = name.decode()
        raise ProtocolError("invalid destination", f"{shown!r} names none; /queue/a and /topic/a would")
    return name


@dataclass(slots=True, eq=False, repr=False)
class MessageHead:
    """The head of a SEND: destination, receipt, transaction, and the message's headers. If the headers have the same
    bytes in every dialect, `lines` has these bytes. Otherwise `lines` is None, and `written` makes the bytes. `size` is
    in bytes.
    """

    destination: bytes
    lines: bytes | None
    _headers: Headers
    receipt: bytes | None = None
    transaction: bytes | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = _OVERHEAD + len(self.destination) + len(self.lines or b"")
        self.size += sum(len(name) + len(value) for name, value in self._headers)

    @classmethod
    def read(cls, frame: Frame, dialect: Dialect) -> "MessageHead":
        """Return the head of a SEND. Raises `ProtocolError` if the frame has no usable destination."""
        destination = require_destination(frame.header(DESTINATION, dialect), "SEND")
        lines: bytes | None = None
        headers: Headers = []
        if frame.plain:
            lines = _OUR_LINES.sub(b"", frame.data[frame.head - 1 : frame.body])[1:]
        else:
            headers = [pair for pair in frame.headers(dialect) if pair[0] not in _OURS]
        receipt = frame.header(RECEIPT_HEADER, dialect)
        return cls(destination, lines, headers, receipt, frame.header(TRANSACTION, dialect))

    def moved(self, destination: bytes, name: bytes, value: bytes) -> "MessageHead":
        """Return the head for another destination, with one more header in front."""
        if self.lines is not None:
            return MessageHead(destination, b"%b:%b\n%b" % (name, value, self.lines), [])
        return MessageHead(destination, None, [(name, value), *self._headers])

    def written(self, dialect: Dialect) -> bytes:
        """Return the header lines and the blank line for a dialect. If the dialect cannot express a line end in a
        value, a blank replaces it. A header whose name the dialect cannot express is left out.
        """
        if self.lines is not None:
            return self.lines
        headers = [
            (name, dialect.replace_line_ends(value, _blank))
            for name, value in self._headers
            if dialect.nameable(name)
        ]
        return dialect.write(headers) + b"\n"


def _blank(line_end: bytes) -> bytes:
    """Return a line end with a blank in place of its LF. Without an LF, each CR becomes a blank."""
    if line_end.endswith(b"\n"):
        return line_end[:-1] + b" "
    return b" " * len(line_end)


@dataclass(slots=True, eq=False, repr=False)
class Message:
    """One message. `body` ends in the frame's `END`. `places`: how many places keep the message, see `Memory`."""

    id: bytes
    head: MessageHead
    body: bytes
    places: int = 0

    @property
    def size(self) -> int:
        """The approximate number of bytes of memory for keeping the message."""
        return self.head.size + len(self.body)


class Memory:
    """Counts the bytes of kept messages: `used`, at most `most`. A message counts once, even if it is kept in several
    places. Each place has to call `hold`, and later `release`.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    def fits(self, message: Message) -> bool:
        """Return whether a message can be held within the bound."""
        return message.places > 0 or self.used + message.size <= self.most

    def admit(self, message: Message) -> None:
        """Raise `LimitError` if a message cannot be held within the bound."""
        if not self.fits(message):
            raise LimitError("the broker's memory is full", f"it keeps messages of {self.most} bytes at most")

    def hold(self, message: Message) -> None:
        """Count one more place that keeps the message. Call `admit` or `fits` first."""
        message.places += 1
        if message.places == 1:
            self.used += message.size

    def release(self, message: Message) -> None:
        """Record that one place keeps the message no more. When no place keeps it, its bytes are no longer counted."""
        message.places -= 1
        if not message.places:
            self.used -= message.size

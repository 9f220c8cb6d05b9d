"""What is sent: read once in its sender's dialect, written in each consumer's.

A plain head says the same in every dialect, so its lines are kept as they came; any other is kept decoded.
"""

import re
from typing import Final

from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DESTINATION, RECEIPT_HEADER, RESERVED, TRANSACTION

QUEUE: Final = b"/queue/"
TOPIC: Final = b"/topic/"

_OURS: Final = frozenset({DESTINATION, RECEIPT_HEADER, TRANSACTION, *RESERVED})
"""Headers of a SEND that are not the message's: what they ask of the broker, and what only a broker may say."""

_OUR_LINES: Final = re.compile(rb"\n(?:%b):[^\n]*" % b"|".join(sorted(_OURS)))

_OVERHEAD: Final = 512
"""What keeping a message costs beside its octets, about."""


def require_destination(name: bytes | None, command: str) -> bytes:
    """The name, if a message can be sent there. Raises `ProtocolError`."""
    if name is None:
        raise ProtocolError(f"{command} needs a destination header")
    if name in (b"", QUEUE, TOPIC):
        shown = name.decode()
        raise ProtocolError("invalid destination", f"{shown!r} names none; /queue/a and /topic/a would")
    return name


class Head:
    """What the head of a SEND says: where to, what the broker is asked, and the headers of the message itself.

    `lines` are the message's header lines with the blank one behind them, the same in every dialect; None where
    they are not, for which `written` asks.
    """

    __slots__ = ("_headers", "_written", "destination", "lines", "receipt", "size", "transaction")

    def __init__(self, destination: bytes, lines: bytes | None, headers: Headers) -> None:
        self.destination = destination
        self.lines = lines
        self.receipt: bytes | None = None
        self.transaction: bytes | None = None
        self._headers = headers
        self._written: tuple[Dialect, bytes] | None = None
        self.size = _OVERHEAD + len(destination)
        self.size += sum(len(name) + len(value) for name, value in headers) if lines is None else len(lines)

    @classmethod
    def read(cls, frame: Frame, dialect: Dialect) -> "Head":
        """The head of a SEND. Raises `ProtocolError` when it has no usable destination."""
        destination = require_destination(frame.header(DESTINATION, dialect), "SEND")
        if frame.plain:
            head = cls(destination, _OUR_LINES.sub(b"", frame.data[frame.head - 1 : frame.body])[1:], [])
        else:
            headers = frame.headers(dialect)
            head = cls(destination, None, [pair for pair in headers if pair[0] not in _OURS])
        head.receipt = frame.header(RECEIPT_HEADER, dialect)
        head.transaction = frame.header(TRANSACTION, dialect)
        return head

    def moved(self, destination: bytes, name: bytes, value: bytes) -> "Head":
        """The same head for another destination, with one more header in front."""
        if self.lines is not None:
            return Head(destination, b"%b:%b\n%b" % (name, value, self.lines), [])
        return Head(destination, None, [(name, value), *self._headers])

    def written(self, dialect: Dialect) -> bytes:
        """The header lines and the blank one as they are spelled in a dialect.

        In a value that cannot be said each LF, and each CR that would end the line, becomes a blank; a header
        whose name cannot be said is left out.
        """
        if self.lines is not None:
            return self.lines
        if self._written is None or self._written[0] is not dialect:
            self._written = dialect, dialect.write(self._sayable(dialect)) + b"\n"
        return self._written[1]

    def _sayable(self, dialect: Dialect) -> Headers:
        sayable = []
        for name, value in self._headers:
            if not dialect.nameable(name):
                continue
            said = value
            if not dialect.speakable(said) and b"\n" not in dialect.writes:
                said = said.replace(b"\n", b" ")
            if not dialect.speakable(said):
                kept = said.rstrip(b"\r")
                said = kept + b" " * (len(said) - len(kept))
            sayable.append((name, said))
        return sayable


class Message:
    """One message. `body` ends in the frame's `END`; `holds` counts the places that keep it (see `Memory`)."""

    __slots__ = ("body", "head", "holds", "id")

    def __init__(self, id: bytes, head: Head, body: bytes) -> None:
        self.id = id
        self.head = head
        self.body = body
        self.holds = 0

    @property
    def size(self) -> int:
        """The octets that keeping it takes."""
        return self.head.size + len(self.body)

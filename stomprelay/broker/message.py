"""A message: read once in its sender's dialect (a plain head is kept as it is), written in each consumer's."""

import re
from typing import Final

from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DESTINATION, RECEIPT_HEADER, RESERVED, TRANSACTION

QUEUE: Final = b"/queue/"
TOPIC: Final = b"/topic/"

_OURS: Final = frozenset({DESTINATION, RECEIPT_HEADER, TRANSACTION, *RESERVED})
"""Headers of a SEND that are requests to the broker, or that only a broker may set."""

_OUR_LINES: Final = re.compile(rb"\n(?:%b):[^\n]*" % b"|".join(sorted(_OURS)))

_OVERHEAD: Final = 512
"""The approximate overhead in bytes of keeping a message."""


def require_destination(name: bytes | None, command: str) -> bytes:
    """Return the name if it is one of a destination; raise `ProtocolError` otherwise."""
    if name is None:
        raise ProtocolError(f"{command} needs a destination header")
    if name in (b"", QUEUE, TOPIC):
        shown = name.decode()
        raise ProtocolError("invalid destination", f"{shown!r} names none; /queue/a and /topic/a would")
    return name


class MessageHead:
    """The head of a SEND: destination, receipt, transaction, and the message's headers. `lines`: those as bytes if they
    are the same in every dialect, otherwise None; see `written`. `size` is in bytes.
    """

    __slots__ = ("_headers", "_written", "destination", "lines", "receipt", "size", "transaction")

    def __init__(
        self,
        destination: bytes,
        lines: bytes | None,
        headers: Headers,
        receipt: bytes | None = None,
        transaction: bytes | None = None,
    ) -> None:
        self.destination = destination
        self.lines = lines
        self.receipt = receipt
        self.transaction = transaction
        self._headers = headers
        self._written: tuple[Dialect, bytes] | None = None
        self.size = _OVERHEAD + len(destination)
        self.size += sum(len(name) + len(value) for name, value in headers) if lines is None else len(lines)

    @classmethod
    def read(cls, frame: Frame, dialect: Dialect) -> "MessageHead":
        """Return the head of a SEND. Raises `ProtocolError` if it has no usable destination."""
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
        """Return the header lines and the blank line for a dialect. Line ends in a value that it cannot spell become
        blanks; a header whose name it cannot spell is left out.
        """
        if self.lines is not None:
            return self.lines
        if self._written is None or self._written[0] is not dialect:
            headers = [
                (name, dialect.replace_line_ends(value, _blank))
                for name, value in self._headers
                if dialect.nameable(name)
            ]
            self._written = dialect, dialect.write(headers) + b"\n"
        return self._written[1]


def _blank(line_end: bytes) -> bytes:
    """Return the CRs of a line end with a blank in place of its LF: without the LF they end no line."""
    if line_end.endswith(b"\n"):
        return line_end[:-1] + b" "
    return b" " * len(line_end)


class Message:
    """One message. `body` ends in the frame's `END`; `held`: at least one place keeps it (see `bounds.Memory`)."""

    __slots__ = ("_holders", "body", "head", "id")

    def __init__(self, id: bytes, head: MessageHead, body: bytes) -> None:
        self.id = id
        self.head = head
        self.body = body
        self._holders = 0

    @property
    def size(self) -> int:
        """The approximate number of bytes of memory for keeping it."""
        return self.head.size + len(self.body)

    @property
    def held(self) -> bool:
        """Whether at least one place keeps it."""
        return self._holders > 0

    def hold(self) -> bool:
        """Count one more place that keeps it. Return whether it is the first."""
        self._holders += 1
        return self._holders == 1

    def release(self) -> bool:
        """Count one place fewer that keeps it. Return whether it was the last."""
        self._holders -= 1
        return self._holders == 0

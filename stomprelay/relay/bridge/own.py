"""What relays put into clients' SENDs for themselves: `receipt` and `relay-trace`. Brokers hand it on in MESSAGEs, so
every relay takes it out there, whichever relay put it in. A trace is unique to a SEND, and put in first; the journal
recognises the SEND by it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.session.session import Session
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import MESSAGE, RECEIPT_HEADER, SEND

TRACE: Final = b"relay-trace"
"""The header's name."""
RECEIPTS: Final = b"-receipt-"
"""In the middle of the relay's own receipt ids, between the session's name (`relay-...`) and a number."""

OWN: Final = TRACE, b"%b:relay-" % RECEIPT_HEADER
"""Headers, as `Rule` has them, one of which is in each MESSAGE that something is taken out of."""

_LINES: Final = re.compile(
    rb"\n(?:%b:[^\n]*|%b:relay-[\w-]+%b[0-9]+\r?)(?=\n)" % (TRACE, RECEIPT_HEADER, RECEIPTS)
)


class ToClient(Bridge):
    """A bridge to a client: what a relay put into a MESSAGE for itself is taken out before anything else is done."""

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """As `Bridge.head`."""
        if frame.command is not MESSAGE:
            return super().head(frame, session)
        data, start, body = frame.data, frame.head - 1, frame.body
        bare = frame
        if _LINES.search(data, start, body):
            bare = frame.with_lines(_LINES.sub(b"", data[start:body]), body=False)
        head = None
        if self.judges or (self.tracked and session.subscriptions.acknowledging):
            head = super().head(bare, session)
        return bare.data if head is None and bare is not frame else head


_NEEDLE: Final = b"\n%b:" % TRACE
_LINE: Final = re.compile(rb"\n%b:[^\n]*" % TRACE)

Headed = Callable[[Frame], bytes | None]
"""What becomes of a frame's head, see `NewHead`."""


class Tracer:
    """Marks the SENDs of the session with this name, numbered from 1."""

    __slots__ = ("_name", "_number")

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._number = 0

    def _marked(self, frame: Frame) -> bytes:
        """The header lines of a SEND, with a trace of their own, from the LF of the command line on."""
        self._number += 1
        trace = b"%b-%d" % (self._name, self._number)
        frame.mark(trace)
        lines = frame.data[frame.head - 1 : frame.body]
        return b"%b%b%b" % (_NEEDLE, trace, _LINE.sub(b"", lines) if _NEEDLE in lines else lines)

    def frames(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield a client's frames, each SEND with a trace, in bytes of its own."""
        for frame in frames:
            yield frame.with_lines(self._marked(frame)) if frame.command is SEND else frame

    def headed(self, headed: Headed) -> Headed:
        """The same for `carry`, which wants no more than heads."""

        def traced(frame: Frame) -> bytes | None:
            if frame.command is not SEND:
                return headed(frame)
            marked = frame.with_lines(self._marked(frame), body=False)
            head = headed(marked)
            return marked.data if head is None else head

        return traced

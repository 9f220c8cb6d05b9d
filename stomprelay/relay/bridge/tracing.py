"""What a tracing listener adds to messages, so that the journal shows which SEND a MESSAGE was.

Each SEND gets a `relay-trace` header whose value no other SEND has, before anything else is done with it: so it is
part of what is kept, copied and sent again. MESSAGEs lose the header on their way to a client. Its bytes are those of
the session's name, a dash and digits, which every version spells alike.
"""

import re
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.session.session import Session
from stomprelay.wire.dialect import Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import MESSAGE, SEND

TRACE: Final = b"relay-trace"
"""The header's name."""

_NEEDLE: Final = b"\n%b:" % TRACE
_LINE: Final = re.compile(rb"\n%b:[^\n]*" % TRACE)

Headed = Callable[[Frame, Bridge], bytes | None]
"""What becomes of a frame's head, see `carry`."""


def _lines(frame: Frame) -> bytes:
    """The header lines and the blank line, behind the LF of the command line, without traces that others wrote."""
    lines = frame.data[frame.head - 1 : frame.body]
    return _LINE.sub(b"", lines) if _NEEDLE in lines else lines


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
        return b"%b%b%b" % (_NEEDLE, trace, _lines(frame))

    def frames(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """The same frames of a client's leg, the SENDs as if the client had sent them with a trace; in bytes of their
        own.
        """
        for frame in frames:
            yield frame.with_lines(self._marked(frame)) if frame.command is SEND else frame

    def headed(self, headed: Headed) -> Headed:
        """The same for `carry`, which wants no more than heads."""

        def traced(frame: Frame, bridge: Bridge) -> bytes | None:
            if frame.command is not SEND:
                return headed(frame, bridge)
            marked = frame.with_lines(self._marked(frame), body=False)
            head = headed(marked, bridge)
            return marked.data if head is None else head

        return traced


class Untracing(Bridge):
    """A bridge to a client whose listener traces: a MESSAGE leaves its trace behind before anything else is done."""

    takes_out: ClassVar[tuple[bytes, ...]] = (TRACE,)

    def __init__(self, source: Dialect, target: Dialect, loss: LossPolicy, *, tracked: bool) -> None:
        super().__init__(source, target, loss, tracked=tracked)
        self._passes = MESSAGE in self.untouched
        self.untouched = frozenset()

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """As `Bridge.head`."""
        if frame.command is not MESSAGE:
            return super().head(frame, session)
        bare = frame
        if frame.data.find(_NEEDLE, frame.head - 1, frame.body) >= 0:
            bare = frame.with_lines(_lines(frame), body=False)
        head = None
        if not self._passes or session.subscriptions.acknowledging:
            head = super().head(bare, session)
        return bare.data if head is None and bare is not frame else head

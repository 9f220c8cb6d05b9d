"""Frames on their way into one write: the only place where slices of chunks are joined."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from stomprelay.relay.effects import Outbox, answered
from stomprelay.session.leg import Leg
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import DISCONNECT, RECEIPT, RECEIPT_ID
from stomprelay.wire.run import Run

NewHead = Callable[[Frame], bytes | None]
"""Returns a frame's new head; None: it passes as it came; `NOTHING`: it does not pass; `NO_MORE`: nor is any frame
behind it looked at. May raise `StompError`.
"""

NOTHING: Final = b""
NO_MORE: Final = bytes(bytearray(b"\0"))
"""Known by its identity, as no head is it."""

TURN: Final = 512
"""The frames of one leg in one turn, some milliseconds' work, so that no peer holds up the others."""


class Joiner:
    """Collects what is written to one leg, in as few slices as possible. Call `carry`, `add` and `write`, then
    `take`.
    """

    __slots__ = ("_data", "_done", "_start", "_stop", "frames")

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._data = b""
        self._start = self._stop = 0
        self.frames = 0
        """How many frames the last `carry` looked at."""

    def carry(self, frames: Iterator[Frame | Run], new_head: NewHead) -> None:
        """Add frames, up to a DISCONNECT. Raises as `frames` and `new_head`; the frames before the error are added."""
        count = 0
        data, stop = self._data, self._stop
        try:
            for found in frames:
                frame = found
                if type(found) is Run:
                    count += found.count
                    frame = found.instead or found
                    head = NOTHING if found.rule.stays else None
                else:
                    count += 1
                    head = new_head(found)
                if head is None and frame.start == stop and frame.data is data:
                    stop = frame.after
                elif head is None and not stop:
                    data, self._start, stop = frame.data, frame.start, frame.after
                    self._data = data
                elif head is NO_MORE:
                    break
                elif head is None or head:
                    self._stop = stop
                    self.add(frame, head)
                    data, stop = self._data, self._stop
                if frame.command is DISCONNECT:
                    break
        finally:
            self._stop = stop
            self.frames = count

    def add(self, frame: Frame | Run, head: bytes | None, extra: bytes = b"") -> None:
        """Put in a frame, with another `head` unless that is None, and the header lines `extra` in front (a run's last
        frame gets them).
        """
        if type(frame) is Run:
            frame = frame.instead or frame
        data = self._data
        if frame.data is not data or frame.start != self._stop:
            if self._stop > self._start:
                self._end()
            data = self._data = frame.data
            self._start = frame.start
        if head is not None:
            assert type(frame) is not Run
            if extra:
                at = head.find(b"\n") + 1
                head = head[:at] + extra + head[at:]
            self._done += (data[self._start : frame.start], head)
            self._start = frame.body
        elif extra:
            self._done += (data[self._start : frame.head], extra)
            self._start = frame.head
        self._stop = frame.after

    def write(self, wire: bytes) -> None:
        """Put in whole frames of the relay's own."""
        self._end()
        self._done.append(wire)

    def take(self, *, trails: bool = False) -> bytes:
        """Return and forget everything that was collected. If the peer `trails` and the LF behind its last frame has
        not come, add it: clients may wait for it.
        """
        data, start, stop, done = self._data, self._start, self._stop, self._done
        if trails and stop and stop == len(data) and data[-1] == 0:
            self.write(b"\n")
        elif not done:
            self._data = b""
            self._start = self._stop = 0
            return data[start:stop]  # a whole chunk is not copied by that
        else:
            self._end()
        self.clear()
        return b"".join(done)

    def _end(self) -> None:
        """Append the slice that passes unchanged, if there is one."""
        if self._stop > self._start:
            self._done.append(self._data[self._start : self._stop])
        self._start = self._stop

    def clear(self) -> None:
        """Forget what was collected: it must not be written."""
        self._done = []
        self._data = b""
        self._start = self._stop = 0


def give_receipts(receipts: Sequence[bytes], client: Leg, outbox: Outbox, now: float) -> None:
    """Write a RECEIPT frame for each of these ids, if the client is connected."""
    if receipts and not client.gone:
        frames = [compose(RECEIPT, [(RECEIPT_ID, each)], client.dialect) for each in receipts]
        outbox.send(client, b"".join(frames), now)
        outbox.put(*answered(receipts))

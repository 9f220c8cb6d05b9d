"""What came on one leg since it was looked at last, and what of it is recorded."""

from collections.abc import Sequence

from stomprelay.journal.capture import Capture, traced
from stomprelay.session.leg import Leg
from stomprelay.wire.frame import Frame

Cut = tuple[int, Sequence[int], bytes]
"""The frames of this leg before a block, the sizes of its frames, and its payload, as in `block.encode`."""


class Tape:
    """The tape of a leg's decoder. Whenever frames were decoded, `cut` it, before the next chunk is fed.

    `traced`: the relay may have given frames a trace. `frames` are those since the last cut, `number` how many there
    were before them. `context` is what all of them have in common, in the words of whoever cuts.
    """

    __slots__ = ("_capture", "_heads_only", "_traced", "_uniform", "context", "frames", "leg", "number")

    def __init__(self, leg: Leg, capture: Capture, *, traced: bool = False) -> None:
        self.leg = leg
        self.frames: list[Frame] = []
        self.number = 0
        self.context = b""
        self._capture = capture
        self._traced = traced
        self._uniform = capture.uniform and not traced
        self._heads_only = self._uniform and not capture.bodies
        leg.decoder.tape = self.frames

    def cut(self) -> Cut:
        """The frames since the last cut."""
        frames, number = self.frames, self.number
        if self._heads_only and number and len(frames) == 1:
            frame = frames.pop()
            head = frame.memo or frame.data[frame.start : frame.body]
            self.number = number + 1
            return number, (len(head), 0, frame.end - frame.body), head
        pieces: list[bytes] = []
        sizes: list[int] = []
        if not number or not self._uniform:
            self._look(frames, pieces, sizes)
        elif most := self._capture.bodies:
            for frame in frames:
                body, end = frame.body, frame.end
                kept = min(end, body + most)
                pieces.append(frame.data[frame.start : kept])
                sizes += (body - frame.start, kept - body, end - body)
        else:
            for frame in frames:
                head = frame.memo or frame.data[frame.start : frame.body]
                pieces.append(head)
                sizes += (len(head), 0, frame.end - frame.body)
        self.number = number + len(frames)
        frames.clear()
        return number, sizes, pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _look(self, frames: list[Frame], pieces: list[bytes], sizes: list[int]) -> None:
        """Frames that are not all alike: a leg's first, and any that have to be looked into."""
        capture, dialect = self._capture, self.leg.dialect
        for number, frame in enumerate(frames, self.number):
            kept = min(frame.end, frame.body + capture.most(frame, dialect))
            head = capture.head(frame, opening=not number)
            trace = getattr(frame, "trace", None) if self._traced else None
            if trace is not None:
                head = traced(head, trace)
            pieces += (head, frame.data[frame.body : kept])
            sizes += (len(head), kept - frame.body, frame.end - frame.body)

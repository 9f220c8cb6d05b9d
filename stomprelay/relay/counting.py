"""Counts by destination. Above `LOOKS` frames a second only some are examined, and each of them counts for several."""

from collections.abc import Callable, Iterator
from typing import Final

from stomprelay.relay.model.counters import DestinationCounts, DestinationTally, Times
from stomprelay.session.session import Session
from stomprelay.wire.dialect import Dialect
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DESTINATION, MESSAGE, SEND
from stomprelay.wire.run import Passing, Run

LOOKS: Final = 1000
"""About how many frames are looked at in a second. A processor handles a thousand times as many frames."""
_FEWER: Final = 8
"""The factor by which fewer frames are looked at when there are too many. It is large, because one look costs as much
as passing many frames.
"""
TURN: Final = 60
"""Ticks after which the table gives places to other destinations."""
_SPREAD: Final = 40503
_ROUND: Final = 65536
"""`_SPREAD` and `_ROUND` vary the intervals, so that these do not keep step with a client that sends regularly."""


class DestinationCounter:
    """Counts the frames of all sessions of a process. Call `passed` for frames that pass, and `tick` once a second."""

    def __init__(self) -> None:
        self.table = DestinationCounts()
        self._every = self._interval = self._left = 1
        self._looks = self._number = self._ticks = 0

    def passed(self, found: Frame | Run, session: Session, dialect: Dialect, frames: int) -> int:
        """Count `frames` frames of a leg; `found` has the last. Call this again after the returned number of frames."""
        self._left -= frames
        if self._left > 0:
            return self._left
        stands_for = self._interval - self._left
        if type(found) is not Run:
            self._look(found, session, dialect, stands_for)
        elif found.command in (SEND, MESSAGE):
            if self._every == 1:
                for frame in found.frames(dialect):
                    self._look(frame, session, dialect, 1)
            else:
                self._look(found.last_frame(dialect), session, dialect, stands_for)
        if self._looks >= LOOKS:
            self._looks = 0
            self._every *= _FEWER
        if self._every > 1:
            self._number = (self._number + _SPREAD) % _ROUND
            self._interval = self._every // 2 + self._every * self._number // _ROUND
        else:
            self._interval = 1
        self._left = self._interval
        return self._left

    def _look(self, frame: Frame, session: Session, dialect: Dialect, stands_for: int) -> None:
        self._looks += 1
        sent = frame.command == SEND
        if not sent and frame.command != MESSAGE:
            return
        try:
            name = frame.header(DESTINATION, dialect)
        except StompError:
            name = frame.raw(DESTINATION)
        if name is None:
            return
        size = stands_for * (frame.after - frame.start)
        if sent:
            session.sends_to(name)
            self.table.count(name, DestinationTally(sends=stands_for, send_bytes=size))
        else:
            self.table.count(name, DestinationTally(messages=stands_for, message_bytes=size))

    def tick(self) -> None:
        """Call this once a second. It adjusts how many frames are looked at, and which destinations have places."""
        if self._looks < LOOKS // 4 and self._every > 1:
            self._every //= 2
            over = max(self._left - self._every, 0)
            self._left -= over
            self._interval -= over
        self._looks = 0
        self._ticks += 1
        if self._ticks % TURN == 0:
            self.table.turn()

    def counting(
        self, frames: Iterator[Frame | Run], session: Session, dialect: Dialect
    ) -> Iterator[Frame | Run]:
        """Yield the same frames, after counting each."""
        for found in frames:
            self.passed(found, session, dialect, found.count if type(found) is Run else 1)
            yield found


QUEUE: Final = b"/queue/"
"""How the destination of a queue begins. Messages that nobody reads wait in queues."""
_TO_QUEUE: Final = b"\ndestination:" + QUEUE
_HEAD: Final = 1024
_SMALL: Final = 2048
"""A run whose frames have more bytes than this on average is not searched as a whole."""


def _of_queues(run: Run) -> int:
    """Return how many frames of a run go to queues. In a run of large frames, the first and the last frame decide for
    all frames, if both go to queues or neither does.
    """
    if run.after - run.start > _SMALL * run.count:
        ends = [run.data.find(_TO_QUEUE, at, min(at + _HEAD, run.after)) >= 0 for at in (run.start, run.last)]
        if ends[0] is ends[1]:
            return run.count if ends[0] else 0
    return min(run.data.count(_TO_QUEUE, run.start, run.after), run.count)


def queue_runs(passing: Passing, count: Callable[[int], None]) -> Passing:
    """Return the same rules. `count` is called with the number of passing frames whose destination is a queue."""

    def takes(run: Run) -> bool:
        if not passing.takes(run):
            return False
        if run.rule.command in (SEND, MESSAGE):
            count(_of_queues(run))
        return True

    return Passing(passing.rules, takes)


def queue_frames(frames: Iterator[Frame | Run], count: Callable[[int], None]) -> Iterator[Frame | Run]:
    """Yield the same frames. `count` is called for each frame (not for runs): with 1 for a queue, otherwise with 0."""
    for found in frames:
        if type(found) is not Run and found.command in (SEND, MESSAGE):
            count(int((found.raw(DESTINATION) or b"").startswith(QUEUE)))
        yield found


class Tallies:
    """The counts of all sessions of a process: `times`, and frames by destination in `counter` if this is wanted."""

    def __init__(self) -> None:
        self.times = Times()
        self.counter: DestinationCounter | None = None

    def count_destinations(self) -> None:
        """Count frames by destination from now on. Then call `tick` once a second."""
        if self.counter is None:
            self.counter = DestinationCounter()

    def tick(self) -> None:
        """Call this once a second."""
        if self.counter is not None:
            self.counter.tick()

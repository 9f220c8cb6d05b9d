"""What waits to be written: records that the reactor's thread puts in, and the writer thread takes out as blocks."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from typing import Final, NamedTuple

from stomprelay.journal.block import SIZES, BlockKind, sealed

ENOUGH: Final = 1 << 18
"""Bytes with which the writer does not wait for more."""
BEYOND: Final = 4
"""So many times its room a queue takes that is not lossy: what was read already comes after reading was stopped."""
LEAST: Final = 64 << 20
"""Bytes that such a queue takes at any rate: one chunk read may be large."""

_FRAMES: Final = int(BlockKind.FRAMES)
_OVERHEAD: Final = 36
"""Bytes of a block beside its context, its sizes and its payload."""
_AT_ONCE: Final = 64
"""Blocks that are made in one go. Then the reactor's thread may have its turn."""
_YIELD: Final = 0.00001
"""Seconds of sleep that give it its turn."""

_Record = tuple[int, int, int, bytes, Sequence[int], bytes]


def _ignore() -> None:
    """Stands for a caller that need not know when the queue is full."""


class Batch(NamedTuple):
    """Whole blocks, one behind the other, and how many blocks and frames they are."""

    data: bytes
    blocks: int
    frames: int


class Dropped(NamedTuple):
    """How many blocks and frames were not written, and their `size` in bytes."""

    blocks: int = 0
    frames: int = 0
    size: int = 0

    def plus(self, blocks: int, frames: int, size: int) -> "Dropped":
        """The sum of these and those."""
        return Dropped(self.blocks + blocks, self.frames + frames, self.size + size)

    def since(self, before: "Dropped") -> "Dropped":
        """Those that were not among an earlier count."""
        return Dropped(self.blocks - before.blocks, self.frames - before.frames, self.size - before.size)


class JournalQueue:
    """A queue of blocks with `room` for so many bytes. A lossy one drops and counts what is more; one that is not
    calls `full` instead, and drops only what is far more. `clock` is the time of a block, in nanoseconds since 1970.

    One thread calls `put`, in which `full` is called; another one calls `wait`, `take` and, when what it took is
    written or given up, `done`. There is no lock: each step is one that Python does not divide.
    """

    __slots__ = (
        "_clock",
        "_done",
        "_enough",
        "_enough_there",
        "_enough_told",
        "_full",
        "_in",
        "_limit",
        "_some_there",
        "_some_told",
        "_taken",
        "_waiting",
        "dropped",
        "room",
    )

    def __init__(
        self,
        room: int,
        clock: Callable[[], int],
        *,
        lossy: bool = True,
        full: Callable[[], None] = _ignore,
    ) -> None:
        self.room = room
        self.dropped = Dropped()
        self._full = full
        self._clock = clock
        self._enough = min(ENOUGH, room // 4)
        self._limit = room if lossy else max(BEYOND * room, LEAST)
        self._waiting: deque[_Record] = deque()
        self._in = self._done = self._taken = 0
        self._some_there, self._enough_there = Event(), Event()
        self._some_told = self._enough_told = False

    @property
    def size(self) -> int:
        """Bytes that wait, those included that are being written."""
        return self._in - self._done

    def put(
        self, context: bytes, number: int, sizes: Sequence[int], payload: bytes, kind: int = _FRAMES
    ) -> None:
        """Have a block written; see `block.encode`. The hot path: the block itself is made by the other thread."""
        size = _OVERHEAD + len(context) + 4 * len(sizes) + len(payload)
        waiting = self._in - self._done
        if waiting >= self._limit:
            self.dropped = self.dropped.plus(1, len(sizes) // SIZES, size)
            return
        self._in += size
        self._waiting.append((kind, self._clock(), number, context, sizes, payload))
        if not self._some_told:
            self._some_told = True
            self._some_there.set()
        elif waiting > self._enough:
            if not self._enough_told:
                self._enough_told = True
                self._enough_there.set()
            if waiting + size >= self.room:
                self._full()

    def wake(self) -> None:
        """End a `wait` at once."""
        self._some_there.set()
        self._enough_there.set()

    def shut(self) -> None:
        """Drop whatever is put in from now on."""
        self._limit = 0

    # The other thread

    def wait(self, idle: float, gather: float) -> None:
        """Wait until there is something, or `idle` seconds passed; then `gather` seconds more, unless it is enough."""
        if self._some_there.wait(idle):
            self._enough_there.wait(gather)
        # First the events, then the flags: what is put in between sets the events again.
        self._some_there.clear()
        self._enough_there.clear()
        self._some_told = self._enough_told = False

    def take(self, most: int) -> Batch | None:
        """Blocks of about so many bytes, the oldest; None if there are none. Call `done` before the next `take`."""
        left = len(self._waiting)
        if not left:
            return None
        blocks: list[bytes] = []
        size = frames = 0
        following = self._waiting.popleft
        while left and size < most:
            several = min(left, _AT_ONCE)
            left -= several
            records = [following() for _ in range(several)]
            frames += sum([len(record[4]) for record in records])
            made = [sealed(*record) for record in records]
            size += sum(map(len, made))
            blocks += made
            if left:
                time.sleep(_YIELD)
        self._taken = size
        return Batch(b"".join(blocks), len(blocks), frames // SIZES)

    def done(self) -> None:
        """What was taken need not be kept any more."""
        self._done += self._taken
        self._taken = 0

"""What waits to be written: records that the reactor's thread puts in, and the writer thread takes out as blocks."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from typing import Final, NamedTuple

from stomprelay.journal.block import SIZES, BlockKind, sealed

ENOUGH: Final = 1 << 20
"""Bytes with which the writer does not wait for more."""
BEYOND: Final = 4
"""So many times its room a queue takes that is not lossy: what was read already comes after reading was stopped."""
LEAST: Final = 64 << 20
"""Bytes that such a queue takes at any rate: one chunk read may be large."""

_FRAMES: Final = int(BlockKind.FRAMES)
_OVERHEAD: Final = 36
"""Bytes of a block beside its context, its sizes and its payload."""
_AT_ONCE: Final = 64
"""Blocks that are encoded without a break. Then the writer thread sleeps, so that the reactor's thread can run."""
_YIELD: Final = 0.00001
"""Seconds that the writer thread sleeps then."""

_Record = tuple[int, int, int, bytes, Sequence[int], bytes]


def _ignore() -> None:
    """Do nothing: the default for `full`."""


class Batch(NamedTuple):
    """Encoded blocks back to back (`data`), and how many blocks and frames they are."""

    data: bytes
    blocks: int
    frames: int


class Dropped(NamedTuple):
    """How many blocks and frames were not written, and their `size` in bytes."""

    blocks: int = 0
    frames: int = 0
    size: int = 0

    def plus(self, blocks: int, frames: int, size: int) -> "Dropped":
        """Return these counts with more blocks, frames and bytes added."""
        return Dropped(self.blocks + blocks, self.frames + frames, self.size + size)

    def since(self, before: "Dropped") -> "Dropped":
        """Return these counts less those of `before`, an earlier count."""
        return Dropped(self.blocks - before.blocks, self.frames - before.frames, self.size - before.size)


class JournalQueue:
    """A queue of blocks with `room` for so many bytes. A lossy one drops and counts what is more; one that is not
    calls `full` instead, and drops only what is far more. `clock` returns the time of a block, in nanoseconds
    since 1970.

    One thread calls `put`, in which `full` is called; another one calls `wait`, `take` and, when what it took is
    written or given up, `done`. There is no lock: each step is one operation that Python does not interrupt.
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
        """The number of bytes that wait, those that are being written included."""
        return self._in - self._done

    def put(
        self, context: bytes, number: int, sizes: Sequence[int], payload: bytes, kind: int = _FRAMES
    ) -> None:
        """Put in the content of a block; for the arguments see `block.encode`. This is the hot path: the other
        thread encodes the block.
        """
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
        """Make a `wait` return at once. May be called from any thread."""
        self._some_there.set()
        self._enough_there.set()

    def shut(self) -> None:
        """Drop all blocks that are put in from now on."""
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
        """Return the oldest blocks, about `most` bytes of them; None if there are none. Call `done` before the
        next `take`.
        """
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
        """Forget what was taken last: it was written, or given up."""
        self._done += self._taken
        self._taken = 0

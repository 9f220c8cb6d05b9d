"""Blocks on their way to the disk: they are put in one by one and taken out as portions. This module limits how much
may wait, and wakes the thread that writes. The compiled `Portions` makes each block when it is put in, the class here
makes it when it is taken out; the blocks are the same.
"""

import time
from collections import deque
from collections.abc import Callable
from threading import Event
from typing import Final, NamedTuple

from stomprelay.journal.block import FRAME_SIZES, OVERHEAD, BlockKind, encode
from stomprelay.journal.capture import LegRecorder
from stomprelay.wire.decoder import compiled

_FRAMES: Final = int(BlockKind.FRAMES)
_AT_ONCE: Final = 64
"""Blocks that are encoded without a break. Then the writer thread sleeps, so that the reactor's thread can run."""
_YIELD: Final = 0.00001
"""Seconds that the writer thread sleeps after `_AT_ONCE` blocks."""

_Record = tuple[int, int, int, bytes, bytes, bytes]


class EncodedBlocks(NamedTuple):
    """Encoded blocks back to back (`data`), and how many blocks and frames they are."""

    data: bytes | memoryview
    blocks: int
    frames: int


class Portions:
    """Blocks in their order, in portions of `most` bytes, or of one larger block. `clock`: nanoseconds since 1970. At
    `limit` bytes a further block is not kept: `refused` gets its number of frames and its size. At `mark` bytes
    `reached` is called. One thread calls `put`, another one `take` and `done`, without a lock: each step is one
    operation for Python.
    """

    def __init__(
        self,
        most: int,
        clock: Callable[[], int],
        reached: Callable[[], None],
        refused: Callable[[int, int], None],
    ) -> None:
        self.limit = self.mark = 0
        self._most = most
        self._clock = clock
        self._reached = reached
        self._refused = refused
        self._waiting: deque[_Record] = deque()
        self._in = self._done = self._taken = 0

    @property
    def size(self) -> int:
        """The number of waiting bytes, including those that are being written."""
        return self._in - self._done

    def put(self, context: bytes, number: int, sizes: bytes, payload: bytes, kind: int = _FRAMES) -> None:
        """Put in the content of a block, as for `block.encode`. This is the hot path."""
        size = OVERHEAD + len(context) + len(sizes) + len(payload)
        if self._in - self._done >= self.limit:
            self._refused(len(sizes) // FRAME_SIZES, size)
            return
        self._in += size
        self._waiting.append((kind, self._clock(), number, context, sizes, payload))
        if self._in - self._done >= self.mark:
            self._reached()

    def record(self, recorder: LegRecorder) -> None:
        """Add the content of a leg's recorder, if there is any. The recorder's `context` must be set."""
        if recorder.frames:
            self.put(recorder.context, *recorder.take())

    def take(self, whole: bool = False) -> EncodedBlocks | None:
        """Return the oldest portion; None if there is none. `whole`: return None also if no other portion follows. The
        data is valid until `done` is called.
        """
        waiting = self._waiting
        left = len(waiting)
        if not left or (whole and self.size <= self._most):
            return None
        blocks: list[bytes] = []
        size = frames = 0
        while left and size < self._most:
            for _ in range(min(left, _AT_ONCE)):
                _, _, _, context, sizes, payload = record = waiting[0]
                size += OVERHEAD + len(context) + len(sizes) + len(payload)
                if blocks and size > self._most:
                    break
                waiting.popleft()
                left -= 1
                frames += len(sizes) // FRAME_SIZES
                blocks.append(encode(*record))
            else:
                if left:
                    time.sleep(_YIELD)
        data = b"".join(blocks)
        self._taken = len(data)
        return EncodedBlocks(data, len(blocks), frames)

    def done(self) -> None:
        """Forget the last portion that was taken: it was written or given up."""
        self._done += self._taken
        self._taken = 0


_compiled: Final = compiled("stomprelay.service.journal._portions")
PORTIONS: Final[type[Portions]] = Portions if _compiled is None else _compiled.Portions
"""The compiled twin; `Portions` itself if the twin is not built or not wanted."""

ENOUGH: Final = 4 << 20
"""If so many bytes wait, the writer does not wait for more."""
PORTION: Final = 4 << 20
"""Bytes that are written at once. The system uses huge pages only for memory that consists of whole huge pages."""
BEYOND: Final = 4
"""A queue that is not lossy takes up to so many times its room. When reading stops, bytes that were received before
still have to be recorded.
"""
LEAST: Final = 64 << 20
"""A queue that is not lossy takes at least so many bytes, because a single chunk may be large."""


class Dropped(NamedTuple):
    """The number of blocks and frames that were not written, and their `size` in bytes."""

    blocks: int = 0
    frames: int = 0
    size: int = 0

    def plus(self, blocks: int, frames: int, size: int) -> "Dropped":
        """Return these counts with more blocks, frames and bytes added."""
        return Dropped(self.blocks + blocks, self.frames + frames, self.size + size)

    def since(self, before: "Dropped") -> "Dropped":
        """Return these counts minus `before`, an earlier count."""
        return Dropped(self.blocks - before.blocks, self.frames - before.frames, self.size - before.size)


class JournalQueue(PORTIONS):  # type: ignore[misc, valid-type]
    """A queue of portions, with `room` for so many bytes. If it is full, a lossy queue drops further blocks. A queue
    that is not lossy then calls `full`, and drops blocks only when it is far over its room. `dropped` counts all drops.
    `told` counts the drops that the journal has reported in events. `dropped_since` is the time of the first drop that
    is not reported. One thread calls `put` and `record`. Another thread calls `wait`, `take` and `done`.
    """

    size: int

    def __init__(
        self,
        room: int,
        clock: Callable[[], int],
        *,
        lossy: bool = True,
        full: Callable[[], None] = lambda: None,
        portion: int = PORTION,
    ) -> None:
        self.room = room
        self.dropped = self.told = Dropped()
        self.dropped_since = 0
        self._time = clock
        self._full = (lambda: None) if lossy else full
        self._enough = min(ENOUGH, room // 4)
        super().__init__(portion, clock, self._wake_writer, self._drop)
        self.limit = room if lossy else max(BEYOND * room, LEAST)
        self._some_there, self._enough_there = Event(), Event()
        self._some_told = self._enough_told = False

    def _wake_writer(self) -> None:
        """Wake the writing thread, from the first waiting block on."""
        size = self.size
        # First the mark, then the events: the other thread may run in between.
        self.mark = self._enough if size < self._enough else self.room
        if not self._some_told:
            self._some_told = True
            self._some_there.set()
        if size >= self._enough and not self._enough_told:
            self._enough_told = True
            self._enough_there.set()
        if size >= self.room:
            self._full()

    def _drop(self, frames: int, size: int) -> None:
        if not self.limit:
            return  # the journal has ended
        if self.dropped is self.told:
            self.dropped_since = self._time()
        self.dropped = self.dropped.plus(1, frames, size)

    def close(self) -> None:
        """Forget all blocks that are put in from now on, and do not count them."""
        self.limit = 0

    def wake(self) -> None:
        """Make a `wait` return at once. May be called from any thread."""
        self._some_there.set()
        self._enough_there.set()

    # The other thread

    def tell(self, dropped: Dropped) -> None:
        """Record that an event in the journal reports these drops. The next drop sets `dropped_since` again."""
        self.told = dropped

    def wait(self, idle: float, gather: float) -> None:
        """Wait for bytes, `idle` seconds at most. If there are some, wait up to `gather` seconds for more."""
        if self.size or self._some_there.wait(idle):
            self._enough_there.wait(gather)
        # First the events, then the flags: a block that is put in between sets the events again.
        self._some_there.clear()
        self._enough_there.clear()
        self._some_told = self._enough_told = False
        self.mark = 0

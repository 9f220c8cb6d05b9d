"""Blocks on their way to the disk: put in one by one, taken out as portions. The compiled `Portions` makes each block
at once, this one in the thread that takes it; the blocks are the same.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from stomprelay.journal.block import FRAME_SIZES, OVERHEAD, BlockKind, encode
from stomprelay.journal.capture import LegRecorder
from stomprelay.wire.decoder import compiled

_FRAMES: Final = int(BlockKind.FRAMES)
_AT_ONCE: Final = 64
"""Blocks that are encoded without a break. Then the writer thread sleeps, so that the reactor's thread can run."""
_YIELD: Final = 0.00001
"""Seconds that the writer thread sleeps then."""

_Record = tuple[int, int, int, bytes, bytes, bytes]


class Batch(NamedTuple):
    """Encoded blocks back to back (`data`), and how many blocks and frames they are."""

    data: bytes | memoryview
    blocks: int
    frames: int


class Portions:
    """Blocks in their order, in portions of `most` bytes, or of one larger block. `clock`: nanoseconds since 1970. From
    `limit` bytes on a block is not kept, and `refused` gets its frames and size; from `mark` bytes on `reached` is
    called. One thread calls `put`, another one `take` and `done`, without a lock: each step is one operation for
    Python.
    """

    __slots__ = (
        "_clock",
        "_done",
        "_in",
        "_most",
        "_reached",
        "_refused",
        "_taken",
        "_waiting",
        "limit",
        "mark",
    )

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
        """The number of bytes that wait, those that are being written included."""
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
        """Put in what the recorder of a leg has, if it has something; its `context` is known."""
        if recorder.frames:
            self.put(recorder.context, *recorder.take())

    def take(self, whole: bool = False) -> Batch | None:
        """Return the oldest portion, or only one with others behind it (`whole`); else None. Its data is good until
        `done`.
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
        return Batch(data, len(blocks), frames)

    def done(self) -> None:
        """Forget what was taken last: it was written, or given up."""
        self._done += self._taken
        self._taken = 0


_compiled: Final = compiled("stomprelay.service.journal._portions")
PORTIONS: Final[type[Portions]] = Portions if _compiled is None else _compiled.Portions
"""The compiled twin; `Portions` itself where it was not built, or nothing compiled is wanted."""

"""What waits to be written: records that the reactor's thread puts in, and another thread takes out as blocks."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Event
from typing import Final, NamedTuple

from stomprelay.journal.block import SIZES, BlockKind, sealed

HURRY: Final = 1 << 18
"""Octets with which nobody waits for more."""
BEYOND: Final = 4
"""So many times what there is room for is kept where nothing is to be lost: those who were asked to hold have said it
before they knew."""
LEAST: Final = 64 << 20
"""Octets that are kept there at any rate: what comes at once may be much."""

_FRAMES: Final = int(BlockKind.FRAMES)
_AROUND: Final = 36
"""Octets of a block beside its context, its sizes and its payload."""
_SEVERAL: Final = 64
"""Blocks that are made in one go. Then the reactor's thread may have its turn."""
_BREATH: Final = 0.00001

_Record = tuple[int, int, int, bytes, Sequence[int], bytes]


def _alone() -> None:
    """Nobody wants to know."""


class Batch(NamedTuple):
    """Whole blocks, one behind the other, and what they count."""

    data: bytes
    blocks: int
    frames: int


class Dropped(NamedTuple):
    """What was left out."""

    blocks: int = 0
    frames: int = 0
    octets: int = 0

    def more(self, blocks: int, frames: int, octets: int) -> "Dropped":
        """And this."""
        return Dropped(self.blocks + blocks, self.frames + frames, self.octets + octets)

    def since(self, before: "Dropped") -> "Dropped":
        """What came to what was known before."""
        return Dropped(self.blocks - before.blocks, self.frames - before.frames, self.octets - before.octets)


class Spool:
    """A queue of blocks with `room` for so many octets. What is more is dropped, and counted; where it is not `lossy`
    only what is far more. `clock` tells the time of a block, in nanoseconds since 1970.

    One thread says `put`, and hears by `crowded` when there is no room; another one says `wait`, `take` and, when what
    it took is written or given up, `done`. No lock is held: each step is one that Python does not divide.
    """

    __slots__ = (
        "_clock",
        "_done",
        "_hurried",
        "_hurry",
        "_in",
        "_most",
        "_much",
        "_rung",
        "_some",
        "_taken",
        "_waiting",
        "crowded",
        "dropped",
        "room",
    )

    def __init__(self, room: int, clock: Callable[[], int], *, lossy: bool = True) -> None:
        self.room = room
        self.dropped = Dropped()
        self.crowded: Callable[[], None] = _alone
        self._clock = clock
        self._hurry = min(HURRY, room // 4)
        self._most = room if lossy else max(BEYOND * room, LEAST)
        self._waiting: deque[_Record] = deque()
        self._in = self._done = self._taken = 0
        self._some, self._much = Event(), Event()
        self._rung = self._hurried = False

    @property
    def octets(self) -> int:
        """How much waits, what is being written included."""
        return self._in - self._done

    def put(
        self, context: bytes, number: int, sizes: Sequence[int], payload: bytes, kind: int = _FRAMES
    ) -> None:
        """Have a block written; see `block.encode`. The hot path: the block itself is made by the other thread."""
        octets = _AROUND + len(context) + 4 * len(sizes) + len(payload)
        waiting = self._in - self._done
        if waiting >= self._most:
            self.dropped = self.dropped.more(1, len(sizes) // SIZES, octets)
            return
        self._in += octets
        self._waiting.append((kind, self._clock(), number, context, sizes, payload))
        if not self._rung:
            self._rung = True
            self._some.set()
        elif waiting > self._hurry:
            if not self._hurried:
                self._hurried = True
                self._much.set()
            if waiting + octets >= self.room:
                self.crowded()

    def hurry(self) -> None:
        """Whoever waits shall look at once."""
        self._some.set()
        self._much.set()

    def shut(self) -> None:
        """Nothing more is taken in."""
        self._most = 0

    # The other thread

    def wait(self, idle: float, gather: float) -> None:
        """Until there is something, or `idle` seconds passed; then `gather` seconds more, unless much is there."""
        if self._some.wait(idle):
            self._much.wait(gather)
        # First the bells, then the notes that they rang: what is put in between rings again.
        self._some.clear()
        self._much.clear()
        self._rung = self._hurried = False

    def take(self, most: int) -> Batch | None:
        """Blocks of about so many octets, the oldest; None if there are none."""
        left = len(self._waiting)
        if not left:
            return None
        blocks: list[bytes] = []
        octets = frames = 0
        following = self._waiting.popleft
        while left and octets < most:
            several = min(left, _SEVERAL)
            left -= several
            records = [following() for _ in range(several)]
            frames += sum([len(record[4]) for record in records])
            sealed_ones = [sealed(*record) for record in records]
            octets += sum(map(len, sealed_ones))
            blocks += sealed_ones
            if left:
                time.sleep(_BREATH)
        self._taken = octets
        return Batch(b"".join(blocks), len(blocks), frames // SIZES)

    def done(self) -> None:
        """What was taken need not be kept any more."""
        self._done += self._taken
        self._taken = 0

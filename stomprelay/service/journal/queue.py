"""What waits to be written: how much may, and when the thread that writes it is woken."""

from collections.abc import Callable
from threading import Event
from typing import Final, NamedTuple

from stomprelay.service.journal.portions import PORTIONS

ENOUGH: Final = 4 << 20
"""Bytes with which the writer does not wait for more."""
PORTION: Final = 4 << 20
"""Bytes that are written at once. The system uses huge pages only for memory of which they are all."""
BEYOND: Final = 4
"""So many times its room a queue takes that is not lossy: what was read already comes after reading was stopped."""
LEAST: Final = 64 << 20
"""Bytes that such a queue takes at any rate: one chunk read may be large."""


def _ignore() -> None:
    """Do nothing: the default for `full`."""


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
    calls `full` instead, and drops only what is far more. Set `told` to the `dropped` that the journal tells of;
    `dropped_since` is the time at which more than that was dropped first. `clock` returns the time of a block, in
    nanoseconds since 1970. `put`, `record`, `take` and `done` are those of `Portions`, with `portion` bytes in each.

    One thread calls `put` and `record`, in which `full` is called; another one calls `wait`, `take` and `done`.
    """

    __slots__ = (
        "_clock",
        "_enough",
        "_enough_there",
        "_enough_told",
        "_full",
        "_portions",
        "_some_there",
        "_some_told",
        "done",
        "dropped",
        "dropped_since",
        "put",
        "record",
        "room",
        "take",
        "told",
    )

    def __init__(
        self,
        room: int,
        clock: Callable[[], int],
        *,
        lossy: bool = True,
        full: Callable[[], None] = _ignore,
        portion: int = PORTION,
    ) -> None:
        self.room = room
        self.dropped = self.told = Dropped()
        self.dropped_since = 0
        self._clock = clock
        self._full = _ignore if lossy else full
        self._enough = min(ENOUGH, room // 4)
        self._portions = PORTIONS(portion, clock, self._reached, self._refused)
        self._portions.limit = room if lossy else max(BEYOND * room, LEAST)
        self.put = self._portions.put
        self.record = self._portions.record
        self.take = self._portions.take
        self.done = self._portions.done
        self._some_there, self._enough_there = Event(), Event()
        self._some_told = self._enough_told = False

    @property
    def size(self) -> int:
        """The number of bytes that wait, those that are being written included."""
        return self._portions.size

    def _reached(self) -> None:
        """So much waits that somebody has to know, from the first block on."""
        size = self._portions.size
        # First the mark, then the events: the other thread may run in between.
        self._portions.mark = self._enough if size < self._enough else self.room
        if not self._some_told:
            self._some_told = True
            self._some_there.set()
        if size >= self._enough and not self._enough_told:
            self._enough_told = True
            self._enough_there.set()
        if size >= self.room:
            self._full()

    def _refused(self, frames: int, size: int) -> None:
        if self.dropped is self.told:
            self.dropped_since = self._clock()
        self.dropped = self.dropped.plus(1, frames, size)

    def wake(self) -> None:
        """Make a `wait` return at once. May be called from any thread."""
        self._some_there.set()
        self._enough_there.set()

    def shut(self) -> None:
        """Drop all blocks that are put in from now on."""
        self._portions.limit = 0

    # The other thread

    def wait(self, idle: float, gather: float) -> None:
        """Wait until there is something, or `idle` seconds passed; then `gather` seconds more, unless it is enough."""
        if self.size or self._some_there.wait(idle):
            self._enough_there.wait(gather)
        # First the events, then the flags: what is put in between sets the events again.
        self._some_there.clear()
        self._enough_there.clear()
        self._some_told = self._enough_told = False
        self._portions.mark = 0

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


class JournalQueue(PORTIONS):  # type: ignore[misc, valid-type]
    """Portions, with `room` for so many bytes: a lossy queue drops and counts more, another one calls `full` and drops
    only far more. `told` are the `dropped` that the journal tells of, `dropped_since` the time of the first one after
    these. One thread calls `put` and `record`, another one `wait`, `take` and `done`.
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
        """So much waits that somebody has to know, from the first block on."""
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
        if self.dropped is self.told:
            self.dropped_since = self._time()
        self.dropped = self.dropped.plus(1, frames, size)

    def wake(self) -> None:
        """Make a `wait` return at once. May be called from any thread."""
        self._some_there.set()
        self._enough_there.set()

    def shut(self) -> None:
        """Drop all blocks that are put in from now on."""
        self.limit = 0

    def tell(self, dropped: Dropped) -> None:
        """Note that the journal tells of these."""
        self.told = dropped

    # The other thread

    def wait(self, idle: float, gather: float) -> None:
        """Wait until there is something, or `idle` seconds passed; then `gather` seconds more, unless it is enough."""
        if self.size or self._some_there.wait(idle):
            self._enough_there.wait(gather)
        # First the events, then the flags: what is put in between sets the events again.
        self._some_there.clear()
        self._enough_there.clear()
        self._some_told = self._enough_told = False
        self.mark = 0

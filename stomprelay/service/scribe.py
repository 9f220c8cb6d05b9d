"""Writing what waits in a spool to the journal's folder, in a thread of its own."""

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, Protocol

from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.folder import Recovery, SegmentFile
from stomprelay.journal.schema import Context, EventRecord, JournalEvent
from stomprelay.journal.settings import JournalSettings
from stomprelay.service.spool import Batch, Dropped, Spool

PORTION: Final = 1 << 18
"""Octets that are written at once."""
IDLE: Final = 1.0
"""Seconds between two looks at what is due, where nothing has to be written; also the pause after a failure."""
CLEARING: Final = 60.0
"""Seconds between two looks at what need not be retained."""

_NOWHERE: Final = Context().encode()


class Pen(Protocol):
    """Writes segments; `journal.writer.Writer` does. `number` of them were begun."""

    number: int

    def write(self, data: bytes, now: int) -> None:
        """Append whole blocks."""

    def sync(self) -> None:
        """Bring them to the disk."""

    def roll(self, now: int) -> bool:
        """End a segment that is old."""

    def close(self, now: int) -> None:
        """End the last one."""


class Shelf(Protocol):
    """Where segments are; `journal.folder.Folder` is it."""

    def recover(self, now: int) -> list[Recovery]:
        """End what dead relays left."""

    def expire(self, now: int, age: float | None, size: int | None) -> list[SegmentFile]:
        """Remove what need not be kept."""


class Log(Protocol):
    """Who is told, in the reactor's thread or before it runs."""

    def info(self, form: str, **fields: object) -> None:
        """What went well."""

    def warn(self, form: str, **fields: object) -> None:
        """What did not."""


class Scribe:
    """`start` it, and say `stop` when nothing more is put into the spool; then `ended` is called, from its thread.

    `trouble` is why the disk takes nothing; while it is there the same is tried again every second. `errors` counts
    such failures; `blocks`, `frames` and `octets` are what was written, `lost` what could not be before the end.
    `roomy`, if set, is called from its thread while the spool is at most half full.
    """

    def __init__(
        self,
        settings: JournalSettings,
        spool: Spool,
        pen: Pen,
        shelf: Shelf,
        clock: Callable[[], int],
        log: Log,
    ) -> None:
        self.blocks = self.frames = self.octets = self.errors = 0
        self.lost = Dropped()
        self.trouble = ""
        self.roomy: Callable[[], None] | None = None
        self._settings = settings
        self._spool = spool
        self._pen = pen
        self._shelf = shelf
        self._clock = clock
        self._log = log
        self._batch: Batch | None = None
        self._told = Dropped()
        self._stopping = Event()
        self._ended: Callable[[], None] = lambda: None
        self._number = 0
        self._sync_at = self._clear_at = self._confess_at = 0.0
        self._portion = min(PORTION, settings.segment_size)
        self._idle = min(IDLE, settings.segment_age, settings.sync_interval or IDLE)

    def start(self) -> None:
        """Begin. The process may end without waiting for the thread: a disk may hang for ever."""
        Thread(target=self._run, name="journal", daemon=True).start()

    def stop(self, ended: Callable[[], None]) -> None:
        """Write what waits, end the segment, and be done."""
        self._ended = ended
        self._stopping.set()
        self._spool.hurry()

    # The thread

    def _run(self) -> None:
        try:
            self.begin()
            while not self._stopping.is_set():
                self._spool.wait(self._idle, self._settings.flush_interval)
                self.turn()
                if self.trouble:
                    self._stopping.wait(IDLE)
        finally:
            self.end()
            self._ended()

    def begin(self) -> None:
        """See to what relays left that died."""
        try:
            for found in self._shelf.recover(self._clock()):
                self._tell(found)
        except OSError as error:
            self._log.warn("the journal's folder cannot be looked through: {error}", error=_words(error))

    def _tell(self, found: Recovery) -> None:
        if found.failure:
            self._log.warn(
                "segment {path} of a relay that died cannot be ended: {failure}",
                path=found.was,
                failure=found.failure,
            )
        else:
            self._log.info(
                "segment {path} of a relay that died is ended; {cut} octets at its end were torn",
                path=found.path or found.was,
                cut=found.cut,
            )

    def turn(self) -> None:
        """Write all that waits, and do what is due."""
        try:
            self._write()
            self._sync()
            self._pen.roll(self._clock())
        except Exception as error:  # whatever it is, the next turn may fare better
            self._failed(error)
        else:
            self._well()
            self._clear()
        if self.roomy is not None and self._spool.octets <= self._spool.room // 2:
            self.roomy()

    def end(self) -> None:
        """The last turn: what cannot be written now never will be."""
        for last in (self._write, lambda: self._pen.close(self._clock())):
            try:
                last()
            except Exception as error:
                self._failed(error)
        batch = self._batch or self._spool.take(self._portion)
        while batch is not None:
            self.lost = self.lost.more(batch.blocks, batch.frames, len(batch.data))
            self._spool.done()
            batch = self._spool.take(self._portion)
        if self.lost.blocks:
            self._log.warn("{count} blocks of the journal are lost", count=self.lost.blocks)

    def _write(self) -> None:
        while True:
            if self._batch is None:
                self._batch = self._spool.take(self._portion)
            batch = self._batch
            if batch is None:
                break
            self._pen.write(batch.data, self._clock())
            self._batch = None
            self._spool.done()
            self.blocks += batch.blocks
            self.frames += batch.frames
            self.octets += len(batch.data)
        self._confess()

    def _confess(self) -> None:
        """Write down what was left out, once a second."""
        dropped, now = self._spool.dropped, time.monotonic()
        if dropped == self._told or (now < self._confess_at and not self._stopping.is_set()):
            return
        self._confess_at = now + IDLE
        count = dropped.since(self._told)
        text = f"{count.blocks} blocks with {count.frames} frames were left out: the queue was full"
        happening = EventRecord(JournalEvent.DROPPED.value, text, count._asdict()).encode()
        data = b"".join(encode(BlockKind.EVENT, self._clock(), 0, _NOWHERE, (), happening))
        self._pen.write(data, self._clock())
        self._told = dropped
        self.blocks += 1
        self.octets += len(data)
        self._log.warn("the journal: {text}", text=text)

    def _sync(self) -> None:
        every, now = self._settings.sync_interval, time.monotonic()
        if every and now >= self._sync_at:
            self._pen.sync()
            self._sync_at = now + every

    def _clear(self) -> None:
        """Remove what need not be kept: with each new segment, and now and then. That it cannot be removed keeps
        nobody from writing.
        """
        age, size, now = self._settings.retain_age, self._settings.retain_size, time.monotonic()
        number = self._pen.number
        if (age is None and size is None) or (number == self._number and now < self._clear_at):
            return
        self._number = number
        self._clear_at = now + CLEARING
        try:
            gone = self._shelf.expire(self._clock(), age, size)
        except OSError as error:
            self._log.warn("old segments cannot be removed: {error}", error=_words(error))
            return
        if gone:
            self._log.info("{count} old segments were removed", count=len(gone))

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        words = _words(error)
        if words != self.trouble:
            self.trouble = words
            self._log.warn("the journal cannot be written: {error}", error=words)

    def _well(self) -> None:
        if self.trouble:
            self.trouble = ""
            self._log.info("the journal is written again")


def _words(error: Exception) -> str:
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason

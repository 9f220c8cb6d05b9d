"""The thread that writes the blocks in the journal's queue to the journal's folder."""

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, Final

from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Context, EventRecord, JournalEvent
from stomprelay.journal.settings import JournalSettings
from stomprelay.journal.writer import Writer
from stomprelay.service.journal.portions import Dropped, EncodedBlocks, JournalQueue

LARGE: Final = 1 << 16
"""A portion of so many bytes is large. Blocks that come while a large portion is written wait for further blocks."""
IDLE: Final = 1.0
"""Seconds between two checks of what is due, if nothing has to be written; also the pause after a failure."""
EXPIRING: Final = 60.0
"""Seconds between two searches for segments that need not be retained."""

_NO_CONTEXT: Final = Context().encode()


class WriterThread:
    """The thread that writes. Call `start` first. Call `stop` when nothing more is put into the queue. At its end the
    thread calls `ended`. `trouble`: why writing fails; the thread tries again every second. `errors`: how many writes
    failed. `blocks`, `frames`, `size`: what was written; `lost`: what could not be written. `log` may be called from
    any thread. `roomy` is called once after each `ask_for_room`, when the queue is half empty.
    """

    def __init__(
        self,
        settings: JournalSettings,
        queue: JournalQueue,
        segments: Writer,
        folder: Folder,
        clock: Callable[[], int],
        log: Any,
        roomy: Callable[[], None],
    ) -> None:
        self.blocks = self.frames = self.size = self.errors = 0
        self.lost = Dropped()
        self.trouble = ""
        self._settings = settings
        self._queue = queue
        self._segments = segments
        self._folder = folder
        self._clock = clock
        self._log = log
        self._roomy = roomy
        self._room_wanted = False
        self._batch: EncodedBlocks | None = None
        self._stopping = Event()
        self._ended: Callable[[], None] = lambda: None
        self._logged = queue.told
        self._number = 0
        self._sync_at = self._expire_at = self._log_at = 0.0

    def change(self, settings: JournalSettings) -> None:
        """Use other intervals and another retention of closed segments. Any thread may call this."""
        self._settings = settings

    def start(self) -> None:
        """Start the thread. The process may end without waiting for it, because a disk may hang for ever."""
        Thread(target=self._run, name="journal", daemon=True).start()

    def stop(self, ended: Callable[[], None]) -> None:
        """Write the waiting blocks, end the segment, and end the thread."""
        self._ended = ended
        self._stopping.set()
        self._queue.wake()

    def ask_for_room(self) -> None:
        """Ask for one call of `roomy`. Another thread calls this when the queue is full."""
        self._room_wanted = True

    # The thread

    def _run(self) -> None:
        try:
            self.begin()
            while not self._stopping.is_set():
                settings = self._settings
                idle = min(IDLE, settings.segment_age, settings.sync_interval or IDLE)
                self._queue.wait(idle, settings.flush_interval)
                self.turn()
                if self.trouble:
                    self._stopping.wait(IDLE)
        finally:
            self.end()
            self._ended()

    def begin(self) -> None:
        """Close the segments that killed relays left open; the thread's first step."""
        try:
            for each in self._folder.recover(self._clock()):
                if each.failure:
                    text = "segment {path} of a relay that died cannot be ended: {failure}"
                    self._log.warn(text, path=each.was, failure=each.failure)
                else:
                    text = "segment {path} of a relay that died is ended; {cut} octets at its end were torn"
                    self._log.info(text, path=each.path or each.was, cut=each.cut)
        except OSError as error:
            self._log.warn("the journal's folder cannot be listed: {error}", error=_words(error))

    def turn(self) -> None:
        """Write the waiting blocks, then sync, end or remove segments if that is due."""
        try:
            self._write()
            every, now = self._settings.sync_interval, time.monotonic()
            if every and now >= self._sync_at:
                self._segments.sync()
                self._sync_at = now + every
            self._roll()
        except Exception as error:  # after any error the next turn tries again
            self._failed(error)
        else:
            if self.trouble:
                self.trouble = ""
                self._log.info("the journal is written again")
            self._expire()
        if self._room_wanted and self._queue.size <= self._queue.room // 2:
            self._room_wanted = False
            self._roomy()

    def end(self) -> None:
        """Write the waiting blocks and end the segment. Blocks that cannot be written now count as `lost`."""
        for last in (lambda: self._write(all=True), lambda: self._segments.close(self._clock())):
            try:
                last()
            except Exception as error:
                self._failed(error)
        batch = self._batch or self._queue.take()
        while batch is not None:
            self.lost = self.lost.plus(batch.blocks, batch.frames, len(batch.data))
            self._queue.done()
            batch = self._queue.take()
        if self.lost.blocks:
            self._log.warn("{count} blocks of the journal are lost", count=self.lost.blocks)

    def _write(self, *, all: bool = False) -> None:
        """Write the waiting blocks. After a long write, write only whole portions, unless `all` is True."""
        whole = False
        while True:
            if self._batch is None:
                self._batch = self._queue.take(whole)
            batch = self._batch
            if batch is None:
                break
            whole = not all and len(batch.data) >= LARGE
            self._put(batch.data)
            self._batch = None
            self._queue.done()
            self.blocks += batch.blocks
            self.frames += batch.frames
            self.size += len(batch.data)
        if self._queue.dropped is not self._queue.told:
            self._put(b"")
        self._log_dropped()

    def _put(self, data: bytes | memoryview) -> None:
        """Write blocks, then, into the same segment, an event about frames dropped since the last such event."""
        dropped, before, now = self._queue.dropped, self._queue.told, self._clock()
        if dropped is before:
            self._segments.write(data, now)
            return
        count = dropped.since(before)
        facts = {"blocks": count.blocks, "frames": count.frames, "octets": count.size}
        facts["since"] = self._queue.dropped_since
        event = _event(now, JournalEvent.DROPPED, _left_out(count), facts)
        self._segments.write(data, now, event)
        self._queue.tell(dropped)
        self.blocks += 1
        self.size += len(event)

    def _log_dropped(self) -> None:
        """Log newly reported drops, at most once a second."""
        told, now = self._queue.told, time.monotonic()
        if told is self._logged or (now < self._log_at and not self._stopping.is_set()):
            return
        self._log.warn("the journal: {text}", text=_left_out(told.since(self._logged)))
        self._log_at = now + IDLE
        self._logged = told

    def _roll(self) -> None:
        """End the segment if it is old. If no blocks wait, the next segment begins with the event `ALIVE`."""
        now, facts = self._clock(), {"within": self._settings.segment_age}
        alive = _event(now, JournalEvent.ALIVE, "the relay is there", facts)
        self._segments.roll(now, alive=b"" if self._queue.size else alive)

    def _expire(self) -> None:
        """Remove old segments, with each new segment and every `EXPIRING` seconds. A failure is logged."""
        age, size, now = self._settings.retain_age, self._settings.retain_size, time.monotonic()
        number = self._segments.number
        if (age is None and size is None) or (number == self._number and now < self._expire_at):
            return
        self._number = number
        self._expire_at = now + EXPIRING
        try:
            expired = self._folder.expire(self._clock(), age, size)
        except OSError as error:
            self._log.warn("old segments cannot be removed: {error}", error=_words(error))
            return
        if expired:
            self._log.info("{count} old segments were removed", count=len(expired))

    def _failed(self, error: Exception) -> None:
        self.errors += 1
        words = _words(error)
        if words != self.trouble:
            self.trouble = words
            self._log.warn("the journal cannot be written: {error}", error=words)


def _event(now: int, event: JournalEvent, text: str, facts: dict[str, Any]) -> bytes:
    happening = EventRecord(event.value, text, facts).encode()
    return encode(BlockKind.EVENT, now, 0, _NO_CONTEXT, (), happening)


def _left_out(count: Dropped) -> str:
    return f"{count.blocks} blocks with {count.frames} frames were left out: the queue was full"


def _words(error: Exception) -> str:
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason

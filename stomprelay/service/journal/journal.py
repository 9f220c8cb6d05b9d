"""The journal of a running relay: takes records of sessions and passes them to the writing thread."""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from twisted.application.service import Service
from twisted.internet.defer import Deferred, TimeoutError

from stomprelay import __version__
from stomprelay.journal.block import BlockKind
from stomprelay.journal.capture import Capture
from stomprelay.journal.folder import Folder
from stomprelay.journal.schema import Context, EventRecord, JournalEvent
from stomprelay.journal.settings import JournalSettings, WhenFull
from stomprelay.journal.writer import Writer
from stomprelay.service.journal.portions import PORTION, Dropped, JournalQueue
from stomprelay.service.journal.writer_thread import WriterThread
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import CannotStart
from stomprelay.session.effects import Note

_log: Final = logger()

SOFTWARE: Final = f"stomprelay {__version__}"
_EVENT: Final = int(BlockKind.EVENT)
GRACE: Final = 10.0
"""Seconds that the end of the journal may take: a disk may hang for ever."""


class _Session(Protocol):
    """What the journal uses of a session; see `RelayDriver`."""

    def hold(self) -> None: ...
    def release(self) -> None: ...


class _ThreadLog:
    """A log for the writer thread: the reactor's thread writes each line later."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def info(self, form: str, **fields: object) -> None:
        self._reactor.callFromThread(partial(_log.info, form, **fields))

    def warn(self, form: str, **fields: object) -> None:
        self._reactor.callFromThread(partial(_log.warn, form, **fields))


class Journal(Service):
    """Takes records from `startService` to `stopService`. `run`: 8 random hexadecimal digits that identify this start.
    `sessions` returns the sessions that are not read from while the queue is `full`. `clock`: nanoseconds since 1970.
    Call `record` and `record_leg` to put blocks into the queue. `written` is the writing thread, with its counters.
    """

    def __init__(
        self,
        directory: str,
        settings: JournalSettings,
        reactor: Any,
        run: str,
        sessions: Callable[[], Iterable[_Session]],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.settings = settings
        self.capture = Capture(settings.bodies, settings.rules, settings.redact)
        self.directory = Path(directory)
        self.relay = settings.relay or socket.gethostname()
        self.full = False
        self._reactor = reactor
        self._sessions = sessions
        self._since = 0.0
        self._queue = JournalQueue(
            settings.queue,
            clock,
            lossy=settings.when_full is not WhenFull.BLOCK,
            full=self._hold,
            portion=min(PORTION, settings.segment_size, settings.queue),
        )
        self.record = self._queue.put
        self.record_leg = self._queue.record
        segments = Writer(
            self.directory,
            self.relay,
            run,
            size=settings.segment_size,
            age=settings.segment_age,
            software=SOFTWARE,
        )
        self._folder = Folder(self.directory)
        self.written = WriterThread(
            settings,
            self._queue,
            segments,
            self._folder,
            clock,
            _ThreadLog(reactor),
            partial(reactor.callFromThread, self._release),
        )

    def change(self, settings: JournalSettings) -> None:
        """Use these settings, except the settings that need a restart. New are: what future connections record, the
        intervals, and the retention.
        """
        self.settings = settings
        self.capture = Capture(settings.bodies, settings.rules, settings.redact)
        self.written.change(settings)

    # What there is to see

    @property
    def waiting(self) -> int:
        """The number of bytes in the queue, including those that are being written."""
        return self._queue.size

    @property
    def dropped(self) -> Dropped:
        """The counts of records that were dropped, and will not be written."""
        return self._queue.dropped.plus(*self.written.lost)

    @property
    def stuck(self) -> bool:
        """Whether no session is read from, because writing fails and the queue is full."""
        return self.full and bool(self.written.trouble)

    @property
    def state(self) -> str:
        """The journal's state in words: "is written", or why it is not."""
        if self.written.trouble:
            return f"cannot be written: {self.written.trouble}"
        return "has no room: the relay reads from no session" if self.full else "is written"

    # What is recorded

    def event(self, context: bytes, event: str, text: str, facts: Mapping[str, Any]) -> None:
        """Record an event in this context."""
        self.record(context, 0, b"", EventRecord(event, text, facts).encode(), _EVENT)

    def happened(
        self, event: JournalEvent, text: str, facts: Mapping[str, Any], upstream: str = "", broker: str = ""
    ) -> None:
        """Record an event that belongs to no session."""
        self.event(Context(upstream=upstream, broker=broker).encode(), event.value, text, facts)

    def noted(self, note: Note, upstream: str) -> None:
        """Record the result of a probe of a broker of this upstream."""
        facts = {"upstream": upstream, **note.facts}
        self.event(Context(upstream=upstream).encode(), note.event.value, note.text, facts)

    # From start to end

    def prepare(self) -> None:
        """Make the folder if it is missing. Raises `CannotStart` if it cannot be used."""
        try:
            self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._folder.require()
        except OSError as error:
            text = f"journal: {self.directory} cannot be used: {error.strerror}"
            _log.critical("{text}", text=text)
            raise CannotStart(text) from error

    def startService(self) -> None:
        """Begin to write. Raises `CannotStart` if the folder cannot be used."""
        self.prepare()
        super().startService()
        self.written.start()
        facts = {"software": SOFTWARE, "pid": os.getpid(), "within": self.settings.segment_age}
        self.happened(JournalEvent.BEGUN, f"{SOFTWARE} began to write", facts)

    def stopService(self) -> Deferred[None]:
        """Write the waiting blocks and end the segment. The Deferred fires after that, or after `GRACE` seconds."""
        super().stopService()
        self.happened(JournalEvent.ENDED, f"{SOFTWARE} ended in good order", {})
        self._queue.close()
        ended: Deferred[None] = Deferred()
        self.written.stop(lambda: self._reactor.callFromThread(ended.callback, None))
        return ended.addTimeout(GRACE, self._reactor).addErrback(self._late)

    def _late(self, failure: Any) -> None:
        failure.trap(TimeoutError)
        _log.warn("the journal did not end in time: {waiting} bytes are lost", waiting=self.waiting)

    # A queue that is full

    def _hold(self) -> None:
        if self.full or not self.running:
            return
        self.full = True
        self._since = self._reactor.seconds()
        text = "the journal's queue is full"
        _log.warn("{text}; the relay reads from no session until there is room", text=text)
        self.happened(JournalEvent.HELD, text, {"side": "", "reason": "journal"})
        for session in tuple(self._sessions()):
            session.hold()
        self.written.ask_for_room()

    def _release(self) -> None:
        self.full = False
        seconds = self._reactor.seconds() - self._since
        text = "the journal's queue has room again"
        _log.info("{text}, after {seconds:.1f} s", text=text, seconds=seconds)
        self.happened(JournalEvent.RELEASED, text, {"side": "", "seconds": round(seconds, 3)})
        for session in tuple(self._sessions()):
            session.release()

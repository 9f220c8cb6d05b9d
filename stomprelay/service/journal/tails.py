"""Watches of passing frames. A session gives its records to the journal. While a watch wants the session's frames, the
session gives its records to a `Tapped` object, which passes them on to the watches and to the journal.
"""

import socket
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, Protocol

from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.capture import Capture, LegRecorder, Records
from stomprelay.journal.schema import VERSION, SegmentHeader
from stomprelay.journal.settings import JournalSettings
from stomprelay.journal.tail import TailAnswer, TailRequest, TailWatch
from stomprelay.service.journal.journal import SOFTWARE, Journal

MOST: Final = 4
PATIENCE: Final = 10.0
"""Seconds after which a watch ends if no request asks for its frames."""
TURN: Final = 100
"""The number of sessions that learn in one turn of the reactor which object takes their records."""


class _Session(Protocol):
    """What this module uses of a session; see `RelayDriver`."""

    @property
    def name(self) -> str: ...
    @property
    def listener(self) -> str: ...
    @property
    def over(self) -> bool: ...
    def record_to(self, records: Records | None) -> None: ...


class TooMany(Exception):
    """There are too many watches; the text says so."""


class Tapped:
    """Takes the records of a session for the watches, and for the journal if there is one; see `Records`."""

    def __init__(self, capture: Capture, journal: Journal | None, watches: tuple[TailWatch, ...]) -> None:
        self.capture = capture
        self._journal = journal
        self._watches = watches

    @property
    def full(self) -> bool:
        """Whether the journal has no room. Watches do not count: a watch keeps only what fits."""
        return self._journal is not None and self._journal.full

    def record(self, context: bytes, number: int, sizes: bytes, payload: bytes, kind: int) -> None:
        """Record an event."""
        for watch in self._watches:
            watch.event(context, payload)
        if self._journal is not None:
            self._journal.record(context, number, sizes, payload, kind)

    def record_leg(self, recorder: LegRecorder) -> None:
        """Record the content of a leg's recorder."""
        for watch in self._watches:
            watch.leg(recorder)
        if self._journal is not None:
            self._journal.record_leg(recorder)
        else:
            recorder.take()


class Tails:
    """All watches of a relay. `sessions` returns the running sessions, `run` identifies this start, `clock` is in
    nanoseconds since 1970.
    """

    def __init__(
        self,
        settings: JournalSettings,
        journal: Journal | None,
        sessions: Callable[[], Iterable[_Session]],
        reactor: Any,
        run: str,
        clock: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._sessions = sessions
        self._reactor = reactor
        self._clock = clock
        relay = settings.relay or socket.gethostname()
        header = SegmentHeader(VERSION, relay, run, 1, clock(), PATIENCE, SOFTWARE).encode()
        self._header = encode(int(BlockKind.HEADER), clock(), 0, b"", b"", header)
        self._watches: dict[TailRequest, TailWatch] = {}
        self._named: dict[TailRequest, tuple[_Session, ...]] = {}
        self._ends: dict[TailRequest, Any] = {}
        self._tapped: dict[tuple[TailRequest, ...], Tapped] = {}
        self._untold: Iterator[_Session] = iter(())
        self._telling: Any = None
        self.change(settings)

    def change(self, settings: JournalSettings) -> None:
        """Use the secrets of these settings; call this after `Journal.change`. All watches end."""
        self._capture = Capture(redact=settings.redact) if self._journal is None else self._journal.capture
        self.stop()

    def ask(self, request: TailRequest) -> TailAnswer:
        """Return the frames since the last such request. The first request begins the watch. Raises `TooMany`."""
        key = request._replace(over=False)
        watch = self._watches.get(key)
        if request.over:
            if watch is None:
                return TailAnswer()
            self._end(key)
            return watch.take()
        if watch is not None:
            self._ends[key].reset(PATIENCE)
            return watch.take()._replace(sessions=self._left(key))
        if len(self._watches) >= MOST:
            raise TooMany(f"{MOST} watch already, and no more may at a time")
        self._watches[key] = TailWatch(key, self._header, self._capture, self._clock)
        self._ends[key] = self._reactor.callLater(PATIENCE, self._end, key)
        self._named[key] = tuple(each for each in self._sessions() if each.name in key.sessions)
        self._tell()
        return TailAnswer(began=True, sessions=self._left(key))

    def _left(self, request: TailRequest) -> tuple[str, ...]:
        return tuple(each.name for each in self._named[request] if not each.over)

    def accepted(self, session: _Session) -> None:
        """Have a new session recorded from its beginning, if the journal or a watch wants it."""
        records = self._records(session)
        if records is not None:
            session.record_to(records)

    def stop(self) -> None:
        """End all watches."""
        for request in tuple(self._watches):
            self._end(request)

    def _end(self, request: TailRequest) -> None:
        del self._watches[request], self._named[request]
        end = self._ends.pop(request)
        if end.active():
            end.cancel()
        self._tell()

    def _tell(self) -> None:
        """Begin to set in all sessions which object takes their records, because the watches have changed."""
        self._tapped.clear()
        self._untold = iter(tuple(self._sessions()))
        if self._telling is None:
            self._tell_some()

    def _tell_some(self) -> None:
        self._telling = None
        some = tuple(islice(self._untold, TURN))
        for session in some:
            session.record_to(self._records(session))
        if len(some) == TURN:
            self._telling = self._reactor.callLater(0, self._tell_some)

    def _records(self, session: _Session) -> Records | None:
        """Return the receiver of a session's records; it is the same object for all sessions with the same watches."""
        if not self._watches:
            return self._journal
        wanted = tuple(key for key in self._watches if key.watches(session.listener, session.name))
        if not wanted:
            return self._journal
        found = self._tapped.get(wanted)
        if found is None:
            watches = tuple(self._watches[key] for key in wanted)
            found = self._tapped[wanted] = Tapped(self._capture, self._journal, watches)
        return found

"""Compares both sides of a move in the phase `shadow`: what clients sent to OLD, by the relay's journal, with the
copies that a consumer of the relay's own takes from NEW.

`Comparison` has the counts. `Compare` is the consumer, see `move.consumer`. It acknowledges copies only. Other messages
stay unacknowledged, so NEW has them again at the end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple
from zlib import crc32

from stomprelay.journal.schema import Context, JournalSide
from stomprelay.move.consumer import BROKER_LOST, BYE, Consumer, End, Request, Talk, told
from stomprelay.move.copies import RESENT
from stomprelay.relay.fanout.router import TOPICS
from stomprelay.relay.model.move import COPY, Mark
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event
from stomprelay.wire import names
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Frame

PATIENCE: Final = 5.0
"""A SEND without a copy for so many seconds has none. A copy whose SEND is not in the journal by then has none."""
COMING: Final = 1.0
"""If nothing came from NEW for so many seconds, the journal is read on, however many SENDs wait."""
FLUSHED: Final = 1.0
"""At the end, the seconds until the journal has what was sent before."""
MOST: Final = 100_000
"""How many SENDs wait for their copies, and copies for their SENDs, at a time."""
DESTINATIONS: Final = 10_000
"""From how many destinations copies are taken; SENDs to others are not compared."""
SESSIONS: Final = 20_000
"""How many sessions are followed at a time."""
PRODUCERS: Final = 10_000
"""How many producers have counts of their own."""
_OTHERS: Final = ("(other destinations)", "(other producers)")
_ENDS: Final = {Event.DISCONNECTED.value, Event.VANISHED.value}
_SEND: Final = names.SEND.decode()
_SETTLING: Final = (names.COMMIT.decode(), names.ABORT.decode())
_NEW: Final = f"{End.NEW.value}: "


@dataclass(slots=True)
class Counts:
    """A destination and a producer, and what became of its SENDs. `sent`: those that were compared. `same`: copies with
    the same body; `other`: with another one. `missing`: SENDs without a copy. `twice`: copies that came again, and
    `marked`: those of them that are marked as such. `late`: copies that came behind a later one of the same session.
    `lag`: the longest time from a SEND to its copy, in seconds.
    """

    destination: str
    producer: str
    sent: int = 0
    same: int = 0
    other: int = 0
    missing: int = 0
    twice: int = 0
    marked: int = 0
    late: int = 0
    lag: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether both sides are the same."""
        return not (self.other or self.missing or self.twice or self.late)


Key = tuple[str, int]
"""The session and the number of a SEND."""


class _Sent(NamedTuple):
    destination: str
    producer: str
    at: float


class _Came(NamedTuple):
    same: bool
    late: bool
    at: float


@dataclass(slots=True)
class _Session:
    """A session of the relay. `begin` and `end`: the first and the last of its SENDs that were read; `open`: those of
    them that are in transactions; `forgotten`: the last of those that were given up. `firsts` and `lasts`: the smallest
    and the greatest number of a copy that came, by destination.
    """

    producer: str = ""
    begin: int = 0
    end: int = -1
    forgotten: int = -1
    open: dict[str, set[Key]] = field(default_factory=dict)
    firsts: dict[str, int] = field(default_factory=dict)
    lasts: dict[str, int] = field(default_factory=dict)


class Comparison:
    """The counts of both sides. Times are in seconds since 1970. Call `sent` and the others with what the journal has,
    in order, and `read` when it was read; call `came` with each copy. `most`: how much is kept on each side.

    A SEND is compared if it was sent after its destination was `watched`, or not before the first copy of its session
    that came from there. `since`: when each destination was `watched`. `uncompared`: SENDs and copies that were given
    up because too many waited. `unknown`: copies whose SENDs are not in the journal.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._counts: dict[tuple[str, str], Counts] = {}
        self._sent: dict[Key, _Sent] = {}
        self._came: dict[Key, _Came] = {}
        self._sessions: dict[str, _Session] = {}
        self.since: dict[str, float] = {}
        self.uncompared = 0
        self.unknown = 0

    @property
    def counts(self) -> list[Counts]:
        """Return the counts by destination and producer."""
        return sorted(self._counts.values(), key=lambda each: (each.destination, each.producer))

    @property
    def equal(self) -> bool:
        """Whether both sides are the same."""
        return all(each.equal for each in self._counts.values())

    @property
    def crowded(self) -> bool:
        """Whether no more copies should be taken until more of the journal was read."""
        return len(self._came) * 2 > self._most

    @property
    def ahead(self) -> bool:
        """Whether no more of the journal should be read until more copies came."""
        return len(self._sent) * 2 > self._most

    def watched(self, destination: str, at: float) -> None:
        """From now on the copies of a destination are taken."""
        self.since.setdefault(destination, at)

    def _session(self, name: str) -> _Session:
        found = self._sessions.get(name)
        if found is None:
            found = self._sessions[name] = _Session()
            if len(self._sessions) > SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return found

    # The journal

    def sent(self, key: Key, destination: str, producer: str, transaction: str | None, at: float) -> None:
        """A client sent a message."""
        session = self._session(key[0])
        if session.end < 0:
            session.producer, session.begin = producer, key[1]
        session.end = key[1]
        sent = _Sent(destination, producer, at)
        came = self._came.pop(key, None)
        if came is not None:
            self._pair(sent, came)
            return
        self._sent[key] = sent
        if transaction is not None:
            session.open.setdefault(transaction, set()).add(key)
        if len(self._sent) > self._most:
            key = next(iter(self._sent))
            self._session(key[0]).forgotten = key[1]
            self.uncompared += self._is_compared(key, self._sent.pop(key))

    def settled(self, session: str, transaction: str, *, committed: bool) -> None:
        """A transaction ended. If it was aborted, nothing was sent."""
        for key in self._session(session).open.pop(transaction, set()):
            if not committed:
                self._sent.pop(key, None)

    def ended(self, session: str) -> None:
        """A session ended; its open transactions are aborted."""
        for transaction in [*self._session(session).open]:
            self.settled(session, transaction, committed=False)

    def read(self, until: float) -> None:
        """The journal was read up to this time. Copies that came long before, and have no SEND in it, are unknown."""
        while self._came:
            key, came = next(iter(self._came.items()))
            if came.at > until - PATIENCE:
                break
            del self._came[key]
            self.unknown += 1

    # NEW

    def came(self, mark: Mark, destination: str, *, same: bool, again: bool, at: float) -> None:
        """A copy came. `again`: it is marked as one that may have come before."""
        key = mark.session.decode("utf-8", "backslashreplace"), mark.number
        session = self._session(key[0])
        last = session.lasts.get(destination, 0)
        session.lasts[destination] = max(last, mark.number)
        session.firsts[destination] = min(session.firsts.get(destination, mark.number), mark.number)
        came = _Came(same, mark.number < last and not again, at)
        sent = self._sent.pop(key, None)
        if sent is not None:
            self._pair(sent, came)
        elif mark.number <= session.forgotten:
            self.uncompared += 1
        elif key in self._came or session.begin <= mark.number <= session.end:
            # Its SEND was read, and has had a copy.
            counts = self._of(destination, session.producer)
            counts.marked += again
            counts.twice += not again
        else:
            self._came[key] = came
            if len(self._came) > self._most:
                del self._came[next(iter(self._came))]
                self.uncompared += 1

    def _of(self, destination: str, producer: str) -> Counts:
        key = destination, producer
        if key not in self._counts and len(self._counts) >= PRODUCERS:
            key = _OTHERS
        return self._counts.setdefault(key, Counts(*key))

    def _pair(self, sent: _Sent, came: _Came) -> None:
        counts = self._of(sent.destination, sent.producer)
        counts.sent += 1
        counts.same += came.same
        counts.other += not came.same
        counts.late += came.late
        if sent.at >= self.since.get(sent.destination, inf):
            counts.lag = max(counts.lag, came.at - sent.at)

    def _is_compared(self, key: Key, sent: _Sent) -> bool:
        if sent.at >= self.since.get(sent.destination, inf):
            return True
        return key[1] >= self._session(key[0]).firsts.get(sent.destination, key[1] + 1)

    def lacking(self, until: float) -> list[_Sent]:
        """Return the SENDs before this time that have no copy yet."""
        open_ = {key for each in self._sessions.values() for keys in each.open.values() for key in keys}
        waiting = [(key, sent) for key, sent in self._sent.items() if sent.at < until and key not in open_]
        return [sent for key, sent in waiting if self._is_compared(key, sent)]

    def close(self, until: float) -> None:
        """Count SENDs before this time that have no copy as missing. Call nothing else afterwards."""
        for sent in self.lacking(until):
            counts = self._of(sent.destination, sent.producer)
            counts.sent += 1
            counts.missing += 1


# The consumer


class Compare(Consumer):
    """Takes copies from NEW for so many `seconds`, and compares them with what the journal has. `destinations`: from
    where, to begin with; others are added when they are in the journal. `moves` returns whether a client of a listener
    (by its name) that sends to a destination sends to the move. For the rest see `Consumer`.

    `until`: SENDs before this time are compared. `others`: messages that are no copies, by destination; they were left
    at NEW.
    """

    def __init__(
        self,
        destinations: Iterable[str],
        moves: Callable[[str, str], bool],
        upstream: Upstream,
        profile: Callable[[End], Profile],
        *,
        epoch: float = 0.0,
        seconds: float = 60.0,
    ) -> None:
        super().__init__({End.NEW: upstream}, profile, epoch)
        self.comparison = Comparison()
        self.others: defaultdict[str, int] = defaultdict(int)
        self.until = inf
        self._moves = moves
        self._seconds = seconds
        self._talk = self._talks[End.NEW]
        self._came_at = self._fewer_at = -inf
        self._lacking = inf
        self._destinations: dict[bytes, str] = {}
        self._known: set[str] = set()
        for each in destinations:
            self._add(each)

    # Inputs

    def begun(self, now: float) -> Sequence[Request]:
        """Begin."""
        self.until = min(self.until, now + self._seconds)
        self._open(End.NEW)
        return self._after(now)

    def stopped(self, reason: str, now: float) -> Sequence[Request]:
        """The comparison shall end now, as if its time were over."""
        self.until = min(self.until, now)
        return self._after(now)

    def unreadable(self, reason: str, now: float) -> Sequence[Request]:
        """The journal cannot be read."""
        self._end(reason)
        return self._after(now)

    def ahead(self, now: float) -> bool:
        """Whether more of the journal should be read later, because copies of what was read are coming."""
        return self.comparison.ahead and now < self._came_at + COMING

    def wants(self, context: Context, head: bytes) -> bool:
        """Return whether a frame of the journal matters."""
        return context.side == JournalSide.CLIENT.value and head.startswith(
            (names.SEND, names.COMMIT, names.ABORT)
        )

    def recorded(
        self, context: Context, number: int, what: str, headers: Mapping[str, str], at: float, now: float
    ) -> Sequence[Request]:
        """The journal has this: a frame with its command and its number on its leg, or an event with its name. `at` is
        in seconds since 1970.
        """
        session, transaction = context.session, headers.get("transaction")
        if what in _ENDS:
            self.comparison.ended(session)
        elif what in _SETTLING:
            self.comparison.settled(session, transaction or "", committed=what == _SETTLING[0])
        elif what == _SEND and self._moves(context.listener, destination := headers.get("destination", "")):
            self.comparison.sent((session, number), destination, context.client, transaction, at)
            if destination.isprintable():
                self._add(destination)
        return self._after(now)

    def read(self, now: float) -> Sequence[Request]:
        """All records of the journal were passed to `recorded`."""
        self.comparison.read(self._epoch + now)
        if now >= self.until and not self._leaving:
            lacking = len(self.comparison.lacking(self._epoch + self.until))
            if lacking < self._lacking:
                self._lacking, self._fewer_at = lacking, now
            over_at = self._fewer_at + PATIENCE if lacking else self.until + FLUSHED
            if now >= over_at and not self._leave(End.NEW, now):
                self._end(_NEW + (self._talk.error or "it was not there"))
        return self._after(now)

    # Frames

    def _read(self, end: End, talk: Talk, frame: Frame, now: float) -> None:
        if frame.command is names.CONNECTED:
            talk.connected(now)
            for id_, destination in self._destinations.items():
                self._subscribe(end, id_, destination, topic=_is_topic(destination))
        elif frame.command is names.MESSAGE:
            self._came(frame, now)
        elif frame.command is names.RECEIPT:
            receipt = frame.header(names.RECEIPT_ID, V1_2) or b""
            if receipt == BYE:
                self._end("")
            elif (known := self._destinations.get(receipt)) is not None:
                self.comparison.watched(known, self._epoch + now)
        elif frame.header(names.MESSAGE_HEADER, V1_2) != BROKER_LOST:
            talk.error, profile = told(frame), self._profile(end)
            if not (profile.leaves(frame) if talk.up else profile.unavailable(frame)):
                self._end(_NEW + talk.error)
        # The end of the connection follows.

    def _came(self, frame: Frame, now: float) -> None:
        destination = self._destinations.get(frame.header(names.SUBSCRIPTION, V1_2) or b"")
        ack = frame.header(names.ACK_HEADER, V1_2)
        if destination is None:
            return
        self._came_at = now
        mark = Mark.parse(frame.header(COPY, V1_2))
        if mark is None:
            self.others[destination] += 1
            return  # NEW has it again when the subscription ends
        again = frame.header(names.REDELIVERED, V1_2) == b"true" or frame.header(RESENT, V1_2) is not None
        same = crc32(frame.payload) == mark.check
        self.comparison.came(mark, destination, same=same, again=again, at=self._epoch + now)
        if ack is not None:
            self._write(End.NEW, names.ACK, [(names.ID, ack)])

    def _add(self, destination: str) -> None:
        """Take copies from this destination, too, unless these are too many."""
        if destination in self._known or len(self._known) >= DESTINATIONS:
            return
        id_ = b"%d" % len(self._known)
        self._known.add(destination)
        self._destinations[id_] = destination
        if self._talk.up:
            self._subscribe(End.NEW, id_, destination, topic=_is_topic(destination))

    # The end

    def _lost(self, end: End, talk: Talk, now: float, *, again: bool) -> None:
        if self._leaving or not again:
            self._end(_NEW + talk.error)

    def _timed_out(self, now: float) -> None:
        if now >= self._ends_at:
            self._end(f"{_NEW}it did not confirm DISCONNECT")

    def _end(self, trouble: str) -> None:
        self.reason = trouble
        self.comparison.close(self._epoch + self.until)
        self._finish()

    def _go_on(self, now: float) -> None:
        self.holding = self.comparison.crowded


def _is_topic(destination: str) -> bool:
    return destination.encode().startswith(TOPICS)

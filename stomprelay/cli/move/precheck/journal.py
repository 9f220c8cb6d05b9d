"""What clients did, from the frames of a journal."""

import heapq
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from stomprelay.cli.move.precheck.pair import Pair
from stomprelay.cli.move.precheck.report import Extra
from stomprelay.journal.block import Damage
from stomprelay.journal.folder import Folder
from stomprelay.journal.records import Record, RecordFilter, records
from stomprelay.journal.schema import Context, JournalSide
from stomprelay.journal.segment import parse_name, spell_time
from stomprelay.relay.model.usage import session_of
from stomprelay.session.effects import Event
from stomprelay.session.session import Session
from stomprelay.wire.dialect import Headers
from stomprelay.wire.names import (
    ABORT,
    ACK,
    COMMIT,
    DESTINATION,
    ID,
    NACK,
    OPENING,
    SEND,
    SUBSCRIBE,
    SUBSCRIPTION,
    TRANSACTION,
    UNSUBSCRIBE,
)

SOURCE: Final = "the journal"
_CLIENT_ID: Final = "client-id"
_HOST: Final = "host"
UNKNOWN: Final = b"?"
"""The client-id of a session whose CONNECT is not in the journal."""
_MOST: Final = 20_000
"""How many sessions are followed at a time."""
_ENDS: Final = {Event.DISCONNECTED.value, Event.VANISHED.value}
_JUDGED: Final = {each.decode(): each for each in (SEND, SUBSCRIBE, UNSUBSCRIBE, ACK, NACK)}
_OPENING: Final = {each.decode() for each in OPENING}
_SETTLING: Final = {COMMIT.decode(), ABORT.decode()}


class Watch:
    """A subscription with a selector that the new broker would ignore. It counts messages as long as it is open."""

    __slots__ = ("client", "delivered", "id", "place", "sent")

    def __init__(self, client: str, place: bytes, id: bytes | None) -> None:
        self.client = client
        self.place = place
        self.id = id
        self.sent = self.delivered = 0


class Watches:
    """The subscriptions with selectors: how many messages went to their destinations, and how many came to them."""

    def __init__(self) -> None:
        self._by_session: dict[str, list[Watch]] = {}
        self._by_place: dict[bytes, dict[Watch, None]] = {}
        self._wild: dict[Watch, None] = {}
        self._done: Counter[tuple[str, bytes, str]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._by_session)

    def opened(self, session: str, watch: Watch) -> None:
        """Count from now on."""
        self.closed(session, watch.id, watch.place)
        self._by_session.setdefault(session, []).append(watch)
        if wild(watch.place):
            self._wild[watch] = None
        else:
            self._by_place.setdefault(watch.place, {})[watch] = None

    def closed(self, session: str, id: bytes | None, place: bytes | None) -> None:
        """Count no more for the subscription with this id, or to this destination."""
        for each in self._by_session.get(session, ()):
            if each.id == id and (id is not None or each.place == place):
                self._end(session, each)
                return

    def left(self, session: str) -> None:
        """Count no more for this session."""
        for each in [*self._by_session.get(session, ())]:
            self._end(session, each)

    def _end(self, session: str, watch: Watch) -> None:
        self._by_session[session].remove(watch)
        if not self._by_session[session]:
            del self._by_session[session]
        self._wild.pop(watch, None)
        same = self._by_place.get(watch.place, {})
        same.pop(watch, None)
        if not same:
            self._by_place.pop(watch.place, None)
        for name in ("sent", "delivered"):
            self._done[watch.client, watch.place, name] += getattr(watch, name)

    def sent(self, place: bytes, count: int = 1) -> None:
        """Count messages that clients sent."""
        for each in self._by_place.get(place, ()):
            each.sent += count
        for each in self._wild:
            each.sent += count * fits(each.place, place)

    def delivered(self, session: str, id: bytes | None, place: bytes) -> None:
        """Count a message that came to a subscription."""
        for each in self._by_session.get(session, ()):
            if each.id == id or (each.id is None and each.place == place):
                each.delivered += 1
                return

    def extras(self) -> Iterator[Extra]:
        """Return the sums by client and destination. Call this at the end."""
        for session in [*self._by_session]:
            self.left(session)
        for client, place in dict.fromkeys([each[:2] for each in self._done]):
            said = place.decode("utf-8", "backslashreplace")
            yield Extra(
                client, said, self._done[client, place, "sent"], self._done[client, place, "delivered"]
            )


def wild(place: bytes) -> bool:
    """Return whether a destination has wildcards."""
    return bool({b"*", b">", b"#"}.intersection(place.replace(b"/", b".").split(b".")))


@lru_cache(4096)
def fits(pattern: bytes, place: bytes) -> bool:
    """Return whether a destination matches one with wildcards."""
    wanted, words = pattern.split(b"."), place.split(b".")
    wanted[:1], words[:1] = wanted[0].split(b"/"), words[0].split(b"/")
    for number, each in enumerate(wanted):
        if each in (b">", b"#"):
            return True
        if number >= len(words) or each not in (b"*", words[number]):
            return False
    return len(wanted) == len(words)


class Reading:
    """Reads records of a journal, in the order of time. Call `take` with each, and `end` at the end."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._report = pair.report
        self._judge = pair.judge
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._watches = Watches()
        self._pending: dict[str, dict[bytes, Counter[bytes]]] = {}
        """By session and transaction: how many messages wait for COMMIT, by destination."""
        self.frames = self.damages = 0
        self.clients: set[str] = set()
        self.since: int | None = None
        self.until: int | None = None

    def wants(self, context: Context, head: bytes) -> bool:
        """Return whether a frame matters: of a broker, MESSAGEs as long as there are selectors."""
        if context.side == JournalSide.BROKER.value:
            return bool(self._watches) and head.startswith(b"MESSAGE")
        if head.startswith(ACK):
            return any(each in head for each in self._judge.settling)
        return True

    def take(self, record: Record) -> None:
        """Count a record."""
        context = record.context
        if record.event is not None:
            if record.event.event in _ENDS and record.event.facts.get("end", True):
                self._report.add(context.client, self._report.connects.left(context.session), SOURCE)
                self._left(context.session)
            return
        if context.side == JournalSide.BROKER.value:
            if record.command == "MESSAGE" and context.upstream == self._pair.old.name:
                said = _encoded(record.headers)
                self._watches.delivered(context.session, said.get(SUBSCRIPTION), said.get(DESTINATION, b""))
            return
        if not self._pair.concerns(context.listener, None):
            return
        if record.command in _OPENING:
            name = (record.header(_CLIENT_ID) or "").encode()
            self._sessions[context.session] = session_of(context.session.encode(), name)
            host = (record.header(_HOST) or "").encode()
            self._report.add(
                context.client, self._report.connects.opened(context.session, host, name), SOURCE
            )
        elif record.command in _SETTLING:
            name = (record.header(TRANSACTION.decode()) or "").encode()
            pending = self._pending.get(context.session, {}).pop(name, Counter())
            for place, count in pending.items() if record.command == COMMIT.decode() else ():
                self._watches.sent(place, count)
        elif (command := _JUDGED.get(record.command)) is not None:
            self._of_client(record, command)

    def _of_client(self, record: Record, command: bytes) -> None:
        context = record.context
        headers: Headers = [(name.encode(), value.encode()) for name, value in record.headers]
        first = dict(reversed(headers))
        place = first.get(DESTINATION)
        if not self._pair.concerns(context.listener, place):
            return
        self.frames += 1
        self.clients.add(context.client)
        self.since = self.since or record.time
        self.until = record.time
        session = self._sessions.get(context.session)
        if session is None:
            session = self._sessions[context.session] = session_of(context.session.encode(), UNKNOWN)
            if len(self._sessions) > _MOST:
                self._left(next(iter(self._sessions)))
        self._report.add(context.client, self._judge.judge(command, headers, session), SOURCE)
        if command is SEND and place is not None and (self._watches or TRANSACTION in first):
            if TRANSACTION in first:
                pending = self._pending.setdefault(context.session, {})
                pending.setdefault(first[TRANSACTION], Counter())[place] += 1
            else:
                self._watches.sent(place)
        elif command is UNSUBSCRIBE:
            self._watches.closed(context.session, first.get(ID), place)
        elif command is SUBSCRIBE and place is not None and first.get(self._judge.selector or b""):
            self._watches.opened(context.session, Watch(context.client, place, first.get(ID)))

    def _left(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._watches.left(session)
        self._pending.pop(session, None)

    def end(self) -> None:
        """Write the sums into the report."""
        report = self._report
        for extra in self._watches.extras():
            report.add_extra(extra)
        period = (
            ""
            if self.since is None or self.until is None
            else (f", {spell_time(self.since)} to {spell_time(self.until)}")
        )
        report.saw(SOURCE, self.frames, self.clients, period)
        if self.damages:
            report.unlooked.append(f"{self.damages} damaged places of the journal")


def _encoded(headers: Iterable[tuple[str, str]]) -> Mapping[bytes, bytes]:
    return dict(reversed([(name.encode(), value.encode()) for name, value in headers]))


def _streams(places: Iterable[str], since: int | None) -> Iterator[list[Path]]:
    """Yield the paths of each relay's segments, in order. Raises `OSError`."""
    found: dict[str, list[Path]] = {}
    for place in map(Path, places):
        if place.is_dir():
            for each in Folder(place).segments():
                if since is None or each.written >= since:
                    found.setdefault(each.relay, []).append(each.path)
        else:
            place.stat()
            name = parse_name(place.name)
            found.setdefault("" if name is None else name[0].relay, []).append(place)
    yield from found.values()


def read(places: Iterable[str], since: int | None, until: int | None, reading: Reading) -> None:
    """Read all records of these folders and segments from `since` on and before `until` (ns since 1970), and end the
    reading. Raises `OSError`.
    """
    wanted = RecordFilter(since=since, until=until)

    def stream(paths: list[Path]) -> Iterator[Record]:
        for path in paths:
            for found in records(path, reading.wants):
                if isinstance(found, Damage):
                    reading.damages += not found.torn
                elif wanted.matches(found):
                    yield found

    for record in heapq.merge(*map(stream, _streams(places, since)), key=lambda each: each.time):
        reading.take(record)
    reading.end()

"""The state of a relay at one moment, in numbers and words, for all pages and for the sum of several processes."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar, cast

from stomprelay import __version__
from stomprelay.relay.model.counters import BOUNDS, FORMER, TIMES, DestinationCounts, DestinationTally
from stomprelay.relay.model.group import Broker, BrokerTally
from stomprelay.relay.model.move import MoveRow
from stomprelay.service.brokers import LAST, Outage
from stomprelay.service.connection.memory import MemoryRow
from stomprelay.service.journal.journal import Journal
from stomprelay.service.moves import summed as summed_moves
from stomprelay.service.state import ListenerSessions, RelayState
from stomprelay.wire.errors import visible

Row = TypeVar("Row")

SERVES: Final = "serves"
"""The state of a worker that accepts clients."""

STATES: Final = ("paused", "out", "down", "up", "unknown")
"""The states of a broker, the worst first. If several states apply, the first of these counts."""


class LimitRow(NamedTuple):
    """A limit's effect: how often sessions were `paused` and clients `refused`, and the seconds sessions waited."""

    scope: str
    limit: str
    paused: int
    refused: int
    seconds: float


class ListenerRow(NamedTuple):
    """A listener, its counters, the clients of each STOMP version (`none`: before CONNECT), and its limits' effect."""

    name: str
    endpoint: str
    brokers: str
    sessions: int
    counters: Mapping[str, int]
    versions: Mapping[str, int] = {}
    limited: tuple[LimitRow, ...] = ()


class BrokerRow(NamedTuple):
    """A broker in its group. `up` is None before the broker was tried. `sessions`: all its sessions. `moving`: how many
    of them are about to leave. `staying`: how many of them cannot leave, for the reason `stays`. `why`: the broker's
    last failure. `tally`: its counters since the start.
    """

    uri: str
    upstream: str
    group: str
    state: str
    up: bool | None
    paused: bool
    sessions: int
    moving: int
    failures: int
    staying: int = 0
    stays: str = ""
    why: str = ""
    tally: BrokerTally = BrokerTally()


class JournalRow(NamedTuple):
    """The journal: folder, state in words, whether it cannot be written, whether sessions wait, and its counters."""

    directory: str
    state: str
    trouble: bool
    stuck: bool
    waiting: int
    counts: Mapping[str, int]


class WorkerRow(NamedTuple):
    """A worker: process, state in words, restarts. `seen`: when its figures were taken, in seconds since 1970, or 0."""

    number: int
    process: int | None
    state: str
    sessions: int
    restarts: int
    seen: float = 0.0


class TimeRow(NamedTuple):
    """A histogram since the start: one of `TIMES` for a listener or upstream. `counts`: values in each of `BOUNDS`."""

    name: str
    label: str
    counts: tuple[int, ...]
    sum: float


class DestinationRow(NamedTuple):
    """The counters of a destination. The row with None has the sums of all destinations without a row. A row that is
    not `shown` is only used for sums of several processes.
    """

    destination: str | None
    tally: DestinationTally
    shown: bool = True


class Snapshot(NamedTuple):
    """The state of a relay at `time`. The relay began at `started`. Both are in seconds since 1970. `workers` is empty
    in a relay of one process. `destinations` are estimated from samples if there is much traffic. `certificates`: when
    each certificate ends, by its table in the configuration.
    """

    stopping: bool
    connections: int
    listeners: tuple[ListenerRow, ...]
    brokers: tuple[BrokerRow, ...]
    journal: JournalRow | None
    workers: tuple[WorkerRow, ...] = ()
    times: tuple[TimeRow, ...] = ()
    destinations: tuple[DestinationRow, ...] = ()
    certificates: Mapping[str, float] = {}
    started: float = 0.0
    time: float = 0.0
    outages: tuple[Outage, ...] = ()
    draining: bool = False
    memory: MemoryRow = MemoryRow()
    moves: tuple[MoveRow, ...] = ()

    @property
    def clients(self) -> int:
        """Return the number of sessions."""
        return sum(each.sessions for each in self.listeners)

    @property
    def top(self) -> list[DestinationRow]:
        """Return the rows to show: destinations with most frames first, all other destinations as one last row."""
        shown = [each for each in self.destinations if each.shown]
        return sorted(shown, key=lambda row: (row.destination is None, -row.tally.sends - row.tally.messages))


def snapshot(state: RelayState, *, whole: bool) -> Snapshot:
    """Return the snapshot of this process's relay. `whole`: also count the sessions that are leaving each broker,
    which needs a look at each session.
    """
    moving: Counter[Broker] = Counter()
    staying: dict[Broker | None, list[str]] = defaultdict(list)
    for session in state.sessions if whole else ():
        for link in session.relay.links:
            if link.moving is not None and link.broker is not None:
                moving[link.broker] += 1
            elif link.stays:
                staying[link.broker].append(link.stays)
    # Each broker's tallies are summed in one step, because there may be very many.
    carried: dict[Broker, list[BrokerTally]] = defaultdict(list)
    for session in state.sessions:
        session.report_passed()  # else the counters lack the frames that passed without the core
        for broker, tally in session.tallies():
            carried[broker].append(tally)
    now, tallies = state.runtime.seconds(), state.runtime.tallies
    return Snapshot(
        state.sessions.stopping,
        state.runtime.sockets,
        tuple(_listener(each) for each in state.sessions.counted),
        tuple(
            BrokerRow(
                each.broker.uri,
                each.upstream.name,
                each.group.name,
                each.state(now),
                each.broker.health.up,
                each.broker.health.paused,
                each.broker.health.sessions,
                moving[each.broker],
                each.broker.health.failures,
                len(staying[each.broker]),
                visible(staying[each.broker][-1]) if staying[each.broker] else "",
                state.outages.reason(each.upstream.name, str(each.broker)),
                BrokerTally(*map(sum, zip(each.broker.tally, *carried[each.broker], strict=True))),
            )
            for each in state.brokers
        ),
        None if state.journal is None else _journal(state.journal),
        times=tuple(
            TimeRow(name, label, tuple(each.counts), each.sum)
            for (name, label), each in tallies.times.items()
        ),
        destinations=() if tallies.counter is None else tuple(_counted(tallies.counter.table)),
        certificates=state.certificates(),
        started=state.started,
        time=state.outages.time,
        outages=state.outages.shown(),
        draining=state.sessions.draining,
        memory=state.runtime.memory.row,
        moves=state.moves.rows(),
    )


def _counted(table: DestinationCounts) -> Iterator[DestinationRow]:
    for shown, found in ((True, table.shown), (False, table.former)):
        for name, tally in found.items():
            yield DestinationRow(name.decode("utf-8", "backslashreplace"), tally, shown)
    yield DestinationRow(None, table.other)


def _listener(sessions: ListenerSessions) -> ListenerRow:
    listener = sessions.listener
    brokers = ", ".join(str(broker) for upstream in listener.upstreams() for broker in upstream.brokers)
    spoken = Counter(
        b"none" if each.relay.session is None else each.relay.session.dialect.version for each in sessions
    )
    versions = {version.decode("ascii"): count for version, count in spoken.items()}
    limited = tuple(
        LimitRow(scope.value, limit.value, tally.paused, tally.refused, tally.seconds)
        for (scope, limit), tally in sessions.limiter.tallies.items()
    )
    return ListenerRow(
        listener.name, listener.endpoint, brokers, len(sessions), dict(sessions.counters), versions, limited
    )


def _journal(journal: Journal) -> JournalRow:
    written, dropped = journal.written, journal.dropped
    counts = {
        "blocks": written.blocks,
        "frames": written.frames,
        "bytes": written.size,
        "dropped_blocks": dropped.blocks,
        "dropped_frames": dropped.frames,
        "dropped_bytes": dropped.size,
        "write_errors": written.errors,
    }
    return JournalRow(
        str(journal.directory), journal.state, bool(written.trouble), journal.stuck, journal.waiting, counts
    )


# The dashboard


def overview(taken: Snapshot, orders: Iterable[str]) -> str:
    """Return the state of the relay as JSON text. `orders` are the paths of POSTs that the page may send."""
    found = {
        "version": __version__,
        "time": taken.time,
        "started": taken.started,
        "stopping": taken.stopping,
        "draining": taken.draining,
        "connections": taken.connections,
        "sessions": taken.clients,
        "listeners": [each._asdict() for each in taken.listeners],
        "brokers": [
            {**each._asdict(), "tally": each.tally._asdict(), "waiting": each.tally.waiting}
            for each in taken.brokers
        ],
        "memory": taken.memory._asdict(),
        "journal": taken.journal and taken.journal._asdict(),
        "workers": [each._asdict() for each in taken.workers],
        "times": [
            {**each._asdict(), "by": TIMES[each.name].by, "meaning": TIMES[each.name].meaning}
            for each in taken.times
        ],
        "bounds": BOUNDS,
        "destinations": [{"destination": each.destination, **each.tally._asdict()} for each in taken.top],
        "outages": [each._asdict() for each in taken.outages],
        "moves": [each.shown for each in taken.moves],
        "orders": sorted(orders),
    }
    return json.dumps(found) + "\n"


# Several processes


def read(values: Iterable[Any]) -> Snapshot:
    """Return the snapshot of another process, from its `values` in JSON. JSON has no tuples: lists become tuples again.
    The process must have the same version.
    """
    found = Snapshot(*values)
    return found._replace(
        listeners=tuple(
            ListenerRow(*each)._replace(limited=tuple(LimitRow(*one) for one in each[-1]))
            for each in found.listeners
        ),
        brokers=tuple(BrokerRow(*each)._replace(tally=BrokerTally(*each[-1])) for each in found.brokers),
        journal=None if found.journal is None else JournalRow(*found.journal),
        workers=tuple(WorkerRow(*each) for each in found.workers),
        times=tuple(TimeRow(name, label, tuple(counts), sum) for name, label, counts, sum in found.times),
        destinations=tuple(
            DestinationRow(name, DestinationTally(*tally), shown) for name, tally, shown in found.destinations
        ),
        outages=tuple(Outage(*each) for each in found.outages),
        memory=MemoryRow(*found.memory),
        moves=tuple(MoveRow(*each) for each in found.moves),
    )


def ended(last: Snapshot) -> Snapshot:
    """Return the last snapshot of a process that ended, reduced to what still counts in sums."""
    journal = last.journal and last.journal._replace(trouble=False, stuck=False, waiting=0)
    listeners = tuple(each._replace(sessions=0, versions={}) for each in last.listeners)
    brokers = tuple(
        each._replace(state=STATES[-1], up=None, paused=False, sessions=0, moving=0, failures=0, staying=0)
        for each in last.brokers
    )
    destinations = tuple(each._replace(shown=each.destination is None) for each in last.destinations)
    outages = tuple(each._replace(ended=each.ended or last.time) for each in last.outages)
    return Snapshot(
        last.stopping,
        0,
        listeners,
        brokers,
        journal,
        times=last.times,
        destinations=destinations,
        time=last.time,
        outages=outages,
    )


def summed(first: Snapshot, others: Iterable[Snapshot]) -> Snapshot:
    """Return the sum of several processes, with the listeners and brokers of `first`. A broker has the worst state of
    any process; the journal is the first journal with trouble.
    """
    each = [first, *others]
    journals = [one.journal for one in each if one.journal is not None]
    return Snapshot(
        first.stopping,
        sum(one.connections for one in each),
        _joined((row for one in each for row in one.listeners), attrgetter("name"), _listeners),
        _joined((row for one in each for row in one.brokers), attrgetter("upstream", "group", "uri"), merged),
        _journals(journals) if journals else None,
        (),
        _joined((row for one in each for row in one.times), attrgetter("name", "label"), _times),
        _destinations(each),
        _certificates(each),
        first.started,
        max(one.time for one in each),
        _outages(outage for one in each for outage in one.outages),
        draining=first.draining,
        memory=first.memory._replace(
            kept=sum(one.memory.kept for one in each), held=sum(one.memory.held for one in each)
        ),
        moves=summed_moves(first.moves, (row for one in each[1:] for row in one.moves)),
    )


def _certificates(each: list[Snapshot]) -> dict[str, float]:
    """Return the earliest end of each certificate in any process. The first snapshot is of a process that serves no
    clients. It is used only for certificates that no other process has.
    """
    first, *others = (one.certificates for one in each)
    found: dict[str, float] = {}
    for table, end in (pair for shown in others for pair in shown.items()):
        found[table] = min(end, found.get(table, end))
    return {**first, **found}


def _joined(
    rows: Iterable[Row], key: Callable[[Row], object], join: Callable[[Row, Row], Row]
) -> tuple[Row, ...]:
    """Join the rows that have the same key. Return all rows in the order in which each key first occurs."""
    found: dict[object, Row] = {}
    for row in rows:
        known = found.get(key(row))
        found[key(row)] = row if known is None else join(known, row)
    return tuple(found.values())


def added(one: Row, other: Row, **further: object) -> Row:
    """Return the sum of two rows, which are named tuples: numbers and rows in them are added, of other values the first
    counts that is true or not empty. `further`: the values of fields for which this is wrong.
    """
    mine: Any = one
    sums = dict(further)
    for name, here, there in zip(mine._fields, mine, cast(Any, other), strict=True):
        if name not in further:
            if isinstance(here, tuple) and hasattr(here, "_fields"):
                sums[name] = added(here, there)
            else:
                sums[name] = here + there if type(here) in (int, float) else here or there
    return cast(Row, mine._replace(**sums))


def _times(one: TimeRow, other: TimeRow) -> TimeRow:
    return added(one, other, counts=tuple(map(sum, zip(one.counts, other.counts, strict=True))))


def _destinations(each: list[Snapshot]) -> tuple[DestinationRow, ...]:
    """Return the sums by destination. Keep only the `FORMER` largest of the rows that no process shows."""
    found = _joined((row for one in each for row in one.destinations), attrgetter("destination"), added)
    hidden = sorted((row for row in found if not row.shown), key=lambda row: -max(row.tally))
    return (*(row for row in found if row.shown), *hidden[:FORMER])


def _outages(found: Iterable[Outage]) -> tuple[Outage, ...]:
    """Return the last outages, ordered by their beginnings. Overlapping outages of one broker are joined."""
    joined: list[Outage] = []
    latest: dict[tuple[str, str], int] = {}
    for each in sorted(found, key=lambda outage: outage.began):
        place = each.upstream, each.broker
        before = joined[latest[place]] if place in latest else None
        if before is not None and (before.ended is None or each.began <= before.ended):
            ended = (
                None if None in (before.ended, each.ended) else max(before.ended or 0.0, each.ended or 0.0)
            )
            joined[latest[place]] = added(before, each, began=before.began, ended=ended)
        else:
            latest[place] = len(joined)
            joined.append(each)
    over = [each for each in joined if each.ended is not None]
    left_out = set(over[:-LAST])
    return tuple(each for each in joined if each not in left_out)


def _listeners(one: ListenerRow, other: ListenerRow) -> ListenerRow:
    counters = {name: count + other.counters.get(name, 0) for name, count in one.counters.items()}
    versions = Counter(one.versions) + Counter(other.versions)
    limited = _joined((*one.limited, *other.limited), attrgetter("scope", "limit"), added)
    return added(one, other, counters=counters, versions=versions, limited=limited)


def merged(one: BrokerRow, other: BrokerRow) -> BrokerRow:
    """Return two rows of one broker as one: the worse state, and the sum of their sessions."""
    ups = [row.up for row in (one, other) if row.up is not None]
    return added(
        one,
        other,
        state=min(one.state, other.state, key=STATES.index),
        up=all(ups) if ups else None,
        failures=max(one.failures, other.failures),
    )


def _journals(rows: list[JournalRow]) -> JournalRow:
    worst = next((row for row in rows if row.stuck or row.trouble), rows[-1])
    counts = {name: sum(row.counts.get(name, 0) for row in rows) for name in rows[0].counts}
    waiting = sum(row.waiting for row in rows)
    return worst._replace(stuck=any(row.stuck for row in rows), waiting=waiting, counts=counts)

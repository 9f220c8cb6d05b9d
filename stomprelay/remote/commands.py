"""The commands that ask a running relay. Each command prints lines, and returns the exit status."""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import inf
from typing import Any, Final

from stomprelay.config.address import broker as read_broker
from stomprelay.config.address import host_and_port
from stomprelay.config.table import nearest
from stomprelay.journal.command import record_lines, table
from stomprelay.journal.records import Record, records_of
from stomprelay.journal.segment import parse
from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.relay.model.move import MoveRow
from stomprelay.remote.client import (
    RATES,
    AdminClient,
    AdminError,
    BrokerStatus,
    DrainStatus,
    session_cells,
)
from stomprelay.wire.errors import visible

ALL: Final = "*"

_PAGE: Final = 1000
"""The number of sessions in one request: the most that the relay returns."""
_BETWEEN: Final = 1.0
"""Seconds between the two requests that measure the rates of sessions."""
POLL: Final = 0.25
"""Seconds from one answer to the next request. Meanwhile the relay keeps frames for `tail`, up to a bound."""
_GRACE: Final = 5.0
"""Seconds that `pause` waits longer than the time that sessions have to leave a broker."""
_WAIT: Final = 60.0
"""Seconds to wait for sessions to leave if `within` is not given. The relay's own setting is not known here."""

PrintLine = Callable[[str], None]


def brokers(admin: AdminClient, print_line: PrintLine, *, as_json: bool = False) -> int:
    """Print all brokers and their states, and return the exit status."""
    _print_brokers(admin.brokers(), print_line, as_json=as_json)
    return 0


def resume(admin: AdminClient, name: str, print_line: PrintLine, *, as_json: bool = False) -> int:
    """Take a broker into service again, print its state, and return the exit status."""
    uri = _uri(admin.brokers(), name)
    _print_brokers(_of(uri, admin.resume(uri)), print_line, as_json=as_json)
    return 0


def sessions(
    admin: AdminClient,
    filters: Iterable[tuple[str, str]],
    sort: str,
    top: int | None,
    print_line: PrintLine,
    *,
    as_json: bool = False,
    rates: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Print the sessions that match all filters, or the first `top` of them, and return the exit status. For rates the
    relay is asked twice, a second apart. If workers did not answer, `AdminError` is raised at the end.
    """
    filters, order = tuple(filters), RATES.get(sort)
    names: tuple[str, ...] = SESSION
    asked = (sort, top) if order is None else (ORDERS[0], None)
    rows, missing = every_session(admin, filters, *asked)
    if rates or order is not None:
        sleep(_BETWEEN)
        again, others = every_session(admin, filters, *asked)
        rows, missing, names = [*with_rates(rows, again)], missing | others, SESSION_RATES
    if order is not None:
        rows = sorted(rows, key=lambda row: -sum(row[name] for name in order))[:top]
    for line in map(json.dumps, rows) if as_json else table(names, map(session_cells, rows)):
        print_line(line)
    if missing:
        raise AdminError(f"{' and '.join(sorted(missing))} did not answer: their sessions are left out")
    return 0


def every_session(
    admin: AdminClient,
    filters: tuple[tuple[str, str], ...] = (),
    sort: str = "session",
    top: int | None = None,
    *,
    subscriptions: bool = False,
) -> tuple[list[dict[str, Any]], set[str]]:
    """Return at most `top` sessions that match all filters, and the names of workers that did not answer. With
    `subscriptions` each session has its subscriptions.
    """
    rows, missing, after = list[dict[str, Any]](), set[str](), ""
    while True:
        most = _PAGE if top is None else min(_PAGE, top - len(rows))
        page = admin.sessions(filters, sort, most, after, subscriptions=subscriptions)
        rows += page.sessions
        missing.update(page.missing)
        if page.next is None or len(rows) == top:
            return rows, missing
        after = page.next


def kill(admin: AdminClient, name: str, print_line: PrintLine) -> int:
    """End a session, and return the exit status."""
    admin.kill(name)
    print_line(f"{visible(name)}: ended")
    return 0


def reload(admin: AdminClient, print_line: PrintLine) -> int:
    """Make the relay read its configuration again, print what changed, and return the exit status."""
    found = admin.reload()
    for key in found.changed:
        print_line(visible(key))
    for key in found.restart:
        print_line(f"{visible(key)}: needs a restart")
    if not found.changed and not found.restart:
        print_line("nothing changed")
    return 0


def pause(
    admin: AdminClient,
    name: str,
    within: float | None,
    print_line: PrintLine,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Take a broker out of service, wait until it has no session, and return 0. Raises `AdminError` if sessions are
    left when the time is over, or cannot leave.
    """
    uri = _uri(admin.brokers(), name)
    statuses = _of(uri, admin.pause(uri, within))
    end = clock() + (_WAIT if within is None else within + _GRACE)
    printed = None
    while True:
        if any(each.state != "paused" for each in statuses):
            raise AdminError(f"{name}: is not paused any more")
        left = sum(each.sessions for each in statuses)
        if left != printed:
            print_line(f"{visible(name)}: paused, {left or 'no'} session{'' if left == 1 else 's'} left")
            printed = left
        if not left:
            return 0
        staying = sum(each.staying for each in statuses)
        if staying == left or (staying and clock() >= end):
            why = next(each.stays for each in statuses if each.staying)
            what = "1 session stays" if staying == 1 else f"{staying} sessions stay"
            raise AdminError(
                f"{name}: {what}, for no other broker took them: {visible(why)}; it stays paused"
            )
        if clock() >= end:
            raise AdminError(f"{name}: the sessions that are left did not leave in time; it stays paused")
        sleep(POLL)
        statuses = _of(uri, admin.brokers())


def drain(
    admin: AdminClient,
    within: float | None,
    print_line: PrintLine,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    *,
    as_json: bool = False,
) -> int:
    """Make a relay refuse new clients, wait until it has no session, and return 0. Raises `AdminError` if sessions are
    left after `within` seconds.
    """
    end, printed = inf if within is None else clock() + within, None
    status = admin.drain()
    while True:
        if not status.draining:
            raise AdminError("new clients are accepted again")
        if status != printed:
            _print_drain(status, print_line, as_json=as_json)
            printed = status
        if not status.sessions:
            return 0
        if clock() >= end:
            left = "1 session is" if status.sessions == 1 else f"{status.sessions} sessions are"
            raise AdminError(f"{left} left; new clients are still refused, until `stomprelay drain --cancel`")
        sleep(POLL)
        status = admin.drain_status()


def cancel_drain(admin: AdminClient, print_line: PrintLine, *, as_json: bool = False) -> int:
    """Make a relay accept clients again, and return the exit status."""
    _print_drain(admin.cancel_drain(), print_line, as_json=as_json)
    return 0


def _print_drain(status: DrainStatus, print_line: PrintLine, *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(status._asdict()))
        return
    count = f"{status.sessions or 'no'} session{'' if status.sessions == 1 else 's'}"
    print_line(f"draining: {count} left" if status.draining else f"new clients are accepted again: {count}")


def moves(admin: AdminClient, print_line: PrintLine, *, as_json: bool = False) -> int:
    """Print all moves, and return the exit status."""
    _print_moves(admin.moves(), print_line, as_json=as_json)
    return 0


def move(admin: AdminClient, name: str, phase: str, print_line: PrintLine, *, as_json: bool = False) -> int:
    """Begin a phase of a move, print the move, and return the exit status."""
    found = [each for each in admin.move(name, phase) if each.name == name]
    _print_moves(found, print_line, as_json=as_json)
    return 0


def _print_moves(found: Iterable[MoveRow], print_line: PrintLine, *, as_json: bool) -> None:
    rows = [*found]
    if as_json:
        for row in rows:
            print_line(json.dumps(row.shown))
        return
    cells = [(*row[:4], _moment(row.since), *map(str, (*row[5:7], row.waiting, *row[7:11]))) for row in rows]
    for line in table(MOVE, [tuple(map(visible, each)) for each in cells]):
        print_line(line)
    for row in rows:
        if row.stopped:
            print_line(
                f"{visible(row.name)}: stopped: {visible(row.stopped)}; go back with `stomprelay move back {row.name}`"
            )
        for session, reason in row.stays:
            print_line(f"{visible(row.name)}: {visible(session)} stays at OLD: {visible(reason)}")
        for subscriber in row.away:
            print_line(f"{visible(row.name)}: not connected since it is {row.phase}: {visible(subscriber)}")


def _moment(since: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since)) if since else "-"


def _of(uri: str, statuses: Iterable[BrokerStatus]) -> list[BrokerStatus]:
    found = [each for each in statuses if uri in (ALL, each.uri)]
    if not found:
        raise AdminError(f"{uri}: the relay does not know it any more")
    return found


def _uri(statuses: Iterable[BrokerStatus], name: str) -> str:
    """Return the URI of the broker with this URI or `host:port`. Raises `AdminError`."""
    uris = list(dict.fromkeys(each.uri for each in statuses))
    if name == ALL or name in uris:
        return name
    found = [uri for uri in uris if name.lower() == _host_and_port(uri)]
    if len(found) > 1:
        raise AdminError(f"{name}: may be any of {', '.join(found)}; say which")
    if not found:
        raise AdminError(f"{name}: the relay knows no such broker; {nearest(name, uris)}")
    return found[0]


def _host_and_port(uri: str) -> str | None:
    try:
        found = host_and_port(read_broker(uri))
    except ValueError:
        return None
    return None if found is None else found.lower()


def _print_brokers(statuses: Iterable[BrokerStatus], print_line: PrintLine, *, as_json: bool) -> None:
    rows = [each._asdict() for each in statuses]
    cells = (tuple([visible(str(each)) for each in row.values()])[: len(BROKER)] for row in rows)
    for line in map(json.dumps, rows) if as_json else table(BROKER, cells):
        print_line(line)


# Tables

FILTERS: Final = ("session", "listener", "login", "client", "broker", "destination", "any")
ORDERS: Final = (
    "session", "listener", "login", "client", "age", "idle", "destinations", "unconfirmed", "unacknowledged",
    "frames", "bytes", "client_frames", "broker_frames", "client_bytes", "broker_bytes", "to_client_bytes",
    "to_broker_bytes",
)  # fmt: skip
BROKER: Final = ("broker", "upstream", "group", "state", "#sessions", "#moving", "#waiting")
"""The columns of the table of brokers. Columns whose names begin with # hold numbers, aligned to the right."""
MOVE: Final = (
    "move", "destinations", "to", "phase", "since", "#sessions", "#followed", "#waiting", "#staying", "#older",
    "#copied", "#failed",
)  # fmt: skip
SESSION: Final = (
    "session", "login", "client", "version", "broker", "#age", "#idle", "#unconfirmed", "#unacknowledged",
    "#from client", "#from broker", "limited by", "subscribed to", "sent to",
)  # fmt: skip
SESSION_RATES: Final = (*SESSION[:9], "#frames/s", "#from client/s", "#from broker/s", *SESSION[11:])


def with_rates(before: Iterable[Any], rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the sessions in `rows` with their rates since the answer `before`. Raises `KeyError` or `TypeError`."""
    known = {row["session"]: row for row in before}
    for row in rows:
        old = known.get(row["session"], {})
        seconds = row["age"] - old.get("age", 0)
        rates = {}
        for name in ("client_frames", "broker_frames", "client_bytes", "broker_bytes"):
            rates[f"{name}_rate"] = round((row[name] - old.get(name, 0)) / seconds, 1) if seconds > 0 else 0.0
        yield {**row, **rates}


# Frames as they pass


def watch(
    sessions: Iterable[str], listeners: Iterable[str], destinations: Iterable[str], bodies: int
) -> TailRequest:
    """Return a request for `tail`, with a unique name. An empty list selects all."""
    name = os.urandom(8).hex()
    return TailRequest(name, tuple(sessions), tuple(listeners), tuple(destinations), bodies)


def tail(
    admin: AdminClient,
    request: TailRequest,
    count: int | None,
    print_line: PrintLine,
    remark: PrintLine,
    sleep: Callable[[float], None] = time.sleep,
    *,
    as_json: bool = False,
) -> int:
    """Print what passes, until `count` records are printed or the named sessions have ended. Return the exit status.
    `remark` gets the lines about missing records and ended sessions. The last request tells the relay to stop. Raises
    `AdminError` if a named session does not exist.
    """
    left = count
    sessions = set(request.sessions)
    answers = 0
    try:
        while True:
            answer = admin.tail(request)
            answers += 1
            for record in sorted(_records(answer), key=lambda each: each.time):
                bodies = request.bodies > 0
                columns = json.dumps(record.columns(bodies=bodies), ensure_ascii=False)
                for line in [columns] if as_json else record_lines(record, bodies=bodies):
                    print_line(line)
                if left is not None:
                    left -= 1
                    if not left:
                        return 0
            for line in _missing(answer, again=answers > 1):
                remark(line)
            for name in _over(answer, sessions, first=answers == 1):
                sessions.remove(name)
                remark(f"... the session ended: {visible(name)}")
                if not sessions:
                    return 0
            sleep(POLL)
    finally:
        if answers:
            with suppress(AdminError):  # without this request the relay forgets the tail a little later
                admin.tail(request._replace(over=True))


def _over(answer: TailAnswer, sessions: set[str], *, first: bool) -> list[str]:
    """Return which of these sessions have ended. Raises `AdminError` for a session that never existed."""
    if answer.missing:
        return []  # workers that did not answer may have these sessions
    over = sorted(sessions.difference(answer.sessions))
    if over and (first or answer.began):
        raise AdminError(f"there is no session {json.dumps(over[0])}")
    return over


def _records(answer: TailAnswer) -> list[Record]:
    found = list(records_of(parse(answer.segment)))
    records = [each for each in found if isinstance(each, Record)]
    if len(records) < len(found):
        raise AdminError("the relay's records cannot be read here: is it of another version?")
    return records


def _missing(answer: TailAnswer, *, again: bool) -> list[str]:
    lines = [f"... {name} did not answer" for name in answer.missing]
    if answer.left_out:
        lines.append(f"... {answer.left_out} left out: more passed than is kept until it is asked for")
    if answer.began and again:
        lines.append("... some left out: the relay, or a worker of it, was not asked for long, or is new")
    return lines

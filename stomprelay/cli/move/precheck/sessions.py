"""What clients do now, from the sessions of a relay that runs."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from stomprelay.cli.move.precheck.pair import Pair
from stomprelay.relay.model.usage import session_of
from stomprelay.remote.client import AdminClient, AdminError
from stomprelay.remote.commands import every_session
from stomprelay.wire.names import DESTINATION, SEND, SUBSCRIBE

SOURCE: Final = "sessions that run"
MOST: Final = 100
"""A relay shows so many subscriptions of a session."""


def read(admin: AdminClient, pair: Pair) -> None:
    """Add what the sessions of a relay use at OLD. Raises `AdminError`."""
    report = pair.report
    rows, missing = every_session(admin, subscriptions=True)
    count = 0
    clients: set[str] = set()
    for row in rows:
        try:
            if pair.concerns(row["listener"], None):
                count += 1
                clients.add(_client(row))
                report.connects.opened(row["session"], b"", (row["client_id"] or "").encode())
                _add(row, pair)
        except (LookupError, TypeError, AttributeError, ValueError):
            raise AdminError("the relay does not show subscriptions: is it of an older version?") from None
    report.connected = clients
    report.looked.append(
        f"{count} session{'s'[: count != 1]} of {len(clients)} client{'s'[: len(clients) != 1]}"
        " now: subscriptions and the latest destinations of SENDs"
    )
    for row in rows:
        report.add(_client(row), report.connects.left(row["session"]), SOURCE)
    report.unlooked.append(
        "headers of SENDs, NACKs, transactions and virtual hosts of the sessions that run now"
    )
    if missing:
        report.open.append(f"{' and '.join(sorted(missing))} of the relay did not answer")


def _client(row: Mapping[str, Any]) -> str:
    """Return a client's name, as in the journal."""
    name = row["client_id"] or row["login"] or row["client"].rpartition(":")[0].strip("[]")
    return str(name)


def _add(row: Mapping[str, Any], pair: Pair) -> None:
    judge, report = pair.judge, pair.report
    client = _client(row)
    session = session_of(row["session"].encode(), (row["client_id"] or "").encode())
    subscriptions = row["subscriptions"]
    for number, each in enumerate(subscriptions):
        if each["upstream"] == pair.old.name:
            # An id keeps subscriptions to one destination apart.
            headers = [(b"id", b"%d" % number), *_encoded(each["headers"])]
            report.add(client, judge.judge(SUBSCRIBE, headers, session), SOURCE)
    if len(subscriptions) >= MOST:
        report.open.append(f"{client} has more subscriptions than are shown: {row['session']}")
    for name in map(str.encode, row["sent_to"]):
        if pair.concerns(row["listener"], name):
            report.add(client, judge.judge(SEND, [(DESTINATION, name)], session), SOURCE)


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]

"""What runs, as a page for people."""

from collections.abc import Iterator
from html import escape
from itertools import islice
from typing import Final

from stomprelay import __version__
from stomprelay.service.state import RelayState

SHOWN: Final = 1000
"""Sessions on the page, at most."""

_HEAD: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>stomprelay</title><style>
body { font: 14px/1.5 sans-serif; margin: 2em; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ccc; }
td.number, th.number { text-align: right; }
</style></head><body>
"""


def status(state: RelayState) -> str:
    """Return the status page, as HTML text."""
    condition = "stopping" if state.sessions.stopping else "running"
    return "".join(
        (
            _HEAD,
            f"<h1>stomprelay {escape(__version__)}, {condition}</h1>\n",
            "<h2>Listeners</h2>\n",
            _table(("listener", "endpoint", "broker", "#sessions", "#ever", "#errors"), _listeners(state)),
            "<h2>Brokers</h2>\n",
            _table(("upstream", "group", "broker", "state", "#sessions", "#failures"), _brokers(state)),
            *_journal(state),
            f"<h2>Sessions: {len(state.sessions)}</h2>\n",
            _table(
                (
                    "session",
                    "listener",
                    "client",
                    "versions",
                    "broker",
                    "#bytes from client",
                    "#bytes from broker",
                ),
                _sessions(state),
            ),
            "</body></html>\n",
        )
    )


def _listeners(state: RelayState) -> Iterator[tuple[object, ...]]:
    for sessions in state.sessions.listeners.values():
        listener, counters = sessions.listener, sessions.counters
        yield (
            listener.name,
            listener.endpoint,
            ", ".join(str(broker) for upstream in listener.upstreams() for broker in upstream.brokers),
            len(sessions),
            counters["sessions_opened"],
            counters["errors_sent"] + counters["errors_passed"],
        )


def _journal(state: RelayState) -> Iterator[str]:
    journal = state.journal
    if journal is None:
        return
    written, dropped = journal.written, journal.dropped
    counts = (written.blocks, written.frames, written.size, journal.waiting, dropped.frames, written.errors)
    yield "<h2>Journal</h2>\n"
    yield _table(
        (
            "directory",
            "state",
            "#blocks",
            "#frames",
            "#bytes",
            "#bytes waiting",
            "#frames left out",
            "#errors",
        ),
        iter([(journal.directory, journal.state, *counts)]),
    )


def _brokers(state: RelayState) -> Iterator[tuple[object, ...]]:
    now = state.runtime.seconds()
    for each in state.brokers:
        health = each.broker.health
        yield (
            each.upstream.name,
            each.group.name,
            each.broker,
            each.state(now),
            health.sessions,
            health.failures,
        )


def _sessions(state: RelayState) -> Iterator[tuple[object, ...]]:
    for session in islice(state.sessions, SHOWN):
        info = session.info()
        versions = f"{info.client} to {info.broker}" if info.broker else info.client or "none yet"
        yield (
            info.name,
            session.relay.listener.name,
            info.peer,
            versions,
            ", ".join(info.brokers) or "none yet",
            info.from_client,
            info.from_brokers,
        )


def _table(names: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> str:
    """Return an HTML table with these column names and rows. A column whose name begins with # holds numbers."""
    classes = [' class="number"' if name.startswith("#") else "" for name in names]
    pieces = ["<table><tr>"]
    pieces += [
        f"<th{kind}>{escape(name.lstrip('#'))}</th>" for name, kind in zip(names, classes, strict=True)
    ]
    pieces.append("</tr>\n")
    for row in rows:
        pieces.append("<tr>")
        pieces += [f"<td{kind}>{escape(str(value))}</td>" for value, kind in zip(row, classes, strict=True)]
        pieces.append("</tr>\n")
    pieces.append("</table>\n")
    return "".join(pieces)

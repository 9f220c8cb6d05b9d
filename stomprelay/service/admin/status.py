"""What runs, as a page for people."""

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from stomprelay import __version__
from stomprelay.service.admin.sessions import SessionList
from stomprelay.service.admin.snapshot import JournalRow, Snapshot, WorkerRow
from stomprelay.service.connection.session_info import SessionInfo

_HEAD: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>stomprelay</title><style>
body { font: 14px/1.5 sans-serif; margin: 2em; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { text-align: left; padding: .2em 1em .2em 0; border-bottom: 1px solid #ccc; }
td.number, th.number { text-align: right; }
</style></head><body>
"""


def status(taken: Snapshot, listed: SessionList) -> str:
    """Return the status page, as HTML text, of a snapshot, with the sessions that are listed."""
    condition = "stopping" if taken.stopping else "draining" if taken.draining else "running"
    listeners = (
        (
            *row[:4],
            row.counters["sessions_opened"],
            row.counters["errors_sent"] + row.counters["errors_passed"],
        )
        for row in taken.listeners
    )
    brokers = (
        (row.upstream, row.group, row.uri, row.state, row.sessions, row.failures) for row in taken.brokers
    )
    return "".join(
        (
            _HEAD,
            f"<h1>stomprelay {escape(__version__)}, {condition}</h1>\n",
            "<h2>Listeners</h2>\n",
            _table(("listener", "endpoint", "broker", "#sessions", "#ever", "#errors"), listeners),
            "<h2>Brokers</h2>\n",
            _table(("upstream", "group", "broker", "state", "#sessions", "#failures"), brokers),
            *_journal(taken.journal),
            *_workers(taken.workers),
            f"<h2>Sessions: {taken.clients}</h2>\n",
            _table(
                (
                    "session",
                    "listener",
                    "login",
                    "client",
                    "versions",
                    "broker",
                    "#seconds",
                    "#idle",
                    "subscribed to",
                    "#unconfirmed",
                    "#unacknowledged",
                    "#bytes from client",
                    "#bytes from broker",
                ),
                map(_session, listed.sessions),
            ),
            "</body></html>\n",
        )
    )


def _session(info: SessionInfo) -> tuple[object, ...]:
    spoken = ", ".join(dict.fromkeys(filter(None, info.broker_versions)))
    more = (f"{info.more_destinations} more",) if info.more_destinations else ()
    return (
        info.session,
        info.listener,
        info.login or "",
        info.client,
        f"{info.version} to {spoken}" if spoken else info.version or "none yet",
        ", ".join(each or "searching" for each in info.brokers) or "none yet",
        f"{info.age:.0f}",
        "" if info.idle is None else f"{info.idle:.0f}",
        ", ".join((*info.destinations, *more)),
        info.unconfirmed,
        info.unacknowledged,
        info.client_bytes,
        info.broker_bytes,
    )


def _journal(row: JournalRow | None) -> Iterator[str]:
    if row is None:
        return
    counts = row.counts
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
        [
            (
                row.directory,
                row.state,
                counts["blocks"],
                counts["frames"],
                counts["bytes"],
                row.waiting,
                counts["dropped_frames"],
                counts["write_errors"],
            )
        ],
    )


def _workers(rows: tuple[WorkerRow, ...]) -> Iterator[str]:
    if rows:
        yield "<h2>Workers</h2>\n"
        yield _table(
            ("worker", "#process", "state", "#sessions", "#restarts"),
            ((row.number, row.process or "", row.state, row.sessions, row.restarts) for row in rows),
        )


def _table(names: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
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

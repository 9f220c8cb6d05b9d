"""What runs, as a page for people."""

from collections.abc import Iterator
from html import escape
from itertools import islice
from typing import Final

from stomprelay import __version__
from stomprelay.service.relayservice import RelayService

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


def status(service: RelayService) -> str:
    """The whole page."""
    state = "stopping" if service.stopping else "running"
    return "".join(
        (
            _HEAD,
            f"<h1>stomprelay {escape(__version__)}, {state}</h1>\n",
            "<h2>Listeners</h2>\n",
            _table(("listener", "endpoint", "broker", "#sessions", "#ever", "#errors"), _listeners(service)),
            "<h2>Brokers</h2>\n",
            _table(("upstream", "group", "broker", "state", "#sessions", "#failures"), _brokers(service)),
            *_journal(service),
            f"<h2>Sessions: {service.sessions}</h2>\n",
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
                _sessions(service),
            ),
            "</body></html>\n",
        )
    )


def _listeners(service: RelayService) -> Iterator[tuple[object, ...]]:
    for reception in service.receptions.values():
        listener, counters = reception.listener, reception.counters
        yield (
            listener.name,
            listener.endpoint,
            ", ".join(str(broker) for upstream in listener.upstreams() for broker in upstream.brokers),
            len(reception.sessions),
            counters["sessions_opened"],
            counters["errors_sent"] + counters["errors_passed"],
        )


def _journal(service: RelayService) -> Iterator[str]:
    journal = service.journal
    if journal is None:
        return
    written, dropped = journal.written, journal.dropped
    counts = (written.blocks, written.frames, written.octets, journal.waiting, dropped.frames, written.errors)
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


def _brokers(service: RelayService) -> Iterator[tuple[object, ...]]:
    now = service.stage.seconds()
    for entry in service.roster:
        health = entry.broker.health
        yield (
            entry.upstream.name,
            entry.group.name,
            entry.broker,
            entry.state(now),
            health.sessions,
            health.failures,
        )


def _sessions(service: RelayService) -> Iterator[tuple[object, ...]]:
    for session in islice(service.everyone(), SHOWN):
        glance = session.glance()
        versions = f"{glance.client} to {glance.broker}" if glance.broker else glance.client or "none yet"
        yield (
            glance.name,
            session.place.name,
            glance.peer,
            versions,
            ", ".join(glance.brokers) or "none yet",
            glance.sent,
            glance.received,
        )


def _table(names: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> str:
    """A column whose name begins with # is of numbers."""
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

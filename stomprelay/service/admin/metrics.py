"""Counters and gauges, in the text format of Prometheus."""

from collections.abc import Iterable, Iterator
from typing import Final

from stomprelay import __version__
from stomprelay.relay.model.counters import COUNTERS
from stomprelay.service.admin.snapshot import SERVES, JournalRow, Snapshot, WorkerRow

_BROKERS: Final = {
    "up": "whether the broker answered CONNECT when it was asked last; absent while it was not asked yet",
    "paused": "whether an operator took the broker out of service",
    "sessions": "sessions that the broker serves now",
    "failures": "failures of the broker in a row",
}
_JOURNAL: Final = {
    "blocks": "blocks that were written to the journal",
    "frames": "frames that were written to the journal",
    "bytes": "bytes that were written to the journal",
    "dropped_blocks": "blocks that were left out of the journal",
    "dropped_frames": "frames that were left out of the journal",
    "dropped_bytes": "bytes that were left out of the journal",
    "write_errors": "attempts to write the journal that failed",
}


def metrics(taken: Snapshot) -> str:
    """Return the page, in the text format of Prometheus: all counters of all listeners, the number of sessions,
    and gauges of brokers and journal; of the workers too, where there are some.
    """
    return "".join(f"{line}\n" for line in _lines(taken))


def _lines(taken: Snapshot) -> Iterator[str]:
    listeners = [(_label(each.name), each) for each in taken.listeners]
    yield from _head("info", "gauge", "the version that runs")
    yield f'stomprelay_info{{version="{_label(__version__)}"}} 1'
    yield from _head(
        "sessions", "gauge", "clients that are there, or whose last words are still being delivered"
    )
    for name, listener in listeners:
        yield f'stomprelay_sessions{{listener="{name}"}} {listener.sessions}'
    yield from _head("connections", "gauge", "connections to clients and brokers that are open now")
    yield f"stomprelay_connections {taken.connections}"
    if taken.workers:
        yield from _workers(taken.workers)
    for counter, meaning in COUNTERS.items():
        yield from _head(f"{counter}_total", "counter", meaning)
        for name, listener in listeners:
            yield f'stomprelay_{counter}_total{{listener="{name}"}} {listener.counters[counter]}'
    if taken.journal is not None:
        yield from _journal(taken.journal)
    brokers = _brokers(taken)
    for gauge, meaning in _BROKERS.items():
        yield from _head(f"broker_{gauge}", "gauge", meaning)
        for labels, values in brokers.items():
            value = values[gauge]
            if value is not None:
                yield f"stomprelay_broker_{gauge}{{{labels}}} {value:d}"


def _workers(workers: Iterable[WorkerRow]) -> Iterator[str]:
    rows = [(f'worker="{each.number}"', each) for each in workers]
    yield from _head("worker_up", "gauge", "whether the worker serves clients")
    for label, each in rows:
        yield f"stomprelay_worker_up{{{label}}} {each.state == SERVES:d}"
    yield from _head("worker_restarts_total", "counter", "starts of the worker after it had ended")
    for label, each in rows:
        yield f"stomprelay_worker_restarts_total{{{label}}} {each.restarts}"


def _journal(journal: JournalRow) -> Iterator[str]:
    for name, meaning in _JOURNAL.items():
        yield from _head(f"journal_{name}_total", "counter", meaning)
        yield f"stomprelay_journal_{name}_total {journal.counts[name]}"
    for gauge, value, meaning in (
        ("queue_bytes", journal.waiting, "bytes that wait to be written to the journal"),
        ("failing", int(journal.trouble), "whether the journal cannot be written now"),
    ):
        yield from _head(f"journal_{gauge}", "gauge", meaning)
        yield f"stomprelay_journal_{gauge} {value}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP stomprelay_{name} {meaning}"
    yield f"# TYPE stomprelay_{name} {kind}"


def _brokers(taken: Snapshot) -> dict[str, dict[str, int | None]]:
    """Return the gauges (name to value) of each address of each upstream, by its labels. An address that stands
    there several times has one line: Prometheus rejects the whole page for two lines of one name.
    """
    brokers: dict[str, dict[str, int | None]] = {}
    for each in taken.brokers:
        labels = f'upstream="{_label(each.upstream)}",broker="{_label(each.uri)}"'
        found: dict[str, int | None] = {gauge: getattr(each, gauge) for gauge in _BROKERS}
        brokers[labels] = _joined(brokers[labels], found) if labels in brokers else found
    return brokers


def _joined(one: dict[str, int | None], other: dict[str, int | None]) -> dict[str, int | None]:
    """Merge the gauges of two entries of one address: up where both are, paused where either is, with the sum of
    the sessions.
    """
    ups = [each["up"] for each in (one, other) if each["up"] is not None]
    return {
        "up": min(ups, default=None),
        "paused": (one["paused"] or 0) | (other["paused"] or 0),
        "sessions": (one["sessions"] or 0) + (other["sessions"] or 0),
        "failures": max(one["failures"] or 0, other["failures"] or 0),
    }


def _label(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""The page for Prometheus, as text or OpenMetrics. Each series occurs only once; otherwise Prometheus would reject the
page. Texts of peers occur only in the values of labels, and are escaped.
"""

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import accumulate
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from stomprelay import __version__
from stomprelay.relay.model.counters import BOUNDS, COUNTERS, NOTHING, PLACES, TIMES, DestinationTally, Time
from stomprelay.relay.model.move import MoveRow, Phase
from stomprelay.service.admin.snapshot import (
    SERVES,
    STATES,
    BrokerRow,
    DestinationRow,
    JournalRow,
    ListenerRow,
    Snapshot,
    TimeRow,
    WorkerRow,
    merged,
)
from stomprelay.service.connection.memory import MemoryRow
from stomprelay.wire.decoder import SCANNER
from stomprelay.wire.errors import visible

_BROKERS: Final = {
    "paused": "whether an operator took the broker out of service",
    "sessions": "sessions that the broker serves now",
    "failures": "failures of the broker in a row",
}
_FOLLOWING: Final = ("followed", "waiting", "staying", "older")
_MOVES: Final[Mapping[str, tuple[str, Callable[[MoveRow], float]]]] = {
    "copied": ("copies of SENDs that the new broker was sent in this phase", attrgetter("copied")),
    "failed": ("copies that failed, and errors of the new broker, in this phase", attrgetter("failed")),
    "stopped": ("whether the move is stopped, because the new broker fails", lambda row: bool(row.stopped)),
}
_TALLIES: Final = {
    "sent_frames": "frames that were sent to the broker",
    "sent_bytes": "bytes that were sent to the broker",
    "received_frames": "frames that were received from the broker",
    "received_bytes": "bytes that were received from the broker",
    "failovers": "sessions that lost the broker and continued with another one, or with the same one again",
}
_DESTINATIONS: Final = {
    "sends": "SENDs to the destination (no name: all others); estimated from samples under much traffic",
    "send_bytes": "bytes of SENDs to the destination",
    "messages": "MESSAGEs from the destination",
    "message_bytes": "bytes of MESSAGEs from the destination",
}
_BOUNDS: Final = (*map(floatToGoString, BOUNDS), "+Inf")
_JOURNAL: Final = {
    "blocks": "blocks that were written to the journal",
    "frames": "frames that were written to the journal",
    "bytes": "bytes that were written to the journal",
    "dropped_blocks": "blocks that were left out of the journal",
    "dropped_frames": "frames that were left out of the journal",
    "dropped_bytes": "bytes that were left out of the journal",
    "write_errors": "attempts to write the journal that failed",
}

_Series = Iterable[tuple[tuple[str, ...], float]]
"""The samples of a metric: for each sample, the values of the labels in the labels' order, and the sample's value."""


class Format(NamedTuple):
    """A format of metrics: its content type, and the function that writes the metrics of a collector."""

    kind: str
    write: Callable[[Collector], bytes]


TEXT: Final = Format("text/plain; version=0.0.4; charset=utf-8", generate_latest)
OPENMETRICS: Final = Format(
    "application/openmetrics-text; version=1.0.0; charset=utf-8",
    generate_openmetrics,
)


def chosen(accept: str) -> Format:
    """Return OpenMetrics if this `Accept` header asks for it; otherwise text."""
    return OPENMETRICS if "application/openmetrics-text" in accept.lower() else TEXT


def metrics(taken: Snapshot, ready: bool, form: Format = TEXT) -> str:
    """Return the page of a snapshot. `ready`: whether the relay is ready for clients, see `condition`."""
    registry: Any = SimpleNamespace(collect=partial(_collected, taken, ready))
    return form.write(registry).decode("utf-8")


def _collected(taken: Snapshot, ready: bool) -> Iterator[Metric]:
    """Yield each metric of a snapshot, with all its samples."""
    yield from _relay(taken, ready)
    if taken.workers:
        yield from _workers(taken.workers)
    for name, time in TIMES.items():
        yield _histogram(name, time, (row for row in taken.times if row.name == name))
    for name, meaning in COUNTERS.items():
        counted = (((row.name,), row.counters[name]) for row in taken.listeners)
        yield _counter(name, meaning, ("listener",), counted)
    yield from _memory(taken.memory)
    yield from _limits(taken.listeners)
    if taken.journal is not None:
        yield from _journal(taken.journal)
    yield from _brokers(taken.brokers)
    yield from _moves(taken.moves)
    yield from _destinations(taken.top)
    yield from _processes(taken.workers)


def _counter(name: str, meaning: str, labels: tuple[str, ...], series: _Series) -> Metric:
    return _filled(CounterMetricFamily(f"stomprelay_{name}", meaning, labels=labels), series)


def _gauge(name: str, meaning: str, labels: tuple[str, ...], series: _Series) -> Metric:
    return _filled(GaugeMetricFamily(f"stomprelay_{name}", meaning, labels=labels), series)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, series: _Series) -> Metric:
    for values, value in series:
        family.add_metric(values, value)
    return family


def _relay(taken: Snapshot, ready: bool) -> Iterator[Metric]:
    facts = {
        "version": __version__,
        "python": platform.python_version(),
        "decoder": "interpreted" if SCANNER is None else "compiled",
    }
    listeners = taken.listeners
    sessions = (((row.name,), row.sessions) for row in listeners)
    versions = (((row.name, version), count) for row in listeners for version, count in row.versions.items())
    ends = (((table,), end) for table, end in taken.certificates.items())
    rows: tuple[tuple[str, str, tuple[str, ...], _Series], ...] = (
        ("build_info", "what runs", tuple(facts), [(tuple(facts.values()), 1)]),
        ("ready", "whether the relay is ready for clients, as /readyz says", (), [((), ready)]),
        ("draining", "whether the relay refuses new clients", (), [((), taken.stopping or taken.draining)]),
        (
            "sessions",
            "sessions: clients that are connected, or that left and whose frames are still being delivered",
            ("listener",),
            sessions,
        ),
        (
            "session_versions",
            "connected clients by their version of STOMP; the version `none` is for clients before CONNECT",
            ("listener", "version"),
            versions,
        ),
        (
            "certificate_expires_timestamp_seconds",
            "when the certificate in use expires, by the table that names it, in seconds since 1970",
            ("for",),
            ends,
        ),
        (
            "connections",
            "connections to clients and brokers that are open now",
            (),
            [((), taken.connections)],
        ),
    )
    for row in rows:
        yield _gauge(*row)


def _memory(memory: MemoryRow) -> Iterator[Metric]:
    for name, value, meaning in (
        ("bytes", memory.kept, "bytes that are kept of all clients together, see limits.memory"),
        ("limit_bytes", memory.limit, "bytes that may be kept of all clients together"),
        ("held", memory.held, "connections that the relay does not read from because memory is short"),
    ):
        if value is not None:
            yield _gauge(f"memory_{name}", meaning, (), [((), value)])


def _limits(listeners: Iterable[ListenerRow]) -> Iterator[Metric]:
    labels = ("listener", "scope", "limit")
    rows = [((each.name, row.scope, row.limit), row) for each in listeners for row in each.limited]
    yield _counter(
        "limited",
        "waits of sessions for a limit (paused), and clients that were refused or ended because of one (refused)",
        (*labels, "action"),
        (((*at, action), getattr(row, action)) for at, row in rows for action in ("paused", "refused")),
    )
    yield _counter(
        "limited_seconds",
        "seconds that sessions waited for a limit",
        labels,
        ((at, row.seconds) for at, row in rows),
    )


def _workers(workers: Iterable[WorkerRow]) -> Iterator[Metric]:
    labels = ("worker",)
    up = (((str(row.number),), row.state == SERVES) for row in workers)
    yield _gauge("worker_up", "whether the worker serves clients", labels, up)
    restarts = (((str(row.number),), row.restarts) for row in workers)
    yield _counter("worker_restarts", "starts of the worker after it had ended", labels, restarts)


def _journal(journal: JournalRow) -> Iterator[Metric]:
    for name, meaning in _JOURNAL.items():
        yield _counter(f"journal_{name}", meaning, (), [((), journal.counts[name])])
    for name, value, meaning in (
        ("queue_bytes", journal.waiting, "bytes that wait to be written to the journal"),
        ("failing", journal.trouble, "whether the journal cannot be written now"),
    ):
        yield _gauge(f"journal_{name}", meaning, (), [((), value)])


def _brokers(rows: Iterable[BrokerRow]) -> Iterator[Metric]:
    """Yield the metrics of brokers. An address in several groups of an upstream becomes one series."""
    labels = ("upstream", "broker")
    found: dict[tuple[str, ...], list[BrokerRow]] = {}
    for row in rows:
        found.setdefault((row.upstream, row.uri), []).append(row)
    brokers = {at: reduce(merged, same) for at, same in found.items()}
    yield _gauge(
        "broker_up",
        "whether the broker answered the last CONNECT; absent if it was not asked yet",
        labels,
        ((at, row.up) for at, row in brokers.items() if row.up is not None),
    )
    yield _gauge(
        "broker_state",
        "1 for the state that the broker is in, 0 for the others",
        (*labels, "state"),
        (((*at, state), row.state == state) for at, row in brokers.items() for state in STATES),
    )
    for name, meaning in _BROKERS.items():
        yield _gauge(
            f"broker_{name}", meaning, labels, ((at, getattr(row, name)) for at, row in brokers.items())
        )
    waiting = ((at, row.tally.waiting) for at, row in brokers.items())
    yield _gauge(
        "broker_waiting", "estimated number of messages that wait in queues of the broker", labels, waiting
    )
    for name, meaning in _TALLIES.items():
        counted = ((at, getattr(row.tally, name)) for at, row in brokers.items())
        yield _counter(f"broker_{name}", meaning, labels, counted)


def _moves(rows: Iterable[MoveRow]) -> Iterator[Metric]:
    phases = (((row.name, each.value), row.phase == each.value) for row in rows for each in Phase)
    meaning = "1 for the phase that the move is in, 0 for the others"
    yield _gauge("move_phase", meaning, ("move", "phase"), phases)
    sessions = (((row.name, each), getattr(row, each)) for row in rows for each in _FOLLOWING)
    meaning = "sessions of the move's listeners, by how they follow it: see `stomprelay move status`"
    yield _gauge("move_sessions", meaning, ("move", "state"), sessions)
    for name, (meaning, value) in _MOVES.items():
        yield _gauge(f"move_{name}", meaning, ("move",), (((row.name,), value(row)) for row in rows))


def _histogram(name: str, time: Time, rows: Iterable[TimeRow]) -> Metric:
    meaning = f"seconds {time.meaning}"
    labels = (time.by,) if time.by else ()
    family = HistogramMetricFamily(f"stomprelay_{name}_seconds", meaning, labels=labels)
    for row in rows:
        counts = zip(_BOUNDS, accumulate(row.counts), strict=True)
        family.add_metric((row.label,) if time.by else (), tuple(counts), row.sum)
    return family


def _destinations(rows: list[DestinationRow]) -> Iterator[Metric]:
    """Yield the metrics of the first `PLACES` destinations, and the sums of all other destinations with an empty label.
    Destinations with equal labels become one series.
    """
    found: dict[str, DestinationTally] = {}
    named = [row for row in rows if row.destination is not None]
    for row in named[:PLACES] + rows[len(named) :]:
        label = visible(row.destination or "")
        found[label] = found.get(label, NOTHING).plus(row.tally)
    for at, name in enumerate(DestinationTally._fields):
        counted = (((label,), tally[at]) for label, tally in found.items())
        yield _counter(f"destination_{name}", _DESTINATIONS[name], ("destination",), counted)


def _processes(workers: Iterable[WorkerRow]) -> Iterator[Metric]:
    """Yield what the system counts for this process, without a label, and for each worker, with its number as label."""
    found: dict[str, Metric] = {}
    for worker, process in (("", "self"), *((str(row.number), row.process) for row in workers)):
        labels = {"worker": worker} if worker else {}
        for metric in () if process is None else _process(process):
            same = found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            same.samples.extend(each._replace(labels=labels) for each in metric.samples)
    yield from found.values()


def _process(process: int | str) -> Iterable[Metric]:
    try:
        return ProcessCollector(pid=lambda: process, registry=None).collect()
    except (IndexError, UnboundLocalError, ValueError):
        # The files in /proc are empty if the process has ended and was not waited for yet.
        return ()

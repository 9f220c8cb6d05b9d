"""Counters and gauges, in the text format of Prometheus."""

from collections.abc import Iterator
from typing import Final

from stomprelay import __version__
from stomprelay.relay.model.counters import COUNTERS
from stomprelay.relay.model.health import Health
from stomprelay.service.journal.journal import Journal
from stomprelay.service.state import RelayState

_BROKERS: Final = {
    "up": "whether the broker answered CONNECT when it was asked last; absent while it was not asked yet",
    "paused": "whether an operator took the broker out of service",
    "sessions": "sessions that the broker serves now",
    "failures": "failures of the broker in a row",
}


def metrics(state: RelayState) -> str:
    """Return the page, in the text format of Prometheus: all counters of all listeners, the number of sessions,
    and gauges of brokers and journal.
    """
    return "".join(f"{line}\n" for line in _lines(state))


def _lines(state: RelayState) -> Iterator[str]:
    state.sessions.report_passed()
    listeners = [(_label(name), each) for name, each in state.sessions.listeners.items()]
    yield from _head("info", "gauge", "the version that runs")
    yield f'stomprelay_info{{version="{_label(__version__)}"}} 1'
    yield from _head(
        "sessions", "gauge", "clients that are there, or whose last words are still being delivered"
    )
    for name, sessions in listeners:
        yield f'stomprelay_sessions{{listener="{name}"}} {len(sessions)}'
    yield from _head("connections", "gauge", "connections to clients and brokers that are open now")
    yield f"stomprelay_connections {state.runtime.sockets}"
    for counter, meaning in COUNTERS.items():
        yield from _head(f"{counter}_total", "counter", meaning)
        for name, sessions in listeners:
            yield f'stomprelay_{counter}_total{{listener="{name}"}} {sessions.counters[counter]}'
    if state.journal is not None:
        yield from _journal(state.journal)
    brokers = _brokers(state)
    for gauge, meaning in _BROKERS.items():
        yield from _head(f"broker_{gauge}", "gauge", meaning)
        for labels, values in brokers.items():
            value = values[gauge]
            if value is not None:
                yield f"stomprelay_broker_{gauge}{{{labels}}} {value:d}"


def _journal(journal: Journal) -> Iterator[str]:
    written, dropped = journal.written, journal.dropped
    for name, kind, value, meaning in (
        ("blocks_total", "counter", written.blocks, "blocks that were written to the journal"),
        ("frames_total", "counter", written.frames, "frames that were written to the journal"),
        ("bytes_total", "counter", written.size, "bytes that were written to the journal"),
        ("dropped_blocks_total", "counter", dropped.blocks, "blocks that were left out of the journal"),
        ("dropped_frames_total", "counter", dropped.frames, "frames that were left out of the journal"),
        ("dropped_bytes_total", "counter", dropped.size, "bytes that were left out of the journal"),
        ("write_errors_total", "counter", written.errors, "attempts to write the journal that failed"),
        ("queue_bytes", "gauge", journal.waiting, "bytes that wait to be written to the journal"),
        ("failing", "gauge", int(bool(journal.trouble)), "whether the journal cannot be written now"),
    ):
        yield from _head(f"journal_{name}", kind, meaning)
        yield f"stomprelay_journal_{name} {value}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP stomprelay_{name} {meaning}"
    yield f"# TYPE stomprelay_{name} {kind}"


def _brokers(state: RelayState) -> dict[str, dict[str, int | None]]:
    """Return the gauges (name to value) of each address of each upstream, by its labels. An address that stands
    there several times has one line: Prometheus rejects the whole page for two lines of one name.
    """
    brokers: dict[str, dict[str, int | None]] = {}
    for each in state.brokers:
        labels = f'upstream="{_label(each.upstream.name)}",broker="{_label(each.broker.uri)}"'
        found = _gauges(each.broker.health)
        brokers[labels] = _joined(brokers[labels], found) if labels in brokers else found
    return brokers


def _gauges(health: Health) -> dict[str, int | None]:
    return {
        "up": None if health.up is None else int(health.up),
        "paused": int(health.paused),
        "sessions": health.sessions,
        "failures": health.failures,
    }


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

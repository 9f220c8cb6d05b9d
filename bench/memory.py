"""The memory of an idle relayed session."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import goals
from bench.contenders import HAPROXY, PLAIN, RELAY, haproxy, relay, routes_to
from bench.goals import Judged
from bench.load import Case, Load, LoadError
from bench.machine import AbsentError, memory_kb, raise_descriptor_limit
from bench.report import median, spread

NAME: Final = "memory"

SPARE: Final = 200
"""Descriptors that a process has open beside its connections, at most."""

BEATS: Final = 10_000
"""Milliseconds between the heart-beats that each client asks for; HAProxy knows of none."""

HELD: Final = 10_000
"""Sessions that are held, as far as open files go: a relay has two for each, and a reserve."""


def measure(
    load: Load, directory: Path, rounds: int, note: Callable[[str], None], wanted: int = HELD
) -> list[Judged]:
    """Each contender afresh in each round; why one is missing is noted. HAProxy's memory stands beside the relay's."""
    sessions = min(wanted, (raise_descriptor_limit() - SPARE) * 2 // 5)
    found: dict[str, list[float]] = {RELAY: [], HAPROXY: []}
    for name, kilobytes in found.items():
        try:
            for _ in range(rounds):
                kilobytes.append(_held(load, name, directory, sessions))
        except (AbsentError, LoadError, RuntimeError, OSError) as error:
            note(f"memory: {name} is left out: {error}")
            kilobytes.clear()
    goal = goals.KB_PER_CONNECTION
    return [Judged(f"{sessions:,} idle sessions", "kB", median(found[HAPROXY]), spread(found[RELAY]), goal)]


def _held(load: Load, name: str, directory: Path, sessions: int) -> float:
    """Hold so many idle sessions. Return the kB of memory that each takes."""
    broker = load.ports["1.2"]
    with haproxy(broker, directory) if name == HAPROXY else relay(routes_to(broker), directory) as running:
        port = running.ports[PLAIN]
        load.run(Case("sink"), port, 1)  # what a first connection takes once is not counted
        base = memory_kb(running.pid)
        with load.client("idle", port, "-v", "1.2", "-h", str(BEATS)) as client:
            client.tell(f"open {sessions}")
            load.answer(client)
            return (memory_kb(running.pid) - base) / sessions

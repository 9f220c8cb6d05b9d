"""What an idle relayed connection takes: memory, and CPU for its heart-beats."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import goals
from bench.contenders import HAPROXY, PLAIN, RELAY, Contender, haproxy, relay, routes_to
from bench.goals import Judged
from bench.load import PATH, Case, Load, LoadError
from bench.machine import AbsentError, cpu_seconds, memory_kb, raise_descriptor_limit
from bench.report import figure, median, spread, table

NAME: Final = "memory"
NAMES: Final = (HAPROXY, RELAY)

SPARE: Final = 200
"""Descriptors that a process has open beside its connections, at most."""


@dataclass(frozen=True)
class Step:
    """Up to how many connections, the kB a connection that they take together, and how they came to stand."""

    connections: int
    kb: float
    rate: float
    """Connections a second, from the connection before the first of this step."""
    cost: float
    """CPU microseconds of what is measured, a connection."""


@dataclass(frozen=True)
class Idle:
    """One contender in one round: its memory in kB before any connection, and the steps.

    `beats`: CPU microseconds a second that a session takes while nothing but heart-beats passes.
    """

    contender: str
    base: float
    steps: tuple[Step, ...]
    beats: float


BEATS: Final = 10_000
"""Milliseconds between the heart-beats that each client asks for; HAProxy knows of none."""

WATCHED: Final = 5.0
"""Seconds for which the sessions of the last step are watched: each has one, after half of the time agreed on."""


def steps(*, quick: bool) -> list[int]:
    """How many connections are held, as far as open files go: a relay has two for each, and a reserve."""
    most = (raise_descriptor_limit() - SPARE) * 2 // 5
    return sorted({min(wanted, most) for wanted in ([1000] if quick else [1000, 10000])})


def measure(
    load: Load,
    directory: Path,
    rounds: int,
    wanted: Sequence[int],
    note: Callable[[str], None],
) -> list[Idle]:
    """Each contender afresh in each round; why one is missing is noted."""
    found = []
    left_out: set[str] = set()
    for _ in range(rounds):
        for name in NAMES:
            if name in left_out:
                continue
            try:
                found.append(_idle(load, name, directory, wanted))
            except (AbsentError, LoadError, RuntimeError, OSError) as error:
                note(f"memory: {name} is left out: {error}")
                left_out.add(name)
    return [one for one in found if one.contender not in left_out]


def _contender(name: str, broker: int, directory: Path) -> AbstractContextManager[Contender]:
    return haproxy(broker, directory) if name == HAPROXY else relay(routes_to(broker), directory)


def _idle(load: Load, name: str, directory: Path, wanted: Sequence[int]) -> Idle:
    with _contender(name, load.ports["1.2"], directory) as running:
        return held(load, name, running, wanted)


def held(load: Load, name: str, running: Contender, wanted: Sequence[int], *, web: bool = False) -> Idle:
    """Hold idle connections to one that runs, over WebSocket if so wanted."""
    assert running.pid is not None
    pid, port = running.pid, running.ports[PLAIN]
    load.run(Case("sink", web=web), port, 1)  # what a first connection takes once is not counted
    base = memory_kb(pid)
    found: list[Step] = []
    with load.client("idle", port, "-v", "1.2", "-h", str(BEATS), *(["-W", PATH] * web)) as client:
        for connections in wanted:
            before = cpu_seconds(pid)
            client.tell(f"open {connections}")
            told = load.answer(client)
            cost = (cpu_seconds(pid) - before) / told["messages"] * 1e6
            kb = (memory_kb(pid) - base) / connections
            found.append(Step(connections, kb, told["messages"] / told["seconds"], cost))
        before, began = cpu_seconds(pid), time.monotonic()
        time.sleep(WATCHED)
        spent, passed = cpu_seconds(pid) - before, time.monotonic() - began
    return Idle(name, base, tuple(found), spent / passed / found[-1].connections * 1e6)


def report(
    found: Sequence[Idle],
    names: Sequence[str] = NAMES,
    title: str = "memory: idle connections, user space",
) -> str:
    """Memory of each contender, and what it worked to set the connections up."""
    by_name = {name: [one for one in found if one.contender == name] for name in names}
    counts = [step.connections for step in found[0].steps] if found else []
    rows = [
        [
            name,
            figure(median([one.base for one in rounds])),
            *(figure(median([one.steps[number].kb for one in rounds])) for number in range(len(counts))),
            figure(median([step.cost for one in rounds for step in one.steps])),
            figure(median([one.beats for one in rounds])),
        ]
        for name, rounds in by_name.items()
    ]
    header = (
        "contender",
        "base kB",
        *(f"kB/connection at {count}" for count in counts),
        "CPU us/set-up",
        "CPU us/s idle",
    )
    return table(title, header, rows)


def judged(found: Sequence[Idle]) -> list[Judged]:
    """The relay's memory for a connection, where most are held; HAProxy's stands beside it."""
    ours, theirs = ([one.steps[-1].kb for one in found if one.contender == name] for name in (RELAY, HAPROXY))
    return [Judged("idle session", "kB", median(theirs), spread(ours), goals.KB_PER_CONNECTION)]

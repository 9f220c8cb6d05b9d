"""What an idle relayed connection takes, and how fast connections are set up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import goals
from bench.contenders import HAPROXY, PORTFORWARD, RELAY, contender
from bench.load import Case, Load, LoadError
from bench.machine import AbsentError, cpu_seconds, memory_kb, raise_descriptor_limit
from bench.report import Goal, figure, median, ratios, table, verdict

NAME: Final = "memory"
NAMES: Final = (HAPROXY, PORTFORWARD, RELAY)

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
    """One contender in one round: its memory in kB before any connection, and the steps."""

    contender: str
    base: float
    steps: tuple[Step, ...]


def steps(*, quick: bool) -> list[int]:
    """How many connections are held, as far as the limit of open files goes: a relay has two for each."""
    most = (raise_descriptor_limit() - SPARE) // 2
    return sorted({min(wanted, most) for wanted in ([1000] if quick else [1000, 5000])})


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


def _idle(load: Load, name: str, directory: Path, wanted: Sequence[int]) -> Idle:
    with contender(name, load.ports, directory) as running:
        assert running.pid is not None
        pid, port = running.pid, running.ports["1.2", "1.2"]
        load.run(Case("sink", 1), port, 1, None)  # what a first connection takes once is not counted
        base = memory_kb(pid)
        found: list[Step] = []
        with load.client("idle", port, "-v", "1.2") as client:
            for connections in wanted:
                before = cpu_seconds(pid)
                client.tell(f"open {connections}")
                told = load.answer(client)
                cost = (cpu_seconds(pid) - before) / told["messages"] * 1e6
                kb = (memory_kb(pid) - base) / connections
                found.append(Step(connections, kb, told["messages"] / told["seconds"], cost))
        return Idle(name, base, tuple(found))


def report(found: Sequence[Idle]) -> str:
    """Memory of each contender, and set-up of connections beside HAProxy's."""
    by_name = {name: [one for one in found if one.contender == name] for name in NAMES}
    counts = [step.connections for step in found[0].steps] if found else []
    memory = [
        [
            name,
            figure(median([one.base for one in rounds])),
            *(figure(_kb(rounds, number)) for number in range(len(counts))),
            _said(name, goals.KB_PER_CONNECTION, _kb(rounds, -1)),
        ]
        for name, rounds in by_name.items()
    ]
    set_up = [
        [name, figure(rate), figure(_cost(rounds)), _said(name, goals.SET_UP_RATE, rate)]
        for name, rounds in by_name.items()
        for rate in [_rate(by_name, name)]
    ]
    header = ("contender", "base kB", *(f"kB/connection at {count}" for count in counts), "goal")
    return "\n".join(
        [
            table("memory: idle connections, user space", header, memory),
            table(
                "set-up of connections", ("contender", "rate/haproxy", "CPU us/connection", "goal"), set_up
            ),
        ]
    )


def _said(name: str, goal: Goal, value: float | None) -> str:
    return verdict(goal, value) if name == RELAY else ""


def _kb(rounds: Sequence[Idle], step: int) -> float | None:
    return median([one.steps[step].kb for one in rounds])


def _cost(rounds: Sequence[Idle]) -> float | None:
    return median([step.cost for one in rounds for step in one.steps])


def _rate(by_name: Mapping[str, Sequence[Idle]], name: str) -> float | None:
    ours, theirs = by_name[name], by_name[HAPROXY]
    if not ours or not theirs:
        return None
    return median(ratios(*([step.rate for one in rounds for step in one.steps] for rounds in (ours, theirs))))

"""STOMP over WebSocket beside plain TCP, by one listener of one relay: what passes, and what idle sessions take."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from bench import memory
from bench.contenders import PLAIN, ROUTES, Contender, relay
from bench.load import SMALL, Case, Load, LoadError, Run
from bench.machine import AbsentError
from bench.memory import Idle
from bench.report import figure, median, table
from bench.rounds import Outcome, measure

NAME: Final = "websocket"
TCP: Final = "TCP"
WEB: Final = "WebSocket"
NAMES: Final = (TCP, WEB)

HELD: Final = 5000
"""Idle sessions, as far as open files go."""

TRAFFIC: Final = {
    "SEND, 1 KiB": Case("sink", 1024),
    "SEND, 1 KiB, a message each": Case("sink", 1024, piece=SMALL),
    "MESSAGE, 1 KiB": Case("source", 1024),
    "MESSAGE, ack:client-individual, ACK": Case("individual", 1024),
    "MESSAGE, 64 KiB": Case("source", 64 * 1024),
    "SEND and its MESSAGE, one at a time": Case("loop", 100),
    "sessions with DISCONNECT": Case("polite"),
}

HEADER: Final = ("load", "TCP/s", "WebSocket/TCP", "TCP us", "WebSocket/TCP")


def running(broker: int, directory: Path) -> AbstractContextManager[Contender]:
    """The relay, whose listener speaks both."""
    routes = {PLAIN: ROUTES[PLAIN].format(broker=f"127.0.0.1:{broker}")}
    return relay(routes, directory, NAME, listener="web = true\n")


def outcomes(load: Load, contender: Contender, rounds: int, seconds: float) -> list[Outcome]:
    """Run each kind of load by both ways, in turn."""
    return [
        measure(load, name, [contender.entry(each, name=way) for way, each in _ways(case)], rounds, seconds)
        for name, case in TRAFFIC.items()
    ]


def _ways(case: Case) -> list[tuple[str, Case]]:
    return [(TCP, case), (WEB, Case(case.mode, case.body, piece=case.piece, web=True))]


def idle(
    load: Load, directory: Path, rounds: int, note: Callable[[str], None], most: int = HELD
) -> list[Idle]:
    """Hold idle sessions by each way, each in a relay of its own; why there are none is noted."""
    wanted = [min(most, *memory.steps(quick=False)[-1:])]
    found = []
    try:
        for _ in range(rounds):
            for way in NAMES:
                with running(load.ports["1.2"], directory) as relay:
                    found.append(memory.held(load, way, relay, wanted, web=way == WEB))
    except (AbsentError, LoadError, RuntimeError, OSError) as error:
        note(f"websocket: nothing is held: {error}")
    return found


def report(found: Sequence[Outcome], held: Sequence[Idle]) -> str:
    """A row for each kind of load, over plain TCP's; what failed; and the idle sessions."""
    rows = [
        [outcome.name, *_cells(outcome, lambda run: run.rate), *_cells(outcome, lambda run: run.cost)]
        for outcome in found
    ]
    parts = [
        table("websocket: messages a second, and CPU a message (less is better)", HEADER, rows),
        *(line for outcome in found for line in outcome.failures()),
    ]
    if held:
        parts.append(memory.report(held, NAMES, "websocket: idle sessions, user space"))
    return "\n".join(parts)


def _cells(outcome: Outcome, of: Callable[[Run], float]) -> list[str]:
    return [figure(outcome.absolute(of, TCP)), figure(median(outcome.ratios(of, WEB, TCP)))]

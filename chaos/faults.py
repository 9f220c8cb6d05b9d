"""What is done to the brokers and when, from a seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.e2e.fleet import FREEZE, KILL, RESET, STOP, SWALLOW, Fault

LASTING: Final[Mapping[Fault, tuple[float, float]]] = {
    KILL: (0.0, 4.0),
    STOP: (0.0, 4.0),
    FREEZE: (0.5, 6.0),
    SWALLOW: (0.5, 6.0),
    RESET: (0.0, 0.0),
}
"""For how many seconds, at least and at most, before the healing begins."""

DEADLY: Final = frozenset({KILL, STOP})
"""What a broker that keeps its messages in memory loses them by."""

WELL: Final = 4.0
"""Seconds, on average, that a broker is well between two faults."""


@dataclass(frozen=True)
class Blow:
    """A fault that strikes one broker (by its number) `after` seconds of being well, and lasts `lasting` seconds."""

    broker: int
    fault: Fault
    after: float
    lasting: float


def plan(seed: int, seconds: float, durable: Sequence[bool]) -> list[list[Blow]]:
    """The blows for each broker, as many as fit into `seconds`; `durable` says who keeps messages on disk.

    The brokers' plans do not know of each other: at times none of them is well.
    """
    return [
        _plan(
            Random(f"{seed}/{number}"), number, seconds, [*LASTING] if keeps else [*(LASTING.keys() - DEADLY)]
        )
        for number, keeps in enumerate(durable)
    ]


def _plan(chance: Random, broker: int, seconds: float, faults: Sequence[Fault]) -> list[Blow]:
    faults = sorted(faults, key=lambda fault: fault.name)
    blows: list[Blow] = []
    time = 0.0
    while True:
        fault = chance.choice(faults)
        blow = Blow(broker, fault, 1 + chance.expovariate(1 / (WELL - 1)), chance.uniform(*LASTING[fault]))
        time += blow.after + blow.lasting
        if time > seconds:
            return blows
        blows.append(blow)

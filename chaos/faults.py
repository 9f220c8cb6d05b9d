"""What is done to the brokers and when, from a seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.e2e.fleet import FLAP, FREEZE, KILL, MUTE, RESET, STOP, SWALLOW, Fault

LASTING: Final[Mapping[Fault, tuple[float, float]]] = {
    KILL: (0.0, 4.0),
    STOP: (0.0, 4.0),
    FREEZE: (0.5, 6.0),
    SWALLOW: (0.5, 6.0),
    MUTE: (0.5, 6.0),
    FLAP: (0.5, 4.0),
    RESET: (0.0, 0.0),
}
"""For how many seconds, at least and at most, before the healing begins."""

BRIEF: Final[Mapping[Fault, tuple[float, float]]] = {
    KILL: (0.0, 0.5),
    STOP: (0.0, 0.5),
    FREEZE: (0.2, 2.0),
    SWALLOW: (0.2, 2.0),
    MUTE: (0.2, 2.0),
    FLAP: (0.3, 1.5),
    RESET: (0.0, 0.0),
}
"""The same where many faults are wanted in a short time: now and then longer than a broker may be silent."""

OFTEN: Final[Mapping[Fault, int]] = {KILL: 2, STOP: 1, FREEZE: 5, SWALLOW: 5, MUTE: 5, FLAP: 4, RESET: 10}
"""How often each strikes then: those that a broker recovers from soon, more."""

DEADLY: Final = frozenset({KILL, STOP})
"""What a broker that keeps its messages in memory loses them by."""

WELL: Final = 4.0
"""Seconds, on average, that a broker is well between two faults."""

SOON: Final = 0.5
"""The same where many faults are wanted."""


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


def storm(seed: int, broker: int, *, durable: bool) -> Iterator[Blow]:
    """The blows for one broker, without end, as close together as its sessions can get anything done between."""
    chance = Random(f"{seed}/storm/{broker}")
    faults = sorted(OFTEN if durable else OFTEN.keys() - DEADLY, key=lambda fault: fault.name)
    weights = [OFTEN[fault] for fault in faults]
    while True:
        fault = chance.choices(faults, weights)[0]
        yield Blow(broker, fault, 0.2 + chance.expovariate(1 / (SOON - 0.2)), chance.uniform(*BRIEF[fault]))

"""What is done to the brokers and when, from a seed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.e2e.fleet import FLAP, FREEZE, KILL, MUTE, RESET, STOP, SWALLOW, Fault

FAULTS: Final[Mapping[Fault, tuple[int, float, float]]] = {
    KILL: (2, 0.0, 0.5),
    STOP: (1, 0.0, 0.5),
    FREEZE: (5, 0.2, 2.0),
    SWALLOW: (5, 0.2, 2.0),
    MUTE: (5, 0.2, 2.0),
    FLAP: (4, 0.3, 1.5),
    RESET: (10, 0.0, 0.0),
}
"""How often each strikes: those that a broker recovers from soon, more. And for how many seconds, at least and at most,
before the healing begins: now and then longer than a broker may be silent.
"""

DEADLY: Final = frozenset({KILL, STOP})
"""What a broker that keeps its messages in memory loses them by."""

SOON, LATE = 0.3, 3.0
"""Seconds, on average, that a broker is well between two faults: where many are wanted, and else."""

LONGER: Final = 3.0
"""So many times as long each fault lasts where not many are wanted."""


@dataclass(frozen=True)
class Blow:
    """A fault that strikes a broker `after` seconds of being well, and lasts `lasting` seconds."""

    fault: Fault
    after: float
    lasting: float


def blows(seed: int, broker: int, *, durable: bool, many: bool) -> Iterator[Blow]:
    """Return the blows for one broker, without end. `durable`: it keeps messages on disk. `many`: they are as close
    together as sessions can get anything done between.

    The brokers' blows do not know of each other: at times no broker is well.
    """
    chance = Random(f"{seed}/{broker}")
    faults = sorted(FAULTS if durable else FAULTS.keys() - DEADLY, key=lambda fault: fault.name)
    weights = [FAULTS[fault][0] for fault in faults]
    well, longer = (SOON, 1.0) if many else (LATE, LONGER)
    while True:
        fault = chance.choices(faults, weights)[0]
        lasting = longer * chance.uniform(*FAULTS[fault][1:])
        yield Blow(fault, 0.2 + chance.expovariate(1 / well), lasting)

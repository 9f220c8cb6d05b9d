"""A world to make a journal of: several relays, their clients, and all that happens to them."""

from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000_000
START: Final = 1_795_248_000 * SECOND
"""2026-11-21 08:00:00."""


@dataclass(frozen=True)
class World:
    """What to make up. `records` is reached, and passed by less than what it takes to end all runs.

    The names of `relays` begin with `relay`. Each has a clock that is off by up to `skew` seconds. It runs `runs`
    times; of all these runs `deaths` die: without "journal ended", their last segment is open and torn. What consumers
    had not answered comes again in the next run.

    About `rate` messages come in a second of the journal's time; the first `bodies` octets of each body are kept.
    `trace`: the frames carry the relay's trace. `backlog` messages, sent first, are for nobody. Of consumers that
    answer one by one, `nacked` is the share of messages that are refused (some come again), `unanswered` of those that
    wait for long. `failovers`: times that a broker is lost by all who have it, each third because that was asked for;
    `comings`: times that a client goes and comes back. `segment` is the size of segments in octets, `age` the seconds
    that one is written to.

    With one relay, no `deaths` and no `nacked` the order of messages tells as much as their trace.
    """

    records: int
    seed: int = 1
    relays: int = 3
    relay: str = "r"
    runs: int = 2
    deaths: int = 2
    skew: float = 2.0
    rate: float = 5000.0
    bodies: int = 0
    trace: bool = True
    backlog: int = 0
    nacked: float = 0.002
    unanswered: float = 0.002
    failovers: int = 3
    comings: int = 20
    segment: int = 64 << 20
    age: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.deaths <= self.relays * self.runs:
            raise ValueError("deaths must not be more than all runs")
        if not 0 <= self.skew <= 4:
            raise ValueError("skew must be 0 to 4: a message is final 10 seconds after its last sign")

"""A world to make a journal of: several relays, their clients, and all that happens to them."""

from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000_000
START: Final = 1_795_248_000 * SECOND
"""2026-11-21 08:00:00."""


@dataclass(frozen=True)
class World:
    """What to make up. `records` is reached, and passed by less than what it takes to end all runs.

    The names of `relays` begin with `relay`. Each has `producers` and `consumers` (sessions), and a clock that is off
    by up to `skew` seconds. It runs `runs` times; of all these runs `deaths` die: without "journal ended", their last
    segment is open and torn.
    What consumers had not answered comes again in the next run.

    Each message goes to a topic with chance `published` (some of the `topics` have no subscriber), else to a queue:
    with chance `hot` to the first, else to one of the other `queues` by Zipf's law with `exponent`. About `burst`
    messages come in a chunk, `rate` a second of the journal's time. Bodies have `smallest` octets or more by Pareto's
    law with `tail`, at most `largest`; the first `bodies` octets of each are kept. `trace`: the frames carry the
    relay's trace.

    `backlog` messages, sent first, are for nobody. Of consumers that answer one by one, `nacked` is the share of
    messages that are refused (some come again), `unanswered` of those that wait for long. `transactions`: the share of
    chunks in one, of which `aborted` are in vain. `failovers`: times that a broker is lost by all who have it, each
    third because that was asked for; `comings`: times that a client goes and comes back.

    `segment` is the size of segments in octets, `age` the seconds that one is written to.

    With one relay, no `deaths` and no `nacked` the order of messages tells as much as their trace.
    """

    records: int
    seed: int = 1
    relays: int = 3
    relay: str = "r"
    runs: int = 2
    deaths: int = 2
    skew: float = 2.0
    producers: int = 12
    consumers: int = 12
    brokers: int = 3
    queues: int = 40
    topics: int = 5
    published: float = 0.05
    hot: float = 0.9
    exponent: float = 1.2
    burst: int = 12
    rate: float = 5000.0
    smallest: int = 120
    tail: float = 1.2
    largest: int = 1 << 20
    bodies: int = 0
    trace: bool = True
    backlog: int = 0
    nacked: float = 0.002
    unanswered: float = 0.002
    transactions: float = 0.05
    aborted: float = 0.2
    failovers: int = 3
    comings: int = 20
    segment: int = 64 << 20
    age: float = 60.0
    start: int = START

    def __post_init__(self) -> None:
        for name in ("relays", "runs", "producers", "consumers", "queues", "burst"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not 0 <= self.deaths <= self.relays * self.runs:
            raise ValueError("deaths must not be more than all runs")
        if self.brokers < 2 and self.failovers:
            raise ValueError("without a second broker there are no failovers")
        if not 0 <= self.skew <= 4:
            raise ValueError("skew must be 0 to 4: a message is final 10 seconds after its last sign")

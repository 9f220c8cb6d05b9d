"""What the report is made from: plain records, without Spark. Instants and durations are microseconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from stomprelay.pipeline.report.span import Span
from stomprelay.pipeline.report.text import Micros

OUTCOMES: Final = ("acked", "delivered", "returned", "nacked", "undelivered", "unconfirmed", "aborted")
"""Of messages, the good ones first."""
DELIVERED: Final = frozenset(("acked", "delivered", "returned", "nacked"))
"""Outcomes of messages that some consumer got."""
MEASURES: Final = ("receipt", "delivery", "ack")
"""The latencies: SEND to RECEIPT, SEND to MESSAGE, MESSAGE to ACK."""


class Rest(Enum):
    """In place of a name: all that are not among the top."""

    OTHERS = "others"


Name = str | Rest | None


@dataclass(frozen=True)
class Series:
    """Messages through one destination, by bin: SENDs that came, MESSAGEs that went."""

    name: Name
    sent: Sequence[int]
    delivered: Sequence[int]


@dataclass(frozen=True)
class Percentiles:
    """Of some latencies; None where there are none."""

    count: int
    p50: Micros | None = None
    p95: Micros | None = None
    p99: Micros | None = None
    longest: Micros | None = None


NOTHING: Final = Percentiles(0)


@dataclass(frozen=True)
class Latency:
    """One of the three: by bin of the SEND, and over the whole range."""

    bins: Sequence[Percentiles]
    whole: Percentiles = NOTHING


@dataclass(frozen=True)
class Failover:
    """A broker's outage, as in the table `failovers`."""

    upstream: str | None
    broker: str
    moved_to: Sequence[str]
    began: Micros
    ended: Micros | None
    planned: bool
    sessions: int
    recovered: int
    given_up: int
    silence_median: Micros | None
    silence_longest: Micros | None
    resent: int
    stale_acks: int
    duplicates: int


@dataclass(frozen=True)
class Episode:
    """A time in which `deliveries` waited too long; `until` None: some still do."""

    since: Micros
    until: Micros | None
    deliveries: int


@dataclass(frozen=True)
class Stuck:
    """A subscription that was stuck at least once: its `episodes` in order, none overlapping, and the broker and the
    outcome of the last; `worst` is the longest wait of one delivery.
    """

    client: str | None
    subscription: str | None
    destination: str | None
    broker: str | None
    episodes: Sequence[Episode]
    worst: Micros
    outcome: str | None

    @property
    def still(self) -> bool:
        """Whether deliveries still wait."""
        return self.episodes[-1].until is None

    @property
    def deliveries(self) -> int:
        """How many waited too long, in all."""
        return sum(one.deliveries for one in self.episodes)


@dataclass(frozen=True)
class Way:
    """From a producer over a destination to a consumer. None for a producer that was not seen, or for nobody."""

    producer: Name
    destination: Name
    consumer: Name
    messages: int


@dataclass(frozen=True)
class Destination:
    """A row of the table of destinations. `delivery`: SEND to MESSAGE over the whole range."""

    name: str
    sent: int
    delivered: int
    octets: int
    outcomes: Mapping[str, int]
    delivery: Percentiles = NOTHING
    worst_minute: Micros | None = None
    worst_minute_p99: Micros | None = None
    spark: Sequence[int] = ()


@dataclass(frozen=True)
class Client:
    """A row of the table of clients."""

    name: str
    sent: int
    received: int
    octets: int
    errors: int


@dataclass(frozen=True)
class Trouble:
    """Errors of one wording."""

    text: str
    source: str
    count: int
    clients: int
    first: Micros
    last: Micros


@dataclass(frozen=True)
class Damage:
    """A row of `quarantine`."""

    segment: str
    offset: int
    length: int
    reason: str


@dataclass(frozen=True)
class Findings:
    """All of it. The `total_…` count what there is; the lists hold the top of it."""

    span: Span
    relays: Sequence[str] = ()
    recorded: Sequence[bool] = ()
    """By bin, whether the journal holds anything."""
    series: Sequence[Series] = ()
    latencies: Mapping[str, Latency] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    redelivered: int = 0
    unsettled: int = 0
    """Messages whose row may still change."""
    failovers: Sequence[Failover] = ()
    stuck: Sequence[Stuck] = ()
    total_stuck: int = 0
    ways: Sequence[Way] = ()
    whole_hours: bool = True
    """Whether the range is of whole hours; `ways` always are."""
    destinations: Sequence[Destination] = ()
    total_destinations: int = 0
    clients: Sequence[Client] = ()
    total_clients: int = 0
    errors: Sequence[int] = ()
    """By bin."""
    troubles: Sequence[Trouble] = ()
    total_troubles: int = 0
    damages: Sequence[Damage] = ()
    total_damages: int = 0
    octets: int = 0

    @property
    def messages(self) -> int:
        """How many were seen."""
        return sum(self.outcomes.values())

    @property
    def reached(self) -> int:
        """Messages that some consumer got."""
        return sum(number for outcome, number in self.outcomes.items() if outcome in DELIVERED)

    @property
    def empty(self) -> bool:
        """Whether the tables hold nothing of this range."""
        return not any(self.recorded) and not self.messages and not self.failovers and not self.stuck

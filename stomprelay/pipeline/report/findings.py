"""What the report is made from: plain records, without Spark, and the axis of time that they are shown on. Instants and
durations are microseconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND, Micros
from stomprelay.pipeline.schema import ACKED, DELIVERED, NACKED, RETURNED

BINS: Final = 200
"""Bins of a chart, at most. More would be narrower than what a phone can show."""

_STEPS: Final = (
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 28, 91, 364)),
)
FINE: Final = 30 * MINUTE
"""Ranges shorter than this have bins of less than a minute."""
_TICKS: Final = 10
_MAIN: Final = 4


GOT: Final = frozenset((ACKED, DELIVERED, RETURNED, NACKED))
"""Outcomes of messages that some consumer got."""
MEASURES: Final = ("receipt", "delivery", "ack")
"""The latencies: SEND to RECEIPT, SEND to MESSAGE, MESSAGE to ACK."""


@dataclass(frozen=True)
class Tick:
    """A mark on the axis. `place` is 0 to 1 from left to right; a narrow chart shows only those that are `main`."""

    at: Micros
    place: float
    form: str
    main: bool


@dataclass(frozen=True)
class Span:
    """From `since` up to, not including, `until`, in bins of `step`. All are multiples of `step`."""

    since: Micros
    until: Micros
    step: Micros

    @classmethod
    def over(cls, first: Micros, last: Micros, *, fine: bool = True) -> "Span":
        """The span with bins of a sensible width that holds all from `first` to `last`, both included. `fine`: a short
        one may have bins of less than a minute.
        """
        length = max(last - first, 0) + 1
        floor = SECOND if fine and length <= FINE else MINUTE
        step = next((step for step in _STEPS if step >= floor and length <= step * (BINS - 1)), _STEPS[-1])
        since = first - first % step
        return cls(since, last - last % step + step, step)

    @property
    def bins(self) -> int:
        """How many."""
        return (self.until - self.since) // self.step

    @property
    def seconds(self) -> float:
        """Of one bin."""
        return self.step / SECOND

    @property
    def starts(self) -> range:
        """When each bin begins."""
        return range(self.since, self.until, self.step)

    def index(self, at: Micros) -> int:
        """The bin that an instant is in; the nearest, for one outside."""
        return min(max((at - self.since) // self.step, 0), self.bins - 1)

    def place(self, at: Micros) -> float:
        """Where an instant is, 0 to 1 from left to right; clipped."""
        return min(max((at - self.since) / (self.until - self.since), 0.0), 1.0)

    @property
    def form(self) -> str:
        """How the start of a bin is written, so that no two look alike."""
        if self.step >= DAY:
            return "day"
        if self.until - self.since > DAY:
            return "both"
        return "second" if self.step < MINUTE else "hour"

    def ticks(self) -> list[Tick]:
        """At round times: at most ten, of which at most four are main ones."""
        length = self.until - self.since
        fine = next((step for step in _STEPS if length <= step * _TICKS), _STEPS[-1])
        main = next((step for step in _STEPS if length <= step * _MAIN and step % fine == 0), None)
        first = -(-self.since // fine) * fine
        return [
            Tick(at, self.place(at), self._told(at, fine), main is None or at % main == 0)
            for at in range(first, self.until, fine)
            if length <= fine * _TICKS
        ]

    @staticmethod
    def _told(at: Micros, fine: Micros) -> str:
        if at % DAY == 0:
            return "day"
        return "second" if fine < MINUTE else "hour"


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
        return sum(number for outcome, number in self.outcomes.items() if outcome in GOT)

    @property
    def empty(self) -> bool:
        """Whether the tables hold nothing of this range."""
        return not any(self.recorded) and not self.messages and not self.failovers and not self.stuck

"""What the report shows, as plain records without Spark, and the time axis. All times are in microseconds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from stomprelay.pipeline.read.frames import QuarantineRow
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND, Micros, duration
from stomprelay.pipeline.schema import ABORTED, ACKED, DELIVERED, NACKED, RETURNED, UNCONFIRMED, UNDELIVERED

BINS: Final = 200
"""The most bins of a chart. More bins would be too narrow on a phone."""

_STEPS: Final = (
    *(n * SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 3, 6, 12)),
    *(n * DAY for n in (1, 2, 7, 14, 28, 91, 364)),
)
FINE: Final = 30 * MINUTE
"""Only ranges that are no longer than this can have bins of less than a minute."""
_PART: Final = 0.05
"""If more than this share of a range has no records at its begin or end, the page says so."""
_TICKS: Final = 10
_MAIN: Final = 4


GOT: Final = frozenset((ACKED, DELIVERED, RETURNED, NACKED))
"""Outcomes of messages that were delivered to at least one consumer."""
UNHEARD: Final = "unheard"
"""Shown in place of the outcome `undelivered` for a message to a topic. A broker sends such a message to the clients
that are subscribed when it comes, and keeps it for nobody else. So the message does not wait to be delivered.
"""
MEANING: Final = {
    ACKED: "acknowledged",
    DELIVERED: "delivered, no answer",
    RETURNED: "returned: the consumer or broker went first",
    NACKED: "refused (NACK)",
    UNDELIVERED: "not delivered yet",
    UNHEARD: "to a topic, nobody got it",
    UNCONFIRMED: "neither delivered nor confirmed",
    ABORTED: "transaction aborted",
}
"""Each outcome in a few words, in the order in which the report shows them."""
MEASURES: Final = ("receipt", "delivery", "ack")
"""The three latencies: SEND to RECEIPT, SEND to MESSAGE, MESSAGE to ACK."""


def seen(outcomes: Mapping[str, int]) -> list[str]:
    """Return the outcomes that at least one message has, in the order of the report."""
    return [outcome for outcome in MEANING if outcomes.get(outcome)]


@dataclass(frozen=True)
class Tick:
    """A mark on the axis, at `place` 0 (left) to 1 (right). `form`: how its time is written, see `text.clock`. `main`:
    the mark is also shown on narrow charts.
    """

    at: Micros
    place: float
    form: str
    main: bool


@dataclass(frozen=True)
class Span:
    """The time axis in µs, from `since` up to `until`, not included. Both are multiples of a bin's width, `step`."""

    since: Micros
    until: Micros
    step: Micros

    @classmethod
    def over(cls, first: Micros, last: Micros, *, fine: bool = True) -> "Span":
        """Return an axis of at most `BINS` bins from `first` to `last`. `fine`: bins may be shorter than a minute."""
        length = max(last - first, 0) + 1
        floor = SECOND if fine and length <= FINE else MINUTE
        step = next((step for step in _STEPS if step >= floor and length <= step * (BINS - 1)), _STEPS[-1])
        since = first - first % step
        return cls(since, last - last % step + step, step)

    @property
    def bins(self) -> int:
        """Return the number of bins."""
        return (self.until - self.since) // self.step

    @property
    def seconds(self) -> float:
        """Return the width of a bin in seconds."""
        return self.step / SECOND

    @property
    def starts(self) -> range:
        """Return the instants at which the bins begin."""
        return range(self.since, self.until, self.step)

    @property
    def grouped(self) -> int:
        """Return how many bins make one point of a small chart. A small chart has at most 60 points."""
        return -(-self.bins // 60)

    def index(self, at: Micros) -> int:
        """Return the number of the bin that an instant is in. An instant outside is put into the first or last bin."""
        return min(max((at - self.since) // self.step, 0), self.bins - 1)

    def place(self, at: Micros) -> float:
        """Return an instant's place on the axis, 0 (left) to 1 (right). An instant outside is at the nearer end."""
        return min(max((at - self.since) / (self.until - self.since), 0.0), 1.0)

    @property
    def form(self) -> str:
        """Return a form (see `text.clock`) that gives the beginning of each bin a different text."""
        if self.step >= DAY:
            return "day"
        if self.until - self.since > DAY:
            return "both"
        return "second" if self.step < MINUTE else "hour"

    def ticks(self) -> list[Tick]:
        """Return at most ten marks at round times. At most four of them have `main` set."""
        length = self.until - self.since
        fine = next((step for step in _STEPS if length <= step * _TICKS), _STEPS[-1])
        main = next((step for step in _STEPS if length <= step * _MAIN and step % fine == 0), None)
        first, form = -(-self.since // fine) * fine, "second" if fine < MINUTE else "hour"
        return [
            Tick(at, self.place(at), "day" if at % DAY == 0 else form, main is None or at % main == 0)
            for at in range(first, self.until, fine)
            if length <= fine * _TICKS
        ]


class Rest(Enum):
    """Takes the place of a name for all names that are not listed."""

    OTHERS = "others"


Name = str | Rest | None


@dataclass(frozen=True)
class Series:
    """Messages through one destination, by bin: SENDs from clients, and MESSAGEs to clients."""

    name: Name
    sent: Sequence[int]
    delivered: Sequence[int]


@dataclass(frozen=True)
class Percentiles:
    """The percentiles of `count` durations in microseconds. They are None if there are no durations."""

    count: int
    p50: Micros | None = None
    p95: Micros | None = None
    p99: Micros | None = None
    longest: Micros | None = None


NOTHING: Final = Percentiles(0)


@dataclass(frozen=True)
class Latency:
    """The percentiles of one of `MEASURES`: in each bin, by the time of the SEND, and over the whole range."""

    bins: Sequence[Percentiles]
    whole: Percentiles = NOTHING

    @property
    def courses(self) -> Sequence[Sequence[Micros | None]]:
        """Return three lists, for p50, p95 and p99. Each list has a value for each bin."""
        return [[getattr(bin_, line) for bin_ in self.bins] for line in ("p50", "p95", "p99")]


@dataclass(frozen=True)
class Failover:
    """One row of the table `failovers`; durations are in microseconds."""

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

    @property
    def lasted(self) -> str:
        """Return how long the outage was, in words."""
        return "not over" if self.ended is None else duration(self.ended - self.began)


def silence(failovers: Iterable[Failover]) -> Micros:
    """Return the longest time that a session was without a broker."""
    return max((one.silence_longest or 0 for one in failovers), default=0)


@dataclass(frozen=True)
class Episode:
    """One row of the table `stuck`: a time in which `deliveries` of a broker waited too long. `worst` is the longest of
    these waits in microseconds. `until` and `outcome` are None if some deliveries still wait.
    """

    since: Micros
    until: Micros | None
    deliveries: int
    broker: str | None = None
    worst: Micros = 0
    outcome: str | None = None

    def end(self, span: Span) -> Micros:
        """Return the time at which the episode's bar ends. If deliveries still wait, this is the end of the span."""
        return max(span.until, self.since) if self.until is None else self.until


@dataclass(frozen=True)
class Stuck:
    """A subscription that was stuck, with its episodes in order. Episodes of one broker do not overlap."""

    client: str | None
    subscription: str | None
    destination: str | None
    episodes: Sequence[Episode]

    @property
    def still(self) -> bool:
        """Return whether deliveries still wait."""
        return any(one.until is None for one in self.episodes)

    @property
    def worst(self) -> Micros:
        """Return the longest wait of one delivery."""
        return max(one.worst for one in self.episodes)

    @property
    def by_broker(self) -> Mapping[str | None, Sequence[Episode]]:
        """Return the episodes of each broker, in order."""
        found: dict[str | None, list[Episode]] = {}
        for one in self.episodes:
            found.setdefault(one.broker, []).append(one)
        return found


@dataclass(frozen=True)
class Way:
    """How many messages went from a producer through a destination to a consumer. `producer` is None if the SEND was
    not seen. `consumer` is None if no client received the messages.
    """

    producer: str | None
    destination: str | None
    consumer: str | None
    messages: int


@dataclass(frozen=True)
class Destination:
    """A row of the list of destinations. `delivery`: times from SEND to MESSAGE. `spark`: messages over time."""

    name: str
    sent: int
    delivered: int
    octets: int
    outcomes: Mapping[str, int]
    delivery: Percentiles = NOTHING
    worst_minute: Micros | None = None
    worst_minute_p99: Micros | None = None
    spark: Sequence[int] = ()

    @property
    def passed(self) -> int:
        """Return the number of messages that were sent plus the number of messages that were delivered."""
        return self.sent + self.delivered


@dataclass(frozen=True)
class ClientFigures:
    """A row of the list of clients. `octets`: bytes of frames."""

    name: str
    sent: int
    received: int
    octets: int
    errors: int

    @property
    def passed(self) -> int:
        """Return the number of messages that were sent plus the number of messages that were received."""
        return self.sent + self.received


@dataclass(frozen=True)
class Trouble:
    """All errors with the same text. `source`: `broker` or `relay`. `clients`: how many clients received the error."""

    text: str
    source: str
    count: int
    clients: int
    first: Micros
    last: Micros


@dataclass(frozen=True)
class RelayRun:
    """One row of the table `runs`; `torn` is in bytes."""

    relay: str
    run: str
    began: Micros | None
    heard: Micros | None
    ended: Micros | None
    outcome: str
    segments: int
    frames: int
    events: int
    dropped: int
    torn: int


@dataclass(frozen=True)
class Compared:
    """What became of the copies of a producer's SENDs to a destination; see `schema.COMPARED`. `whole` is how many
    copies have the same body, as far as it is known; `size` how many of these are only known to have the same size.
    """

    destination: str
    producer: str
    sent: int
    whole: int
    size: int
    other: int
    missing: int
    twice: int
    late: int
    lag: Micros | None

    @property
    def wrong(self) -> int:
        """How many differences there are."""
        return self.other + self.missing + self.twice + self.late


@dataclass(frozen=True)
class Earlier:
    """The range before: as long as the present range, but a `period` (`day` or `week`) earlier. It is from `since` up
    to `until`, not included. `first`: the beginning of its first minute with records. `last`: the end of its last
    minute with records. Without records they are None. `found`: the figures that `indicators` reads, and the
    destinations and clients by name. `gone`: the busiest destinations of the range before that have no messages now.
    """

    period: str
    since: Micros
    until: Micros
    first: Micros | None = None
    last: Micros | None = None
    found: "Findings | None" = None
    gone: Sequence[str] = ()


@dataclass(frozen=True)
class Findings:
    """Everything that the report shows. Lists have the top entries; each `total_...` counts all entries."""

    span: Span
    relays: Sequence[str] = ()
    recorded: Sequence[bool] = ()
    """For each bin, whether the journal has records in it."""
    series: Sequence[Series] = ()
    latencies: Mapping[str, Latency] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    redelivered: int = 0
    unsettled: int = 0
    """How many messages have a row that may still change."""
    failovers: Sequence[Failover] = ()
    stuck: Sequence[Stuck] = ()
    total_stuck: int = 0
    ways: Sequence[Way] = ()
    total_ways: int = 0
    whole_hours: bool = True
    """Whether the range begins and ends at full hours. `ways` always count full hours."""
    destinations: Sequence[Destination] = ()
    total_destinations: int = 0
    clients: Sequence[ClientFigures] = ()
    total_clients: int = 0
    errors: Sequence[int] = ()
    """The number of errors in each bin."""
    troubles: Sequence[Trouble] = ()
    total_troubles: int = 0
    damages: Sequence[QuarantineRow] = ()
    total_damages: int = 0
    total_missing: int = 0
    """How many of the damages are about segments or frames that are missing, were dropped, or came late."""
    octets: int = 0
    waiting: Mapping[str, int] = field(default_factory=dict)
    """For each broker that was lost or left, the approximate number of messages that may wait there."""
    compared: Sequence[Compared] = ()
    total_compared: int = 0
    runs: Sequence[RelayRun] = ()
    total_runs: int = 0
    killed: int = 0
    """How many relays' processes were killed."""
    dropped: int = 0
    """How many frames the relays dropped instead of recording them, as the relays reported."""
    earlier: Earlier | None = None
    """The range that this range is compared with; None if no comparison was requested."""

    @property
    def messages(self) -> int:
        """Return how many messages were seen."""
        return sum(self.outcomes.values())

    @property
    def reached(self) -> int:
        """Return how many messages were delivered to at least one consumer."""
        return sum(number for outcome, number in self.outcomes.items() if outcome in GOT)

    @property
    def expected(self) -> int:
        """Return how many messages were seen, except messages to topics that nobody received."""
        return self.messages - self.outcomes.get(UNHEARD, 0)

    @property
    def lost(self) -> Sequence[Failover]:
        """Return the unplanned outages."""
        return [one for one in self.failovers if not one.planned]

    @property
    def rate(self) -> float:
        """Return the mean number of messages a second."""
        return self.messages * SECOND / (self.span.until - self.span.since)

    @property
    def busy(self) -> Sequence[Series]:
        """Return the series that have any messages."""
        return [one for one in self.series if any(one.sent) or any(one.delivered)]

    @property
    def timed(self) -> Mapping[str, Latency]:
        """Return the latencies that were measured at least once."""
        return {name: found for name in MEASURES if (found := self.latencies.get(name)) and found.whole.count}

    @property
    def waits(self) -> Sequence[tuple[Stuck, Episode]]:
        """Return the episodes of all stuck subscriptions. The episodes of a subscription are grouped by broker."""
        return [(one, each) for one in self.stuck for several in one.by_broker.values() for each in several]

    @property
    def incomplete(self) -> Iterator[tuple[str, Micros, Micros]]:
        """Yield each compared range that lacks many records at its begin or end: the name of the range, and the first
        and the last instant of its records.
        """
        earlier, span = self.earlier, self.span
        here = [at for at, known in zip(span.starts, self.recorded, strict=False) if known]
        ranges = [("this time", span.since, span.until, here[0], here[-1] + span.step)] if here else []
        if earlier is not None and earlier.first is not None and earlier.last is not None:
            then = (f"the {earlier.period} before", earlier.since, earlier.until, earlier.first, earlier.last)
            ranges.insert(0, then)
        for what, since, until, first, last in ranges:
            if max(first - since, until - last) > _PART * (until - since):
                yield what, first, last

    @property
    def before(self) -> "Findings | None":
        """Return the findings of the range before; None if there are none or no comparison was requested."""
        return None if self.earlier is None else self.earlier.found

    @property
    def empty(self) -> bool:
        """Return whether the tables have nothing in this range."""
        return not any(self.recorded) and not self.messages and not self.failovers and not self.stuck

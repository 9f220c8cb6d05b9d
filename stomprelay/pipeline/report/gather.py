"""Reads the tables through Spark into `Findings`. Spark makes sums, and only these sums are collected.

Percentiles use the same buckets as the table `latency`. A percentile is the largest value of the bucket that has its
rank. It is at most 2.2 % above the exact percentile.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.journal.schema import JournalEvent
from stomprelay.journal.segment import FRAMES_DROPPED
from stomprelay.pipeline.read.frames import QuarantineRow
from stomprelay.pipeline.read.gaps import LATE, MISSING
from stomprelay.pipeline.report.findings import (
    FINE,
    MEASURES,
    NOTHING,
    UNHEARD,
    ClientFigures,
    Compared,
    Destination,
    Earlier,
    Episode,
    Failover,
    Findings,
    Latency,
    Percentiles,
    RelayRun,
    Rest,
    Series,
    Span,
    Stuck,
    Trouble,
    Way,
)
from stomprelay.pipeline.report.indicators import PERIODS
from stomprelay.pipeline.report.page import COLOURS
from stomprelay.pipeline.report.text import HOUR, MINUTE, Micros, moment
from stomprelay.pipeline.schema import COMPARED, KILLED, RETURNED, TOPICS, UNDELIVERED, VIEWS
from stomprelay.pipeline.store.store import Store
from stomprelay.pipeline.tables.rollup import MEASURED, TRAFFIC_SUMS, bucket_of

NULL: Final = -1
OTHER: Final = -2


@dataclass(frozen=True)
class Range:
    """A range of time from `since` up to `until`, not included, in microseconds since 1970. None means no bound."""

    since: Micros | None = None
    until: Micros | None = None

    def within(self, rows: DataFrame, column: str) -> DataFrame:
        """Return the rows in the range. `column`: the time of which a row's folder is. Other folders are not read."""
        at = F.unix_micros(F.col(column))
        if self.since is not None:
            rows = rows.where(at >= self.since).where(hour_from(self.since))
        if self.until is not None:
            rows = rows.where(at < self.until).where(hour_up_to(self.until))
        return rows

    def during(self, rows: DataFrame, began: str, ended: str) -> DataFrame:
        """Return the rows whose time is at least partly in the range. `began` and `ended` name columns in µs. If a
        row's `ended` is null, its time has no end.
        """
        if self.since is not None:
            rows = rows.where(F.col(ended).isNull() | (F.col(ended) >= self.since))
        return rows if self.until is None else rows.where(F.col(began) < self.until)


def hour_from(at: Micros) -> Column:
    """Return a column that is true for rows in the hour of this instant and in later hours."""
    when, date = moment(at), F.col("date")
    return (date > when.date()) | ((date == when.date()) & (F.col("hour") >= when.hour))


def hour_up_to(at: Micros) -> Column:
    """Return a column that is true for rows in the hour of this instant and in earlier hours."""
    when, date = moment(at), F.col("date")
    return (date < when.date()) | ((date == when.date()) & (F.col("hour") <= when.hour))


def bin_of(span: Span, micros: Column) -> Column:
    """Return a column with the number of the bin that `micros` is in. The instant must be within the span."""
    return F.floor((micros - F.lit(span.since)) / F.lit(span.step)).cast("int")


def top(rows: DataFrame, column: str, by: Sequence[str], limit: int, *further: Column) -> list[Row]:
    """Return the `limit` names in `column` with the greatest sums of `by[0]`. Names with equal sums are sorted by the
    sums of `by[1]`, and so on. Each row has the name and the aggregates `further`.
    """
    weights = {f"weight{n}": F.sum(each) for n, each in enumerate(by)}
    sums = rows.where(F.col(column).isNotNull()).groupBy(column)
    summed = sums.agg(*(weight.alias(name) for name, weight in weights.items()), *further)
    return summed.orderBy(*map(F.desc_nulls_last, weights), column).drop(*weights).limit(limit).collect()


def passed() -> list[Column]:
    """Return the aggregates of `traffic` for lists: messages `sent` and `delivered`, `octets` and `errors`."""
    way, messages = F.col("direction"), F.col("messages")
    return [
        F.coalesce(F.sum(F.when(way == "to_broker", messages)), F.lit(0)).alias("sent"),
        F.coalesce(F.sum(F.when(way == "to_client", messages)), F.lit(0)).alias("delivered"),
        F.sum("octets").alias("octets"),
        F.sum("errors").alias("errors"),
    ]


def coded(column: str, names: Sequence[str]) -> Column:
    """Return a column of numbers: the place of a name in `names`, `OTHER` for another name, `NULL` for null."""
    code = F.lit(OTHER)
    for place, name in reversed(list(enumerate(names))):
        code = F.when(F.col(column) == F.lit(name), F.lit(place)).otherwise(code)
    return F.when(F.col(column).isNull(), F.lit(NULL)).otherwise(code)


def to_topic() -> Column:
    """Return a column that is true for messages that were sent to a topic."""
    destination = F.coalesce("destination", F.lit(""))
    return reduce(or_, (destination.startswith(prefix) for prefix in TOPICS))


def row_of(rows: DataFrame, *wanted: Column) -> Sequence[Any]:
    """Return the values of these aggregates over all rows."""
    (row,) = rows.agg(*wanted).collect()
    return list(row)


def first(
    rows: DataFrame, limit: int, *order: Column | str, sums: Sequence[Column] = ()
) -> tuple[list[Row], list[int]]:
    """Return the first `limit` rows in this order, and a list: the number of all rows, then the `sums` of all rows."""
    every = Window.partitionBy()
    wanted = [F.count(F.lit(1)), *sums]
    named = {f"over_{n}": each.over(every) for n, each in enumerate(wanted)}
    found = rows.withColumns(named).orderBy(*order).limit(limit).collect()
    return found, [found[0][name] for name in named] if found else [0] * len(wanted)


def extent(store: Store, range_: Range) -> tuple[Micros, Micros] | None:
    """Return the first and last instant to report on, both included. They are the bounds of the range. A missing bound
    is taken from the rows of the range in `traffic`. Return None if there are no such rows.
    """
    minutes, at = range_.within(store.read("traffic"), "minute"), F.unix_micros("minute")
    first, last = row_of(minutes, F.min(at), F.max(at))
    first = first if range_.since is None else range_.since
    if range_.until is not None:
        last = range_.until - 1
    elif last is not None:
        last += MINUTE - 1
    return None if first is None or last is None else (first, max(first, last))


Buckets = dict[int, tuple[int, int]]
"""A histogram of durations: for each bucket the number of durations, and the longest of them in microseconds."""


def add(buckets: Buckets, bucket: int, count: int, longest: int) -> None:
    """Add `count` durations to a bucket. `longest` is the longest of these durations."""
    before, least = buckets.get(bucket, (0, longest))
    buckets[bucket] = (before + count, max(least, longest))


def percentiles(buckets: Buckets) -> Percentiles:
    """Return the percentiles of all durations in a histogram."""
    total = sum(count for count, _ in buckets.values())
    if not total:
        return NOTHING
    reached, ends = 0, []
    for _, (count, longest) in sorted(buckets.items()):
        reached += count
        ends.append((reached, longest))
    p50, p95, p99 = (next(end for up_to, end in ends if up_to * 100 >= total * each) for each in (50, 95, 99))
    return Percentiles(total, p50, p95, p99, max(longest for _, longest in ends))


def timings(
    messages: DataFrame, span: Span, names: Sequence[str]
) -> tuple[dict[str, Latency], dict[int, Percentiles]]:
    """Return the latencies by the names of the measures, and the percentiles of SEND to MESSAGE by the numbers of the
    destinations (see `coded`). The rows of `messages` must be in the span.
    """
    measured = messages.select(
        bin_of(span, F.unix_micros("seen_at")).alias("bin"),
        coded("destination", names).alias("place"),
        F.expr(MEASURED).alias("measure", "us"),
    ).where("us IS NOT NULL")
    by = ("bin", "place", "measure", "bucket")
    counts = measured.withColumn("bucket", bucket_of(F.col("us"))).groupingSets(
        [[by[0], *by[2:]], by[1:]], *by
    )
    wholes: defaultdict[str, Buckets] = defaultdict(dict)
    bins: defaultdict[tuple[str, int], Buckets] = defaultdict(dict)
    places: defaultdict[int, Buckets] = defaultdict(dict)
    for row in counts.agg(F.count("us").alias("number"), F.max("us").alias("longest")).collect():
        counted = (row.bucket, row.number, row.longest)
        if row.place is None:
            add(wholes[row.measure], *counted)
            add(bins[row.measure, row.bin], *counted)
        elif row.measure == "delivery":
            add(places[row.place], *counted)
    latencies = {
        name: Latency([percentiles(bins[name, bin_]) for bin_ in range(span.bins)], percentiles(wholes[name]))
        for name in MEASURES
    }
    return latencies, {place: percentiles(each) for place, each in places.items()}


# What is read


def read_failovers(store: Store, range_: Range) -> list[Failover]:
    """Return the outages of brokers during the range, in the order of time."""
    rows = store.read("failovers").select(
        *("upstream", "broker", "moved_to", F.unix_micros("began_at").alias("began")),
        *(F.unix_micros("ended_at").alias("ended"), "planned", "sessions", "recovered", "given_up"),
        *("silence_p50_us", "silence_max_us", "resent", "stale_acks", "duplicates"),
    )
    rows = range_.during(rows, "began", "ended")
    return [Failover(*row) for row in rows.orderBy("began", "broker").collect()]


def read_stuck(store: Store, range_: Range, limit: int) -> tuple[list[Stuck], int]:
    """Return the `limit` subscriptions with the longest waits in the range, and how many were stuck in the range."""
    who = ("relay", "session", "subscription")
    rows = store.read("stuck").withColumns({"since": F.unix_micros("since"), "until": F.unix_micros("until")})
    rows = range_.during(rows, "since", "until")
    if range_.until is not None:
        rows = rows.where(hour_up_to(range_.until - 1))
    episode = F.struct("since", "until", "deliveries", "broker", "age_us", "outcome", "client", "destination")
    of = len(fields(Episode))
    by_subscription = rows.groupBy(*who).agg(
        F.sort_array(F.collect_list(episode)).alias("episodes"), F.max("age_us").alias("worst")
    )
    found, (total,) = first(by_subscription, limit, F.desc("worst"), *who)
    return [
        Stuck(
            row.episodes[-1].client,
            row.subscription,
            row.episodes[-1].destination,
            [Episode(*one[:of]) for one in row.episodes],
        )
        for row in found
    ], total


def read_troubles(frames: DataFrame, limit: int) -> tuple[list[Trouble], int]:
    """Return the `limit` most frequent texts of errors, and the number of all different texts."""
    by_broker = (F.col("command") == "ERROR") & (F.col("side") == "broker")
    errors = frames.where(by_broker | (F.col("event") == "error")).select(
        F.coalesce(
            "text", F.get(F.map_values(F.map_filter("headers", lambda name, _: name == "message")), 0)
        ).alias("said"),
        F.when(F.col("command").isNotNull(), "broker").otherwise("relay").alias("source"),
        "client",
        F.unix_micros("seen_at").alias("at"),
    )
    worded = errors.groupBy(F.coalesce("said", F.lit("(no message)")).alias("said"), "source").agg(
        F.count(F.lit(1)).alias("number"),
        F.count_distinct("client").alias("clients"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
    )
    rows, (total,) = first(worded, limit, F.desc("number"), "said", "source")
    return [Trouble(*row[:-1]) for row in rows], total


def read_damages(store: Store, limit: int) -> tuple[list[QuarantineRow], int, int]:
    """Return the first `limit` rows of `quarantine`, not only those of a range. Also return the number of all rows, and
    the number of rows about segments or frames that are missing, were dropped, or came late.
    """
    rows = store.read("quarantine").select("segment", "position", "length", "reason").distinct()
    told = reduce(or_, (F.col("reason").contains(each) for each in (MISSING, LATE, FRAMES_DROPPED)))
    missing = F.count_if((F.col("length") == 0) & told)
    found, (total, lacking) = first(rows, limit, "segment", "position", sums=[missing])
    return [QuarantineRow(*row[:4]) for row in found], total, lacking


def read_runs(store: Store, range_: Range, limit: int) -> tuple[list[RelayRun], int, int]:
    """Return `limit` runs of relays during the range, sorted by time. Killed runs are chosen first, then the latest
    runs. Also return the number of all runs, and how many of them were killed within the range.
    """
    rows = store.read("runs").withColumns(
        {name: F.unix_micros(f"{name}_at") for name in ("began", "heard", "ended")}
    )
    killed = F.col("outcome") == KILLED
    if range_.since is not None:
        rows = rows.where(F.col("heard") >= range_.since)
    if range_.until is not None:
        rows = rows.where(F.col("began") < range_.until)
        killed &= F.col("ended") < range_.until
    order = (~killed, F.desc("began"), "relay", "run")
    last, (total, dead) = first(rows, limit, *order, sums=[F.count_if(killed)])
    names = [each.name for each in fields(RelayRun)]
    found = [RelayRun(*(row[name] for name in names)) for row in last]
    return sorted(found, key=lambda one: (one.began or 0, one.relay, one.run)), total, dead


def read_compared(store: Store, range_: Range, limit: int) -> tuple[list[Compared], int]:
    """Return the `limit` producers and destinations of moves with the most differences, and the number of all."""
    read = {name: range_.within(store.read(name), "seen_at") for name in ("frames", "messages")}
    if read["frames"].where("relay = 'compare'").isEmpty():
        return [], 0
    for name, each in read.items():
        each.createOrReplaceTempView(name)
    rows = store.spark.sql(VIEWS[COMPARED])
    sums = rows.groupBy("destination", F.coalesce("producer", F.lit("")).alias("producer")).agg(
        F.count(F.lit(1)).alias("sent"),
        F.count_if(F.col("body").isin("same", "size")).alias("whole"),
        *(F.count_if(F.col("body") == name).alias(name) for name in ("size", "other", "missing")),
        F.sum(F.greatest(F.col("copies") - 1 - F.col("marked"), F.lit(0))).alias("twice"),
        F.count_if("late").alias("late"),
        F.max("lag_us").alias("lag"),
    )
    wrong = F.col("other") + F.col("missing") + F.col("twice") + F.col("late")
    found, (total,) = first(sums, limit, wrong.desc(), F.desc("sent"), "destination", "producer")
    return [Compared(*row[: len(fields(Compared))]) for row in found], total


def read_dropped(frames: DataFrame) -> int:
    """Return how many frames the relays dropped, as they reported."""
    told = frames.where(F.col("event") == JournalEvent.DROPPED.value)
    (number,) = row_of(told, F.sum(F.expr("try_cast(facts['frames'] AS bigint)")))
    return number or 0


def read_waiting(store: Store, range_: Range, brokers: Iterable[str]) -> dict[str, int]:
    """Return for each of these brokers the approximate number of messages of the range that may wait there. These are
    messages for queues that were sent to the broker and not delivered, and messages that were returned to it and not
    delivered again. A SEND counts for the last broker that its session had connected to before.
    """
    lost = sorted(set(brokers))
    if not lost:
        return {}
    queued = range_.within(store.read("messages"), "seen_at").where(~to_topic())
    returned = queued.where(F.col("outcome") == RETURNED)
    counts = [returned.select(F.element_at("deliveries", -1)["broker"].alias("broker"))]
    sent = queued.where(F.col("outcome") == UNDELIVERED).select(
        *("segment", "position", "number", "producer_session"),
        (F.unix_micros("sent_at") + F.coalesce("receipt_us", F.lit(0))).alias("known"),
    )
    connected = Range(None, range_.until).within(store.read("frames"), "seen_at")
    connected = connected.where((F.col("command") == "CONNECTED") & F.col("broker").isNotNull())
    connected = connected.select("session", "broker", F.unix_micros("seen_at").alias("since"))
    on = (F.col("producer_session") == F.col("session")) & (F.col("since") <= F.col("known"))
    at = sent.join(connected, on).groupBy("segment", "position", "number")
    counts.append(at.agg(F.max_by("broker", "since").alias("broker")).select("broker"))
    rows = reduce(DataFrame.unionByName, counts).where(F.col("broker").isin(lost)).groupBy("broker").count()
    return {row["broker"]: row["count"] for row in rows.orderBy("broker").collect()}


STEPS: Final = (
    *("traffic", "messages", "stuck", "errors", "quarantine", "failovers", "runs", "moves", "flow"),
    *("destinations", "clients"),
)
"""The steps of `gather` in order."""


def gather(
    store: Store, range_: Range, limit: int, now: Micros, step: Callable[[str], None] = lambda _: None
) -> Findings:
    """Return what the report shows of this range, with at most `limit` entries in each list. If the tables are empty,
    the axis ends at `now` (microseconds since 1970). `step` is called with the name of each of `STEPS` before it
    begins.
    """
    step("traffic")
    found = extent(store, range_)
    span = empty_span(range_, now) if found is None else _span(store, range_, *found)
    within = Range(span.since, span.until)
    traffic = traffic_of(store, span, F.col("seen_at"))
    busy = top(traffic, "destination", ["messages", "octets"], max(limit, COLOURS), *passed())
    names = [row.destination for row in busy]
    course = _course(store, span, names)
    step("messages")
    told = messages_of(within.within(store.read("messages"), "seen_at"), span, names)
    destinations, clients, octets = row_of(
        traffic, F.count_distinct("destination"), F.count_distinct("client"), F.sum("octets")
    )
    step("stuck")
    stuck, total_stuck = read_stuck(store, within, limit)
    step("errors")
    troubles, total_troubles = read_troubles(within.within(store.read("frames"), "seen_at"), limit)
    step("quarantine")
    damages, total_damages, total_missing = read_damages(store, limit)
    step("failovers")
    failovers = read_failovers(store, within)
    waiting = read_waiting(store, within, (one.broker for one in failovers))
    step("runs")
    runs, total_runs, killed = read_runs(store, within, limit)
    dropped = read_dropped(within.within(store.read("frames"), "seen_at"))
    step("moves")
    compared, total_compared = read_compared(store, within, limit)
    step("flow")
    ways, total_ways = read_ways(store, span, limit)
    step("destinations")
    listed = _destinations(store, span, busy[:limit], course, told)
    step("clients")
    return Findings(
        span=span,
        relays=told.relays,
        recorded=[bool(places) for places in course.bins],
        series=course.series(names),
        latencies=told.latencies,
        outcomes=sum(told.outcomes.values(), Counter()),
        redelivered=told.redelivered,
        unsettled=told.unsettled,
        failovers=failovers,
        stuck=stuck,
        total_stuck=total_stuck,
        ways=ways,
        total_ways=total_ways,
        whole_hours=span.since % HOUR == 0 and span.until % HOUR == 0,
        destinations=listed,
        total_destinations=destinations,
        clients=[
            ClientFigures(*row)
            for row in top(traffic, "client", ["messages", "octets", "frames"], limit, *passed())
        ],
        total_clients=clients,
        errors=course.errors,
        troubles=troubles,
        total_troubles=total_troubles,
        damages=damages,
        total_damages=total_damages,
        total_missing=total_missing,
        octets=octets or 0,
        waiting=waiting,
        compared=compared,
        total_compared=total_compared,
        runs=runs,
        total_runs=total_runs,
        killed=killed,
        dropped=dropped,
    )


def empty_span(range_: Range, now: Micros) -> Span:
    """Return the axis for a range without records. Without bounds, it ends at `now` and is an hour long."""
    last = range_.until or now
    return Span.over(min(range_.since or last - HOUR, last - 1), last - 1)


def _span(store: Store, range_: Range, first: Micros, last: Micros) -> Span:
    """Return the time axis from `first` to `last`, which are full minutes if the user did not give them. If the axis is
    short, the times of the first and last frame take the place of such minutes, unless the frames were removed already.
    """
    fine = last - first < FINE
    if fine:
        frames = Range(first, last + 1).within(store.read("frames"), "seen_at")
        at = F.unix_micros("seen_at")
        begins, ends = row_of(frames, F.min(at), F.max(at))
        if begins is not None:
            first = begins if range_.since is None else first
            last = ends if range_.until is None else last
        fine = begins is not None
    return Span.over(first, last, fine=fine)


@dataclass(frozen=True)
class _Course:
    """The traffic by bin. `bins`: for each destination's number (see `coded`), messages sent and delivered."""

    bins: Sequence[Mapping[int, tuple[int, int]]]
    errors: Sequence[int]

    def series(self, names: Sequence[str]) -> list[Series]:
        """Return a series for each destination that has a colour, and a series for all other destinations."""
        made = [Series(name, *self._both({place})) for place, name in enumerate(names[:COLOURS])]
        known = {place for places in self.bins for place in places}
        return [*made, Series(Rest.OTHERS, *self._both(known - set(range(len(made)))))]

    def _both(self, wanted: set[int]) -> tuple[list[int], list[int]]:
        sent, delivered = (
            [sum(counts[way] for place, counts in places.items() if place in wanted) for places in self.bins]
            for way in (0, 1)
        )
        return sent, delivered

    def spark(self, place: int, width: int) -> list[int]:
        """Return a destination's messages over time, sent and delivered together. A point has `width` bins."""
        values = [sum(places.get(place, (0, 0))) for places in self.bins]
        return [sum(values[begin : begin + width]) for begin in range(0, len(values), width)]


def traffic_of(store: Store, span: Span, at: Column) -> DataFrame:
    """Return the rows of `traffic` in the span. If bins are shorter than a minute, the rows are made from `frames`
    instead, and `at` replaces the column `seen_at` of the frames.
    """
    within = Range(span.since, span.until)
    if span.step < MINUTE:
        return TRAFFIC_SUMS.summed(within.within(store.read("frames"), "seen_at").withColumn("seen_at", at))
    return within.within(store.read("traffic"), "minute")


def _course(store: Store, span: Span, names: Sequence[str]) -> _Course:
    # The frames of each bin get a minute of their own, so the sums by minute are sums by bin.
    apart = F.timestamp_micros(bin_of(span, F.unix_micros("seen_at")).cast("bigint") * MINUTE)
    rows, at = traffic_of(store, span, apart), F.unix_micros("minute")
    number = bin_of(span, at) if span.step >= MINUTE else F.floor(at / F.lit(MINUTE)).cast("int")
    sums = rows.groupBy(number.alias("bin"), coded("destination", names).alias("place")).agg(*passed())
    bins: list[dict[int, tuple[int, int]]] = [{} for _ in range(span.bins)]
    errors = [0] * span.bins
    for row in sums.collect():
        bins[row.bin][row.place] = (row.sent, row.delivered)
        errors[row.bin] += row.errors
    return _Course(bins, errors)


@dataclass(frozen=True)
class MessageFigures:
    """The figures from `messages`. `outcomes` and `deliveries` are by the destinations' numbers (see `coded`)."""

    outcomes: Mapping[int, Counter[str]]
    deliveries: Mapping[int, Percentiles]
    latencies: Mapping[str, Latency]
    relays: Sequence[str]
    redelivered: int
    unsettled: int


def messages_of(messages: DataFrame, span: Span, names: Sequence[str]) -> MessageFigures:
    """Return the figures of these rows of `messages`, which must all be in the span. `names`: see `coded`."""
    place = coded("destination", names).alias("place")
    unheard = (F.col("outcome") == UNDELIVERED) & to_topic()
    outcome = F.when(unheard, UNHEARD).otherwise(F.col("outcome")).alias("outcome")
    counts = messages.groupBy(place, outcome, "relay").agg(
        F.count(F.lit(1)).alias("number"),
        F.sum("redelivered").alias("redelivered"),
        F.count(F.when(~F.col("final"), 1)).alias("unsettled"),
    )
    rows = counts.collect()
    outcomes: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        outcomes[row.place][row.outcome] += row.number
    latencies, deliveries = timings(messages, span, names)
    return MessageFigures(
        outcomes,
        deliveries,
        latencies,
        sorted({row.relay for row in rows}),
        sum(row.redelivered for row in rows),
        sum(row.unsettled for row in rows),
    )


def _destinations(
    store: Store, span: Span, busy: Sequence[Row], course: _Course, told: MessageFigures
) -> list[Destination]:
    names = [row.destination for row in busy]
    begun = Range(span.since - span.since % MINUTE, span.until)
    minutes = begun.within(store.read("latency"), "minute").where("delivery_p99 IS NOT NULL")
    slowest = minutes.groupBy(coded("destination", names)).agg(
        F.max_by(F.unix_micros("minute"), "delivery_p99"), F.max("delivery_p99")
    )
    worst = dict.fromkeys(range(len(busy)), (None, None)) | {row[0]: row[1:] for row in slowest.collect()}
    return [
        Destination(
            row.destination,
            row.sent,
            row.delivered,
            row.octets,
            told.outcomes.get(place, Counter()),
            told.deliveries.get(place, NOTHING),
            worst[place][0],
            worst[place][1],
            course.spark(place, span.grouped),
        )
        for place, row in enumerate(busy)
    ]


def read_ways(store: Store, span: Span, limit: int) -> tuple[list[Way], int]:
    """Return the `limit` ways with the most messages in the hours of the span, and the number of all ways."""
    flow = store.read("flow").where(hour_from(span.since) & hour_up_to(span.until - 1))
    ends = ("producer", "destination", "consumer")
    sums = flow.groupBy(*ends).agg(F.sum("messages").alias("messages"))
    rows, (total,) = first(sums, limit, F.desc("messages"), *ends)
    return [Way(*row[:4]) for row in rows], total


# What was a day or a week before

_GONE: Final = 10
"""How many of the busiest destinations of the range before are looked for in the present range."""


def stretch(store: Store, range_: Range, period: str) -> Range:
    """Return the range to report on when it is compared with the `period` before. If no begin was requested, the range
    is the last `period`. The axis has only whole bins. If this makes the axis longer than `period`, the range begins
    later, so that it does not overlap with the range before.
    """
    found = extent(store, range_)
    if found is None:
        return range_
    last, length = found[1], PERIODS[period]
    since = last + 1 - length if range_.since is None else range_.since
    span = Span.over(since, max(since, last))
    return Range(max(since, span.until - length), range_.until)


def earlier(store: Store, findings: Findings, period: str) -> Earlier:
    """Return the figures of the range that is one `period` before the range of the findings."""
    span, shift = findings.span, PERIODS[period]
    then = Span(span.since - shift, span.until - shift, span.step)
    back = Range(then.since, then.until)
    begun = Range(then.since - span.since % MINUTE, then.until)
    at = F.unix_micros("minute")
    begin, last = row_of(begun.within(store.read("traffic"), "minute"), F.min(at), F.max(at))
    if begin is None:
        return Earlier(period, then.since, then.until)
    traffic = traffic_of(store, then, F.col("seen_at"))
    names = [one.name for one in findings.destinations]
    destinations = _sums(traffic, "destination", names)
    clients = _sums(traffic, "client", [one.name for one in findings.clients])
    whole = Span(then.since, then.until, then.until - then.since)
    told = messages_of(back.within(store.read("messages"), "seen_at"), whole, names)
    stuck, total_stuck = read_stuck(store, back, 1)
    found = Findings(
        whole,
        recorded=[True],
        latencies=told.latencies,
        outcomes=sum(told.outcomes.values(), Counter()),
        redelivered=told.redelivered,
        failovers=read_failovers(store, back),
        stuck=stuck,
        total_stuck=total_stuck,
        destinations=[
            Destination(name, row.sent, row.delivered, row.octets, {})
            for name, row in destinations.items()
            if name is not None
        ],
        clients=[ClientFigures(name, *row[1:]) for name, row in clients.items() if name is not None],
        errors=[sum(row.errors for row in destinations.values())],
        octets=sum(row.octets for row in destinations.values()),
    )
    gone = _gone(traffic, traffic_of(store, span, F.col("seen_at")), names)
    first_end = max(begin, then.since), min(last + MINUTE, then.until)
    return Earlier(period, then.since, then.until, *first_end, found, gone)


def _sums(traffic: DataFrame, column: str, names: list[str]) -> dict[str | None, Any]:
    """Return the sums of `traffic` by the names in a column. The key None has the sums of all other names."""
    place = F.greatest(coded(column, names), F.lit(-1)).alias("place")
    rows = traffic.groupBy(place).agg(*passed())
    return {names[row.place] if row.place >= 0 else None: row for row in rows.collect()}


def _gone(before: DataFrame, now: DataFrame, known: list[str]) -> list[str]:
    """Return the destinations that are among the busiest of `before` and have no messages `now`, the busiest first."""
    busy = top(before.where("messages > 0"), "destination", ["messages"], _GONE)
    asked = [row.destination for row in busy if row.destination not in known]
    if not asked:
        return []
    there = now.where((F.col("messages") > 0) & F.col("destination").isin(asked))
    found = {row.destination for row in there.select("destination").distinct().collect()}
    return [name for name in asked if name not in found]

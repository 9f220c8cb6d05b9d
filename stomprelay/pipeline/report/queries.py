"""What all of `gather` needs of Spark: the rows in a range of time, the most frequent names, percentiles.

The buckets of a percentile are those of the table `latency`: it is the largest value of the bucket that its
rank falls in, at most 2.2 % above the exact one.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.findings import (
    MEASURES,
    NOTHING,
    UNHEARD,
    Latency,
    Name,
    Percentiles,
    Rest,
    Span,
)
from stomprelay.pipeline.report.text import HOUR, MINUTE, Micros, moment
from stomprelay.pipeline.schema import TOPICS, UNDELIVERED
from stomprelay.pipeline.store.store import Store
from stomprelay.pipeline.tables.latency import WIDTH

NULL: Final = -1
OTHER: Final = -2


@dataclass(frozen=True)
class Range:
    """A range of time from `since` up to `until`, not included, in microseconds since 1970; None: no bound."""

    since: Micros | None = None
    until: Micros | None = None

    def within(self, rows: DataFrame, column: str, *, hours: bool = True) -> DataFrame:
        """Return the rows whose `column` is in the range. `hours`: the folders are those of `column`, so other hours
        need not be read.
        """
        at = F.unix_micros(F.col(column))
        if self.since is not None:
            rows = rows.where(at >= self.since)
            if hours:
                rows = rows.where(hour_from(self.since))
        if self.until is not None:
            rows = rows.where(at < self.until)
            if hours:
                rows = rows.where(hour_up_to(self.until))
        return rows


def hour_from(at: Micros) -> Column:
    """Return whether a row's `date` and `hour` are those of an instant, or later."""
    when, date = moment(at), F.col("date")
    return (date > when.date()) | ((date == when.date()) & (F.col("hour") >= when.hour))


def hour_up_to(at: Micros) -> Column:
    """Return whether they are those of an instant, or earlier."""
    when, date = moment(at), F.col("date")
    return (date < when.date()) | ((date == when.date()) & (F.col("hour") <= when.hour))


def whole_hours(span: Span) -> bool:
    """Return whether the span begins and ends at full hours, so that a table by hour fits it exactly."""
    return span.since % HOUR == 0 and span.until % HOUR == 0


def bin_of(span: Span, micros: Column) -> Column:
    """Return a column with the number of the bin that the instant `micros` is in. It must be within the span."""
    return F.floor((micros - F.lit(span.since)) / F.lit(span.step)).cast("int")


def top(rows: DataFrame, column: str, by: Sequence[str], limit: int, *further: Column) -> list[Row]:
    """Return up to `limit` rows, one for each name in a column, those with the greatest sums first: by the first column
    of `by`, then the next, then by name. They have the name in `column`, and the aggregates `further`.
    """
    weights = {f"weight{n}": F.sum(each) for n, each in enumerate(by)}
    sums = rows.where(F.col(column).isNotNull()).groupBy(column)
    summed = sums.agg(*(weight.alias(name) for name, weight in weights.items()), *further)
    return summed.orderBy(*map(F.desc_nulls_last, weights), column).drop(*weights).limit(limit).collect()


def passed() -> list[Column]:
    """Return what is summed up of rows of `traffic`: the messages `sent` and `delivered`, `octets` and `errors`."""
    way, messages = F.col("direction"), F.col("messages")
    return [
        F.coalesce(F.sum(F.when(way == "to_broker", messages)), F.lit(0)).alias("sent"),
        F.coalesce(F.sum(F.when(way == "to_client", messages)), F.lit(0)).alias("delivered"),
        F.sum("octets").alias("octets"),
        F.sum("errors").alias("errors"),
    ]


def coded(column: str, names: Sequence[str]) -> Column:
    """Return a column with the place of each name in `names`, `OTHER` for any other name, `NULL` for null."""
    code = F.lit(OTHER)
    for place, name in reversed(list(enumerate(names))):
        code = F.when(F.col(column) == F.lit(name), F.lit(place)).otherwise(code)
    return F.when(F.col(column).isNull(), F.lit(NULL)).otherwise(code)


def decoded(code: int, names: Sequence[str]) -> Name:
    """Return the name that `coded` made this code of: None for `NULL`, `Rest.OTHERS` for `OTHER`."""
    if code == NULL:
        return None
    return Rest.OTHERS if code == OTHER else names[code]


def to_topic() -> Column:
    """Return a column that says whether a message was sent to a topic."""
    destination = F.coalesce("destination", F.lit(""))
    return reduce(or_, (destination.startswith(prefix) for prefix in TOPICS))


def shown_outcome() -> Column:
    """Return a column with the outcome of a message as the report shows it: see `findings.UNHEARD`."""
    return F.when((F.col("outcome") == UNDELIVERED) & to_topic(), UNHEARD).otherwise(F.col("outcome"))


def row_of(rows: DataFrame, *wanted: Column) -> Sequence[Any]:
    """Return the values of these aggregates over all rows."""
    (row,) = rows.agg(*wanted).collect()
    return list(row)


def first(
    rows: DataFrame, limit: int, *order: Column | str, sums: Sequence[Column] = ()
) -> tuple[list[Row], list[int]]:
    """Return the first `limit` rows in this order; and how many there are in all, and these sums over all of them."""
    every = Window.partitionBy()
    wanted = [F.count(F.lit(1)), *sums]
    named = {f"over_{n}": each.over(every) for n, each in enumerate(wanted)}
    found = rows.withColumns(named).orderBy(*order).limit(limit).collect()
    return found, [found[0][name] for name in named] if found else [0] * len(wanted)


def extent(store: Store, range_: Range) -> tuple[Micros, Micros] | None:
    """Return the first and the last instant, both included: the bounds of the range, or else those of its
    rows in `traffic`. None if there are neither.
    """
    minutes = range_.within(store.read("traffic"), "minute")
    at = F.unix_micros("minute")
    first, last = row_of(minutes, F.min(at), F.max(at))
    first = first if range_.since is None else range_.since
    if range_.until is not None:
        last = range_.until - 1
    elif last is not None:
        last += MINUTE - 1
    return None if first is None or last is None else (first, max(first, last))


Buckets = dict[int, tuple[int, int]]
"""A histogram of durations: by bucket, how many there are and the longest, in microseconds."""


def add(buckets: Buckets, bucket: int, count: int, longest: int) -> None:
    """Add `count` durations to a bucket, the longest of which is `longest`."""
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
    """Return the latencies by name of the measure, and the percentiles of SEND to MESSAGE by the destination's code
    (see `coded`). The rows of `messages` must be in the span.
    """
    stack = ", ".join(f"'{name}', {name}_us" for name in MEASURES)
    measured = messages.select(
        bin_of(span, F.unix_micros("seen_at")).alias("bin"),
        coded("destination", names).alias("place"),
        F.expr(f"stack({len(MEASURES)}, {stack})").alias("measure", "us"),
    ).where("us IS NOT NULL")
    us = F.col("us").cast("double")
    number = F.when(us == 0, 0).otherwise(1 + F.floor(F.log(F.abs(us)) / F.log(F.lit(WIDTH))))
    by = ("bin", "place", "measure", "bucket")
    bucket = (F.signum(us) * number).cast("int")
    counts = measured.withColumn("bucket", bucket).groupingSets([[by[0], *by[2:]], by[1:]], *by)
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

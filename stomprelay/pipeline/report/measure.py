"""Percentiles of latencies over any bins, from `messages`.

The buckets are those of the table `latency`: a percentile is the largest value of the bucket that its rank falls in, at
most 2.2 % above the exact one.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.findings import MEASURES, NOTHING, Latency, Percentiles
from stomprelay.pipeline.report.span import Span
from stomprelay.pipeline.tables.latency import WIDTH


@dataclass
class Spread:
    """How many durations there are by bucket, and the longest of each."""

    buckets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, bucket: int, count: int, longest: int) -> None:
        """Count so many more."""
        before, least = self.buckets.get(bucket, (0, longest))
        self.buckets[bucket] = (before + count, max(least, longest))

    def percentiles(self) -> Percentiles:
        """What they come to."""
        total = sum(count for count, _ in self.buckets.values())
        if not total:
            return NOTHING
        p50, p95, p99 = (self._at(percent, total) for percent in (50, 95, 99))
        return Percentiles(total, p50, p95, p99, max(longest for _, longest in self.buckets.values()))

    def _at(self, percent: int, total: int) -> int:
        reached = 0
        for _, (count, longest) in sorted(self.buckets.items()):
            reached += count
            if reached * 100 >= total * percent:
                return longest
        raise AssertionError("unreachable")  # pragma: no cover


def bucketed(messages: DataFrame, *keys: Column) -> DataFrame:
    """Of rows of `messages` those of the buckets, by the keys: theirs, `measure`, `bucket`, `number`, `longest`."""
    stack = ", ".join(f"'{name}', {name}_us" for name in MEASURES)
    measured = messages.select(
        *keys, F.expr(f"stack({len(MEASURES)}, {stack})").alias("measure", "us")
    ).where("us IS NOT NULL")
    us = F.col("us").cast("double")
    number = F.when(us == 0, 0).otherwise(1 + F.floor(F.log(F.abs(us)) / F.log(F.lit(WIDTH))))
    bucket = (F.signum(us) * number).cast("int").alias("bucket")
    named = [name for name in measured.columns if name != "us"]
    return measured.groupBy(*named, bucket).agg(F.count("us").alias("number"), F.max("us").alias("longest"))


def latencies(span: Span, buckets: DataFrame) -> dict[str, Latency]:
    """By measure. `buckets` are by `bin`, others in them are summed up."""
    summed = buckets.groupBy("bin", "measure", "bucket").agg(
        F.sum("number").alias("number"), F.max("longest").alias("longest")
    )
    rows = [tuple(row) for row in summed.collect()]
    return {measure: _latency(span, [row for row in rows if row[1] == measure]) for measure in MEASURES}


def _latency(span: Span, rows: Iterable[tuple[int, str, int, int, int]]) -> Latency:
    whole = Spread()
    bins = [Spread() for _ in range(span.bins)]
    for bin_, _, bucket, number, longest in rows:
        whole.add(bucket, number, longest)
        bins[bin_].add(bucket, number, longest)
    return Latency([spread.percentiles() for spread in bins], whole.percentiles())


def deliveries(buckets: DataFrame) -> dict[int, Percentiles]:
    """SEND to MESSAGE by `place`, the code of the destination."""
    mine = buckets.where(F.col("measure") == "delivery").groupBy("place", "bucket")
    spreads: defaultdict[int, Spread] = defaultdict(Spread)
    for place, bucket, number, longest in mine.agg(F.sum("number"), F.max("longest")).collect():
        spreads[place].add(bucket, number, longest)
    return {place: spread.percentiles() for place, spread in spreads.items()}

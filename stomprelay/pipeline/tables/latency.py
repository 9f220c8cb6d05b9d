"""The table `latency`: percentiles by minute and destination, from `messages`.

What is kept of the durations of a minute and destination are buckets, each with its count and its largest value. They
add up in any order, so that it does not matter in which batch a message was. Bucket 0 holds the duration 0, bucket n
those from 1.022^(n-1) to below 1.022^n µs, bucket -n the same below zero (a clock was set back). A percentile is the
nearest rank's: the largest value in the bucket in which that rank falls. It is not below the exact percentile, and
exceeds it by at most 2.2 %; below 46 µs, where a bucket holds one value, it is exact.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.schema import LATENCY
from stomprelay.pipeline.tables.rollup import Rollup, by_batch, named

MEASURES: Final = ("receipt", "delivery", "ack")
PERCENTILES: Final = (50, 95, 99)
WIDTH: Final = 1.022
"""The upper bound of a bucket divided by its lower bound."""

BUCKETS: Final = (
    "minute timestamp NOT NULL, destination string, measure string NOT NULL, bucket int NOT NULL, "
    "count bigint NOT NULL, longest bigint NOT NULL"
)
"""The schema of the sums."""

_MEASURED: Final = ", ".join(f"{number}, {name}_us" for number, name in enumerate(MEASURES, 1))
_NAMED: Final = f"elt(measure, {', '.join(map(repr, MEASURES))})"
_MINUTE: Final = ("minute", "destination")
_BUCKET: Final = (*_MINUTE, "measure", "bucket")


def bucketed(messages: DataFrame) -> DataFrame:
    """Return the buckets of `messages`, with their `hour`. Until they are added up measures are numbers, for speed."""
    measured = messages.select(
        F.date_trunc("minute", F.col("seen_at")).alias("minute"),
        "destination",
        F.expr(f"stack({len(MEASURES)}, {_MEASURED})").alias("measure", "us"),
        *[name for name in messages.columns if name == "batch"],
    ).where("us IS NOT NULL")
    size = F.abs(F.col("us").cast("double"))
    number = F.when(F.col("us") == 0, 0).otherwise(1 + F.floor(F.log(size) / F.log(F.lit(WIDTH))))
    bucket = (F.signum(F.col("us").cast("double")) * number).cast("int")
    measured = measured.select(
        "*", bucket.alias("bucket"), F.lit(1).cast("bigint").alias("count"), F.col("us").alias("longest")
    )
    summed = _summed(measured, by_batch(_BUCKET, measured))
    return summed.withColumn("measure", F.expr(_NAMED))


def _summed(buckets: DataFrame, by: Sequence[str]) -> DataFrame:
    summed = buckets.groupBy(*by).agg(F.sum("count").alias("count"), F.max("longest").alias("longest"))
    return named(summed, "minute")


def folded(buckets: DataFrame) -> DataFrame:
    """Return rows of `latency`, with their `hour`, for buckets; several with the same number are added up."""
    summed = _summed(buckets, _BUCKET)
    measure = Window.partitionBy(*_MINUTE, "measure")
    upward = measure.orderBy("bucket").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    ranked = summed.withColumns(
        {"reached": F.sum("count").over(upward), "total": F.sum("count").over(measure)}
    )
    columns = []
    for name in MEASURES:
        here = F.col("measure") == name
        columns.append(F.coalesce(F.sum(F.when(here, F.col("count"))), F.lit(0)).alias(f"{name}_count"))
        for part in PERCENTILES:
            in_reach = here & (F.col("reached") * 100 >= F.col("total") * part)
            columns.append(F.min(F.when(in_reach, F.col("longest"))).alias(f"{name}_p{part}"))
        columns.append(F.max(F.when(here, F.col("longest"))).alias(f"{name}_max"))
    return named(ranked.groupBy(*_MINUTE).agg(*columns), "minute")


ROLLUP: Final = Rollup(LATENCY, BUCKETS, _BUCKET, bucketed, _summed, folded)
advance: Final = ROLLUP.advance_messages
"""Add the messages that became final in a batch, and those that are open after it; safe to do again."""

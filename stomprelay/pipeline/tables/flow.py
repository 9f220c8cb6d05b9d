"""The table `flow`: messages by producer, destination and consumer, from `messages`."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.schema import FLOW
from stomprelay.pipeline.store.store import Batch
from stomprelay.pipeline.tables.rollup import Rollup, hour_of

SUMS: Final = (
    "producer string, destination string, consumer string, messages bigint NOT NULL, deliveries bigint NOT NULL, "
    "octets bigint NOT NULL, timed bigint NOT NULL, total_us bigint NOT NULL, longest_us bigint"
)
"""What is kept of each batch; `timed`: messages whose SEND was seen, `total_us` and `longest_us` are of these."""

_KEYS: Final = ("hour", "producer", "destination", "consumer")
_APART: Final = (*_KEYS, "batch")


def carried(messages: DataFrame) -> DataFrame:
    """Of rows of `messages` the sums by producer, destination and consumer, with their `hour`. A message that a
    consumer got twice is one message and two deliveries; its time is that of the first.
    """
    # A consumer without a name goes by its session: null means that there was no consumer.
    consumers = F.transform("deliveries", lambda one: F.coalesce(one["client"], one["session"]))
    rows = messages.select(
        hour_of(F.col("at")).alias("hour"),
        "producer",
        "destination",
        "sent_at",
        *[name for name in messages.columns if name == "batch"],
        F.coalesce("size", F.lit(0)).alias("size"),
        consumers.alias("consumers"),
        F.posexplode_outer("deliveries").alias("position", "delivery"),
    )
    got = F.col("delivery").isNotNull()
    consumer = F.coalesce(F.col("delivery.client"), F.col("delivery.session"))
    first = ~got | (F.array_position("consumers", consumer) == F.col("position") + 1)
    took = F.unix_micros("delivery.at") - F.unix_micros("sent_at")
    return added(
        rows.select(
            "hour",
            "producer",
            "destination",
            consumer.alias("consumer"),
            F.coalesce(first, F.lit(True)).cast("bigint").alias("messages"),
            got.cast("bigint").alias("deliveries"),
            F.col("size").alias("octets"),
            F.when(first & took.isNotNull(), 1).otherwise(0).cast("bigint").alias("timed"),
            F.when(first, took).alias("total_us"),
            F.when(first, took).alias("longest_us"),
            *[name for name in messages.columns if name == "batch"],
        )
    )


def added(sums: DataFrame) -> DataFrame:
    """Return the sums with one row for each batch, producer, destination and consumer."""
    return _summed(sums, [name for name in _APART if name in sums.columns])


def _summed(sums: DataFrame, by: Iterable[str]) -> DataFrame:
    return sums.groupBy(*by).agg(
        *(
            F.coalesce(F.sum(name), F.lit(0)).cast("bigint").alias(name)
            for name in ("messages", "deliveries", "octets", "timed", "total_us")
        ),
        F.max("longest_us").alias("longest_us"),
    )


def folded(sums: DataFrame) -> DataFrame:
    """Of sums, several of the same three included, the rows of `flow`, with their `hour`."""
    return _summed(sums, _KEYS).select(
        *_KEYS,
        "messages",
        "deliveries",
        "octets",
        F.expr("CASE WHEN timed > 0 THEN total_us DIV timed END").alias("delivery_mean_us"),
        F.col("longest_us").alias("delivery_max_us"),
    )


ROLLUP: Final = Rollup(FLOW, SUMS, carried, added, folded)


def advance(batch: Batch) -> None:
    """Add the messages that became final in this batch, and those that are open after it. Doing a batch again
    changes nothing.
    """
    ROLLUP.advance_messages(batch)

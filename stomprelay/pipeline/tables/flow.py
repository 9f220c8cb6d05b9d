"""The table `flow`: messages by producer, destination and consumer, from `messages`."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.schema import FLOW
from stomprelay.pipeline.tables.rollup import Rollup, named

SUMS: Final = (
    "producer string, destination string, consumer string, messages bigint NOT NULL, deliveries bigint NOT NULL, "
    "octets bigint NOT NULL, timed bigint NOT NULL, total_us bigint NOT NULL, longest_us bigint"
)
"""What is kept of each batch; `timed`: messages whose SEND was seen, `total_us` and `longest_us` are of these."""

_KEYS: Final = ("hour", "producer", "destination", "consumer")


def carried(messages: DataFrame) -> DataFrame:
    """Return the sums of rows of `messages`, with their `hour`. A message got twice counts once, by its first time."""
    # Of the deliveries only what is needed is read from the files, as these are columns of their own there.
    names, sessions = F.col("deliveries.client"), F.col("deliveries.session")
    batch = [name for name in messages.columns if name == "batch"]
    rows = messages.select(
        F.floor(F.unix_seconds("seen_at") / 3600).alias("hour"),
        "producer",
        "destination",
        F.unix_micros("sent_at").alias("sent"),
        F.coalesce("size", F.lit(0)).alias("size"),
        names.alias("names"),
        sessions.alias("sessions"),
        F.when(F.size(names) > 1, F.zip_with(names, sessions, _consumer)).alias("consumers"),
        F.posexplode_outer("deliveries.seen_at").alias("position", "got_at"),
        *batch,
    )
    got = F.col("position").isNotNull()
    consumer = _consumer(F.get("names", F.col("position")), F.get("sessions", F.col("position")))
    first = (
        ~got | (F.col("position") == 0) | (F.array_position("consumers", consumer) == F.col("position") + 1)
    )
    took = F.unix_micros("got_at") - F.col("sent")
    hourly = _summed(
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
            *batch,
        ),
        [*_KEYS, *batch],
    )
    return named(hourly, F.timestamp_seconds(F.col("hour") * 3600))


def _consumer(client: Column, session: Column) -> Column:
    """A consumer without a name goes by its session: null means that there was no consumer."""
    return F.coalesce(client, session)


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


ROLLUP: Final = Rollup(FLOW, SUMS, _KEYS, carried, _summed, folded)
advance: Final = ROLLUP.advance_messages
"""Add the messages that became final in a batch, and those that are open after it; safe to do again."""

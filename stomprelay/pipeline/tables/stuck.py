"""The table `stuck`, from the deliveries that waited too long for an ACK: which consumers, from when to when.

A batch keeps the waits that ended in it, those that overlap made one. Episodes are made of all that are kept and of
the waits that go on, so that it does not matter where a batch ended. An episode is one row, in the hour in which it
began, however long it goes on; a batch makes anew the hours from the first one that it has something for.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import STUCK
from stomprelay.pipeline.store.store import Batch
from stomprelay.pipeline.tables.rollup import hour_of

KEPT: Final = (
    "relay string NOT NULL, session string NOT NULL, subscription string, broker string, since_ns bigint NOT NULL, "
    "until_ns bigint NOT NULL, age_ns bigint NOT NULL, deliveries bigint NOT NULL, going boolean NOT NULL, "
    "known bigint NOT NULL, last struct<until_ns: bigint, outcome: string, client: string, destination: string, "
    "upstream: string>"
)
"""What is kept of each batch: `last` is of the delivery that waited till the end, `known` the batch."""

_KEY: Final = ("relay", "session", "subscription", "broker")
_LAST: Final = ("until_ns", "outcome", "client", "destination", "upstream")


def kept(waits: DataFrame, batch: int) -> DataFrame:
    """Return rows of `KEPT` for rows of `WAIT`, not yet merged."""
    return waits.withColumns(
        {
            "age_ns": F.col("until_ns") - F.col("since_ns"),
            "known": F.lit(batch).cast("bigint"),
            "last": F.struct(*_LAST),
        }
    ).select(*_KEY, "since_ns", "until_ns", "age_ns", "deliveries", "going", "known", "last")


def merged(waits: DataFrame) -> DataFrame:
    """Return rows of `KEPT` in which those of a subscription and broker that overlap or touch are one."""
    ordered = Window.partitionBy(*_KEY).orderBy("since_ns", "until_ns")
    before = F.max("until_ns").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.col("before").isNull() | (F.col("since_ns") > F.col("before"))
    began = F.max(F.when(begins, F.col("since_ns"))).over(
        ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    islands = waits.withColumn("before", before).withColumn("began_ns", began).groupBy(*_KEY, "began_ns")
    return islands.agg(
        F.max("until_ns").alias("until_ns"),
        F.max("age_ns").alias("age_ns"),
        F.sum("deliveries").alias("deliveries"),
        F.max("going").alias("going"),
        F.max("known").alias("known"),
        F.max("last").alias("last"),
    ).withColumnRenamed("began_ns", "since_ns")


def stuck(episodes: DataFrame) -> DataFrame:
    """Return rows of `stuck`, with their `hour`, for what `merged` returned."""
    since, over = _time("since_ns"), ~F.col("going")
    return episodes.withColumns(
        {
            "hour": hour_of(since),
            "since": since,
            "until": F.when(over, _time("until_ns")),
            "client": F.col("last.client"),
            "destination": F.col("last.destination"),
            "upstream": F.col("last.upstream"),
            "age_us": F.expr("age_ns DIV 1000"),
            "outcome": F.when(over, F.col("last.outcome")),
        }
    ).select("hour", *STUCK.names)


def _time(name: str) -> Column:
    return F.timestamp_micros(F.expr(f"{name} DIV 1000"))


def advance(batch: Batch) -> None:
    """Add the waits that ended in this batch, and those that go on after it; safe to do again.

    A wait that goes on is in each batch until it ends, so a batch that has none changes nothing.
    """
    store, name = batch.store, STUCK.name
    if not messages.waiting(batch):
        return
    waits = messages.waits(batch)
    ended = merged(kept(waits.where("final"), batch.number))
    store.delta(name, batch.number, ended.withColumn("hour", hour_of(_time("since_ns"))))
    passing = kept(waits.where("NOT final"), batch.number)
    episodes = merged(store.deltas(name, KEPT).select(*passing.columns).unionByName(passing)).persist()
    try:
        known = episodes.groupBy(hour_of(_time("since_ns")).alias("hour")).agg(F.max("known").alias("known"))
        by_hour: dict[str, int] = {row.hour: row.known for row in known.collect()}
        first = min(hour for hour, last in by_hour.items() if last == batch.number)
        rows = stuck(episodes).where(F.col("hour") >= first)
        hours = {hour for hour in {*by_hour, *store.hours(name)} if hour >= first}
        store.replace(name, rows, hours)
    finally:
        episodes.unpersist()

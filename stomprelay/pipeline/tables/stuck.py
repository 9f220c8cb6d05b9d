"""The table `stuck`, from the deliveries that waited too long for an ACK: which consumers, from when to when.

A batch keeps the waits that ended, those that overlap made one, as long as another may overlap them: each delivery
that waits is told in each batch, so an episode changes only while it goes on or is younger than `give_up`. An episode
is one row, in the hour in which it began, however long it goes on; other rows of that hour are written again as they
are.
"""

import json
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import STUCK
from stomprelay.pipeline.store.store import Batch, batch_name
from stomprelay.pipeline.tables.rollup import hour_of

KEPT: Final = (
    "relay string NOT NULL, session string NOT NULL, subscription string, broker string, since_ns bigint NOT NULL, "
    "until_ns bigint NOT NULL, age_ns bigint NOT NULL, deliveries bigint NOT NULL, going boolean NOT NULL, "
    "known bigint NOT NULL, last struct<until_ns: bigint, outcome: string, client: string, destination: string, "
    "upstream: string>"
)
"""What is kept of each batch: `last` is of the delivery that waited till the end, `known` the batch."""

_SECOND: Final = 1_000_000_000
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
    before: list[str] = json.loads(store.noted(name, batch.number - 1) or "[]")
    if not messages.waiting(batch):
        store.save_text(name, batch.number, json.dumps(before))
        return
    waits = messages.waits(batch)
    known = store.slices(name, KEPT, [batch_name(int(each)) for each in before[:1]]).drop("slice")
    ended = merged(known.unionByName(kept(waits.where("final"), batch.number))).persist()
    passing = kept(waits.where("NOT final"), batch.number)
    episodes = merged(ended.unionByName(passing.select(*ended.columns))).persist()
    try:
        by_hour = episodes.groupBy(hour_of(_time("since_ns")).alias("hour"))
        told = by_hour.agg(F.max("known").alias("known"), F.max("until_ns").alias("newest")).collect()
        first = min(row.hour for row in told if row.known == batch.number)
        since = max(row.newest for row in told) - round(batch.settings.give_up * _SECOND)
        hours = {row.hour for row in told}
        open_ones = episodes.where(F.col("going") | (F.col("until_ns") >= since)).select(
            *_KEY, "since_ns", "until_ns"
        )
        store.save_slices(
            name,
            _within(ended, open_ones, "since_ns", "left_semi").withColumn(
                "slice", F.lit(batch_name(batch.number))
            ),
        )
        touched = {hour for hour in {*hours, *before[1:]} if hour >= first}
        others = store.read(name, touched).withColumn("since_ns", F.unix_micros("since") * 1000 + 999)
        rest = _within(others, episodes, "since_ns", "left_anti")
        rest = rest.select(hour_of(F.col("since")).alias("hour"), *STUCK.names)
        rows = stuck(episodes).where(F.col("hour").isin(sorted(touched)))
        store.replace(name, rows.unionByName(rest), touched)
        store.keep_slices(name, [batch_name(batch.number), *(batch_name(int(each)) for each in before[:1])])
        store.save_text(name, batch.number, json.dumps([str(batch.number), *sorted(hours)]))
    finally:
        episodes.unpersist()
        ended.unpersist()


def _within(rows: DataFrame, episodes: DataFrame, since: str, how: str) -> DataFrame:
    """Return the rows that began within one of these episodes of the same subscription and broker, or all others."""
    one, other = rows.alias("one"), episodes.select(*_KEY, "since_ns", "until_ns").alias("other")
    same = reduce(and_, (F.col(f"one.{key}").eqNullSafe(F.col(f"other.{key}")) for key in _KEY))
    began = F.col(f"one.{since}")
    return one.join(
        other, same & (began >= F.col("other.since_ns")) & (began <= F.col("other.until_ns")), how
    )

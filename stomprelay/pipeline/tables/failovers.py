"""The outages of brokers: the table `failovers`, from the outages of sessions."""

import json
from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import FAILOVERS
from stomprelay.pipeline.sessions.outages import DDL, SessionOutage
from stomprelay.pipeline.store.store import Batch, batch_name
from stomprelay.pipeline.tables.rollup import hour_of

SPACING: Final = 10
"""Seconds after a session's loss in which the next one counts to the same outage of the broker."""

KNOWN: Final = f"{DDL}, known bigint NOT NULL"
"""What is kept of each batch; `known`: the batch."""

_SECOND: Final = 1_000_000_000
_KEY: Final = ("session", "broker", "lost_ns")
_BROKER: Final = ("upstream", "broker", "planned")
_GROUP: Final = (*_BROKER, "began_ns")


def latest(outages: DataFrame) -> DataFrame:
    """Return, of rows with the same key, the one with the latest `known`."""
    rest = [name for name in SessionOutage._fields if name not in _KEY]
    newest = F.max_by(F.struct(*rest, "known"), "known").alias("newest")
    return (
        outages.groupBy(*_KEY).agg(newest).select(*_KEY, "newest.*").select(*SessionOutage._fields, "known")
    )


def grouped(outages: DataFrame, give_up: float) -> DataFrame:
    """Return rows of `KNOWN` with `began_ns`, the first loss of the broker's outage that they belong to.

    It goes on as long as the next session loses the broker within `SPACING` seconds of the last loss, or before all
    that lost it have found another one or gave up. For a session of which nothing more comes (its relay was
    killed) that is `give_up` seconds. What was asked for and what was not are never one outage.
    """
    lost = F.col("lost_ns")
    silent = F.when(F.col("given_up"), lost).otherwise(lost + round(give_up * _SECOND))
    until = F.greatest(lost + SPACING * _SECOND, F.coalesce("recovered_ns", silent))
    ordered = Window.partitionBy(*_BROKER).orderBy("lost_ns", "session")
    before = F.max("until").over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    begins = F.when(F.col("before").isNull() | (lost > F.col("before")), lost)
    began = F.last("begins", ignorenulls=True).over(
        ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        outages.withColumn("until", until)
        .withColumn("before", before)
        .withColumn("begins", begins)
        .withColumn("began_ns", began)
        .drop("until", "before", "begins")
    )


def failovers(groups: DataFrame) -> DataFrame:
    """Return the rows of `failovers`, with their `hour`, from the rows of `grouped`. A session that lost the broker
    several times in one outage counts once, with its last loss; each of its silences counts.
    """
    session = Window.partitionBy(*_GROUP, "session").orderBy("lost_ns")
    last = F.lead("lost_ns").over(session).isNull()
    found, gave_up = F.col("recovered_ns").isNotNull(), F.col("given_up")
    silence = F.when(found, F.greatest(F.expr("(recovered_ns - lost_ns) DIV 1000"), F.lit(0)))
    rows = groups.withColumns({"last": last, "silence": silence}).groupBy(*_GROUP)
    waiting = _count(F.col("last") & ~found & ~gave_up)
    told = rows.agg(
        F.collect_list("moved_to").alias("moves"),
        F.sort_array(F.collect_list("silence")).alias("silences"),
        F.when(waiting == 0, F.max("recovered_ns")).alias("ended_ns"),
        _count(F.col("last")).alias("sessions"),
        _count(F.col("last") & found).alias("recovered"),
        _count(F.col("last") & gave_up & ~found).alias("given_up"),
        *(F.sum(name).alias(name) for name in ("resent", "stale_acks", "duplicates")),
    )
    began = _time("began_ns")
    return told.withColumns(
        {
            "hour": hour_of(began),
            "moved_to": _by_frequency("moves"),
            "began_at": began,
            "ended_at": _time("ended_ns"),
            "silence_p50_us": F.expr("get(silences, (size(silences) - 1) DIV 2)"),
            "silence_max_us": F.array_max("silences"),
        }
    ).select("hour", *FAILOVERS.names)


def _time(name: str) -> Column:
    return F.timestamp_micros(F.expr(f"{name} DIV 1000"))


def _count(condition: Column) -> Column:
    return F.count(F.when(condition, 1))


def _by_frequency(name: str) -> Column:
    """Return the different texts of a list, the most frequent first, then in alphabetical order."""
    counts = f"transform(array_distinct({name}), b -> struct(-size(filter({name}, x -> x = b)) AS n, b AS b))"
    return F.expr(f"transform(array_sort({counts}), one -> one.b)")


def advance(batch: Batch) -> None:
    """Add the outages of this batch; safe to do again. A loss changes only its outage and later ones of that broker. So
    losses are kept of outages that are not over, or ended within `give_up`; other rows of their hours are written again
    unchanged.
    """
    store, name = batch.store, FAILOVERS.name
    before: list[str] = json.loads(store.noted(name, batch.number - 1) or "[]")
    outages = messages.outages(batch)
    if not outages:
        store.save_text(name, batch.number, json.dumps(before))
        return
    now, last = batch_name(batch.number), [batch_name(int(each)) for each in before[:1]]
    news = batch.spark.createDataFrame(outages, DDL).withColumn("known", F.lit(batch.number).cast("bigint"))
    known = store.slices(name, KNOWN, last).select(*news.columns)
    groups = grouped(latest(known.unionByName(news)), batch.settings.give_up).persist()
    try:
        going = F.col("recovered_ns").isNull() & ~F.col("given_up")
        until = F.max(F.coalesce("recovered_ns", "lost_ns")).alias("until_ns")
        spans = groups.groupBy(*_GROUP).agg(
            until,
            F.max("lost_ns").alias("last_ns"),
            F.max("known").alias("known"),
            F.max(going).alias("going"),
        )
        told = spans.select(hour_of(_time("began_ns")).alias("hour"), "until_ns", "known").collect()
        first = min(row.hour for row in told if row.known == batch.number)
        since = max(row.until_ns for row in told) - round(2 * batch.settings.give_up * _SECOND)
        hours = {row.hour for row in told}
        left = spans.where(F.col("going") | (F.col("until_ns") >= since)).select(*_GROUP)
        same = reduce(and_, (F.col(f"one.{key}").eqNullSafe(F.col(f"other.{key}")) for key in _GROUP))
        kept = groups.alias("one").join(left.alias("other"), same, "left_semi")
        store.save_slices(name, kept.select(*news.columns, F.lit(now).alias("slice")))
        touched = {hour for hour in {*hours, *before[1:]} if hour >= first}
        others = store.read(name, touched).withColumn("began_ns", F.unix_micros("began_at") * 1000 + 999)
        same = reduce(and_, (F.col(f"one.{key}").eqNullSafe(F.col(f"other.{key}")) for key in _BROKER))
        within = (F.col("one.began_ns") >= F.col("other.began_ns")) & (
            F.col("one.began_ns") <= F.col("other.last_ns") + 999
        )
        rest = others.alias("one").join(spans.alias("other"), same & within, "left_anti")
        rows = failovers(groups).where(F.col("hour").isin(sorted(touched)))
        rest = rest.select(hour_of(F.col("began_at")).alias("hour"), *FAILOVERS.names)
        store.replace(name, rows.unionByName(rest), touched)
        store.keep_slices(name, [now, *last])
        store.save_text(name, batch.number, json.dumps([str(batch.number), *sorted(hours)]))
    finally:
        groups.unpersist()

"""What went wrong, from the tables: outages, stuck consumers, errors, what could not be read."""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.extract import Range, hour
from stomprelay.pipeline.report.findings import Damage, Episode, Failover, Stuck, Trouble
from stomprelay.pipeline.report.text import Micros
from stomprelay.pipeline.store.store import Store

_NEVER: Final = 1 << 62


def failovers(store: Store, range_: Range) -> list[Failover]:
    """Those that were going on at any time of the range, in the order of time."""
    rows = store.read("failovers").withColumns(
        {"began": F.unix_micros("began_at"), "ended": F.unix_micros("ended_at")}
    )
    if range_.since is not None:
        rows = rows.where(F.col("ended").isNull() | (F.col("ended") >= range_.since))
    if range_.until is not None:
        rows = rows.where(F.col("began") < range_.until)
    return [
        Failover(
            row.upstream,
            row.broker,
            tuple(row.moved_to),
            row.began,
            row.ended,
            row.planned,
            row.sessions,
            row.recovered,
            row.given_up,
            row.silence_p50_us,
            row.silence_max_us,
            row.resent,
            row.stale_acks,
            row.duplicates,
        )
        for row in rows.drop("began_at", "ended_at").orderBy("began", "broker").collect()
    ]


def stuck(store: Store, range_: Range, limit: int) -> tuple[list[Stuck], int]:
    """The subscriptions with the longest waits of those that were stuck at any time of the range, and how many there
    are in all.
    """
    who = ("relay", "session", "subscription")
    rows = store.read("stuck").withColumns({"since": F.unix_micros("since"), "until": F.unix_micros("until")})
    if range_.since is not None:
        rows = rows.where(F.col("until").isNull() | (F.col("until") >= range_.since))
    if range_.until is not None:
        rows = rows.where((F.col("since") < range_.until) & (F.col("hour") <= hour(range_.until - 1)))
    last = F.struct(F.coalesce("until", F.lit(_NEVER)), "since", "client", "destination", "broker", "outcome")
    by_subscription = rows.groupBy(*who).agg(
        F.sort_array(F.collect_list(F.struct("since", "until", "deliveries"))).alias("episodes"),
        F.max("age_us").alias("worst"),
        F.max(last).alias("last"),
    )
    by_subscription = by_subscription.persist()
    try:
        total = by_subscription.count()
        found = by_subscription.orderBy(F.desc("worst"), *who).limit(limit).collect() if total else []
    finally:
        by_subscription.unpersist()
    return [
        Stuck(
            row.last.client,
            row.subscription,
            row.last.destination,
            row.last.broker,
            united(Episode(one.since, one.until, one.deliveries) for one in row.episodes),
            row.worst,
            row.last.outcome,
        )
        for row in found
    ], total


def united(episodes: Iterable[Episode]) -> list[Episode]:
    """Those of a subscription in order; those that overlap, as at two brokers, made one."""
    made: list[Episode] = []
    for one in sorted(episodes, key=lambda one: one.since):
        if made and _end(made[-1]) >= one.since:
            until = None if None in (made[-1].until, one.until) else max(_end(made[-1]), _end(one))
            made[-1] = Episode(made[-1].since, until, made[-1].deliveries + one.deliveries)
        else:
            made.append(one)
    return made


def _end(one: Episode) -> Micros:
    return _NEVER if one.until is None else one.until


def troubles(frames: DataFrame, limit: int) -> tuple[list[Trouble], int]:
    """What errors said, the most frequent first, and how many different ones there are."""
    by_broker = (F.col("command") == "ERROR") & (F.col("side") == "broker")
    errors = frames.where(by_broker | (F.col("event") == "error")).select(
        F.coalesce(
            "text", F.get(F.map_values(F.map_filter("headers", lambda name, _: name == "message")), 0)
        ).alias("said"),
        F.when(F.col("command").isNotNull(), "broker").otherwise("relay").alias("source"),
        "client",
        F.unix_micros("at").alias("at"),
    )
    worded = errors.groupBy(F.coalesce("said", F.lit("(no message)")).alias("said"), "source").agg(
        F.count(F.lit(1)).alias("number"),
        F.count_distinct("client").alias("clients"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
    )
    worded = worded.persist()
    try:
        total = worded.count()
        rows = worded.orderBy(F.desc("number"), "said", "source").limit(limit).collect() if total else []
    finally:
        worded.unpersist()
    return [
        Trouble(row.said, row.source, row.number, row.clients, row.first, row.last) for row in rows
    ], total


def damages(store: Store, limit: int) -> tuple[list[Damage], int]:
    """What could not be read, at any time, and how much there is of it."""
    rows = store.read("quarantine").select("segment", "offset", "length", "reason").distinct()
    total = rows.count()
    found = rows.orderBy("segment", "offset").limit(limit).collect() if total else []
    return [Damage(row.segment, row.offset, row.length, row.reason) for row in found], total

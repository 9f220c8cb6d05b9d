"""What went wrong, from the tables: outages, stuck consumers, errors, what could not be read."""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.extract import Range
from stomprelay.pipeline.report.findings import Damage, Failover, Stuck, Trouble
from stomprelay.pipeline.report.text import Micros
from stomprelay.pipeline.store import Store


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
    """The subscriptions with the longest waits, and how many there are in all. One is still stuck when it was so at
    the newest record that the pipeline has read.
    """
    who = ("relay", "session", "subscription", "destination")
    rows = range_.within(store.read("stuck"), "at")
    seen = rows.select(
        *who,
        "client",
        "broker",
        F.unix_micros("at").alias("until"),
        F.unix_micros("oldest_at").alias("since"),
        "age_us",
        "outstanding",
    )
    waits = seen.groupBy(*who, "client", "since").agg(
        F.max("until").alias("until"),
        F.max("age_us").alias("age_us"),
        F.max("outstanding").alias("outstanding"),
        F.max_by("broker", "until").alias("broker"),
    )
    by_subscription = waits.groupBy(*who, "client").agg(
        F.sort_array(F.collect_list(F.struct("since", "until"))).alias("times"),
        F.max("age_us").alias("worst"),
        F.max("outstanding").alias("outstanding"),
        F.max_by("broker", "until").alias("broker"),
        F.max("until").alias("last"),
    )
    by_subscription = by_subscription.persist()
    try:
        total = by_subscription.count()
        found = by_subscription.orderBy(F.desc("worst"), *who).limit(limit).collect() if total else []
    finally:
        by_subscription.unpersist()
    newest = _newest(store) if found else None
    return [_stuck(row, newest) for row in found], total


def _stuck(row: Any, newest: Micros | None) -> Stuck:
    return Stuck(
        row.client,
        row.subscription,
        row.destination,
        row.broker,
        united([(one.since, one.until) for one in row.times]),
        row.worst,
        row.outstanding,
        newest is None or row.last >= newest,
    )


def united(times: list[tuple[Micros, Micros]]) -> list[tuple[Micros, Micros]]:
    """Stretches of time in order, those that overlap made one."""
    made: list[tuple[Micros, Micros]] = []
    for since, until in sorted(times):
        if made and since <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], until))
        else:
            made.append((since, until))
    return made


def _newest(store: Store) -> Micros | None:
    """The time of the newest record. The hour before the last is looked at, too: relays' clocks differ."""
    hours = store.hours("frames")[-2:]
    row = store.read("frames", hours).agg(F.max(F.unix_micros("at"))).head() if hours else None
    newest: Micros | None = None if row is None else row[0]
    return newest


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

"""Reads what was a day or a week before, through Spark, for comparison."""

from collections import Counter
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.findings import Client, Destination, Earlier, Findings, Span
from stomprelay.pipeline.report.gather import messages_of, read_failovers, read_stuck, traffic_of
from stomprelay.pipeline.report.indicators import PERIODS
from stomprelay.pipeline.report.queries import Range, coded, extent, passed, row_of, top
from stomprelay.pipeline.report.text import MINUTE
from stomprelay.pipeline.store.store import Store

_GONE: Final = 10
"""Of so many of the busiest destinations of the time before it is asked whether they are gone."""


def stretch(store: Store, range_: Range, period: str) -> Range:
    """Return the range to report on: where no begin was asked for, the last `period` of it. Its bins reach beyond both
    of its ends; it begins so much later that what is `period` before does not overlap with it.
    """
    found = extent(store, range_)
    if found is None:
        return range_
    last, length = found[1], PERIODS[period]
    since = last + 1 - length if range_.since is None else range_.since
    span = Span.over(since, max(since, last))
    return Range(max(since, span.until - length), range_.until)


def earlier(store: Store, findings: Findings, period: str) -> Earlier:
    """Return what the tables have of the time that is `period` before that of the findings."""
    span, shift = findings.span, PERIODS[period]
    back = Range(span.since - shift, span.until - shift)
    begun = Range(span.since - shift - span.since % MINUTE, back.until)
    at = F.unix_micros("minute")
    first, last = row_of(begun.within(store.read("traffic"), "minute"), F.min(at), F.max(at))
    made = Earlier(period, span.since - shift, span.until - shift)
    if first is None:
        return made
    names = [one.name for one in findings.destinations]
    clients = [one.name for one in findings.clients]
    traffic = traffic_of(store, Span(made.since, made.until, span.step), F.col("seen_at"))
    by_destination, by_client = (
        _sums(traffic, *each) for each in (("destination", names), ("client", clients))
    )
    whole = Span(made.since, made.until, made.until - made.since)
    told = messages_of(back.within(store.read("messages"), "seen_at"), whole, names)
    stuck, total_stuck = read_stuck(store, back, 1)
    found = Findings(
        whole,
        recorded=[True],
        latencies=told.latencies,
        outcomes=sum(told.outcomes.values(), Counter()),
        redelivered=told.redelivered,
        failovers=read_failovers(store, back),
        stuck=stuck,
        total_stuck=total_stuck,
        destinations=[
            Destination(name, row.sent or 0, row.delivered or 0, row.octets, {})
            for name, row in by_destination.items()
            if name is not None
        ],
        clients=[
            Client(name, row.sent or 0, row.delivered or 0, row.octets, row.errors)
            for name, row in by_client.items()
            if name is not None
        ],
        errors=[sum(row.errors for row in by_destination.values())],
        octets=sum(row.octets for row in by_destination.values()),
    )
    return Earlier(
        period,
        made.since,
        made.until,
        max(first, made.since),
        min(last + MINUTE, made.until),
        found,
        _gone(traffic, traffic_of(store, span, F.col("seen_at")), names),
    )


def _sums(traffic: DataFrame, column: str, names: list[str]) -> dict[str | None, Any]:
    """Return the sums of `traffic` for these names in a column; under None those of all others together."""
    place = F.greatest(coded(column, names), F.lit(-1)).alias("place")
    rows = traffic.groupBy(place).agg(*passed())
    return {names[row.place] if row.place >= 0 else None: row for row in rows.collect()}


def _gone(before: DataFrame, now: DataFrame, known: list[str]) -> list[str]:
    """Return which of the busiest destinations of `before` have no messages `now`, the busiest first."""
    busy = top(before.where("messages > 0"), "destination", ["messages"], _GONE)
    asked = [row.destination for row in busy if row.destination not in known]
    if not asked:
        return []
    there = now.where((F.col("messages") > 0) & F.col("destination").isin(asked))
    found = {row.destination for row in there.select("destination").distinct().collect()}
    return [name for name in asked if name not in found]

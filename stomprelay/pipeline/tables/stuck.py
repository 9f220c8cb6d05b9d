"""The table `stuck`, from the deliveries that waited too long for an ACK: which consumers, from when to when.

A batch keeps the waits that ended, those that overlap made one, as long as another may overlap them: each delivery
that waits is told in each batch, so an episode changes only while it goes on or is younger than `give_up`. An episode
is one row, in the hour in which it began, however long it goes on; other rows of that hour are written again as they
are.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import STUCK
from stomprelay.pipeline.sessions.waits import Wait, group_of, merged
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.tasks import few
from stomprelay.pipeline.store.store import Batch
from stomprelay.pipeline.tables.rollup import hour_of

EPISODE: Final = (
    "relay string, session string, client string, subscription string, destination string, upstream string, "
    "broker string, since_ns bigint, until_ns bigint, age_ns bigint, deliveries bigint, outcome string, going boolean, "
    "final boolean"
)
"""The fields of a `Wait`, as Spark has them."""

_SECOND: Final = 1_000_000_000
_KEY: Final = ("relay", "session", "subscription", "broker")
_SAME: Final = frozenset(Wait._fields) - {"outcome"}


def stuck(episodes: DataFrame) -> DataFrame:
    """Return rows of `stuck`, with their `hour`, for rows of `EPISODE`."""
    over = "CASE WHEN NOT going THEN"
    return episodes.selectExpr(
        *(name for name in STUCK.names if name in _SAME),
        "timestamp_micros(since_ns DIV 1000) AS since",
        f"{over} timestamp_micros(until_ns DIV 1000) END AS until",
        "age_ns DIV 1000 AS age_us",
        f"{over} outcome END AS outcome",
    ).select(hour_of(F.col("since")).alias("hour"), *STUCK.names)


def advance(batch: Batch) -> None:
    """Add the waits that ended in this batch, and those that go on, which are in each batch; safe to do again."""
    store, name = batch.store, STUCK.name
    before: dict[str, Any] = json.loads(store.noted(name, batch.number - 1) or "{}")
    news = messages.waits(batch)
    if not news:
        store.save_text(name, batch.number, json.dumps(before))
        return
    known = (Wait(*each) for each in before.get("ended", ()))
    ended = merged([*known, *(each for each in news if each.final)])
    episodes = merged([*ended, *(each for each in news if not each.final)])
    hours = {arrow.hour(each.since_ns) for each in episodes}
    first = min(arrow.hour(each.since_ns) for each in _episodes_of(news, episodes))
    touched = {hour for hour in {*hours, *before.get("hours", ())} if hour >= first}
    _replace(batch, episodes, touched)
    since = max(each.until_ns for each in episodes) - round(batch.settings.give_up * _SECOND)
    kept = [
        one
        for one, episode in zip(ended, _episodes_of(ended, episodes), strict=True)
        if episode.going or episode.until_ns >= since
    ]
    store.save_text(name, batch.number, json.dumps({"hours": sorted(hours), "ended": kept}))


def _episodes_of(waits: Iterable[Wait], episodes: Sequence[Wait]) -> list[Wait]:
    """Return for each of these waits the episode that it is of. The episodes are as `merged` returned them."""
    begun = [(group_of(each), each.since_ns) for each in episodes]
    return [episodes[bisect_right(begun, (group_of(each), each.since_ns)) - 1] for each in waits]


def _replace(batch: Batch, episodes: Sequence[Wait], hours: set[str]) -> None:
    """Write these hours anew: the episodes, and the rows that began within none of them."""
    known = few(batch.spark.createDataFrame(episodes, EPISODE))
    one, other = few(batch.store.read(STUCK.name, hours)).alias("one"), known.alias("other")
    same = reduce(and_, (F.col(f"one.{key}").eqNullSafe(F.col(f"other.{key}")) for key in _KEY))
    within = F.expr("unix_micros(one.since) BETWEEN other.since_ns DIV 1000 AND other.until_ns DIV 1000")
    rest = one.join(other, same & within, "left_anti").select(
        hour_of(F.col("since")).alias("hour"), *STUCK.names
    )
    rows = stuck(known).where(F.col("hour").isin(sorted(hours)))
    batch.store.replace(STUCK.name, rows.unionByName(rest), hours)

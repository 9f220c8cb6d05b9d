"""The tables whose rows may still change: `failovers` and `stuck`, from the records of sessions, and `runs`.

One row is an outage of a broker, or a time in which a subscription was stuck. The row is in the hour in which the
outage or that time began, however long it goes on. A batch saves the losses and waits of sessions as text while later
losses and waits may belong to the same row. The next batch makes these rows anew. It writes the other rows of the same
hours again unchanged.

The rows of the runs that may still change are stored together. A batch that changes one of them writes all of them
anew. A run without records for a long time is forgotten by `read.runs`, and its row is stored alone.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import FAILOVERS, RUNS, STUCK, Table
from stomprelay.pipeline.sessions.outages import DDL, SessionOutage
from stomprelay.pipeline.sessions.waits import Wait, group_of, merged
from stomprelay.pipeline.settings import SECOND
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.tasks import few
from stomprelay.pipeline.store.store import Batch, batch_name
from stomprelay.pipeline.tables.rollup import hour_of

SPACING: Final = 10
"""If the next session loses a broker within this many seconds, its loss belongs to the same outage."""
_PRESENT: Final = "present"

Row = tuple[Any, ...]
"""The values of a row of one of these tables; times are in ns since 1970."""


def rows_of(spark: SparkSession, table: Table, rows: Sequence[Row]) -> DataFrame:
    """Return rows of a table as a DataFrame. `rows` have times in ns since 1970."""
    times = {column.name for column in table.columns if column.kind == "timestamp"}
    kinds = (f"{each.name} {'bigint' if each.name in times else each.kind}" for each in table.columns)
    frame = spark.createDataFrame(rows, ", ".join(kinds))
    return frame.withColumns({name: F.timestamp_micros(F.expr(f"{name} DIV 1000")) for name in times})


def _replace(
    batch: Batch,
    table: Table,
    began: str,
    keys: Sequence[str],
    rows: Sequence[tuple[Row, int]],
    hours: set[str],
) -> None:
    """Write these hours of a table anew, with the given rows that began in them. Each given row comes with its end
    (ns). A row of the table is replaced if a given row has the same `keys`, and the column `began` of the table's row
    lies between the begin and the end of the given row. All other rows of the hours are kept.
    """
    at, places = table.names.index(began), [table.names.index(key) for key in keys]
    spans = [(*(row[place] for place in places), row[at] // 1000, end // 1000) for row, end in rows]
    kinds = [f"{table.columns[place].name} {table.columns[place].kind}" for place in places]
    known = batch.spark.createDataFrame(spans, ", ".join([*kinds, "first bigint", "last bigint"]))
    one, other = few(batch.store.read(table.name, hours)).alias("one"), few(known).alias("other")
    same = reduce(and_, (F.col(f"one.{key}").eqNullSafe(F.col(f"other.{key}")) for key in keys))
    within = F.expr(f"unix_micros(one.{began}) BETWEEN other.first AND other.last")
    rest = one.join(other, same & within, "left_anti").select(*table.names)
    news = few(rows_of(batch.spark, table, [row for row, _ in rows if arrow.hour(row[at]) in hours]))
    whole = rest.unionByName(news).withColumn("hour", hour_of(F.col(began)))
    batch.store.replace(table.name, whole, hours)


# Outages of brokers


def outages_of(losses: Iterable[SessionOutage], give_up: int) -> list[list[SessionOutage]]:
    """Return the outages of brokers. Each outage is a list of the sessions' losses in it, sorted by time.

    An outage goes on if the next loss comes within `SPACING` seconds of the last loss. It also goes on if the next loss
    comes while a session is still without a broker. If no more records of such a session come (its relay was killed),
    the session counts as without a broker for `give_up` ns. A planned and an unplanned loss never belong to the same
    outage.
    """
    found: dict[tuple[str | None, str, bool], list[list[SessionOutage]]] = {}
    until: dict[tuple[str | None, str, bool], int] = {}
    for each in sorted(losses, key=lambda loss: (loss.lost_ns, loss.session)):
        broker = each.upstream, each.broker, each.planned
        outages = found.setdefault(broker, [])
        if not outages or each.lost_ns > until[broker]:
            outages.append([])
        outages[-1].append(each)
        silent = each.lost_ns + (0 if each.given_up else give_up)
        back = silent if each.recovered_ns is None else each.recovered_ns
        until[broker] = max(until.get(broker, 0), each.lost_ns + SPACING * SECOND, back)
    return [outage for outages in found.values() for outage in outages]


def failover(losses: Sequence[SessionOutage]) -> Row:
    """Return the row of `failovers` for an outage. A session that lost the broker several times in the outage counts
    once, with its last loss. Its times without a broker and its numbers of frames are those of all its losses.
    """
    first = losses[0]
    last = {each.session: each for each in losses}.values()
    found = [each for each in last if each.recovered_ns is not None]
    gave_up = [each for each in last if each.recovered_ns is None and each.given_up]
    backs = [(each.recovered_ns, each.lost_ns) for each in losses if each.recovered_ns is not None]
    silences = sorted(max((back - lost) // 1000, 0) for back, lost in backs)
    moves = Counter(each.moved_to for each in losses if each.moved_to is not None)
    over = len(found) + len(gave_up) == len(last)
    return (
        *(first.upstream, first.broker, sorted(moves, key=lambda broker: (-moves[broker], broker))),
        *(first.lost_ns, max((back for back, _ in backs), default=None) if over else None, first.planned),
        *(len(last), len(found), len(gave_up)),
        *((silences[(len(silences) - 1) // 2], silences[-1]) if silences else (None, None)),
        *(sum(each.resent for each in losses), sum(each.stale_acks for each in losses)),
        sum(each.duplicates for each in losses),
    )


def advance_failovers(batch: Batch) -> None:
    """Add the outages of this batch. Doing a batch again changes nothing. A loss of a broker changes its own outage and
    later outages of that broker. So losses are kept while their outage is open, and for twice `give_up` after its end.
    """
    store, name = batch.store, FAILOVERS.name
    text = store.noted(name, batch.number - 1) or "{}"
    news = messages.outages(batch)
    if not news:
        store.save_text(name, batch.number, text)
        return
    before = json.loads(text)
    if isinstance(before, list):
        # A batch of a release before left the number of the batch that has the losses, and the hours.
        which = [batch_name(int(each)) for each in before[:1]]
        losses = store.slices(name, DDL, which).select(*SessionOutage._fields).collect()
        before = {"hours": before[1:], "losses": [tuple(each) for each in losses]}
    known = {each.key: each for each in (*map(SessionOutage._make, before.get("losses", ())), *news)}
    give_up = round(batch.settings.give_up * SECOND)
    outages = outages_of(known.values(), give_up)
    changed = {each.key for each in news}
    first = min(arrow.hour(each[0].lost_ns) for each in outages if any(loss.key in changed for loss in each))
    hours = {arrow.hour(each[0].lost_ns) for each in outages}
    touched = {hour for hour in {*hours, *before.get("hours", ())} if hour >= first}
    rows = [(failover(each), each[-1].lost_ns) for each in outages]
    _replace(batch, FAILOVERS, "began_at", ("upstream", "broker", "planned"), rows, touched)
    since = max(loss.ended_ns for loss in known.values()) - 2 * give_up
    kept = [
        loss
        for each in outages
        if any(not loss.over or loss.ended_ns >= since for loss in each)
        for loss in each
    ]
    store.save_text(name, batch.number, json.dumps({"hours": sorted(hours), "losses": kept}))


# Subscriptions that do not answer


def stuck(wait: Wait) -> Row:
    """Return the row of `stuck` for an episode, which is given as one merged wait."""
    until, outcome = (None, None) if wait.going else (wait.until_ns, wait.outcome)
    known = wait._asdict() | {"since": wait.since_ns, "until": until, "outcome": outcome}
    return tuple((known | {"age_us": wait.age_ns // 1000})[name] for name in STUCK.names)


def advance_stuck(batch: Batch) -> None:
    """Add the waits that ended in this batch, and all waits that continue. An episode changes only while it continues
    or is younger than `give_up`. Doing a batch again changes nothing.
    """
    store, name = batch.store, STUCK.name
    text = store.noted(name, batch.number - 1) or "{}"
    news = messages.waits(batch)
    if not news:
        store.save_text(name, batch.number, text)
        return
    before: dict[str, Any] = json.loads(text)
    known = (Wait(*each) for each in before.get("ended", ()))
    ended = merged([*known, *(each for each in news if each.final)])
    episodes = merged([*ended, *(each for each in news if not each.final)])
    hours = {arrow.hour(each.since_ns) for each in episodes}
    first = min(arrow.hour(each.since_ns) for each in _episodes_of(news, episodes))
    touched = {hour for hour in {*hours, *before.get("hours", ())} if hour >= first}
    rows = [(stuck(each), each.until_ns) for each in episodes]
    _replace(batch, STUCK, "since", ("relay", "session", "subscription", "broker"), rows, touched)
    since = max(each.until_ns for each in episodes) - round(batch.settings.give_up * SECOND)
    kept = [
        one
        for one, episode in zip(ended, _episodes_of(ended, episodes), strict=True)
        if episode.going or episode.until_ns >= since
    ]
    store.save_text(name, batch.number, json.dumps({"hours": sorted(hours), "ended": kept}))


def _episodes_of(waits: Iterable[Wait], episodes: Sequence[Wait]) -> list[Wait]:
    """Return for each of `waits` the episode that it belongs to. `episodes` must be sorted as `merged` returns them."""
    begun = [(group_of(each), each.since_ns) for each in episodes]
    return [episodes[bisect_right(begun, (group_of(each), each.since_ns)) - 1] for each in waits]


# Runs of relays


def advance_runs(batch: Batch) -> None:
    """Write the rows of `runs` that this batch changed. Doing a batch again changes nothing."""
    runs, known = messages.runs_after(batch), messages.runs_before(batch)
    before, now, old = known.rows(), runs.rows(), known.rows(gone=True)
    for name, row in (before | runs.rows(gone=True)).items():
        if name not in now and row != old.get(name):
            _write(batch, _own(name), [row])
    for name in now.keys() - before.keys():
        batch.store.remove(RUNS.name, _own(name))
    if now != before:
        _write(batch, _PRESENT, [*now.values()])


def _own(run: str) -> str:
    return f"run-{run}"


def _write(batch: Batch, name: str, rows: Sequence[Row]) -> None:
    """Write `rows` of `runs` under a name, in place of its earlier rows. Without `rows`, only remove these."""
    if rows:
        batch.store.append(RUNS.name, name, rows_of(batch.spark, RUNS, rows).coalesce(1))
    else:
        batch.store.remove(RUNS.name, name)

"""Table `messages`: the frames of a batch, session by session, and then message by message.

At its end a batch saves as state only what later records can still change. The next batch begins with this state. So a
batch that is done twice gives the same rows, and the final rows do not depend on how the journal is cut into segments
and batches.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import at_once, slices
from stomprelay.pipeline.match.matching import (
    COLUMNS,
    DDL,
    NAMES,
    UNLIKE,
    Matchings,
    MatchRow,
    other,
    rows_of,
)
from stomprelay.pipeline.match.order import JournalOrders
from stomprelay.pipeline.match.slices import KEPT, ROWS, special
from stomprelay.pipeline.read import gaps
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import record, transfer
from stomprelay.pipeline.sessions.conversation import Conversations, SessionRow
from stomprelay.pipeline.sessions.outages import OpenOutages, SessionOutage
from stomprelay.pipeline.sessions.reading import frames, reading_of
from stomprelay.pipeline.sessions.waits import Wait
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow, bundles
from stomprelay.pipeline.spark.bundles import Bundling, Rows, Sorted, chained, exchanged, opened, parts
from stomprelay.pipeline.spark.tasks import few
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.files import NewFile, parted
from stomprelay.pipeline.store.store import Batch, batch_name

STATE: Final = {KEPT: DDL}
"""The names of slices that have columns of `messages`, with their schemas. A migration renames these columns, too."""
_WATCH: Final = "watch"
_OUTAGES: Final = "outages"
_GROUPS: Final = 4
"""A task holds so many row groups of final rows of an hour in memory, and sorts their rows together by time."""
_WORTH: Final = 4
"""If there are fewer open rows than so many times the rows of the batch, the batch reads all open rows. Otherwise it
first finds out in which slices it touches rows.
"""


def advance(batch: Batch) -> list[str]:
    """Match the messages of this batch and write rows and state. Return sentences about missing segments."""
    number = batch.number
    before = _noted(batch, number - 1)
    runs = runs_before(batch)
    ready = runs.arrived((Segment(*each) for each in batch.noted_frames()["segments"]), batch.unread)
    rows = sum(each.rows for each in ready)
    missing = gaps.advance(batch, runs)
    known = slices.loaded(before.get("slices", {}))
    batch.store.keep_slices(KEPT, [*known, *(special(number - 1, what) for what in slices.SPECIAL)])
    done = None if batch.again else at_once.advance(batch, runs, ready, known, rows)
    if done is None:
        count = parts(batch.spark, rows)
        told = _ordered(batch, runs, _conversed(batch, runs, ready, count), count)
        done = _written(batch, runs, known, told, rows)
    _note(batch, runs, before, known, done)
    return missing


def runs_before(batch: Batch) -> Runs:
    """Return the runs as the last batch left them."""
    return runs_after(batch, batch.number - 1)


def runs_after(batch: Batch, number: int | None = None) -> Runs:
    """Return the runs as this batch left them, or as the batch with this `number` left them."""
    number = batch.number if number is None else number
    noted, asked = _noted(batch, number), batch.settings
    seconds = (asked.patience, asked.linger, asked.give_up, asked.stuck_after)
    limits = TimeLimits(*(round(each * SECOND) for each in seconds))
    return Runs.load(noted["runs"], limits) if noted else Runs(limits)


def _written(
    batch: Batch, runs: Runs, known: Mapping[str, slices.Slice], told: DataFrame, rows: int
) -> slices.Done:
    """Match the transfers in `told` with the open rows in the slices `known`. Write the rows. Return what changed."""
    store = batch.store
    held: list[DataFrame] = []
    touched: DataFrame | None = None
    try:
        counts = {name: each.rows for name, each in known.items()}
        # A batch that was cut short may have removed rows of any slice: all slices are written anew.
        if rows * _WORTH < sum(counts.values()) and not batch.again:
            held.append(told := told.persist())
            held.append(touched := slices.hits(store, known, _keys(told), runs.until).persist())
            counts = {row["slice"]: row["count"] for row in touched.groupBy("slice").count().collect()}
        doing = slices.plan(batch_name(batch.number), known, counts, rows // 3)
        there, same = slices.parted(store, doing, touched)
        folder = store.stage(MESSAGES.name, batch.number) if rows > ROWS else None
        found = _matched(runs, told, there, parts(batch.spark, rows), folder)
        held.append(found := few(found).persist())
        hours: set[str] = set()
        if folder is not None:
            files = found.where(F.col("what") == int(MatchRow.FILE)).select("hour", "text").collect()
            store.adopt(MESSAGES.name, batch.number, [Path(each["text"]) for each in files])
            hours = {each["hour"] for each in files}
            found = found.where(F.col("what") != int(MatchRow.FILE))
        if rows > ROWS:
            doing.bounds = slices.bounds(found)
        after = slices.sliced(found, same, doing, batch.number)
        seen = Observation()
        watched = few(after).observe(seen, *_watched(doing))
        gone = {name: each.hours for name, each in doing.gone.items()}
        store.replace_open(batch.number, watched.where(F.col("final").isNotNull()), doing.made, gone)
        kept = few(after.where(F.col("slice").isNotNull()).select(*NAMES, "slice"))
        store.save_slices(KEPT, kept)
    finally:
        for each in held:
            each.unpersist()
    had = seen.get
    return _done(doing, {**had, "final": {*had["final"], *hours}})


def _watched(doing: slices.SlicePlan) -> Sequence[Column]:
    """Return the columns that Spark computes while it writes the rows: the hours of final rows, and for each new slice
    its hours, the number of its rows, and the earliest time at which a row is due.
    """
    finals = F.col("final") & F.col("slice").isNull()
    told = [
        F.collect_set(F.when(finals, F.col("hour"))).alias("final"),
        F.collect_set(F.when(F.col("slice").isNotNull(), F.struct("slice", "hour"))).alias("hours"),
    ]
    for at, name in enumerate(doing.made):
        there = F.col("slice") == name
        told.append(F.count_if(there).alias(f"rows{at}"))
        told.append(F.min(F.when(there, F.col("due"))).alias(f"due{at}"))
    return told


def _done(doing: slices.SlicePlan, had: Mapping[str, Any]) -> slices.Done:
    """Return what the batch changed. `had` has the values of the columns of `_watched`."""
    hours: dict[str, set[str]] = {}
    for row in had["hours"]:
        if row["hour"] is not None:
            hours.setdefault(row["slice"], set()).add(row["hour"])
    made = {
        name: slices.Slice(had[f"rows{at}"], had[f"due{at}"], sorted(hours.get(name, ())))
        for at, name in enumerate(doing.made)
        if had[f"rows{at}"]
    }
    return slices.Done(made, doing.gone, sorted(had["final"]))


def _note(
    batch: Batch, runs: Runs, before: Mapping[str, Any], known: Mapping[str, slices.Slice], done: slices.Done
) -> None:
    """Save what the next batch and the other tables need, as texts."""
    store, number = batch.store, batch.number
    there = {name: each for name, each in known.items() if name not in done.gone} | done.made
    outages = _outages(batch, before.get("losses", []))
    store.save_text(_OUTAGES, number, json.dumps(outages.changed))
    losses = outages.kept(runs.horizon - runs.limits.give_up)
    noted = {"runs": runs.dump(), "losses": losses, "slices": there, "final": done.final}
    noted["made"] = {name: each.hours for name, each in done.made.items()}
    noted["gone"] = {name: each.hours for name, each in done.gone.items()}
    store.save_text(_WATCH, number, json.dumps(noted))


# What Spark does: it calls one of our functions for each session, one for each order, and one for each message


def said(batch: Batch, number: int, what: int) -> DataFrame:
    """Return rows of one kind (of `SessionRow` or `MatchRow`) that a batch wrote: `key`, `number` and `text`."""
    rows = batch.store.slices(KEPT, "match string, turn int, text string", [special(number, what)])
    return rows.select(F.col("match").alias("key"), F.col("turn").alias("number"), "text")


def _records(batch: Batch, ready: Iterable[Segment], then: Rows) -> DataFrame:
    """Read the records of these segments, also of segments from earlier batches, and give them to `then`. Return the
    bundles that `then` makes.
    """
    by_batch: dict[int, list[Segment]] = {}
    for segment in ready:
        if segment.newest_ns is not None:
            by_batch.setdefault(segment.batch, []).append(segment)
    found = []
    for number, segments in sorted(by_batch.items()):
        reading = reading_of(batch, segments)
        hours = batch.frame_hours() if number == batch.number else None
        found.append(frames(batch, number, hours, segments, chained(reading, then), bundles.DDL))
    return reduce(DataFrame.unionByName, found) if found else batch.spark.createDataFrame([], bundles.DDL)


def _conversed(batch: Batch, runs: Runs, ready: Iterable[Segment], count: int) -> DataFrame:
    """Return bundles of transfers and of rows of `SessionRow`, from these segments and the sessions' state."""
    before = said(batch, batch.number - 1, SessionRow.STATE)
    state = _filled(before, record.FIELDS, session=F.col("key"), turn=F.lit(record.SAID))
    bundling = Bundling("session", count, coded=record.REPEATING)
    rows = _records(batch, ready, bundling).unionByName(state.mapInArrow(bundling, bundles.DDL))
    rows = exchanged(rows, count)
    talk = Conversations(runs.limits, runs.newest, runs.present, runs.gone, runs.ended)
    return rows.mapInArrow(Sorted(record.SORTED, chained(talk, _of_keys(count, _decided))), bundles.DDL)


def _of_keys(count: int, passes: Callable[[pa.RecordBatch], pa.Array] | None = None) -> Bundling:
    return Bundling("key", count, passes, coded=transfer.REPEATING)


def _decided(transfers: pa.RecordBatch) -> pa.Array:
    """Return a column that tells which rows `JournalOrders` leaves unchanged: rows with the key of a single message,
    and rows that are no transfers.
    """
    traced = pc.starts_with(transfers.column(transfer.KEY), transfer.BY_TRACE)
    return pc.or_(traced, pc.greater_equal(transfers.column(transfer.KIND), int(SessionRow.STATE)))


def _keys(told: DataFrame) -> DataFrame:
    """Return the keys of the transfers in these bundles, in the column `key`."""

    def found(told: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in opened(told):
            transfers = pc.less(rows.column(transfer.KIND), int(SessionRow.STATE))
            yield rows.select(["key"]).filter(transfers)

    return told.mapInArrow(found, "key string")


def _ordered(batch: Batch, runs: Runs, told: DataFrame, count: int) -> DataFrame:
    """Return the bundles with keys of single messages in place of keys of orders, and with the orders' state."""
    before = said(batch, batch.number - 1, SessionRow.ORDER)
    kept = _filled(
        before, transfer.FIELDS, ns=F.lit(0), number=F.lit(None), kind=F.lit(int(transfer.RowKind.KEPT))
    )
    rows = exchanged(told.unionByName(kept.mapInArrow(_of_keys(count), bundles.DDL)), count)
    order = chained(JournalOrders(runs.limits, runs.until), _of_keys(count))
    return rows.mapInArrow(Sorted(transfer.PHASED, order, passes_on=True), bundles.DDL)


def _matched(
    runs: Runs, told: DataFrame, kept: DataFrame, count: int, folder: Path | None = None
) -> DataFrame:
    """Return rows of `matching.DDL` for bundles and kept rows. Final rows go to files in `folder`, if it is given."""
    before = _filled(
        kept.where(F.col("text").isNotNull()).select("match", "turn", "text"),
        transfer.FIELDS,
        key=F.col("match"),
        ns=F.col("turn"),
        kind=F.lit(int(transfer.RowKind.KEPT)),
    )
    rows = exchanged(told.unionByName(before.mapInArrow(_of_keys(count), bundles.DDL)), count)
    match: Rows = Sorted(transfer.SORTED, Matchings(runs.limits, runs.until))
    return rows.mapInArrow(match if folder is None else chained(match, _Finals(folder)), DDL)


@dataclass(frozen=True)
class _Finals:
    """Call it with rows of `matching.DDL`. It writes final rows to files of their hours, and yields a row for each
    file. All other rows are yielded unchanged. Raises `OSError`.
    """

    folder: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files: dict[str, NewFile] = {}
        for batch in batches:
            final = pc.equal(batch.column("what"), int(MatchRow.FINAL))
            count = pc.sum(final).as_py() or 0
            if count < len(batch):
                yield batch.filter(pc.invert(final))
            if not count:
                continue
            for hour, rows in parted(batch if count == len(batch) else batch.filter(final), "hour"):
                if hour not in files:
                    place = self.folder / layout.place(hour)
                    files[hour] = NewFile(place, COLUMNS, UNLIKE, by="seen_at", groups=_GROUPS)
                files[hour].add(rows)
        if files:
            yield rows_of([other(MatchRow.FILE, each.close(), hour=hour) for hour, each in files.items()])


def _filled(rows: DataFrame, fields: Iterable[tuple[str, str]], **made: Column) -> DataFrame:
    """Return rows with exactly these fields: from `made`, otherwise from the column of that name, otherwise null."""
    there = {**{name: F.col(name) for name in rows.columns}, **made}
    return rows.select(*(there.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in fields))


# What other tables ask for, once this batch is done here


@dataclass(frozen=True)
class Changes:
    """What a batch changed in `messages`: the hours of rows that became final, the slices that it made, and the slices
    that it removed. `there` has all slices after the batch. Each slice has its hours.
    """

    final: list[str]
    made: dict[str, list[str]]
    gone: dict[str, list[str]]
    there: dict[str, list[str]]

    @property
    def hours(self) -> set[str]:
        """Return the hours whose rows were changed."""
        return {*self.final, *(hour for each in (*self.made.values(), *self.gone.values()) for hour in each)}


def changes(batch: Batch) -> Changes:
    """Return what this batch changed. Call it, and all functions below, after `advance`."""
    noted = _noted(batch, batch.number)
    there = {name: each.hours for name, each in slices.loaded(noted.get("slices", {})).items()}
    return Changes(noted.get("final", []), noted.get("made", {}), noted.get("gone", {}), there)


def first_held_back(batch: Batch) -> str | None:
    """Return the first hour with rows of `frames` that a later batch will read again, because their segments wait.
    Return None if no segment waits.
    """
    times = [each.first_ns for each in runs_after(batch).waiting if each.first_ns]
    return arrow.hour(min(times)) if times else None


def settled(batch: Batch) -> DataFrame:
    """Return the rows of `messages` that became final in this batch."""
    changed = changes(batch)
    return batch.store.read(MESSAGES.name, changed.final, batch.number)


def still_open(batch: Batch, slices: Mapping[str, Iterable[str]] | None = None) -> DataFrame:
    """Return the rows of `messages` that are not final after this batch. With `slices`, which has the hours of each
    slice, return only the rows of these slices.
    """
    which = changes(batch).there if slices is None else slices
    return batch.store.open_rows(MESSAGES.name, which)


def outages(batch: Batch) -> list[SessionOutage]:
    """Return the outages that are new or changed in this batch."""
    return [
        SessionOutage(*each) for each in json.loads(batch.store.saved_text(_OUTAGES, batch.number) or "[]")
    ]


def waits(batch: Batch) -> list[Wait]:
    """Return the waits that ended in this batch and the waits that continue, in any order, on the driver."""
    if not batch.store.has_slice(KEPT, special(batch.number, SessionRow.WAIT)):
        return []
    told = said(batch, batch.number, SessionRow.WAIT).collect()
    return [Wait(*json.loads(each.text)) for each in told]


def _noted(batch: Batch, number: int) -> dict[str, Any]:
    return dict(json.loads(batch.store.saved_text(_WATCH, number) or "{}"))


# Outages


def _outages(batch: Batch, before: list[list[Any]]) -> OpenOutages:
    """Return, on the driver, the outages of `before` and of this batch, with repeated deliveries counted."""
    told = said(batch, batch.number, SessionRow.OUTAGE).select("text").sort("text").collect()
    outages = OpenOutages(SessionOutage(*each) for each in before)
    outages.told(SessionOutage(*json.loads(each.text)) for each in told)
    lossy = sorted(outages.sessions)
    if lossy:
        repeats = said(batch, batch.number, MatchRow.REPEAT)
        wanted = repeats.where(F.get_json_object("text", "$[0]").isin(lossy))
        outages.repeated(json.loads(row.text) for row in wanted.sort("text").collect())
    return outages

"""Table `messages`: the frames of a batch, session by session, and then message by message.

What is under way goes on in the next batch: the batch leaves it as state, in which nothing is but what the journal has
not decided yet. So the same batch, done twice, gives the same rows; and however the journal is cut into segments and
batches, the same final rows come of it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.journal.segment import CLOSED
from stomprelay.pipeline.match import at_once, passes, slices
from stomprelay.pipeline.match.matching import DDL, NAMES, MatchRow
from stomprelay.pipeline.match.slices import ROWS
from stomprelay.pipeline.read import gaps, writing
from stomprelay.pipeline.read.gaps import segment_of
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.sessions.outages import OUTAGE, Outages
from stomprelay.pipeline.sessions.waits import Wait
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.bundles import parts
from stomprelay.pipeline.spark.tasks import few
from stomprelay.pipeline.store.store import Batch, batch_name

STATE: Final = {slices.KEPT: DDL}
"""What is kept in slices with columns of `messages`: its schema by its name, for who migrates it."""
_WATCH: Final = "watch"
_OUTAGES: Final = "outages"
_RUNS: Final = "runs"
_LOSSES: Final = "losses"
_SLICES: Final = "slices"
_MADE: Final = "made"
_GONE: Final = "gone"
_FINAL: Final = "final"
_WORTH: Final = 4
"""A batch with a row for so many rows that are open looks at all of them."""


def advance(batch: Batch) -> list[str]:
    """Match the messages of this batch and write all of it. Return a sentence for each stretch that is missing."""
    number = batch.number
    limits = _limits(batch)
    before = _noted(batch, number - 1)
    runs = runs_before(batch)
    ready = runs.arrived(segments(batch), batch.unread)
    rows = sum(each.rows for each in ready)
    missing = gaps.advance(batch, runs)
    known = slices.loaded(before.get(_SLICES, {}))
    batch.store.keep_slices(
        slices.KEPT, [*known, *(slices.special(number - 1, what) for what in slices.SPECIAL)]
    )
    done = None if batch.again else at_once.advance(batch, runs, limits, ready, known, rows)
    if done is None:
        count = parts(batch.spark, rows)
        said = passes.conversations(batch, runs, limits, ready, count)
        said = passes.ordered(batch, runs, limits, said, count)
        done = _matched(batch, runs, limits, known, said, rows)
    _note(batch, runs, before, known, done)
    return missing


def _limits(batch: Batch) -> TimeLimits:
    settings = batch.settings
    return TimeLimits.of(settings.patience, settings.linger, settings.give_up, settings.stuck_after)


def runs_before(batch: Batch) -> Runs:
    """Return the runs as the last batch left them."""
    return runs_after(batch, batch.number - 1)


def runs_after(batch: Batch, number: int | None = None) -> Runs:
    """Return the runs as this batch left them, or the one of this number."""
    number = batch.number if number is None else number
    noted = _noted(batch, number)
    return Runs.load(noted[_RUNS], _limits(batch)) if noted else Runs(_limits(batch))


def _matched(
    batch: Batch,
    runs: Runs,
    limits: TimeLimits,
    known: Mapping[str, slices.Slice],
    said: DataFrame,
    rows: int,
) -> slices.Done:
    """Match these transfers with what is open in the slices `known`, and write the rows."""
    store = batch.store
    held: list[DataFrame] = []
    touched: DataFrame | None = None
    try:
        counts = {name: each.rows for name, each in known.items()}
        # Of a batch that was cut short nobody knows which slices' rows it has removed: all are written anew.
        if rows * _WORTH < sum(counts.values()) and not batch.again:
            held.append(said := said.persist())
            held.append(touched := slices.hits(store, known, passes.keys(said), runs.until).persist())
            counts = {row["slice"]: row["count"] for row in touched.groupBy("slice").count().collect()}
        doing = slices.plan(batch_name(batch.number), known, counts, rows // 3)
        there, same = slices.parted(store, doing, touched)
        folder = store.stage(MESSAGES.name, batch.number) if rows > ROWS else None
        found = passes.matched(runs, limits, said, there, parts(batch.spark, rows), folder)
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
        store.save_slices(slices.KEPT, kept)
    finally:
        for each in held:
            each.unpersist()
    had = seen.get
    return _done(doing, {**had, _FINAL: {*had[_FINAL], *hours}})


def _watched(doing: slices.Plan) -> Sequence[Column]:
    """Return what is observed of the rows: hours of final ones; hours, rows and due of each new slice."""
    finals = F.col("final") & F.col("slice").isNull()
    told = [
        F.collect_set(F.when(finals, F.col("hour"))).alias(_FINAL),
        F.collect_set(F.when(F.col("slice").isNotNull(), F.struct("slice", "hour"))).alias("hours"),
    ]
    for at, name in enumerate(doing.made):
        there = F.col("slice") == name
        told.append(F.count_if(there).alias(f"rows{at}"))
        told.append(F.min(F.when(there, F.col("due"))).alias(f"due{at}"))
    return told


def _done(doing: slices.Plan, had: Mapping[str, Any]) -> slices.Done:
    """Return what was done, by what was seen of the rows that were written, see `_watched`."""
    hours: dict[str, set[str]] = {}
    for row in had["hours"]:
        if row["hour"] is not None:
            hours.setdefault(row["slice"], set()).add(row["hour"])
    made = {
        name: slices.Slice(
            had[f"rows{at}"], had[f"due{at}"], sorted(hours.get(name, ())), doing.is_late(name)
        )
        for at, name in enumerate(doing.made)
        if had[f"rows{at}"]
    }
    return slices.Done(made, doing.gone, sorted(had[_FINAL]))


def _note(
    batch: Batch, runs: Runs, before: Mapping[str, Any], known: Mapping[str, slices.Slice], done: slices.Done
) -> None:
    """Leave what the next batch and the other tables must know, as texts."""
    store, number = batch.store, batch.number
    there = {name: each for name, each in known.items() if name not in done.gone} | done.made
    outages = _outages(batch, before.get(_LOSSES, []))
    store.save_text(_OUTAGES, number, json.dumps(outages.changed))
    losses = outages.kept(runs.horizon - _limits(batch).give_up)
    noted = {_RUNS: runs.dump(), _LOSSES: losses, _SLICES: slices.dumped(there), _FINAL: done.final}
    noted[_MADE] = {name: each.hours for name, each in done.made.items()}
    noted[_GONE] = {name: each.hours for name, each in done.gone.items()}
    store.save_text(_WATCH, number, json.dumps(noted))


def segments(batch: Batch) -> list[Segment]:
    """Return the segments that this batch read; the times of unreadable ones are None."""
    told = batch.noted_frames()
    if told is not None and told["segments"] is not None:
        return [segment_of(batch.number, *each) for each in told["segments"]]
    parts = batch.frames().select(*writing.READ).mapInArrow(writing.summed, writing.DDL).groupBy("segment")
    most = [F.max(name) for name in ("newest", "ended", "found", "within")]
    more = [F.max("relay"), F.sum("events"), F.sum("dropped"), F.max("cut")]
    rows = parts.agg(F.min("oldest"), *most, F.sum("frames"), F.array(), *more).collect()
    found = {row[0]: segment_of(batch.number, *row) for row in rows}
    if batch.store.wrote("quarantine", batch.number):
        damaged = batch.store.read("quarantine", batch=batch.number).select("segment").distinct()
        for row in damaged.collect():
            name = row.segment.rpartition("/")[2].removesuffix(CLOSED)
            found.setdefault(name, Segment(name, batch.number, None, None, False))
    return list(found.values())


# What other tables ask for, once this batch is done here


@dataclass(frozen=True)
class Changes:
    """What a batch changed in `messages`: hours of final rows; slices made, gone and there, with their hours."""

    final: list[str]
    made: dict[str, list[str]]
    gone: dict[str, list[str]]
    there: dict[str, list[str]]

    @property
    def hours(self) -> set[str]:
        """Return the hours that have other rows than before."""
        return {*self.final, *(hour for each in (*self.made.values(), *self.gone.values()) for hour in each)}


def changes(batch: Batch) -> Changes:
    """Return what this batch changed. Call it after `advance`, as all functions below."""
    noted = _noted(batch, batch.number)
    there = {name: each.hours for name, each in slices.loaded(noted.get(_SLICES, {})).items()}
    return Changes(noted.get(_FINAL, []), noted.get(_MADE, {}), noted.get(_GONE, {}), there)


def first_held_back(batch: Batch) -> str | None:
    """Return the first hour with rows of `frames` that are read again, as they wait; None if none do."""
    times = [each.first_ns for each in runs_after(batch).waiting if each.first_ns]
    return arrow.hour(min(times)) if times else None


def settled(batch: Batch) -> DataFrame:
    """Return the rows of `messages` that became final in this batch."""
    changed = changes(batch)
    return batch.store.read(MESSAGES.name, changed.final, batch.number)


def still_open(batch: Batch, slices: Mapping[str, Iterable[str]] | None = None) -> DataFrame:
    """Return the rows of `messages` that are not final after this batch; of these slices, if given."""
    which = changes(batch).there if slices is None else slices
    return batch.store.open_rows(MESSAGES.name, which)


def outages(batch: Batch) -> list[tuple[Any, ...]]:
    """Return the rows of `OUTAGE` that are new or changed in this batch, as tuples in the table's order."""
    return [tuple(row) for row in json.loads(batch.store.saved_text(_OUTAGES, batch.number) or "[]")]


def waits(batch: Batch) -> list[Wait]:
    """Return the waits that ended in this batch and those that go on, in no order, on the driver."""
    if not batch.store.has_slice(slices.KEPT, slices.special(batch.number, SessionRow.WAIT)):
        return []
    told = passes.said(batch, batch.number, SessionRow.WAIT).select("text").collect()
    return [Wait(*json.loads(each.text)) for each in told]


def _noted(batch: Batch, number: int) -> dict[str, Any]:
    return dict(json.loads(batch.store.saved_text(_WATCH, number) or "{}"))


# What is left


def _outages(batch: Batch, before: list[list[Any]]) -> Outages:
    """Return the outages of the sessions in this batch and of `before`, on the driver."""
    told = passes.said(batch, batch.number, SessionRow.OUTAGE).select("text").sort("text").collect()
    outages = Outages(before)
    outages.told([row[name] for name in OUTAGE.names] for row in (json.loads(each.text) for each in told))
    lossy = sorted(outages.sessions)
    if lossy:
        repeats = passes.said(batch, batch.number, MatchRow.REPEAT).select("text")
        wanted = repeats.where(F.get_json_object("text", "$[0]").isin(lossy))
        outages.repeated(json.loads(row.text) for row in wanted.sort("text").collect())
    return outages

"""Table `messages`: the frames of a batch, session by session, and then message by message.

What is under way goes on in the next batch: the batch leaves it as state, in which nothing is but what the journal has
not decided yet. So the same batch, done twice, gives the same rows; and however the journal is cut into segments and
batches, the same final rows come of it.
"""

import json
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.journal.capture import TRACE
from stomprelay.journal.segment import CLOSED
from stomprelay.pipeline.match import record, transfer
from stomprelay.pipeline.match.conversation import EVENTS, Conversations, SessionRow
from stomprelay.pipeline.match.deliveries import WAIT
from stomprelay.pipeline.match.matching import DDL, Matchings, MatchRow
from stomprelay.pipeline.match.outages import OUTAGE, Outages
from stomprelay.pipeline.read import gaps
from stomprelay.pipeline.read.gaps import said_of_runs, segment_of
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.store.store import OPEN, Batch

if TYPE_CHECKING:
    from stomprelay.pipeline.settings import Settings

COPY: Final = "relay-copy"
REDELIVERED: Final = "redelivered"

_STATE: Final = "said"
_SAID: Final = "key string, number bigint, text string"
"""Columns of the state that is left for the next batch and for other tables; its folders are named by `what`,
a `MatchRow` or `SessionRow`.
"""
_TOLD: Final = ("key", "number", "text")
_WATCH: Final = "watch"
_OUTAGES: Final = "outages"
_RUNS: Final = "runs"
_LOSSES: Final = "losses"
_HOURS: Final = "hours"


def advance(batch: Batch) -> list[str]:
    """Match the messages of this batch: write its rows of `messages`, and the state that the functions below
    and the next batch read. Doing a batch again gives the same files. Return a sentence for each stretch of the
    journal that is missing.
    """
    store, number = batch.store, batch.number
    limits = _limits(batch)
    before = _noted(batch, number - 1)
    runs = runs_before(batch)
    ready = runs.arrived(segments(batch))
    missing = gaps.advance(batch, runs)
    found = matched(batch, runs, limits, conversations(batch, runs, limits, read(batch, ready))).persist()
    try:
        store.replace_open(number, found.where(F.col("final").isNotNull()))
        store.save(_STATE, number, found.where(F.col("final").isNull()).select("what", *_TOLD), "what")
    finally:
        found.unpersist()
    outages = _outages(batch, before.get(_LOSSES, []))
    store.save_text(_OUTAGES, number, json.dumps(outages.changed))
    losses = outages.kept(runs.horizon - limits.give_up)
    hours = sorted(store.hours_of(MESSAGES.name, OPEN))
    store.save_text(_WATCH, number, json.dumps({_RUNS: runs.dump(), _LOSSES: losses, _HOURS: hours}))
    return missing


def runs_before(batch: Batch) -> Runs:
    """Return the runs as the last batch left them."""
    before = _noted(batch, batch.number - 1)
    return Runs.load(before[_RUNS], _limits(batch)) if before else Runs(_limits(batch))


def _limits(batch: Batch) -> TimeLimits:
    settings = batch.settings
    return TimeLimits.of(settings.patience, settings.linger, settings.give_up, settings.stuck_after)


# What other tables ask for, once this batch is done here


def settled(batch: Batch) -> DataFrame:
    """Return the rows of `messages` that became final in this batch. Call it after `advance`, as all
    functions below.
    """
    return batch.store.read(MESSAGES.name, batch=batch.number)


def still_open(batch: Batch) -> DataFrame:
    """Return the rows of `messages` that are not final after this batch."""
    return batch.store.read(MESSAGES.name, batch=OPEN)


def touched(batch: Batch) -> set[str]:
    """Return the names of the hours of these two, and of the hours of rows that were open before this batch."""
    store, number = batch.store, batch.number
    before = _noted(batch, number - 1).get(_HOURS, [])
    return {*before, *store.hours_of(MESSAGES.name, number), *store.hours_of(MESSAGES.name, OPEN)}


def outages(batch: Batch) -> list[tuple[Any, ...]]:
    """Return the rows of `OUTAGE` that are new or changed in this batch, as tuples in the table's order."""
    return [tuple(row) for row in json.loads(batch.store.saved_text(_OUTAGES, batch.number) or "[]")]


def waits(batch: Batch) -> DataFrame:
    """Return the rows of `WAIT`: deliveries whose wait ended in this batch, and those that still wait after
    it.
    """
    rows = _said(batch, batch.number, SessionRow.WAIT)
    return rows.select(F.from_json("text", WAIT.ddl).alias("row")).select("row.*")


def _noted(batch: Batch, number: int) -> dict[str, Any]:
    return dict(json.loads(batch.store.saved_text(_WATCH, number) or "{}"))


def _said(batch: Batch, number: int, what: int) -> DataFrame:
    return batch.store.saved(_STATE, number, _SAID, f"what={int(what)}")


# What is read


def segments(batch: Batch) -> list[Segment]:
    """Return the segments that this batch read, including those of which nothing could be read (their times
    are None).
    """
    rows = batch.frames().groupBy("segment").agg(F.min("ns"), F.max("ns"), *said_of_runs()).collect()
    found = {row[0]: segment_of(batch.number, *row) for row in rows}
    damaged = batch.store.read("quarantine", batch=batch.number).select("segment").distinct()
    for row in damaged.collect() if batch.store.wrote("quarantine", batch.number) else ():
        name = row.segment.rpartition("/")[2].removesuffix(CLOSED)
        found.setdefault(name, Segment(name, batch.number, None, None, False))
    return list(found.values())


def read(batch: Batch, ready: Iterable[Segment]) -> DataFrame:
    """Return the rows of `frames` of these segments, whichever batch read them."""
    by_batch: dict[int, list[str]] = {}
    for segment in ready:
        if segment.newest_ns is not None:
            by_batch.setdefault(segment.batch, []).append(segment.name)
    parts = [
        batch.store.read("frames", batch=number).where(F.col("segment").isin(names))
        for number, names in sorted(by_batch.items())
    ]
    return reduce(DataFrame.unionByName, parts) if parts else batch.frames().limit(0)


def records(frames: DataFrame, settings: "Settings") -> DataFrame:
    """Return rows of `record.FIELDS`: the frames and events of sessions that matter to messages.
    `settings.id_headers` names the headers that hold a publisher's id.
    """
    headers = F.when(F.col("command").isin("SEND", "MESSAGE"), F.col("headers"))
    made: dict[str, Column] = {
        "turn": F.try_to_number(F.substring_index("segment", "-", -1), F.lit("999999999999")).cast("int"),
        "digest": F.when(F.col("body").isNotNull(), F.xxhash64("body")),
        "trace": headers[TRACE.decode()],
        "own": F.coalesce(*(headers[name] for name in settings.id_headers), F.lit(None).cast("string")),
        "copy": headers[COPY],
        "redelivered": headers[REDELIVERED],
        "facts": F.when(F.col("event").isNotNull(), F.to_json("facts")),
    }
    columns = [made.get(name, F.col(name)).cast(kind).alias(name) for name, kind in record.FIELDS]
    matters = F.col("command").isNotNull() | F.col("event").isin(sorted(EVENTS))
    return frames.where(F.col("session").isNotNull() & matters).select(*columns)


# What is made of it


def conversations(batch: Batch, runs: Runs, limits: TimeLimits, frames: DataFrame) -> DataFrame:
    """Return rows of `transfer.FIELDS`, made of these frames and of the sessions' state from the last batch:
    transfers, and the rows that `SessionRow` lists.
    """
    before = _said(batch, batch.number - 1, SessionRow.STATE)
    state = _filled(before, record.FIELDS, session=F.col("key"), turn=F.lit(record.SAID))
    rows = records(frames, batch.settings).unionByName(state)
    ordered = rows.repartition("session").sortWithinPartitions(*record.SORTED)
    return ordered.mapInArrow(Conversations(limits, runs.newest, runs.present, runs.gone), transfer.DDL)


def matched(batch: Batch, runs: Runs, limits: TimeLimits, said: DataFrame) -> DataFrame:
    """Return rows of `matching.DDL`, made of the rows of `conversations` and of what the last batch kept by
    key: messages, and the rows that `MatchRow` and `SessionRow` list.
    """
    before = _said(batch, batch.number - 1, MatchRow.KEPT)
    kept = _filled(
        before,
        transfer.FIELDS,
        ns=F.col("number"),
        number=F.lit(None),
        kind=F.lit(int(transfer.Kind.KEPT)),
    )
    ordered = said.unionByName(kept).repartition("key").sortWithinPartitions(*transfer.SORTED)
    return ordered.mapInArrow(Matchings(limits, runs.until), DDL)


def _filled(rows: DataFrame, fields: Iterable[tuple[str, str]], **made: Column) -> DataFrame:
    """Return the rows with exactly these fields, cast to their types: from `made` if given there, else the
    column of that name, else null.
    """
    there = {**{name: F.col(name) for name in rows.columns}, **made}
    return rows.select(*(there.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in fields))


# What is left


def _outages(batch: Batch, before: list[list[Any]]) -> Outages:
    """Return the outages of the sessions in this batch and of those that `before` still holds. They are
    collected to the driver: there are few of them.
    """
    told = _said(batch, batch.number, SessionRow.OUTAGE).select("text").sort("text").collect()
    outages = Outages(before)
    outages.told([row[name] for name in OUTAGE.names] for row in (json.loads(each.text) for each in told))
    lossy = sorted(outages.sessions)
    if lossy:
        repeats = _said(batch, batch.number, MatchRow.REPEAT).select("text")
        wanted = repeats.where(F.get_json_object("text", "$[0]").isin(lossy))
        outages.repeated(_repeat(row.text) for row in wanted.sort("text").collect())
    return outages


def _repeat(text: str) -> tuple[str, str | None, int, int]:
    session, broker, ns, again_ns = json.loads(text)
    return session, broker, ns, again_ns

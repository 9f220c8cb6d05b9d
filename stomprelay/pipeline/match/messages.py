"""Table `messages`: the frames of a batch, session by session, and then message by message.

What is under way goes on in the next batch: the batch leaves it as state, in which nothing is but what the journal has
not decided yet. So the same batch, done twice, gives the same rows; and however the journal is cut into segments and
batches, the same final rows come of it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.journal.capture import TRACE
from stomprelay.journal.segment import CLOSED
from stomprelay.pipeline.match import record, transfer
from stomprelay.pipeline.match.conversation import EVENTS, Conversations, SessionRow
from stomprelay.pipeline.match.deliveries import WAIT
from stomprelay.pipeline.match.matching import DDL, NAMES, Matchings, MatchRow
from stomprelay.pipeline.match.ordering import Orders
from stomprelay.pipeline.match.outages import OUTAGE, Outages
from stomprelay.pipeline.match.slices import Plan, Slice, Touched, dumped, loaded, plan
from stomprelay.pipeline.read import gaps
from stomprelay.pipeline.read.gaps import said_of_runs, segment_of
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.store.store import Batch, batch_name

if TYPE_CHECKING:
    from stomprelay.pipeline.settings import Settings

COPY: Final = "relay-copy"
REDELIVERED: Final = "redelivered"

_KEPT: Final = "kept"
"""The slices of what is kept: rows of `matching.DDL` with the hash of their `match`."""
_ROWS: Final = f"{DDL}, `hash` bigint"
_SAID: Final = "said"
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
    """Match the messages of this batch: write its rows of `messages`, and the state that the functions below
    and the next batch read. Doing a batch again gives the same files. Return a sentence for each stretch of the
    journal that is missing.
    """
    store, number = batch.store, batch.number
    limits = _limits(batch)
    before = _noted(batch, number - 1)
    runs = runs_before(batch)
    arrived, rows = segments(batch)
    ready = runs.arrived(arrived, batch.unread)
    missing = gaps.advance(batch, runs)
    known = loaded(before.get(_SLICES, {}))
    store.keep_slices(_KEPT, [*known, *(_special(number - 1, what) for what in _SPECIAL)])
    said = ordered(batch, runs, limits, conversations(batch, runs, limits, read(batch, ready)))
    everything = rows * _WORTH >= sum(each.rows for each in known.values())
    if not everything:
        said = said.persist()
    found: DataFrame | None = None
    try:
        spans = [each for each in ready if each.first_ns is not None]
        times = (
            min((e.first_ns or 0 for e in spans), default=0),
            max((e.newest_ns or 0 for e in spans), default=0),
        )
        keys = None if everything else _keys(said)
        hits = _hits(batch, known, keys, runs.until)
        counts = (
            Counter(hits.column("slice").to_pylist())
            if hits is not None
            else {e: s.rows for e, s in known.items()}
        )
        doing = plan(batch_name(number), known, counts, rows // 3 if keys is None else len(keys), times)
        kept = store.slices(_KEPT, _ROWS, doing.gone)
        touched, same = _parted(kept, None if hits is None else hits.column("hash"))
        found = matched(runs, limits, said, touched).persist()
        after = _sliced(found, same, doing, number)
        seen = Observation()
        finals = F.col("final") & F.col("slice").isNull()
        told = [
            F.collect_set(F.when(finals, F.col("hour"))).alias(_FINAL),
            F.collect_set(F.when(F.col("slice").isNotNull(), F.struct("slice", "hour"))).alias("hours"),
        ]
        for at, name in enumerate(doing.made):
            there = F.col("slice") == name
            told += [
                F.count_if(there).alias(f"rows{at}"),
                F.min(F.when(there, F.col("due"))).alias(f"due{at}"),
            ]
        told.append(F.count_if(F.col("what") == int(SessionRow.OUTAGE)).alias("outages"))
        watched = after.observe(seen, *told)
        store.replace_open(
            number,
            watched.where(F.col("final").isNotNull()),
            doing.made,
            {name: each.hours for name, each in doing.gone.items()},
        )
        store.save_slices(_KEPT, after.where(F.col("slice").isNotNull()).select(*NAMES, "hash", "slice"))
    finally:
        if not everything:
            said.unpersist()
        if found is not None:
            found.unpersist()
    had = seen.get
    hours: dict[str, set[str]] = {}
    for row in had["hours"]:
        if row["hour"] is not None:
            hours.setdefault(row["slice"], set()).add(row["hour"])
    slices = {name: each for name, each in known.items() if name not in doing.gone}
    made = {}
    for at, name in enumerate(doing.made):
        if had[f"rows{at}"]:
            slices[name] = Slice(had[f"rows{at}"], had[f"due{at}"], sorted(hours.get(name, ())))
            made[name] = slices[name].hours
    outages = _outages(batch, before.get(_LOSSES, []))
    store.save_text(_OUTAGES, number, json.dumps(outages.changed))
    losses = outages.kept(runs.horizon - limits.give_up)
    noted = {_RUNS: runs.dump(), _LOSSES: losses, _SLICES: dumped(slices), _MADE: made}
    noted[_GONE] = {name: each.hours for name, each in doing.gone.items()}
    noted[_FINAL] = sorted(had[_FINAL])
    store.save_text(_WATCH, number, json.dumps(noted))
    return missing


def _limits(batch: Batch) -> TimeLimits:
    settings = batch.settings
    return TimeLimits.of(settings.patience, settings.linger, settings.give_up, settings.stuck_after)


def runs_before(batch: Batch) -> Runs:
    """Return the runs as the last batch left them."""
    before = _noted(batch, batch.number - 1)
    return Runs.load(before[_RUNS], _limits(batch)) if before else Runs(_limits(batch))


# What other tables ask for, once this batch is done here


@dataclass(frozen=True)
class Changes:
    """What a batch changed in `messages`: the hours in which rows became final; slices of open rows that it made, that
    are gone, and all that are there, each with the hours of its rows.
    """

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
    there = {name: each.hours for name, each in loaded(noted.get(_SLICES, {})).items()}
    return Changes(noted.get(_FINAL, []), noted.get(_MADE, {}), noted.get(_GONE, {}), there)


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


def waits(batch: Batch) -> DataFrame:
    """Return the rows of `WAIT`: deliveries whose wait ended in this batch, and those that still wait after
    it.
    """
    rows = _said(batch, batch.number, SessionRow.WAIT)
    return rows.select(F.from_json("text", WAIT.ddl).alias("row")).select("row.*")


def waiting(batch: Batch) -> bool:
    """Return whether `waits` has any rows."""
    return batch.store.has_slice(_KEPT, _special(batch.number, SessionRow.WAIT))


def _noted(batch: Batch, number: int) -> dict[str, Any]:
    return dict(json.loads(batch.store.saved_text(_WATCH, number) or "{}"))


_SPECIAL: Final = (*SessionRow, MatchRow.REPEAT)


def _special(number: int, what: int) -> str:
    return f"{batch_name(number)}-{_SAID}{int(what)}"


def _said(batch: Batch, number: int, what: int) -> DataFrame:
    rows = batch.store.slices(_KEPT, "match string, turn int, text string", [_special(number, what)])
    return rows.select(F.col("match").alias("key"), F.col("turn").alias("number"), "text")


# Which slices a batch touches


def _keys(said: DataFrame) -> pa.Array:
    """Return the hashes of the keys of all transfers, each once."""
    hashes = said.where(F.col("kind") < int(SessionRow.STATE)).select(F.xxhash64("key").alias("hash"))
    return pc.unique(hashes.toArrow().column("hash"))


def _hits(batch: Batch, known: Mapping[str, Slice], keys: pa.Array | None, until: int) -> pa.Table | None:
    """Return the hash and slice of the rows that this batch touches; None for all rows there are."""
    if keys is None:
        return None
    index = batch.store.slices(_KEPT, "hash bigint, due bigint", known)
    return index.mapInArrow(Touched(keys, until), "hash bigint, due bigint, slice string").toArrow()


def _parted(kept: DataFrame, hashes: pa.ChunkedArray | None) -> tuple[DataFrame, DataFrame]:
    """Return the rows of these hashes (None: all), and the others."""
    if hashes is None:
        return kept, kept.limit(0)
    among = pc.unique(hashes).to_pylist()
    if not among:
        return kept.limit(0), kept
    here = F.expr(f"hash IN ({', '.join(map(str, among))})")
    return kept.where(here), kept.where(~here)


def _sliced(found: DataFrame, same: DataFrame, doing: Plan, number: int) -> DataFrame:
    """Return all rows with the `slice` that they go to, null for final ones."""
    what = F.col("what")
    at = F.unix_micros("at") * 1000 - doing.since
    turn = F.greatest(F.least(F.floor(at / doing.span), F.lit(len(doing.fresh) - 1)), F.lit(0))
    fresh = F.element_at(F.array(*map(F.lit, doing.fresh)), F.coalesce(turn.cast("int"), F.lit(0)) + 1)
    special = F.concat(F.lit(_special(number, 0)[:-1]), what.cast("string"))
    kept = what.isin(int(MatchRow.OPEN), int(MatchRow.KEPT))
    which = F.when(kept, fresh).when(what != int(MatchRow.FINAL), special)
    rows = found.withColumns({"hash": F.xxhash64("match"), "slice": which})
    if not doing.into:
        return rows
    into = F.create_map(*(F.lit(each) for pair in doing.into.items() for each in pair))
    return rows.unionByName(same.withColumn("slice", into[F.col("slice")]))


# What is read


def segments(batch: Batch) -> tuple[list[Segment], int]:
    """Return the segments that this batch read, including those of which nothing could be read (their times
    are None), and how many rows they have.
    """
    told = batch.noted_frames()
    if told is not None and told["segments"] is not None:
        known = [segment_of(batch.number, *each[:-1]) for each in told["segments"]]
        return known, sum(each[-1] for each in told["segments"])
    summed = batch.frames().groupBy("segment").agg(F.min("ns"), F.max("ns"), *said_of_runs(), F.count("ns"))
    rows = summed.collect()
    found = {row[0]: segment_of(batch.number, *row[:-1]) for row in rows}
    if batch.store.wrote("quarantine", batch.number):
        damaged = batch.store.read("quarantine", batch=batch.number).select("segment").distinct()
        for row in damaged.collect():
            name = row.segment.rpartition("/")[2].removesuffix(CLOSED)
            found.setdefault(name, Segment(name, batch.number, None, None, False))
    return list(found.values()), sum(row[-1] for row in rows)


def read(batch: Batch, ready: Iterable[Segment]) -> DataFrame:
    """Return the rows of `frames` of these segments, whichever batch read them."""
    by_batch: dict[int, list[str]] = {}
    for segment in ready:
        if segment.newest_ns is not None:
            by_batch.setdefault(segment.batch, []).append(segment.name)
    parts = [
        (batch.frames() if number == batch.number else batch.store.read("frames", batch=number)).where(
            F.col("segment").isin(names)
        )
        for number, names in sorted(by_batch.items())
    ]
    return reduce(DataFrame.unionByName, parts) if parts else batch.frames().limit(0)


def records(frames: DataFrame, settings: "Settings") -> DataFrame:
    """Return rows of `record.FIELDS`: the frames and events of sessions that matter to messages.
    `settings.id_headers` names the headers that hold a publisher's id, `keep_headers` those that are kept.
    """
    headers = F.when(F.col("command").isin("SEND", "MESSAGE"), F.col("headers"))
    made: dict[str, Column] = {
        "turn": F.try_to_number(F.substring_index("segment", "-", -1), F.lit("999999999999")).cast("int"),
        "digest": F.when(F.col("body").isNotNull(), F.xxhash64("body")),
        "trace": headers[TRACE.decode()],
        "own": F.coalesce(*(headers[name] for name in settings.id_headers), F.lit(None).cast("string")),
        "copy": headers[COPY],
        "redelivered": headers[REDELIVERED],
        "kept": record.kept(settings.keep_headers or ()),
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


def ordered(batch: Batch, runs: Runs, limits: TimeLimits, said: DataFrame) -> DataFrame:
    """Return the rows of `conversations` with the keys of single messages, where theirs was that of an order, and
    what the next batch needs of orders.
    """
    before = _said(batch, batch.number - 1, SessionRow.ORDER)
    kept = _filled(
        before, transfer.FIELDS, ns=F.lit(0), number=F.lit(None), kind=F.lit(int(transfer.Kind.KEPT))
    )
    rows = said.unionByName(kept).repartition("key")
    return rows.sortWithinPartitions("key", *map(F.expr, transfer.PHASED)).mapInArrow(
        Orders(limits, runs.until), transfer.DDL
    )


def matched(runs: Runs, limits: TimeLimits, said: DataFrame, kept: DataFrame) -> DataFrame:
    """Return rows of `matching.DDL`, made of the rows of `ordered` and of those that were kept of the same keys:
    messages, and the rows that `MatchRow` and `SessionRow` list.
    """
    before = _filled(
        kept.where(F.col("text").isNotNull()).select("match", "turn", "text"),
        transfer.FIELDS,
        key=F.col("match"),
        ns=F.col("turn"),
        kind=F.lit(int(transfer.Kind.KEPT)),
    )
    rows = said.unionByName(before).repartition("key").sortWithinPartitions(*transfer.SORTED)
    return rows.mapInArrow(Matchings(limits, runs.until), DDL)


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

"""What Spark does with the frames of a batch: one pass session by session, one order by order, one message by message.

Each pass is one of our functions on Arrow batches, on rows that are together and sorted as it wants them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match.matching import COLUMNS, DDL, UNLIKE, Matchings, MatchRow, other
from stomprelay.pipeline.match.matching import batch as batch_of
from stomprelay.pipeline.match.ordering import Orders
from stomprelay.pipeline.match.slices import KEPT, special
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.sessions import record, transfer
from stomprelay.pipeline.sessions.conversation import Conversations, SessionRow
from stomprelay.pipeline.sessions.reading import frames, reading_of
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark import bundles
from stomprelay.pipeline.spark.bundles import Bundling, Rows, Sorted, exchanged, opened
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.files import NewFile
from stomprelay.pipeline.store.store import Batch

_GROUPS: Final = 4
"""Row groups of a file of final rows that are sorted by time together, and in memory."""


def said(batch: Batch, number: int, what: int) -> DataFrame:
    """Return the rows of a kind (of `SessionRow` or `MatchRow`) that a batch left: `key`, `number`, `text`."""
    rows = batch.store.slices(KEPT, "match string, turn int, text string", [special(number, what)])
    return rows.select(F.col("match").alias("key"), F.col("turn").alias("number"), "text")


def records(batch: Batch, ready: Iterable[Segment], then: Rows) -> DataFrame:
    """Return bundles that `then` makes of `record.FIELDS` of these segments, whichever batch read them."""
    by_batch: dict[int, list[Segment]] = {}
    for segment in ready:
        if segment.newest_ns is not None:
            by_batch.setdefault(segment.batch, []).append(segment)
    parts = []
    for number, segments in sorted(by_batch.items()):
        reading = reading_of(batch, segments)
        hours = batch.frame_hours() if number == batch.number else None
        parts.append(frames(batch, number, hours, segments, _then(reading, then), bundles.DDL))
    return reduce(DataFrame.unionByName, parts) if parts else batch.spark.createDataFrame([], bundles.DDL)


def conversations(
    batch: Batch, runs: Runs, limits: TimeLimits, ready: Iterable[Segment], parts: int
) -> DataFrame:
    """Return bundles of `transfer.FIELDS`, and rows of `SessionRow`, from frames and the sessions' state."""
    before = said(batch, batch.number - 1, SessionRow.STATE)
    state = _filled(before, record.FIELDS, session=F.col("key"), turn=F.lit(record.SAID))
    bundling = Bundling("session", parts, coded=record.REPEATING)
    rows = records(batch, ready, bundling).unionByName(state.mapInArrow(bundling, bundles.DDL))
    rows = exchanged(rows, parts)
    talk = Conversations(limits, runs.newest, runs.present, runs.gone, runs.ended)
    return rows.mapInArrow(Sorted(record.SORTED, _then(talk, _of_keys(parts, _decided))), bundles.DDL)


def _of_keys(parts: int, passes: Callable[[pa.RecordBatch], pa.Array] | None = None) -> Bundling:
    return Bundling("key", parts, passes, coded=transfer.REPEATING)


def _decided(transfers: pa.RecordBatch) -> pa.Array:
    """Return which of these rows are not for `Orders`: their keys are of single messages, or they are no transfers."""
    traced = pc.starts_with(transfers.column(transfer.KEY), transfer.BY_TRACE)
    return pc.or_(traced, pc.greater_equal(transfers.column(transfer.KIND), int(SessionRow.STATE)))


def _then(first: Rows, then: Rows) -> Rows:
    return lambda batches: then(first(batches))


def keys(told: DataFrame) -> DataFrame:
    """Return the keys of the transfers in bundles of `conversations` or `ordered`, in the column `key`."""

    def found(bundles: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in opened(bundles):
            transfers = pc.less(rows.column(transfer.KIND), int(SessionRow.STATE))
            yield rows.select(["key"]).filter(transfers)

    return told.mapInArrow(found, "key string")


def ordered(batch: Batch, runs: Runs, limits: TimeLimits, told: DataFrame, parts: int) -> DataFrame:
    """Return the bundles with the keys of single messages in place of orders', and the orders' state."""
    before = said(batch, batch.number - 1, SessionRow.ORDER)
    kept = _filled(
        before, transfer.FIELDS, ns=F.lit(0), number=F.lit(None), kind=F.lit(int(transfer.Kind.KEPT))
    )
    rows = exchanged(told.unionByName(kept.mapInArrow(_of_keys(parts), bundles.DDL)), parts)
    order = _then(Orders(limits, runs.until), _of_keys(parts))
    return rows.mapInArrow(Sorted(transfer.PHASED, order, passes_on=True), bundles.DDL)


def matched(
    runs: Runs,
    limits: TimeLimits,
    told: DataFrame,
    kept: DataFrame,
    parts: int,
    folder: Path | None = None,
) -> DataFrame:
    """Return rows of `matching.DDL` of these bundles and kept rows; `folder`: write final ones to files there."""
    before = _filled(
        kept.where(F.col("text").isNotNull()).select("match", "turn", "text"),
        transfer.FIELDS,
        key=F.col("match"),
        ns=F.col("turn"),
        kind=F.lit(int(transfer.Kind.KEPT)),
    )
    rows = exchanged(told.unionByName(before.mapInArrow(_of_keys(parts), bundles.DDL)), parts)
    match: Rows = Sorted(transfer.SORTED, Matchings(limits, runs.until))
    return rows.mapInArrow(match if folder is None else _then(match, Finals(folder)), DDL)


@dataclass(frozen=True)
class Finals:
    """Call it with `matching.DDL`: it writes final rows to files by hour and yields a row each. Raises `OSError`."""

    folder: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` wants it."""
        files: dict[str, NewFile] = {}
        for batch in batches:
            final = pc.equal(batch.column("what"), int(MatchRow.FINAL))
            count = pc.sum(final).as_py() or 0
            if count < len(batch):
                yield batch.filter(pc.invert(final))
            if not count:
                continue
            rows = batch if count == len(batch) else batch.filter(final)
            names = rows.column("hour")
            for hour in names.unique().to_pylist():
                same = pc.equal(names, hour)
                of_hour = rows if pc.all(same).as_py() else rows.filter(same)
                if hour not in files:
                    place = self.folder / layout.place(hour)
                    files[hour] = NewFile(place, COLUMNS, UNLIKE, by="seen_at", groups=_GROUPS)
                files[hour].add(of_hour)
        if files:
            yield batch_of([other(MatchRow.FILE, each.close(), hour=hour) for hour, each in files.items()])


def _filled(rows: DataFrame, fields: Iterable[tuple[str, str]], **made: Column) -> DataFrame:
    """Return rows with exactly these fields: from `made`, else the column of that name, else null."""
    there = {**{name: F.col(name) for name in rows.columns}, **made}
    return rows.select(*(there.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in fields))

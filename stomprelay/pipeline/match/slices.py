"""Open rows are kept in slices. A slice is written once. A batch reads and replaces only the slices that it touches.

A slice has open rows of `messages` with the state of each message. A batch touches a row if the batch has transfers
with the key of the row, or if the time of the row is over. The untouched rows of the same slices are copied to new
slices. Small slices are joined.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match.matching import DDL, MatchRow
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.spark.tasks import together
from stomprelay.pipeline.store.store import Store, batch_name

KEPT: Final = "kept"
"""The store's name for these slices. They have rows of `matching.DDL`. Rows that are no messages are in separate
slices, see `special`.
"""
SPECIAL: Final = (*SessionRow, MatchRow.REPEAT)
"""The kinds of rows that are no messages."""
_INDEX: Final = "match string, due bigint"
ROWS: Final = 20_000
"""A new slice has at most about so many rows."""
JOINED: Final = 5_000
"""Untouched rows of several slices are joined to a new slice of at most so many rows. The slice is not larger, because
a batch that touches one of the rows must copy all others.
"""
SMALL: Final = 1_000
MANY: Final = 16
"""If more than so many slices have fewer than `SMALL` rows, these slices are joined."""
_PARTS: Final = 256


class Slice(NamedTuple):
    """The number of its rows, the time (ns) up to which no row changes without a new record, and its rows' hours."""

    rows: int
    due: int
    hours: list[str]


@dataclass
class SlicePlan:
    """What a batch does with slices. `gone` are the slices that the batch reads and replaces. `into` has for each of
    these slices the name of the new slice for its untouched rows. `first` is the number of the first slice for new
    rows. `bounds` are the times (µs) that divide the new rows among the slices `fresh`.
    """

    name: str
    gone: dict[str, Slice] = field(default_factory=dict)
    into: dict[str, str] = field(default_factory=dict)
    first: int = 0
    bounds: list[int] = field(default_factory=list)

    def named(self, number: int) -> str:
        """Return the name of the new slice with this number."""
        return f"{self.name}-{number:04d}"

    @property
    def fresh(self) -> list[str]:
        """Return the slices for the rows that the batch makes."""
        return [self.named(self.first + number) for number in range(len(self.bounds) + 1)]

    @property
    def made(self) -> list[str]:
        """Return the slices that this batch writes."""
        return sorted({*self.into.values(), *self.fresh})


@dataclass(frozen=True)
class Done:
    """The result of a batch: the slices that it made, the slices that it removed, and the hours of new final rows."""

    made: dict[str, Slice]
    gone: dict[str, Slice]
    final: list[str]


def plan(name: str, known: Mapping[str, Slice], touched: Mapping[str, int], fresh: int) -> SlicePlan:
    """Return what to do with slices in a batch. `touched` has the number of touched rows by slice. The batch makes
    about `fresh` rows. The names of new slices begin with `name`. Untouched rows that are due at about the same time
    get a slice together.
    """
    small = [each for each, one in known.items() if one.rows < SMALL and each not in touched]
    joined = small if len(small) > MANY else []
    gone = sorted({*touched, *joined}, key=lambda each: (known[each].due, each))
    found = SlicePlan(name, {each: known[each] for each in gone})
    made = held = 0
    for each, old in found.gone.items():
        left = max(old.rows - touched.get(each, 0), 0)
        if held and held + left > JOINED:
            made, held = made + 1, 0
        found.into[each] = found.named(made)
        held += left
    found.first = made + 1 if held and held + fresh > SMALL else made
    return found


@dataclass(frozen=True)
class Touched:
    """Call it with rows (match, due, slice), sorted by `match`. The rows without a slice have the keys of the batch.
    Each row with a slice is yielded if it has one of these keys or is due before `until`.
    """

    until: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` requires."""
        kept: list[pa.RecordBatch] = []
        news: list[pa.Array] = []
        for batch in batches:
            fresh = batch.column(2).null_count
            if fresh:
                news.append(batch.column(0).filter(batch.column(2).is_null()))
            if fresh < len(batch):
                kept.append(batch.filter(batch.column(2).is_valid()) if fresh else batch)
        keys = pa.chunked_array(news, pa.string()).unique()
        for batch in kept:
            yield batch.filter(touched(batch.column(0), batch.column(1), keys, self.until))


def touched(match: Any, due: Any, keys: pa.Array, until: int) -> Any:
    """Return a column that tells which rows a batch touches: rows with one of `keys`, and rows due before `until`."""
    return pc.or_kleene(pc.is_in(match, value_set=keys), pc.less(due, until))


def special(number: int, what: int) -> str:
    """Return the name of the slice for a batch's rows of the kind `what`, which are no messages."""
    return f"{batch_name(number)}-said{int(what)}"


def hits(store: Store, known: Mapping[str, Slice], keys: DataFrame, until: int) -> DataFrame:
    """Return key and slice of the kept rows that have one of the `keys`, or are due before `until` (ns)."""
    index = store.slices(KEPT, _INDEX, known).select("match", "due", "slice")
    news = keys.select(F.col("key").alias("match"), F.lit(0).cast("bigint"), F.lit(None).cast("string"))
    rows = together(news.union(index), "match")
    return rows.mapInArrow(Touched(until), f"{_INDEX}, slice string")


def parted(store: Store, doing: SlicePlan, touched: DataFrame | None) -> tuple[DataFrame, DataFrame]:
    """Return the rows of the slices that the batch replaces, in two DataFrames. The first has the rows with keys in
    `touched`, or all rows if `touched` is None. The second has all other rows.
    """
    rows = store.slices(KEPT, DDL, doing.gone)
    if touched is None or not doing.gone:
        return rows, rows.limit(0)
    rows, found = together(rows, "match"), together(touched.select("match").distinct(), "match")
    found = found.hint("shuffle_hash")
    return rows.join(found, "match", "left_semi"), rows.join(found, "match", "left_anti")


def bounds(found: DataFrame) -> list[int]:
    """Return the times (µs) that divide the new open rows into slices of about `ROWS` rows."""
    parts = [number / _PARTS for number in range(1, _PARTS)]
    at = F.unix_micros("seen_at")
    told = found.where(_kept()).agg(F.count(at), F.percentile_approx(at, parts, 10_000)).head()
    if told is None or not told[0]:
        return []
    many = min(-(-told[0] // ROWS), _PARTS)
    return sorted({told[1][number * _PARTS // many - 1] for number in range(1, many)})


def sliced(found: DataFrame, same: DataFrame, doing: SlicePlan, number: int) -> DataFrame:
    """Return the new rows `found` and the untouched rows `same` of replaced slices. The column `slice` has the new
    slice of each row, or null for a final row.
    """
    what, at = F.col("what"), F.unix_micros("seen_at")
    first, *further = doing.fresh
    fresh = F.lit(first)
    for bound, name in zip(doing.bounds, further, strict=True):
        fresh = F.when(at >= bound, name).otherwise(fresh)
    other = F.concat(F.lit(special(number, 0)[:-1]), what.cast("string"))
    which = F.when(_kept(), fresh).when(what != int(MatchRow.FINAL), other)
    rows = found.withColumn("slice", which)
    if not doing.into:
        return rows
    into = F.create_map(*(F.lit(each) for pair in doing.into.items() for each in pair))
    return rows.unionByName(same.withColumn("slice", into[F.col("slice")]))


def _kept() -> Column:
    return F.col("what").isin(int(MatchRow.OPEN), int(MatchRow.KEPT))


def loaded(values: Mapping[str, Any]) -> dict[str, Slice]:
    """Return slices from JSON, in which each slice is a list. A fourth value of earlier releases is ignored."""
    return {name: Slice(*each[:3]) for name, each in values.items()}

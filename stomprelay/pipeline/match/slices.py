"""Open rows in slices: parts that are written once. A batch reads and writes anew only the slices that it touches.

A slice has the open rows of `messages` with the state of each message. A batch touches the rows of the keys that it
has transfers of, and rows whose time is over. The other rows of the same slices are copied to new slices; small slices
are joined.
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
"""The store's name for these slices. They have rows of `matching.DDL`; rows that are no messages are in slices of
their own, see `special`.
"""
SPECIAL: Final = (*SessionRow, MatchRow.REPEAT)
"""The kinds of rows that are no messages."""
_INDEX: Final = "match string, due bigint"
ROWS: Final = 20_000
"""About so many rows are in a new slice at most."""
JOINED: Final = 5_000
"""Rows left of several slices are joined up to so many: one that is touched makes all of them be copied."""
SMALL: Final = 1_000
MANY: Final = 16
"""If more slices than this have fewer than `SMALL` rows, they are joined."""
_PARTS: Final = 256


class Slice(NamedTuple):
    """A slice: its number of rows, the time (ns) up to which none of them changes by itself, and the hours of its
    rows.
    """

    rows: int
    due: int
    hours: list[str]


@dataclass
class SlicePlan:
    """What a batch does with slices. `gone` are the slices that it reads and replaces. `into` names for each of them
    the new slice for its untouched rows. `first` is the number of the first slice for new rows; `bounds` are the times
    (µs) at which new rows are cut into the slices `fresh`.
    """

    name: str
    gone: dict[str, Slice] = field(default_factory=dict)
    into: dict[str, str] = field(default_factory=dict)
    first: int = 0
    bounds: list[int] = field(default_factory=list)

    def named(self, number: int) -> str:
        """Return the name of one of the slices that this batch writes."""
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
    """The result of a batch: the slices that it made, those that are gone, and the hours of rows that became final."""

    made: dict[str, Slice]
    gone: dict[str, Slice]
    final: list[str]


def plan(name: str, known: Mapping[str, Slice], touched: Mapping[str, int], fresh: int) -> SlicePlan:
    """Return what to do with slices in a batch. `touched` has the number of touched rows by slice; about `fresh` rows
    are made. The names of new slices begin with `name`. Rows that are due at about the same time are joined.
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
    """Call it with rows (match, due, slice), sorted by `match`. Rows without a slice are keys of the batch. It yields
    the other rows if they have one of these keys, or are due before `until`.
    """

    until: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` wants it."""
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
    """Return a column: whether a batch touches the row, by its key (one of `keys`) or its time (before `until`)."""
    return pc.or_kleene(pc.is_in(match, value_set=keys), pc.less(due, until))


def special(number: int, what: int) -> str:
    """Return the name of the slice that has a batch's rows of this kind, which are no messages."""
    return f"{batch_name(number)}-said{int(what)}"


def hits(store: Store, known: Mapping[str, Slice], keys: DataFrame, until: int) -> DataFrame:
    """Return key and slice of the kept rows that have one of the `keys`, or are due before `until` (ns)."""
    index = store.slices(KEPT, _INDEX, known).select("match", "due", "slice")
    news = keys.select(F.col("key").alias("match"), F.lit(0).cast("bigint"), F.lit(None).cast("string"))
    rows = together(news.union(index), "match")
    return rows.mapInArrow(Touched(until), f"{_INDEX}, slice string")


def parted(store: Store, doing: SlicePlan, touched: DataFrame | None) -> tuple[DataFrame, DataFrame]:
    """Return the rows of the slices that are gone: those with keys in `touched` (None: all), and the others."""
    rows = store.slices(KEPT, DDL, doing.gone)
    if touched is None or not doing.gone:
        return rows, rows.limit(0)
    rows, found = together(rows, "match"), together(touched.select("match").distinct(), "match")
    found = found.hint("shuffle_hash")
    return rows.join(found, "match", "left_semi"), rows.join(found, "match", "left_anti")


def bounds(found: DataFrame) -> list[int]:
    """Return the times (µs) at which the new open rows are cut into slices of about `ROWS` rows."""
    parts = [number / _PARTS for number in range(1, _PARTS)]
    at = F.unix_micros("seen_at")
    told = found.where(_kept()).agg(F.count(at), F.percentile_approx(at, parts, 10_000)).head()
    if told is None or not told[0]:
        return []
    many = min(-(-told[0] // ROWS), _PARTS)
    return sorted({told[1][number * _PARTS // many - 1] for number in range(1, many)})


def sliced(found: DataFrame, same: DataFrame, doing: SlicePlan, number: int) -> DataFrame:
    """Return the new rows, and the untouched rows of the slices that are gone, each with its new `slice`; that is null
    for final rows.
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
    """Return slices from JSON, in which each is a list. Releases before had a fourth value, which is left out."""
    return {name: Slice(*each[:3]) for name, each in values.items()}

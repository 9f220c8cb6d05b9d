"""What is open, in slices: parts that are written once, of which a batch reads and writes anew only those it touches.

A slice has the open rows of `messages` with the state of each message. A batch looks up which keys it has rows for, or
the time of which is over; what else is in their slices is copied, and small slices become one.
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
"""The store's name for slices: rows of `matching.DDL`, and the rows that are of no message, see `special`."""
SPECIAL: Final = (*SessionRow, MatchRow.REPEAT)
"""The kinds of these."""
_INDEX: Final = "match string, due bigint"
ROWS: Final = 20_000
"""Rows in a slice, about, at most."""
JOINED: Final = 5_000
"""What is left of slices is joined up to so many rows: each of them may be copied again because of another one."""
SMALL: Final = 1_000
MANY: Final = 16
"""More slices than this that have fewer rows than that become one."""
_PARTS: Final = 256


class Slice(NamedTuple):
    """The number of rows, up to when (ns) none of them changes by itself, and their hours."""

    rows: int
    due: int
    hours: list[str]


@dataclass
class SlicePlan:
    """What a batch does with slices. `gone`: those that it reads and replaces; `into`: the new slice for the untouched
    rows of each; `bounds` (µs): the times by which the new rows are cut into the slices `fresh`.
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
    """Return what to do for a batch that touches so many rows of these slices and makes about `fresh` rows. `name`
    begins the names of its slices. Slices that are due late stay apart from others.
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
    """Call it with rows (match, due, slice), sorted. It yields the kept ones that a batch has, or before `until`."""

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
    """Return of rows with these two columns which a batch with transfers of `keys` touches, as a column."""
    return pc.or_kleene(pc.is_in(match, value_set=keys), pc.less(due, until))


def special(number: int, what: int) -> str:
    """Return the name of the slice with a batch's rows of a kind that are of no message."""
    return f"{batch_name(number)}-said{int(what)}"


def hits(store: Store, known: Mapping[str, Slice], keys: DataFrame, until: int) -> DataFrame:
    """Return key and slice of the kept rows that have one of the `keys`, or whose time is over."""
    index = store.slices(KEPT, _INDEX, known).select("match", "due", "slice")
    news = keys.select(F.col("key").alias("match"), F.lit(0).cast("bigint"), F.lit(None).cast("string"))
    rows = together(news.union(index), "match")
    return rows.mapInArrow(Touched(until), f"{_INDEX}, slice string")


def parted(store: Store, doing: SlicePlan, touched: DataFrame | None) -> tuple[DataFrame, DataFrame]:
    """Return the rows of the slices that are gone: the touched ones (None: all), and the others."""
    rows = store.slices(KEPT, DDL, doing.gone)
    if touched is None or not doing.gone:
        return rows, rows.limit(0)
    rows, found = together(rows, "match"), together(touched.select("match").distinct(), "match")
    found = found.hint("shuffle_hash")
    return rows.join(found, "match", "left_semi"), rows.join(found, "match", "left_anti")


def bounds(found: DataFrame) -> list[int]:
    """Return the times (µs) by which open rows that a batch has made are cut into slices of `ROWS` rows, about."""
    parts = [number / _PARTS for number in range(1, _PARTS)]
    at = F.unix_micros("seen_at")
    told = found.where(_kept()).agg(F.count(at), F.percentile_approx(at, parts, 10_000)).head()
    if told is None or not told[0]:
        return []
    many = min(-(-told[0] // ROWS), _PARTS)
    return sorted({told[1][number * _PARTS // many - 1] for number in range(1, many)})


def sliced(found: DataFrame, same: DataFrame, doing: SlicePlan, number: int) -> DataFrame:
    """Return the new rows and the rest of the slices that go, with their new `slice`, null for final ones."""
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

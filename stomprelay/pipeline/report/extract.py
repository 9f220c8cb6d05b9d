"""The rows of one range of time, and the most frequent names in them: what all of `gather` needs of Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.report.findings import Name, Rest
from stomprelay.pipeline.report.span import Span
from stomprelay.pipeline.report.text import HOUR, Micros, moment
from stomprelay.pipeline.store.store import Store

NULL: Final = -1
OTHER: Final = -2


@dataclass(frozen=True)
class Range:
    """From `since`, included, to `until`, not included; None: as far as the tables go."""

    since: Micros | None = None
    until: Micros | None = None

    def within(self, rows: DataFrame, column: str, *, hours: bool = True) -> DataFrame:
        """Those of a table whose time is in the range. `hours`: the table's `hour` is that of `column`."""
        at = F.unix_micros(F.col(column))
        if self.since is not None:
            rows = rows.where(at >= self.since)
            if hours:
                rows = rows.where(F.col("hour") >= hour(self.since))
        if self.until is not None:
            rows = rows.where(at < self.until)
            if hours:
                rows = rows.where(F.col("hour") <= hour(self.until))
        return rows


def hour(at: Micros) -> str:
    """The partition that an instant is in."""
    return f"{moment(at):%Y-%m-%d-%H}"


def whole_hours(span: Span) -> bool:
    """Whether a table that knows only hours can tell of a span exactly."""
    return span.since % HOUR == 0 and span.until % HOUR == 0


def bin_of(span: Span, micros: Column) -> Column:
    """The number of the bin that an instant of the span is in."""
    return F.floor((micros - F.lit(span.since)) / F.lit(span.step)).cast("int")


def top(rows: DataFrame, column: str, weights: Sequence[Column], limit: int) -> list[str]:
    """The names in a column with the greatest sums, first by the first weight, then by the next, then by name."""
    sums = rows.where(F.col(column).isNotNull()).groupBy(column)
    named = [f"weight{n}" for n in range(len(weights))]
    summed = sums.agg(*(F.sum(weight).alias(name) for weight, name in zip(weights, named, strict=True)))
    ordered = summed.orderBy(*(F.col(name).desc_nulls_last() for name in named), column)
    return [row[0] for row in ordered.select(column).limit(limit).collect()]


def coded(column: str, names: Sequence[str]) -> Column:
    """A name's place among `names`, else `NULL` or `OTHER`."""
    code = F.lit(OTHER)
    for place, name in reversed(list(enumerate(names))):
        code = F.when(F.col(column) == F.lit(name), F.lit(place)).otherwise(code)
    return F.when(F.col(column).isNull(), F.lit(NULL)).otherwise(code)


def decoded(code: int, names: Sequence[str]) -> Name:
    """What `coded` stood for."""
    if code == NULL:
        return None
    return Rest.OTHERS if code == OTHER else names[code]


def one(rows: DataFrame, *wanted: Column) -> Sequence[Any]:
    """The only row of an aggregate over all rows."""
    (row,) = rows.agg(*wanted).collect()
    return list(row)


def extent(store: Store, range_: Range) -> tuple[Micros, Micros] | None:
    """The first instant and the last, both included, as far as the range says or else `traffic`; None for nothing."""
    minutes = range_.within(store.read("traffic"), "minute")
    at = F.unix_micros("minute")
    first, last = one(minutes, F.min(at), F.max(at))
    if range_.since is not None:
        first = range_.since
    if range_.until is not None:
        last = range_.until - 1
    elif last is not None:
        last += 60_000_000 - 1
    if first is None or last is None:
        return None
    return first, max(first, last)

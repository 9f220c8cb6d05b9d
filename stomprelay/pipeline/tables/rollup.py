"""Sums that batches add to, hour by hour: what an hour had before the batch, and what the batch adds, make it anew.

What an hour had is kept as one version, named by the batch that wrote it; a batch that is done again, after a crash,
begins with the same version. Open messages count only as long as they are: what the rows of each of their slices come
to is kept beside, and goes with the slice. Sums add up in any order, so that a table does not depend on how the journal
was cut into batches.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import Table
from stomprelay.pipeline.spark.tasks import few
from stomprelay.pipeline.store.store import OPEN, Batch, batch_name


def hour_of(time: Column) -> Column:
    """Return the name of a timestamp's hour, such as `2026-11-21-08`. The session's time zone must be UTC."""
    return F.date_format(time, "yyyy-MM-dd-HH")


def named(sums: DataFrame, time: str | Column) -> DataFrame:
    """Return sums with the name of the hour of `time` in front. A name is slow to make, so add up first."""
    others = [name for name in sums.columns if name != "hour"]
    return sums.select(hour_of(F.col(time) if isinstance(time, str) else time).alias("hour"), *others)


def by_batch(keys: Sequence[str], rows: DataFrame) -> list[str]:
    """Return the keys, and `batch` if the rows have that column."""
    return [*keys, *(name for name in rows.columns if name == "batch")]


@dataclass(frozen=True)
class Rollup:
    """A table of sums. `kept` is the schema of the sums that it is folded from, and `keys` are the columns by which
    these are told apart. `summed` returns sums for rows of the source, by `batch` where the rows have one; `total` adds
    up sums that have the same in some columns; `folded` returns rows of the table for sums. All of them have the column
    `hour`.
    """

    table: Table
    kept: str
    keys: Sequence[str]
    summed: Callable[[DataFrame], DataFrame]
    total: Callable[[DataFrame, Sequence[str]], DataFrame]
    folded: Callable[[DataFrame], DataFrame]

    def advance(
        self,
        batch: Batch,
        rows: DataFrame,
        hours: Iterable[str],
        touched: Iterable[str] = (),
        there: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Add `rows` and write their hours of the table anew, and the other hours in `touched`. `hours` are those of
        the rows whose `batch` is this one; other rows are of slices. `there`: all slices after this batch, with their
        hours.
        """
        store, name, now = batch.store, self.table.name, batch_name(batch.number)
        adding = set(hours)
        wanted = sorted({*adding, *touched})
        if not wanted:
            return
        slices: dict[str, list[str]] = {}
        for each, those in (there or {}).items():
            for hour in those:
                slices.setdefault(hour, []).append(f"{OPEN}-{each}")
        before, after = [], []
        for hour in wanted:
            found = store.summed(name, hour)
            versions = [each for each in found if each.isdigit() and each < now]
            version = max(versions, default=None)
            wasted = {each for each in found if not each.isdigit()} - {*slices.get(hour, ())}
            store.drop_sums(name, hour, {*wasted, *versions} - {version})
            if version is not None and hour in adding:
                before.append(f"hour={hour}/batch={version}")
            newest = now if hour in adding else version
            after += [f"hour={hour}/batch={each}" for each in (newest, *slices.get(hour, ())) if each]
        news = self.summed(few(rows))
        if before:
            old = store.sums(name, self.kept, before).withColumn("batch", F.lit(now))
            news = self.total(few(news.unionByName(old)), [*self.keys, "batch"])
        store.save_sums(name, news)
        store.replace(name, self.folded(few(store.sums(name, self.kept, after))), wanted)

    def advance_messages(self, batch: Batch) -> None:
        """Do so with the messages that became final in this batch, and with the open ones of its slices."""
        changed = messages.changes(batch)
        if not changed.hours:
            return
        rows = messages.still_open(batch, changed.made)
        if changed.final:
            rows = rows.unionByName(messages.settled(batch))
        self.advance(batch, rows, changed.final, changed.hours, changed.there)

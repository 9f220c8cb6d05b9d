"""Sums that batches add to: what each batch adds is kept by hour, and the hours that it touches are made anew of it.

What is kept (the deltas) adds up in any order. So a table does not depend on how the journal was cut into batches, and
a batch that is done again, after a crash, changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.batch import Batch
from stomprelay.pipeline.table import Table
from stomprelay.pipeline.tables import MESSAGES


def hour_of(time: Column) -> Column:
    """The `hour` of a timestamp, as folders are named: `2026-11-21-08`. The session's time zone has to be UTC."""
    return F.date_format(time, "yyyy-MM-dd-HH")


def hours_of(rows: DataFrame) -> set[str]:
    """The hours that rows with an `hour` are in."""
    return {row.hour for row in rows.select("hour").distinct().collect()}


@dataclass(frozen=True)
class Rollup:
    """A table of sums. `kept`: the schema of its deltas. `summed` makes deltas, with their `hour`, of the rows that
    they are made from; `folded` makes the table's rows, with their `hour`, of deltas.
    """

    table: Table
    kept: str
    summed: Callable[[DataFrame], DataFrame]
    folded: Callable[[DataFrame], DataFrame]

    def advance(self, batch: Batch, rows: DataFrame) -> None:
        """Keep what `rows` add, and make the hours anew that they touch."""
        touched = self._keep(batch, rows)
        if touched:
            store, name = batch.store, self.table.name
            store.replace(name, self.folded(store.deltas(name, self.kept, touched)))

    def advance_messages(self, batch: Batch) -> None:
        """The same by what `messages` left: the rows that became final in this batch. Those that are open after it
        count until the next batch; their hours, and those of the open rows of the batch before, are made anew.
        """
        store, name, number = batch.store, self.table.name, batch.number
        passing = store.saved("open", number, MESSAGES.ddl)
        passed = store.saved("open", number - 1, MESSAGES.ddl)
        touched = self._keep(batch, store.saved("settled", number, MESSAGES.ddl), passing, passed)
        if not touched:
            return
        open_sums = self.summed(passing)
        sums = store.deltas(name, self.kept, touched).select(*open_sums.columns)
        rows = self.folded(sums.unionByName(open_sums)).persist()
        try:
            store.replace(name, rows)
            # An open row whose SEND came late may have left its hour with nothing.
            store.drop(name, touched.intersection(store.hours(name)) - hours_of(rows))
        finally:
            rows.unpersist()

    def _keep(self, batch: Batch, rows: DataFrame, *others: DataFrame) -> set[str]:
        """Write what these rows add, and tell which hours they and the others are in."""
        added = self.summed(rows).persist()
        hours = added.select("hour")
        for other in others:
            hours = hours.unionAll(other.select(hour_of(F.col("at"))))
        try:
            batch.store.delta(self.table.name, batch.number, added)
            return hours_of(hours)
        finally:
            added.unpersist()

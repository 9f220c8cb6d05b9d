"""Sums that batches add to: what each batch adds is kept by hour, and the hours that it touches are made anew of it.

What is kept (the deltas) adds up in any order. So a table does not depend on how the journal was cut into batches, and
a batch that is done again, after a crash, changes nothing.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.match import messages
from stomprelay.pipeline.schema import Table
from stomprelay.pipeline.store.store import Batch


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

    def advance(self, batch: Batch, rows: DataFrame, hours: Iterable[str]) -> None:
        """Keep what `rows` add, which are of these hours, and make those anew."""
        touched = set(hours)
        if touched:
            store, name = batch.store, self.table.name
            store.delta(name, batch.number, self.summed(rows))
            store.replace(name, self.folded(store.deltas(name, self.kept, touched)))

    def advance_messages(self, batch: Batch) -> None:
        """The same by what `messages` left: the rows that became final in this batch. Those that are open after it
        count until the next batch; their hours, and those of the open rows of the batch before, are made anew.
        """
        store, name = batch.store, self.table.name
        touched = messages.touched(batch)
        if not touched:
            return
        if store.hours_of("messages", batch.number):
            store.delta(name, batch.number, self.summed(messages.settled(batch)))
        open_sums = self.summed(messages.still_open(batch))
        sums = store.deltas(name, self.kept, touched).select(*open_sums.columns)
        # An open row whose SEND came late may have left its hour with nothing.
        store.replace(name, self.folded(sums.unionByName(open_sums)), touched)

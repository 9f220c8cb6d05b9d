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
    """Return a column with the `hour` of a timestamp, such as `2026-11-21-08`. The session's time zone must
    be UTC.
    """
    return F.date_format(time, "yyyy-MM-dd-HH")


def hours_of(rows: DataFrame) -> set[str]:
    """Return the names of the hours in the column `hour` of these rows."""
    return {row.hour for row in rows.select("hour").distinct().collect()}


@dataclass(frozen=True)
class Rollup:
    """A table of sums. `kept`: the schema of its deltas. `summed` returns deltas for rows of the source;
    `folded` returns rows of the table for deltas. All of them have the column `hour`.
    """

    table: Table
    kept: str
    summed: Callable[[DataFrame], DataFrame]
    folded: Callable[[DataFrame], DataFrame]

    def advance(self, batch: Batch, rows: DataFrame, hours: Iterable[str]) -> None:
        """Store the deltas of `rows`, all of which are in `hours`, and write these hours of the table anew."""
        touched = set(hours)
        if touched:
            store, name = batch.store, self.table.name
            store.delta(name, batch.number, self.summed(rows))
            store.replace(name, self.folded(store.deltas(name, self.kept, touched)), touched)

    def advance_messages(self, batch: Batch) -> None:
        """Do the same with the messages that became final in this batch. Open messages are added only until
        the next batch: their hours are written anew, and those of the messages that were open before.
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

"""Final rows of `messages` to Parquet files, by the tasks that match them: most rows of a large batch go no further."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from stomprelay.pipeline.match.matching import SCHEMA, MatchRow, other
from stomprelay.pipeline.match.matching import batch as batch_of
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.spark.launch import ROW_GROUP_ROWS
from stomprelay.pipeline.store import layout

ROWS: Final = 4 * ROW_GROUP_ROWS
"""Rows of a task that are sorted by time together, and in memory, about."""
_COLUMNS: Final = pa.schema([SCHEMA.field(name) for name in MESSAGES.names])
_REPEATING: Final = [
    *("relay", "destination", "producer", "producer_session", "size", "transaction", "matched", "outcome"),
    *("redelivered", "final", "segment", "headers.key_value.key", "headers.key_value.value"),
    *(
        f"deliveries.list.element.{name}"
        for name in ("client", "session", "subscription", "upstream", "broker", "mode", "outcome")
    ),
]
"""Columns whose values repeat."""


@dataclass(frozen=True)
class Finals:
    """Call it with batches of `matching.DDL`: final rows are written to files in folders by hour below `folder`, and in
    their place it yields a row for each file (`MatchRow.FILE`). Raises `OSError`.
    """

    folder: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` wants it."""
        hours: dict[str, _Hour] = {}
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
                hours.setdefault(hour, _Hour(self.folder / layout.place(hour))).add(of_hour)
        if hours:
            yield batch_of([other(MatchRow.FILE, each.close(), hour=hour) for hour, each in hours.items()])


class _Hour:
    """A new file in a folder. Call `add` with rows, and `close`."""

    def __init__(self, folder: Path) -> None:
        self._path = layout.new_file(folder)
        self._writer = parquet.ParquetWriter(
            self._path, _COLUMNS, compression="zstd", use_dictionary=_REPEATING, store_schema=False
        )
        self._held: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows.select(_COLUMNS.names))
        self._rows += len(rows)
        if self._rows >= ROWS:
            self._flush()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._held)
        self._held.clear()
        self._rows = 0
        order = pc.sort_indices(rows.column("at"))
        for at in range(0, len(order), ROW_GROUP_ROWS):
            self._writer.write_table(rows.take(order.slice(at, ROW_GROUP_ROWS)))

    def close(self) -> str:
        """Complete the file. Return its path."""
        if self._held:
            self._flush()
        self._writer.close()
        return str(self._path)

"""Writes Parquet files without Spark. With Spark it would take ten times as long."""

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from stomprelay.pipeline.spark.launch import ROW_GROUP_ROWS

OCTETS: Final = 64 << 20
"""A row group has about so many bytes before it is encoded."""


def columns(schema: pa.Schema) -> list[str]:
    """Return the paths of the columns in files of a schema; nested columns have a path each."""
    return [path for field in schema for path in _leaves(field.name, field.type)]


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_map(kind):
        yield from (f"{path}.key_value.key", f"{path}.key_value.value")
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for each in kind:
            yield from _leaves(f"{path}.{each.name}", each.type)
    else:
        yield path


class NewFile:
    """A file that a task adds to a folder. A missing folder is made. A task that is done again adds another file. Call
    `add`, and `close` at the end. Raises `OSError`.

    Rows are held in memory until they fill `groups` row groups, in number or in bytes. Then they are sorted by the
    column `by`, if it is given, and written. `unlike` has the paths of columns whose values hardly repeat: dictionaries
    of these columns would take a third of the time and make larger files.
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        unlike: Container[str],
        *,
        by: str | None = None,
        groups: int = 1,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"part-{uuid4()}.zstd.parquet"
        self._schema = schema
        self._by = by
        self._groups = groups
        repeating = [each for each in columns(schema) if each not in unlike]
        self._writer = parquet.ParquetWriter(
            self.path, schema, compression="zstd", use_dictionary=repeating or False, store_schema=False
        )
        self._held: list[pa.RecordBatch] = []
        self._rows = self._octets = 0

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows. They must have the columns of the schema, and may have other columns."""
        rows = rows.select(self._schema.names)
        self._held += rows.to_batches() if isinstance(rows, pa.Table) else [rows]
        self._rows += len(rows)
        self._octets += rows.nbytes
        if self._rows >= self._groups * ROW_GROUP_ROWS or self._octets >= self._groups * OCTETS:
            self._flush()

    def _flush(self) -> None:
        rows = pa.Table.from_batches(self._held, self._schema)
        many = max(round(self._rows / ROW_GROUP_ROWS), round(self._octets / OCTETS), 1)
        size = -(-self._rows // many)
        self._held.clear()
        self._rows = self._octets = 0
        order = None if self._by is None else pc.sort_indices(rows.column(self._by))
        for at in range(0, len(rows), size):
            part = rows.slice(at, size) if order is None else rows.take(order.slice(at, size))
            self._writer.write_table(part, size)

    def close(self) -> str:
        """Complete the file. Return the path of the file."""
        if self._held:
            self._flush()
        self._writer.close()
        return str(self.path)


def parted(rows: Any, column: str) -> Iterator[tuple[Any, Any]]:
    """Yield each different value of a column, with the rows that have this value. `rows` is a batch or a table."""
    values = rows.column(column)
    for value in values.unique().to_pylist():
        same = pc.equal(values, value)
        yield value, rows if pc.all(same).as_py() else rows.filter(same)

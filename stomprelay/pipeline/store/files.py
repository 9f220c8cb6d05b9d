"""Writes and joins Parquet files without Spark. With Spark it would take ten times as long."""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet

from stomprelay.pipeline.spark.arrow import MICROSECONDS
from stomprelay.pipeline.spark.launch import ROW_GROUP, ROW_GROUP_ROWS

OCTETS: Final = 64 << 20
"""A row group has about so many bytes before it is encoded."""
_TIMES: Final = ("ns", "seen_at")
"""`merge` sorts by the first of these columns that the files have."""


def writer(where: Any, schema: pa.Schema, repeating: list[str]) -> parquet.ParquetWriter:
    """Return a writer to a path or an open file. The columns whose paths are in `repeating` have dictionaries."""
    return parquet.ParquetWriter(
        where, schema, compression="zstd", use_dictionary=repeating or False, store_schema=False
    )


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
        self._writer = writer(self.path, schema, [each for each in columns(schema) if each not in unlike])
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


def merge(sources: Sequence[Path], folder: Path, large: int) -> int:
    """Write the rows of these files, sorted by time, to new files of about `large` bytes in a new folder. Return the
    number of new files. Only one row group at a time is in memory. Raises `OSError` and Arrow's errors.
    """
    facts = [parquet.read_metadata(path) for path in sources]
    schema = _joined(parquet.read_schema(path) for path in sources)
    time = next(name for name in _TIMES if name in schema.names)
    rows = sum(each.num_rows for each in facts)
    weight = sum(each.row_group(n).total_byte_size for each in facts for n in range(each.num_row_groups))
    group = max(min(ROW_GROUP_ROWS, ROW_GROUP * rows // max(weight, 1)), 1)
    kind = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    whole = dataset.dataset([*map(str, sources)], schema=schema, format=kind)
    folder.mkdir(parents=True)
    return _write(_sorted(whole, time, group), folder, schema, large, _repeating(facts))


def _joined(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return a schema that has all columns of these schemas. Times have the type that new files have."""
    plain = [pa.schema([(field.name, _plain(field.type)) for field in each]) for each in schemas]
    return pa.unify_schemas(plain, promote_options="permissive")


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return MICROSECONDS
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _plain(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    return kind


def _repeating(facts: Iterable[Any]) -> list[str]:
    """Return the columns that have dictionaries in these files."""
    groups = (each.row_group(number) for each in facts for number in range(each.num_row_groups))
    chunks = (group.column(number) for group in groups for number in range(group.num_columns))
    return sorted({each.path_in_schema for each in chunks if each.has_dictionary_page})


def _sorted(whole: dataset.Dataset, time: str, group: int) -> Iterator[pa.Table]:
    """Yield all rows, sorted by time, in tables of about `group` rows."""
    column = dataset.field(time)
    known = whole.to_table([time], filter=column.is_valid())[time]
    ends = np.unique(np.sort(known.cast(pa.int64()).to_numpy())[group::group])
    bounds = [pa.scalar(each, pa.int64()).cast(known.type) for each in ends.tolist()]
    for begin, end in pairwise([None, *bounds, None]):
        within = column.is_valid() if begin is None else column >= begin
        within = within if end is None else within & (column < end)
        within = within | column.is_null() if begin is None else within
        rows = whole.to_table(filter=within)
        if len(rows):
            yield rows.sort_by([(time, "ascending")])


def _write(
    groups: Iterator[pa.Table], folder: Path, schema: pa.Schema, large: int, repeating: list[str]
) -> int:
    """Write each table as a row group, to files of about `large` bytes. Return the number of files."""
    count = 0
    for first in groups:
        group: pa.Table | None = first
        with (
            pa.OSFile(str(folder / f"part-{count:05d}.zstd.parquet"), "wb") as sink,
            writer(sink, schema, repeating) as writing,
        ):
            while group is not None:
                writing.write_table(group, len(group))
                group = next(groups, None) if sink.tell() < large else None
        count += 1
    return count

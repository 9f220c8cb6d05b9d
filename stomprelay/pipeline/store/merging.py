"""Parquet files made fewer, their rows sorted by time: piece by piece, so that memory does not follow their size."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from stomprelay.pipeline.spark.arrow import MICROSECONDS
from stomprelay.pipeline.spark.launch import ROW_GROUP, ROW_GROUP_ROWS
from stomprelay.pipeline.store.files import writer

PIECE: Final = 1 << 14
"""Rows of a file that are in memory at a time, about."""
_TIMES: Final = ("ns", "seen_at", "minute")
"""The column to sort by is the first of these that the files have."""
_EARLIEST: Final = -(1 << 63)


def merge(sources: Sequence[Path], folder: Path, large: int) -> int:
    """Write these files as new ones of about `large` bytes; return how many. Raises `OSError` and Arrow's errors."""
    facts = [parquet.read_metadata(path) for path in sources]
    schema = _joined(parquet.read_schema(path) for path in sources)
    time = next((name for name in _TIMES if name in schema.names), None)
    rows = sum(each.num_rows for each in facts)
    weight = sum(each.row_group(n).total_byte_size for each in facts for n in range(each.num_row_groups))
    group = max(min(ROW_GROUP_ROWS, ROW_GROUP * rows // max(weight, 1)), 1)
    firsts = [_first(each, time) for each in facts]
    ordered = [path for _, _, path in sorted(zip(firsts, range(len(sources)), sources, strict=True))]
    pieces = _merged(
        [_Source(path, first, schema, time) for path, first in zip(ordered, sorted(firsts), strict=True)]
    )
    folder.mkdir(parents=True)
    return _write(_grouped(pieces, group), folder, schema, large, _repeating(facts))


def _joined(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Return the schema with all columns; times are what they are in new files."""
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


def _columns(facts: Any) -> Iterator[Any]:
    """Yield the chunks of all columns in a file."""
    for number in range(facts.num_row_groups):
        group = facts.row_group(number)
        yield from (group.column(each) for each in range(group.num_columns))


def _first(facts: Any, time: str | None) -> int:
    """Return the earliest time in a file, as far as its statistics tell it."""
    chunks = [each for each in _columns(facts) if each.path_in_schema == time]
    if not chunks or any(each.statistics is None or not each.statistics.has_min_max for each in chunks):
        return _EARLIEST
    return min(int(each.statistics.min_raw) for each in chunks)


def _repeating(facts: Iterable[Any]) -> list[str]:
    """Return the columns that have dictionaries in the files as they are."""
    chunks = [chunk for each in facts for chunk in _columns(each)]
    return sorted({each.path_in_schema for each in chunks if each.has_dictionary_page})


@dataclass
class _Source:
    """A file and its rows in memory: `held`, and their times, sorted. `first`: the earliest time of a sorted file."""

    path: Path
    first: int
    schema: pa.Schema
    time: str | None

    def __post_init__(self) -> None:
        self._pieces = self._read()
        self.held = self.schema.empty_table()
        self.times = pa.array([], pa.int64())

    def _read(self) -> Iterator[pa.Table]:
        with parquet.ParquetFile(self.path, coerce_int96_timestamp_unit="us") as file:
            few = file.metadata.num_rows <= PIECE
            whole = [file.read()] if few else []
        if few:  # nor is the file held open: there may be many
            yield from whole
            return
        with parquet.ParquetFile(self.path, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(PIECE):
                yield pa.Table.from_batches([batch])

    def load(self) -> bool:
        """Have rows in memory; return whether there are any left."""
        while not len(self.held):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            there = [
                piece.column(each.name)
                if each.name in piece.column_names
                else pa.nulls(len(piece), each.type)
                for each in self.schema
            ]
            table = pa.table(there, self.schema.names).cast(self.schema)
            self.held, self.times = _sorted(table, _times(table, self.time))
        return True

    @property
    def last(self) -> int:
        """The time of the last row in memory."""
        return int(self.times[-1].as_py())

    def take(self, until: int) -> tuple[pa.Table, pa.Array]:
        """Take the rows in memory up to this time."""
        count = len(self.times) - (pc.sum(pc.greater(self.times, until)).as_py() or 0)
        taken = self.held.slice(0, count), self.times.slice(0, count)
        self.held, self.times = self.held.slice(count), self.times.slice(count)
        return taken


def _times(table: pa.Table, time: str | None) -> pa.Array:
    if time is None:
        return pa.repeat(pa.scalar(_EARLIEST, pa.int64()), len(table))
    times = table.column(time).cast(pa.int64()).combine_chunks()
    return pc.fill_null(times, _EARLIEST)


def _sorted(table: pa.Table, times: pa.Array) -> tuple[pa.Table, pa.Array]:
    if len(times) < 2 or pc.all(pc.less_equal(times[:-1], times[1:])).as_py():
        return table, times
    order = pc.sort_indices(times)
    return table.take(order), times.take(order)


def _merged(sources: Sequence[_Source]) -> Iterator[pa.Table]:
    """Yield all rows, sorted if each file is. `sources` are in the order of their first times."""
    waiting = list(reversed(sources))
    there: list[_Source] = []
    while waiting or there:
        there = [each for each in there if each.load()]
        while waiting and (not there or waiting[-1].first <= min(each.last for each in there)):
            source = waiting.pop()
            if source.load():
                there.append(source)
        if there:
            until = min(each.last for each in there)
            parts = [part for each in there if len((part := each.take(until))[0])]
            tables, times = zip(*parts, strict=True)
            yield _sorted(pa.concat_tables(tables), pa.concat_arrays(times))[0]


def _grouped(pieces: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of `most` rows, but for the last."""
    held: list[pa.Table] = []
    count = 0
    for piece in pieces:
        held.append(piece)
        count += len(piece)
        while count >= most:
            whole = pa.concat_tables(held)
            yield whole.slice(0, most)
            held, count = [whole.slice(most)], count - most
    if count:
        yield pa.concat_tables(held)


def _write(
    groups: Iterator[pa.Table], folder: Path, schema: pa.Schema, large: int, repeating: list[str]
) -> int:
    """Write each table as a row group. Return how many files came of it."""
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

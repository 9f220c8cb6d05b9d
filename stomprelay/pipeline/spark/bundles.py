"""Bundles of rows that go from task to task and that only our functions in Python read.

In a shuffle, Spark takes each row apart into its columns, sorts the rows, and puts them together again. That takes
several times as long as our functions need. So a task splits its rows into parts, and writes each part as bytes of an
Arrow batch into one column. Spark moves these bytes. The task that gets a part sorts the rows in it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import ipc

from stomprelay.pipeline.spark.tasks import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DDL: Final = "part int, passing boolean, rows binary"
"""Columns of a bundle: the number of its part, whether the next function leaves it unchanged, its rows as bytes."""
ROWS: Final = 1 << 17
"""About so many rows are split at a time."""
WORTH: Final = 200_000
"""A part has about so many rows, which are in memory at the same time."""
_SCHEMA: Final = pa.schema([("part", pa.int32()), ("passing", pa.bool_()), ("rows", pa.binary())])
_SORTED: Final = 1 << 15
"""A sorted batch has at most so many rows."""
_SPREAD: Final = 0x9E3779B1
Key = str | tuple[str, int]
"""A column to sort by; or a column of numbers, and how many of the last bits are ignored."""
Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function that runs in one of Spark's tasks: it takes Arrow batches and yields other Arrow batches."""


def chained(first: Rows, then: Rows) -> Rows:
    """Return a function that gives the results of `first` to `then`."""
    return lambda batches: then(first(batches))


def parts(spark: Any, rows: int) -> int:
    """Return the number of parts into which so many rows are split; 1 if shuffles have one partition."""
    partitions = int(spark.conf.get(PARTITIONS) or 1)
    return partitions if partitions == 1 else max(partitions, -(-rows // WORTH))


def exchanged(bundles: "DataFrame", count: int) -> "DataFrame":
    """Return the bundles after a shuffle, so that all bundles of a part are in one task, part after part. If there is
    only one part, no shuffle is needed.
    """
    if count == 1:
        return bundles.coalesce(1)
    return bundles.repartitionById(count, "part").coalesce(
        int(bundles.sparkSession.conf.get(PARTITIONS) or 1)
    )


@dataclass(frozen=True)
class Bundling:
    """Call it with rows. It yields them as bundles, split into parts by the column `by`. `passes` returns a column
    that tells which rows the next function leaves unchanged: these rows get bundles of their own. The columns `coded`
    have few different values.
    """

    by: str
    parts: int
    passes: Callable[[pa.RecordBatch], pa.Array] | None = None
    coded: Sequence[str] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` requires."""
        held: list[pa.RecordBatch] = []
        count = 0
        for batch in batches:
            held.append(batch)
            count += len(batch)
            if count >= ROWS:
                yield from self._split(held)
                held, count = [], 0
        if count:
            yield from self._split(held)

    def _split(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        columns = [column.chunk(0) for column in table.columns]
        for name in self.coded:
            at = table.schema.get_field_index(name)
            columns[at] = columns[at].dictionary_encode()
        rows = pa.RecordBatch.from_arrays(columns, table.column_names)
        if self.passes is None:
            yield from self._bundled(rows, passing=False)
            return
        passing = self.passes(rows)
        yield from self._bundled(rows.filter(passing), passing=True)
        yield from self._bundled(rows.filter(pc.invert(passing)), passing=False)

    def _bundled(self, rows: pa.RecordBatch, *, passing: bool) -> Iterator[pa.RecordBatch]:
        if not len(rows):
            return
        if self.parts == 1:
            yield _bundle(0, rows, passing=passing)
            return
        parts = part_of(rows.column(self.by), self.parts)
        order = np.argsort(parts, kind="stable")
        ends = np.cumsum(np.bincount(parts, minlength=self.parts))
        rows = rows.take(pa.array(order))
        at = 0
        for part, end in enumerate(ends.tolist()):
            if end > at:
                yield _bundle(part, rows.slice(at, end - at), passing=passing)
            at = end


def part_of(values: pa.Array, parts: int) -> Any:
    """Return, as a numpy array, the number of the part of each text. All processes return the same numbers."""
    if not isinstance(values, pa.DictionaryArray):
        values = values.dictionary_encode()
    each = [(crc32(value.encode()) * _SPREAD >> 16) % parts for value in values.dictionary.to_pylist()]
    return np.array(each, np.int64)[values.indices.to_numpy(zero_copy_only=False)]


def _bundle(part: int, rows: pa.RecordBatch, *, passing: bool) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, rows.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_batch(rows)
    octets = sink.getvalue()
    ends = pa.array([0, len(octets)], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 1, [None, ends, octets])
    return pa.RecordBatch.from_arrays(
        [pa.array([part], pa.int32()), pa.array([passing]), column], schema=_SCHEMA
    )


@dataclass(frozen=True)
class Sorted:
    """Call it with bundles, part after part. It calls `then` with the rows of each part, in batches, and yields what
    `then` yields. The rows are grouped by the first column of `by` and sorted by all other columns (texts by their
    bytes, nulls first). With `passes_on`, bundles of rows that `then` leaves unchanged are yielded without a call of
    `then`.
    """

    by: Sequence[Key]
    then: Rows
    passes_on: bool = False

    def __call__(self, bundles: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` requires."""
        held: list[pa.Table] = []
        last = None
        for batch in bundles:
            for at, (part, passing) in enumerate(
                zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            ):
                if passing and self.passes_on:
                    yield batch.slice(at, 1)
                    continue
                if part != last and held:
                    yield from self.then(self._batches(held))
                last = part
                held.append(ipc.open_stream(batch.column(2)[at].as_buffer()).read_all())
        if held:
            yield from self.then(self._batches(held))

    def _batches(self, held: list[pa.Table]) -> Iterator[pa.RecordBatch]:
        rows = pa.concat_tables(held).unify_dictionaries().combine_chunks()
        held.clear()
        order = sorting(rows, self.by)
        for at in range(0, len(order), _SORTED):
            yield from rows.take(pa.array(order[at : at + _SORTED])).combine_chunks().to_batches()


def opened(bundles: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of these bundles, in their order, as Arrow batches."""
    for batch in bundles:
        for octets in batch.column(2):
            yield from ipc.open_stream(octets.as_buffer())


def sorting(rows: pa.Table, by: Sequence[Key]) -> Any:
    """Return, as a numpy array, the indices of the rows in the order of `Sorted`."""
    first, *others = by
    codes = rows.column(first).combine_chunks()
    if not isinstance(codes, pa.DictionaryArray):
        codes = codes.dictionary_encode()
    keys = [_numbers(codes.indices)]
    for each in others:
        name, bits = (each, 0) if isinstance(each, str) else each
        keys.append(_ranks(rows.column(name).combine_chunks()) >> bits)
    return np.lexsort(keys[::-1])


def _ranks(values: pa.Array) -> Any:
    """Return numbers that sort like these values."""
    if isinstance(values, pa.DictionaryArray) or pa.types.is_string(values.type):
        coded = values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()
        ranks = pc.rank(coded.dictionary, tiebreaker="min").cast(pa.int64())
        return _numbers(ranks.take(coded.indices))
    return _numbers(values)


def _numbers(values: pa.Array) -> Any:
    least = -(1 << 31) if values.type == pa.int32() else -(1 << 62)
    return (values.fill_null(least) if values.null_count else values).to_numpy(zero_copy_only=False)

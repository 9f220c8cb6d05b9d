"""Rows as Python has them, to and from Arrow."""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

_KINDS: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}
ROWS: Final = 8192
"""Rows in an Arrow batch, about."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Python looks for no rings meanwhile: there are none among rows, and looking through so many takes long."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def schema(fields: Sequence[tuple[str, str]]) -> pa.Schema:
    """Of names and types as Spark spells them."""
    return pa.schema([(name, _KINDS[kind]) for name, kind in fields])


def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """The rows of all batches, as tuples."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows, at least one, as a batch."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)

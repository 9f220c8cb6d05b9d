"""Converts rows and columns to and from Arrow, the format in which Spark gives data to Python processes."""

import gc
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from time import gmtime, strftime
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")
_KINDS: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
MICROSECONDS: Final = _KINDS["timestamp"]
"""Timestamps as Spark has them, in UTC."""
MAP: Final = _KINDS["map<string,string>"]
_HOUR: Final = 3600 * 10**9
ROWS: Final = 8192
"""An Arrow batch has about so many rows."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep Python from searching for reference cycles while the context is entered: rows have no cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def schema(fields: Iterable[tuple[str, str]]) -> pa.Schema:
    """Return the Arrow schema for names and Spark types."""
    return pa.schema([(name, _kind(kind)) for name, kind in fields])


def fields(ddl: str) -> tuple[tuple[str, str], ...]:
    """Return the names and Spark types in a schema string. The string may have only simple types."""
    return tuple((name, kind) for name, kind in (each.split() for each in ddl.split(", ")))


def _kind(spelled: str) -> pa.DataType:
    if spelled.startswith("array<"):
        return pa.list_(_kind(spelled[len("array<") : -1]))
    if spelled.startswith("struct<"):
        inner = (each.split(": ") for each in spelled[len("struct<") : -1].split(", "))
        return pa.struct([(name, _kind(kind)) for name, kind in inner])
    return _KINDS[spelled]


def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all batches, as tuples."""
    for batch in batches:
        for at in range(0, len(batch), ROWS):
            yield from zip(*map(listed, batch.slice(at, ROWS).columns), strict=True)


def listed(column: pa.Array) -> list[Any]:
    """Return the values of a column as a list. Each different value of a dictionary column is converted only once."""
    if column.null_count == len(column):
        return [None] * len(column)
    if isinstance(column, pa.DictionaryArray):
        known = np.empty(len(column.dictionary) + 1, object)
        known[:-1] = column.dictionary.to_pylist()
        numbers = column.indices.fill_null(len(known) - 1) if column.null_count else column.indices
        values: list[Any] = known[numbers.to_numpy()].tolist()
        return values
    if pa.types.is_integer(column.type) and not column.null_count:
        values = column.to_numpy().tolist()
        return values
    values = column.to_pylist()
    return values


def compact(value: Any) -> str:
    """Return a value as JSON without unnecessary spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def chunks(rows: Iterable[T]) -> Iterator[list[T]]:
    """Yield these rows in lists of `ROWS` rows. The last list may be shorter."""
    left = iter(rows)
    while some := list(islice(left, ROWS)):
        yield some


def batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as an Arrow batch. There must be at least one row."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def text(values: Sequence[bytes | None]) -> pa.Array:
    """Return a column of texts from bytes in UTF-8; other bytes become `\\xNN`."""
    try:
        return pa.array(values, pa.string())
    except pa.ArrowInvalid:
        decoded = [None if each is None else each.decode("utf-8", "backslashreplace") for each in values]
        return pa.array(decoded, pa.string())


def mapping(
    ends: Sequence[int], names: Sequence[bytes], values: Sequence[bytes], nulls: Any = None
) -> pa.Array:
    """Return a column of maps. `names` and `values` are those of all maps together. `ends` has 0 and then, for each
    map, the index after its last entry. `nulls` tells which maps are null.
    """
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), text(names), text(values), type=MAP, mask=nulls
    )


def times(nanoseconds: Any) -> pa.Array:
    """Return a column of timestamps from nanoseconds since 1970 in an Arrow array or a sequence."""
    whole = nanoseconds if isinstance(nanoseconds, pa.Array) else pa.array(nanoseconds, pa.int64())
    return pc.divide(whole, pa.scalar(1000, pa.int64())).cast(MICROSECONDS)


_hours: dict[int, str] = {}


def hour(nanoseconds: int) -> str:
    """Return the name of the hour, `2026-11-21-08`, of a time in ns since 1970."""
    number = nanoseconds // _HOUR
    found = _hours.get(number)
    if found is None:
        found = _hours[number] = strftime("%Y-%m-%d-%H", gmtime(number * 3600))
    return found

"""Rows of `frames` as Arrow takes them, column by column."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from stomprelay.pipeline.schema import FRAMES

_KINDS: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
FURTHER: Final = (("hour", "string"), ("length", "bigint"), ("reason", "string"))
"""What a row has besides: where it belongs, and, where it is a damage in place of a frame, how long and of what kind
that is. `segment` is the file's path then.
"""
DDL: Final = ", ".join(
    f"`{name}` {kind}"
    for name, kind in [*((column.name, column.kind) for column in FRAMES.columns), *FURTHER]
)
"""The rows' schema in Spark's words."""
SCHEMA: Final = pa.schema(
    [
        *((column.name, _KINDS[column.kind]) for column in FRAMES.columns),
        *((name, _KINDS[kind]) for name, kind in FURTHER),
    ]
)
"""The same in Arrow's."""
_MAP: Final = _KINDS["map<string,string>"]
_US: Final = 1000


def text(values: Sequence[bytes | None]) -> pa.Array:
    """Octets as text; those that are no UTF-8 are spelled out."""
    octets = pa.array(values, pa.binary())
    try:
        return octets.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if each is None else each.decode("utf-8", "backslashreplace") for each in values]
        return pa.array(decoded, pa.string())


def mapping(
    ends: Sequence[int], names: Sequence[bytes], values: Sequence[bytes], nulls: Any = None
) -> pa.Array:
    """Maps, one behind the other; `ends` holds 0 and where each ends. `nulls`: which of them are null."""
    offsets = pa.array(ends, pa.int32())
    return pa.MapArray.from_arrays(offsets, text(names), text(values), type=_MAP, mask=nulls)


def taken(distinct: Sequence[str | None], indices: pa.Array) -> pa.Array:
    """A column of which there are few distinct values."""
    return pc.take(pa.array(distinct, pa.string()), indices)


def times(nanoseconds: pa.Array) -> pa.Array:
    """Nanoseconds since 1970 as timestamps."""
    return pc.divide(nanoseconds, pa.scalar(_US, pa.int64())).cast(_KINDS["timestamp"])


def batch(count: int, columns: dict[str, Any]) -> pa.RecordBatch:
    """The rows; a column that is not named is null in all of them."""
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

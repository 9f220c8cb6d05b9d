"""Rows to Arrow and back."""

import pyarrow as pa

from stomprelay.pipeline import arrows

SCHEMA = arrows.schema([("a", "string"), ("b", "bigint"), ("c", "int"), ("d", "boolean")])


def test_there_and_back() -> None:
    """Nulls included."""
    rows = [("x", 1 << 40, 2, True), (None, None, None, None)]
    batch = arrows.batch(rows, SCHEMA)
    assert batch.schema.field("c").type == pa.int32()
    assert list(arrows.rows([batch, batch])) == [*rows, *rows]

"""Rows to Arrow and back."""

import gc

import pyarrow as pa
import pytest

from stomprelay.pipeline.spark import arrow

SCHEMA = arrow.schema([("a", "string"), ("b", "bigint"), ("c", "int"), ("d", "boolean")])


def test_there_and_back() -> None:
    """Nulls included."""
    rows = [("x", 1 << 40, 2, True), (None, None, None, None)]
    batch = arrow.batch(rows, SCHEMA)
    assert batch.schema.field("c").type == pa.int32()
    assert list(arrow.rows([batch, batch])) == [*rows, *rows]


@pytest.mark.parametrize("before", [True, False])
def test_no_rings_are_looked_for_meanwhile(before: bool) -> None:
    """Afterwards it is as it was, after a failure as well."""

    def fails() -> None:
        with arrow.uncollected():
            assert not gc.isenabled()
            raise LookupError

    was = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(LookupError):
            fails()
        assert gc.isenabled() is before
    finally:
        (gc.enable if was else gc.disable)()

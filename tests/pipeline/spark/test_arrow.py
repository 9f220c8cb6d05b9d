"""Rows and columns to and from Arrow."""

import gc

import pyarrow as pa
import pytest

from stomprelay.pipeline.read import segments
from stomprelay.pipeline.schema import FRAMES
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


def test_the_schema_is_that_of_the_table_and_what_goes_along() -> None:
    """In the same order in both languages."""
    assert segments.SCHEMA.names == [*FRAMES.names, "hour", "length", "reason"]
    assert [each.split("`")[1] for each in segments.DDL.split(", ")] == segments.SCHEMA.names


def test_octets_become_text() -> None:
    """UTF-8 as it is; what is none is spelled out, and nothing else of the column changes."""
    assert arrow.text([b"a", None, "ä€".encode()]).to_pylist() == ["a", None, "ä€"]
    assert arrow.text([b"a", None, b"\xff\xc3\xa4"]).to_pylist() == ["a", None, "\\xffä"]


def test_maps_lie_behind_one_another() -> None:
    """Empty ones and null ones, too."""
    nulls = pa.array([False, False, True, False])
    made = arrow.mapping([0, 2, 2, 2, 3], [b"a", b"b", b"c"], [b"1", b"2", b"3"], nulls)
    assert made.to_pylist() == [[("a", "1"), ("b", "2")], [], None, [("c", "3")]]


def test_times_are_cut_to_microseconds() -> None:
    """As Spark has them."""
    made = arrow.times(pa.array([1_795_248_000_123_456_789], pa.int64()))
    assert made.type == pa.timestamp("us", "UTC")
    assert made.cast(pa.int64()).to_pylist() == [1_795_248_000_123_456]


def test_a_column_that_is_not_named_is_null() -> None:
    """Damages have but a few."""
    made = segments._batch_of(2, {"reason": pa.array(["a", "b"])})
    assert made.schema.equals(segments.SCHEMA)
    assert made.column("ns").to_pylist() == [None, None]
    assert made.column("reason").to_pylist() == ["a", "b"]

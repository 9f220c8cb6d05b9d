"""Which slices a batch writes, and what goes where."""

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.match import slices
from stomprelay.pipeline.match.matching import MatchRow
from stomprelay.pipeline.match.slices import Slice, Touched, bounds, plan

HOURS = ["2026-11-21-08"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice that others are joined to has ten rows, a small one fewer than five."""
    monkeypatch.setattr(slices, "JOINED", 10)
    monkeypatch.setattr(slices, "SMALL", 5)
    monkeypatch.setattr(slices, "MANY", 2)


def _known(**rows: int) -> dict[str, Slice]:
    """Slices that are due one after another."""
    return {name: Slice(count, due, HOURS) for due, (name, count) in enumerate(rows.items())}


def test_what_is_not_touched_stays() -> None:
    """What is left of the others is joined, those that are due first before those due later; new rows stay apart."""
    known = _known(a=9, c=9, b=9, d=9)
    doing = plan("7", known, {"d": 3, "b": 7, "c": 6}, 9)
    assert [*doing.gone] == ["c", "b", "d"]
    assert doing.into == {"c": "7-0000", "b": "7-0000", "d": "7-0001"}
    assert (doing.fresh, doing.made) == (["7-0002"], ["7-0000", "7-0001", "7-0002"])
    assert plan("8", known, {"b": 7}, 2).made == ["8-0000"]
    assert plan("8", known, {"b": 7}, 4).made == ["8-0000", "8-0001"]


def test_small_slices_become_one_before_they_are_many() -> None:
    """Though none of them is touched; large ones stay."""
    assert plan("7", _known(a=2, b=2, c=9), {}, 9).gone == {}
    doing = plan("7", _known(a=2, b=2, c=9, d=4, e=3), {"c": 1}, 9)
    assert doing.into == {"a": "7-0000", "b": "7-0000", "c": "7-0001", "d": "7-0002", "e": "7-0002"}


@pytest.mark.spark
def test_where_many_new_rows_are_cut(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into slices of about as many rows, wherever their times pile up."""
    monkeypatch.setattr(slices, "ROWS", 100)
    times = [*range(100), *[1000 + number for number in range(100)], *range(10**6, 10**6 + 100 * 50, 50)]
    rows = [(int(MatchRow.OPEN), at) for at in times] + [(int(MatchRow.FINAL), 7)] * 500
    found = spark.createDataFrame(rows, "what int, us bigint").selectExpr(
        "what", "timestamp_micros(us) AS seen_at"
    )
    assert [round(bound, -2) for bound in bounds(found)] == [100, 1100]
    assert bounds(found.where("what = 0")) == []


def test_who_is_touched() -> None:
    """A key that a batch has rows for, wherever they stand, and one whose time is over."""
    names = ["match", "due", "slice"]
    kept = pa.RecordBatch.from_arrays(
        [pa.array(["1", "2", "3", "4"]), pa.array([50, 50, 9, 10]), pa.array(["a", "a", "b", "b"])], names
    )
    both = pa.RecordBatch.from_arrays([pa.array(["2", "5"]), pa.array([0, 99]), pa.array([None, "b"])], names)
    more = pa.RecordBatch.from_arrays([pa.array(["4"]), pa.array([0]), pa.array([None], pa.string())], names)
    found = pa.Table.from_batches(Touched(10)([kept, both, more]))
    assert found.column("match").to_pylist() == ["2", "3", "4"]
    assert found.column("slice").to_pylist() == ["a", "b", "b"]
    (found,) = Touched(10)([kept])
    assert found.column("match").to_pylist() == ["3"]

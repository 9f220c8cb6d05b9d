"""Which slices a batch writes, and what goes where."""

import pyarrow as pa
import pytest

from stomprelay.pipeline.match import slices
from stomprelay.pipeline.match.slices import Slice, Touched, dumped, loaded, plan

HOURS = ["2026-11-21-08"]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice has ten rows."""
    monkeypatch.setattr(slices, "ROWS", 10)


def _known(**rows: int) -> dict[str, Slice]:
    return {name: Slice(count, 0, HOURS) for name, count in rows.items()}


def test_what_is_not_touched_stays() -> None:
    """Of what is, the rest goes on with what is new, as far as a slice has room."""
    known = _known(a=9, b=9, c=9, d=9)
    doing = plan("7", known, {"d": 1, "b": 7}, 3, (100, 200))
    assert doing.gone == {"b": known["b"], "d": known["d"]}
    assert doing.into == {"b": "7-0000", "d": "7-0000"}
    assert (doing.fresh, doing.made) == (["7-0001"], ["7-0000", "7-0001"])
    assert plan("8", known, {"b": 7}, 3, (100, 200)).made == ["8-0000"]


def test_a_slice_of_which_nothing_is_left_takes_no_room() -> None:
    """So small ones become one."""
    known = _known(a=9, b=4, c=4, d=9)
    doing = plan("7", known, {"a": 9, "b": 1, "c": 1, "d": 0}, 2, (0, 0))
    assert doing.into == {"a": "7-0000", "b": "7-0000", "c": "7-0000", "d": "7-0001"}
    assert doing.fresh == ["7-0002"]


def test_many_new_rows_are_cut_by_their_time() -> None:
    """About as many in each."""
    doing = plan("0", {}, {}, 25, (100, 129))
    assert doing.fresh == ["0-0000", "0-0001", "0-0002"]
    assert (doing.since, doing.span) == (100, 10)
    assert plan("0", {}, {}, 0, (0, 0)).made == ["0-0000"]


def test_who_is_touched() -> None:
    """A key that a batch has rows for, wherever they stand, and one whose time is over."""
    names = ["hash", "due", "slice"]
    kept = pa.RecordBatch.from_arrays(
        [pa.array([1, 2, 3, 4]), pa.array([50, 50, 9, 10]), pa.array(["a", "a", "b", "b"])], names
    )
    both = pa.RecordBatch.from_arrays([pa.array([2, 5]), pa.array([0, 99]), pa.array([None, "b"])], names)
    more = pa.RecordBatch.from_arrays([pa.array([4]), pa.array([0]), pa.array([None], pa.string())], names)
    found = pa.Table.from_batches(Touched(10)([kept, both, more]))
    assert found.column("hash").to_pylist() == [2, 3, 4]
    assert found.column("slice").to_pylist() == ["a", "b", "b"]
    (found,) = Touched(10)([kept])
    assert found.column("hash").to_pylist() == [3]


def test_from_batch_to_batch() -> None:
    """As JSON has them."""
    known = {"a": Slice(3, 7, HOURS)}
    assert loaded(dumped(known)) == known

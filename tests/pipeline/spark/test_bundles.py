"""Rows and columns to and from Arrow; rows in bundles: split, put together again, and sorted."""

import gc
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.bundles import Bundling, Key, Sorted, opened, part_of

FIELDS = (("name", "string"), ("at", "bigint"), ("place", "string"))
BY: tuple[Key, ...] = ("name", "place", ("at", 1))
Row = tuple[str | None, int | None, str | None]


def _rows(random: Random, count: int = 200) -> list[Row]:
    names, places = ["a", "b", "", "ä", "\U0001f600", "long" * 20], (None, "x", "é", "z")
    ats = (None, *range(9))
    return [(random.choice(names), random.choice(ats), random.choice(places)) for _ in range(count)]


def _batches(rows: list[Row], most: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), most):
        yield arrow.batch(rows[at : at + most], arrow.schema(FIELDS))


def _passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _key(row: Row) -> tuple[Any, ...]:
    name, at, place = row
    return (name or "").encode(), (place or "").encode(), -1 if at is None else at >> 1


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("coded", [(), ("name", "place")])
def test_what_was_together_is_together_and_in_order(parts: int, coded: tuple[str, ...]) -> None:
    """Each part has all rows of its names; nulls are first, and what `Sorted` is not to look at has no order."""
    rows = _rows(Random(parts))
    bundles = list(Bundling("name", parts, coded=coded)(_batches(rows, 7)))
    bundles.sort(key=lambda each: each.column("part")[0].as_py())
    found = list(arrow.rows(Sorted(BY, _passed)(bundles)))
    assert sorted(found, key=repr) == sorted(rows, key=repr)
    names = [row[0] for at, row in enumerate(found) if not at or found[at - 1][0] != row[0]]
    assert len(names) == len({*names})
    for name in names:
        keys = [_key(row) for row in found if row[0] == name]
        assert keys == sorted(keys)


def test_a_name_is_of_the_same_part_in_every_task() -> None:
    """However its column is held."""
    names = pa.array(["a", "b", "a", "c"])
    assert part_of(names, 5).tolist() == part_of(names.dictionary_encode(), 5).tolist()


def test_what_passes_is_not_opened() -> None:
    """It goes on as it came, if it is to be passed on."""
    rows: list[Row] = [("a", 1, None), ("b", 2, None)]
    bundling = Bundling("name", 1, lambda each: pa.compute.equal(each.column(0), "a"))
    bundles = list(bundling(_batches(rows, 10)))
    assert sorted(each.column("passing")[0].as_py() for each in bundles) == [False, True]
    seen: list[Any] = []

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen.extend(arrow.rows(batches))
        yield from ()

    (left,) = Sorted(("name",), look, passes_on=True)(bundles)
    assert seen == [("b", 2, None)]
    assert list(arrow.rows(opened([left]))) == [("a", 1, None)]


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


def test_octets_become_text() -> None:
    """UTF-8 as it is; what is none is spelled out, and nothing else of the column changes."""
    assert arrow.text([b"a", None, "ä€".encode()]).to_pylist() == ["a", None, "ä€"]
    assert arrow.text([b"a", None, b"\xff\xc3\xa4"]).to_pylist() == ["a", None, "\\xffä"]

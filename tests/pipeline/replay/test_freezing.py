"""A selection made fast."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stomprelay.pipeline.replay.selection import Selection, selected
from stomprelay.pipeline.replay.state import Passed, read, write
from stomprelay.pipeline.store.store import Store
from tests.pipeline.replay import archive
from tests.pipeline.replay.archive import send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def messages(path: Path, passed: int = 0) -> list[dict[str, Any]]:
    """All of a file that is not passed over."""
    return [row for batch in read(path, passed) if not isinstance(batch, Passed) for row in batch.to_pylist()]


@pytest.mark.spark
def test_each_connection_has_a_file(spark: "SparkSession", tmp_path: Path) -> None:
    """In it are all messages of its destinations, in their order; what cannot be sent is not there."""
    rows = archive.orders(300, 6)
    # Journals of several relays come in no order.
    rows = [*rows[200:], *rows[:200]]
    rows += [
        send(400, "/queue/d0", b"x", transaction="t"),
        {**send(401, "/queue/d0", b"cut"), "body": b"c"},
        {**send(402, "/queue/d0", b"cut"), "body": b"c"},
        send(403, "***", b"", headers={"destination": "***"}),
        send(404, "/queue/d0", b"x", headers={"token": "***"}),
    ]
    store = Store(spark, str(archive.write(tmp_path / "tables", rows)))
    files = write(selected(store, Selection()), tmp_path / "a place", 3)
    assert sum(count for _, count in files) == 301
    assert 1 < len(files) <= 3
    places: dict[str, set[Path]] = {}
    for path, count in files:
        said = messages(path)
        assert len(said) == count
        assert [row["number"] for row in said] == sorted(row["number"] for row in said)
        for row in said:
            places.setdefault(row["destination"], set()).add(path)
    assert set(places) == {f"/queue/d{number}" for number in range(6)}
    assert all(len(paths) == 1 for paths in places.values())


@pytest.mark.spark
def test_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    """No messages, no files."""
    store = Store(spark, str(archive.write(tmp_path / "tables", archive.orders(3, 1))))
    assert write(selected(store, Selection(where="size < 0")), tmp_path / "a", 2) == []


@pytest.mark.spark
def test_a_query_that_fails(spark: "SparkSession", tmp_path: Path) -> None:
    """In the middle of the work, with Spark's reason."""
    store = Store(spark, str(archive.write(tmp_path / "tables", archive.orders(3, 1))))
    with pytest.raises(ValueError, match="cannot be cast"):
        write(selected(store, Selection(where="headers['kind'] > 1")), tmp_path / "a", 2)


def large(path: Path, count: int, group: int, body: bytes = b"") -> Path:
    """A file with several row groups."""
    table = pa.table({"number": pa.array(range(count)), "body": pa.array([body] * count, pa.binary())})
    pq.write_table(table, path, row_group_size=group, use_dictionary=False)
    return path


@pytest.mark.parametrize("passed", [0, 1, 9, 10, 11, 20, 24, 25])
def test_what_was_sent_is_not_read_again(tmp_path: Path, passed: int) -> None:
    """Groups of rows that are confirmed are passed over; the rest keeps its place."""
    path = large(tmp_path / "part", 25, 10)
    batches = list(read(path, passed))
    assert sum(batch.num_rows for batch in batches) == 25
    whole = sum(isinstance(batch, Passed) for batch in batches)
    assert whole == (3 if passed == 25 else passed // 10)
    rest = [row["number"] for row in messages(path, passed)]
    assert rest == list(range(whole * 10, 25))


def test_large_bodies_come_in_small_batches(tmp_path: Path) -> None:
    """What is in memory is bounded by octets."""
    path = large(tmp_path / "part", 64, 64, b"x" * (1 << 20))
    assert max(batch.num_rows for batch in read(path, 0)) <= 4

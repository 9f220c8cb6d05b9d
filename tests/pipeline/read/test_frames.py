"""Table `frames`."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.read import frames
from stomprelay.pipeline.read.frames import SegmentToRead
from stomprelay.pipeline.read.runs import Segment
from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store.store import Batch, Store
from tests.pipeline import journal_files as made

MIB = 1 << 20


def test_small_segments_share_a_task() -> None:
    """Large ones have their own; the order stays. For few processors tasks are larger, as each writes a file."""
    sizes = {"a": 1, "b": 1, "c": 9, "d": 5, "e": 0}
    arrivals = [SegmentToRead(name, size * MIB) for name, size in sizes.items()]
    assert frames.shared(arrivals, 2) == [("a", "b", "c"), ("d",), ("e",)]
    assert frames.shared([], 2) == []
    many = [SegmentToRead(str(number), 4 * MIB) for number in range(64)]
    assert [len(frames.shared(many, processors)) for processors in (1, 2, 4, 100)] == [4, 4, 8, 64]


@pytest.mark.spark
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_segments_become_rows_and_what_is_bad_goes_to_quarantine(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """Once each, however often the batch is done; the table has the columns that it says, whoever writes its files."""
    heads = [b"SEND\ndestination:/queue/a\nx:y\n\n", b"ACK\nid:7\n\n"]
    block = made.frames(heads, bodies=[(b"b", 1), (b"", 0)])
    good = made.put(tmp_path / "j", made.name(1), made.header(), block)
    torn = made.put(tmp_path / "j", made.name(2), made.header(2), made.frames(heads), made.event("lost")[:-2])
    gone = tmp_path / "j" / made.name(3)
    store = Store(spark, str(tmp_path / "tables"), form)
    batch = Batch(spark, store, 0, Settings(journal=str(tmp_path / "j"), tables=store.root, format=form))
    arrivals = [SegmentToRead(str(path), 1) for path in (good, torn, gone)]
    for _ in range(2):
        assert frames.advance(batch, arrivals) == (4, 2, [])
        told = batch.noted_frames()
        assert told["hours"] == ["2026-11-21-08"]
        assert [Segment(*each)[:4] for each in told["segments"]] == [
            (good.stem, 0, made.START, made.START),
            (torn.stem, 0, made.START, made.START),
            (gone.stem, 0, None, None),
        ]
    rows = store.read("frames")
    assert rows.columns == [*FRAMES.names, "date", "hour", "batch"]
    wanted = [(path.stem, *each) for path in (good, torn) for each in ((0, "SEND"), (1, "ACK"))]
    assert sorted((row.segment, row.number, row.command) for row in rows.collect()) == wanted
    (send,) = rows.where("body IS NOT NULL").collect()
    assert (bytes(send.body), send.headers) == (b"b", {"destination": "/queue/a", "x": "y"})
    bad = {row.segment: row for row in store.read("quarantine").collect()}
    assert bad.keys() == {str(torn), str(gone)}
    assert bad[str(torn)].position == len(made.header(2) + made.frames(heads))


@pytest.mark.spark
def test_a_batch_has_its_own_frames(spark: SparkSession, tmp_path: Path) -> None:
    """As they were written, and no others."""
    store = Store(spark, str(tmp_path / "tables"))
    settings = Settings(journal=str(tmp_path), tables=store.root)
    for number in (0, 1):
        block = made.frames([b"SEND\nreceipt:r-%d\n\n" % number])
        path = made.put(tmp_path, made.name(number + 1), made.header(number + 1), block)
        frames.advance(Batch(spark, store, number, settings), [SegmentToRead(str(path), path.stat().st_size)])
    found = Batch(spark, store, 1, settings).frames()
    assert [(row.receipt, str(row.date), row.hour) for row in found.collect()] == [("r-1", "2026-11-21", 8)]

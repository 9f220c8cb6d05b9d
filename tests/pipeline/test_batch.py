"""One batch."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stomprelay.pipeline.read import frames
from stomprelay.pipeline.read.frames import SegmentFile
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store.store import Batch, Store
from tests.pipeline import journal_files as made

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_batch_has_its_own_frames(spark: "SparkSession", tmp_path: Path) -> None:
    """As they were written, and no others."""
    store = Store(spark, str(tmp_path / "tables"))
    settings = Settings(journal=str(tmp_path), tables=store.root)
    for number in (0, 1):
        block = made.frames([b"SEND\nreceipt:r-%d\n\n" % number])
        path = made.put(tmp_path, made.name(number + 1), made.header(number + 1), block)
        frames.advance(Batch(spark, store, number, settings), [SegmentFile(str(path), path.stat().st_size)])
    found = Batch(spark, store, 1, settings).frames()
    assert [(row.receipt, row.hour) for row in found.collect()] == [("r-1", "2026-11-21-08")]

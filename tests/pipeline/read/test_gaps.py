"""Segments that are missing: rows and words, and that they follow what is there."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.read import gaps
from stomprelay.pipeline.read.frames import SegmentToRead
from stomprelay.pipeline.read.gaps import missing_rows
from stomprelay.pipeline.read.runs import RunGap, Runs, Segment
from stomprelay.pipeline.settings import SECOND, Settings, TimeLimits
from stomprelay.pipeline.store.store import Batch, Store
from tests.pipeline import journal_files as made

RUN = "my-relay-0000000a"


def words(*found: RunGap) -> list[str]:
    """What is told of these gaps."""
    return [row.reason for row in missing_rows("/j", RUN, found, 600)]


def test_a_row() -> None:
    """Its path is that of the first segment, but for the time; nothing of it can be read."""
    (row,) = missing_rows("file:/a%20b/j/", RUN, [RunGap(3, 5)], 600)
    assert row[1:3] == (0, 0)
    assert row.segment.endswith(f"/j/*-{RUN}-000003.journal")
    (row,) = missing_rows("s3a://bucket/j/", RUN, [RunGap(3, 3)], 600)
    assert row.segment == f"s3a://bucket/j/*-{RUN}-000003.journal"


def test_what_is_told() -> None:
    """What is missing, and what it means."""
    what = "of run 0000000a of my-relay"
    why = "messages, sessions and figures of that time may be incomplete"
    assert words(RunGap(3, 3), RunGap(5, 6)) == [
        f"segment 3 {what} is missing: {why}",
        f"segments 5 to 6 {what} are missing: {why}",
    ]
    assert words(RunGap(2, 2, waits=True)) == [
        f"segment 2 {what} is missing: what follows is kept until it comes, for 600 s of the journal's time at most"
    ]
    assert words(RunGap(1, 6)) == [
        f"segments 1 to 6 {what} are missing: what was read of the run begins at segment 7, "
        "the rest may have been removed for its age"
    ]
    late = (
        "came late, after what follows had been read: what is in there is used, "
        "but what was final before may lack it"
    )
    assert words(RunGap(3, 8, (3, 5, 6))) == [
        f"segment 4 {what} is missing: {why}",
        f"segments 7 to 8 {what} are missing: {why}",
        f"segment 3 {what} {late}",
        f"segments 5 to 6 {what} {late}",
    ]


@pytest.mark.spark
def test_rows_follow_what_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """They come with the batch that finds a gap, change with it, and go when it is filled in time."""
    settings = Settings(journal="/j", tables=str(tmp_path))
    store = Store(spark, settings.tables)
    runs = Runs(TimeLimits())
    ends: dict[str, Any] = {"ended": True}

    def batch(number: int, *numbers: int, **changes: Any) -> tuple[list[str], list[str]]:
        """What is told, and what stands in the table afterwards."""
        nonlocal runs
        before = runs.dump()
        found = [
            Segment(f"20261121T080000-{RUN}-{each:06d}", number, each * SECOND, each * SECOND, ended=False)
            for each in numbers
        ]
        found[-1] = found[-1]._replace(**changes)
        told = []
        for _ in range(2):
            runs = Runs.load(before, TimeLimits())
            runs.arrived(found)
            told.append(gaps.advance(Batch(spark, store, number, settings), runs))
        assert told[0] == told[1]
        rows = store.read("quarantine").collect()
        return told[0], sorted(row.reason for row in rows)

    assert batch(0, 1) == ([], [])
    waits = words(RunGap(2, 3, waits=True))
    assert batch(1, 4) == (waits, waits)
    assert batch(2, 2) == (words(RunGap(3, 3, waits=True)),) * 2
    assert batch(3, 3) == ([], [])
    skipped = words(RunGap(5, 6), RunGap(8, 8))
    assert batch(4, 7, 9, **ends) == (skipped, sorted(skipped))
    assert batch(5, 8) == (words(RunGap(8, 8, (8,))), sorted(words(RunGap(5, 6), RunGap(8, 8, (8,)))))
    assert json.loads(runs.dump())[0] == 9 * SECOND


def test_a_copy_is_not_read_again(tmp_path: Path) -> None:
    """Whatever it is called: beside the segment, or in a later batch."""
    block = made.frames([b"SEND\n\n"])
    first, copy = (made.put(tmp_path, name, made.header(), block) for name in (made.name(), "c.journal"))
    files = [SegmentToRead(str(path), path.stat().st_size) for path in (copy, first)]
    runs = Runs(TimeLimits())
    assert gaps.first_of_each(files, runs) == ([files[1]], [files[0]])
    runs.arrived([Segment(first.stem, 0, 1, 2, False)])
    assert gaps.first_of_each(files[:1], runs) == ([], files[:1])
    assert gaps.first_of_each(files[:1], Runs(TimeLimits())) == (files[:1], [])

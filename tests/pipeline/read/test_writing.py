"""Rows to the table's files, without Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from bench import journals
from stomprelay.pipeline.read import segments, writing
from stomprelay.pipeline.read.runs import Segment
from stomprelay.pipeline.read.writing import summed, written
from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.settings import SECOND
from tests.pipeline import journal_files as made

HOUR = 3600 * SECOND
SEND = b"SEND\ndestination:/queue/a\nreceipt:r-%d\n\n"


def told(batches: Iterator[pa.RecordBatch], folder: Path) -> list[dict[str, Any]]:
    """What a task tells, without what is null in it: damages, segments, files as paths below the folder."""
    rows = [row for batch in written(summed(batches), folder) for row in batch.to_pylist()]
    for row in rows:
        if row["file"] is not None:
            row["file"] = Path(row["file"]).relative_to(folder)
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def content(folder: Path) -> list[dict[str, Any]]:
    """The rows in all files, in their order."""
    paths = sorted(folder.rglob("*.parquet"))
    return [row for path in paths for row in parquet.ParquetFile(path).read().to_pylist()]


def test_what_a_task_reads_it_writes(tmp_path: Path) -> None:
    """All rows, with the table's columns, in a file of which it tells."""
    (tmp_path / "j").mkdir()
    world = journals.World(500, relays=1, runs=1, deaths=0, bodies=200, age=1e9)
    truth = journals.make(tmp_path / "j", world)
    (segment,) = (tmp_path / "j").iterdir()
    _, row = told(segments.rows(str(segment)), tmp_path / "t")
    assert row["file"].parent == Path("date=2026-11-21/hour=8")
    assert row.keys() == {"file"}
    rows = [row for batch in segments.rows(str(segment)) for row in batch.to_pylist()]
    found = content(tmp_path / "t")
    assert len(found) == truth.records
    assert found == [{name: row[name] for name in FRAMES.names} for row in rows]


def test_damages_are_told_and_not_written(tmp_path: Path) -> None:
    """Those of a torn segment, and of one of which nothing can be read."""
    torn = made.put(tmp_path, made.name(1), made.header(), made.frames([SEND % 1]), b"torn")
    gone = tmp_path / made.name(2)
    both = (batch for path in (torn, gone) for batch in segments.rows(str(path)))
    first, second, _, file = told(both, tmp_path / "t")
    assert (first["segment"], first["length"]) == (str(torn), 4)
    assert second["segment"] == str(gone)
    assert file.keys() == {"file"}
    assert len(content(tmp_path / "t")) == 1


def test_each_segment_is_told_of(tmp_path: Path) -> None:
    """Its rows, their times, and what its relay says of its run; what no relay writes counts as nothing."""
    said = [
        made.event("journal begun", facts={"within": 30}),
        made.frames([SEND % 1, SEND % 2], made.START + HOUR),
        made.event("journal alive", facts={"within": "soon"}, at=made.START + 2),
        made.event("journal dropped", facts={"frames": 7}, at=made.START + 2),
        made.event("journal dropped", facts={"frames": "many"}, at=made.START + 2),
        made.event("journal ended", facts={"found": 17, "cut": 5}, at=made.START + 3),
        made.event("journal ended", facts={"found": 1 << 63}, at=made.START + 3),
    ]
    paths = [made.put(tmp_path, made.name(1), made.header(), *said)]
    paths.append(made.put(tmp_path, made.name(2), made.header(), made.frames([SEND % 3], made.START)))
    both = (batch for path in paths for batch in segments.rows(str(path)))
    first, second, *_ = (json.loads(row["sums"]) for row in told(both, tmp_path / "t") if "sums" in row)
    start = made.START
    known = Segment(paths[0].stem, 0, start, start + HOUR, True, 17, 30 * SECOND, 8, relay="r1", events=6)
    assert first == [["2026-11-21-08", "2026-11-21-09"], [*known._replace(marks=[], dropped=7, cut=5)]]
    known = Segment(paths[1].stem, 0, start, start, False, rows=1, marks=[], relay="r1")
    assert second == [["2026-11-21-08"], [*known]]


@pytest.mark.parametrize("within", [-1.0, 0, "nan", "inf", "1e10"])
def test_a_promise_that_no_relay_makes_is_none(tmp_path: Path, within: float | str) -> None:
    """Nobody waits for it."""
    said = made.event("journal alive", facts={"within": within})
    path = made.put(tmp_path, made.name(), made.header(), said)
    (row, _) = told(segments.rows(str(path)), tmp_path / "t")
    assert Segment(*json.loads(row["sums"])[1]).within_ns == 0


@pytest.mark.parametrize("most", [1, 2, 100])
def test_each_hour_has_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Few are open at a time, so an hour may get several; no row is lost."""
    monkeypatch.setattr(writing, "OPEN", most)
    hours = [0, 0, 1, 2, 0, 2, 1]
    blocks = [made.frames([SEND % n], made.START + hour * HOUR, number=n) for n, hour in enumerate(hours)]
    path = made.put(tmp_path, made.name(), made.header(), *blocks)
    monkeypatch.setattr(segments, "ROWS", 2)
    rows = told(segments.rows(str(path)), tmp_path / "t")
    for hour in range(3):
        folder = tmp_path / "t" / "date=2026-11-21" / f"hour={8 + hour}"
        wanted = [n for n, each in enumerate(hours) if each == hour]
        assert sorted(row["number"] for row in content(folder)) == wanted
    assert len(rows) == 4 if most == 100 else len(rows) > 4

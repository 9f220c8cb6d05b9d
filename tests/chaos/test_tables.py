"""The pipeline is killed while it makes tables: how these are compared, and when it is killed."""

import random
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaos.tables import batches, compared, differences, files, journal, moments, rows, run, spans, torn
from stomprelay.journal import segment
from stomprelay.journal.block import Damage
from stomprelay.pipeline.schema import QUARANTINE

SEGMENT = {"segment": "a", "position": 0, "length": 10, "reason": "damaged"}


def write(tables: Path, many: Sequence[Mapping[str, Any]], place: str = "batch=000000000") -> Path:
    """Rows of `quarantine`."""
    folder = tables / QUARANTINE.name / place
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in many]), folder / "part-0.parquet")
    return tables


def test_the_same_rows(tmp_path: Path) -> None:
    """In whatever batch they came, and in whatever order."""
    other = {**SEGMENT, "position": 20}
    one = write(tmp_path / "one", [SEGMENT, other])
    two = write(write(tmp_path / "two", [other]), [SEGMENT], "batch=000000001")
    assert differences(one, two, QUARANTINE.name) == (0, 0)
    assert compared(one, two, [QUARANTINE.name]) == []
    assert rows(two, QUARANTINE.name) == 2


def test_rows_that_differ(tmp_path: Path) -> None:
    """One that came twice is one too many."""
    other = {**SEGMENT, "reason": "torn"}
    one = write(tmp_path / "one", [SEGMENT, other])
    two = write(tmp_path / "two", [SEGMENT, SEGMENT])
    assert differences(one, two, QUARANTINE.name) == (1, 1)
    assert compared(one, two, [QUARANTINE.name]) == [
        "two: quarantine: 1 rows are missing, 1 should not be there"
    ]
    assert differences(one, tmp_path / "none", QUARANTINE.name) == (2, 0)


def test_files_that_no_reader_sees(tmp_path: Path) -> None:
    """What a killed writer left behind."""
    tables = write(tmp_path, [SEGMENT])
    write(tables, [SEGMENT, SEGMENT], "_temporary/0")
    write(tables, [SEGMENT], ".staging")
    assert len(files(tables, QUARANTINE.name)) == 1
    assert rows(tables, QUARANTINE.name) == 1


def test_the_journal_is_the_same_each_time(tmp_path: Path) -> None:
    """For a seed; and some of it cannot be read."""
    counts = [journal(tmp_path / name, 1000, 3) for name in ("one", "two")]
    paths = [sorted((tmp_path / name).iterdir()) for name in ("one", "two")]
    assert counts == [len(paths[0])] * 2
    assert [path.read_bytes() for path in paths[0]] == [path.read_bytes() for path in paths[1]]
    damages = [each for path in paths[0] for each in segment.read(path) if isinstance(each, Damage)]
    assert len(damages) == 3
    assert sum(each.torn for each in damages) >= 1


def test_a_batch_that_was_cut_short(tmp_path: Path) -> None:
    """There is something of it; the number of those that are done is in the checkpoint."""
    tables = write(tmp_path, [SEGMENT])
    assert (batches(tables), torn(tables)) == (0, True)
    parts = tables / "_checkpoint" / "parts"
    parts.mkdir(parents=True)
    (parts / "done-0").touch()
    assert (batches(tables), torn(tables)) == (1, False)
    write(tables, [SEGMENT], "batch=000000001")
    assert (batches(tables), torn(tables)) == (1, True)


def test_how_long_it_takes() -> None:
    """What is not spent on batches is the start."""
    said = "batch 0: 6 segments, 1.0 MiB: 9 frames in 4.0 s, 2 frames/s\nbatch 1: 1 segment, 1 B: 1 frame in 2.0 s\nend"
    assert spans(said, 11.0) == (5.0, 3.0)


def test_the_moments() -> None:
    """Most are at its work; the same for a seed."""
    drawn = list(islice(moments(random.Random(5), 10.0, 4.0), 200))
    assert drawn == list(islice(moments(random.Random(5), 10.0, 4.0), 200))
    assert all(0 <= each <= 18 for each in drawn)
    assert 100 < sum(each >= 10 for each in drawn) < 200


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.e2e
def test_the_pipeline_is_killed(tmp_path: Path) -> None:
    """Its tables are those of an undisturbed run, as after kills at chosen points in tests/pipeline/follow."""
    verdict = run(tmp_path, 1, 7, 1500)
    assert not verdict.broken, str(verdict)

"""Small files made few, with kills and readers in between."""

import os
from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.store import compaction
from stomprelay.pipeline.store.compaction import CompactionError, compact, exchange, recover, swap
from stomprelay.pipeline.store.store import Compacted, Store
from tests.pipeline.rows import FRAME, START
from tests.pipeline.rows import write as put

pytestmark = pytest.mark.spark

HOUR = "date=2026-11-21/hour=8"


class Killed(BaseException):
    """In place of SIGKILL: nothing is caught, nothing cleaned up."""


def killed(*_: object, **__: object) -> None:
    """What is called at the moment of the kill."""
    raise Killed


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Store:
    """Tables in a folder with letters that mean something to Hadoop."""
    return Store(spark, str(tmp_path / "tables [1]"))


def write(store: Store, batches: Iterable[int], hours: int = 1, **further: Any) -> None:
    """Some frames and deltas of each batch, in one file for each hour."""
    times = [START + timedelta(hours=n % hours) for n in range(6)]
    for number in batches:
        many = [{"number": number, "seen_at": at, **further} for at in times]
        put(store.root, FRAMES, FRAME, many, number, "seen_at")


def content(store: Store) -> list[tuple[Any, ...]]:
    """The rows of `frames` as readers see them now, read without Spark."""
    found: list[tuple[Any, ...]] = []
    for path in Path(store.root).glob("frames/date=*/hour=*/batch=*/*.parquet"):
        table = pq.ParquetFile(path).read(["number", "text", "command", "seen_at"])
        times = table.column("seen_at").cast(pa.timestamp("us")).cast(pa.int64())
        found += zip(*(column.to_pylist() for column in table.columns[:-1]), times.to_pylist(), strict=True)
    return sorted(found, key=repr)


def files(store: Store) -> dict[str, int]:
    """How many files each folder has."""
    root = Path(store.root) / "frames"
    return dict(Counter(str(path.parent.relative_to(root)) for path in sorted(root.rglob("*.parquet"))))


# ---------------------------------------------------------------- folders that change places


def test_folders_change_places(tmp_path: Path) -> None:
    """In one step where the system can."""
    for name in ("one", "other"):
        (tmp_path / name / f"of-{name}").mkdir(parents=True)
    if not exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this system cannot exchange folders")
    assert os.listdir(tmp_path / "one") == ["of-other"]
    assert os.listdir(tmp_path / "other") == ["of-one"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        exchange(tmp_path / "one", tmp_path / "nowhere")


def test_without_exchange_in_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old folder is kept aside, from where `recover` puts it back when the second step did not happen."""
    monkeypatch.setattr(compaction, "exchange", lambda *_: False)
    hour, work = tmp_path / "frames" / HOUR, tmp_path / "_compact" / "frames" / HOUR
    (hour / "batch=old").mkdir(parents=True)
    (work / "new" / "batch=new").mkdir(parents=True)
    with monkeypatch.context() as patch:
        rename = Path.rename
        patch.setattr(Path, "rename", lambda self, to: killed() if self.name == "new" else rename(self, to))
        with pytest.raises(Killed):
            swap(work / "new", hour, work / "old")
    assert not hour.exists()
    recover(tmp_path)
    assert os.listdir(hour) == ["batch=old"]
    assert not (tmp_path / "_compact").exists()
    (work / "new" / "batch=new").mkdir(parents=True)
    swap(work / "new", hour, work / "old")
    assert os.listdir(hour) == ["batch=new"]
    recover(tmp_path)
    assert os.listdir(hour) == ["batch=new"]


# ---------------------------------------------------------------- tables


def test_an_hour_becomes_one_file(store: Store) -> None:
    """With the same rows, in order of time; other hours and young ones stay as they are."""
    write(store, range(6), hours=2)
    before = content(store)
    assert compact(store, "2026-11-21-09") == [Compacted(f"frames/{HOUR}", 6, 1)]
    assert files(store) == {
        f"{HOUR}/batch=000000000-000000005": 1,
        **{f"date=2026-11-21/hour=9/batch={number:09d}": 1 for number in range(6)},
    }
    assert content(store) == before
    assert store.read("frames").count() == 36
    assert compact(store, "2026-11-21-09") == []
    assert sorted(os.listdir(store.root)) == ["frames"]


def test_later_batches_join_later(store: Store) -> None:
    """When they are many; the batch that Spark may do again is not touched, nor is the hour while it has open rows."""
    write(store, range(5))
    assert compact(store, "2026-11-21-09", below=5) == [Compacted(f"frames/{HOUR}", 5, 1)]
    write(store, range(5, 8))
    assert compact(store, "2026-11-21-09", below=8) == []
    write(store, [8, 9])
    (Path(store.root) / "frames" / HOUR / "batch=open-1").mkdir()
    assert compact(store, "2026-11-21-09", below=9) == []
    (Path(store.root) / "frames" / HOUR / "batch=open-1").rmdir()
    assert compact(store, "2026-11-21-09", below=9) == [Compacted(f"frames/{HOUR}", 6, 2)]
    assert files(store) == {f"{HOUR}/batch=000000000-000000008": 1, f"{HOUR}/batch=000000009": 1}
    assert store.read("frames").count() == 60


# ---------------------------------------------------------------- kills and readers


@pytest.mark.parametrize("moment", ["_write", "_link", "sync_path", "swap", "shutil.rmtree"])
def test_killed(store: Store, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Whenever it is, the table has all rows once, and the next time finishes what was begun."""
    write(store, range(6))
    if moment == "_link":
        write(store, [6], text="x" * 100_000)
    before = content(store)
    with monkeypatch.context() as patch:
        if moment == "_link":
            sizes = sorted(path.stat().st_size for path in Path(store.root).rglob("*.parquet"))
            patch.setattr(compaction, "SMALL", sizes[-1])
        if moment == "shutil.rmtree":
            patch.setattr(compaction, "recover", lambda _: None)
            patch.setattr("stomprelay.pipeline.store.compaction.shutil.rmtree", killed)
        else:
            patch.setattr(compaction, moment, killed)
        with pytest.raises(Killed):
            compact(store, "2026-11-21-09")
    assert content(store) == before
    compact(store, "2026-11-21-09")
    assert sum(files(store).values()) <= 2
    assert content(store) == before
    assert not (Path(store.root) / "_compact").exists()


def test_what_is_not_the_same_is_not_put_in_place(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted before the old files go."""
    write(store, range(6))
    before = files(store)

    counts = iter([6, 36])
    monkeypatch.setattr(compaction, "_rows", lambda _: next(counts))
    with pytest.raises(CompactionError, match="has 6 rows in place of 36"):
        compact(store, "2026-11-21-09")
    assert files(store) == before


def test_a_reader_that_listed_before_is_told(store: Store) -> None:
    """It reads a file that is gone, and fails; never a part. Who lists afterwards reads all."""
    write(store, range(6))
    listed = store.read("frames")
    compact(store, "2026-11-21-09")
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|FileNotFound|does not exist"):
        listed.collect()
    assert store.read("frames").count() == 36

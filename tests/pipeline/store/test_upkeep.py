"""What is done between batches: old hours removed, and when small files are joined."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store import upkeep
from stomprelay.pipeline.store.store import Batch, Store, StoreError
from stomprelay.pipeline.store.upkeep import alone, expire
from tests.pipeline.rows import FRAME, START, write

pytestmark = pytest.mark.spark

DAY = 24 * 3600


NOW = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Store:
    """Five batches with rows of the hours 08, 10 and 11."""
    store = Store(spark, str(tmp_path))
    for number in range(5):
        many = [{"number": number, "seen_at": START + timedelta(hours=hour)} for hour in (0, 2, 3)]
        write(tmp_path, FRAMES, FRAME, many, number, "seen_at")
    return store


def batch(store: Store, number: int, retain: float | None = None) -> Batch:
    """A batch that is at its end."""
    return Batch(store.spark, store, number, Settings(journal="/nowhere", tables=store.root, retain=retain))


def test_now_and_then(store: Store) -> None:
    """Each so many batches hours are joined that ended two hours before the newest record, but for rows that wait."""
    every = upkeep.EVERY
    for number in (0, every - 2, every):
        assert upkeep.after(batch(store, number), START) == []
    assert upkeep.after(batch(store, every - 1), START, held_back=lambda: "2026-11-21-08") == []
    assert upkeep.after(batch(store, every - 1), START) == ["frames/date=2026-11-21/hour=8: 5 files made 1"]
    assert store.read("frames").count() == 15


def test_what_is_too_old_goes_with_every_batch(store: Store) -> None:
    """By the clock, where it is asked for."""
    later = datetime(2026, 11, 22, 11, 0, tzinfo=UTC)
    assert upkeep.after(batch(store, 0, retain=DAY), later) == ["frames: 2 hours up to 2026-11-21-10 dropped"]
    assert store.hours("frames") == ["2026-11-21-11"]


def test_thorough(store: Store) -> None:
    """After a run all that is old by the clock, the last batch included."""
    found = upkeep.thorough(store, START + timedelta(hours=5), retain=DAY)
    assert found == [f"frames/date=2026-11-21/hour={hour}: 5 files made 1" for hour in (8, 10)]
    assert upkeep.thorough(store, START + timedelta(hours=5)) == []


def _file(root: Path, *folders: str) -> None:
    for folder in folders:
        (root / folder).mkdir(parents=True)
        (root / folder / "part-0.parquet").write_bytes(b"")


def test_hours_go_whole(spark: SparkSession, tmp_path: Path) -> None:
    """Of tables and sums, when they ended for so long; state, quarantine and what is younger stay."""
    keep = [
        "frames/date=2026-11-20/hour=8/batch=000000001",
        "traffic/date=2026-11-21/hour=8",
        "_sums/traffic/hour=2026-11-20-08/batch=000000001",
        "_state/open/batch=000000001",
        "quarantine/batch=000000000",
    ]
    go = [
        "frames/date=2026-11-20/hour=7/batch=000000000",
        "frames/date=2026-11-20/hour=7/batch=000000001",
        "messages/date=2026-10-01/hour=23/batch=open",
        "stuck/date=2026-11-20/hour=7",
        "traffic/date=2026-11-20/hour=7",
        "failovers/date=2025-12-31/hour=23",
        "_sums/traffic/hour=2026-11-20-07/batch=000000000",
        "_sums/failovers/hour=2026-11-20-06/batch=000000000",
    ]
    _file(tmp_path, *keep, *go)
    store = Store(spark, str(tmp_path))
    last = {name: ["2026-11-20-07"] for name in ("frames", "stuck", "traffic")}
    older = {"messages": ["2026-10-01-23"], "failovers": ["2025-12-31-23"]}
    assert expire(store, NOW, DAY) == {**last, **older}
    left = {str(file.parent.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet")}
    assert left == set(keep)
    assert expire(store, NOW, DAY) == {}
    assert expire(store, NOW + timedelta(hours=1), DAY) == {"frames": ["2026-11-20-08"]}


def test_one_run_is_alone(tmp_path: Path) -> None:
    """The second is told until the first is done, as is why a folder cannot be made; another machine has no lock."""
    folder = tmp_path / "a" / "b"
    with alone(folder), pytest.raises(StoreError, match="another run is at work"), alone(folder):
        pytest.fail("two at once")
    with alone(folder), alone(None), alone(None):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"), alone(tmp_path / "file" / "x"):
        pytest.fail("no folder")

"""Old hours dropped, whole."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stomprelay.pipeline.store.store import Store
from stomprelay.pipeline.store.upkeep import expire, hour_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)
DAY = 24 * 3600


def test_the_name_of_an_hour() -> None:
    """As folders are named."""
    assert hour_name(datetime(2026, 1, 2, 3, 59, 59, tzinfo=UTC)) == "2026-01-02-03"


def _file(root: Path, *folders: str) -> None:
    for folder in folders:
        (root / folder).mkdir(parents=True)
        (root / folder / "part-0.parquet").write_bytes(b"")


@pytest.mark.spark
def test_hours_go_whole(spark: "SparkSession", tmp_path: Path) -> None:
    """Of tables and deltas, when they ended for so long; state, quarantine and what is younger stay."""
    keep = [
        "frames/hour=2026-11-20-08/batch=000000001",
        "traffic/hour=2026-11-21-08",
        "_deltas/traffic/hour=2026-11-20-08/batch=000000001",
        "_state/open/batch=000000001",
        "quarantine/batch=000000000",
    ]
    go = [
        "frames/hour=2026-11-20-07/batch=000000000",
        "frames/hour=2026-11-20-07/batch=000000001",
        "messages/hour=2026-10-01-23/batch=open",
        "stuck/hour=2026-11-20-07",
        "traffic/hour=2026-11-20-07",
        "failovers/hour=2025-12-31-23",
        "_deltas/traffic/hour=2026-11-20-07/batch=000000000",
        "_deltas/failovers/hour=2026-11-20-06/batch=000000000",
    ]
    _file(tmp_path, *keep, *go)
    store = Store(spark, str(tmp_path))
    assert expire(store, NOW, DAY) == {
        "frames": ["2026-11-20-07"],
        "messages": ["2026-10-01-23"],
        "stuck": ["2026-11-20-07"],
        "traffic": ["2026-11-20-07"],
        "failovers": ["2025-12-31-23"],
    }
    left = {str(file.parent.relative_to(tmp_path)) for file in tmp_path.rglob("*.parquet")}
    assert left == set(keep)
    assert expire(store, NOW, DAY) == {}
    assert expire(store, NOW + timedelta(hours=1), DAY) == {"frames": ["2026-11-20-08"]}


@pytest.mark.spark
def test_a_folder_half_removed_is_not_read(spark: "SparkSession", tmp_path: Path) -> None:
    """An hour is taken out of the table before any of its files is removed; what a kill leaves, the next run sweeps."""
    _file(tmp_path, "_dropped/frames-hour=2026-11-20-07/batch=000000000", "frames/hour=2026-11-20-08/batch=0")
    store = Store(spark, str(tmp_path))
    assert store.hours("frames") == ["2026-11-20-08"]
    store.remove_leftovers()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frames"]


@pytest.mark.spark
def test_a_format_with_a_log_of_its_own_is_left_alone(spark: "SparkSession", tmp_path: Path) -> None:
    """Its folders are not ours to remove; the deltas are."""
    _file(tmp_path, "frames/hour=2026-11-20-07", "_deltas/traffic/hour=2026-11-20-07/batch=000000000")
    assert expire(Store(spark, str(tmp_path), "delta"), NOW, DAY) == {}
    assert [path.name for path in tmp_path.rglob("hour=*")] == ["hour=2026-11-20-07"]
    assert (tmp_path / "frames/hour=2026-11-20-07").exists()

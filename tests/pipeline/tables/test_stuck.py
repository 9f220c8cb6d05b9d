"""Who did not answer, and from when to when."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import STUCK
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.sessions.waits import Wait, merged
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store.store import Batch, Store
from stomprelay.pipeline.tables.episodes import advance_stuck, rows_of, stuck
from tests.pipeline.rows import SECOND, START_NS, STUCK_AT, STUCK_WHO, told

pytestmark = pytest.mark.spark

WHO = (*STUCK_WHO.values(), *STUCK_AT.values())
USUAL = Wait._make((*WHO, 0, 0, 0, 1, "acked", False, True))


def wait(since: int, until: int, **further: Any) -> Wait:
    """From when to when, in seconds after the start."""
    since_ns, until_ns = START_NS + since * SECOND, START_NS + until * SECOND
    made = USUAL._replace(since_ns=since_ns, until_ns=until_ns, age_ns=until_ns - since_ns)
    return made._replace(**further)


def going(since: int, now: int, **further: Any) -> Wait:
    """One that goes on."""
    return wait(since, now, outcome=None, going=True, final=False, **further)


class Batches:
    """Batches of waits, as `messages` leaves them."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.store = Store(spark, str(root))
        self.settings = Settings(journal="/nowhere", tables=str(root))

    def batch(self, number: int, many: Sequence[Wait]) -> Batch:
        """Done, by `stuck`."""
        folder = self.root / "_state" / "kept" / f"slice={number:09d}-said{int(SessionRow.WAIT)}"
        if many:
            folder.mkdir(parents=True, exist_ok=True)
            rows = [{"match": one.session, "turn": 0, "text": json.dumps(one)} for one in many]
            kinds = pa.schema([("match", pa.string()), ("turn", pa.int32()), ("text", pa.string())])
            pq.write_table(pa.Table.from_pylist(rows, kinds), folder / "part-0.parquet")
        batch = Batch(self.spark, self.store, number, self.settings)
        advance_stuck(batch)
        return batch

    def table(self, *columns: str) -> list[tuple[Any, ...]]:
        """Its rows."""
        return told(self.store.read("stuck"), columns or ["since", "until", "deliveries", "outcome"])


def test_each_cell(spark: SparkSession) -> None:
    """Waits that overlap or touch are one episode, others are not, nor those of another subscription or broker."""
    many = [
        wait(0, 90, client="old", destination="/queue/b"),
        wait(80, 170, deliveries=2, outcome="nacked"),
        wait(170, 240, outcome="returned"),
        wait(100, 161),
        going(300, 4000, deliveries=5),
        wait(290, 370, broker="b:61613"),
        wait(230, 310, subscription=None),
    ]
    found = rows_of(spark, STUCK, [stuck(each) for each in merged(many)])
    assert found.columns == STUCK.names

    at = "2026-11-21 08:"
    assert told(found) == [
        (f"{at}00:00", f"{at}04:00", *WHO, 90_000_000, 5, "returned"),
        (f"{at}03:50", f"{at}05:10", *WHO[:3], None, *WHO[4:], 80_000_000, 1, "acked"),
        (f"{at}04:50", f"{at}06:10", *WHO[:6], "b:61613", 80_000_000, 1, "acked"),
        (f"{at}05:00", None, *WHO, 3_700_000_000, 5, None),
    ]


def test_an_episode_over_batches_and_hours(spark: SparkSession, tmp_path: Path) -> None:
    """It is one row, in the hour in which it began, until it ends and after; other hours stay as they are."""
    batches = Batches(spark, tmp_path)
    batches.batch(0, [wait(-7000, -6900, session="before"), going(3500, 3590)])
    first = ("2026-11-21 06:03:20", "2026-11-21 06:05:00", 1, "acked")
    assert batches.table() == [first, ("2026-11-21 08:58:20", None, 1, None)]
    untouched = [*(tmp_path / "stuck" / "date=2026-11-21" / "hour=6").iterdir()]
    batches.batch(1, [going(3500, 9000, deliveries=2), wait(7300, 7400, session="other")])
    batches.batch(2, [])
    assert batches.table()[1:] == [
        ("2026-11-21 08:58:20", None, 2, None),
        ("2026-11-21 10:01:40", "2026-11-21 10:03:20", 1, "acked"),
    ]
    for _ in range(2):
        batches.batch(3, [wait(3500, 9100, deliveries=2, outcome="returned"), wait(9050, 9200)])
        assert sorted(batches.table("hour", "until", "deliveries", "outcome", "age_us"))[1:] == [
            (8, "2026-11-21 10:33:20", 3, "acked", 5_600_000_000),
            (10, "2026-11-21 10:03:20", 1, "acked", 100_000_000),
        ]
    assert [*(tmp_path / "stuck" / "date=2026-11-21" / "hour=6").iterdir()] == untouched


def test_an_episode_that_joins_two(spark: SparkSession, tmp_path: Path) -> None:
    """What a segment that came late tells; an hour that has nothing any more is gone."""
    batches = Batches(spark, tmp_path)
    batches.batch(0, [wait(3000, 3100), wait(3700, 3800)])
    assert batches.store.hours("stuck") == ["2026-11-21-08", "2026-11-21-09"]
    batches.batch(1, [wait(3050, 3750)])
    assert batches.table() == [("2026-11-21 08:50:00", "2026-11-21 09:03:20", 3, "acked")]
    assert batches.store.hours("stuck") == ["2026-11-21-08"]

"""What the bench asks Spark and DuckDB, of tables with all that is odd in them."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.aggregates import measure
from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.tables import flow, latency, traffic
from stomprelay.pipeline.tables.rollup import hour_of
from tests.pipeline.rows import FRAME, START, delivery, rows
from tests.pipeline.tables.test_rollup import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.deep
@pytest.mark.spark
def test_both_answer_alike(spark: "SparkSession", tmp_path: Path) -> None:
    """Traffic, latency and flow of a few frames and messages with all that is odd in them; and the tables agree."""
    pytest.importorskip("duckdb")
    tables = Tables(spark, tmp_path / "it's")
    store = tables.store
    frames = rows(
        spark,
        FRAMES,
        FRAME,
        [
            {
                "seen_at": START + timedelta(seconds=9 * n),
                "size": n,
                "destination": None if n % 7 == 0 else "/queue/a",
            }
            for n in range(30)
        ]
        + [{"kind": "event", "event": "error", "direction": None, "command": None, "side": None}],
    )
    store.append("frames", 0, frames.withColumn("hour", hour_of(frames["seen_at"])))
    batch = tables.messages(
        0,
        [
            {
                "seen_at": (sent := START + timedelta(seconds=n)),
                "sent_at": None if n % 11 == 0 else sent,
                "size": None if n % 5 == 0 else n,
                "receipt_us": None if n % 3 == 0 else n * 37 - 100,
                "ack_us": n * n * n,
                "number": n,
                "deliveries": [
                    delivery("bcd"[(n * k) % 3], sent + timedelta(milliseconds=k * 7 + n))
                    for k in range(n % 4)
                ],
            }
            for n in range(90)
        ],
    )
    for module in (traffic, latency, flow):
        module.advance(batch)
    answers = measure(spark, store.root, 1)
    assert [answer.name for answer in answers] == ["traffic", "latency", "flow"]
    assert all(answer.cells and len(answer.spark) == len(answer.duckdb) == 1 for answer in answers)

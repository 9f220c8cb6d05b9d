"""Who sends to whom: messages by producer, destination and consumer."""

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from stomprelay.pipeline.schema import FLOW, MESSAGES
from stomprelay.pipeline.tables.rollup import FLOW_SUMS
from tests.pipeline.rows import MESSAGE, START, delivery, rows, told

pytestmark = pytest.mark.spark


def flow(spark: SparkSession, *many: dict[str, Any]) -> DataFrame:
    """The table, of messages."""
    return FLOW_SUMS.rows(FLOW_SUMS.summed(rows(spark, MESSAGES, MESSAGE, many)))


def after(us: int, client: str | None = "bob", session: str = "c1") -> tuple[Any, ...]:
    """A delivery so long after the SEND."""
    return delivery(client, START + timedelta(microseconds=us), session)


def test_each_cell(spark: SparkSession) -> None:
    """A queue's message, a topic's with two consumers, and one of another producer, beside hand-made sums."""
    table = flow(
        spark,
        {"deliveries": [after(1000)], "size": 10},
        {"deliveries": [after(2001)], "size": 20},
        {"destination": "/topic/t", "size": 5, "deliveries": [after(100), after(300, "carol", "c2")]},
        {"producer": "dave", "size": 7, "deliveries": [after(50)]},
    )
    assert told(table) == sorted(
        [
            ("2026-11-21-08", "alice", "/queue/a", "bob", 2, 2, 30, 1500, 2001),
            ("2026-11-21-08", "alice", "/topic/t", "bob", 1, 1, 5, 100, 100),
            ("2026-11-21-08", "alice", "/topic/t", "carol", 1, 1, 5, 300, 300),
            ("2026-11-21-08", "dave", "/queue/a", "bob", 1, 1, 7, 50, 50),
        ],
        key=repr,
    )
    assert table.columns == ["hour", *FLOW.names]


def test_messages_nobody_got(spark: SparkSession) -> None:
    """They have no consumer and no time; what was sent counts."""
    assert told(flow(spark, {"size": 10}, {"size": 5})) == [
        ("2026-11-21-08", "alice", "/queue/a", None, 2, 0, 15, None, None)
    ]


def test_redelivered(spark: SparkSession) -> None:
    """Twice to one consumer is one message, its octets went twice; what another one got counts from the SEND on."""
    table = flow(spark, {"deliveries": [after(100), after(900), after(5000, "carol", "c2"), after(7000)]})
    assert told(table) == [
        ("2026-11-21-08", "alice", "/queue/a", "bob", 1, 3, 30, 100, 100),
        ("2026-11-21-08", "alice", "/queue/a", "carol", 1, 1, 10, 5000, 5000),
    ]


def test_no_send_was_seen(spark: SparkSession) -> None:
    """Then there is neither a producer nor a time, and a size that is not known is none."""
    table = flow(spark, {"producer": None, "sent_at": None, "size": None, "deliveries": [after(100)]})
    assert told(table) == [("2026-11-21-08", None, "/queue/a", "bob", 1, 1, 0, None, None)]


def test_a_consumer_without_a_name(spark: SparkSession) -> None:
    """It goes by its session, so that it is not taken for nobody."""
    table = flow(spark, {"deliveries": [after(1, None), after(2, None), after(3, None, "c2")]}, {})
    assert told(table, ["consumer", "messages", "deliveries"]) == [("c1", 1, 2), ("c2", 1, 1), (None, 1, 0)]


def test_means_of_negative_times(spark: SparkSession) -> None:
    """A clock that was set back makes a delivery come before its SEND."""
    table = flow(spark, {"deliveries": [after(-500)]}, {"deliveries": [after(100)]})
    assert told(table, ["delivery_mean_us", "delivery_max_us"]) == [(-200, 100)]

"""A query whose broker dies under it, real brokers behind a relay."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import KILL, failover, fleet, nodes
from tests.pipeline.stomp.rig import until
from tests.pipeline.stomp.test_datasource import fill, reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.broker, pytest.mark.deep]

LOGIN = 'login = "guest"\npasscode = "guest"'
HALF = 400


def test_a_query_outlives_its_brokers(
    spark: "SparkSession", rabbitmq: Broker, activemq: Broker, queue: str, tmp_path: Path
) -> None:
    """One broker is killed in the middle of a query, which goes on with the other, and returns to what the first one
    still has: every message is in the table, and once after dropDuplicates.
    """
    with nodes(rabbitmq, activemq) as members:
        options = "randomize=false&priorityBackup=true&maxReconnectDelay=500"
        with fleet(tmp_path, members, failover(members, options, more=LOGIN)) as running:
            uri = f"failover:(tcp://127.0.0.1:{running.port})"
            fill(f"failover:(tcp://127.0.0.1:{rabbitmq.port})", queue, 0, HALF)
            fill(f"failover:(tcp://127.0.0.1:{activemq.port})", queue, HALF, 2 * HALF)
            rows = reading(
                spark, uri, queue, tmp_path, maxMessagesPerTrigger=50, groupSize=20, prefetch=40, backlog=200
            )
            query = (
                rows.selectExpr("headers['n'] AS key", "message_id")
                .writeStream.format("parquet")
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .start(str(tmp_path / "table"))
            )
            try:
                until(lambda: any(each["numInputRows"] for each in query.recentProgress), 12000)
                first = running.serving
                KILL.inject(first)
                KILL.begin_healing(first)
                first.heal()

                def keys() -> list[str]:
                    assert query.exception() is None
                    table = spark.read.schema("key string, message_id string").parquet(
                        str(tmp_path / "table")
                    )
                    return [row.key for row in table.collect()]

                until(lambda: len(set(keys())) == 2 * HALF, 1200)
            finally:
                query.stop()
            found = keys()
            assert set(found) == {str(number) for number in range(2 * HALF)}
            assert running.counted("brokers_lost") >= 1

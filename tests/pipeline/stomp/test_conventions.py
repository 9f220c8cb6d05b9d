"""What people know from Spark's other sources, and above all from Kafka's, holds for `format("stomp")`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.brokers import Broker
from tests.pipeline.stomp.test_datasource import drain, fill, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.fixture
def uri(memory: Broker) -> str:
    """Name the embedded broker."""
    return f"failover:(tcp://127.0.0.1:{memory.port})"


def loaded(spark: "SparkSession", uri: str, queue: str, folder: Path, **options: Any) -> "DataFrame":
    """Read a queue in batch."""
    reader = spark.read.format("stomp").option("subscribe", queue).option("idleMs", 300)
    return reader.options(spool=str(folder / "spool"), **options).load(uri)


@pytest.mark.ci
def test_a_dataframe_has_the_same_rows_in_every_scan(
    spark: "SparkSession", uri: str, queue: str, tmp_path: Path
) -> None:
    """Joined with itself and filtered, while more comes. That is for the next one, which has the old rows, too, if
    they are wanted.
    """
    fill(uri, queue, 0, 12)
    rows = loaded(spark, uri, queue, tmp_path, includeHeaders="false")
    assert "headers" not in rows.columns
    assert {bytes(row.body) for row in rows.collect()} == {b"%d" % number for number in range(12)}
    assert rows.alias("a").join(rows.alias("b"), "sequence").count() == 12
    fill(uri, queue, 12, 15)
    assert rows.where("sequence >= 5").count() == 7
    assert loaded(spark, uri, queue, tmp_path).count() == 3
    assert loaded(spark, uri, queue, tmp_path, startingOffsets="earliest").count() == 15
    assert rows.count() == 12


def test_a_mistyped_option_is_named_in_what_spark_says(
    spark: "SparkSession", uri: str, queue: str, tmp_path: Path
) -> None:
    """Not the option that is missing by it; and Kafka's own are told what is there instead."""
    for name, said in (
        ("subscrib", 'option subscrib: unknown option; did you mean "subscribe"'),
        ("startingTimestamp", "option startingtimestamp: a broker finds no messages by their time"),
    ):
        with pytest.raises(Exception, match=said):
            spark.read.format("stomp").option(name, queue).option("spool", str(tmp_path)).load(uri)


@pytest.mark.deep
def test_lag_and_unacknowledged_are_in_the_progress(
    spark: "SparkSession", uri: str, queue: str, tmp_path: Path
) -> None:
    """Of the source, beside the offsets; a sink has sent and confirmed its rows when Spark reports a batch."""
    fill(uri, queue, 0, 10)
    rows = reading(spark, uri, queue, tmp_path, maxOffsetsPerTrigger=4, ack="commit")
    query = (
        rows.writeStream.format("stomp")
        .option("destination", f"{queue}-out")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(uri)
    )
    query.awaitTermination()
    seen = [each for each in query.recentProgress if each["numInputRows"]]
    latest = [json.loads(each["sources"][0]["latestOffset"]) for each in seen]
    assert [each["lag"] for each in latest] == [6, 2, 0]
    assert [each["unacknowledged"] for each in latest] == [10, 6, 2]
    assert [each["r0"] for each in latest] == [10, 10, 10]
    assert [json.loads(each["sources"][0]["endOffset"]) for each in seen] == [
        {"r0": 4},
        {"r0": 8},
        {"r0": 10},
    ]
    assert [each["sink"]["numOutputRows"] for each in seen] == [4, 4, 2]


@pytest.mark.deep
def test_a_stream_in_complete_mode_sends_each_result(
    spark: "SparkSession", uri: str, queue: str, tmp_path: Path
) -> None:
    """As to Kafka; Spark itself refuses to send updates alone."""
    fill(uri, queue, 0, 4)
    rows = reading(spark, uri, queue, tmp_path, maxOffsetsPerTrigger=2).groupBy().count()
    sending = rows.selectExpr("cast(count as string) as body").writeStream.format("stomp")
    sending = sending.option("destination", f"{queue}-out").trigger(availableNow=True)
    refused = sending.option("checkpointLocation", str(tmp_path / "refused")).outputMode("update")
    with pytest.raises(Exception, match="Update"):
        refused.start(uri).awaitTermination()
    sending.option("checkpointLocation", str(tmp_path / "complete")).outputMode("complete")
    sending.start(uri).awaitTermination()
    assert [body for body, _ in drain(uri, f"{queue}-out", 2)] == [b"2", b"4"]

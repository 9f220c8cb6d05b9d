"""`format("stomp")` in Spark, on the embedded broker: what people know from Spark's other sources, and above all from
Kafka's, holds for it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import pyspark_stomp
from stomprelay.pipeline.stomp.client import Client
from stomprelay.pipeline.stomp.datasource import StompDataSource
from stomprelay.pipeline.stomp.options import ConnectionOptions, GivenOptions
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.names import RECEIPT
from tests.pipeline.stomp.rig import told

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

SECRET = "s3cr3t-passcode"


def client(uri: str) -> Client:
    """Connect to a broker."""
    given = GivenOptions({"uri": uri, "login": "guest", "password": "guest"})
    made = ConnectionOptions.read(given, {}).client("test")
    made.connect(60)
    return made


def fill(uri: str, queue: str, first: int, end: int) -> None:
    """Send messages whose bodies are numbers, and wait until the broker has confirmed each: RabbitMQ, killed within a
    second or two, has lost those whose receipt nobody asked for.
    """
    head = b"SEND\ndestination:%b\nn:%d\npersistent:true\nreceipt:%d\n\n%d\0"
    with client(uri) as made:
        for number in range(first, end):
            made.send(head % (queue.encode(), number, number, number))
        assert [frame.command for frame in told(made, end - first)] == [RECEIPT] * (end - first)
        made.disconnect(60)


def drain(uri: str, queue: str, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Take so many messages: body and headers."""
    with client(uri) as made:
        made.subscribe(b"0", queue.encode(), {})
        found = told(made, count)
        made.acknowledge({b"0": found[-1].raw(b"ack") or b""})
        made.disconnect(60)
    return [(frame.payload, dict(frame.headers(V1_2))) for frame in found]


@dataclass
class Place:
    """A queue of the embedded broker, and a folder for what is made of it."""

    spark: SparkSession
    uri: str
    queue: str
    folder: Path

    def fill(self, first: int, end: int) -> None:
        """Send messages whose bodies are numbers."""
        fill(self.uri, self.queue, first, end)

    def reading(self, **options: Any) -> DataFrame:
        """Read it as a stream."""
        reader = self.spark.readStream.format("stomp").option("destination", self.queue).option("idleMs", 700)
        reader = reader.option("login", "guest").option("password", "guest")
        return reader.options(**{"spool": self.folder / "spool", **options}).load(self.uri)

    def loaded(self, **options: Any) -> DataFrame:
        """Read it in batch."""
        reader = self.spark.read.format("stomp").option("subscribe", self.queue).option("idleMs", 300)
        return reader.options(spool=str(self.folder / "spool"), **options).load(self.uri)


@pytest.fixture
def place(spark: SparkSession, uri: str, queue: str, tmp_path: Path) -> Place:
    """Give one."""
    return Place(spark, uri, queue, tmp_path)


def written(rows: DataFrame, folder: Path) -> list[tuple[int, int]]:
    """Run a query over what there is now, into a table; return its new rows: number and sequence."""
    spark = rows.sparkSession
    query = (
        rows.selectExpr("cast(cast(body as string) as int) as n", "sequence", "receiver")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "table"))
    )
    query.awaitTermination()
    table = spark.read.schema("n int, sequence bigint, receiver int").parquet(str(folder / "table"))
    return sorted((row.n, row.sequence) for row in table.collect())


def test_spark_finds_it_by_the_name_of_its_package() -> None:
    """Nobody has to register it."""
    assert pyspark_stomp.DefaultSource is StompDataSource
    assert StompDataSource.name() == "stomp"


@pytest.mark.parametrize(
    "ack", [pytest.param("commit", marks=pytest.mark.ci), pytest.param("spool", marks=pytest.mark.deep)]
)
def test_a_stream_has_each_message_once_and_goes_on(place: Place, ack: str) -> None:
    """Run after run on one checkpoint, in batches of a limited size; headers and all."""
    place.fill(0, 15)
    rows = place.reading(maxMessagesPerTrigger=10, ack=ack, idleMs=300)
    assert written(rows, place.folder) == [(number, number) for number in range(15)]
    place.fill(15, 20)
    assert written(rows, place.folder) == [(number, number) for number in range(20)]
    columns = (
        "receiver sequence destination message_id subscription content_type headers body redelivered received"
    )
    assert " ".join(place.reading(spool=place.folder / "other").columns) == columns


def test_rows_are_written_and_keyed(spark: SparkSession, uri: str, queue: str) -> None:
    """All arrive, each with a key of its own."""
    rows = spark.range(0, 50, 1, 3).selectExpr(
        "cast(id as string) as body",
        "map('n', cast(id as string)) as headers",
        "if(id % 3 = 0, null, id % 3 = 1) as content_length",
    )
    rows.write.format("stomp").option("destination", queue).option("id", "job").mode("append").save(uri)
    found = drain(uri, queue, 50)
    assert {body for body, _ in found} == {b"%d" % number for number in range(50)}
    assert all(said[b"n"] == body and said[b"persistent"] == b"true" for body, said in found)
    keys = {said[b"relay-key"] for _, said in found}
    assert {key.rpartition(b"/")[0] for key in keys} == {b"job/0/0", b"job/0/1", b"job/0/2"}
    assert len(keys) == 50
    assert all((b"content-length" in said) == (int(body) % 3 != 2) for body, said in found)


@pytest.mark.ci
def test_a_secret_is_in_nothing_that_spark_shows(place: Place) -> None:
    """Plans, what its status store keeps of executions, checkpoints, progress, errors."""
    spark, uri, queue, tmp_path = place.spark, place.uri, place.queue, place.folder
    place.fill(0, 2)
    rows = place.reading(password=SECRET)
    shown = [rows._jdf.queryExecution().toString(), repr(rows)]
    assert "password=*" in shown[0]  # so this is where options are
    query = rows.writeStream.format("stomp").option("destination", queue).option("login", "guest")
    query = query.option("password", SECRET).option("checkpointLocation", str(tmp_path / "checkpoint"))
    started = query.trigger(availableNow=True).start(uri)
    started.awaitTermination()
    jvm: Any = started._jsq
    shown += [str(started.lastProgress), jvm.explainInternal(True)]
    sending = spark.range(1).selectExpr("'x' as body").write.format("stomp").mode("append")
    sending = sending.options(destination=queue, login="guest", password=SECRET)
    sending.save(uri)
    with pytest.raises(Exception, match="refused") as caught:
        sending.save("tcp://127.0.0.1:1")
    shown.append(str(caught.value))
    with pytest.raises(Exception, match="unknown option") as caught:
        sending.option("oops", "1").save(uri)
    shown.append(str(caught.value))
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    plans = [executions.apply(index).physicalPlanDescription() for index in range(executions.size())]
    assert plans
    shown += plans
    for path in tmp_path.rglob("*"):
        if path.is_file():
            shown.append(path.read_bytes().decode("latin-1"))
    assert not [each[:500] for each in shown if SECRET in each]


def test_a_dead_receiver_fails_the_query_and_says_why(spark: SparkSession, tmp_path: Path) -> None:
    """In the exception that whoever waits for the query gets."""
    rows = Place(spark, "tcp://127.0.0.1:1", "/queue/a", tmp_path).reading()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    with pytest.raises(Exception, match="receiver 0 has ended: STOMP session with tcp://127") as caught:
        query.awaitTermination(60)
    assert "connection refused" in str(caught.value)


def test_a_dataframe_has_the_same_rows_in_every_scan(place: Place) -> None:
    """Joined with itself and filtered, while more comes; that is for the next one, which may have the old rows, too."""
    place.fill(0, 12)
    rows = place.loaded(includeHeaders="false")
    assert "headers" not in rows.columns
    assert {bytes(row.body) for row in rows.collect()} == {b"%d" % number for number in range(12)}
    assert rows.alias("a").join(rows.alias("b"), "sequence").count() == 12
    place.fill(12, 15)
    assert rows.where("sequence >= 5").count() == 7
    assert place.loaded().count() == 3
    assert place.loaded(startingOffsets="earliest").count() == 15
    assert rows.count() == 12


def test_a_mistyped_option_is_named_in_what_spark_says(place: Place) -> None:
    """Not the option that is missing by it; and Kafka's own are told what is there instead."""
    for name, said in (
        ("subscrib", 'option subscrib: unknown option; did you mean "subscribe"'),
        ("startingTimestamp", "option startingtimestamp: a broker finds no messages by their time"),
    ):
        with pytest.raises(Exception, match=said):
            place.spark.read.format("stomp").options(**{name: "/queue/a", "spool": "/tmp"}).load(place.uri)


@pytest.mark.deep
def test_lag_and_unacknowledged_are_in_the_progress(place: Place) -> None:
    """Of the source, beside the offsets; of a sink the rows that are confirmed, each with a key of the query's own."""
    place.fill(0, 10)
    rows = place.reading(maxOffsetsPerTrigger=4, ack="commit")
    sending = rows.writeStream.format("stomp").option("destination", f"{place.queue}-out")
    sending = sending.option("checkpointLocation", str(place.folder / "checkpoint")).trigger(
        availableNow=True
    )
    query = sending.start(place.uri)
    query.awaitTermination()
    seen = [each for each in query.recentProgress if each["numInputRows"]]
    latest = [json.loads(each["sources"][0]["latestOffset"]) for each in seen]
    assert [each["lag"] for each in latest] == [6, 2, 0]
    assert [each["unacknowledged"] for each in latest] == [10, 6, 2]
    assert [each["r0"] for each in latest] == [10, 10, 10]
    assert [json.loads(each["sources"][0]["endOffset"])["r0"] for each in seen] == [4, 8, 10]
    assert [each["sink"]["numOutputRows"] for each in seen] == [4, 4, 2]
    found = drain(place.uri, f"{place.queue}-out", 10)
    assert sorted(int(body) for body, _ in found) == list(range(10))
    assert all(said[b"n"] == body for body, said in found)
    keys = {said[b"relay-key"].decode() for _, said in found}
    assert len(keys) == 10
    assert {tuple(key.split("/")[:2]) for key in keys} == {(query.id, "0"), (query.id, "1"), (query.id, "2")}


@pytest.mark.deep
def test_a_stream_in_complete_mode_sends_each_result(place: Place) -> None:
    """As to Kafka; Spark itself refuses to send updates alone."""
    place.fill(0, 4)
    rows = place.reading(maxOffsetsPerTrigger=2).groupBy().count()
    sending = rows.selectExpr("cast(count as string) as body").writeStream.format("stomp")
    sending = sending.option("destination", f"{place.queue}-out").trigger(availableNow=True)
    refused = sending.option("checkpointLocation", str(place.folder / "refused")).outputMode("update")
    with pytest.raises(Exception, match="Update"):
        refused.start(place.uri).awaitTermination()
    sending.option("checkpointLocation", str(place.folder / "complete")).outputMode("complete")
    sending.start(place.uri).awaitTermination()
    assert [body for body, _ in drain(place.uri, f"{place.queue}-out", 2)] == [b"2", b"4"]

"""The `stomp` data source: messages a second into Spark and out of it, with bodies of 200 octets.

In: a broker's messages through the receiver onto the spool (parsed, grouped, synced, acknowledged), by itself; then a
whole query, drained and written as Parquet; then reading the spool again. Out: a warm `frame.write`, every message
confirmed. The broker is the embedded one on the same machine and takes its share of the cores, so each figure is a
lower bound; its own is what a client gets that reads and drops.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.report import figure, median, table

NAME: Final = "connector"
BODY: Final = 200
QUEUE: Final = "/queue/bench"
HEADER: Final = ("stage", "messages", "messages/s", "us each")


@dataclass
class Rate:
    """One stage: how many messages in how many seconds, a run for each round."""

    stage: str
    messages: int
    seconds: list[float]

    @property
    def rate(self) -> float | None:
        """The median of messages a second."""
        return median([self.messages / each for each in self.seconds])


def _timed(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def _client(uri: str) -> Any:
    from stomprelay.pipeline.stomp.options import Connection
    from stomprelay.pipeline.stomp.values import GivenOptions

    return Connection.read(GivenOptions({"uri": uri}), {"confirm": True}).client("bench")


def fill(uri: str, messages: int) -> None:
    """Put so many messages into the queue."""
    head = b"SEND\ndestination:%b\ncontent-length:%d\npersistent:true\nn:%%d\n\n" % (QUEUE.encode(), BODY)
    body = b"x" * BODY
    with _client(uri) as client:
        client.connect(30)
        for first in range(0, messages, 500):
            client.send(
                b"".join([(head % n) + body + b"\0" for n in range(first, min(first + 500, messages))])
            )
        client.disconnect(120)


def empty(uri: str, messages: int) -> None:
    """Read so many messages, and drop them."""
    with _client(uri) as client:
        client.connect(30)
        client.subscribe(b"0", QUEUE.encode(), {})
        got = 0
        while got < messages:
            last = None
            for frame in client.frames(10):
                got += 1
                last = frame
            if last is not None:
                client.acknowledge({b"0": last.raw(b"ack") or b""})
        client.disconnect(60)


def receive(uri: str, folder: Path, messages: int) -> None:
    """Onto a spool, as a query's receiver does it."""
    from stomprelay.pipeline.stomp.options import Source
    from stomprelay.pipeline.stomp.receiver import Receiver

    said = {"uri": uri, "destination": QUEUE, "spool": str(folder)}
    receiver = Receiver(Source.read(said), 0, folder / "r0")
    receiver.start()
    while receiver.spool.end < messages and receiver.failure is None:
        time.sleep(0.002)
    receiver.stop()
    receiver.close()
    if receiver.failure is not None:
        raise RuntimeError(receiver.failure)


def query(spark: Any, uri: str, folder: Path, messages: int) -> None:
    """A query that drains the queue into a table."""
    reader = spark.readStream.format("stomp").option("subscribe", QUEUE).option("idleMs", 300)
    rows = reader.option("spool", str(folder / "spool")).load(uri)
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.trigger(availableNow=True).start(str(folder / "table"))
    running.awaitTermination()
    found = sum(each["numInputRows"] for each in running.recentProgress)
    if found != messages:
        raise RuntimeError(f"{found} rows for {messages} messages")


def reread(spark: Any, folder: Path, messages: int) -> None:
    """The spool's rows once more, in two tasks, to nowhere."""
    from stomprelay.pipeline.stomp.columns import DDL

    wanted = spark.createDataFrame([], DDL).schema
    half, place, said = messages // 2, str(folder / "spool" / "r0"), wanted.json()

    def rows_of(batches: Any) -> Any:
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        from stomprelay.pipeline.stomp.columns import rows
        from stomprelay.pipeline.stomp.spool import read

        schema = to_arrow_schema(StructType.fromJson(json.loads(said)), timezone="UTC")
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for group in read(Path(place), number * half, (number + 1) * half):
                    yield rows(group.batch, 0, group.first, schema)

    frame = spark.range(0, 2, 1, 2).mapInArrow(rows_of, wanted)
    frame.write.format("noop").mode("overwrite").save()


def write(spark: Any, uri: str, messages: int) -> None:
    """A frame, in two tasks, each message confirmed."""
    rows = spark.range(0, messages, 1, 2).selectExpr(f"repeat('x', {BODY}) AS body")
    rows.write.format("stomp").option("destination", QUEUE).mode("append").save(uri)


def measure(directory: Path, rounds: int, messages: int) -> list[Rate]:
    """All stages, warm: the first round of what Spark does is not counted."""
    from stomprelay.pipeline.spark import launch
    from tests.e2e import brokers

    stages = (
        "a client that drops",
        "receiver to spool",
        "query to Parquet",
        "spool read again",
        "frame.write",
    )
    found = [Rate(stage, messages, []) for stage in stages]
    spark = launch.session("bench", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    try:
        for number in range(rounds + 1):
            home = directory / f"source-{number}"
            home.mkdir()
            with brokers.memory(home) as broker:
                uri = f"failover:(tcp://127.0.0.1:{broker.port})"
                fill(uri, messages)
                seconds = [_timed(lambda: empty(uri, messages))]  # noqa: B023 - called at once
                fill(uri, messages)
                seconds.append(_timed(lambda: receive(uri, home / "spooled", messages)))  # noqa: B023
                fill(uri, messages)
                seconds.append(_timed(lambda: query(spark, uri, home, messages)) - 0.3)  # noqa: B023
                seconds.append(_timed(lambda: reread(spark, home, messages)))  # noqa: B023
                seconds.append(_timed(lambda: write(spark, uri, messages)))  # noqa: B023
            if number:
                for rate, taken in zip(found, seconds, strict=True):
                    rate.seconds.append(taken)
    finally:
        launch.stop(spark)
    return found


def report(rates: Sequence[Rate]) -> str:
    """A row for each stage."""
    cells = [
        [
            each.stage,
            f"{each.messages:,}",
            figure(each.rate),
            figure(None if each.rate is None else 1e6 / each.rate),
        ]
        for each in rates
    ]
    return table(f"stomp data source: {BODY}-octet bodies, broker on the same machine", HEADER, cells)


def main() -> None:
    """By itself: `python -m bench.connector`."""
    import sys
    import tempfile

    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="stomprelay-bench-") as directory:
        print(report(measure(Path(directory), 3, messages)))


if __name__ == "__main__":
    main()

"""Spark reads a queue while it is killed, again and again.

Each round starts a driver on the same checkpoint, sends messages meanwhile, and ends the driver's Java and all its
Python by SIGKILL at a random moment. A last round is left to read all that there is. Then each message has to be in the
table, and once after dropDuplicates by its key.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pyarrow.parquet

from bench.machine import ROOT, family
from chaos.verdict import Verdict
from stomprelay.pipeline.stomp.options import ConnectionOptions, GivenOptions
from tests.e2e import brokers
from tests.e2e.child import Child

QUEUE: Final = "/queue/chaos"
MOMENT: Final = 2.5
"""Seconds after its first batch up to which a driver is killed."""


# The driver, in a process of its own


def drive(uri: str, folder: str, ack: str, trigger: str) -> None:
    """Read the queue into a table, until killed, or until there is no more."""
    from stomprelay.pipeline.spark import launch

    spark = launch.session(
        "chaos",
        master="local[2]",
        conf={"spark.sql.shuffle.partitions": "1", "spark.driver.memory": "768m"},
        brief=True,
    )
    reader = spark.readStream.format("stomp").option("subscribe", QUEUE).option("ack", ack)
    reader = reader.option("checkpointLocation", f"{folder}/checkpoint").option("maxOffsetsPerTrigger", 1500)
    rows = reader.option("idleMs", 1500).option("groupSize", 200).option("prefetch", 2000).load(uri)
    keyed = rows.selectExpr(
        "headers['n'] AS key", "receiver", "sequence", "redelivered", "length(body) AS size"
    )
    writer = keyed.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    chosen: dict[str, Any] = (
        {"availableNow": True} if trigger == "once" else {"processingTime": "100 milliseconds"}
    )
    query = writer.trigger(**chosen).start(f"{folder}/table")
    print("started", flush=True)
    seen = -1
    while query.isActive:
        last = query.lastProgress
        if last is not None and last["batchId"] != seen and last["numInputRows"]:
            seen = last["batchId"]
            print("batch", seen, flush=True)
        query.awaitTermination(1)
    if (error := query.exception()) is not None:
        print(f"failed {error}".replace("\n", " ")[:2000], flush=True)
        os._exit(1)
    launch.stop(spark)
    print("done", flush=True)


def result(folder: str) -> tuple[Counter[str], int]:
    """Return how often each key is in the table, and how many batches there were. What files count is in its log."""
    log = Path(folder, "table", "_spark_metadata")
    names = [path for path in log.iterdir() if path.name.split(".")[0].isdigit() and "crc" not in path.name]
    lines = [line for path in names for line in path.read_text().splitlines()[1:]]
    files = {json.loads(line)["path"].removeprefix("file:") for line in lines}
    keys: Counter[str] = Counter()
    for file in files:
        keys.update(pyarrow.parquet.read_table(f"/{file.lstrip('/')}", columns=["key"])["key"].to_pylist())
    return keys, len(list(Path(folder, "checkpoint", "commits").glob("[0-9]*")))


# Whoever kills it


def kill(pid: int) -> None:
    """SIGKILL to a driver, its Java and their Python, all at once as far as one can."""
    known = family(pid)
    for each in [*known, *(other for other in family(pid) if other not in known)]:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is gone afterwards, and with it what Javas had in temporary files when they were killed."""
    with (
        tempfile.TemporaryDirectory(prefix="stomprelay-crash-") as directory,
        patch.dict(os.environ, SPARK_SUBMIT_OPTS=f"-Djava.io.tmpdir={directory}"),
    ):
        yield Path(directory)


def driver(uri: str, folder: Path, ack: str, trigger: str) -> Child:
    """Start a driver."""
    code = "import sys; from chaos.source import drive; drive(*sys.argv[1:])"
    return Child("driver", [sys.executable, "-c", code, uri, str(folder), ack, trigger], cwd=ROOT)


def until(child: Child, word: str) -> None:
    """Wait for a line of a driver that begins so. Raises `AssertionError` when it ends before."""
    while not (line := child.hear()).startswith(word):
        assert not line.startswith("failed"), line
        assert line or not child.exited(0), f"the driver ended:\n{child.last_words}"


def end(child: Child) -> None:
    """SIGKILL to a run, its Java and their Python, unless it has ended."""
    if not child.exited(0):
        kill(child.pid)
    child.stop()


def send(uri: str, first: int, count: int) -> None:
    """Messages with these numbers as their keys, confirmed by the broker."""
    with ConnectionOptions.read(GivenOptions({"uri": uri}), {"confirm": True}).client("chaos") as client:
        client.connect(30)
        for number in range(first, first + count):
            head = b"SEND\ndestination:%b\ncontent-length:200\nn:%d\npersistent:true\n\n" % (
                QUEUE.encode(),
                number,
            )
            client.send(b"%b%b\0" % (head, b"x" * 200))
        client.disconnect(60)


def run(home: Path, rounds: int, seed: int, each: int = 2000, ack: str = "spool") -> Verdict:
    """So many kills, with so many messages for each. `home` is for checkpoint, spool and table."""
    chance = random.Random(seed)
    began, sent = time.monotonic(), 0
    with brokers.memory(home) as broker:
        uri = f"failover:(tcp://127.0.0.1:{broker.port})"
        for number in range(rounds):
            child = driver(uri, home, ack, "always")
            try:
                send(uri, sent, each // 2)
                until(child, "started" if chance.random() < 0.25 else "batch")
                send(uri, sent + each // 2, each - each // 2)
                sent += each
                time.sleep(chance.uniform(0, MOMENT))
            finally:
                end(child)
            print(f"  {time.monotonic() - began:6.1f} s  kill {number + 1}", flush=True)
        child = driver(uri, home, ack, "once")
        try:
            until(child, "done")
        finally:
            end(child)
    keys, batches = result(str(home))
    lost = sum(str(number) not in keys for number in range(sent))
    broken = [f"{lost:,} messages were lost"] if lost else []
    if len(keys) != sent:
        broken.append(f"{len(keys):,} keys of {sent:,} messages")
    return Verdict(
        f"source: {rounds} kills of Java and Python",
        (
            ("messages confirmed by the broker", f"{sent:,}"),
            ("rows of the table", f"{keys.total():,}"),
            ("lost", f"{lost:,}"),
            ("came more than once", f"{keys.total() - len(keys):,}"),
            ("after dropDuplicates by key", f"{len(keys):,}"),
            ("batches", f"{batches:,}"),
        ),
        tuple(broken),
    )

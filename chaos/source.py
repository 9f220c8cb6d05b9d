"""Spark reads a queue while it is killed, again and again: `python -m chaos.source`.

Each round starts a driver on the same checkpoint, sends messages meanwhile, and ends the driver's Java and all its
Python by SIGKILL at a random moment. A last round is left to read all that there is. Then each message has to be in the
table, and once after dropDuplicates by its key. Exit status 1 when one is not.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from stomprelay.pipeline.stomp.options import Connection, GivenOptions
from tests.e2e import brokers

QUEUE: Final = "/queue/chaos"
PATIENCE: Final = 300.0
"""Seconds that a driver may take for anything."""
MOMENT: Final = 2.5
"""Seconds after its first batch up to which a driver is killed."""


@dataclass(frozen=True)
class Outcome:
    """What became of the messages: `rows` of the table, `keys` in it, and keys that are missing."""

    rounds: int
    sent: int
    rows: int
    keys: int
    lost: int
    batches: int
    seconds: float

    @property
    def duplicates(self) -> int:
        """Rows that dropDuplicates removes."""
        return self.rows - self.keys

    def report(self) -> str:
        """For people."""
        return (
            f"{self.rounds} kills, {self.sent:,} messages, {self.batches} batches in {self.seconds:.0f} s: "
            f"{self.rows:,} rows, {self.lost:,} lost, {self.duplicates:,} duplicates, "
            f"{self.keys:,} after dropDuplicates by key"
        )


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
    """How often each key is in the table, and how many batches there were. Without Spark: by what its log says."""
    import json

    import pyarrow.parquet

    keys: Counter[str] = Counter()
    log = Path(folder, "table", "_spark_metadata")
    files: dict[str, None] = {}
    names = [path for path in log.iterdir() if path.name.split(".")[0].isdigit() and "crc" not in path.name]
    for path in sorted(names, key=lambda path: (int(path.name.split(".")[0]), "compact" not in path.name)):
        for line in path.read_text().splitlines()[1:]:
            files[json.loads(line)["path"].removeprefix("file:")] = None
    for file in files:
        keys.update(pyarrow.parquet.read_table(f"/{file.lstrip('/')}", columns=["key"])["key"].to_pylist())
    return keys, len(list(Path(folder, "checkpoint", "commits").glob("[0-9]*")))


# Whoever kills it


def _family(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


def kill(pid: int) -> None:
    """SIGKILL to a driver, its Java and their Python, all at once as far as one can."""
    family = _family(pid)
    for each in [*family, *(other for other in _family(pid) if other not in family)]:
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


class Driver:
    """A driver as a child process; `hear` is its next line."""

    def __init__(self, uri: str, folder: Path, ack: str, trigger: str) -> None:
        code = "import sys; from chaos.source import drive; drive(*sys.argv[1:])"
        root = Path(__file__).resolve().parent.parent
        with (folder / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, uri, str(folder), ack, trigger],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=root,
            )

    def hear(self) -> str:
        """The next line that it says; nothing at its end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def until(self, word: str) -> None:
        """Wait for a line that begins so. Raises `AssertionError` when it ends before."""
        while not (line := self.hear()).startswith(word):
            assert line, "the driver ended"
            assert not line.startswith("failed"), line

    def end(self) -> None:
        """Whatever it does."""
        kill(self.process.pid)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def send(uri: str, first: int, count: int) -> None:
    """Messages with these numbers as their keys, confirmed by the broker."""
    with Connection.read(GivenOptions({"uri": uri}), {"confirm": True}).client("chaos") as client:
        client.connect(30)
        for number in range(first, first + count):
            head = b"SEND\ndestination:%b\ncontent-length:200\nn:%d\npersistent:true\n\n" % (
                QUEUE.encode(),
                number,
            )
            client.send(b"%b%b\0" % (head, b"x" * 200))
        client.disconnect(60)


def run(uri: str, folder: Path, rounds: int, each: int, seed: int, ack: str = "spool") -> Outcome:
    """So many kills, with so many messages for each; the folder is for checkpoint, spool and table."""
    chance = random.Random(seed)
    began, sent = time.monotonic(), 0
    for number in range(rounds):
        driver = Driver(uri, folder, ack, "always")
        try:
            send(uri, sent, each // 2)
            driver.until("started" if chance.random() < 0.25 else "batch")
            send(uri, sent + each // 2, each - each // 2)
            sent += each
            time.sleep(chance.uniform(0, MOMENT))
        finally:
            driver.end()
        print(f"{time.monotonic() - began:6.1f} s  kill {number + 1}", flush=True)
    driver = Driver(uri, folder, ack, "once")
    try:
        driver.until("done")
    finally:
        driver.end()
    keys, batches = result(str(folder))
    lost = sum(str(number) not in keys for number in range(sent))
    return Outcome(rounds, sent, keys.total(), len(keys), lost, batches, time.monotonic() - began)


def main(arguments: Sequence[str]) -> int:
    """Run it against the embedded broker. Answers the exit status."""
    parser = argparse.ArgumentParser(prog="python -m chaos.source", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often the driver is killed (20)")
    parser.add_argument("--messages", type=int, default=2000, help="for each round (2000)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1_000_000), help="another each time; printed"
    )
    parser.add_argument("--ack", choices=("spool", "commit"), default="spool")
    asked = parser.parse_args(arguments)
    print(f"seed {asked.seed}, ack={asked.ack}", flush=True)
    with folder() as home, brokers.memory(home) as broker:
        uri = f"failover:(tcp://127.0.0.1:{broker.port})"
        outcome = run(uri, home, asked.rounds, asked.messages, asked.seed, asked.ack)
    print(outcome.report(), flush=True)
    return 1 if outcome.lost or outcome.keys != outcome.sent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a task sends."""

import fcntl
import logging
import select
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stomprelay.pipeline.replay.state import BATCH
from stomprelay.pipeline.replay.task import DDL, LOGGER, SCHEMA, alone, logged, run, sender
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.launch import LEVELS
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.pipeline.stomp.progress import JobProgress, ProgressError
from stomprelay.pipeline.stomp.sending import SharedRate
from tests.e2e.raw import Connection, ScriptedBroker, headers
from tests.pipeline.stomp import rig

TYPES = (pa.string(), arrow.MAP, pa.binary(), pa.bool_())
FIELDS = pa.schema(zip(("destination", "headers", "body", "content_length"), TYPES, strict=True))


def batch(*rows: tuple[str, dict[str, str], bytes | None, bool]) -> pa.RecordBatch:
    """Make a batch of messages."""
    return pa.RecordBatch.from_pylist(
        [dict(zip(FIELDS.names, (to, list(said.items()), *rest), strict=True)) for to, said, *rest in rows],
        schema=FIELDS,
    )


def share(folder: Path, count: int) -> Path:
    """A file with so many messages to /queue/a, whose bodies are their numbers."""
    path = folder / "part-0"
    rows = [("/queue/a", {"content-length": "1"}, b"%d" % number, True) for number in range(count)]
    pq.write_table(pa.Table.from_batches([batch(*rows)]), path)
    return path


class Running:
    """A task in a thread."""

    def __init__(self, broker: ScriptedBroker, folder: Path, what: Path, **options: Any) -> None:
        sink = rig.sink(f"tcp://127.0.0.1:{broker.port}", progress=folder / "progress", **options)
        JobProgress(folder / "progress").identity("job")
        self.progress = JobProgress(folder / "progress")
        self.answer: tuple[int, str | None] | None = None
        self._thread = threading.Thread(target=self._run, args=(sink, what))
        self._thread.start()

    def _run(self, sink: Sink, what: Path) -> None:
        self.answer = run(sink, 0, what, "job")

    def ended(self) -> tuple[int, str | None] | None:
        self._thread.join(60)
        return self.answer


def receipt(frame: bytes) -> bytes:
    """The answer to a frame."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % headers(frame)[b"receipt"]


def serve(peer: Connection) -> list[bytes]:
    """Confirm everything up to DISCONNECT; answers the SENDs."""
    found: list[bytes] = []
    while not (frame := peer.frame()).startswith(b"DISCONNECT"):
        found.append(frame)
        if b"receipt" in headers(frame):
            peer.write(receipt(frame))
    peer.write(receipt(frame))
    return found


def test_a_share_is_sent_and_noted(broker: ScriptedBroker, tmp_path: Path) -> None:
    """In its order, each message with its key and confirmed; and not again."""
    what = share(tmp_path, 5)
    running = Running(broker, tmp_path, what)
    found = serve(rig.accept(broker))
    assert running.ended() == (5, None)
    assert [frame.partition(b"\n\n")[2] for frame in found] == [b"%d\0" % number for number in range(5)]
    keys = [headers(frame)[b"relay-key"] for frame in found]
    assert keys == [b"job/0/0/%d" % number for number in range(5)]
    assert running.progress.position(BATCH, 0) == 5
    assert Running(broker, tmp_path, what).ended() == (0, None)
    assert not select.select([broker._socket], [], [], 0)[0]


def test_a_broker_that_goes(broker: ScriptedBroker, tmp_path: Path) -> None:
    """The reason is answered, in a line; what it confirmed is noted."""
    running = Running(broker, tmp_path, share(tmp_path, 5), window=2)
    peer = rig.accept(broker)
    peer.write(receipt(peer.frame()))
    rig.until(lambda: running.progress.position(BATCH, 0) == 1)
    peer.close()
    answer = running.ended()
    assert answer is not None
    assert answer[0] == 0
    assert "STOMP session with tcp://127.0.0.1" in str(answer[1])
    assert "\n" not in str(answer[1])


def test_the_answer_to_spark(broker: ScriptedBroker, tmp_path: Path) -> None:
    """A row for each share, of which it is told by number."""
    what = share(tmp_path, 1)
    sink = rig.sink("tcp://127.0.0.1:1", progress=tmp_path / "progress")
    JobProgress(tmp_path / "progress").identity("job")
    numbers = pa.RecordBatch.from_pydict({"id": [0]})
    (answer,) = sender(sink, [what], "job", "off")(iter([numbers]))
    assert answer.schema == SCHEMA
    assert SCHEMA.names == [field.split()[0] for field in DDL.split(", ")]
    (row,) = answer.to_pylist()
    assert (row["number"], row["sent"]) == (0, 0)
    assert "refused" in row["error"]


def test_all_tasks_keep_one_pace(
    broker: ScriptedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turns are taken from one file, and between two of them is what the rate asks for."""
    turns: list[tuple[Path, int, float]] = []
    take = SharedRate.take

    def noted(pace: SharedRate, count: int) -> float:
        turn = take(pace, count)
        turns.append((pace._path, count, turn))
        return turn

    monkeypatch.setattr(SharedRate, "take", noted)
    rate = 400.0
    running = Running(broker, tmp_path, share(tmp_path, 60), rate=rate)
    serve(rig.accept(broker))
    assert running.ended() == (60, None)
    assert {path for path, *_ in turns} == {tmp_path / "progress" / ".pace"}
    for (_, count, turn), (_, _, following) in pairwise(turns):
        assert following >= turn + count / rate - 1e-3
    assert sum(count for _, count, _ in turns) >= 59


def test_a_task_that_is_still_alive_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that send the same would spoil the order."""
    path = tmp_path / ".0"
    with path.open("ab") as other:
        monkeypatch.setattr(time, "sleep", lambda _: other.close())
        fcntl.flock(other, fcntl.LOCK_EX)
        with alone(path):
            assert other.closed
        with alone(path):
            pass


def test_a_task_that_does_not_end(tmp_path: Path) -> None:
    """It is told, and nothing sent."""
    path = tmp_path / ".0"
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ProgressError, match="another process has been sending for 0 s"), alone(path, 0.0):
            pass


def test_a_message_that_cannot_be_sent(broker: ScriptedBroker, tmp_path: Path) -> None:
    """The error is an answer, too."""
    path = tmp_path / "part-0"
    pq.write_table(pa.Table.from_batches([batch(("", {}, b"", True))]), path)
    running = Running(broker, tmp_path, path)
    answer = running.ended()
    assert answer == (0, 'format("stomp"): row 0 of job/0/0 has no destination')


@pytest.mark.parametrize(
    ("level", "written"),
    [
        pytest.param("off", "", marks=pytest.mark.deep),
        pytest.param("error", "", marks=pytest.mark.deep),
        ("warn", "refused: "),
        pytest.param("info", "refused: ", marks=pytest.mark.deep),
    ],
)
def test_what_the_sink_logs_is_written_if_that_is_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], level: str, written: str
) -> None:
    """In a process of its own, as Spark's are. The reason is in the answer, and the terminal is for that."""
    path = share(tmp_path, 1)
    JobProgress(tmp_path / "progress").identity("job")
    program = f"""
import pyarrow as pa
from pathlib import Path
from stomprelay.pipeline.spark.launch import LEVELS
from stomprelay.pipeline.replay.task import sender
from tests.pipeline.stomp import rig
sink = rig.sink("tcp://127.0.0.1:1", progress={str(tmp_path / "progress")!r})
send = sender(sink, [Path({str(path)!r})], "job", {level!r})
(answer,) = send(iter([pa.RecordBatch.from_pydict({{"id": [0]}})]))
print(answer.to_pylist()[0]["error"])
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    said = capfd.readouterr()
    assert "refused" in said.out
    assert written in said.err
    assert bool(said.err) == bool(written)


def test_the_log_is_as_it_was_afterwards() -> None:
    """For what else the process does."""
    log = logging.getLogger(LOGGER)
    before = log.level
    for level in LEVELS:
        with logged(level):
            assert log.isEnabledFor(logging.CRITICAL) == (level != "off")
            assert log.isEnabledFor(logging.WARNING) == (level in ("warn", "info"))
        assert log.level == before

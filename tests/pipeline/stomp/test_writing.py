"""Writing, as Spark calls it, and how far a job has come."""

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from stomprelay.pipeline.stomp.datasource import BatchWriter, Sent, StompDataSource, StreamWriter
from stomprelay.pipeline.stomp.options import OptionError
from stomprelay.pipeline.stomp.progress import JobProgress, ProgressError
from tests.e2e.raw import headers
from tests.pipeline.stomp.rig import Confirming, schema, sink, until

ROWS = "destination string, body string"


def rows(end: int, first: int = 0) -> pa.RecordBatch:
    """Make rows for a queue whose bodies are numbers."""
    bodies = [str(number) for number in range(first, end)]
    return pa.RecordBatch.from_pydict({"destination": ["/queue/a"] * len(bodies), "body": bodies})


def test_nothing_is_overwritten() -> None:
    """What a broker has stays; a stream in complete mode sends each result as a whole, as to Kafka."""
    source = StompDataSource({"uri": "tcp://a"})
    said = r'mode\("overwrite"\) cannot be: what a broker has is not replaced'
    with pytest.raises(OptionError, match=said):
        source.writer(schema(ROWS), overwrite=True)
    source.writer(schema(ROWS), overwrite=False)
    source.streamWriter(schema(ROWS), overwrite=True)


def test_a_task_has_the_keys_of_its_job(confirming: Confirming) -> None:
    """Another attempt of it, by another copy of the writer, says the same; another job has others."""
    uri = f"tcp://127.0.0.1:{confirming.port}"
    writer = BatchWriter(sink(uri), schema(ROWS))
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(writer))
        assert copy.write(iter([rows(2)])) == Sent(2, 0)
    StreamWriter(sink(uri), schema(ROWS)).write(iter([rows(1)]))
    keys = [headers(frame)[b"relay-key"] for frame in confirming.sends]
    assert keys[:2] == keys[2:4]
    assert len(set(keys)) == 3
    assert keys[0].endswith(b"/0/0/0")


def test_a_task_that_fails_and_is_repeated_says_its_first_rows_twice(confirming: Confirming) -> None:
    """Those that were sent come again, under the same keys and with the same bodies; all others come once."""
    writer = BatchWriter(sink(f"tcp://127.0.0.1:{confirming.port}", window=2), schema(ROWS))

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(4)
        until(lambda: confirming.asked >= 3)  # of what is confirmed, too
        raise RuntimeError("the rows cannot be read")

    with pytest.raises(RuntimeError, match="cannot be read"):
        writer.write(failing())
    said = len(confirming.sends)
    assert 3 <= said <= 4
    assert writer.write(iter([rows(4), rows(9, 4)])) == Sent(9, 0)
    sends = [(headers(frame)[b"relay-key"], frame.partition(b"\n\n")[2]) for frame in confirming.sends]
    assert sends[:said] == sends[said : 2 * said]
    assert len(sends) == 9 + said
    assert len({key for key, _ in sends}) == len({body for _, body in sends}) == 9


def test_a_job_may_have_a_name(confirming: Confirming, tmp_path: Path) -> None:
    """Said, or kept with its progress, so that the next run has it too."""
    uri = f"tcp://127.0.0.1:{confirming.port}"
    BatchWriter(sink(uri, id="mine"), schema(ROWS)).write(iter([rows(1)]))
    assert headers(confirming.sends[0])[b"relay-key"] == b"mine/0/0/0"
    BatchWriter(sink(uri, progress=tmp_path), schema(ROWS)).write(iter([rows(3)]))
    again = BatchWriter(sink(uri, progress=tmp_path), schema(ROWS)).write(iter([rows(5)]))
    assert again == Sent(2, 3)
    assert len({headers(frame)[b"relay-key"].split(b"/")[0] for frame in confirming.sends[1:]}) == 1
    assert JobProgress(tmp_path).position("0", 0) == 5
    with pytest.raises(ProgressError, match="is of the job"):
        BatchWriter(sink(uri, progress=tmp_path, id="other"), schema(ROWS))


def test_what_was_done_is_told(confirming: Confirming, caplog: pytest.LogCaptureFixture) -> None:
    """And what belongs to the rate alone goes."""
    writer = BatchWriter(sink(f"tcp://127.0.0.1:{confirming.port}", rate=1e6), schema(ROWS))
    sent = writer.write(iter([rows(2)]))
    pace = writer._pace()
    assert pace is not None
    assert pace._path.exists()
    with caplog.at_level(logging.INFO, "stomprelay.stomp"):
        writer.commit([sent, None])
    assert "written: 2 rows sent, 0 had been sent before" in caplog.text
    assert not pace._path.exists()
    with caplog.at_level(logging.INFO, "stomprelay.stomp"):
        StreamWriter(sink(), schema(ROWS)).abort([], 7)
        StreamWriter(sink(), schema(ROWS)).commit([], 8)
        BatchWriter(sink(), schema(ROWS)).abort([])
    assert "batch 7 not written to the end: 0 rows sent" in caplog.text
    assert "batch 8 written" in caplog.text


def test_a_job_has_one_id_in_all_its_runs(tmp_path: Path) -> None:
    """The one that was asked for, or one that nobody else has."""
    first = JobProgress(tmp_path / "a").identity(None)
    assert first
    assert JobProgress(tmp_path / "a").identity(None) == first
    assert JobProgress(tmp_path / "b").identity(None) != first
    assert JobProgress(tmp_path / "c").identity("mine") == "mine"
    assert JobProgress(tmp_path / "c").identity(None) == "mine"


def test_what_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "0-0").write_text("nonsense")
    with pytest.raises(ProgressError, match="0-0: invalid literal"):
        JobProgress(tmp_path).position("0", 0)
    (tmp_path / "file").touch()
    with pytest.raises(ProgressError, match="file/id: "):
        JobProgress(tmp_path / "file").identity(None)
    with pytest.raises(ProgressError, match="file/0-0: Not a directory"):
        JobProgress(tmp_path / "file").advance("0", 0, 1)

"""Reading, as Spark calls it, without Spark."""

import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from stomprelay.pipeline.stomp.columns import DDL
from stomprelay.pipeline.stomp.datasource import BatchReader, StompDataSource, StreamReader
from stomprelay.pipeline.stomp.options import OptionError, ReaderOptions
from stomprelay.pipeline.stomp.receivers import SourceError
from stomprelay.pipeline.stomp.scans import FOLDER, RowRange, ScanIdentity, Scans
from stomprelay.pipeline.stomp.spool import SpoolError
from tests.e2e.raw import Connection, ScriptedBroker
from tests.pipeline.stomp.rig import BYE, GONE, accept, failover, filled, message, schema, source, until

ALL = ReadAllAvailable()


def batch_reader(given: ReaderOptions, identity: ScanIdentity | None = None) -> BatchReader:
    """Make the reader of a DataFrame, or another one of the same."""
    return BatchReader(given, schema(DDL), identity or ScanIdentity.new())


def parts(reader: BatchReader) -> list[object]:
    """Of each task its receiver, and from where to where it reads."""
    return [part.value for part in reader.partitions()]


@contextmanager
def streaming(
    broker: ScriptedBroker, folder: Path, **options: object
) -> Iterator[tuple[StreamReader, Connection]]:
    """Yield the reader of a stream and its broker's end, from where three messages come."""
    reader = StreamReader(source(folder, failover(broker), groupMs=0, timeoutMs=500, **options), schema(DDL))
    assert reader.latestOffset({"r0": 0}, ALL) == {"r0": 0}
    peer = accept(broker)
    peer.frame()
    peer.write(message(0) + message(1) + message(2))
    yield reader, peer
    peer.close()
    reader.stop()


@contextmanager
def serving(broker: ScriptedBroker, *numbers: int) -> Iterator[list[bytes]]:
    """Send messages to the next client, and confirm that it goes; yields what it says meanwhile."""
    said: list[bytes] = []

    def run() -> None:
        peer = accept(broker)
        peer.frame()
        peer.write(b"".join(message(number) for number in numbers))
        said.extend(iter(peer.frame, BYE))
        peer.write(GONE)
        peer.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield said
    thread.join(30)


def test_a_new_query_begins_with_what_the_spool_has(tmp_path: Path) -> None:
    """Or behind it."""
    filled(tmp_path / "r0", 3)
    starts: list[dict[str, object]] = [{}, {"startingOffsets": "earliest"}, {"startingOffsets": "latest"}]
    for options, expected in zip(starts, (0, 0, 3), strict=True):
        reader = StreamReader(source(tmp_path, **options), schema(DDL))
        assert reader.initialOffset() == {"r0": expected}
        reader.stop()


def test_offsets_follow_the_spool(broker: ScriptedBroker, tmp_path: Path) -> None:
    """What is on disk, up to the limit; any reader of the same has its rows."""
    with streaming(broker, tmp_path) as (reader, _):
        until(lambda: reader.latestOffset({"r0": 0}, ALL) == {"r0": 3})
        assert reader.latestOffset({"r0": 0}, ReadMaxRows(2)) == {"r0": 2}
        (piece,) = reader.partitions({"r0": 0}, {"r0": 2})
        (found,) = StreamReader(source(tmp_path), schema(DDL)).read(piece)
        assert found.schema.equals(to_arrow_schema(schema(DDL), timezone="UTC"))
        assert found.column("sequence").to_pylist() == [0, 1]
        assert found.column("message_id").to_pylist() == ["m0", "m1"]


def test_progress_has_how_far_behind_it_is(broker: ScriptedBroker, tmp_path: Path) -> None:
    """What is on disk and in no batch, and what the broker waits for, until the batch is committed."""
    with streaming(broker, tmp_path, ack="commit") as (reader, peer):
        until(lambda: (reader.reportLatestOffset() or {})["r0"] == 3)
        assert reader.reportLatestOffset() == {"r0": 3, "lag": 3, "unacknowledged": 3}
        assert reader.latestOffset({"r0": 0}, ReadMaxRows(2)) == {"r0": 2}
        assert reader.reportLatestOffset() == {"r0": 3, "lag": 1, "unacknowledged": 3}
        assert reader.latestOffset({"r0": 2}, ReadMaxRows(2)) == {"r0": 3}
        assert peer.frame() == b"ACK\nid:a1\n\n\0"
        until(lambda: (reader.reportLatestOffset() or {})["unacknowledged"] == 1)
        assert reader.reportLatestOffset() == {"r0": 3, "lag": 0, "unacknowledged": 1}


def test_available_now_is_what_there_was_when_it_fell_silent(broker: ScriptedBroker, tmp_path: Path) -> None:
    """What comes later is for the next run; the limit holds."""
    given = source(tmp_path, failover(broker), groupMs=0, idleMs=200, timeoutMs=500)
    reader = StreamReader(given, schema(DDL))
    reader.prepareForTriggerAvailableNow()
    found: list[dict[str, int]] = []
    asking = threading.Thread(target=lambda: found.append(reader.latestOffset({"r0": 0}, ReadMaxRows(2))))
    asking.start()
    peer = accept(broker)
    peer.frame()
    peer.write(message(0) + message(1) + message(2))
    asking.join(30)
    assert found == [{"r0": 2}]
    peer.write(message(3))
    until(lambda: (reader.reportLatestOffset() or {})["r0"] == 4)
    assert reader.latestOffset({"r0": 2}, ReadMaxRows(2)) == {"r0": 3}
    assert reader.latestOffset({"r0": 3}, ReadMaxRows(2)) == {"r0": 3}
    peer.close()
    reader.stop()


def test_available_now_goes_on_while_the_broker_holds_back(broker: ScriptedBroker, tmp_path: Path) -> None:
    """With late ACKs a broker has more than it may send at once: all of it is there, and all of it is read."""
    options: dict[str, object] = {"ack": "commit", "prefetch": 2, "groupSize": 2, "idleMs": 200}
    reader = StreamReader(source(tmp_path, failover(broker), timeoutMs=500, **options), schema(DDL))
    reader.prepareForTriggerAvailableNow()

    def serve() -> None:
        peer = accept(broker)
        peer.frame()
        for number in range(0, 6, 2):
            peer.write(message(number) + message(number + 1))
            assert peer.frame() == b"ACK\nid:a%d\n\n\0" % (number + 1)

    serving = threading.Thread(target=serve)
    serving.start()
    at = {"r0": 0}
    seen = []
    while (end := reader.latestOffset(at, ALL)) != at:
        at = end
        seen.append(end["r0"])
    assert seen == [2, 4, 6]
    serving.join(30)
    reader.stop()


def test_small_groups_are_put_together(tmp_path: Path) -> None:
    """A trickle of single messages makes no batch for each."""
    filled(tmp_path / "r0", 1, 1, 1, 1)
    reader = StreamReader(source(tmp_path), schema(DDL))
    (found,) = reader.read(InputPartition((0, 1, 4)))
    assert isinstance(found, pa.RecordBatch)
    assert found.column("sequence").to_pylist() == [1, 2, 3]


def test_a_batch_drains_what_is_there(broker: ScriptedBroker, tmp_path: Path) -> None:
    """It is on disk and acknowledged when the tasks are planned; Spark wants at least one, also of nothing."""
    filled(tmp_path / "r0", 2)
    reader = batch_reader(source(tmp_path, f"tcp://127.0.0.1:{broker.port}", idleMs=300))
    with serving(broker, 7, 8) as said:
        (part,) = reader.partitions()
    assert said == [b"ACK\nid:a8\n\n\0"]
    assert part.value == (0, 2, 4)
    (found,) = reader.read(part)
    assert found.column("message_id").to_pylist() == ["m7", "m8"]
    assert list(reader.read(InputPartition(None))) == []


def test_every_scan_of_a_batch_has_its_rows(broker: ScriptedBroker, tmp_path: Path) -> None:
    """The first one receives, the others find what it has noted; another DataFrame receives for itself."""
    identity = ScanIdentity.new()
    given = source(tmp_path, f"tcp://127.0.0.1:{broker.port}", idleMs=200)
    with serving(broker, 1, 2, 3):
        assert parts(batch_reader(given, identity)) == [(0, 0, 3)]
    with serving(broker, 4):
        assert parts(batch_reader(given)) == [(0, 3, 4)]
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(batch_reader(given, identity)))
        assert parts(copy) == [(0, 0, 3)]


def test_all_that_load_under_one_name_have_the_same_rows(broker: ScriptedBroker, tmp_path: Path) -> None:
    """A job that is run again, and Spark Connect, which loads for each action."""
    said = {"uri": f"tcp://127.0.0.1:{broker.port}", "subscribe": "/queue/a", "idleMs": "200"}
    said |= {"spool": str(tmp_path), "readId": "of Monday/7"}
    with serving(broker, 1, 2):
        assert parts(StompDataSource(said).reader(schema(DDL))) == [(0, 0, 2)]
    assert parts(StompDataSource(said).reader(schema(DDL))) == [(0, 0, 2)]
    said |= {"readId": "other", "uri": "tcp://127.0.0.1:1"}
    with pytest.raises(SourceError, match="connection refused"):
        StompDataSource(said).reader(schema(DDL)).partitions()


def test_a_scan_that_failed_goes_on_from_where_it_began(broker: ScriptedBroker, tmp_path: Path) -> None:
    """What it had received is acknowledged, and in no other DataFrame."""
    identity = ScanIdentity.new()
    given = source(tmp_path, f"tcp://127.0.0.1:{broker.port}", idleMs=60_000, groupMs=0)

    def cut() -> None:
        peer = accept(broker)
        peer.frame()
        peer.write(message(1) + message(2))
        assert peer.frame().startswith(b"ACK\n")
        peer.close()

    cutting = threading.Thread(target=cut)
    cutting.start()
    with pytest.raises(SourceError, match="receiver 0 has ended"):
        batch_reader(given, identity).partitions()
    cutting.join(30)
    given = source(tmp_path, f"tcp://127.0.0.1:{broker.port}", idleMs=200)
    with serving(broker, 3):
        assert parts(batch_reader(given, identity)) == [(0, 0, 3)]


def test_scans_at_once_receive_once(broker: ScriptedBroker, tmp_path: Path) -> None:
    """As those of a join with itself: the second waits for the first."""
    identity = ScanIdentity.new()
    given = source(tmp_path, f"tcp://127.0.0.1:{broker.port}", idleMs=300)
    with serving(broker, 1, 2), ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: parts(batch_reader(given, identity)), range(3)))
    assert found == [[(0, 0, 2)]] * 3


def test_a_dataframe_whose_rows_are_gone_says_so(tmp_path: Path) -> None:
    """It must not receive again: that would be other rows. What is noted of it goes, too."""
    old = ScanIdentity("old", time.time() - 100)
    given = source(tmp_path, "tcp://127.0.0.1:1", retain=60)
    with pytest.raises(SourceError, match="loaded more than 60 s ago, and its rows are no longer kept"):
        batch_reader(given, old).partitions()
    Scans(tmp_path, old, 60).note({"r0": 0}, {"r0": 5})
    scans = Scans(tmp_path, ScanIdentity("new", time.time()), 60)
    scans.note({"r0": 5}, {"r0": 6})
    found = scans.found()
    assert found is not None
    assert (found.start, found.end) == ({"r0": 5}, {"r0": 6})
    assert not (tmp_path / FOLDER / "old").exists()
    for_ever = Scans(tmp_path, old, 0)
    for_ever.note({"r0": 0}, {"r0": 5})
    scans.note({"r0": 5}, {"r0": 6})
    assert for_ever.found() == RowRange({"r0": 0}, {"r0": 5}, None)


def test_what_cannot_be_noted_is_told(tmp_path: Path) -> None:
    """The error names the file."""
    scans = Scans(tmp_path, ScanIdentity("it", 0), 0)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "it").write_text("{")
    with pytest.raises(SpoolError, match="scans/it: Expecting"):
        scans.found()
    (tmp_path / "file").touch()
    scans = Scans(tmp_path / "file", ScanIdentity("it", 0), 0)
    with pytest.raises(SpoolError, match="scans: Not a directory"), scans.alone():
        pass
    with pytest.raises(SpoolError, match="scans/it: Not a directory"):
        scans.note({"r0": 0}, None)


def test_a_batch_cannot_acknowledge_late(tmp_path: Path) -> None:
    """Spark commits nothing in batch: the broker would never let go of what was read."""
    with pytest.raises(OptionError, match="option ack: must be spool in batch"):
        batch_reader(source(tmp_path, ack="commit"))

"""The rows of a task on their way to the broker: what is said of each, and when."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.stomp import sending as module
from stomprelay.pipeline.stomp.client import SessionLost
from stomprelay.pipeline.stomp.columns import DDL
from stomprelay.pipeline.stomp.progress import JobProgress
from stomprelay.pipeline.stomp.relay_thread import RelayThread
from stomprelay.pipeline.stomp.sending import Job, SchemaError, SendFrames, SharedRate, TaskSender, Window
from tests.e2e.raw import body, headers
from tests.pipeline.stomp.rig import Confirming, schema, sink


def test_each_row_asks_for_a_receipt_of_its_own() -> None:
    """Where receipts vouch for one row each; out of order they mean nothing until the gap closes."""
    window = Window(3, 1)
    assert [window.sent() for _ in range(3)] == [b"0", b"1", b"2"]
    assert window.room == 0
    window.received(b"2", cumulative=False)
    window.received(b"1", cumulative=False)
    assert (window.room, window.confirmed, window.stuck) == (0, 0, False)
    window.received(b"0", cumulative=False)
    assert (window.room, window.confirmed) == (3, 3)


def test_one_receipt_may_vouch_for_several() -> None:
    """Where brokers confirm all before it."""
    window = Window(8, 3, first=10)
    assert [window.sent() for _ in range(4)] == [None, None, b"12", None]
    window.received(b"12", cumulative=True)
    assert (window.room, window.confirmed, window.next) == (7, 13, 14)
    window.settled()
    assert (window.room, window.confirmed) == (8, 14)


def test_a_receipt_of_another_broker_vouches_for_one_alone() -> None:
    """After a failover to a broker that confirms rows one by one nothing is safe until it has confirmed all."""
    window = Window(8, 2)
    for _ in range(6):
        window.sent()
    window.received(b"3", cumulative=False)
    assert not window.stuck
    window.received(b"1", cumulative=True)
    assert (window.room, window.confirmed, window.stuck) == (4, 2, True)
    window.received(b"5", cumulative=True)
    assert (window.room, window.confirmed, window.stuck) == (4, 2, True)
    window.settled()
    assert (window.room, window.confirmed, window.stuck) == (8, 6, False)


@given(st.integers(1, 5), st.permutations(range(20)))
def test_the_position_is_the_first_row_without_a_receipt(every: int, order: list[int]) -> None:
    """In whatever order receipts come."""
    window = Window(100, every)
    asked = {number: receipt for number in range(20) if (receipt := window.sent()) is not None}
    got: set[int] = set()
    for number in order:
        if number in asked:
            got.add(number)
            window.received(asked[number], cumulative=True)
            ends = sorted(asked)
            first = next((end for end in ends if end not in got), None)
            expected = (ends[-1] + 1) if first is None else first - every + 1
            assert window.confirmed == expected


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give a clock that stands still until it is set."""
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


def test_turns_are_given_one_after_the_other(tmp_path: Path, clock: list[float]) -> None:
    """Whoever asks, by whatever object: a second has as many messages as the rate says."""
    one, other = SharedRate(tmp_path / "pace", 10), SharedRate(tmp_path / "pace", 10)
    assert one.take(5) == 1000.0
    assert other.take(10) == 1000.5
    assert one.take(1) == 1001.5


def test_time_that_nobody_used_is_not_made_up_for(tmp_path: Path, clock: list[float]) -> None:
    """After a pause there is no burst."""
    pace = SharedRate(tmp_path / "pace", 10)
    pace.take(1)
    clock[0] = 2000.0
    assert (pace.take(1), pace.take(1)) == (2000.0, 2000.1)


def test_a_clock_that_was_set_back_does_not_stop_all(tmp_path: Path, clock: list[float]) -> None:
    """The old time is not waited for."""
    pace = SharedRate(tmp_path / "pace", 10)
    pace.take(1)
    clock[0] = 10.0
    assert pace.take(1) <= 70.0


def test_tasks_of_a_job_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its folder, or in the machine's under its name; there is none without a rate."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "machine"))
    (tmp_path / "machine").mkdir()
    assert SharedRate.shared(None, tmp_path, "job") is None
    for folder, file in ((tmp_path, ".pace"), (None, "machine/stomprelay-job.pace")):
        pace = SharedRate.shared(5.0, folder, "job")
        assert pace is not None
        pace.take(1)
        assert (tmp_path / file).is_file()


def numbers(first: int, end: int) -> Any:
    """Make rows whose bodies are their numbers."""
    return pa.RecordBatch.from_pydict({"body": [str(number) for number in range(first, end)]})


def sending(broker: Confirming, uri: str = "failover:({})", **options: object) -> TaskSender:
    """Make the sending of a task."""
    given = {"destination": "/queue/a", "timeoutMs": 5000, **options}
    return TaskSender(sink(uri.format(f"tcp://127.0.0.1:{broker.port}"), **given), Job("job", "0", 1), None)


def test_all_rows_are_sent_in_order_and_confirmed(confirming: Confirming) -> None:
    """Each with its key, and a receipt for each where the broker confirms them one by one."""
    assert sending(confirming, window=10).run(iter([numbers(0, 30), numbers(30, 100)])) == 100
    assert [body(frame) for frame in confirming.sends] == [b"%d" % number for number in range(100)]
    keys = [headers(frame)[b"relay-key"] for frame in confirming.sends]
    assert keys == [b"job/0/1/%d" % number for number in range(100)]
    assert confirming.frames[-1].startswith(b"DISCONNECT\n")
    assert confirming.asked == 101


def test_the_last_row_to_each_destination_asks() -> None:
    """ActiveMQ confirms a SEND to a topic before it has stored what came before."""
    broker, queue, topic = Confirming(b"ActiveMQ/5.17.2"), "/queue/a", "/topic/t"
    places = [queue, queue, topic, queue, topic, topic]
    sender = TaskSender(sink(f"failover:(tcp://127.0.0.1:{broker.port})"), Job("job", "0", 1), None)
    batch = pa.RecordBatch.from_pydict({"body": [*"012345"], "destination": places})
    assert sender.run(iter([batch])) == 6
    broker.close()
    assert [body(each) for each in broker.sends if b"receipt" in headers(each)] == [b"1", b"2", b"3", b"5"]


def test_a_broker_that_confirms_nothing_fails_the_task(confirming: Confirming) -> None:
    """After its time; what is confirmed is said."""
    confirming.silent = True
    made = sending(confirming, "{}", timeoutMs=300, window=5)
    with pytest.raises(SessionLost, match=r"no receipt came within 0\.3 s; 0 rows are confirmed"):
        made.run(iter([numbers(0, 100)]))


def test_a_job_goes_on_where_it_was(confirming: Confirming, tmp_path: Path) -> None:
    """Rows that are confirmed are not said again, the others have the keys that they had."""
    progress = JobProgress(tmp_path)
    progress.advance("0", 1, 45)
    made = sending(confirming, progress=tmp_path)
    assert made.skipped == 45
    assert made.run(iter([numbers(0, 30), numbers(30, 60)])) == 15
    assert headers(confirming.sends[0])[b"relay-key"] == b"job/0/1/45"
    assert body(confirming.sends[0]) == b"45"
    assert progress.position("0", 1) == 60
    assert sending(confirming, progress=tmp_path).run(iter([numbers(0, 60)])) == 0
    assert len(confirming.sends) == 15


def test_progress_is_noted_on_the_way(
    confirming: Confirming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a crash costs little."""
    monkeypatch.setattr("stomprelay.pipeline.stomp.sending.OFTEN", 0.0)
    noted = []

    def batches() -> Iterator[Any]:
        for first in range(0, 1000, 250):
            noted.append(JobProgress(tmp_path).position("0", 1))
            yield numbers(first, first + 250)

    sending(confirming, window=100, progress=tmp_path).run(batches())
    assert noted[0] == 0
    assert 0 < noted[-1] <= 750


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Give what is noted of progress, where time alone never asks for it."""
    monkeypatch.setattr("stomprelay.pipeline.stomp.sending.OFTEN", 1e9)
    found: list[int] = []
    advance = JobProgress.advance

    def advanced(progress: JobProgress, batch: str, partition: int, position: int) -> None:
        advance(progress, batch, partition, position)
        found.append(position)

    monkeypatch.setattr(JobProgress, "advance", advanced)
    return found


@pytest.mark.parametrize("server", [b"scripted", b"ActiveMQ/5.17.2"])
@pytest.mark.parametrize("window", [1, 2, 3, 8, 40, 1000])
def test_no_more_than_a_window_is_in_doubt(
    server: bytes, window: int, tmp_path: Path, notes: list[int]
) -> None:
    """Whatever the broker sees, all but a window before it is on the disk; and not each message has a sync."""
    count = 60 if window < 40 else 20 * 40 if window == 40 else 3000
    doubts: list[int] = []

    def seen(frame: bytes) -> None:
        if frame.startswith(b"SEND\n"):
            doubts.append(int(body(frame)) + 1 - JobProgress(tmp_path).position("0", 1))

    broker = Confirming(server, seen)
    assert sending(broker, window=window, progress=tmp_path).run(iter([numbers(0, count)])) == count
    broker.close()
    assert len(doubts) == count
    assert 0 < max(doubts) <= window
    assert notes == sorted(set(notes))
    assert notes[-1] == count
    together = min(250, max(1, window // 2))
    assert len(notes) <= count // together + 1


def test_a_task_that_fails_knows_what_was_confirmed(tmp_path: Path, notes: list[int]) -> None:
    """It is noted, though no window asked for it."""
    progress = JobProgress(tmp_path)

    def seen(frame: bytes) -> None:
        falling.silent = frame.startswith(b"SEND\n") and int(body(frame)) >= 7

    falling = Confirming(seen=seen)
    made = sending(falling, "{}", timeoutMs=300, window=20, progress=tmp_path)
    with pytest.raises(SessionLost, match="7 rows are confirmed"):
        made.run(iter([numbers(0, 100)]))
    falling.close()
    assert progress.position("0", 1) == 7
    assert notes == [7]


def test_receipts_that_vouch_for_less_than_was_thought(
    confirming: Confirming, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failover to another kind of broker the rest goes over a session that asks for more of them."""
    said = iter([True])
    monkeypatch.setattr(RelayThread, "cumulative", property(lambda _: next(said, False)))
    assert sending(confirming, window=8, progress=tmp_path).run(iter([numbers(0, 50)])) == 50
    assert [body(frame) for frame in confirming.sends] == [b"%d" % number for number in range(50)]
    assert [frame.partition(b"\n")[0] for frame in confirming.frames].count(b"DISCONNECT") == 2
    assert JobProgress(tmp_path).position("0", 1) == 50


MAP = pa.map_(pa.string(), pa.string())


def rows(**columns: Any) -> Any:
    """Make a record batch; a map is a list of lists of pairs."""
    arrays = {
        name: pa.array(values, MAP) if name == "headers" else pa.array(values)
        for name, values in columns.items()
    }
    return pa.RecordBatch.from_pydict(arrays)


def spelled(batch: Any, first: int = 0, **options: object) -> list[tuple[list[bytes], bytes]]:
    """Return header lines and body of each SEND."""
    made = SendFrames(sink(**options), "job/0/3").of(batch, first)
    return [((head + own).split(b"\n")[:-1], body) for head, own, body in made]


def test_a_row_becomes_a_send() -> None:
    """With the key of its place, and persistent."""
    first, second = spelled(rows(destination=["/queue/a", "/queue/b:1"], body=["hällo", None]), first=7)
    lines = [b"destination:/queue/a", b"persistent:true", b"content-length:6", b"relay-key:job/0/3/7"]
    assert first == (lines, "hällo".encode())
    lines = [b"destination:/queue/b\\c1", b"persistent:true", b"content-length:0", b"relay-key:job/0/3/8"]
    assert second == (lines, b"")


def test_all_columns_are_said() -> None:
    """A key of the row's own, in the header that was asked for; names and values escaped."""
    headers = [[("a:b", "x\ny"), ("n", None), ("", "z"), ("persistent", "false")]]
    columns = {"destination": ["/queue/a"], "content_type": ["text/plain"], "key": ["k:1"]}
    batch = rows(body=[b"\0\1"], headers=headers, **columns)
    ((lines, sent),) = spelled(batch, keyHeader="my-key", header_priority=9)
    assert lines[:3] == [b"destination:/queue/a", b"content-type:text/plain", b"a\\cb:x\\ny"]
    assert lines[3:] == [b"persistent:false", b"priority:9", b"content-length:2", b"my-key:k\\c1"]
    assert sent == b"\0\1"


def test_what_belongs_to_a_frame_or_a_broker_is_left_out() -> None:
    """Rows of an archive can be sent as they are."""
    names = "destination content-length receipt message-id ack subscription transaction n xcontent-length"
    relays = "relay-key relay-resent relay-trace relay-copy"
    headers = [[(name, "content-length:1\n") for name in f"{names} {relays}".split()]]
    batch = rows(destination=["/queue/content-length:0"], body=[""], headers=headers)
    ((lines, _),) = spelled(batch, persistent="false")
    kept = [name + b":content-length\\c1\\n" for name in (b"n", b"xcontent-length")]
    key = b"relay-key:job/0/3/0"
    assert lines == [b"destination:/queue/content-length\\c0", *kept, b"content-length:0", key]


@pytest.mark.parametrize("said", [None, True, False])
@pytest.mark.parametrize("body", [b"ab", b"", None, b"a\0b", b"\0"])
@pytest.mark.parametrize("text", [False, True])
def test_a_row_may_go_without_content_length(said: bool | None, body: bytes | None, text: bool) -> None:
    """By it ActiveMQ tells octets from text. A body with a NUL always has it, for it would be cut there."""
    batch = rows(
        destination=["/queue/a"],
        body=pa.array([body.decode() if text and body else body], pa.string() if text else pa.binary()),
        content_length=pa.array([said], pa.bool_()),
    )
    ((lines, sent),) = spelled(batch, persistent="false")
    assert sent == (body or b"")
    there = said is not False or b"\0" in sent
    length = [b"content-length:%d" % len(sent)] if there else []
    assert lines == [b"destination:/queue/a", *length, b"relay-key:job/0/3/0"]


def test_the_option_says_where_all_go() -> None:
    """As Kafka's `topic` does."""
    found = spelled(rows(destination=["/queue/a", None], body=["", ""]), destination="/queue/z")
    assert [lines[0] for lines, _ in found] == [b"destination:/queue/z"] * 2


@pytest.mark.parametrize("nowhere", [None, ""])
def test_a_row_without_a_destination_is_told(nowhere: str | None) -> None:
    """By its number and its partition."""
    batch = rows(destination=pa.array(["/queue/a", nowhere], pa.string()), body=["", ""])
    with pytest.raises(SchemaError, match="row 8 of job/0/3 has no destination"):
        spelled(batch, first=7)


TO_X = {"destination": "x"}


def test_all_columns_can_be_written() -> None:
    """In their types, and what was read."""
    module.check(schema(DDL), sink())
    ddl = "destination string, body binary, content_type string, content_length boolean, key string"
    module.check(schema(f"{ddl}, headers map<string,string>"), sink())


@pytest.mark.parametrize(
    ("ddl", "options", "text"),
    [
        ("destination string", {}, "needs a column body"),
        ("body string", {}, "needs a column destination, or the option"),
        ("body string, bodi string", TO_X, 'cannot send the column bodi; did you mean "body"'),
        ("body int", TO_X, "column body must be binary or string, not int"),
        ("body string, destination binary", {}, "column destination must be string, not binary"),
        ("body string, headers map<string,int>", TO_X, "must be map<string,string>, not map<string,int>"),
        ("body string, headers string", TO_X, "column headers must be map<string,string>"),
        ("body string, content_length int", TO_X, "column content_length must be boolean, not int"),
    ],
)
def test_a_frame_that_cannot_be_sent_is_refused(ddl: str, options: dict[str, str], text: str) -> None:
    """Before anything is sent."""
    with pytest.raises(SchemaError, match=re.escape(text)):
        module.check(schema(ddl), sink(**options))

"""One connection to a broker and the spool that it fills; all receivers of a source, and offsets over their spools."""

import errno
import os
from pathlib import Path

import pytest

from stomprelay.pipeline.stomp import receivers as module
from stomprelay.pipeline.stomp.receivers import PendingAcks, Piece, Receiver, Receivers, SourceError
from stomprelay.pipeline.stomp.spool import SpoolError, read
from tests.e2e.raw import Connection, ScriptedBroker
from tests.journal.made import fails
from tests.pipeline.stomp.rig import BYE, GONE, accept, failover, filled, message, source, until


def test_offsets_are_by_receiver(tmp_path: Path) -> None:
    """Those that there are now, and those that once were and may have something still."""
    filled(tmp_path / "r0", 3)
    filled(tmp_path / "r2", 5)
    (tmp_path / "other").mkdir()
    receivers = Receivers(source(tmp_path, receivers=2))
    assert receivers.begin == {"r0": 0, "r1": 0, "r2": 0}
    assert receivers.end == {"r0": 3, "r1": 0, "r2": 5}
    receivers.close()


@pytest.mark.parametrize(
    ("start", "options", "end"), [(0, {}, 3), (2, {}, 3), (3, {}, 3), (9, {"failOnDataLoss": "false"}, 9)]
)
def test_a_query_goes_on_where_it_was(
    tmp_path: Path, start: int, options: dict[str, object], end: int
) -> None:
    """Within what its spool has; where loss is accepted with what there is, and with its numbers where they were."""
    filled(tmp_path / "r0", 3)
    receivers = Receivers(source(tmp_path, **options), {"r0": start})
    assert receivers.end == {"r0": end}
    receivers.close()


def test_a_spool_that_lost_something_fails_the_query(tmp_path: Path) -> None:
    """By what it says one can tell what happened; what was committed is not missed."""
    filled(tmp_path / "r0", 3)
    ends = r"r0 ends at message 3, and the query goes on from message 9.*failOnData"
    with pytest.raises(SourceError, match=ends):
        Receivers(source(tmp_path), {"r0": 9})
    for _ in range(2):
        with pytest.raises(SourceError, match="r1 is new, and the query goes on from message 9"):
            Receivers(source(tmp_path, receivers=2), {"r0": 3, "r1": 9})
    filled(tmp_path / "r3", 2, first=5)
    with pytest.raises(SourceError, match="r3 begins at message 5, and the query goes on from message 2"):
        Receivers(source(tmp_path), {"r0": 0, "r3": 2})


def test_a_dead_receiver_is_told(tmp_path: Path) -> None:
    """With what killed it."""
    receivers = Receivers(source(tmp_path, "tcp://127.0.0.1:1"))
    receivers.check()
    receivers.start()
    said = "^receiver 0 has ended: STOMP session with tcp://127.0.0.1:1: broker not available"

    def going() -> bool:
        receivers.check()
        return False

    with pytest.raises(SourceError, match=said):
        until(going)
    receivers.close()


def test_without_a_driver_nobody_receives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose driver was killed must not go on draining the queue."""
    receivers = Receivers(source(tmp_path))
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with pytest.raises(SourceError, match="the driver is gone"):
        receivers.check()
    receivers.close()


def test_draining_ends_with_silence(broker: ScriptedBroker, tmp_path: Path) -> None:
    """Or with its time."""
    given = source(tmp_path, f"tcp://127.0.0.1:{broker.port}", idleMs=100, groupMs=10, timeoutMs=100)
    receivers = Receivers(given)
    receivers.start()
    peer = accept(broker)
    peer.frame()
    assert receivers.drained(0.0) == {"r0": 0}
    peer.write(message(1) + message(2))
    assert receivers.drained(receivers.deadline()) == {"r0": 2}
    receivers.commit({"r0": 2})
    receivers.settle()
    assert not receivers.held
    peer.close()
    receivers.close()


def test_a_limit_is_shared_by_the_receivers() -> None:
    """Alike, and what one has not the others get."""
    assert module.limited({"r0": 5}, {"r0": 100, "r1": 100}, 10) == {"r0": 10, "r1": 5}
    assert module.limited({}, {"r0": 2, "r1": 100}, 10) == {"r0": 2, "r1": 8}
    assert module.limited({}, {"r0": 2, "r1": 3}, 10) == {"r0": 2, "r1": 3}
    assert module.limited({"r0": 7}, {"r0": 5}, 10) == {"r0": 7}


def test_a_batch_is_cut_into_pieces(tmp_path: Path) -> None:
    """By segments, and by the number of tasks that were asked for."""
    filled(tmp_path / "r0", 4, 4, segment=1)
    filled(tmp_path / "r1", 2)
    end = {"r0": 8, "r1": 2}
    assert module.pieces(source(tmp_path), {"r0": 1}, end) == [Piece(0, 1, 4), Piece(0, 4, 8), Piece(1, 0, 2)]
    assert module.pieces(source(tmp_path), end, end) == []
    assert len(module.pieces(source(tmp_path, minPartitions=9), {}, end)) == 10
    assert module.PIECE > 8


def test_a_batch_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Spark must not take fewer rows for all of them."""
    with pytest.raises(SpoolError, match="does not hold messages 0 to 4"):
        module.pieces(source(tmp_path), {"r0": 0}, {"r0": 5})
    assert module.pieces(source(tmp_path, failOnDataLoss="false"), {}, {"r0": 5}) == [Piece(0, 0, 5)]
    assert module.place(source(tmp_path), 3) == tmp_path / "r3"


def test_a_message_is_known_by_its_id_and_its_body() -> None:
    """A broker that gives an id twice does not cost a message."""
    pending = PendingAcks(10)
    pending.remember(3, b"m", b"body")
    assert pending.known(b"m", b"body") == 3
    assert pending.known(b"m", b"other") is None
    assert pending.known(b"n", b"body") is None


def test_what_cannot_come_again_is_forgotten() -> None:
    """As many messages as may be under way are remembered below the committed one."""
    pending = PendingAcks(2)
    for sequence in range(6):
        pending.remember(sequence, b"m%d" % sequence, b"")
    pending.due(5)
    assert [pending.known(b"m%d" % sequence, b"") for sequence in range(6)] == [None, None, None, 3, 4, 5]


def receiving(broker: ScriptedBroker, folder: Path, **options: object) -> tuple[Receiver, Connection]:
    """Start a receiver; return it and the broker's end, its SUBSCRIBE read."""
    receiver = Receiver(source(folder, failover(broker), timeoutMs=5000, **options), 0, folder / "r0")
    receiver.start()
    peer = accept(broker)
    assert b"destination:/queue/a\n" in peer.frame()
    return receiver, peer


def farewell(receiver: Receiver, peer: Connection) -> list[bytes]:
    """Stop a receiver; return what it said before its DISCONNECT."""
    receiver.stop()
    said = list(iter(peer.frame, BYE))
    peer.write(GONE)
    peer.close()
    receiver.close()
    assert receiver.failure is None
    return said


def bodies(folder: Path, first: int, end: int) -> list[bytes]:
    """Read what is in the spool."""
    return [body.as_py() for group in read(folder / "r0", first, end) for body in group.batch.column("body")]


def test_a_group_is_acknowledged_when_it_is_on_disk(broker: ScriptedBroker, tmp_path: Path) -> None:
    """With one ACK for all of it."""
    receiver, peer = receiving(broker, tmp_path, groupSize=3, groupMs=60000)
    peer.write(b"".join(message(number, body=b"%d" % number) for number in range(5)))
    assert peer.frame() == b"ACK\nid:a2\n\n\0"
    assert receiver.spool.end == 3
    assert bodies(tmp_path, 0, 3) == [b"0", b"1", b"2"]
    assert farewell(receiver, peer) == [b"ACK\nid:a4\n\n\0"]
    assert bodies(tmp_path, 0, 5) == [b"%d" % number for number in range(5)]


def test_a_group_does_not_wait_for_long(broker: ScriptedBroker, tmp_path: Path) -> None:
    """Few messages are a group when the first of them is old enough."""
    receiver, peer = receiving(broker, tmp_path, groupMs=10)
    peer.write(message(7))
    assert peer.frame() == b"ACK\nid:a7\n\n\0"
    assert farewell(receiver, peer) == []


def test_large_messages_make_small_groups(
    broker: ScriptedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a group holds has a bound in octets, too."""
    monkeypatch.setattr("stomprelay.pipeline.stomp.receivers.MOST", 100)
    receiver, peer = receiving(broker, tmp_path, groupMs=60000)
    peer.write(message(0, body=b"x" * 60) + message(1, body=b"x" * 60) + message(2))
    assert peer.frame() == b"ACK\nid:a1\n\n\0"
    assert receiver.spool.end == 2
    assert farewell(receiver, peer) == [b"ACK\nid:a2\n\n\0"]


def test_each_subscription_is_acknowledged_by_itself(broker: ScriptedBroker, tmp_path: Path) -> None:
    """An ACK stands for earlier deliveries of its own subscription alone."""
    receiver, peer = receiving(broker, tmp_path, destination="/queue/a,/queue/b", groupSize=2, groupMs=60000)
    assert b"destination:/queue/b\n" in peer.frame()
    peer.write(message(1) + message(2).replace(b"subscription:0", b"subscription:1"))
    assert {peer.frame(), peer.frame()} == {b"ACK\nid:a1\n\n\0", b"ACK\nid:a2\n\n\0"}
    assert farewell(receiver, peer) == []


def test_a_disk_that_fails_is_the_end_and_nothing_is_acknowledged(
    broker: ScriptedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not on disk stays with the broker."""
    receiver, peer = receiving(broker, tmp_path, groupMs=0)
    monkeypatch.setattr("stomprelay.pipeline.stomp.spool._write", fails(errno.ENOSPC))
    peer.write(message(1))
    until(lambda: receiver.failure is not None)
    assert receiver.failure == f"spool {tmp_path / 'r0'}: No space left on device"
    assert b"ACK" not in peer.rest()
    peer.close()
    receiver.close()


def test_no_more_is_received_than_may_be_uncommitted(broker: ScriptedBroker, tmp_path: Path) -> None:
    """A query that is slower than its queue does not fill the disk; when it has committed, more comes."""
    receiver, peer = receiving(broker, tmp_path, backlog=4, groupSize=2, groupMs=10)
    peer.write(b"".join(message(number) for number in range(2)))
    peer.write(b"".join(message(number) for number in range(2, 4)))
    until(lambda: receiver.held)
    assert receiver.spool.end == 4
    peer.write(message(4))
    receiver.commit(2)
    until(lambda: receiver.spool.end == 5)
    farewell(receiver, peer)


def test_late_acks_follow_what_spark_has_committed(broker: ScriptedBroker, tmp_path: Path) -> None:
    """With `ack=commit` the broker keeps a message until then."""
    receiver, peer = receiving(broker, tmp_path, ack="commit", groupSize=4, prefetch=4)
    peer.write(b"".join(message(number) for number in range(4)))
    until(lambda: receiver.spool.end == 4)
    until(lambda: receiver.held)
    receiver.commit(3)
    assert peer.frame() == b"ACK\nid:a2\n\n\0"
    until(lambda: receiver.settled)
    until(lambda: not receiver.held)
    assert farewell(receiver, peer) == []


def test_what_is_not_on_disk_yet_holds_nothing_back(broker: ScriptedBroker, tmp_path: Path) -> None:
    """Spark cannot commit it: a drain that ended here would end with nothing."""
    receiver, peer = receiving(broker, tmp_path, ack="commit", groupMs=300, prefetch=2)
    peer.write(message(0) + message(1))
    until(lambda: receiver.unacknowledged > 0)
    assert not receiver.held
    until(lambda: receiver.held)
    assert receiver.spool.end == 2
    farewell(receiver, peer)


def test_what_comes_again_is_not_spooled_again(broker: ScriptedBroker, tmp_path: Path) -> None:
    """A message that the spool has already, from this life or an earlier one, is only acknowledged in its time."""
    filled(tmp_path / "r0", 3)
    receiver, peer = receiving(broker, tmp_path, ack="commit", groupSize=1)
    peer.write(b"".join(message(number, body=b"%d" % number) for number in (1, 2, 3)))
    until(lambda: receiver.spool.end == 4)
    receiver.commit(3)
    assert peer.frame() == b"ACK\nid:a2\n\n\0"
    assert bodies(tmp_path, 0, 4) == [b"0", b"1", b"2", b"3"]
    farewell(receiver, peer)


def test_a_goodbye_that_is_not_confirmed_is_no_failure(
    broker: ScriptedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is on disk; what the broker did not hear of it delivers again."""
    monkeypatch.setattr("stomprelay.pipeline.stomp.receivers.DISCONNECT_WITHIN", 0.3)
    receiver, peer = receiving(broker, tmp_path, groupMs=60000)
    peer.write(message(0))
    until(lambda: receiver.unacknowledged > 0)
    receiver.stop()
    until(lambda: not receiver.running)
    assert (receiver.failure, receiver.spool.end) == (None, 1)
    receiver.close()

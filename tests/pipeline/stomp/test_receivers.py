"""All receivers of a source, and offsets over their spools."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stomprelay.pipeline.stomp.receivers import PIECE, Piece, Receivers, SourceError, limited, pieces, place
from stomprelay.pipeline.stomp.spool import MessageSpool, SpoolError
from tests.e2e.raw import ScriptedBroker, close_all
from tests.pipeline.stomp.rig import accept, batch, message, source, until


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a failed test has left open."""
    yield
    close_all()


def filled(folder: Path, *groups: int, segment: int = 1 << 20) -> None:
    """Fill a spool with groups of these sizes."""
    spool = MessageSpool(folder, segment=segment)
    for size in groups:
        spool.append(batch(spool.end, spool.end + size))
    spool.close()


def test_offsets_are_by_receiver(tmp_path: Path) -> None:
    """Those that there are now, and those that once were and may have something still."""
    filled(tmp_path / "r0", 3)
    filled(tmp_path / "r2", 5)
    (tmp_path / "other").mkdir()
    receivers = Receivers(source(tmp_path, receivers=2))
    assert receivers.begin == {"r0": 0, "r1": 0, "r2": 0}
    assert receivers.end == {"r0": 3, "r1": 0, "r2": 5}
    receivers.close()


def test_a_query_goes_on_where_it_was(tmp_path: Path) -> None:
    """Within what its spool has."""
    filled(tmp_path / "r0", 3)
    for start in (0, 2, 3):
        receivers = Receivers(source(tmp_path), {"r0": start})
        assert receivers.end == {"r0": 3}
        receivers.close()


def test_a_spool_that_lost_something_fails_the_query(tmp_path: Path) -> None:
    """By what it says one can tell what happened; what was committed is not missed."""
    filled(tmp_path / "r0", 3)
    with pytest.raises(
        SourceError, match=r"r0 ends at message 3, and the query goes on from message 9.*failOnData"
    ):
        Receivers(source(tmp_path), {"r0": 9})
    for _ in range(2):
        with pytest.raises(SourceError, match="r1 is new, and the query goes on from message 9"):
            Receivers(source(tmp_path, receivers=2), {"r0": 3, "r1": 9})
    spool = MessageSpool(tmp_path / "r3", first=5)
    spool.append(batch(5, 7))
    spool.close()
    with pytest.raises(SourceError, match="r3 begins at message 5, and the query goes on from message 2"):
        Receivers(source(tmp_path), {"r0": 0, "r3": 2})


def test_loss_may_be_accepted(tmp_path: Path) -> None:
    """Then the query goes on with what there is, and its numbers where they were."""
    filled(tmp_path / "r0", 3)
    receivers = Receivers(source(tmp_path, failOnDataLoss="false"), {"r0": 9})
    assert receivers.end == {"r0": 9}
    receivers.close()


def test_a_dead_receiver_is_told(tmp_path: Path) -> None:
    """With what killed it."""
    receivers = Receivers(source(tmp_path, "tcp://127.0.0.1:1"))
    receivers.check()
    receivers.start()
    said: list[str] = []

    def failed() -> bool:
        try:
            receivers.check()
        except SourceError as error:
            said.append(str(error))
        return bool(said)

    until(failed)
    assert said[0].startswith(
        "receiver 0 has ended: STOMP session with tcp://127.0.0.1:1: broker not available"
    )
    receivers.close()


def test_without_a_driver_nobody_receives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose driver was killed must not go on draining the queue."""
    receivers = Receivers(source(tmp_path))
    monkeypatch.setattr(os, "getppid", lambda: 1)
    with pytest.raises(SourceError, match="the driver is gone"):
        receivers.check()
    receivers.close()


def test_draining_ends_with_silence(tmp_path: Path) -> None:
    """Or with its time."""
    with ScriptedBroker() as broker:
        receivers = Receivers(
            source(tmp_path, f"tcp://127.0.0.1:{broker.port}", idleMs=100, groupMs=10, timeoutMs=100)
        )
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
    assert limited({"r0": 5}, {"r0": 100, "r1": 100}, 10) == {"r0": 10, "r1": 5}
    assert limited({}, {"r0": 2, "r1": 100}, 10) == {"r0": 2, "r1": 8}
    assert limited({}, {"r0": 2, "r1": 3}, 10) == {"r0": 2, "r1": 3}
    assert limited({"r0": 7}, {"r0": 5}, 10) == {"r0": 7}


def test_a_batch_is_cut_into_pieces(tmp_path: Path) -> None:
    """By segments, and by the number of tasks that were asked for."""
    filled(tmp_path / "r0", 4, 4, segment=1)
    filled(tmp_path / "r1", 2)
    end = {"r0": 8, "r1": 2}
    assert pieces(source(tmp_path), {"r0": 1}, end) == [Piece(0, 1, 4), Piece(0, 4, 8), Piece(1, 0, 2)]
    assert pieces(source(tmp_path), end, end) == []
    assert len(pieces(source(tmp_path, minPartitions=9), {}, end)) == 10
    assert PIECE > 8


def test_a_batch_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Spark must not take fewer rows for all of them."""
    with pytest.raises(SpoolError, match="does not hold messages 0 to 4"):
        pieces(source(tmp_path), {"r0": 0}, {"r0": 5})
    assert pieces(source(tmp_path, failOnDataLoss="false"), {}, {"r0": 5}) == [Piece(0, 0, 5)]
    assert place(source(tmp_path), 3) == tmp_path / "r3"

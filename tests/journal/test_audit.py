"""One segment read to its end."""

from pathlib import Path

from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.command import CLOSED, LEFT, WRITTEN, SegmentCheck, segment_state
from tests.journal.made import NAME, NOW, SEND, event, frames, header, put, writer

OPEN = f"{NAME}.journal.open"


def test_a_segment(tmp_path: Path) -> None:
    """What is in it."""
    path = put(tmp_path, frames((SEND, b""), (SEND, b"")), event(at=NOW + 1), frames((SEND, b""), at=NOW + 2))
    audit = SegmentCheck(path)
    assert (audit.relay, audit.blocks, audit.frames, audit.size) == ("eu-1", 3, 3, path.stat().st_size)
    assert (audit.since, audit.until, audit.state, audit.damages) == (NOW, NOW + 2, CLOSED, [])


def test_a_segment_of_nothing(tmp_path: Path) -> None:
    """It has no times."""
    audit = SegmentCheck(put(tmp_path))
    assert (audit.blocks, audit.since, audit.until, audit.damages) == (0, None, None, [])


def test_damage(tmp_path: Path) -> None:
    """Each, that of a block which says nothing included."""
    odd = b"".join(encode(BlockKind.FRAMES, NOW, 0, b"?", (), b""))
    audit = SegmentCheck(put(tmp_path, event(), b"garbage", odd, event()[:-1]))
    assert [damage.reason.partition(":")[0] for damage in audit.damages] == [
        "no block begins here",
        "the block is whole, but what it says is not understood",
        "torn",
    ]


def test_a_segment_that_is_written(tmp_path: Path) -> None:
    """It ends where it ends: that is no damage; garbage in it is."""
    journal = writer(tmp_path)
    journal.write(event() + event()[:-1], NOW)
    assert journal.path is not None
    audit = SegmentCheck(journal.path)
    assert (audit.state, audit.blocks, audit.damages) == (WRITTEN, 1, [])
    journal.write(event(), NOW)
    assert len(SegmentCheck(journal.path).damages) == 1
    journal.close(NOW)


def test_a_segment_that_was_left(tmp_path: Path) -> None:
    """Its torn end is told."""
    audit = SegmentCheck(put(tmp_path, event(), event()[:-1], name=OPEN))
    assert (audit.state, [damage.torn for damage in audit.damages]) == (LEFT, [True])


def test_states(tmp_path: Path) -> None:
    """By name and lock; a file of any other name is closed, and so is one that was renamed meanwhile."""
    assert segment_state(put(tmp_path, name=OPEN)) == LEFT
    assert segment_state(put(tmp_path)) == CLOSED
    assert segment_state(put(tmp_path, name="copy")) == CLOSED
    (tmp_path / OPEN).unlink()
    assert segment_state(tmp_path / OPEN) == CLOSED
    assert SegmentCheck(tmp_path / OPEN).damages == []


def test_what_is_no_segment(tmp_path: Path) -> None:
    """One damage, over all of it."""
    path = tmp_path / "a"
    path.write_bytes(header()[1:])
    audit = SegmentCheck(path)
    assert (audit.relay, audit.blocks, audit.size) == ("", 0, len(header()) - 1)
    assert [damage.length for damage in audit.damages] == [len(header()) - 1]

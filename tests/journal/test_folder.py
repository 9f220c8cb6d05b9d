"""A journal's folder: listing, recovery, retention."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from stomprelay.journal import disk
from stomprelay.journal.folder import Folder, Recovery, is_written
from stomprelay.journal.schema import Context
from tests.journal import made
from tests.journal.made import HEADER, NAME, NOW, RUN, SECOND, SEND

BLOCK = made.frames((SEND, b"hello"))
CLOSED, OPEN = f"{NAME}.journal", f"{NAME}.journal.open"


def segment(
    path: Path, number: int, *, written: int = NOW, size: int = 100, run: str = RUN, end: str = ""
) -> Path:
    """A file that is named like a segment."""
    file = path / f"20261121T0823{number:02d}-eu-1-{run}-{number:06d}.journal{end}"
    file.write_bytes(bytes(size))
    os.utime(file, ns=(written, written))
    return file


def test_segments(tmp_path: Path) -> None:
    """The oldest first, with all that is known without reading them; other files are none."""
    late, early = segment(tmp_path, 2, end=".open"), segment(tmp_path, 1, written=NOW - 5, size=7)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "segment.journal").touch()
    first, second = Folder(tmp_path).segments()
    created = NOW // SECOND * SECOND
    stem = early.name.removesuffix(".journal")
    assert first == (early, stem, created + SECOND, "eu-1", RUN, 1, 7, NOW - 5, True)
    assert (second.path, second.number, second.closed, second.size) == (late, 2, False, 100)


def test_a_segment_that_goes_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not there."""
    made.put(tmp_path)
    monkeypatch.setattr(Path, "stat", made.fails(errno.ENOENT))
    assert Folder(tmp_path).segments() == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Errors name it."""
    absent = Folder(tmp_path / "absent")
    for ask in (absent.segments, absent.gaps, absent.require, lambda: absent.recover(NOW)):
        with pytest.raises(FileNotFoundError) as raised:
            ask()
        assert raised.value.filename == str(tmp_path / "absent")


def test_what_is_required_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it is one, and that one can write there."""
    Folder(tmp_path).require()
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError, match=str(file)):
        Folder(file).require()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match=str(tmp_path)):
        Folder(tmp_path).require()


# ------------------------------------------------------------------ the dead


@pytest.mark.parametrize("torn", [0, 1, 11, 12, 36, len(BLOCK) - 1])
def test_a_torn_end_is_cut_off(tmp_path: Path, torn: int) -> None:
    """What a dead relay left open is closed, without what is half written."""
    path = made.put(tmp_path, BLOCK, BLOCK, BLOCK[:torn], name=OPEN)
    closed = tmp_path / CLOSED
    assert Folder(tmp_path).recover(NOW) == [Recovery(path, closed, torn)]
    assert made.files(tmp_path) == [CLOSED]
    assert closed.read_bytes() == made.header() + BLOCK * 2 + made.over(torn)
    assert Folder(tmp_path).recover(NOW) == []


@pytest.mark.parametrize(
    ("data", "end"),
    [(made.header() + b"?" + BLOCK[1:], made.over()), (b"garbage" * 10, b""), (BLOCK, made.over())],
)
def test_damage_is_kept(tmp_path: Path, data: bytes, end: bytes) -> None:
    """Somebody may want to look into it; what is no segment at all gets nothing added."""
    path = tmp_path / OPEN
    path.write_bytes(data)
    assert Folder(tmp_path).recover(NOW) == [Recovery(path, tmp_path / CLOSED, 0)]
    assert (tmp_path / CLOSED).read_bytes() == data + end


def test_a_run_that_was_left_open_is_over(tmp_path: Path) -> None:
    """Its last segment says so, once; one that another segment follows does not, nor one in which the relay said it."""
    ended = made.event("journal ended", context=Context())
    two = NAME.replace("000001", "000002")
    made.put(tmp_path, made.frames((SEND, b""), at=NOW + 7), BLOCK, name=OPEN)
    made.put(
        tmp_path, BLOCK, ended, name=f"{two}.journal.open", header=made.header(HEADER._replace(number=2))
    )
    assert len(Folder(tmp_path).recover(NOW + 9)) == 2
    assert (tmp_path / CLOSED).read_bytes() == made.header() + made.frames((SEND, b""), at=NOW + 7) + BLOCK
    assert (tmp_path / f"{two}.journal").read_bytes().endswith(ended)
    (tmp_path / f"{two}.journal").unlink()
    for _ in range(2):
        (tmp_path / CLOSED).rename(tmp_path / OPEN)
        assert len(Folder(tmp_path).recover(NOW + 9)) == 1
        whole = (
            made.header()
            + made.frames((SEND, b""), at=NOW + 7)
            + BLOCK
            + made.over(at=NOW + 7, found=NOW + 9)
        )
        assert (tmp_path / CLOSED).read_bytes() == whole


@pytest.mark.parametrize("there", [0, 10])
def test_no_room_to_say_that_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: int) -> None:
    """It is closed all the same, without a torn end."""
    system = os.pwrite

    def full(file: int, data: bytes, at: int) -> int:
        return system(file, data[:there], at) if there else made.fails(errno.ENOSPC)()

    monkeypatch.setattr(os, "pwrite", full)
    made.put(tmp_path, BLOCK, BLOCK[:9], name=OPEN)
    assert [each.failure for each in Folder(tmp_path).recover(NOW)] == [""]
    assert (tmp_path / CLOSED).read_bytes() == made.header() + BLOCK


def test_the_living_are_left_alone(tmp_path: Path) -> None:
    """A segment that is written is not touched, nor are closed ones."""
    journal = made.writer(tmp_path)
    journal.write(BLOCK, NOW)
    journal.roll(NOW, force=True)
    journal.write(BLOCK, NOW)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert Folder(tmp_path).recover(NOW + 10**6 * SECOND) == []
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    journal.close(NOW)


def test_two_that_recover_at_one_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One does it; the other finds that it is done, wherever it was meanwhile."""
    made.put(tmp_path, BLOCK, name=OPEN)
    lock = disk.lock
    done: list[Recovery] = []

    def late(file: int, *, wait: bool = True) -> bool | None:
        monkeypatch.setattr(disk, "lock", lock)
        done.extend(Folder(tmp_path).recover(NOW))
        return lock(file, wait=wait)

    monkeypatch.setattr(disk, "lock", late)
    assert Folder(tmp_path).recover(NOW) == []
    assert [each.path for each in done] == [tmp_path / CLOSED]
    assert len(made.blocks(tmp_path / CLOSED)) == 2


def test_one_that_goes_before_it_is_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one was faster."""
    made.put(tmp_path, BLOCK, name=OPEN)
    entries = Folder(tmp_path).segments()
    (tmp_path / OPEN).unlink()
    here = Folder(tmp_path)
    monkeypatch.setattr(here, "segments", lambda: entries)
    assert here.recover(NOW) == []


@pytest.mark.parametrize(("silent", "dead"), [(0, False), (119, False), (121, True)])
def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: int, dead: bool
) -> None:
    """There, a segment that nothing was written to for longer than it may live has no relay any more."""
    monkeypatch.setattr(fcntl, "flock", made.fails(errno.ENOLCK))
    path = made.put(tmp_path, BLOCK, name=OPEN)
    os.utime(path, ns=(NOW, NOW))
    assert bool(Folder(tmp_path).recover(NOW + silent * SECOND)) is dead


def test_one_that_cannot_be_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told; the others are recovered."""
    bad = made.put(tmp_path, BLOCK, name=OPEN)
    made.put(tmp_path, BLOCK, name=OPEN.replace("eu-1", "eu-2"))
    system = os.open

    def refuse(path: Path, flags: int, mode: int = 0o777) -> int:
        refused = path == bad and flags & os.O_RDWR
        return made.fails(errno.EACCES)() if refused else system(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    first, second = Folder(tmp_path).recover(NOW)
    assert first == Recovery(bad, bad, 0, "Permission denied")
    assert second.failure == ""
    assert made.files(tmp_path) == [OPEN, CLOSED.replace("eu-1", "eu-2")]


def test_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not synced does not get its final name."""
    path = made.put(tmp_path, BLOCK, name=OPEN)
    monkeypatch.setattr(os, "fsync", made.fails(errno.EIO))
    assert Folder(tmp_path).recover(NOW) == [Recovery(path, path, 0, "Input/output error")]
    assert made.files(tmp_path) == [OPEN]


def test_who_writes(tmp_path: Path) -> None:
    """The lock tells; a file that is gone has no writer."""
    journal = made.writer(tmp_path)
    journal.write(BLOCK, NOW)
    assert is_written(tmp_path / OPEN)
    journal.close(NOW)
    assert not is_written(tmp_path / CLOSED)
    assert not is_written(tmp_path / OPEN)


# ------------------------------------------------------------------ retention


def test_retention_by_size(tmp_path: Path) -> None:
    """The oldest go until the rest is small enough."""
    paths = [segment(tmp_path, number, size=100) for number in range(5)]
    assert Folder(tmp_path).expire(NOW, None, 500) == []
    gone = Folder(tmp_path).expire(NOW, None, 250)
    assert [entry.path for entry in gone] == paths[:3]
    assert Folder(tmp_path).expire(NOW, None, 0)
    assert made.files(tmp_path) == []


def test_retention_by_both(tmp_path: Path) -> None:
    """What is gone by its age counts for the size."""
    for number in range(4):
        segment(tmp_path, number, size=100, written=NOW - (4 - number) * SECOND)
    assert [entry.number for entry in Folder(tmp_path).expire(NOW, 2.5, 200)] == [0, 1]
    assert [entry.number for entry in Folder(tmp_path).expire(NOW, 1000, 100)] == [2]


def test_open_segments_are_never_removed(tmp_path: Path) -> None:
    """However old and large, though they count."""
    segment(tmp_path, 1, written=0, size=1000, end=".open")
    segment(tmp_path, 2, size=100)
    other = tmp_path / "notes.txt"
    other.write_bytes(bytes(1000))
    assert [entry.number for entry in Folder(tmp_path).expire(NOW, 1000, 1000)] == [2]
    assert Folder(tmp_path).expire(NOW, 0, 0) == []
    assert len(made.files(tmp_path)) == 2


def test_a_segment_that_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are; when none can be, the caller gets the error."""
    paths = [segment(tmp_path, number, written=0) for number in range(3)]
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == paths[0]:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    assert [entry.number for entry in Folder(tmp_path).expire(NOW, 1, None)] == [1, 2]
    with pytest.raises(PermissionError, match=str(paths[0])):
        Folder(tmp_path).expire(NOW, 1, None)

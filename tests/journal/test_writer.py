"""Segments as they are written: rolling, syncing, and disks that fail."""

import errno
import os
import stat
from pathlib import Path

import pytest

from stomprelay.journal import disk
from stomprelay.journal.block import BlockKind, Damage
from stomprelay.journal.folder import Folder, Recovery
from stomprelay.journal.schema import Context, SegmentHeader
from stomprelay.journal.writer import Writer
from tests.journal import made
from tests.journal.made import HEADER, NAME, NOW, SECOND, SEND

BLOCK = made.frames((SEND, b"hello"))
OPEN, CLOSED = f"{NAME}.journal.open", f"{NAME}.journal"


class Disk:
    """What `os.write`, `os.fsync` and `os.ftruncate` do, until they are told to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: list[str] = []
        self.room: int | None = None
        self.fails: dict[str, int] = {}
        self._write, self._fsync, self._ftruncate = os.write, os.fsync, os.ftruncate
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "ftruncate", self.ftruncate)

    def write(self, file: int, data: bytes) -> int:
        """So much as there is room for."""
        if self.room is None:
            return self._write(file, data)
        if not self.room:
            made.fails(errno.ENOSPC)()
        count = self._write(file, data[: self.room])
        self.room -= count
        return count

    def fsync(self, file: int) -> None:
        """Noted by what it was."""
        if "fsync" in self.fails:
            made.fails(self.fails["fsync"])()
        self.synced.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        self._fsync(file)

    def ftruncate(self, file: int, size: int) -> None:
        """Cut."""
        if "ftruncate" in self.fails:
            made.fails(self.fails["ftruncate"])()
        self._ftruncate(file, size)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that can fail."""
    return Disk(monkeypatch)


@pytest.fixture
def journal(tmp_path: Path) -> Writer:
    """A writer that has written a block."""
    writer = made.writer(tmp_path)
    writer.write(BLOCK, NOW)
    return writer


def test_a_segment(tmp_path: Path) -> None:
    """A header, then what was written, under a name that says whether it is open; for its owner and group alone."""
    before = os.umask(0)
    try:
        journal = made.writer(tmp_path)
        assert made.files(tmp_path) == []
        journal.write(BLOCK, NOW)
        assert journal.path == tmp_path / OPEN
        assert made.files(tmp_path) == [OPEN]
        assert (tmp_path / OPEN).read_bytes() == made.header() + BLOCK
        assert stat.S_IMODE((tmp_path / OPEN).stat().st_mode) == 0o640
        journal.write(BLOCK * 2, NOW)
        journal.close(NOW)
    finally:
        os.umask(before)
    assert made.files(tmp_path) == [CLOSED]
    assert (tmp_path / CLOSED).read_bytes() == made.header() + BLOCK * 3
    assert stat.S_IMODE((tmp_path / CLOSED).stat().st_mode) == 0o640
    assert made.items(tmp_path / CLOSED)[0] == HEADER


def test_segments_roll_by_size(tmp_path: Path) -> None:
    """None is larger than it may be, none is without a block, and none lacks one."""
    journal = made.writer(tmp_path, size=len(made.header()) + 3 * len(BLOCK))
    written = [made.frames((SEND, b"hello"), number=number) for number in range(10)]
    for data in written:
        journal.write(data, NOW)
    journal.close(NOW)
    found = [entry.path for entry in Folder(tmp_path).segments()]
    assert [len(made.blocks(path)) for path in found] == [3, 3, 3, 1]
    assert [block.number for path in found for block in made.blocks(path)] == list(range(10))
    headers = [made.items(path)[0] for path in found]
    assert [each.number for each in headers if isinstance(each, SegmentHeader)] == [1, 2, 3, 4]


def test_what_is_synced(tmp_path: Path, journal: Writer, failing: Disk) -> None:
    """The file when asked, and once the folder that has it; nothing twice. At the end the file, then the folder."""
    assert failing.synced == []
    journal.sync()
    assert failing.synced == ["file", "folder"]
    journal.sync()
    assert failing.synced == ["file", "folder"]
    journal.write(BLOCK, NOW)
    journal.sync()
    assert failing.synced == ["file", "folder", "file"]
    journal.close(NOW)
    assert failing.synced == ["file", "folder", "file", "file", "folder"]


def test_a_lock_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, and no empty file is left, so a thousand tries leave none either."""
    monkeypatch.setattr(disk, "lock", made.fails(errno.EIO))
    journal = made.writer(tmp_path)
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error") as raised:
            journal.write(BLOCK, NOW)
        assert raised.value.filename == str(tmp_path)
    assert made.files(tmp_path) == []
    assert journal.number == 0


def test_somebody_clears_up_just_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file that is taken for a dead relay's, for it has no lock yet, is made again."""
    lock = disk.lock
    cleared: list[Recovery] = []

    def clear(file: int, *, wait: bool = True) -> bool | None:
        if not cleared:
            monkeypatch.setattr(disk, "lock", lock)
            cleared.extend(Folder(tmp_path).recover(NOW))
        return lock(file, wait=wait)

    monkeypatch.setattr(disk, "lock", clear)
    journal = made.writer(tmp_path)
    journal.write(BLOCK, NOW)
    assert [each.path for each in cleared] == [None]
    journal.close(NOW)
    assert len(made.blocks(tmp_path / CLOSED)) == 1


def test_two_runs_of_one_name(tmp_path: Path) -> None:
    """Should chance give two runs the same digits, neither overwrites the other's segments, open or closed."""
    one, two = made.writer(tmp_path), made.writer(tmp_path)
    one.write(made.frames((b"ONE\n\n", b"")), NOW)
    one.roll(NOW, force=True)
    one.write(made.frames((b"ONE\n\n", b"")), NOW)
    two.write(made.frames((b"TWO\n\n", b"")), NOW)
    assert two.number == 3
    one.close(NOW)
    two.close(NOW)
    found = [made.heads(made.blocks(entry.path)) for entry in Folder(tmp_path).segments()]
    assert found == [[b"ONE\n\n"], [b"ONE\n\n"], [b"TWO\n\n"]]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The error names it; once it is there, the same writer writes."""
    folder = tmp_path / "absent"
    journal = made.writer(folder)
    for _ in range(2):
        with pytest.raises(FileNotFoundError) as raised:
            journal.write(BLOCK, NOW)
        assert raised.value.filename == str(folder)
    folder.mkdir()
    journal.write(BLOCK, NOW)
    journal.close(NOW)
    assert made.files(folder) == [CLOSED]


@pytest.mark.parametrize("room", [0, 1, 40, len(BLOCK) - 1])
def test_a_full_disk(tmp_path: Path, journal: Writer, failing: Disk, room: int) -> None:
    """What was half written is gone again, at once; when there is room, the journal goes on without damage."""
    failing.room = room
    with pytest.raises(OSError, match="No space left on device") as raised:
        journal.write(BLOCK, NOW)
    assert raised.value.filename == str(tmp_path / OPEN)
    assert (tmp_path / OPEN).read_bytes() == made.header() + BLOCK
    failing.room = None
    journal.write(BLOCK * 2, NOW)
    journal.close(NOW)
    assert (tmp_path / CLOSED).read_bytes() == made.header() + BLOCK * 3


@pytest.mark.parametrize("room", [0, 1, len(made.header()), len(made.header()) + 1])
def test_a_disk_that_is_full_from_the_start(tmp_path: Path, failing: Disk, room: int) -> None:
    """The header is written when there is room; without, no empty segment is left at the end, nor a gap."""
    journal = made.writer(tmp_path)
    failing.room = room
    with pytest.raises(OSError, match="No space left on device"):
        journal.write(BLOCK, NOW)
    assert (tmp_path / OPEN).stat().st_size == 0
    assert journal.roll(NOW, force=True) is False
    assert made.files(tmp_path) == []
    failing.room = room
    with pytest.raises(OSError, match="No space left on device"):
        journal.write(BLOCK, NOW)
    failing.room = None
    journal.write(BLOCK, NOW)
    journal.close(NOW)
    assert (tmp_path / CLOSED).read_bytes() == made.header() + BLOCK


def test_a_disk_that_cannot_even_cut(tmp_path: Path, journal: Writer, failing: Disk) -> None:
    """It is tried again before anything else is written; until then nothing is."""
    failing.room = 10
    failing.fails["ftruncate"] = errno.EIO
    with pytest.raises(OSError, match="No space left on device"):
        journal.write(BLOCK, NOW)
    failing.room = None
    with pytest.raises(OSError, match="Input/output error"):
        journal.write(BLOCK, NOW)
    with pytest.raises(OSError, match="Input/output error"):
        journal.roll(NOW, force=True)
    torn = made.items(tmp_path / OPEN)[-1]
    assert isinstance(torn, Damage)
    assert torn.torn
    del failing.fails["ftruncate"]
    journal.write(BLOCK, NOW)
    journal.close(NOW)
    assert (tmp_path / CLOSED).read_bytes() == made.header() + BLOCK * 2


def test_a_sync_that_fails(tmp_path: Path, journal: Writer, failing: Disk) -> None:
    """It is told, tried again when asked again, and a segment does not get its final name without it."""
    failing.fails["fsync"] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        journal.sync()
    with pytest.raises(OSError, match="Input/output error"):
        journal.roll(NOW, force=True)
    assert made.files(tmp_path) == [OPEN]
    journal.write(BLOCK, NOW)
    failing.fails.clear()
    journal.sync()
    assert failing.synced == ["file", "folder"]
    journal.close(NOW)
    assert len(made.blocks(tmp_path / CLOSED)) == 2


def test_an_end_that_fails(tmp_path: Path, journal: Writer, failing: Disk) -> None:
    """The segment is left as it is, without a lock: who comes later recovers it."""
    failing.fails["fsync"] = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        journal.close(NOW)
    assert journal.path is None
    failing.fails.clear()
    (recovery,) = Folder(tmp_path).recover(NOW)
    assert recovery.path == tmp_path / CLOSED
    assert len(made.blocks(tmp_path / CLOSED)) == 2


def test_a_relay_that_is_alive(tmp_path: Path) -> None:
    """An old segment ends with the block that says so, and the next begins with it; a young one gets none."""
    alive = made.event("journal alive", context=Context())
    journal = made.writer(tmp_path, age=60)
    assert not journal.roll(NOW, alive=alive)
    assert made.files(tmp_path) == []
    journal.write(BLOCK, NOW)
    assert not journal.roll(NOW + 59 * SECOND, alive=alive)
    assert journal.roll(NOW + 60 * SECOND, alive=alive)
    assert not journal.roll(NOW + 61 * SECOND, alive=alive)
    assert journal.roll(NOW + 120 * SECOND, alive=alive)
    journal.close(NOW + 121 * SECOND)
    read = [[block.kind for block in made.blocks(path)] for path in sorted(tmp_path.iterdir())]
    frame, said = BlockKind.FRAMES, BlockKind.EVENT
    assert read == [[frame, said], [said, said], [said]]


def test_a_segment_that_was_taken_away(tmp_path: Path, journal: Writer) -> None:
    """That is told once; then there is a next one."""
    (tmp_path / OPEN).unlink()
    with pytest.raises(FileNotFoundError):
        journal.roll(NOW, force=True)
    journal.write(BLOCK, NOW)
    journal.close(NOW)
    assert made.files(tmp_path) == [CLOSED.replace("000001", "000002")]


def test_no_descriptor_is_left(tmp_path: Path, failing: Disk) -> None:
    """Whatever goes wrong."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("this system has no /proc/self/fd")
    count = len(os.listdir("/proc/self/fd"))
    for room in (None, 0, 5):
        journal = made.writer(tmp_path)
        failing.room = room
        try:
            journal.write(BLOCK, NOW)
        except OSError:
            pass
        journal.close(NOW)
    assert len(os.listdir("/proc/self/fd")) == count

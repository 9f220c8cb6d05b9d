"""Locks, names and folders on the disk."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from stomprelay.journal import disk
from tests.journal import made


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_locks(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Neither had nor refused."""
    monkeypatch.setattr(fcntl, "flock", made.fails(code))
    assert disk.lock(-1) is None


def test_a_lock_that_fails() -> None:
    """Any other failure is the caller's."""
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.lock(9999)


def test_a_folder_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder itself, and its descriptor is closed, also after a failure."""
    synced = []

    def sync(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", sync)
    count = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_path(tmp_path)
    assert synced == [tmp_path.stat().st_ino]
    if count:
        assert len(os.listdir("/proc/self/fd")) == count
    with pytest.raises(FileNotFoundError):
        disk.sync_path(tmp_path / "absent")


def test_what_is_on_the_disk_need_not_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is synced first; advice that is not taken is no failure, a disk that fails is."""
    done: list[str] = []

    def advise(*_: int) -> None:
        done.append("advise")
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(os, "fsync", lambda file: done.append("sync"))
    monkeypatch.setattr(os, "posix_fadvise", advise, raising=False)
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", 4, raising=False)
    disk.sync(-1)
    assert done == ["sync", "advise"]
    monkeypatch.delattr(os, "posix_fadvise")
    disk.sync(-1)
    monkeypatch.setattr(os, "fsync", made.fails(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync(-1)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """With the permissions that are asked for; where that fails, all is as it was."""
    path = tmp_path / "a"
    disk.replace(path, "1", 0o600)
    disk.replace(path, b"2", 0o755)
    assert path.read_text(encoding="utf-8") == "2"
    assert path.stat().st_mode & 0o777 == 0o755

    def fails(_: int) -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - any
        disk.replace(path, "3", prepare=fails)
    assert path.read_text(encoding="utf-8") == "2"
    assert os.listdir(tmp_path) == ["a"]

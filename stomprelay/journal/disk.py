"""What writers and readers of segments ask of the file system: locks on open segments, and syncing."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""Errors of file systems without `flock`; there the age of a segment decides, see `schema.SegmentHeader`."""


def lock(file: int, *, wait: bool = True) -> bool | None:
    """Lock a segment that is being written, until it is closed. Return False if another process has the lock, None if
    the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def is_same_file(file: int, path: Path) -> bool:
    """Return whether an open file is still the one at that path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def sync_path(path: Path) -> None:
    """Sync to the disk a file that is not open here, or which files a folder has. Raises `OSError`."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync(file: int) -> None:
    """Sync an open file to the disk, and let the system drop it from its cache, for it is not read soon."""
    os.fsync(file)
    if hasattr(os, "posix_fadvise"):
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass  # it was only advice


def replace(path: Path, text: str) -> None:
    """Replace a file as a whole or not at all; it is synced to disk on return. Raises `OSError`."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_path(path.parent)

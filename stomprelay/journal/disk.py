"""What writers and readers of segments ask of the file system: that a relay lives, and that names last."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Final

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""What file systems say that have no `flock`. There, the dead are known by their silence, see `Header.age`."""


def lock(file: int, *, wait: bool = True) -> bool | None:
    """Take the lock by which others see that a segment's relay lives. False: another process has it; None: the file
    system has no locks.
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


def same(file: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def sync_folder(directory: Path) -> None:
    """Bring names that were given, changed or removed to the disk."""
    sync_path(directory, os.O_DIRECTORY)


def sync_path(path: Path, flags: int = 0) -> None:
    """Bring a file or a folder to the disk that nobody has open here."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync(file: int) -> None:
    """Bring a file to the disk, and no more of it stays in memory: it is not read soon, and other files are."""
    os.fsync(file)
    if hasattr(os, "posix_fadvise"):
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass  # it was only advice

"""What writers and readers of segments need from the file system: locks on open segments, and syncing."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
"""The errors of file systems without `flock`. There, the age of a segment shows whether its relay is dead."""


def lock(file: int, *, wait: bool = True) -> bool | None:
    """Lock an open file until it is closed. With `wait`, wait until the lock is free. Return True if the file is
    locked, False if another process has the lock, None if the file system has no locks.
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
    """Return whether an open file is still the file at that path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def sync_path(path: Path) -> None:
    """Sync to disk a file that is not open here. For a folder, sync the names of its files. Raises `OSError`."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def sync(file: int) -> None:
    """Sync an open file to disk. Let the system drop the file from its cache, because nobody reads it soon."""
    os.fsync(file)
    if hasattr(os, "posix_fadvise"):
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError:
            pass  # it was only a hint


def replace(
    path: Path, content: str | bytes, mode: int = 0o666, prepare: Callable[[int], object] | None = None
) -> None:
    """Replace a file as a whole or not at all. On return the new file is synced to disk. `mode`: its permissions, of
    which the umask is taken away. `prepare` is called with its descriptor before it is written. Raises `OSError`.
    """
    new = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        try:
            if prepare is not None:
                prepare(file.fileno())
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            new.unlink()
            raise
    sync_path(path.parent)

"""A journal's folder: which segments are in it, those that dead relays left open, those that are old enough to go."""

import errno
import os
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.journal import disk, segment
from stomprelay.journal.block import Damage
from stomprelay.journal.schema import Header
from stomprelay.journal.segment import CLOSED, parse_name

_SECOND: Final = 10**9
_SILENCE: Final = 60.0
"""Seconds beyond its age after which a segment that nothing is written to has lost its relay, where there are no
locks to see it by."""


class Entry(NamedTuple):
    """A segment in a folder. `name` is without its ending, `size` in octets, `written` when that was last (nanoseconds
    since 1970); the rest is as `segment.Name` has it.
    """

    path: Path
    name: str
    created: int
    relay: str
    run: str
    number: int
    size: int
    written: int
    closed: bool


class Recovery(NamedTuple):
    """What was done with a segment of a dead relay. `path` is its new name, or None when it was removed, because no
    record was in it; `cut` octets were taken from its end. `failure`: why nothing could be done; empty otherwise.
    """

    was: Path
    path: Path | None
    cut: int
    failure: str = ""


class Gap(NamedTuple):
    """Segments `first` to `last` of a run that are not in a folder, though earlier and later ones are."""

    relay: str
    run: str
    first: int
    last: int


class Folder:
    """A folder with the segments of any number of relays and runs. Other files in it are left alone.

    Methods raise `OSError`, which names the folder or the file.
    """

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def require(self) -> None:
        """Raise `OSError` unless segments can be written here."""
        if not self.directory.exists():
            reason = errno.ENOENT
        elif not self.directory.is_dir():
            reason = errno.ENOTDIR
        elif not os.access(self.directory, os.R_OK | os.W_OK | os.X_OK):
            reason = errno.EACCES
        else:
            return
        raise OSError(reason, os.strerror(reason), str(self.directory))

    def segments(self) -> list[Entry]:
        """All segments, the oldest first; those of one run in their order."""
        found: dict[str, Entry] = {}
        with os.scandir(self.directory) as files:
            for file in files:
                entry = _entry(Path(file.path))
                # One that was renamed meanwhile may be seen by both its names.
                if entry is not None and (entry.closed or entry.name not in found):
                    found[entry.name] = entry
        return sorted(found.values(), key=lambda entry: (entry.created, entry.relay, entry.run, entry.number))

    def gaps(self) -> list[Gap]:
        """The segments that are missing between others. Retention leaves no gaps: it takes the oldest."""
        runs: dict[tuple[str, str], list[int]] = {}
        for entry in self.segments():
            runs.setdefault((entry.relay, entry.run), []).append(entry.number)
        return [
            Gap(*run, before + 1, after - 1)
            for run, numbers in runs.items()
            for before, after in pairwise(sorted(numbers))
            if after > before + 1
        ]

    def recover(self, now: int) -> list[Recovery]:
        """Close the segments that dead relays left open: what is torn at their end is cut off. Those that are still
        written are left alone; without harm any number of processes may do this at one time. `now`: nanoseconds since
        1970; it counts only where the file system has no locks. What cannot be recovered is told, not raised.
        """
        done = [_recovered(entry, now) for entry in self.segments() if not entry.closed]
        if any(each and not each.failure for each in done):
            disk.sync_folder(self.directory)
        return [each for each in done if each is not None]

    def expire(self, now: int, age: float | None, size: int | None) -> list[Entry]:
        """Remove closed segments, the oldest first: those that were last written to more than `age` seconds ago, and
        more until all segments together, open ones included, take at most `size` octets. Answers what was removed.

        Where one cannot be removed the others are; the error is raised only if none could be.
        """
        segments = self.segments()
        octets = sum(entry.size for entry in segments)
        gone = []
        failure: OSError | None = None
        for entry in segments:
            old = age is not None and now - entry.written > age * _SECOND
            if not entry.closed or not (old or (size is not None and octets > size)):
                continue
            try:
                entry.path.unlink(missing_ok=True)
            except OSError as error:
                failure = failure or error
                continue
            octets -= entry.size
            gone.append(entry)
        if failure is not None and not gone:
            raise failure
        return gone


def _entry(path: Path) -> Entry | None:
    read = parse_name(path.name)
    if read is None:
        return None
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    named, is_open = read
    return Entry(path, str(named), *named, status.st_size, status.st_mtime_ns, not is_open)


def is_written(path: Path) -> bool:
    """Whether the relay that writes an open segment still runs, as far as its lock shows it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return disk.lock(file, wait=False) is False
    finally:
        os.close(file)


def _recovered(entry: Entry, now: int) -> Recovery | None:
    path = entry.path
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Recovery(path, path, 0, str(error.strerror))
    try:
        locked = disk.lock(file, wait=False)
        if locked is False or not disk.same(file, path):
            return None
        extent = _Extent(path)
        if locked is None and now - entry.written < (extent.age + _SILENCE) * _SECOND:
            return None
        size = os.fstat(file).st_size
        if extent.is_void:
            path.unlink()
            return Recovery(path, None, size)
        end = size if extent.torn_at is None else extent.torn_at
        if end < size:
            os.ftruncate(file, end)
        os.fsync(file)
        closed = path.with_name(entry.name + CLOSED)
        path.rename(closed)
        return Recovery(path, closed, size - end)
    except OSError as error:
        return Recovery(path, path, 0, str(error.strerror))
    finally:
        os.close(file)


class _Extent:
    """How far a segment goes, and how long its relay meant to write it."""

    def __init__(self, path: Path) -> None:
        self.age = 0.0
        self.is_void = True
        self.torn_at: int | None = None
        for found in segment.read(path):
            if isinstance(found, Header):
                self.age = found.age
            elif isinstance(found, Damage) and found.torn:
                self.torn_at = found.offset
            else:
                self.is_void = False

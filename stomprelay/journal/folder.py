"""A journal's folder: lists its segments, closes the segments of killed relays, removes old segments."""

import errno
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.journal import disk, segment
from stomprelay.journal.block import Block, BlockKind, Damage, encode
from stomprelay.journal.schema import RECOVERY, Context, EventRecord, JournalEvent, SegmentHeader
from stomprelay.journal.segment import CLOSED, parse_name

_SECOND: Final = 10**9
_SILENCE: Final = 60.0
"""Without locks, a relay counts as dead if it wrote nothing for the age of its segment and this many seconds more."""


class SegmentFile(NamedTuple):
    """A segment in a folder: its path, the parts of its name, its size in bytes, and when it was last written (ns since
    1970). `name` has no ending.
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
    """What was done with a segment of a killed relay. `was`: its old path. `path`: its new path; None if it had no
    record and was removed. `cut`: how many bytes were cut off its end. `failure`: why it could not be closed, or empty.
    """

    was: Path
    path: Path | None
    cut: int
    failure: str = ""


class Gap(NamedTuple):
    """Segments `first` to `last` of a run are missing in a folder."""

    relay: str
    run: str
    first: int
    last: int


class Folder:
    """A folder with segments of any number of relays and runs. Methods raise `OSError`, which names the file."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)

    def require(self) -> None:
        """Raise `OSError` if segments cannot be written in this folder."""
        if not self.directory.exists():
            reason = errno.ENOENT
        elif not self.directory.is_dir():
            reason = errno.ENOTDIR
        elif not os.access(self.directory, os.R_OK | os.W_OK | os.X_OK):
            reason = errno.EACCES
        else:
            return
        raise OSError(reason, os.strerror(reason), str(self.directory))

    def segments(self) -> list[SegmentFile]:
        """Return all segments, the oldest first. The segments of a run are in the order of their numbers."""
        found: dict[str, SegmentFile] = {}
        with os.scandir(self.directory) as files:
            for file in files:
                entry = _entry(Path(file.path))
                # A segment that is renamed meanwhile may be listed under both names.
                if entry is not None and (entry.closed or entry.name not in found):
                    found[entry.name] = entry
        return sorted(found.values(), key=lambda entry: (entry.created, entry.relay, entry.run, entry.number))

    def gaps(self) -> list[Gap]:
        """Return the segments that are missing between a run's first and last segment. `expire` leaves no such gaps."""
        return [
            Gap(*run, before + 1, after - 1)
            for run, numbers in self._runs().items()
            for before, after in pairwise(sorted(numbers))
            if after > before + 1
        ]

    def heads(self) -> list[Gap]:
        """Return the missing segments at the beginning of each run, which `expire` or a user removed."""
        firsts = {run: min(numbers) for run, numbers in self._runs().items()}
        return [Gap(*run, 1, first - 1) for run, first in firsts.items() if first > 1]

    def _runs(self) -> dict[tuple[str, str], list[int]]:
        runs: dict[tuple[str, str], list[int]] = {}
        for entry in self.segments():
            runs.setdefault((entry.relay, entry.run), []).append(entry.number)
        return runs

    def recover(self, now: int) -> list[Recovery]:
        """Close the segments that killed relays left open. A torn end is cut off, and the run's last segment gets the
        event `ENDED`. Several processes may do this at the same time. `now`: nanoseconds since 1970. If a segment
        cannot be recovered, its `Recovery` has a `failure`.
        """
        last = {run: max(numbers) for run, numbers in self._runs().items()}
        done = [
            _recovered(entry, now, last=entry.number == last.get((entry.relay, entry.run), entry.number))
            for entry in self.segments()
            if not entry.closed
        ]
        if any(each and not each.failure for each in done):
            disk.sync_path(self.directory)
        return [each for each in done if each is not None]

    def expire(self, now: int, age: float | None, size: int | None) -> list[SegmentFile]:
        """Remove closed segments, the oldest first. Remove all that were last written more than `age` seconds ago, then
        more until all segments together have at most `size` bytes. None means no such limit. Return the removed
        segments. Raises `OSError` only if no segment could be removed.
        """
        segments = self.segments()
        total = sum(entry.size for entry in segments)
        gone = []
        failure: OSError | None = None
        for entry in segments:
            old = age is not None and now - entry.written > age * _SECOND
            if not entry.closed or not (old or (size is not None and total > size)):
                continue
            try:
                entry.path.unlink(missing_ok=True)
            except OSError as error:
                failure = failure or error
                continue
            total -= entry.size
            gone.append(entry)
        if failure is not None and not gone:
            raise failure
        return gone


def _entry(path: Path) -> SegmentFile | None:
    read = parse_name(path.name)
    if read is None:
        return None
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    named, is_open = read
    return SegmentFile(path, str(named), *named, status.st_size, status.st_mtime_ns, not is_open)


def is_written(path: Path) -> bool:
    """Return whether the relay that writes an open segment still runs, judged by the segment's lock."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return disk.lock(file, wait=False) is False
    finally:
        os.close(file)


def _recovered(entry: SegmentFile, now: int, *, last: bool) -> Recovery | None:
    """Close an open segment whose relay is dead. Return what was done; None if the relay lives or the file is gone.
    `last`: the segment is the last of its run, so it gets the event `ENDED`.
    """
    path = entry.path
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        # This process may not write here, but another one may still write the segment.
        return None if is_written(path) else Recovery(path, path, 0, str(error.strerror))
    try:
        locked = disk.lock(file, wait=False)
        if locked is False or not disk.is_same_file(file, path):
            return None
        extent = _Extent(path)
        if locked is None and now - entry.written < (extent.age + _SILENCE) * _SECOND:
            return None
        size = os.fstat(file).st_size
        if extent.is_empty:
            path.unlink()
            return Recovery(path, None, size)
        end = size if extent.torn_at is None else extent.torn_at
        if end < size:
            os.ftruncate(file, end)
        if last and extent.newest and not extent.is_over:
            facts = {"by": RECOVERY, "found": now, "cut": size - end}
            text = "the relay is gone; what it left open was closed"
            over = EventRecord(JournalEvent.ENDED.value, text, facts).encode()
            block = encode(BlockKind.EVENT, extent.newest, 0, Context().encode(), (), over)
            try:
                written = os.pwrite(file, block, end)
            except OSError:
                written = 0
            if written < len(block):
                os.ftruncate(file, end)  # the disk is full: there is no event
        os.fsync(file)
        closed = path.with_name(entry.name + CLOSED)
        path.rename(closed)
        return Recovery(path, closed, size - end)
    except OSError as error:
        return Recovery(path, path, 0, str(error.strerror))
    finally:
        os.close(file)


class _Extent:
    """What recovery must know of a segment. `is_empty`: it has no record. `torn_at`: the offset of a torn end, or None.
    `age`: its greatest age in seconds. `newest`: its newest time in ns, 0 for none. `is_over`: it says that its run has
    ended.
    """

    def __init__(self, path: Path) -> None:
        self.age = 0.0
        self.newest = 0
        self.is_empty = True
        self.torn_at: int | None = None
        last: Block | None = None
        for found in segment.read(path):
            if isinstance(found, SegmentHeader):
                self.age = found.age
                self.newest = max(self.newest, found.created)
            elif isinstance(found, Damage) and found.torn:
                self.torn_at = found.offset
            else:
                self.is_empty = False
                if isinstance(found, Block):
                    last = found
                    self.newest = max(self.newest, found.time)
        self.is_over = last is not None and last.kind is BlockKind.EVENT and _ends(last.payload)


def _ends(payload: bytes) -> bool:
    """Return whether an event with this payload says that the run has ended."""
    try:
        return bool(json.loads(payload)["event"] == JournalEvent.ENDED.value)
    except (ValueError, TypeError, KeyError):
        return False

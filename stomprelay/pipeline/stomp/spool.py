"""Messages on disk between a broker and Spark, so that a batch can be read again after its messages were acknowledged.

A spool is a folder of segments. Each segment is an Arrow IPC stream, named by the sequence of its first row. A group of
messages is one record batch of the stream. The batch's metadata have the sequence of its first row and the checksum of
its body. When `append` returns, the group is synced to disk. A crash may leave a group half written at the end. The
messages of such a group were never acknowledged. The group is cut off when the spool is opened. Any tool that reads
Arrow streams can read a segment:

    pyarrow.ipc.open_stream("00000000000000000000.arrows").read_all()
"""

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import pyarrow as pa

from stomprelay.journal.disk import sync_path
from stomprelay.pipeline.stomp.columns import STORED

SEGMENT: Final = 64 * 1024 * 1024
"""A new segment begins after this many bytes."""
SUFFIX: Final = ".arrows"
LOCK: Final = "lock"
_NAME: Final = re.compile(r"(\d{20})\.arrows")
_FIRST: Final = b"first"
_CHECK: Final = b"crc32"


class SpoolError(Exception):
    """A spool that cannot be used or lacks messages. The error's text names the folder and the reason."""


class SpoolGroup(NamedTuple):
    """One Arrow batch of a segment; `first` is the sequence of its first row."""

    first: int
    batch: Any

    @property
    def end(self) -> int:
        """Return the sequence after the last row of the group."""
        return int(self.first + self.batch.num_rows)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Raise `SpoolError` instead of an `OSError` inside the context."""
    try:
        yield
    except OSError as error:
        raise SpoolError(f"spool {folder}: {error.strerror}") from None


def segments(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments of a spool in order, each with the sequence of its first row."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [(int(match[1]), folder / name) for name in names if (match := _NAME.fullmatch(name))]
    return sorted(found)


class MessageSpool:
    """The only writer of a spool. The spool has the sequences from `begin` up to `end`. An empty spool begins with
    `first`. Opening waits up to `patience` seconds for the lock. Every method raises `SpoolError`. Call `close` at the
    end.
    """

    def __init__(
        self, folder: Path, *, first: int = 0, patience: float = 30.0, segment: int = SEGMENT
    ) -> None:
        self.folder = folder
        self.begin = self.end = first
        self._segment = segment
        self._size = 0
        self._file: int | None = None
        with _told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = _locked(folder, patience)
            try:
                self._recover(first)
            except OSError:
                self.close()
                raise

    def _recover(self, first: int) -> None:
        """Cut off a group that a crash left half written, and continue after the last whole group. Raises `OSError`."""
        found = segments(self.folder)
        while found:
            begin, path = found.pop()
            whole, end = _examined(path, begin)
            if whole:
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                if os.fstat(self._file).st_size > whole:
                    os.ftruncate(self._file, whole)
                    os.fsync(self._file)
                self._size = whole
                self.begin = found[0][0] if found else begin
                self.end = end
                return
            path.unlink()
            if not found:
                first = begin  # its name is the sequence that the spool had reached
        self.begin = self.end = first
        self._roll()

    def _roll(self) -> None:
        """Begin a new segment. Raises `OSError`."""
        path = self.folder / f"{self.end:020d}{SUFFIX}"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        before, self._file = self._file, file
        if before is not None:
            os.close(before)
        _write(file, STORED.serialize())
        self._size = STORED.serialize().size
        os.fsync(file)
        sync_path(self.folder)

    def append(self, batch: Any) -> int:
        """Write a group and sync it to disk. Return the sequence after its last row."""
        if self._file is None:
            raise SpoolError(f"spool {self.folder} is closed")
        with _told(self.folder):
            if self._size >= self._segment:
                self._roll()
            written = _write(self._file, _message(batch, self.end))
            os.fdatasync(self._file)
        self._size += written
        self.end += batch.num_rows
        return self.end

    def skip(self, first: int) -> None:
        """Continue at the sequence `first`, which must be a later one. The rows before `first` are missing then."""
        self.end = first
        with _told(self.folder):
            self._roll()

    def drop_below(self, sequence: int) -> None:
        """Remove the segments that hold only rows below this sequence, except the current segment."""
        found = segments(self.folder)
        for (_, path), (after, _) in pairwise(found):
            if after > sequence:
                break
            with _told(self.folder):
                path.unlink()
            self.begin = after

    def drop_older(self, seconds: float) -> None:
        """Remove the segments that were last written more than this many seconds ago, except the current segment."""
        found, now = segments(self.folder), time.time()
        for (_, path), (after, _) in pairwise(found):
            if now - path.stat().st_mtime < seconds:
                break
            self.drop_below(after)

    def close(self) -> None:
        """Close the file and release the lock. Calling this method again does no harm."""
        for file in (self._file, self._lock):
            if file is not None:
                os.close(file)
        self._file = self._lock = None


def read(folder: Path, first: int, end: int, *, strict: bool = True) -> Iterator[SpoolGroup]:
    """Yield the rows from sequence `first` up to `end`, mapped into memory. If rows are missing, `SpoolError` is
    raised; without `strict` they are left out.
    """
    found = segments(folder)
    at = first
    for number, (_, path) in enumerate(found):
        if number + 1 < len(found) and found[number + 1][0] <= at:
            continue
        for group, _ in _walk(path, checked=False) if at < end else ():
            if group.end <= at:
                continue
            if group.first >= end or (group.first > at and strict):
                break
            at, upto = max(at, group.first), min(group.end, end)
            yield SpoolGroup(at, group.batch.slice(at - group.first, upto - at))
            at = upto
            if at >= end:
                return
    if at < end and strict:
        holds = f"{found[0][0]} on" if found else "nothing"
        raise SpoolError(
            f"spool {folder} does not hold messages {at} to {end - 1} any more (it holds {holds}): was it emptied,"
            " or is it another folder than before?"
        )


def covered(folder: Path, first: int, end: int) -> list[tuple[int, int]]:
    """Return the sequences from `first` up to `end`, divided into one range for each segment. Raises `SpoolError` if
    the first rows are missing.
    """
    found = segments(folder)
    begins = [begin for begin, _ in found if begin < end]
    if first < end and (not begins or begins[0] > first):
        for _ in read(folder, first, end):  # raises with what is missing
            pass
    edges = [max(begin, first) for begin in begins] + [end]
    return [(low, high) for low, high in pairwise(edges) if low < high]


# One segment


def _message(batch: Any, first: int) -> Any:
    """Return the bytes that a group has in a segment, without the schema."""
    body = pa.ipc.read_message(batch.serialize()).body
    told = {_FIRST: b"%d" % first, _CHECK: b"%08x" % crc32(body)}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch, custom_metadata=told)
        start = batch.schema.serialize().size
        end = sink.tell()
    return sink.getvalue().slice(start, end - start)


def _examined(path: Path, begin: int) -> tuple[int, int]:
    """Return how many bytes from the begin of a segment are whole, and the sequence after these bytes."""
    if path.stat().st_size < STORED.serialize().size:
        return 0, begin
    whole, end = 0, begin
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source):
            whole = source.tell()
    except (pa.ArrowInvalid, OSError):
        return 0, begin
    for group, upto in _walk(path, checked=True):
        whole, end = upto, group.end
    return whole, end


def _walk(path: Path, *, checked: bool) -> Iterator[tuple[SpoolGroup, int]]:
    """Yield each whole group of a segment, and the position in bytes where it ends."""
    try:
        source = pa.memory_map(str(path))
        stream = pa.ipc.open_stream(source)
    except (pa.ArrowInvalid, OSError):
        return
    while True:
        at = source.tell()
        try:
            batch, told = stream.read_next_batch_with_custom_metadata()
            upto = source.tell()
            if told is None or (checked and not _checked(path, at, told)):
                return
            first = int(told[_FIRST])
        except (StopIteration, KeyError, ValueError, OSError, pa.ArrowException):
            return
        yield SpoolGroup(first, batch), upto


def _checked(path: Path, at: int, told: Any) -> bool:
    with pa.memory_map(str(path)) as source:
        source.seek(at)
        message = pa.ipc.read_message(source)
        return bool(b"%08x" % crc32(message.body) == told[_CHECK])


def _write(file: int, data: Any) -> int:
    left = memoryview(data)
    size = len(left)
    while left:
        left = left[os.write(file, left) :]
    return size


def _locked(folder: Path, patience: float) -> int:
    """Wait up to `patience` seconds for the folder's lock. Return its open file. Raises `SpoolError` and `OSError`."""
    file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                owner = os.pread(file, 64, 0).decode("ascii", "replace").strip()
                os.close(file)
                raise SpoolError(
                    f"spool {folder} is in use by process {owner}: each source needs a spool of its own"
                ) from None
            time.sleep(0.05)
        else:
            os.ftruncate(file, 0)
            os.pwrite(file, b"%d\n" % os.getpid(), 0)
            return file

"""Writing segments, one file after the other. Written blocks can be read even if the relay is killed at any time."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stomprelay.journal import disk
from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.schema import VERSION, SegmentHeader
from stomprelay.journal.segment import CLOSED, OPEN, SegmentName, safe_name

_SECOND: Final = 10**9
_MODE: Final = 0o640


class Writer:
    """The segments of one run of a relay, each of at most `size` bytes and `age` seconds. Times are in ns since 1970.
    Methods raise `OSError`, and may be called again after an error. A half-written block is cut off before the next
    write. Only one thread may use a writer. Call `close` at the end.
    """

    __slots__ = ("_age", "_end", "_file", "_name", "_new", "_relay", "_run", "_size", "_software", "_told",
                 "_torn", "_unsynced", "directory", "number")  # fmt: skip

    def __init__(
        self, directory: Path | str, relay: str, run: str, *, size: int, age: float, software: str
    ) -> None:
        self.directory = Path(directory)
        self.number = 0
        self._relay = relay
        self._run = run
        self._size = size
        self._age = age
        self._software = software
        self._file = -1
        self._name = SegmentName(0, "", "", 0)
        self._forget()

    def _forget(self) -> None:
        self._file = -1
        self._end = 0
        self._torn = self._unsynced = self._new = self._told = False

    @property
    def path(self) -> Path | None:
        """Return the path of the segment that is being written; None between two segments."""
        return None if self._file < 0 else self.directory / f"{self._name}{OPEN}"

    def write(self, data: bytes | memoryview, now: int, event: bytes = b"") -> None:
        """Append blocks, and an event about them, to one segment. If `OSError` is raised, nothing is appended. The
        blocks survive a crash of the machine only after `sync`.
        """
        size = len(data) + len(event)
        if self._file >= 0 and self._end and (self._end + size > self._size or self._is_old(now)):
            self._finish()
        if self._file < 0:
            self._begin(now)
        self._mend()
        header = b"" if self._end else self._header()
        self._append([piece for piece in (header, data, event) if piece])

    def sync(self) -> None:
        """Sync to disk the written bytes, and the name of a new file."""
        if self._unsynced and self._file >= 0:
            disk.sync(self._file)
            self._unsynced = False
        if self._new:
            disk.sync_path(self.directory)
            self._new = False

    def roll(self, now: int, *, force: bool = False, alive: bytes = b"") -> bool:
        """End the segment if it is old enough, or if `force` is True. Return whether it was ended. With the event
        `alive`, the next segment begins at once, so that a living relay always has an open segment.
        """
        ended = False
        if self._file >= 0 and (force or self._is_old(now)):
            if alive and self._end and not self._told:
                self._mend()
                self._append([alive])
                self._told = True
            ended = self._finish()
        if alive and self._file < 0 and self.number:
            self.write(alive, now)
        return ended

    def close(self, now: int) -> None:
        """End the segment, if there is one. If that raises `OSError`, `Folder.recover` ends the segment later."""
        try:
            self.roll(now, force=True)
        finally:
            if self._file >= 0:
                os.close(self._file)
                self._forget()

    def _is_old(self, now: int) -> bool:
        # A clock that was put back does not keep a segment open.
        return abs(now - self._name.created) >= self._age * _SECOND

    def _begin(self, now: int) -> None:
        try:
            while True:
                name = SegmentName(now, safe_name(self._relay), self._run, self.number + 1)
                try:
                    if (self.directory / f"{name}{CLOSED}").exists():
                        raise FileExistsError
                    self._file = _locked(self.directory / f"{name}{OPEN}")
                    break
                except FileExistsError:
                    # Another run has the same random digits. Its segments stay.
                    self.number += 1
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.directory)) from None
        self._name = name
        self.number = name.number
        self._new = True

    def _header(self) -> bytes:
        name = self._name
        header = SegmentHeader(
            VERSION, self._relay, self._run, name.number, name.created, self._age, self._software
        )
        return encode(BlockKind.HEADER, name.created, 0, b"", (), header.encode())

    def _mend(self) -> None:
        if self._torn:
            os.ftruncate(self._file, self._end)
            self._torn = False

    def _append(self, pieces: Sequence[bytes | memoryview]) -> None:
        end = self._end
        self._torn = self._unsynced = True
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                end += len(piece)
        except OSError as error:
            try:
                self._mend()
            except OSError:
                pass  # it is tried again before the next block
            raise OSError(error.errno, error.strerror, str(self.path)) from None
        self._torn = False
        self._end = end

    def _finish(self) -> bool:
        path = self.directory / f"{self._name}{OPEN}"
        self._mend()
        whole = self._end > 0
        try:
            if whole:
                disk.sync(self._file)
                path.rename(self.directory / f"{self._name}{CLOSED}")
            else:
                path.unlink()
                self.number -= 1
        except FileNotFoundError:
            # Another process removed the segment. The next call begins a new one.
            os.close(self._file)
            self._forget()
            raise
        os.close(self._file)
        self._forget()
        if whole:
            disk.sync_path(self.directory)
        return whole


def _locked(path: Path) -> int:
    """Create a file, and lock it against `Folder.recover` of other processes. Return its descriptor."""
    while True:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, _MODE)
        try:
            disk.lock(file)
            if disk.is_same_file(file, path):
                return file
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        # `Folder.recover` of another process removed the file between the two calls.
        os.close(file)

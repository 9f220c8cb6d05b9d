"""Reads a journal while relays write it: each record once, soon after it was written."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stomprelay.journal import segment
from stomprelay.journal.block import Block, Damage
from stomprelay.journal.folder import Folder, SegmentFile
from stomprelay.journal.records import Record, Wanted, records_of
from stomprelay.journal.schema import SegmentHeader

_PORTION: Final = 1 << 22
"""How many bytes are read at a time. A larger block is read whole."""


class Follower:
    """Follows the segments of a folder, except those that were last written before `since` (ns since 1970). `damages`:
    how many damages were met.
    """

    def __init__(self, directory: Path | str, since: int) -> None:
        self._folder = Folder(directory)
        self._since = since
        self._read: dict[str, tuple[bytes, int]] = {}
        """By segment: its header's block, and how many bytes of the segment were read."""
        self.damages = 0

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """Yield the `wanted` records that were written since the last call; take all before the next call. Records of
        one run of a relay are in order. Raises `OSError` if the folder cannot be read.
        """
        for file in self._folder.segments():
            if file.size > self._read.get(file.name, (b"", 0))[1] and file.written >= self._since:
                yield from self._more(file, wanted)

    def _more(self, file: SegmentFile, wanted: Wanted) -> Iterator[Record]:
        head, at = self._read.get(file.name, (b"", 0))
        size = _PORTION
        while data := self._bytes(file.path, at, size):
            before, whole = len(head), 0

            def items(data: bytes = head + data) -> Iterator[SegmentHeader | Block | Damage]:
                nonlocal head, whole
                for found in segment.parse(data):
                    if isinstance(found, Damage) and found.torn:
                        return
                    if not isinstance(found, SegmentHeader):
                        head = head or data[: found.offset]
                        whole = found.offset + found.length
                    yield found

            for found in records_of(items(), file.name, wanted):
                if isinstance(found, Record):
                    yield found
                else:
                    self.damages += 1
            if whole > before:
                at += whole - before
                self._read[file.name] = head, at
            elif len(data) < size:
                return
            else:
                size *= 2

    @staticmethod
    def _bytes(path: Path, at: int, size: int) -> bytes:
        """Return bytes of a segment; none if it was removed. It may have been closed, and so renamed, meanwhile."""
        for each in (path, path.with_suffix("")):
            try:
                with each.open("rb") as source:
                    source.seek(at)
                    return source.read(size)
            except FileNotFoundError:
                pass
        return b""

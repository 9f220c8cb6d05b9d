"""What is kept of an unfinished frame."""

import re
from typing import Final, NamedTuple

_FEW: Final = 16
_SMALL: Final = 4096

_join: Final = b"".join


class Awaited(NamedTuple):
    """An unfinished frame is kept until there are `need` bytes of it and a new piece has the `mark`; `most` at most."""

    need: int
    most: int
    mark: re.Pattern[bytes] | None


class HeadSoFar(NamedTuple):
    """Of an unfinished head: how many lines have begun, the size of the last one, and the last two bytes."""

    lines: int
    line: int
    end: bytes


class Pieces:
    """Bytes that come piece by piece, to be taken together. Small pieces cost little more than their bytes."""

    __slots__ = ("_pieces", "size")

    def __init__(self, first: bytes) -> None:
        self._pieces: list[bytes | bytearray] = [first]
        self.size = len(first)

    def add(self, data: bytes) -> None:
        """Keep one more."""
        size = len(data)
        self.size += size
        pieces = self._pieces
        if size >= _SMALL or len(pieces) < _FEW:
            pieces.append(data)
        elif type(pieces[-1]) is bytearray:
            pieces[-1] += data
        else:
            pieces.append(bytearray(data))

    def joined(self) -> bytes:
        """All of them."""
        return _join(self._pieces)

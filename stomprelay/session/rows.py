"""Rows of values under names. A text of rows, or of names, has an LF behind each of its values. `Rows` has a twin in C,
without an object for each row.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Final

from stomprelay.wire.decoder import SCANNER

Row = tuple[bytes, ...]


def ids(rows: bytes, width: int) -> set[bytes]:
    """Return the first values of rows of so many values: whose they are."""
    return {row[0] for row in split(rows, width)}


class Rows:
    """Rows of `width` values in order, unique by their values `first` up to `stop`. `size`: bytes of the texts."""

    def __init__(self, width: int, first: int, stop: int) -> None:
        self._width = width
        self._first = first
        self._stop = stop
        self._rows: dict[Row, tuple[int, Row]] = {}
        self._added = 0
        # Of each whose rows are covered what there is, in order.
        self._covered: dict[bytes, deque[Row]] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, text: bytes, covered: set[bytes]) -> bool:
        """Add the newest rows; `covered` ones go with later ones. Return False, and add none, where a name is taken."""
        rows = split(text, self._width)
        names = [row[self._first : self._stop] for row in rows]
        different = set(names)
        if len(different) < len(names) or not self._rows.keys().isdisjoint(different):
            return False
        for name, row in zip(names, rows, strict=True):
            self._added += 1
            self._rows[name] = self._added, row
            if row[0] in covered:
                self._covered.setdefault(row[0], deque()).append(name)
        self.size += len(text)
        return True

    def values(self, names: bytes, first: int, stop: int) -> bytes | None:
        """Return the values `first` up to `stop` of the rows of these names; None where `remove` may not find each."""
        wanted = split(names, self._stop - self._first)
        if not all(map(self._rows.__contains__, wanted)):
            return None
        found = [self._rows[name] for name in wanted]
        if self._covered and not all(one[0] < next[0] for one, next in pairwise(found)):
            return None
        if len(set(wanted)) < len(wanted) or stop > self._width:
            return None
        return joined([row[first:stop] for _, row in found])

    def remove(self, names: bytes) -> tuple[bool, set[bytes]]:
        """Remove the rows of these names and what they cover. Return whether each was found, and whose were."""
        found, whose = True, set[bytes]()
        for name in split(names, self._stop - self._first):
            numbered = self._rows.get(name)
            if numbered is None:
                found = False
                continue
            id = numbered[1][0]
            line = self._covered.get(id)
            covered = [name] if line is None else []
            if line is not None:
                whose.add(id)
                while not covered or covered[-1] != name:
                    covered.append(line.popleft())
                if not line:
                    del self._covered[id]
            self.size -= len(joined([self._rows.pop(each)[1] for each in covered]))
        return found, whose

    def take(self) -> bytes:
        """Remove all rows, and return them."""
        text = joined([row for _, row in self._rows.values()])
        self._rows, self._covered, self.size = {}, {}, 0
        return text


def split(text: bytes, width: int) -> list[Row]:
    """Return rows, or names, of so many values one by one."""
    *values, rest = text.split(b"\n")
    if rest:
        raise ValueError("a value without its LF")
    return list(zip(*[iter(values)] * width, strict=True))


def joined(rows: Iterable[Sequence[bytes]]) -> bytes:
    """Return the text of rows."""
    return b"".join([value + b"\n" for row in rows for value in row])


def _compiled() -> Any:
    if SCANNER is None:
        return None
    try:
        from stomprelay.session import _rows
    except ImportError:
        return None
    return _rows


COMPILED: Final = _compiled()
"""What keeps rows in C; None where it was not built, or nothing compiled is wanted."""
ROWS: Final = Rows if COMPILED is None else COMPILED.Rows
ids_of: Final[Callable[[bytes, int], set[bytes]]] = ids if COMPILED is None else COMPILED.ids

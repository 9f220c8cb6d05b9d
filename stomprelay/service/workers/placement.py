"""Where the sessions of all workers are, in a file that they map into memory: new ones go to the broker that has most,
whichever worker that is known to.
"""

from collections.abc import Iterable
from hashlib import blake2b
from mmap import mmap
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.service.brokers.brokers import ConfiguredBroker

ROWS: Final = 4096
"""Brokers that there is room for; sessions of further ones each worker places by what it knows itself."""
_CELL: Final = 8
_SUFFIX: Final = "-placement"


class Placement:
    """A row for each broker: its key, which the parent writes, and for each worker, counted from 1, how many sessions
    it has there, doubled, and one more where it finds the broker gone. A worker writes its own cells, the parent those
    of one that ended.
    """

    def __init__(self, loads: Path | str) -> None:
        with open(f"{loads}{_SUFFIX}", "r+b") as file:
            self._cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
        self._width = len(self._cells) // ROWS

    @classmethod
    def create(cls, loads: Path | str, workers: int) -> "Placement":
        """Make the file, beside that of `Loads`, without a broker."""
        with open(f"{loads}{_SUFFIX}", "xb") as file:
            file.truncate(ROWS * (workers + 1) * _CELL)
        return cls(loads)

    def add(self, brokers: Iterable[ConfiguredBroker]) -> None:
        """Have a row for each of these brokers."""
        for each in brokers:
            row = self._row(each)
            if row is not None:
                self._cells[row] = _key(each)

    def clear(self, number: int) -> None:
        """Take note that a worker has no sessions."""
        for row in range(0, len(self._cells), self._width):
            if not self._cells[row]:
                break
            self._cells[row + number] = 0

    def share(self, number: int, brokers: Iterable[ConfiguredBroker]) -> None:
        """Have worker `number` tell the others where its sessions are, and know where theirs are."""
        for each in brokers:
            row = self._row(each)
            if row is not None and self._cells[row]:
                shared = Row(self._cells[row + 1 : row + self._width], number - 1)
                each.broker.health.others = shared

    def _row(self, broker: ConfiguredBroker) -> int | None:
        """Return where the row of a broker begins, or where there is room for it; None where there is none."""
        key = _key(broker)
        for row in range(0, len(self._cells), self._width):
            if self._cells[row] in (key, 0):
                return row
        return None


class Row(NamedTuple):
    """What all workers know of a broker, of which worker `own`, counted from 0, is this one: `Others` of its health."""

    cells: memoryview
    own: int

    def tell(self, sessions: int, gone: bool) -> None:
        """Write how many sessions this worker has there, and whether it finds the broker gone."""
        self.cells[self.own] = 2 * sessions + gone

    def sessions(self) -> int:
        """Return how many sessions the other workers have there."""
        return sum(cell // 2 for at, cell in enumerate(self.cells) if at != self.own)

    def gone(self) -> bool:
        """Return whether one of them finds the broker gone."""
        return any(cell % 2 for at, cell in enumerate(self.cells) if at != self.own)


def _key(broker: ConfiguredBroker) -> int:
    name = "\n".join((broker.upstream.name, broker.group.name, broker.broker.uri))
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=_CELL).digest()) | 1

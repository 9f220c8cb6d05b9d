"""The number of sessions that all workers have on each broker, in a file that they map into memory. With it new
sessions of any worker go to the broker that has most.
"""

from collections.abc import Iterable
from hashlib import blake2b
from mmap import mmap
from pathlib import Path
from typing import Final, NamedTuple

from stomprelay.service.brokers.brokers import ConfiguredBroker

ROWS: Final = 4096
"""The number of brokers with a row; for further ones each worker uses only what it knows itself."""
_CELL: Final = 8
_SUFFIX: Final = "-placement"


class Placement:
    """A row for each broker: its key, which the parent writes, and a cell for each worker, from 1: twice its sessions
    there, plus one if it finds the broker gone. The parent clears the cells of an ended worker.
    """

    def __init__(self, loads: Path | str) -> None:
        with open(f"{loads}{_SUFFIX}", "r+b") as file:
            self._cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
        self._width = len(self._cells) // ROWS

    @classmethod
    def create(cls, loads: Path | str, workers: int) -> "Placement":
        """Create the file, beside that of `Loads`, without a broker."""
        with open(f"{loads}{_SUFFIX}", "xb") as file:
            file.truncate(ROWS * (workers + 1) * _CELL)
        return cls(loads)

    def add(self, brokers: Iterable[ConfiguredBroker]) -> None:
        """Add a row for each of these brokers."""
        for each in brokers:
            row = self._row(each)
            if row is not None:
                self._cells[row] = _key(each)

    def clear(self, number: int) -> None:
        """Record that a worker has no sessions."""
        for row in range(0, len(self._cells), self._width):
            if not self._cells[row]:
                break
            self._cells[row + number] = 0

    def share(self, number: int, brokers: Iterable[ConfiguredBroker]) -> None:
        """Let worker `number` share the places of its sessions with the others, and read theirs."""
        for each in brokers:
            row = self._row(each)
            if row is not None and self._cells[row]:
                each.broker.health.others = Row(self._cells[row + 1 : row + self._width], number - 1)

    def _row(self, broker: ConfiguredBroker) -> int | None:
        """Return the position of a broker's row, or of a free one; None if there is none."""
        key = _key(broker)
        for row in range(0, len(self._cells), self._width):
            if self._cells[row] in (key, 0):
                return row
        return None


class Row(NamedTuple):
    """The data of all workers about one broker, as `Others` of its health; `own`, from 0, is this worker."""

    cells: memoryview
    own: int

    def tell(self, sessions: int, gone: bool) -> None:
        """Write how many sessions this worker has there, and whether it finds the broker gone."""
        self.cells[self.own] = 2 * sessions + gone

    def sessions(self) -> int:
        """Return how many sessions the other workers have there."""
        return sum(cell // 2 for at, cell in enumerate(self.cells) if at != self.own)

    def gone(self) -> bool:
        """Return whether another worker finds the broker gone."""
        return any(cell % 2 for at, cell in enumerate(self.cells) if at != self.own)


def _key(broker: ConfiguredBroker) -> int:
    name = "\n".join((broker.upstream.name, broker.group.name, broker.broker.uri))
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=_CELL).digest()) | 1

"""The numbers that the workers of a relay share, in a file that each worker maps into memory. The first numbers are
each worker's sessions and kept bytes, so that the worker with the fewest sessions accepts first. The other numbers are
each worker's sessions on each broker, so that workers choose brokers by the sessions of all.
"""

from collections.abc import Iterable
from hashlib import blake2b
from mmap import mmap
from pathlib import Path
from sys import byteorder
from typing import Final, NamedTuple

from stomprelay.service.brokers import ConfiguredBroker

AWAY: Final = (1 << 64) - 1
"""Stands for the number of sessions of a worker that does not accept."""
ROWS: Final = 4096
"""The number of brokers that have a row. For further brokers each worker knows only its own numbers."""
_CELL: Final = 8
_SLACK: Final = 8
"""A worker may have one session more than the worker with the fewest, and one more for each `_SLACK` sessions of that
worker. So only few of many clients that come at once have to wait.
"""


class Loads:
    """Each worker, from 1, writes its own numbers; the parent writes the numbers of a worker that is away. Layout: the
    number of workers; whether the parent has called `close`; the sessions of each worker; the bytes of each worker; and
    a row for each broker. A row has the broker's key, which the parent writes, and for each worker twice the number of
    its sessions there, plus one if the worker finds the broker gone.
    """

    def __init__(self, path: Path | str) -> None:
        with open(path, "r+b") as file:
            cells = memoryview(mmap(file.fileno(), 0)).cast("Q")
        count = cells[0]
        self._closed, cells = cells[1:2], cells[2:]
        self._sessions, self._bytes, self._rows = cells[:count], cells[count : 2 * count], cells[2 * count :]
        self._width = 1 + count

    @classmethod
    def create(cls, path: Path | str, workers: int) -> "Loads":
        """Make the file, with all workers away, and without a broker."""
        with open(path, "xb") as file:
            file.write(
                workers.to_bytes(_CELL, byteorder) + bytes(_CELL) + AWAY.to_bytes(_CELL, byteorder) * workers
            )
            file.truncate(_CELL * (2 + 2 * workers + ROWS * (workers + 1)))
        return cls(path)

    def write(self, number: int, sessions: int) -> None:
        """Write how many sessions a worker has, or `AWAY`."""
        self._sessions[number - 1] = sessions

    def kept(self, number: int, size: int) -> tuple[int, int]:
        """Write how many bytes a worker keeps of its sessions, and return the bytes and sessions of all workers."""
        self._bytes[number - 1] = size
        return sum(self._bytes), sum(each for each in self._sessions if each != AWAY)

    def ended(self, number: int) -> None:
        """Record that a worker has ended: it is away, and has no sessions."""
        self.write(number, AWAY)
        self._bytes[number - 1] = 0
        for row in range(0, len(self._rows), self._width):
            if not self._rows[row]:
                break
            self._rows[row + number] = 0

    def close(self) -> None:
        """Make all workers stop accepting: the relay stops."""
        self._closed[0] = 1

    def room(self, number: int, sessions: int) -> int:
        """Write a worker's sessions. Return how many clients it should accept before another does; -1: no more."""
        self.write(number, sessions)
        if self._closed[0]:
            return -1
        fewest = min(self._sessions)
        return max(fewest + fewest // _SLACK + 1 - sessions, 0)

    def add(self, brokers: Iterable[ConfiguredBroker]) -> None:
        """Add a row for each of these brokers."""
        for each in brokers:
            row = self._row(each)
            if row is not None:
                self._rows[row] = _key(each)

    def share(self, number: int, brokers: Iterable[ConfiguredBroker]) -> None:
        """Let worker `number` write its sessions on each broker, and read the sessions of the other workers there."""
        for each in brokers:
            row = self._row(each)
            if row is not None and self._rows[row]:
                each.broker.health.others = Row(self._rows[row + 1 : row + self._width], number - 1)

    def _row(self, broker: ConfiguredBroker) -> int | None:
        """Return the position of a broker's row, or of a free row; None if there is neither."""
        key = _key(broker)
        return next(
            (row for row in range(0, len(self._rows), self._width) if self._rows[row] in (key, 0)), None
        )


class Row(NamedTuple):
    """The numbers of all workers for one broker. A worker uses this row as the `others` of the broker's health. `own`
    is this worker's index in the row.
    """

    cells: memoryview
    own: int

    def tell(self, sessions: int, gone: bool) -> None:
        """Write how many sessions this worker has at the broker, and whether it finds the broker gone."""
        self.cells[self.own] = 2 * sessions + gone

    def sessions(self) -> int:
        """Return how many sessions the other workers have at the broker."""
        return sum(cell // 2 for at, cell in enumerate(self.cells) if at != self.own)

    def gone(self) -> bool:
        """Return whether another worker finds the broker gone."""
        return any(cell % 2 for at, cell in enumerate(self.cells) if at != self.own)


def _key(broker: ConfiguredBroker) -> int:
    name = "\n".join((broker.upstream.name, broker.group.name, broker.broker.uri))
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=_CELL).digest()) | 1

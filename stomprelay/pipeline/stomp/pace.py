"""A rate that several tasks keep together, by a file in which each takes its turn."""

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import Self

BREATH = 0.05
"""Seconds whose messages are sent together."""


class Pace:
    """Messages a second, for all processes that name the same file; on other machines only if they share it."""

    def __init__(self, file: Path, rate: float) -> None:
        self._path = file
        self._rate = rate

    @classmethod
    def shared(cls, rate: float | None, folder: Path | None, name: str) -> Self | None:
        """That of all tasks of a job, by its folder of progress or, on each machine, by a name that no other job has;
        None where no rate is asked for.
        """
        if rate is None:
            return None
        if folder is not None:
            return cls(folder / ".pace", rate)
        return cls(Path(tempfile.gettempdir()) / f"stomprelay-{name}.pace", rate)

    @property
    def some(self) -> int:
        """How many messages to ask for together."""
        return max(1, int(self._rate * BREATH))

    def take(self, count: int) -> float:
        """The time at which so many messages may go out, by the clock of `time.time`."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            now = time.time()
            said = os.pread(file, 64, 0)
            turn = max(now, float(said)) if said else now
            # A clock that was set back must not make everybody wait for the old time.
            turn = min(turn, now + max(60.0, 2 * count / self._rate))
            os.ftruncate(file, 0)
            os.pwrite(file, repr(turn + count / self._rate).encode(), 0)
            return turn
        finally:
            os.close(file)

    def forget(self) -> None:
        """Nobody needs it any more."""
        self._path.unlink(missing_ok=True)

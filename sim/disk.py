"""The journal of a relay in a world: its folder, a disk that fails, and the writer's thread as calls of the clock."""

import errno
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

from sim.net import Clock, Reactor, in_place_of
from stomprelay.journal import disk, segment, writer
from stomprelay.journal.block import Block, BlockKind, Damage
from stomprelay.journal.schema import Context
from stomprelay.journal.settings import ALL, JournalSettings
from stomprelay.service.journal import writer_thread

MEMORY: Final = "/dev/shm"
"""A folder in memory, where the system has one: journals of worlds are not kept."""


class Disk:
    """The disk of one world. `room`: how many bytes it still takes; None: any number. `failed`: it did not take all.
    `reactor`: of the relay whose journal starts next.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.room: int | None = None
        self.failed = False
        self._folder = TemporaryDirectory(prefix="sim-", dir=MEMORY if Path(MEMORY).is_dir() else None)
        self.reactor: Reactor | None = None
        self.threads: list[_Thread] = []

    def settings(self) -> JournalSettings:
        """Return how a relay writes its journal here."""
        return JournalSettings(self._folder.name, "sim", 20_000, 30.0, flush_interval=0.5, bodies=ALL)

    def write(self, file: int, data: memoryview) -> int:
        """Write what there is room for. Raises `OSError`."""
        if self.room is None:
            return os.write(file, data)
        self.failed = True
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = os.write(file, data[: self.room])
        self.room -= count
        return count

    def recorded(self) -> tuple[Counter[tuple[str, bytes, bytes]], list[str], bool]:
        """Return how often each frame was recorded; what is damaged; and whether the disk failed. Remove all."""
        frames: Counter[tuple[str, bytes, bytes]] = Counter()
        damages = []
        for path in sorted(Path(self._folder.name).iterdir()):
            for each in segment.read(path):
                if isinstance(each, Damage):
                    damages.append(f"{path.name}: {each.reason}")
                elif isinstance(each, Block) and each.kind is BlockKind.FRAMES:
                    side = Context(*json.loads(each.context)).side
                    for frame in each.frames:
                        frames[side, frame.head.split(None, 1)[0], bytes(frame.kept)] += 1
        self._folder.cleanup()
        return frames, damages, self.failed


class _Thread:
    """Stands for the writer's thread: its turns are calls of the clock, as long as the relay lives."""

    def __init__(self, target: Any, **_: Any) -> None:
        self._writer = target.__self__
        self._disk = OS.disk
        self._reactor = OS.disk.reactor

    def start(self) -> None:
        for each in self._disk.threads:
            each.leave()
        self._disk.threads.append(self)
        self._writer.begin()
        self._again()

    def leave(self) -> None:
        """The system closes the file, and so ends its lock, if the process was killed."""
        if not self._reactor.alive and self._writer._segments._file >= 0:
            os.close(self._writer._segments._file)
            self._writer._segments._forget()

    def _again(self) -> None:
        self._disk.clock.after(self._writer._settings.flush_interval, self._turn)

    def _turn(self) -> None:
        if not self._reactor.alive:
            self.leave()
        elif self._writer._stopping.is_set():
            self._writer.end()
            self._writer._ended()
        else:
            self._writer.turn()
            self._again()


def _write(file: int, data: memoryview) -> int:
    return int(OS.disk.write(file, data))


OS: Final[Any] = in_place_of(os, fsync=lambda file: None, write=_write)
"""The system of a journal: `disk` is that of the world that is played."""


@contextmanager
def on_disks() -> Iterator[None]:
    """Let journals be written to the disk of the world that is played."""
    with (
        patch.object(writer, "os", OS),
        patch.object(disk, "os", OS),
        patch.object(writer_thread, "Thread", _Thread),
        patch.object(writer_thread, "time", in_place_of(time, monotonic=lambda: OS.disk.clock.now)),
    ):
        yield

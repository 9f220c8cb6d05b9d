"""One segment read to its end: what is in it, and what is wrong with it."""

from pathlib import Path
from typing import Final

from stomprelay.journal import name, segment
from stomprelay.journal.block import SIZES, Damage
from stomprelay.journal.folder import is_written
from stomprelay.journal.record import Contexts
from stomprelay.journal.schema import Header

CLOSED: Final = "closed"
WRITTEN: Final = "open"
"""A relay writes it."""
LEFT: Final = "left open"
"""Its relay is dead. The next one to start in its folder closes it."""


class Audit:
    """A segment at the time of asking. `since` and `until`: the times of its first and last block, nanoseconds since
    1970, None where there is none. A segment that is written may end within a block; that is not counted as damage.
    """

    __slots__ = ("blocks", "damages", "frames", "path", "relay", "since", "size", "state", "until")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.relay = ""
        self.blocks = self.frames = 0
        self.size = path.stat().st_size if path.exists() else 0
        self.since: int | None = None
        self.until: int | None = None
        self.damages: list[Damage] = []
        self.state = state(path)
        self._read()

    def _read(self) -> None:
        contexts = Contexts()
        for found in segment.read(self.path):
            if isinstance(found, Header):
                contexts = Contexts(found)
                self.relay = found.relay
                continue
            if isinstance(found, Damage):
                if not (found.torn and self.state == WRITTEN):
                    self.damages.append(found)
                continue
            self.blocks += 1
            self.frames += len(found.sizes) // SIZES
            if self.since is None:
                self.since = found.time
            self.until = found.time
            try:
                contexts.of(found)
            except ValueError as error:
                self.damages.append(Damage(found.offset, found.length, str(error)))


def state(path: Path) -> str:
    """How a segment is, by its name and its lock."""
    read = name.read(path.name)
    if read is None or not read[1] or not path.exists():
        return CLOSED
    return WRITTEN if is_written(path) else LEFT

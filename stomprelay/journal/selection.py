"""Which segments and which of their records somebody asked for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from stomprelay.journal.folder import Folder
from stomprelay.journal.record import Record


@dataclass(frozen=True)
class Selection:
    """What a record must be like. `destinations` may hold `*`, `?` and `[...]`; commands and destinations are those of
    frames, so asking for some leaves out events. `since` and `until`: nanoseconds since 1970, `until` not included.
    """

    sessions: frozenset[str] = frozenset()
    destinations: tuple[str, ...] = ()
    commands: frozenset[str] = frozenset()
    since: int | None = None
    until: int | None = None

    def takes(self, record: Record) -> bool:
        """Whether a record is one of those."""
        if self.since is not None and record.time < self.since:
            return False
        if self.until is not None and record.time >= self.until:
            return False
        if self.sessions and record.context.session not in self.sessions:
            return False
        if self.commands and record.command not in self.commands:
            return False
        if not self.destinations:
            return True
        destination = record.header("destination")
        return destination is not None and any(
            fnmatchcase(destination, pattern) for pattern in self.destinations
        )


def segments(places: Iterable[str]) -> Iterator[Path]:
    """The segments that are meant: of a folder all, in order; a file is taken for one, whatever it is called. Raises
    `OSError`, which names the place, for a folder or a file that is not there.
    """
    for place in map(Path, places):
        if place.is_dir():
            yield from [entry.path for entry in Folder(place).segments()]
        else:
            place.stat()
            yield place

"""How a segment's file is called: when it was begun, by which relay, in which of its runs, which one it is of these."""

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

CLOSED: Final = ".journal"
OPEN: Final = ".journal.open"
"""What a segment's name ends in while it is written, or when its relay died over it."""

_SECOND: Final = 10**9
_STAMP: Final = "%Y%m%dT%H%M%S"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 100
_SHAPE: Final = re.compile(
    r"(?P<stamp>\d{8}T\d{6})-(?P<relay>[A-Za-z0-9._-]+)-(?P<run>[0-9a-f]{8})-(?P<number>\d{6,12})"
    r"\.journal(?P<open>\.open)?"
)


class Name(NamedTuple):
    """A segment's name, without its ending. `created`: nanoseconds since 1970, whole seconds of which stand in the
    name. `relay` is the relay's name as `safe` makes it. `run`: 8 hexadecimal digits, others for each start of the
    relay, so relays of one name can share a folder. `number`: from 1 for each run.
    """

    created: int
    relay: str
    run: str
    number: int

    def __str__(self) -> str:
        """The name, to which `CLOSED` or `OPEN` belongs."""
        stamp = datetime.fromtimestamp(self.created // _SECOND, UTC).strftime(_STAMP)
        return f"{stamp}-{self.relay}-{self.run}-{self.number:06d}"


def safe(relay: str) -> str:
    """A relay's name as it can stand in the name of a file: ASCII letters, digits, dot, hyphen and underscore."""
    return _UNSAFE.sub("_", relay)[:_LONGEST] or "_"


def read(file: str) -> tuple[Name, bool] | None:
    """The name of a file (without its folder), and whether it is that of an open segment; None for other files."""
    found = _SHAPE.fullmatch(file)
    if found is None:
        return None
    try:
        begun = datetime.strptime(found["stamp"], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    name = Name(int(begun.timestamp()) * _SECOND, found["relay"], found["run"], int(found["number"]))
    return name, found["open"] is not None

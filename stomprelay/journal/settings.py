"""What is configured of the journal."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

NOTHING: Final = 0
"""Octets of a body: none."""
ALL: Final = 1 << 40
"""Octets of a body: however many there are."""


@dataclass(frozen=True)
class Rule:
    """Of frames to or from a destination that is like `destination` (`*` for any characters, `?` for one, `[...]`
    for one out of a set) so many octets of the body are kept.
    """

    destination: str
    bodies: int


class Full(Enum):
    """What becomes of records for which the queue has no room."""

    DROP = "drop"
    """They are left out and counted; the relay goes on."""
    BLOCK = "block"
    """Clients and brokers are not read from until there is room."""


@dataclass(frozen=True)
class Settings:
    """Where the relay writes what passes, and how. Without a `directory` it writes nothing.

    Times are seconds, sizes octets. `relay` is the name of this relay; None is the machine's. A segment ends with
    `segment_size` or `segment_age`. `queue` bounds what waits to be written. What is in memory is given to the system
    every `flush_interval`, and brought to the disk every `sync_interval`; 0 is when a segment ends. Closed segments
    are kept for `retain_age`, and as many as fit `retain_size`; None is without a bound. `bodies`, `rules` and
    `redact` are those of `Capture`.
    """

    directory: str | None = None
    relay: str | None = None
    segment_size: int = 67_108_864
    segment_age: float = 60.0
    queue: int = 67_108_864
    when_full: Full = Full.DROP
    flush_interval: float = 0.2
    sync_interval: float = 1.0
    bodies: int = NOTHING
    redact: tuple[str, ...] = ()
    retain_age: float | None = None
    retain_size: int | None = None
    rules: tuple[Rule, ...] = ()

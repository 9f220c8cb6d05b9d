"""The pipeline's settings, except Spark's own settings, and the time limits that follow from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stomprelay.journal.settings import SECRETS

MOST_HEADERS: Final = 16
LONGEST_HEADER: Final = 1024
"""`messages` keeps at most so many headers of a SEND, and so many letters of each header. These limits exist because
open rows are in memory.
"""

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Settings:
    """The settings of one pipeline; `options.add_settings` says what each means. Folders are paths, or URIs that Spark
    understands. Durations are in seconds. `interval` and `retain` are measured by the clock, all other durations by
    the times in the journal. Raises `ValueError` for impossible values, with a sentence for the user.
    """

    journal: str
    tables: str
    checkpoint: str = ""
    format: str = "parquet"
    bytes_per_batch: int = 256 << 20
    """The default needs 2 GiB of memory for Spark's driver, and 1 GiB for an executor."""
    patience: float = 600.0
    linger: float = 10.0
    give_up: float = 3600.0
    stuck_after: float = 60.0
    id_headers: tuple[str, ...] = ()
    interval: float = 10.0
    retain: float | None = None
    keep_headers: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("journal", "tables", "format"):
            if not getattr(self, name):
                raise ValueError(f"{name} is missing")
        if self.bytes_per_batch < 1:
            raise ValueError("bytes_per_batch must be at least 1")
        for name in ("patience", "linger", "give_up", "stuck_after", "interval"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative")
        if self.retain is not None and not self.retain > 0:
            raise ValueError("retain must be more than 0")
        _check_headers(self.keep_headers or ())
        if not self.checkpoint:
            object.__setattr__(self, "checkpoint", f"{self.tables.rstrip('/')}/_checkpoint")


def _check_headers(names: Sequence[str]) -> None:
    if len(names) > MOST_HEADERS:
        raise ValueError(f"keep_headers has {len(names)} names, more than {MOST_HEADERS}")
    for name in names:
        if not name or not name.isprintable() or ":" in name:
            raise ValueError(f"keep_headers has {name!r}, which is no header's name")
        if name.lower() in SECRETS:
            raise ValueError(f"keep_headers has {name!r}, a secret: the journal does not have it either")


@dataclass(frozen=True)
class TimeLimits:
    """Limits in nanoseconds of the journal's time. `patience`: how long to wait for a missing segment, or for the SEND
    of a delivered message. `linger`: from the last record of a settled message until its row is final. `give_up`: from
    the last record of a message that is not settled until its row is final. `stuck_after`: how long a delivery may
    wait for its ACK before it is overdue.
    """

    patience: int = 600 * SECOND
    linger: int = 10 * SECOND
    give_up: int = 3600 * SECOND
    stuck_after: int = 60 * SECOND

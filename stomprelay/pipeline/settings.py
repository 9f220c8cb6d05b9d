"""The pipeline's settings, apart from Spark's own, and the limits of time that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stomprelay.journal.settings import SECRETS

CHECKPOINT: Final = "_checkpoint"
MOST_HEADERS: Final = 16
LONGEST_HEADER: Final = 1024
"""Headers that `messages` keeps of a SEND, and letters of each, at most: its rows are in memory while they are open."""

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Settings:
    """The settings of one pipeline. Folders are paths, or URIs that Spark understands. Durations are seconds
    of the journal's time, unless stated otherwise. Raises `ValueError` for impossible values, with a sentence
    for the user.
    """

    journal: str
    """The folder of the segments."""
    tables: str
    """The folder of the tables, and of what is remembered between runs."""
    checkpoint: str = ""
    """Which segments were read; by default `_checkpoint` beside the tables. It belongs to the tables: remove both or
    neither."""
    format: str = "parquet"
    """The format of the tables, as Spark calls it. Other than Parquet needs jars: `--conf
    spark.jars.packages=…`.
    """
    bytes_per_batch: int = 256 << 20
    """Bytes of segments read at a time, at most, or one larger segment. Memory, and what is done again after a run was
    cut short, follow from it: by default Spark's driver can do with 2 GiB, and an executor with 1 GiB.
    """
    patience: float = 600.0
    """How long a missing segment, or the other half of a message, is waited for."""
    linger: float = 10.0
    """How long after a message's last sign its row becomes final."""
    give_up: float = 3600.0
    """When the row of a message that is not settled becomes final."""
    stuck_after: float = 60.0
    """A subscription is stuck while a delivery waits for its answer for longer."""
    id_headers: tuple[str, ...] = field(default=())
    """Headers by which publishers name their messages and which brokers carry, such as `correlation-id`; the first
    that is there counts."""
    interval: float = 10.0
    """Seconds of the clock between two looks for new segments, when running continuously."""
    retain: float | None = None
    """How long an hour of the tables is kept after it ended, seconds of the clock; None for ever."""
    keep_headers: tuple[str, ...] | None = None
    """Headers of SENDs that `messages` has, the same for all batches of the tables; None for those that the tables
    began with."""

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
            object.__setattr__(self, "checkpoint", f"{self.tables.rstrip('/')}/{CHECKPOINT}")


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
    """Limits in nanoseconds of the journal's time. `patience`: how long to wait for a missing segment, or for
    the other half of a message. `linger`: from the last record of a settled message until its row is final.
    `give_up`: the same for a message that is not settled. `stuck_after`: a delivery without an ACK is overdue
    after this.
    """

    patience: int = 600 * SECOND
    linger: int = 10 * SECOND
    give_up: int = 3600 * SECOND
    stuck_after: int = 60 * SECOND

    @classmethod
    def of(cls, patience: float, linger: float, give_up: float, stuck_after: float = 60.0) -> "TimeLimits":
        """Return the limits from values in seconds."""
        return cls(*(round(each * SECOND) for each in (patience, linger, give_up, stuck_after)))

"""How long to wait for what."""

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Terms:
    """Nanoseconds of journal time. `patience`: for a missing segment, or for the other half of a message. `linger`:
    after the last sign of a settled message, until its row is final. `give_up`: the same of one that is not settled.
    `stuck_after`: a delivery that waits longer for its answer is overdue.
    """

    patience: int = 600 * SECOND
    linger: int = 10 * SECOND
    give_up: int = 3600 * SECOND
    stuck_after: int = 60 * SECOND

    @classmethod
    def of(cls, patience: float, linger: float, give_up: float, stuck_after: float = 60.0) -> "Terms":
        """Of seconds."""
        return cls(*(round(each * SECOND) for each in (patience, linger, give_up, stuck_after)))

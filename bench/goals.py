"""What the relay is meant to reach, and whether it does: ratios to HAProxy in TCP mode on the same work.

The CPU a message costs is the steady figure, the rate swings with what else the machine does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.report import NONE, Goal, Spread, figure, table

KIB: Final = 1024

CPU: Final = "CPU"
RATE: Final = "rate"
P50: Final = "p50"
P99: Final = "p99"
"""Figures of a row: CPU a message, messages a second, percentiles of a round trip."""


def _at_most(bound: float) -> Goal:
    return Goal(bound, at_most=True)


def _both(cost: float, rate: float) -> dict[str, Goal]:
    return {CPU: _at_most(cost), RATE: Goal(rate)}


ROWS: Final = {
    "send": _both(1.3, 0.9),
    "send-ruled": _both(1.95, 0.6),
    "send-mapped": _both(1.95, 0.6),
    "message": _both(1.2, 1.0),
    "ack": _both(3, 0.5),
    "confirm": _both(2, 0.6),
    "bridge-send": _both(2.5, 0.5),
    "bridge-message": _both(2.5, 0.5),
    "send-64k": _both(0.8, 1.2),
    "message-64k": _both(0.8, 1.2),
    "loop": _both(1.3, 0.7),
    "trip": {CPU: _at_most(1.3), P50: _at_most(1.1), P99: _at_most(1.3)},
    "receipts": _both(1.3, 0.7),
    "session": _both(4, 0.25),
}
"""By name of the row (`rows.ROWS`) and figure: over HAProxy's."""

WEB: Final = {CPU: _at_most(1), RATE: Goal(1)}
WEB_TRIP: Final = {CPU: _at_most(1), P50: _at_most(1)}
"""Over WebSocket, over others' who speak it."""

JOURNAL: Final = _both(1.25, 0.8)
"""Each row with a journal of heads, over the same row of a relay without one."""

SCAN: Final = Goal(100)
SCAN_PURE: Final = Goal(12, 20)
PARSE: Final = Goal(5, 8)
TRANSLATE: Final = Goal(5, 8)
"""Frames a second over stomp.py's, at 1 KiB."""

KB_PER_CONNECTION: Final = _at_most(4)
"""Memory of an idle session, in kB."""

PIPELINE_RATE: Final = Goal(100_000)
"""Records a second, from segments to all tables, on two cores; the start of Spark included."""
PIPELINE_GROWTH: Final = _at_most(1.1)
"""CPU a record of the largest journal over that of the smallest, the start of Spark left out."""
PIPELINE_JAVA: Final = _at_most(2432)
"""MiB of the driver's Java with 2 GiB of heap: those, and what Spark itself allows for the rest (384 MiB)."""
PIPELINE_WORKER: Final = _at_most(1024)
"""MiB of the largest of Python's workers."""
PIPELINE_ANSWER: Final = _at_most(2)
"""Seconds of Spark over those of DuckDB, for the same question to the same files."""

LAST_SERVED: Final = Goal(1, at_most=True)
"""Seconds from the SIGKILL of a broker until the last of its 1,000 sessions has its next message."""


@dataclass(frozen=True)
class Judged:
    """A figure that has a goal: of what, which, what it is in absolute numbers (for scale), and what was found."""

    what: str
    figure: str
    scale: float | None
    found: Spread | None
    goal: Goal

    @property
    def met(self) -> bool:
        """Whether it was found, and is on the right side of the goal."""
        return self.found is not None and self.goal.meets(self.found.median, self.goal.bound)


def verdicts(title: str, judged: Sequence[Judged]) -> str:
    """A table: the figures with their goals, met or not. `base` is what they are ratios to, where they are ratios."""
    rows = []
    for one in judged:
        middle = one.found.median if one.found else None
        said = one.found.said if one.found else NONE
        rows.append([one.what, one.figure, figure(one.scale), figure(middle), said, one.goal.verdict(middle)])
    return table(title, ("load", "figure", "base", "median", "quartiles", "goal"), rows)


def summary(judged: Sequence[Judged]) -> str:
    """All that has a goal in one table."""
    met = sum(one.met for one in judged)
    return verdicts(f"goals: {met} of {len(judged)} met", judged)

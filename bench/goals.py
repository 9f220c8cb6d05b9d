"""What the relay is meant to reach: ratios from prototypes, measured on two cores with Python 3.11.

HAProxy's figure at small messages is out of reach for pure Python; at 64 KiB, where copying is all there is to do,
it is not. The CPU a message costs is the steady figure, the rate swings with what else the machine does.
"""

from typing import Final

from bench.contenders import HAPROXY, PORTFORWARD
from bench.load import Case
from bench.report import Goal

KIB: Final = 1024

SCAN: Final = Goal(100)
SCAN_PURE: Final = Goal(12, 20)
PARSE: Final = Goal(5, 8)
TRANSLATE: Final = Goal(5, 8)
"""Frames a second over stomp.py's, at 1 KiB."""

JOURNAL: Final = Goal(0.9)
"""Messages a second of a relay that records heads, over one that records nothing."""

KB_PER_CONNECTION: Final = Goal(5, 3.5, at_most=True)
SET_UP_RATE: Final = Goal(0.2, 0.3)
"""Connections a second over HAProxy's."""

_PASSED_RATE: Final = {KIB: Goal(0.25, 0.35), 64 * KIB: Goal(0.8, 1.0)}
_PASSED_COST: Final = {KIB: Goal(6, 4.5, at_most=True), 64 * KIB: Goal(1.3, 1.0, at_most=True)}
_CROSSED_RATE: Final = {"sink": Goal(0.08, 0.15), "source": Goal(0.13, 0.25)}
_CROSSED_COST: Final = {"sink": Goal(22, 12, at_most=True), "source": Goal(13, 8, at_most=True)}


def _streams(case: Case) -> bool:
    return case.mode in {"sink", "source"}


def rate(case: Case, over: str) -> Goal | None:
    """Messages a second over a contender's."""
    if case.mode == "loop" and case.body == 100 and not case.crosses:
        return {HAPROXY: Goal(0.4, 0.5), PORTFORWARD: Goal(1.2)}[over]
    if not _streams(case) or over != HAPROXY:
        return None
    if not case.crosses:
        return _PASSED_RATE.get(case.body)
    return _CROSSED_RATE[case.mode] if case.body == KIB else None


def cost(case: Case) -> Goal | None:
    """CPU a message over HAProxy's."""
    if not _streams(case):
        return None
    if not case.crosses:
        return _PASSED_COST.get(case.body)
    return _CROSSED_COST[case.mode] if case.body == KIB else None


def round_trip(case: Case) -> Goal | None:
    """The median round trip over HAProxy's."""
    if case.body != KIB:
        return None
    return Goal(2.0, at_most=True) if case.crosses else Goal(1.6, 1.35, at_most=True)

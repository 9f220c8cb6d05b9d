"""Pipes: what lets frames pass from one socket to another without the core, which is asked once a chunk at most.

They are compiled. Where they were not, there are none, and everything passes through the core.
"""

from collections.abc import Callable
from typing import Final

from stomprelay.session.leg import EXPECTED, Leg
from stomprelay.wire.frame import Frame
from stomprelay.wire.run import Rules, Run

try:
    from stomprelay.service.connection._pipe import Pipe
    from stomprelay.wire._scan import Scanner
except ImportError:

    class Pipe:  # type: ignore[no-redef]
        """No object is one."""

    Scanner = None  # type: ignore[assignment,misc]

__all__ = ["AVAILABLE", "Pipe", "scanner"]

AVAILABLE: Final = Scanner is not None
"""Whether there are pipes."""

Scan = Callable[[bytes, int], Frame | Run | None]


def scanner(leg: Leg, rules: Rules) -> Scan | None:
    """Return what finds the runs in a chunk that begins with a frame of this leg; None where there is no such thing."""
    if Scanner is None:
        return None
    decoder = leg.decoder
    return Scanner(decoder.limits, decoder.dialect, EXPECTED[leg.side, leg.state], rules).scan

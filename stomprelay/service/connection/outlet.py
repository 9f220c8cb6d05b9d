"""What a broker's transport says of its room.

Every broker's leg has an outlet, the producer of its transport. It only notes what it is told, and has its session
look at all of them together: what one full transport means depends on the others.
"""

from typing import Protocol

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from stomprelay.service.connection.protocol import LegProtocol


class Outlets(Protocol):
    """Whoever has outlets."""

    def weigh(self) -> None:
        """One of them became full, or has room again."""

    def parted(self, outlet: "Outlet") -> None:
        """This one is no more: its transport is gone, or nothing is written to it any more."""


@implementer(IPushProducer)
class Outlet:
    """The producer of one broker's transport. `full`: too much waits there; `told`: the relay was told so."""

    __slots__ = ("_outlets", "full", "line", "told")

    def __init__(self, outlets: Outlets, line: LegProtocol) -> None:
        self._outlets = outlets
        self.line = line
        self.full = False
        self.told = False

    def pauseProducing(self) -> None:
        """Too much waits to be written."""
        self.full = True
        self._outlets.weigh()

    def resumeProducing(self) -> None:
        """There is room again."""
        self.full = False
        self._outlets.weigh()

    def stopProducing(self) -> None:
        """The transport is gone. What becomes of the leg is the relay's to say, so it hears of no room."""
        self.full = False
        self._outlets.parted(self)

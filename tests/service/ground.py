"""A driver without a core, which only writes down what it is told."""

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock

from stomprelay.service.connection.driver import Driver
from stomprelay.service.connection.protocol import LegProtocol, Runtime
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits
from tests.service.house import Wire


class Recording(Driver):
    """A driver without a core; what that would have been told is kept."""

    def __init__(self, runtime: Runtime, ended: Callable[[Driver], None]) -> None:
        super().__init__(runtime, 2.0)
        self._on_end = ended
        self.told: list[tuple[Any, ...]] = []

    def end(self) -> None:
        super().end()
        self._on_end(self)

    def connected(self, protocol: LegProtocol) -> None:
        self.told.append(("connected", protocol.leg.side))

    def received(self, protocol: LegProtocol, data: bytes) -> None:
        self.told.append(("received", protocol.leg.side, data))

    def reading_changed(self, protocol: LegProtocol, on: bool) -> None:
        self.told.append(("read", protocol.leg.side, on))

    def refused(self, protocol: LegProtocol, reason: str) -> None:
        self.told.append(("refused", protocol.leg.side, reason))

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        self.told.append(("lost", protocol.leg.side, reason))

    def woke(self, now: float) -> None:
        self.told.append(("woke", now))

    def _note(self, effect: Note) -> None:
        self.told.append(("note", effect.text))


class Ground:
    """One such driver and its client's connection."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.over: list[Driver] = []
        self.runtime = Runtime(self.clock, self.clock.seconds)
        self.driver = Recording(self.runtime, self.over.append)
        self.wire = Wire()
        self.leg = Leg(Side.DOWNSTREAM, Limits())
        self.protocol = LegProtocol(self.driver, self.leg)
        self.wire.protocol = self.protocol
        self.protocol.makeConnection(self.wire)

    def said(self) -> list[tuple[Any, ...]]:
        """What the driver was told since the last look."""
        told, self.driver.told = self.driver.told, []
        return told

"""A stage with one performer that only writes down what it is told."""

from typing import Any

from twisted.internet.task import Clock

from stomprelay.service.connection.driver import Performer, Stage
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.session.effects import Note
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits
from tests.service.house import Wire


class Place:
    """Where the clients of these tests come in."""

    name = "here"
    linger = 2.0


class Recording(Performer):
    """A performer whose core says nothing; what it would have been told is kept."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, Place())
        self.told: list[tuple[Any, ...]] = []

    def made(self, line: LegProtocol) -> None:
        self.told.append(("made", line.leg.side))

    def received(self, line: LegProtocol, data: bytes) -> None:
        self.told.append(("received", line.leg.side, data))

    def read(self, line: LegProtocol, on: bool) -> None:
        self.told.append(("read", line.leg.side, on))

    def refused(self, line: LegProtocol, reason: str) -> None:
        self.told.append(("refused", line.leg.side, reason))

    def lost(self, line: LegProtocol, reason: str) -> None:
        self.told.append(("lost", line.leg.side, reason))

    def woke(self, now: float) -> None:
        self.told.append(("woke", now))

    def _note(self, effect: Note) -> None:
        self.told.append(("note", effect.text))


class Ground:
    """A stage with one performer and its client's connection."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.over: list[Performer] = []
        self.stage = Stage(self.clock, self.clock.seconds, self.over.append)
        self.performer = Recording(self.stage)
        self.wire = Wire()
        self.leg = Leg(Side.DOWNSTREAM, Limits())
        self.line = LegProtocol(self.performer, self.leg)
        self.wire.protocol = self.line
        self.line.makeConnection(self.wire)

    def said(self) -> list[tuple[Any, ...]]:
        """What the performer was told since the last look."""
        told, self.performer.told = self.performer.told, []
        return told

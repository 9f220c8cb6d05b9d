"""Performing for one connection of the embedded broker.

Its effects may concern the connections of other clients: a SEND of one is a MESSAGE to another. Nothing is paused
when a client reads too slowly: its messages wait in the broker until its transport has room again.
"""

from typing import Final

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from stomprelay.broker.broker import EmbeddedBroker
from stomprelay.service.perform import Performer, Place, Stage, log_note
from stomprelay.service.protocol import LegProtocol
from stomprelay.session.effects import Note

_FORM: Final = "embedded broker: {event}: {text}"


@implementer(IPushProducer)
class Serving(Performer):
    """Performs the effects of one connection, and is the producer of its transport."""

    __slots__ = ("_first", "connection")

    def __init__(self, stage: Stage, place: Place, broker: EmbeddedBroker) -> None:
        super().__init__(stage, place)
        self.connection, self._first = broker.opened(stage.seconds())

    def made(self, line: LegProtocol) -> None:
        """The client is there."""
        line.throttle(self)
        first, self._first = self._first, []
        self.perform(first)

    def received(self, line: LegProtocol, data: bytes) -> None:
        """Octets came."""
        self.perform(self.connection.received(data, self.stage.seconds()))

    def lost(self, line: LegProtocol, reason: str) -> None:
        """The client went."""
        self.perform(self.connection.lost(self.stage.seconds()))

    def woke(self, now: float) -> None:
        """The connection's time has come."""
        self.perform(self.connection.woke(now))

    def pauseProducing(self) -> None:
        """Too much waits to be written to the client."""
        self.perform(self.connection.paused())

    def resumeProducing(self) -> None:
        """There is room again."""
        self.perform(self.connection.resumed(self.stage.seconds()))

    def stopProducing(self) -> None:
        """The transport is gone, of which `lost` is told next."""

    def _note(self, effect: Note) -> None:
        log_note(effect, _FORM)

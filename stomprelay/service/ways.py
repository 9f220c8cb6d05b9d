"""Taking the way to a broker: from an `Open` to a leg that has its connection, or cannot have one."""

from collections.abc import Mapping

from twisted.internet.interfaces import IAddress, IProtocolFactory, IStreamClientEndpoint
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.relay.effects import Open
from stomprelay.relay.model.group import Broker
from stomprelay.service.perform import Performer
from stomprelay.service.protocol import LegProtocol

Ways = Mapping[Broker, IStreamClientEndpoint]
"""The endpoints that lead to the brokers."""


def take(ways: Ways, performer: Performer, effect: Open) -> None:
    """Begin to connect a new leg. The performer is told what becomes of it; until then a `Close` cancels it."""
    line = LegProtocol(performer, effect.leg)

    def failed(reason: Failure) -> None:
        # Perhaps at once: yet the core hears of nothing before all that it asked for is done.
        performer.stage.reactor.callLater(0, line.failed, reason)

    line.attempt = ways[effect.broker].connect(_Once(line)).addErrback(failed)
    if line.transport is not None:
        line.attempt = None


@implementer(IProtocolFactory)
class _Once:
    """Builds the one protocol of an attempt."""

    __slots__ = ("_protocol",)

    def __init__(self, protocol: LegProtocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: IAddress | None) -> LegProtocol:
        """The protocol that was made for it."""
        return self._protocol

    def doStart(self) -> None:
        """Nothing to prepare."""

    def doStop(self) -> None:
        """Nothing to end."""

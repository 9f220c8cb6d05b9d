"""The way to a broker: from being asked for it until there is a connection, or a reason why not."""

from typing import Any

import pytest
from twisted.internet import error
from twisted.internet.defer import Deferred, fail, succeed

from stomprelay.relay.effects import Open
from stomprelay.service.connection.ways import take
from stomprelay.session.effects import Close, How
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits
from tests.service.ground import Ground
from tests.service.house import Wire, broker

PLACE = broker()


class Path:
    """An endpoint that does what a test says."""

    def __init__(self, connect: Any) -> None:
        self._connect = connect

    def connect(self, factory: Any) -> Any:
        return self._connect(factory)


def taken(connect: Any) -> tuple[Ground, Leg]:
    """A stage on which this way was taken."""
    ground = Ground()
    ground.said()
    leg = Leg(Side.UPSTREAM, Limits())
    ways: Any = {PLACE: Path(connect)}
    take(ways, ground.performer, Open(leg, PLACE))
    return ground, leg


def test_a_way_that_leads_there_at_once() -> None:
    """The performer is told, and there is nothing left to cancel."""

    def connect(factory: Any) -> Deferred[Any]:
        factory.doStart()
        protocol = factory.buildProtocol(None)
        protocol.makeConnection(Wire(protocol))
        return succeed(protocol)

    ground, leg = taken(connect)
    assert ground.said() == [("made", Side.UPSTREAM)]
    assert ground.stage.lines[leg].attempt is None


def test_a_way_that_takes_its_time() -> None:
    """Until it is there, or until it is given up."""
    cancelled: list[Any] = []
    ground, leg = taken(lambda factory: Deferred(cancelled.append))
    assert ground.said() == []
    ground.performer.perform([Close(leg, How.ABORT)])
    assert len(cancelled) == 1
    ground.clock.advance(0)
    assert ground.said() == []
    assert leg not in ground.stage.lines


@pytest.mark.parametrize("later", [True, False])
def test_a_way_that_leads_nowhere(later: bool) -> None:
    """Told with the reason, never before the reactor's next turn."""
    attempts: list[Deferred[Any]] = []

    def connect(factory: Any) -> Deferred[Any]:
        attempts.append(Deferred() if later else fail(error.ConnectionRefusedError()))
        return attempts[0]

    ground, leg = taken(connect)
    if later:
        attempts[0].errback(error.ConnectionRefusedError())
    assert ground.said() == []
    ground.clock.advance(0)
    assert ground.said() == [("refused", Side.UPSTREAM, "connection refused")]
    assert leg not in ground.stage.lines


def test_several_ways_at_a_time() -> None:
    """Each with a leg of its own; giving up one leaves the other."""
    cancelled: list[Any] = []
    ground, first = taken(lambda factory: Deferred(cancelled.append))
    second = Leg(Side.UPSTREAM, Limits())
    arrived: list[Any] = []

    def connect(factory: Any) -> Deferred[Any]:
        arrived.append(factory)
        return Deferred()

    ways: Any = {PLACE: Path(connect)}
    take(ways, ground.performer, Open(second, PLACE))
    ground.performer.perform([Close(first, How.ABORT)])
    assert len(cancelled) == 1
    protocol = arrived[0].buildProtocol(None)
    protocol.makeConnection(Wire(protocol))
    assert ground.said() == [("made", Side.UPSTREAM)]
    assert list(ground.stage.lines) == [ground.leg, second]

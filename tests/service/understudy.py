"""A relay that does what a test says, in place of the real one, and its performer on a reactor in memory."""

from collections import deque
from typing import Any

from twisted.internet.testing import MemoryReactorClock

from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.model.group import Broker
from stomprelay.service.perform import Performer, Stage
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.relaying import Relaying
from stomprelay.session.effects import Close, How
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State
from stomprelay.wire.limits import Limits
from tests.service.house import Wire, broker, listener


class Link:
    """A session's place in a group, as far as the service looks at it."""

    def __init__(self, on: Broker | None = None, **facts: Any) -> None:
        self.broker = on
        self.leg: Leg | None = None
        self.quiet = self.moving = False
        self.__dict__.update(facts)


class Understudy:
    """Keeps what it is told, and answers the effects that were laid out for it."""

    def __init__(self) -> None:
        self.listener = listener()
        self.name = b"relay-0-1"
        self.client = Leg(Side.DOWNSTREAM, Limits())
        self.session = None
        self.links: tuple[Link, ...] = ()
        self.coupled = True
        self.over = True
        self.told: list[tuple[Any, ...]] = []
        self.answers: deque[list[Effect]] = deque()

    def _hears(self, *what: Any) -> list[Effect]:
        self.told.append(what)
        return self.answers.popleft() if self.answers else []

    def opened(self, now: float) -> list[Effect]:
        return self._hears("opened")

    def connected(self, leg: Leg, now: float) -> list[Effect]:
        leg.enter(State.CONNECTED)
        return self._hears("connected", leg)

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        return self._hears("received", leg, data)

    def refused(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        return self._hears("refused", leg, reason)

    def lost(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        return self._hears("lost", leg, reason)

    def paused(self, leg: Leg) -> None:
        self.told.append(("paused", leg))

    def resumed(self, leg: Leg, now: float) -> list[Effect]:
        self.told.append(("resumed", leg))
        return []

    def blocked(self, leg: Leg) -> None:
        self.told.append(("blocked", leg))

    def unblocked(self, leg: Leg, now: float) -> list[Effect]:
        return self._hears("unblocked", leg)

    def woke(self, now: float) -> list[Effect]:
        return self._hears("woke", now)

    def stopped(self, now: float) -> list[Effect]:
        return self._hears("stopped")

    def leave(self, place: Broker, now: float, within: float, to: Broker | None = None) -> list[Effect]:
        return self._hears("leave", place, within, to)

    def reconsidered(self, now: float) -> list[Effect]:
        return self._hears("reconsidered")


class Rehearsal:
    """A performer whose relay is an understudy, its client, and brokers that connect when they are asked to."""

    def __init__(self) -> None:
        self.reactor = MemoryReactorClock()
        self.over: list[Performer] = []
        self.stage = Stage(self.reactor, self.reactor.seconds, self.over.append)
        self.relay = Understudy()
        self.brokers = (broker(1), broker(2), broker(3))
        ways: Any = {each: Way(self) for each in self.brokers}
        self.wires: list[Wire] = []
        relay: Any = self.relay
        self.session = Relaying(self.stage, relay, ways)
        self.client = Wire(LegProtocol(self.session, self.relay.client))
        self.client.protocol.makeConnection(self.client)

    def said(self) -> list[tuple[Any, ...]]:
        """What the relay was told since the last look."""
        told, self.relay.told = self.relay.told, []
        return told

    def does(self, *effects: Effect) -> None:
        """The relay asks for this."""
        self.session.perform(effects)

    def open(self, number: int = 0) -> tuple[Leg, Wire]:
        """The relay opens a leg to a broker, which accepts it."""
        leg = Leg(Side.UPSTREAM, Limits())
        self.does(Open(leg, self.brokers[number]))
        return leg, self.wires[-1]

    def close(self, leg: Leg) -> None:
        """The relay closes a leg."""
        leg.enter(State.CLOSED)
        self.does(Close(leg, How.FLUSH))


class Way:
    """Leads to a broker that accepts at once."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal

    def connect(self, factory: Any) -> Any:
        from twisted.internet.defer import succeed

        protocol = factory.buildProtocol(None)
        wire = Wire(protocol)
        self._rehearsal.wires.append(wire)
        protocol.makeConnection(wire)
        return succeed(protocol)

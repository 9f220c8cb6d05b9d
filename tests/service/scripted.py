"""Drivers whose core is played by the test."""

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock

from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect, Open, Pass
from stomprelay.relay.link.link import BalanceMove
from stomprelay.relay.model.group import Broker
from stomprelay.service.connection.protocol import Driver, LegProtocol
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.session.effects import Close, How, Note
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.frame import Limits
from tests.service.harness import FakeTransport, broker, listener


class SpyDriver(Driver):
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

    def half_closed(self, protocol: LegProtocol) -> None:
        self.told.append(("half closed", protocol.leg.side))

    def lost(self, protocol: LegProtocol, reason: str) -> None:
        self.told.append(("lost", protocol.leg.side, reason))

    def woke(self, now: float) -> None:
        self.told.append(("woke", now))

    def _note(self, effect: Note) -> None:
        self.told.append(("note", effect.text))

    effects: ClassVar = {**Driver.effects, Note: _note}


class DriverHarness:
    """One such driver and its client's connection."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.over: list[Driver] = []
        self.runtime = Runtime(self.clock, self.clock.seconds)
        self.driver = SpyDriver(self.runtime, self.over.append)
        self.transport = FakeTransport()
        self.leg = Leg(Side.DOWNSTREAM, Limits())
        self.protocol = LegProtocol(self.driver, self.leg)
        self.transport.protocol = self.protocol
        self.protocol.makeConnection(self.transport)

    def said(self) -> list[tuple[Any, ...]]:
        """What the driver was told since the last look."""
        told, self.driver.told = self.driver.told, []
        return told


class Link:
    """A session's place in a group, as far as the service looks at it."""

    def __init__(self, on: Broker | None = None, **facts: Any) -> None:
        self.broker = on
        self.legs: list[Leg] = []
        self.quiet = False
        self.moving: BalanceMove | None = None
        self.stays = ""
        self.__dict__.update(facts)

    def movable(self, now: float) -> bool:
        """Whether it may be asked to move."""
        return self.moving is None


class ScriptedRelay:
    """Keeps what it is told, and answers the effects that were laid out for it."""

    def __init__(self) -> None:
        self.opened_at = 0.0
        self.listener = listener()
        self.name = b"relay-0-1"
        self.client = Leg(Side.DOWNSTREAM, Limits())
        self.session = self.login = self.held_by = None
        self.links: tuple[Link, ...] = ()
        self.allowed: tuple[Pass, ...] = ()
        self.coupled = True
        self.ending = False
        self.kept = 0
        self.over = True
        self.told: list[tuple[Any, ...]] = []
        self.answers: deque[list[Effect]] = deque()

    def _hears(self, *what: Any) -> list[Effect]:
        self.told.append(what)
        return self.answers.popleft() if self.answers else []

    def handle(self, event: inputs.Input, now: float) -> list[Effect]:
        match event:
            case inputs.Opened():
                return self._hears("opened")
            case inputs.BrokerConnected(leg):
                leg.enter(LegState.CONNECTED)
                return self._hears("connected", leg)
            case inputs.NotConnected(leg, reason):
                return self._hears("refused", leg, reason)
            case inputs.Lost(leg, reason):
                return self._hears("lost", leg, reason)
            case inputs.HalfClosed():
                return self._hears("half_closed")
            case inputs.GaveWay(leg):
                return self._hears("gave_way", leg)
            case inputs.Unblocked(leg):
                return self._hears("unblocked", leg)
            case inputs.Woke():
                return self._hears("woke", now)
            case inputs.Stopped():
                return self._hears("stopped")
            case inputs.Leave(broker, within, target):
                return self._hears("leave", broker, within, target)
            case inputs.Paused(leg) | inputs.Resumed(leg) | inputs.Blocked(leg):
                self.told.append((type(event).__name__.lower(), leg))
                return []
        return self._hears(type(event).__name__.lower())

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        return self._hears("received", leg, data)

    def passed(self, leg: Leg, to: Leg, frames: int, size: int, at: float) -> None:
        self.told.append(("passed", leg, to, frames, size))

    def failed(self, error: Exception) -> list[Effect]:
        return self._hears("failed", error)


class ScriptedSession:
    """A driver whose relay is an understudy, its client, and brokers that connect when they are asked to."""

    def __init__(self) -> None:
        self.reactor = MemoryReactorClock()
        self.over: list[RelayDriver] = []
        self.on_end = self.over.append
        self.runtime = Runtime(self.reactor, self.reactor.seconds)
        self.relay = ScriptedRelay()
        self.brokers = (broker(1), broker(2), broker(3))
        endpoints: Any = {each: InstantEndpoint(self) for each in self.brokers}
        self.transports: list[FakeTransport] = []
        relay: Any = self.relay
        self.session = RelayDriver(self.runtime, relay, endpoints, self._ended)
        self.client = FakeTransport(LegProtocol(self.session, self.relay.client))
        self.client.protocol.makeConnection(self.client)

    def _ended(self, session: RelayDriver) -> None:
        self.on_end(session)

    def said(self) -> list[tuple[Any, ...]]:
        """What the relay was told since the last look."""
        told, self.relay.told = self.relay.told, []
        return told

    def does(self, *effects: Effect) -> None:
        """The relay asks for this."""
        self.session.perform(effects)

    def open(self, number: int = 0) -> tuple[Leg, FakeTransport]:
        """The relay opens a leg to a broker, which accepts it."""
        leg = Leg(Side.UPSTREAM, Limits())
        self.does(Open(leg, self.brokers[number]))
        return leg, self.transports[-1]

    def close(self, leg: Leg) -> None:
        """The relay closes a leg."""
        leg.enter(LegState.CLOSED)
        self.does(Close(leg, How.FLUSH))


class InstantEndpoint:
    """Leads to a broker that accepts at once."""

    def __init__(self, rehearsal: ScriptedSession) -> None:
        self._rehearsal = rehearsal

    def connect(self, factory: Any) -> Any:
        from twisted.internet.defer import succeed

        protocol = factory.buildProtocol(None)
        transport = FakeTransport(protocol)
        self._rehearsal.transports.append(transport)
        protocol.makeConnection(transport)
        return succeed(protocol)

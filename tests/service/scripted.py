"""Drivers whose core is played by the test, and brokers that are up or not."""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import succeed
from twisted.internet.error import ConnectionLost, ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock

from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect, Open, Pass
from stomprelay.relay.link.link import BalanceMove
from stomprelay.relay.model.group import Broker
from stomprelay.service.connection.protocol import Driver, LegProtocol
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.session.effects import Close, How
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.frame import Limits
from tests.service.harness import CONNECTED, FakeTransport, RelayHarness, broker, listener


class ScriptedBrokers:
    """The brokers of a harness, by number: those in `up` serve whoever comes, the others refuse."""

    def __init__(self, harness: RelayHarness) -> None:
        self.harness = harness
        self.up = {1, 2, 3}
        self.served: dict[FakeTransport, int] = {}

    def answer(self) -> None:
        """All attempts that are under way come to their end."""
        while self.harness.reactor.tcpClients:
            number = int(self.harness.reactor.tcpClients[-1][0].rpartition(".")[2])
            if number not in self.up:
                self.harness.refuse(ConnectionRefusedError())
                continue
            transport = self.harness.broker()
            self.served[transport] = number
            if b"CONNECT\n" in transport.written():
                transport.sends(CONNECTED)

    def fail(self, number: int) -> None:
        """A broker goes down with all its connections."""
        self.up.discard(number)
        for transport in [each for each, where in self.served.items() if where == number]:
            del self.served[transport]
            if not transport.ends:
                transport.disconnects(ConnectionLost())
        self.answer()

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Step by step; whoever is told DISCONNECT confirms it."""
        for _ in range(round(seconds / step)):
            self.harness.reactor.advance(step)
            self.answer()
            for transport in self.served:
                if not transport.ends and b"DISCONNECT\nreceipt:" in transport.value():
                    transport.parts()
                    transport.disconnects()
            self.answer()

    @property
    def sessions(self) -> list[int]:
        """How many sessions each broker has."""
        return [entry.broker.health.sessions for entry in self.harness.service.state.brokers]


def _tells(what: str) -> Any:
    """A method that keeps that it was called: so, for which side, and with what."""
    return lambda self, protocol, *more: self.told.append((what, protocol.leg.side, *more))


class SpyDriver(Driver):
    """A driver without a core; what that would have been told is kept."""

    def __init__(self, runtime: Runtime, ended: Callable[[Driver], None]) -> None:
        super().__init__(runtime, 2.0)
        self._on_end = ended
        self.told: list[tuple[Any, ...]] = []

    def end(self) -> None:
        super().end()
        self._on_end(self)

    connected, half_closed = _tells("connected"), _tells("half closed")
    received, reading_changed, lost = _tells("received"), _tells("read"), _tells("lost")


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

    def __init__(self, on: Broker) -> None:
        self.broker = on
        self.legs: list[Leg] = []
        self.quiet = False
        self.moving: BalanceMove | None = None
        self.stays = ""

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
        """It is kept by its name in small letters, `half_closed` for one, with what it is about."""
        if isinstance(event, inputs.BrokerConnected):
            event.leg.enter(LegState.CONNECTED)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).lower()
        about = ("leg", "reason", "broker", "within", "target")
        told = (name, *(getattr(event, each) for each in about if hasattr(event, each)))
        if isinstance(event, inputs.Paused | inputs.Resumed | inputs.Blocked):
            self.told.append(told)
            return []
        return self._hears(*told)

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
        protocol = factory.buildProtocol(None)
        transport = FakeTransport(protocol)
        self._rehearsal.transports.append(transport)
        protocol.makeConnection(transport)
        return succeed(protocol)

"""Performing for one relay: a client's connection, its brokers', and the pace of one side for the other."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final, NamedTuple

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.model.group import Broker
from stomprelay.relay.relay import Relay
from stomprelay.service.outlet import Outlet
from stomprelay.service.perform import Performer, Stage, log_note, spell_address
from stomprelay.service.protocol import LegProtocol
from stomprelay.service.valve import PRESSURE
from stomprelay.service.ways import Ways, take
from stomprelay.session.effects import Note
from stomprelay.session.states import State

_FORM: Final = "{session} from {peer} on {listener}: {event}: {text}"


class Glance(NamedTuple):
    """What there is to see of a session: versions where they are agreed, the brokers it is on, octets from the client
    and to it. `brokers` is empty while there is no CONNECT; a place without a broker says so.
    """

    name: str
    peer: str
    client: str
    broker: str
    brokers: tuple[str, ...]
    sent: int
    received: int


@implementer(IPushProducer)
class Relaying(Performer):
    """Performs the effects of one relay.

    It is the producer of its client's transport: while that is full no broker is read from. What a broker's full
    transport means is the relay's to say: where client and broker are `coupled` the client is not read from, else
    the relay is told, in the reactor's next turn, for it hears of nothing before all that it asked for is done.
    """

    __slots__ = ("_full", "_outlets", "_received", "_telling", "_ways", "relay")

    def __init__(self, stage: Stage, relay: Relay, ways: Ways) -> None:
        super().__init__(stage, relay.listener)
        self.relay = relay
        self._ways = ways
        self._outlets: tuple[Outlet, ...] = ()
        self._full = False
        self._telling = False
        self._received = 0

    @property
    def over(self) -> bool:
        """Whether nothing more will happen. Between two brokers a session may be without any leg."""
        return not self.legs and self.relay.over

    @property
    def peer(self) -> str:
        """The client's address."""
        line = self.stage.lines.get(self.relay.client)
        return "a client that is gone" if line is None else spell_address(line.peer)

    def glance(self) -> Glance:
        """Look at it without touching it."""
        relay, lines = self.relay, self.stage.lines
        client = lines.get(relay.client)
        links = relay.links
        versions = [
            link.leg.dialect.version.decode("ascii")
            for link in links
            if link.broker is not None and link.leg is not None
        ]
        return Glance(
            relay.name.decode("ascii"),
            self.peer,
            "" if relay.session is None else relay.session.dialect.version.decode("ascii"),
            ", ".join(dict.fromkeys(versions)),
            tuple("searching" if link.broker is None else str(link.broker) for link in links),
            0 if client is None else client.octets,
            self._received + sum(outlet.line.octets for outlet in self._outlets),
        )

    def made(self, line: LegProtocol) -> None:
        """Client or broker is there."""
        relay, now = self.relay, self.stage.seconds()
        if line.leg is relay.client:
            self.perform(relay.opened(now))
            return
        outlet = Outlet(self, line)
        self._outlets = (*self._outlets, outlet)
        line.throttle(outlet)
        client = self.stage.lines.get(relay.client)
        if client is not None:
            client.throttle(self)
        self.perform(relay.connected(line.leg, now))
        self.weigh()

    def received(self, line: LegProtocol, data: bytes) -> None:
        """The hot path begins here."""
        self.perform(self.relay.received(line.leg, data, self.stage.seconds()))
        if self._full:
            self._hold_back()

    def read(self, line: LegProtocol, on: bool) -> None:
        """A leg that is not read from must not be taken for silent."""
        if on:
            self.perform(self.relay.resumed(line.leg, self.stage.seconds()))
        else:
            self.relay.paused(line.leg)

    def refused(self, line: LegProtocol, reason: str) -> None:
        """No broker."""
        self.perform(self.relay.refused(line.leg, reason, self.stage.seconds()))

    def lost(self, line: LegProtocol, reason: str) -> None:
        """Client or broker went."""
        self.perform(self.relay.lost(line.leg, reason, self.stage.seconds()))

    def left(self, line: LegProtocol) -> None:
        """A leg was closed; what came from a broker still counts."""
        if line.leg is not self.relay.client:
            self._received += line.octets
        super().left(line)

    def woke(self, now: float) -> None:
        """The relay's time has come."""
        self._legless(self.relay.woke(now))

    def stop(self) -> None:
        """The service stops."""
        self._legless(self.relay.stopped(self.stage.seconds()))

    def move(self, broker: Broker, within: float, to: Broker | None = None) -> None:
        """Leave this broker at a quiet moment, at the latest after so many seconds; `to` is preferred to others."""
        self._legless(self.relay.leave(broker, self.stage.seconds(), within, to))

    def reconsider(self) -> None:
        """A broker came back: where the session waits for one, it tries at once."""
        self._legless(self.relay.reconsidered(self.stage.seconds()))

    def _legless(self, effects: Iterable[Effect]) -> None:
        """Perform what the relay answers to an input that may come while there is no leg."""
        legs = self.legs
        self.perform(effects)
        if not legs and self.over:
            self.end()

    # The pace of one side for the other

    def pauseProducing(self) -> None:
        """The client's transport is full."""
        self._full = True
        self._hold_back()

    def resumeProducing(self) -> None:
        """It has room again."""
        self._full = False
        for outlet in self._outlets:
            if outlet.line.valve is not None:
                outlet.line.valve.release(PRESSURE)

    def stopProducing(self) -> None:
        """The client is gone, and what brokers still say is not for it."""
        self.resumeProducing()

    def _hold_back(self) -> None:
        """No broker is read from, but those that have not answered CONNECT yet."""
        for outlet in self._outlets:
            line = outlet.line
            if line.valve is not None and line.leg.state is not State.OPENING:
                line.valve.hold(PRESSURE)

    def weigh(self) -> None:
        """Look at the outlets: the client is held by any that is full, or the relay is told which they are."""
        coupled = self.relay.coupled
        full = told = False
        for outlet in self._outlets:
            full = full or outlet.full
            told = told or outlet.told is not self._blocked(outlet, coupled)
        client = self.stage.lines.get(self.relay.client)
        if client is not None and client.valve is not None:
            if coupled and full:
                client.valve.hold(PRESSURE)
            else:
                client.valve.release(PRESSURE)
        if told and not self._telling:
            self._telling = True
            self.stage.reactor.callLater(0, self._tell_blocked)

    def parted(self, outlet: Outlet) -> None:
        """A broker's transport takes nothing any more."""
        if outlet in self._outlets:
            self._outlets = tuple(each for each in self._outlets if each is not outlet)
            self.weigh()

    def _tell_blocked(self) -> None:
        self._telling = False
        for outlet in self._outlets:
            blocked = self._blocked(outlet, self.relay.coupled)
            if outlet not in self._outlets or blocked is outlet.told:
                continue
            outlet.told = blocked
            leg = outlet.line.leg
            if blocked:
                self.relay.blocked(leg)
            else:
                self.perform(self.relay.unblocked(leg, self.stage.seconds()))

    @staticmethod
    def _blocked(outlet: Outlet, coupled: bool) -> bool:
        """What the relay should know of it. Where it slows the client down the relay need not; once told, it must."""
        return outlet.full and (outlet.told or not coupled)

    def _note(self, effect: Note) -> None:
        """One line that says who and where."""
        log_note(
            effect,
            _FORM,
            session=self.relay.name.decode("ascii"),
            peer=self.peer,
            listener=self.place.name,
        )

    def _open(self, effect: Open) -> None:
        take(self._ways, self, effect)
        self.weigh()

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {**Performer.effects, Open: _open}

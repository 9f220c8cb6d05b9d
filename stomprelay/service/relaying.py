"""Performing for one relay: a client's connection, a broker's, and the one's pace for the other."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

from twisted.internet.interfaces import IAddress, IProtocolFactory, IStreamClientEndpoint
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.relay.effects import Open
from stomprelay.relay.relay import Relay
from stomprelay.relay.upstream import Broker
from stomprelay.service.perform import Performer, Stage, log_note, spell_address
from stomprelay.service.protocol import LegProtocol
from stomprelay.session.effects import Note
from stomprelay.session.states import State

Ways = Mapping[Broker, IStreamClientEndpoint]
"""The endpoints that lead to the brokers."""

_FORM: Final = "{session} from {peer} on {listener}: {event}: {text}"


class Glance(NamedTuple):
    """What there is to see of a session: versions where they are agreed, octets from the client and to it."""

    name: str
    peer: str
    client: str
    broker: str
    sent: int
    received: int


class Relaying(Performer):
    """Performs the effects of one relay."""

    __slots__ = ("_ways", "relay")

    def __init__(self, stage: Stage, relay: Relay, ways: Ways) -> None:
        super().__init__(stage, relay.listener)
        self.relay = relay
        self._ways = ways

    @property
    def peer(self) -> str:
        """The client's address."""
        line = self.stage.lines.get(self.relay.client)
        return "a client that is gone" if line is None else spell_address(line.peer)

    def glance(self) -> Glance:
        """Look at it without touching it."""
        relay, lines = self.relay, self.stage.lines
        client = lines.get(relay.client)
        broker = None if relay.broker is None else lines.get(relay.broker)
        bound = relay.broker is not None and relay.broker.state is not State.OPENING
        return Glance(
            relay.name.decode("ascii"),
            self.peer,
            "" if relay.session is None else relay.session.dialect.version.decode("ascii"),
            relay.broker.dialect.version.decode("ascii") if bound and relay.broker is not None else "",
            0 if client is None else client.octets,
            0 if broker is None else broker.octets,
        )

    def made(self, line: LegProtocol) -> None:
        """Client or broker is there."""
        relay, now = self.relay, self.stage.seconds()
        if line.leg is relay.client:
            self.perform(relay.opened(now))
            return
        client = self.stage.lines.get(relay.client)
        if client is not None and client.valve is not None and line.valve is not None:
            line.throttle(client.valve)
            client.throttle(line.valve)
        self.perform(relay.connected(line.leg, now))

    def received(self, line: LegProtocol, data: bytes) -> None:
        """The hot path begins here."""
        self.perform(self.relay.received(line.leg, data, self.stage.seconds()))

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
        """Nothing comes to the client from this broker any more."""
        super().left(line)
        if line.leg is not self.relay.client:
            client = self.stage.lines.get(self.relay.client)
            if client is not None:
                client.part()

    def woke(self, now: float) -> None:
        """The relay's time has come."""
        self.perform(self.relay.woke(now))

    def stop(self) -> None:
        """The service stops."""
        self.perform(self.relay.stopped(self.stage.seconds()))

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
        line = LegProtocol(self, effect.leg)
        line.attempt = self._ways[effect.broker].connect(_Once(line)).addErrback(self._failed, line)
        if line.transport is not None:
            line.attempt = None

    def _failed(self, reason: Failure, line: LegProtocol) -> None:
        # Perhaps at once: yet the relay hears of nothing before all that it asked for is done.
        self.stage.reactor.callLater(0, line.failed, reason)

    effects: ClassVar[dict[type[Any], Callable[[Any, Any], None]]] = {**Performer.effects, Open: _open}


@implementer(IProtocolFactory)
class _Once:
    """Builds the one protocol of an attempt."""

    __slots__ = ("_protocol",)

    def __init__(self, protocol: LegProtocol) -> None:
        self._protocol = protocol

    def buildProtocol(self, addr: IAddress | None) -> LegProtocol:
        """The protocol that was made for it."""
        return self._protocol

    def doStart(self) -> None:  # noqa: N802
        """Nothing to prepare."""

    def doStop(self) -> None:  # noqa: N802
        """Nothing to end."""

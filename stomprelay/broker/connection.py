"""One client's connection to the embedded broker.

Inputs are told in the past tense with `now`, in seconds of one steady clock; each answers with the effects that the
service must perform, in order, some of them on other connections' legs. No input raises.

    received    CONNECT is answered at once, and frames count; CONNECT must come in time
    paused      the transport holds too much already: no message is written until `resumed`
    woke        the time of the last `Wake` has come: beats, time-outs, and more of what waits
    lost        the client is gone; what it did not acknowledge goes to others
"""

from math import inf
from typing import TYPE_CHECKING

from stomprelay import __version__
from stomprelay.broker.client import Client
from stomprelay.broker.outbox import Outbox
from stomprelay.session.complaint import complain
from stomprelay.session.effects import Close, Effect, Event, How, Pause, Resume, Wake
from stomprelay.session.foreign import recognise
from stomprelay.session.handshake import Offer, spell_versions
from stomprelay.session.heartbeat import BEAT, Terms
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import LimitError, StompError
from stomprelay.wire.frame import Frame, compose_raw
from stomprelay.wire.names import CONNECTED, HEART_BEAT, SERVER, SESSION, VERSION

if TYPE_CHECKING:
    from stomprelay.broker.broker import Broker

_SERVER = b"stomprelay/" + __version__.encode()
_VERSIONS = frozenset(DIALECTS)


class Connection:
    """A client's leg and what belongs to it. `leg` is what effects speak of; `name` is its `session`."""

    __slots__ = ("_broker", "_client", "_held", "_until", "leg", "name", "outbox")

    def __init__(self, broker: "Broker", name: bytes, until: float) -> None:
        self.leg = Leg(Side.DOWNSTREAM, broker.bounds.limits)
        self.name = name
        self.outbox = Outbox(self.leg, broker.touched)
        self._broker = broker
        self._client: Client | None = None
        self._until = until
        self._held = False

    # Inputs

    def received(self, data: bytes, now: float) -> list[Effect]:
        """Octets came."""
        leg = self.leg
        if leg.closed:
            return []
        leg.heartbeat.received(now)
        self._began()
        try:
            if leg.state is State.OPENING:
                self._greeted(data, now)
            else:
                leg.decoder.feed(data)
            client = self._client
            if client is not None:
                said = client.said
                for frame in leg.decoder.frames():
                    said(frame)
                    if client.left:
                        self._broker.note(Event.DISCONNECTED, f"{self._shown}: client disconnected")
                        self._end(How.LINGER)
                        break
        except StompError as error:
            self.fail(error)
        return self._done(now)

    def lost(self, now: float) -> list[Effect]:
        """The connection ended without our `Close`."""
        if self.leg.closed:
            return []
        self._broker.note(Event.VANISHED, f"{self._shown}: client left without DISCONNECT")
        self._forget()
        return self._done(now)

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come."""
        if self.leg.closed:
            return []
        heartbeat = self.leg.heartbeat
        self._began()
        if now >= self._until:
            limit = f"the limit is {self._broker.bounds.connect_timeout:g} s"
            self.fail(StompError("no CONNECT in time", limit))
        elif self._client is not None and heartbeat.dead(now):
            self._broker.note(Event.LOST, f"{self._shown}: client fell silent")
            self.fail(StompError("heart-beat missed", "nothing came for longer than was agreed"))
        elif self._client is not None and heartbeat.due(now):
            self.outbox.reply(BEAT)
        return [*self._done(now), *self._wake()]

    def paused(self) -> list[Effect]:
        """The transport holds as much as it should. No message is written until `resumed`."""
        self.outbox.paused()
        return []

    def resumed(self, now: float) -> list[Effect]:
        """The transport has room again."""
        if self.leg.closed:
            return []
        self.outbox.resumed()
        self._began(again=True)
        if self._held:
            self._held = False
            self.leg.heartbeat.resumed(now)
            self._broker.effects.append(Resume(self.leg))
        return [*self._done(now), *self._wake()]

    def fail(self, error: StompError) -> None:
        """End the connection with an ERROR. Whatever input brought this about has still to collect the effects."""
        text = f"{error.message} ({error.detail})" if error.detail else error.message
        supported = spell_versions(_VERSIONS) if self._client is None else None
        self._broker.note(Event.ERROR, f"{self._shown}: {text}")
        self.outbox.reply(complain(error, self.leg.dialect, supported))
        self._end(How.LINGER)

    # The handshake

    def _greeted(self, data: bytes, now: float) -> None:
        decoder = self.leg.decoder
        if not decoder.buffered:
            foreign = recognise(data)
            if foreign is not None:
                self._broker.note(Event.FOREIGN, f"{self._shown}: {foreign.what}")
                if foreign.answer:
                    self.outbox.reply(foreign.answer)
                self._end(How.LINGER)
                return
        decoder.feed(data)
        for frame in decoder.frames():
            self._connected(frame, now)
            return
        most = self._broker.bounds.before_connect
        if decoder.buffered > most:
            raise LimitError("too much before CONNECT", f"the limit is {most} bytes")

    def _connected(self, frame: Frame, now: float) -> None:
        """CONNECT is answered. Who logs in, and to which virtual host, is all the same here."""
        broker, leg = self._broker, self.leg
        offer = Offer.read(frame)
        dialect = offer.agree(_VERSIONS)
        asked = offer.terms
        ours = Terms() if asked is None else broker.heart_beat
        headers = [
            (VERSION, dialect.version),
            (SESSION, self.name),
            (SERVER, _SERVER),
            (HEART_BEAT, bytes(ours)),
        ]
        self.outbox.reply(compose_raw(CONNECTED, headers))
        leg.enter(State.CONNECTED, dialect)
        leg.heartbeat.agree(ours, asked or Terms(), now)
        self._until = inf
        self._client = Client(dialect, self.outbox, broker.destinations, broker.bounds)
        broker.note(Event.CONNECTED, f"{self._shown}: STOMP {dialect.version.decode()}")
        broker.effects += self._wake()

    # Ends

    def _end(self, how: How) -> None:
        """Close the connection after what is in the outbox."""
        self._broker.effects.append(Close(self.leg, how))
        self._forget()

    def _forget(self) -> None:
        self._until = inf
        self.outbox.closed()
        self.leg.enter(State.CLOSED)
        self._broker.forgot(self)
        client, self._client = self._client, None
        if client is not None:
            client.closed()

    # One input

    def _began(self, *, again: bool = False) -> None:
        """More may be written to the client in this input, but not all at once. `again`: something may wait."""
        outbox = self.outbox
        again = again or outbox.sated
        outbox.began(self._broker.bounds.burst)
        if again and self._client is not None:
            self._client.revived()

    def _done(self, now: float) -> list[Effect]:
        """What the input asks of the service."""
        outbox = self.outbox
        outbox.most = inf
        effects = self._broker.collected(now)
        if self.leg.closed:
            effects.append(Wake(inf))
        else:
            if outbox.unread > self._broker.bounds.unread and not self._held:
                self._held = True
                self.leg.heartbeat.paused()
                effects.append(Pause(self.leg))
            if outbox.sated:
                effects.append(Wake(now))
        return effects

    def _wake(self) -> list[Effect]:
        if self.leg.closed or self.outbox.sated:
            return []
        return [Wake(min(self._until, self.leg.heartbeat.deadline))]

    @property
    def _shown(self) -> str:
        return self.name.decode()

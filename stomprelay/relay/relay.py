"""One client joined to its brokers.

Inputs are told in the past tense with `now`, in seconds of one steady clock; each answers with the effects that
the service must perform, in order. No input raises. The life of a relay:

    opened      the client is there; CONNECT must come in time
    received    CONNECT: a broker is opened, the client is not read from meanwhile
    connected   the broker is there and is sent CONNECT; its CONNECTED is passed on, and frames flow
    lost        the client went: its brokers are left. Its broker went: it is told and closed or, where its session
                can survive, waits while another broker is sought and told what the lost one knew

An ERROR of ours is written, then the client's leg lingers so that it arrives. Only whole frames are written.
"""

from collections.abc import Callable
from math import inf

from stomprelay.relay.bridge.tracing import Tracer
from stomprelay.relay.client import ClientConnection
from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.fanout import Fanout
from stomprelay.relay.flow import Flow
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.notes import End, ended, failed, vanished
from stomprelay.relay.single import Single
from stomprelay.session.complaint import complain
from stomprelay.session.effects import Close, Event, How, Note, Send, Wake
from stomprelay.session.foreign import Foreign, recognise
from stomprelay.session.handshake import Offer, spell_versions
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import LimitError, StompError


def greeted(client: Leg, data: bytes, listener: Listener) -> Offer | Foreign | None:
    """What the client says of itself: its CONNECT, or that it does not speak STOMP; None while more has to come.

    What follows CONNECT in the chunk stays in the leg's decoder. Raises `StompError` for what is neither.
    """
    foreign = None if client.decoder.buffered else recognise(data)
    if foreign is not None:
        return foreign
    client.decoder.feed(data)
    for frame in client.decoder.frames():
        return Offer.read(frame)
    if client.decoder.buffered > listener.before_connect:
        raise LimitError("too much before CONNECT", f"the limit is {listener.before_connect} bytes")
    return None


def join(
    client: Leg, listener: Listener, offer: Offer, session: Session, chance: Callable[[], float]
) -> Flow:
    """What joins this client to the listener's upstream, and to those of its routes. Its links are still to
    seek their brokers.
    """
    upstream = listener.upstream
    if len(upstream.groups) == 1 and not listener.routes:
        link = Link(listener, upstream, upstream.groups[0], offer, session, chance)
        return Single(client, link, Tracer(session.name) if listener.trace else None)
    sessions = [session]

    def links(needed: Upstream) -> list[Link]:
        """Each has an account of its own with its broker; the client's own serves for the first."""
        return [
            Link(
                listener,
                needed,
                group,
                offer,
                sessions.pop() if sessions else session.beside(),
                chance,
                carried=True,
            )
            for group in needed.groups
        ]

    return Fanout(client, listener, session, links)


def _never() -> float:
    return 0.0


class Relay:
    """The join of one client's leg with those of its brokers: until CONNECT was understood the relay alone, from
    then on its `ClientConnection`.

    `name` tells it apart in logs and is the `session` of a client whose broker gives none. `client` is the client's
    leg; those of brokers come with `Open`. `chance` is a source of numbers from 0 up to 1, by which sessions that do
    the same do it at different times.
    """

    __slots__ = ("_chance", "_connection", "_until", "client", "counters", "listener", "name")

    def __init__(
        self, listener: Listener, name: bytes, counters: Counters, chance: Callable[[], float] = _never
    ) -> None:
        self.listener = listener
        self.name = name
        self.counters = counters
        self.client = Leg(Side.DOWNSTREAM, listener.limits)
        self._chance = chance
        self._connection: ClientConnection | None = None
        self._until = inf

    @property
    def session(self) -> Session | None:
        """What the client believes it has, once its CONNECT was understood."""
        return None if self._connection is None else self._connection.session

    @property
    def links(self) -> list[Link]:
        """The session's places in groups of brokers."""
        return [] if self._connection is None else self._connection.links

    @property
    def coupled(self) -> bool:
        """Whether client and broker are read from no faster than the other one can be written to. Otherwise tell
        of a broker that is written to too fast by `blocked` and `unblocked`.
        """
        return self._connection is not None and self._connection.coupled

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.client.closed if self._connection is None else self._connection.over

    # Inputs

    def opened(self, now: float) -> list[Effect]:
        """A client connected. Perform what is answered, then tell what it sends with `received`."""
        self.counters["sessions_opened"] += 1
        self._until = now + self.listener.connect_timeout
        return [Wake(self._until)]

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """Octets came on a leg."""
        if self._connection is not None:
            return self._connection.received(leg, data, now)
        if leg.closed:
            return []
        self.counters["client_bytes"] += len(data)
        try:
            return self._greeted(data, now)
        except StompError as error:
            return self._failed(error)

    def connected(self, leg: Leg, now: float) -> list[Effect]:
        """The connection that an `Open` asked for is there."""
        effects: list[Effect] = []
        if self._connection is None:
            return [Close(leg, How.ABORT)]
        self._connection.search.connected(leg, effects, now)
        return effects

    def refused(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """The connection that an `Open` asked for cannot be had, and why."""
        effects: list[Effect] = []
        connection = self._connection
        if connection is None or leg.closed:
            return effects
        return connection.sought(connection.search.refused(leg, reason, effects, now), effects)

    def lost(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """A leg's connection ended without our `Close`."""
        if self._connection is not None:
            return self._connection.lost(leg, reason, now)
        if leg.closed:
            return []
        self.counters["clients_vanished"] += 1
        return [vanished(f"client left: {reason}"), *self._closed(How.FLUSH)]

    def paused(self, leg: Leg) -> None:
        """The leg is not read from any more, by back-pressure or by a `Pause`."""
        leg.heartbeat.paused()

    def resumed(self, leg: Leg, now: float) -> list[Effect]:
        """The leg is read from again."""
        if leg.state is not State.LEAVING:
            leg.heartbeat.resumed(now)
        return [Wake(self._until if self._connection is None else self._connection.deadline)]

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come."""
        if self._connection is not None:
            return self._connection.woke(now)
        if now < self._until:
            return [Wake(self._until)]
        limit = f"the limit is {self.listener.connect_timeout:g} s"
        return self._failed(StompError("no CONNECT in time", limit))

    def stopped(self, now: float) -> list[Effect]:
        """The service stops: the client is told, and all legs are closed."""
        if self.over:
            return []
        error = StompError("the relay is stopping", "connect again")
        return (
            self._failed(error)
            if self._connection is None
            else self._connection.shutdown.failed(self.client, error)
        )

    def leave(self, broker: Broker, now: float, within: float, to: Broker | None = None) -> list[Effect]:
        """The session shall leave this broker at a quiet moment, or after `within` seconds, and find another one:
        `to`, if it can.
        """
        effects: list[Effect] = []
        connection = self._connection
        if connection is None:
            return effects
        connection.search.leave(broker, effects, now, within, to)
        return connection.sought(None, effects)

    def reconsidered(self, now: float) -> list[Effect]:
        """A broker came back: links that wait for the time of their next attempt try at once."""
        effects: list[Effect] = []
        connection = self._connection
        if connection is None:
            return effects
        return connection.sought(connection.search.reconsidered(effects, now), effects)

    def blocked(self, leg: Leg) -> None:
        """A broker's connection takes no more for now."""
        if self._connection is not None:
            self._connection.blocked(leg)

    def unblocked(self, leg: Leg, now: float) -> list[Effect]:
        """It takes more again."""
        return [] if self._connection is None else self._connection.unblocked(leg, now)

    # Before CONNECT

    def _greeted(self, data: bytes, now: float) -> list[Effect]:
        client, listener = self.client, self.listener
        client.heartbeat.heard_at = now
        greeting = greeted(client, data, listener)
        if greeting is None:
            return []
        if isinstance(greeting, Foreign):
            self.counters["foreign"] += 1
            answer: list[Effect] = [Send(client, greeting.answer)] if greeting.answer else []
            return [Note(Event.FOREIGN, greeting.what), *answer, *self._closed(How.LINGER)]
        dialect = greeting.agree(listener.versions)
        session = Session(self.name, dialect, listener.unacknowledged, self.counters)
        flow = join(client, listener, greeting, session, self._chance)
        self._connection = ClientConnection(client, listener, greeting, session, flow)
        return self._connection.begun(now)

    def _failed(self, error: StompError) -> list[Effect]:
        self.counters["errors_sent"] += 1
        return [
            failed(self.client.side.value, error),
            Send(self.client, complain(error, V1_0, spell_versions(self.listener.versions))),
            ended(End.RELAY, "there was no session"),
            *self._closed(How.LINGER),
        ]

    def _closed(self, how: How) -> list[Effect]:
        self.client.enter(State.CLOSED)
        self._until = inf
        return [Close(self.client, how), Wake(inf)]

"""A client that sent CONNECT, joined to its brokers: what comes on any leg, and what the clock brings."""

from collections.abc import Iterable

from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import DisconnectState, Flow, InputBuffer
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link, Stage
from stomprelay.relay.link.search import Search
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.notes import SILENT, End, ended, ended_with, fell_silent, found, refused, unheard
from stomprelay.relay.shutdown import Shutdown
from stomprelay.relay.single import Single
from stomprelay.session.effects import Event, How, Pause, Resume, Send, Wake
from stomprelay.session.handshake import Offer
from stomprelay.session.heartbeat import BEAT, Terms
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import demanding_utf8
from stomprelay.wire.errors import StompError


class Welcome:
    """Says CONNECTED to a client, with the client's version and our own heart-beats."""

    __slots__ = ("_client", "_listener", "_offer", "_session")

    def __init__(self, client: Leg, listener: Listener, offer: Offer, session: Session) -> None:
        self._client = client
        self._listener = listener
        self._offer = offer
        self._session = session

    @property
    def awaited(self) -> bool:
        """Whether the client still waits for it."""
        return self._client.state is State.BINDING

    def say(self, bound: Accepted, effects: list[Effect], now: float, *, gone: bool) -> None:
        """There are brokers enough, `bound` being the last of them. A client that is `gone` hears nothing."""
        client, session, terms = self._client, self._session, self._offer.terms
        client.enter(State.CONNECTED)
        client.heartbeat.agree(self._listener.heart_beat, terms or Terms(), now)
        session.counters["sessions_connected"] += 1
        if not gone:
            beats = terms and self._listener.heart_beat
            effects.append(Send(client, bound.accord.connected(session.dialect, beats, session.name)))


def beating(leg: Leg) -> bool:
    """Whether its heart-beats count."""
    return leg.state is State.CONNECTED or (leg.state is State.LEAVING and leg.side is Side.DOWNSTREAM)


def beaten(legs: Iterable[Leg | None], effects: list[Effect], now: float) -> Leg | None:
    """Say the beats that are due on the legs that are connected. Answers the first one whose peer is dead.

    A client that said DISCONNECT is owed beats until it is answered, but none of its own.
    """
    for leg in legs:
        if leg is None or not beating(leg):
            continue
        if leg.heartbeat.dead(now):
            return leg
        if leg.heartbeat.due(now):
            leg.heartbeat.said_at = now
            effects.append(Send(leg, BEAT))
    return None


class ClientConnection:
    """The inputs of a `Relay` from CONNECT on; see there. Say `begun` first.

    Its `Flow` carries the frames, each of the flow's links sees to its own broker, and the connection decides what the
    loss of either side means for the other. Tell `search` of connections that are there or cannot be had, and give
    what it answers to `sought`.
    """

    __slots__ = (
        "_client",
        "_counters",
        "_flow",
        "_hold",
        "_listener",
        "_welcome",
        "search",
        "session",
        "shutdown",
    )

    def __init__(self, client: Leg, listener: Listener, offer: Offer, session: Session, flow: Flow) -> None:
        self.session = session
        self._client = client
        self._listener = listener
        self._counters = session.counters
        self._flow = flow
        self.search = Search(self._flow)
        self._welcome = Welcome(client, listener, offer, session)
        self._hold = InputBuffer(client, listener.upstream.resend_buffer)
        self.shutdown = Shutdown(client, listener, session, self._flow, self._hold)

    @property
    def links(self) -> list[Link]:
        """The session's places in groups of brokers."""
        return self._flow.links

    @property
    def coupled(self) -> bool:
        """Whether there is one broker at a time, so that it sets the client's pace."""
        return isinstance(self._flow, Single)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self._client.closed and all(link.stage is Stage.ENDED for link in self.links)

    def begun(self, now: float) -> list[Effect]:
        """CONNECT was understood: brokers are sought, and the client waits."""
        client, dialect = self._client, self.session.dialect
        client.enter(State.BINDING, demanding_utf8(dialect) if self._listener.require_utf8 else dialect)
        effects: list[Effect] = [Pause(client)]
        return self.sought(self.search.begin(self.links, effects, now), effects)

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """Octets came on a leg."""
        downstream = leg is self._client
        self._counters["client_bytes" if downstream else "broker_bytes"] += len(data)
        leg.heartbeat.heard_at = now
        try:
            match leg.state:
                case State.CONNECTED if downstream:
                    return self._heard(data, now)
                case State.CONNECTED | State.LEAVING if not downstream:
                    leg.decoder.feed(data)
                    return self._answered(leg, now)
                case State.OPENING:
                    return self._bound(leg, data, now)
                case State.BINDING:
                    leg.decoder.feed(data)
        except StompError as error:
            return self.shutdown.failed(leg, error)
        return []

    def lost(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """A leg's connection ended without our `Close`."""
        link = self.search.link(leg)
        if leg is self._client and not leg.closed:
            return self.sought(None, self.shutdown.vanished(reason, now))
        if leg.closed or link is None:
            return []
        if link.stage is Stage.BINDING:
            effects: list[Effect] = []
            why = f"connection closed before CONNECTED: {reason}"
            return self.sought(self.search.refused(leg, why, effects, now), effects)
        return self._broker_lost(link, f"closed the connection: {reason}", [], now)

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come."""
        if now >= self.shutdown.until:
            for link in self.shutdown.unanswered():
                link.failed(now)
                return self._broker_lost(link, "did not confirm in time what was said to it", [], now)
            return self.sought(None, self.shutdown.overdue(now))
        effects: list[Effect] = []
        legs = [each.leg for each in self.links]
        dead = beaten([self._client, *legs] if self.shutdown.listening else legs, effects, now)
        if dead is not None:
            return [*effects, *self._silent(dead, now)]
        for link in self.links:
            if link.stage is Stage.PARTING and now >= link.until:
                return self._broker_lost(link, "", effects, now)
        return self.sought(self.search.woke(effects, now), effects)

    def blocked(self, leg: Leg) -> None:
        """A broker's connection takes no more for now."""
        self._flow.blocked(leg)

    def unblocked(self, leg: Leg, now: float) -> list[Effect]:
        """It takes more again."""
        effects: list[Effect] = []
        if leg.closed:
            return effects
        disconnect = self._flow.disconnect
        failure = self._flow.unblocked(leg, effects, now)
        return self._carried(effects, disconnect, failure, self._client, now)

    # Brokers accept

    def _bound(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """A broker's first frame: the link is bound, goes on searching, or its ERROR is the client's."""
        link = self.search.link(leg)
        assert link is not None
        effects: list[Effect] = []
        asked = link.asked
        match self.search.answered(link, data, effects, now):
            case Accepted() as bound:
                return self._welcomed(link, bound, effects, now)
            case bytes() as error:
                effects.append(refused(asked, link.upstream, "answered CONNECT with ERROR"))
                told = self._flow.denied(link, error, effects, now)
                if told is None:
                    return self.sought(self.search.ended([link], effects, now), effects)
                self._counters["errors_passed"] += 1
                if not self.shutdown.gone:
                    effects.append(Send(self._client, told))
                note = ended(End.BROKER, "a broker answered CONNECT with ERROR")
                return [*effects, *self.shutdown.closed(How.LINGER, note)]
        return self.sought(self.search.ended([link], effects, now), effects)

    def _welcomed(self, link: Link, bound: Accepted, effects: list[Effect], now: float) -> list[Effect]:
        """A link has a broker. The client is answered when there are enough of them, and only once."""
        client, flow = self._client, self._flow
        assert link.leg is not None
        first = self._welcome.awaited and flow.ready
        self._counters["failovers"] += link.news is Event.RECOVERED
        at, resent, brokers = len(effects), self._counters["frames_resent"], (link.broker, link.before)
        if first:
            self._welcome.say(bound, effects, now, gone=self.shutdown.gone)
        failure = flow.bound(link, effects, now)
        resent = self._counters["frames_resent"] - resent
        effects.insert(at, found(bound, *brokers, link.upstream, resent))
        if failure is not None:
            return [*effects, *self.shutdown.failed(client, failure)]
        self.shutdown.found(now)
        if link.broker is not None and link.broker.health.paused:
            link.leave(now, link.upstream.drain_timeout, None)
        effects.append(Wake(self.deadline))
        if not self.shutdown.gone:
            effects += self._answered(link.leg, now)
        if client.state is State.CONNECTED:
            effects += self._released(now)
        if first and not client.closed and not self.shutdown.gone and not self._hold.paused:
            effects.append(Resume(client))  # last: what it answers is reckoned anew
        return effects

    # Frames

    def _heard(self, data: bytes, now: float) -> list[Effect]:
        """The client says something; while there is no broker it waits."""
        flow = self._flow
        if self._hold or not flow.flowing:
            self._hold.take(data)
            return self._paced([])
        self._client.decoder.feed(data)
        return self._told(now)

    def _told(self, now: float) -> list[Effect]:
        """The client's leg has frames for the brokers."""
        flow = self._flow
        effects: list[Effect] = []
        disconnect = flow.disconnect
        failure = flow.to_broker(effects, now)
        opened = flow.opened()
        if opened:
            effects = self.sought(self.search.begin(opened, effects, now), effects)
            if self._client.closed:
                return effects
        return self._carried(effects, disconnect, failure, self._client, now)

    def _answered(self, leg: Leg, now: float) -> list[Effect]:
        """A broker's leg has frames for the client."""
        flow, link = self._flow, self.search.link(leg)
        if link is None or leg.closed:
            return []
        effects: list[Effect] = []
        disconnect = flow.disconnect
        failure = flow.to_client(link, effects, now)
        effects = self._carried(effects, disconnect, failure, leg, now)
        if link.parted:
            return self._broker_lost(link, "", effects, now)
        if self._hold:
            effects += self._released(now)
        return effects

    def _carried(
        self,
        effects: list[Effect],
        disconnect: DisconnectState,
        failure: StompError | None,
        leg: Leg,
        now: float,
    ) -> list[Effect]:
        """Frames passed from a leg; what follows from them."""
        flow = self._flow
        if flow.disconnect is not disconnect:
            self.shutdown.disconnect(now)
            effects.append(Wake(self.deadline))
        if failure is not None:
            effects += self.shutdown.failed(leg, failure)
        elif flow.erred and self._listener.upstream.close_on_error:
            effects += self.shutdown.closed(How.LINGER, ended(End.BROKER, "the broker sent ERROR"))
        elif self.shutdown.delivered:
            effects += self.shutdown.closed(How.FLUSH, ended(End.CLIENT, "what the client said is delivered"))
        elif flow.survives:
            self.search.move(effects, now)
            self._paced(effects)
        return effects

    def _released(self, now: float) -> list[Effect]:
        """There are brokers again for what the client said meanwhile."""
        flow, client = self._flow, self._client
        effects: list[Effect] = []
        if flow.flowing and client.state is State.CONNECTED:
            effects += self._told(now)
        while self._hold and flow.flowing and client.state is State.CONNECTED:
            client.decoder.feed(self._hold.give())
            effects += self._told(now)
        if client.state is not State.CONNECTED:
            self._hold.clear()
        elif flow.survives:
            self._paced(effects)
        return effects

    def _paced(self, effects: list[Effect]) -> list[Effect]:
        """The client is not read from while too much of what it said waits."""
        if not self._client.closed:
            self._hold.paced(effects, full=self._flow.full, crowded=self._flow.crowded)
        return effects

    # Brokers come and go

    def sought(self, failure: StompError | None, effects: list[Effect]) -> list[Effect]:
        """Brokers were looked for by `search`; `failure` tells that it was in vain. Answers all effects."""
        if failure is None:
            return effects if self.over else [*effects, Wake(self.deadline)]
        self._counters["sessions_given_up"] += self._client.state is State.CONNECTED
        self._counters["possibly_lost"] += sum(link.uncertain for link in self.links)
        return [*effects, *self.shutdown.failed(self._client, failure, End.BROKER)]

    def _broker_lost(self, link: Link, reason: str, effects: list[Effect], now: float) -> list[Effect]:
        """A broker went under a connected client, or was left."""
        flow = self._flow
        if flow.over(link):
            self._counters["possibly_lost"] += link.uncertain
            note = ended_with(link.broker, link.upstream, reason, settled=flow.settled)
            return [*effects, *self.shutdown.closed(How.LINGER, note)]
        self.search.lost(link, reason, effects)
        disconnect = flow.disconnect
        failure = flow.lost(link, effects, now)
        if failure is not None and self.shutdown.gone:
            effects.append(unheard(failure))
        elif failure is not None:
            self._counters["possibly_lost"] += link.uncertain
            return [*effects, *self.shutdown.failed(self._client, failure, End.BROKER)]
        failure = self.search.again(link, effects, now)
        self.shutdown.searching()
        effects = self.sought(failure, effects)
        return self._carried(effects, disconnect, None, self._client, now) if not self.over else effects

    def _silent(self, leg: Leg, now: float) -> list[Effect]:
        """A peer missed its beats."""
        self._counters["beats_missed"] += 1
        link = self.search.link(leg)
        if link is not None:
            link.failed(now)
            return self._broker_lost(link, SILENT, [], now)
        error = StompError("heart-beat missed", "nothing came for longer than was agreed")
        return [fell_silent(), *self.shutdown.failed(leg, error, End.CLIENT)]

    @property
    def deadline(self) -> float:
        """When something is due."""
        deadline = min(self.shutdown.until, self.search.deadline)
        if self.shutdown.listening and beating(self._client):
            deadline = min(deadline, self._client.heartbeat.deadline)
        return deadline

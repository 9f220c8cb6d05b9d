"""A client that sent CONNECT, joined to its brokers: what comes on any leg, and what the clock brings."""

from collections.abc import Iterable

from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import Flow, Goodbye, Hold
from stomprelay.relay.link.handshake import Bound
from stomprelay.relay.link.link import Branch, Stage
from stomprelay.relay.link.search import Search
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.notes import SILENT, End, ended, ended_with, fell_silent, found, refused, unheard
from stomprelay.relay.shutdown import Closing
from stomprelay.relay.single import Traffic
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

    def say(self, bound: Bound, effects: list[Effect], now: float, *, gone: bool) -> None:
        """There are brokers enough, `bound` being the last of them. A client that is `gone` hears nothing."""
        client, session, terms = self._client, self._session, self._offer.terms
        client.enter(State.CONNECTED)
        client.heartbeat.agree(self._listener.heart_beat, terms or Terms(), now)
        session.tally["sessions_connected"] += 1
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


class Circuit:
    """The inputs of a `Relay` from CONNECT on; see there. Say `begun` first.

    Its `Flow` carries the frames, each of the flow's branches sees to its own broker, and the circuit decides what the
    loss of either side means for the other. Tell `search` of connections that are there or cannot be had, and give
    what it answers to `sought`.
    """

    __slots__ = (
        "_client",
        "_flow",
        "_hold",
        "_listener",
        "_tally",
        "_welcome",
        "closing",
        "search",
        "session",
    )

    def __init__(self, client: Leg, listener: Listener, offer: Offer, session: Session, flow: Flow) -> None:
        self.session = session
        self._client = client
        self._listener = listener
        self._tally = session.tally
        self._flow = flow
        self.search = Search(self._flow)
        self._welcome = Welcome(client, listener, offer, session)
        self._hold = Hold(client, listener.upstream.resend_buffer)
        self.closing = Closing(client, listener, session, self._flow, self._hold)

    @property
    def branches(self) -> list[Branch]:
        """The session's places in groups of brokers."""
        return self._flow.branches

    @property
    def coupled(self) -> bool:
        """Whether there is one broker at a time, so that it sets the client's pace."""
        return isinstance(self._flow, Traffic)

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self._client.closed and all(branch.stage is Stage.ENDED for branch in self.branches)

    def begun(self, now: float) -> list[Effect]:
        """CONNECT was understood: brokers are sought, and the client waits."""
        client, dialect = self._client, self.session.dialect
        client.enter(State.BINDING, demanding_utf8(dialect) if self._listener.require_utf8 else dialect)
        effects: list[Effect] = [Pause(client)]
        return self.sought(self.search.begin(self.branches, effects, now), effects)

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """Octets came on a leg."""
        downstream = leg is self._client
        self._tally["client_bytes" if downstream else "broker_bytes"] += len(data)
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
            return self.closing.failed(leg, error)
        return []

    def lost(self, leg: Leg, reason: str, now: float) -> list[Effect]:
        """A leg's connection ended without our `Close`."""
        branch = self.search.branch(leg)
        if leg is self._client and not leg.closed:
            return self.sought(None, self.closing.vanished(reason, now))
        if leg.closed or branch is None:
            return []
        if branch.stage is Stage.BINDING:
            effects: list[Effect] = []
            why = f"connection closed before CONNECTED: {reason}"
            return self.sought(self.search.refused(leg, why, effects, now), effects)
        return self._broker_lost(branch, f"closed the connection: {reason}", [], now)

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come."""
        if now >= self.closing.until:
            for branch in self.closing.unanswered():
                branch.failed(now)
                return self._broker_lost(branch, "did not confirm in time what was said to it", [], now)
            return self.sought(None, self.closing.overdue(now))
        effects: list[Effect] = []
        legs = [each.leg for each in self.branches]
        dead = beaten([self._client, *legs] if self.closing.listening else legs, effects, now)
        if dead is not None:
            return [*effects, *self._silent(dead, now)]
        for branch in self.branches:
            if branch.stage is Stage.PARTING and now >= branch.until:
                return self._broker_lost(branch, "", effects, now)
        return self.sought(self.search.woke(effects, now), effects)

    def blocked(self, leg: Leg) -> None:
        """A broker's connection takes no more for now."""
        self._flow.blocked(leg)

    def unblocked(self, leg: Leg, now: float) -> list[Effect]:
        """It takes more again."""
        effects: list[Effect] = []
        if leg.closed:
            return effects
        goodbye = self._flow.goodbye
        failure = self._flow.unblocked(leg, effects, now)
        return self._carried(effects, goodbye, failure, self._client, now)

    # Brokers accept

    def _bound(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """A broker's first frame: the branch is bound, goes on searching, or its ERROR is the client's."""
        branch = self.search.branch(leg)
        assert branch is not None
        effects: list[Effect] = []
        asked = branch.asked
        match self.search.answered(branch, data, effects, now):
            case Bound() as bound:
                return self._welcomed(branch, bound, effects, now)
            case bytes() as error:
                effects.append(refused(asked, branch.upstream, "answered CONNECT with ERROR"))
                told = self._flow.denied(branch, error, effects, now)
                if told is None:
                    return self.sought(self.search.ended([branch], effects, now), effects)
                self._tally["errors_passed"] += 1
                if not self.closing.gone:
                    effects.append(Send(self._client, told))
                note = ended(End.BROKER, "a broker answered CONNECT with ERROR")
                return [*effects, *self.closing.closed(How.LINGER, note)]
        return self.sought(self.search.ended([branch], effects, now), effects)

    def _welcomed(self, branch: Branch, bound: Bound, effects: list[Effect], now: float) -> list[Effect]:
        """A branch has a broker. The client is answered when there are enough of them, and only once."""
        client, flow = self._client, self._flow
        assert branch.leg is not None
        first = self._welcome.awaited and flow.ready
        self._tally["failovers"] += branch.news is Event.RECOVERED
        at, resent, brokers = len(effects), self._tally["frames_resent"], (branch.broker, branch.before)
        if first:
            self._welcome.say(bound, effects, now, gone=self.closing.gone)
        failure = flow.bound(branch, effects, now)
        resent = self._tally["frames_resent"] - resent
        effects.insert(at, found(bound, *brokers, branch.upstream, resent))
        if failure is not None:
            return [*effects, *self.closing.failed(client, failure)]
        self.closing.found(now)
        if branch.broker is not None and branch.broker.health.paused:
            branch.leave(now, branch.upstream.drain_timeout, None)
        effects.append(Wake(self.deadline))
        if not self.closing.gone:
            effects += self._answered(branch.leg, now)
        if client.state is State.CONNECTED:
            effects += self._released(now)
        if first and not client.closed and not self.closing.gone and not self._hold.paused:
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
        goodbye = flow.goodbye
        failure = flow.to_broker(effects, now)
        opened = flow.opened()
        if opened:
            effects = self.sought(self.search.begin(opened, effects, now), effects)
            if self._client.closed:
                return effects
        return self._carried(effects, goodbye, failure, self._client, now)

    def _answered(self, leg: Leg, now: float) -> list[Effect]:
        """A broker's leg has frames for the client."""
        flow, branch = self._flow, self.search.branch(leg)
        if branch is None or leg.closed:
            return []
        effects: list[Effect] = []
        goodbye = flow.goodbye
        failure = flow.to_client(branch, effects, now)
        effects = self._carried(effects, goodbye, failure, leg, now)
        if branch.parted:
            return self._broker_lost(branch, "", effects, now)
        if self._hold:
            effects += self._released(now)
        return effects

    def _carried(
        self, effects: list[Effect], goodbye: Goodbye, failure: StompError | None, leg: Leg, now: float
    ) -> list[Effect]:
        """Frames passed from a leg; what follows from them."""
        flow = self._flow
        if flow.goodbye is not goodbye:
            self.closing.goodbye(now)
            effects.append(Wake(self.deadline))
        if failure is not None:
            effects += self.closing.failed(leg, failure)
        elif flow.erred and self._listener.upstream.close_on_error:
            effects += self.closing.closed(How.LINGER, ended(End.BROKER, "the broker sent ERROR"))
        elif self.closing.delivered:
            effects += self.closing.closed(How.FLUSH, ended(End.CLIENT, "what the client said is delivered"))
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
        self._tally["sessions_given_up"] += self._client.state is State.CONNECTED
        self._tally["possibly_lost"] += sum(branch.uncertain for branch in self.branches)
        return [*effects, *self.closing.failed(self._client, failure, End.BROKER)]

    def _broker_lost(self, branch: Branch, reason: str, effects: list[Effect], now: float) -> list[Effect]:
        """A broker went under a connected client, or was left."""
        flow = self._flow
        if flow.over(branch):
            self._tally["possibly_lost"] += branch.uncertain
            note = ended_with(branch.broker, branch.upstream, reason, settled=flow.settled)
            return [*effects, *self.closing.closed(How.LINGER, note)]
        self.search.lost(branch, reason, effects)
        goodbye = flow.goodbye
        failure = flow.lost(branch, effects, now)
        if failure is not None and self.closing.gone:
            effects.append(unheard(failure))
        elif failure is not None:
            self._tally["possibly_lost"] += branch.uncertain
            return [*effects, *self.closing.failed(self._client, failure, End.BROKER)]
        failure = self.search.again(branch, effects, now)
        self.closing.searching()
        effects = self.sought(failure, effects)
        return self._carried(effects, goodbye, None, self._client, now) if not self.over else effects

    def _silent(self, leg: Leg, now: float) -> list[Effect]:
        """A peer missed its beats."""
        self._tally["beats_missed"] += 1
        branch = self.search.branch(leg)
        if branch is not None:
            branch.failed(now)
            return self._broker_lost(branch, SILENT, [], now)
        error = StompError("heart-beat missed", "nothing came for longer than was agreed")
        return [fell_silent(), *self.closing.failed(leg, error, End.CLIENT)]

    @property
    def deadline(self) -> float:
        """When something is due."""
        deadline = min(self.closing.until, self.search.deadline)
        if self.closing.listening and beating(self._client):
            deadline = min(deadline, self._client.heartbeat.deadline)
        return deadline

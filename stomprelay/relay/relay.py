"""One client joined to its brokers.

`Relay.handle` takes what happens (`inputs`), `Relay.received` takes bytes. Both return the effects, which the service
must perform in order. `now` is in seconds of one clock that never goes back. No call for an input raises: if a bug
raises an exception, the relay ends the session (`Relay.failed`). Only whole frames are written.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from math import inf
from typing import Any, ClassVar, Final

from stomprelay.relay import inputs
from stomprelay.relay.client.opening import Let, Opening, join, spread, turn_away
from stomprelay.relay.client.shutdown import Shutdown
from stomprelay.relay.client.turns import Flow, InputBuffer, Pace, Turns
from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import (
    CROWDED,
    ERRED,
    EXPIRED,
    SILENT,
    STOPPING,
    TURN,
    Effect,
    End,
    Outbox,
    Pass,
    Reason,
    Report,
    Took,
    ended,
    failed,
    fault,
    found,
    give_error,
    give_receipts,
    not_renewed,
    unheard,
    with_loss,
)
from stomprelay.relay.guard import UNGUARDED, Guard, Renewal
from stomprelay.relay.link.link import (
    LOST,
    STRANGE,
    Accepted,
    Denied,
    DisconnectState,
    Ended,
    Handshake,
    Link,
    Waiting,
)
from stomprelay.relay.model.counters import CONNECT, SILENCE, Counters
from stomprelay.relay.model.group import BrokerTally
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.move import Move, Phase
from stomprelay.relay.model.rates import Limiter, TokenBucket
from stomprelay.relay.model.rules import ANYBODY, AccessRules, Ground, Identity, Refusal
from stomprelay.relay.resend.resender import NotAccepted
from stomprelay.relay.sample import Sample
from stomprelay.session.effects import Close, Event, Fact, How, Note, Send, Wake
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import BEAT, NO_BEATS, Leg, LegState, Side
from stomprelay.session.reasons import CLOSED
from stomprelay.session.refusal import complain
from stomprelay.session.session import Budget, Session
from stomprelay.session.subscriptions import Subscriptions
from stomprelay.wire.dialect import V1_0, demanding_utf8
from stomprelay.wire.errors import StompError
from stomprelay.wire.names import LOGIN

_SOMEBODY_ELSE: Final = Refusal(Ground.TOKEN, "it is of another user")
JUDGED: Final = 128
"""How many subscriptions are judged by new rules in one turn: a few milliseconds' work."""


@dataclass(slots=True, eq=False, repr=False)
class Relay:
    """Joins one client's leg with the legs of its brokers.

    `name` is unique. `client` is the client's leg. `chance` returns numbers from 0 up to 1. `passes`: the caller
    performs `Pass`. `counter` counts by destination. `identity`: `ANYBODY` until the client is identified. `limiter`:
    the listener's limits, which count the client by `address`. `opened_at`: when the client connected, in seconds;
    infinity before.
    """

    listener: Listener
    name: bytes
    counters: Counters
    _chance: Callable[[], float] = lambda: 0.0
    _: KW_ONLY
    passes: bool = False
    counter: DestinationCounter | None = None
    limiter: Limiter | None = None
    address: str | None = None
    client: Leg = field(init=False)
    identity: Identity = ANYBODY
    opened_at: float = inf
    _rules: AccessRules | None = field(init=False)
    _sample: Sample | None = None
    _outbox: Outbox = field(default_factory=Outbox)
    _connection: "ClientConnection | None" = None
    _opening: Opening | None = None
    _accepted: bool = False
    _wished: Listener | None = None

    def __post_init__(self) -> None:
        self.client = Leg(Side.DOWNSTREAM, self.listener.limits)
        self._rules = self.listener.rules

    @property
    def session(self) -> Session | None:
        """What the client has open; None until its CONNECT was read."""
        return None if self._connection is None else self._connection.session

    @property
    def login(self) -> bytes | None:
        """The client's user name. Without a user name: the login as it is written in CONNECT; None without a login."""
        if self.identity.user:
            return self.identity.user.encode()
        return None if self._connection is None else self._connection.login

    @property
    def links(self) -> list[Link]:
        """The session's links to groups of brokers."""
        return [] if self._connection is None else self._connection.flow.links

    @property
    def allowed(self) -> tuple[Pass, ...]:
        """What may pass without the relay now: the last `Pass` for each leg."""
        return () if self._connection is None else self._connection.turns.allowed

    @property
    def coupled(self) -> bool:
        """Whether each side is read only as fast as the other takes bytes. If not, report `Blocked` and `Unblocked`."""
        return self._connection is not None and self._connection.flow.coupled

    @property
    def held_by(self) -> TokenBucket | None:
        """The rate limit that keeps the relay from reading from the client; None if no limit does."""
        return None if self._connection is None else self._connection.turns.held_by

    def behind(self, listener: Listener) -> bool:
        """Whether the session may not have followed this listener's moves to their phases: then give it `Phased` from
        time to time.
        """
        flow = None if self._connection is None else self._connection.flow
        if flow is None:
            return False
        if flow.coupled:
            return flow.survives and any(move.phase is not Phase.OFF for move in listener.moves)
        return flow.router.behind or (flow.router.turns and listener is not self.listener)

    def standing(self, move: Move) -> tuple[bool, str] | None:
        """See `Router.standing`. None: the session does not follow the move, because it is older than its table."""
        flow = None if self._connection is None else self._connection.flow
        return None if flow is None or flow.coupled else flow.router.standing(move)

    @property
    def ending(self) -> bool:
        """Whether the relay ends the session. If so, read from the brokers even if the client accepts nothing."""
        return self._connection is not None and self._connection.shutdown.ending is not None

    @property
    def over(self) -> bool:
        """Whether nothing more will happen: the client's leg is closed, and no link has a broker or looks for one."""
        return self.client.closed and all(link.ended for link in self.links)

    @property
    def kept(self) -> int:
        """The bytes that are kept of the session now, including incomplete frames."""
        size = self.client.decoder.buffered
        if self._connection is not None:
            size += self._connection.session.kept.size
            for link in self._connection.flow.links:
                leg = link.state.leg
                if leg is not None:
                    size += leg.decoder.buffered
        return size

    @property
    def flows(self) -> bool:
        """Whether the next frames of the client go to its brokers without waiting."""
        connection = self._connection
        if connection is None or self.client.gone or connection.buffer.cost:
            return False
        return connection.turns.readable

    @property
    def pledged(self) -> bool:
        """Whether the relay keeps SENDs that it promised to deliver (with `confirm`)."""
        connection = self._connection
        if connection is None or not any(link.upstream.confirm for link in connection.flow.links):
            return False
        return connection.buffer.unread or not connection.flow.safe

    # Inputs

    def handle(self, event: inputs.Input, now: float) -> list[Effect]:
        """Give an input to the relay itself (`_own`), the client's `Opening`, or its session. Return the effects."""
        if isinstance(event, inputs.OnLeg) and event.leg.closed:
            return []
        owner = self._connection or self._opening
        try:
            own = self._own.get(type(event))
            if own is not None:
                own(self, event, now)
            elif owner is not None:
                act = owner.inputs.get(type(event))
                if act is not None:
                    act(owner, event, now)
            elif isinstance(event, inputs.BrokerConnected):
                self._outbox.put(Close(event.leg, How.ABORT))
            return self._ended()
        except Exception as bug:
            return self.failed(bug)

    def received(self, leg: Leg, data: bytes, now: float) -> list[Effect]:
        """Bytes were received on a leg (none: a part of what TLS decrypts later). Return the effects."""
        try:
            if self._connection is not None:
                self._connection.received(leg, data, now)
                if self._wished is not None and not self._connection.session.transactions:
                    self._wish_again(self._wished, now)
                if not self._accepted and self.client.state is LegState.CONNECTED:
                    self._accepted = True
                    self._outbox.put(Took(CONNECT, self.listener.name, now - self.opened_at))
                if self._sample is not None:
                    self._watch(self._sample, leg, data, now)
            elif self._opening is not None and not leg.closed:
                let = None
                try:
                    let = self._opening.received(data, now)
                except StompError as error:
                    self._opening.fail(error)
                if let is not None:
                    self._let_in(let, now)
            return self._ended()
        except Exception as bug:
            return self.failed(bug)

    def _ended(self) -> list[Effect]:
        """Set the next `Wake` and what may pass now; return the effects. Call this at the end of each input."""
        connection, outbox, client = self._connection, self._outbox, self.client
        if connection is not None:
            shutdown, turns, flow = connection.shutdown, connection.turns, connection.flow
            if connection.due:
                connection.due = False
                if not client.closed:
                    deadline = min(shutdown.deadline, turns.deadline)
                    for link in flow.links:
                        deadline = min(deadline, link.until)
                        if link.resender is not None:
                            deadline = min(deadline, link.resender.review_at)
                        for at in (link.state, link.following):
                            if at is not None and at.leg is not None and at.leg.state is LegState.CONNECTED:
                                deadline = min(deadline, at.leg.heartbeat.deadline)
                    outbox.insert(0, Wake(deadline))  # first: `Resume` may lead to a newer one
            passes = self.passes and self._sample is None
            if turns.allowed or (passes and client.state is LegState.CONNECTED):
                turns.let_pass(flow.passes() if passes and not shutdown.begun else [])
        effects = [*outbox]
        outbox.clear()
        return effects

    def passed(self, leg: Leg, to: Leg, frames: int, size: int, at: float) -> None:
        """Count `frames` frames of `leg` (`size` bytes) that a `Pass` sent to `to`, the last one at the time `at`."""
        if self._connection is not None:
            self._connection.passed(leg, to, frames, size, at)

    def _opened(self, event: inputs.Opened, now: float) -> None:
        self.counters["sessions_opened"] += 1
        self._outbox.legs = (self.client,)
        self._opening = Opening(self.client, self.listener, self.counters, self._outbox, now)
        self.opened_at = now
        self._outbox.put(Wake(self._opening.deadline))

    def _gave_way(self, event: inputs.GaveWay, now: float) -> None:
        if self._connection is not None:
            self._connection.gave_way(event, now)
            if self._sample is not None:
                self._watch(self._sample, event.leg, b"", now)

    def _identified(self, event: inputs.Identified, now: float) -> None:
        connection, identity = self._connection, event.identity
        if connection is None:
            let = None if self._opening is None else self._opening.identified(identity)
            if let is not None:
                self._let_in(let, now)
        elif connection.flow.guard.asked and identity.user != self.identity.user:
            connection.unknown(inputs.Unknown(_SOMEBODY_ELSE), now)
        elif connection.flow.guard.asked:
            self.identity = identity
            connection.renewed(identity, now)

    def _ruled(self, event: inputs.Ruled, now: float) -> None:
        if event.rules != self._rules:
            self._rules = event.rules
            if self._connection is not None:
                self._connection.ruled(event.rules, self.identity, now)

    def _phased(self, event: inputs.Phased, now: float) -> None:
        connection = self._connection
        if connection is None:
            return
        followed = connection.spread(event.listener, self._chance)
        if followed:
            self.listener, self._sample = event.listener, None
        self._wished = event.listener if connection.session.transactions and not followed else None
        connection.phased(now)

    def _wish_again(self, listener: Listener, now: float) -> None:
        """Follow moves at the end of a transaction: the client may begin the next one at once."""
        self._wished = None
        if self.behind(listener):
            self._phased(inputs.Phased(listener), now)

    def _limited(self, event: inputs.Limited, now: float) -> None:
        self.address = event.address
        if self._connection is not None:
            self._limit(self._connection, now)

    def _limit(self, connection: "ClientConnection", now: float) -> None:
        limiter = self.limiter
        buckets = () if limiter is None else limiter.buckets(now, self.address, self.identity.user)
        connection.limit(Pace(buckets) if buckets else None, now)

    # Samples

    @property
    def watched(self) -> bool:
        """Whether the session is watched for samples."""
        return self._sample is not None

    def _watched(self, event: inputs.Watched, now: float) -> None:
        connection, client = self._connection, self.client
        if connection is not None and client.state is LegState.CONNECTED and not client.decoder.buffered:
            limits, dialect = client.decoder.limits, connection.session.dialect
            self._sample = Sample(self.listener, connection.flow.links, dialect, limits, event.looks, now)

    def _looked(self, event: inputs.Looked, now: float) -> None:
        sample = self._sample
        if sample is not None and (sample.over(now) or self.client.state is not LegState.CONNECTED):
            self._outbox.put(*sample.given_up(now))
            self._sample = None

    def _watch(self, sample: Sample, leg: Leg, data: bytes, now: float) -> None:
        """Give the sample the received bytes, and the bytes that the client is sent in answer."""
        try:
            if leg is self.client and data:
                self._outbox.put(*sample.from_client(data, now))
            for sent in [*self._outbox]:
                if type(sent) is Send and sent.leg is self.client:
                    self._outbox.put(*sample.to_client(sent.data, now))
        except StompError:
            self._sample = None  # the code that reads the bytes reports the error
        if sample.over(now):
            self._sample = None

    def failed(self, error: Exception) -> list[Effect]:
        """End the session after a bug: send the client an ERROR, close all legs, keep nothing. Count the SENDs that
        brokers did not confirm. Return all effects, including the effects from before the bug.
        """
        outbox, connection, client = self._outbox, self._connection, self.client
        self.counters["faults"] += 1
        outbox.put(Report(error))
        self._connection = self._opening = None
        lost = 0
        if connection is not None:
            for end in (
                lambda: connection.shutdown.lose(connection.flow.links),
                *(link.end for link in connection.flow.links),
            ):
                try:
                    end()
                except Exception as another:
                    outbox.put(Report(another))
            lost = connection.shutdown.lost
        if not client.closed:
            bug = StompError("the relay failed", f"the session is over; connect again; {LOST}")
            dialect = V1_0 if connection is None else connection.session.dialect
            if not client.gone:
                self.counters["errors_sent"] += 1
                outbox.put(Send(client, complain(bug, dialect)))
            end_note = ended(End.RELAY, "the relay failed", quiet=False)
            outbox.put(failed(End.RELAY.value, bug), with_loss(end_note, lost))
        for leg in outbox.legs:
            if not leg.closed:
                leg.enter(LegState.CLOSED)
            outbox.put(Close(leg, How.LINGER))  # brokers still get what was sent
        outbox.put(Wake(inf))
        return self._ended()

    # Before the session starts

    def _let_in(self, let: Let, now: float) -> None:
        """Start the client's session, and handle what the client did while its identity was found out."""
        client, listener, opening = self.client, self.listener, self._opening
        self.identity = let.identity
        self._opening = None
        session = Session(
            self.name,
            let.dialect,
            listener.unacknowledged,
            self.counters,
            most_transactions=listener.transactions,
            subscriptions=Subscriptions(listener.subscriptions),
            kept=Budget(listener.budget),
            active_at=now,
            epoch=self.counters.epoch,
            client_id=let.offer.first(b"client-id") or b"",
        )
        renewal = None if listener.renew is None else Renewal(listener.renew, client, self._outbox)
        guard = UNGUARDED
        if self._rules is not None or renewal is not None:
            guard = Guard(self._rules, let.identity, self.counters, renewal)
        flow = join(client, listener, let.offer, session, self._outbox, self._chance, guard, self.counter)
        connection = self._connection = ClientConnection(
            client, listener, let.offer, session, flow, self._outbox
        )
        connection.shutdown.expires = let.identity.until
        self._limit(connection, now)
        connection.begin(now, paused=opening is not None and opening.paused)
        if opening is not None and opening.left is not None:
            connection.lost(inputs.Lost(client, opening.left), now)
        elif opening is not None and opening.half_closed:
            connection.half_closed(inputs.HalfClosed(), now)

    _own: ClassVar[dict[type[Any], Callable[[Any, Any, float], None]]] = {
        inputs.Opened: _opened,
        inputs.GaveWay: _gave_way,
        inputs.Identified: _identified,
        inputs.Ruled: _ruled,
        inputs.Phased: _phased,
        inputs.Limited: _limited,
        inputs.Watched: _watched,
        inputs.Looked: _looked,
    }
    """The inputs that the relay handles itself. Others go to the client's `Opening` or to its session."""


@dataclass(slots=True, eq=False, repr=False)
class ClientConnection:
    """A session from CONNECT on. Call `begin` first. `flow` carries the frames, and its `links` lead to the brokers.
    `shutdown` ends the session. `login`: the login in the client's CONNECT, or None. `due`: the time of the session's
    next `Wake` may have changed.
    """

    _client: Leg
    _listener: Listener
    _offer: Offer | None
    session: Session
    flow: Flow
    _outbox: Outbox
    due: bool = False
    login: bytes | None = field(init=False)
    turns: Turns = field(init=False)
    shutdown: Shutdown = field(init=False)
    buffer: InputBuffer = field(init=False)

    def __post_init__(self) -> None:
        client, listener, session, outbox = self._client, self._listener, self.session, self._outbox
        self.login = None if self._offer is None else self._offer.first(LOGIN)
        buffer = self.buffer = InputBuffer(client, outbox, session.kept.room(listener.upstream.resend_buffer))
        session.kept.watch(buffer)
        self.turns = Turns(client, self.flow, buffer, outbox)
        self.shutdown = Shutdown(client, listener, session, self.flow, buffer, outbox)

    def limit(self, pace: Pace | None, now: float) -> None:
        """Carry the client's frames at this pace from now on; None: without a limit."""
        if self.buffer.pace is not None:
            self.buffer.pace.leave()
        self.buffer.pace = pace
        if self._client.state is LegState.CONNECTED:
            self._release(now)
            self.buffer.paced(self.flow)

    # Inputs

    def begin(self, now: float, *, paused: bool) -> None:
        """Look for brokers while the client waits for CONNECTED. `paused`: reading from the client has stopped."""
        client, dialect = self._client, self.session.dialect
        client.enter(LegState.CONNECTING, demanding_utf8(dialect) if self._listener.require_utf8 else dialect)
        if paused:
            self.buffer.hold()
        self._begin(self.flow.links, now)

    def received(self, leg: Leg, data: bytes, now: float) -> None:
        """Bytes were received on a leg: carry the frames in them to the other side."""
        buffer, downstream = self.buffer, leg is self._client
        if downstream and (leg.gone or self.shutdown.ending):
            return
        self.session.counters["client_bytes" if downstream else "broker_bytes"] += len(data)
        leg.heartbeat.received_at = now
        if not data or (data == BEAT and not (leg.decoder.buffered or (downstream and buffer.cost))):
            return
        self.session.active_at = now
        try:
            match leg.state:
                case LegState.CONNECTED if downstream:
                    ready = leg not in self.turns.deferred and self.flow.flowing
                    if ready and buffer.pace is None and not buffer.cost:
                        self._to_broker(now, data)
                    else:
                        buffer.append(data)
                        if buffer.pace is None:
                            buffer.paced(self.flow)
                        else:
                            self._release(now)
                case LegState.CONNECTED | LegState.LEAVING if not downstream:
                    leg.decoder.feed(data)
                    if leg not in self.turns.deferred:
                        self._to_client(leg, now)
                case LegState.OPENING:
                    self._answered(leg, data, now)
                case LegState.CONNECTING:
                    leg.decoder.feed(data)
                    buffer.hold()
        except StompError as error:
            self._fail(leg, error, now)

    def passed(self, leg: Leg, to: Leg, frames: int, size: int, at: float) -> None:
        """Frames of `leg` were sent straight to `to`; see `Relay.passed`."""
        session, downstream = self.session, leg is self._client
        session.counters["client_bytes" if downstream else "broker_bytes"] += size
        link, _ = self._place(to if downstream else leg)
        connected = None if link is None or link.broker is None else link.connection
        if downstream:
            session.client_sent(frames)
            if connected is not None:
                connected.sent_frames += frames
        else:
            session.broker_sent(frames)
            if connected is not None:
                connected.received_frames += frames
        session.active_at = at
        leg.heartbeat.received_at = to.heartbeat.sent_at = at

    def gave_way(self, event: inputs.GaveWay, now: float) -> None:
        """Other sessions had their turn: carry the frames of this leg that still wait."""
        self.turns.deferred -= {event.leg}
        if event.leg is self._client:
            self._review(now)
            self._release(now)
        else:
            self._to_client(event.leg, now)

    def _paused(self, event: inputs.Paused, now: float) -> None:
        event.leg.heartbeat.reading = False

    def _resumed(self, event: inputs.Resumed, now: float) -> None:
        if event.leg.state is not LegState.LEAVING:
            event.leg.heartbeat.resumed(now)
        self.due = True

    def _connected(self, event: inputs.BrokerConnected, now: float) -> None:
        """Make the link send CONNECT. If no link needs the connection any more, close the connection."""
        leg = event.leg
        link, _ = self._place(leg)
        if leg.closed or link is None:
            self._outbox.put(Close(leg, How.ABORT))
        else:
            link.connected(leg, now, event.address)

    def _not_connected(self, event: inputs.NotConnected, now: float) -> None:
        """Make the link try the next broker."""
        link, arrives = self._place(event.leg)
        if link is not None and arrives:
            what = "did not connect" if event.tried else "could not be asked"
            self._stopped_short(link, f"{what}: {event.reason}", now)
        elif link is not None:
            (link.refused if event.tried else link.prevented)(event.reason, now)
            self._sought([link], now)

    def lost(self, event: inputs.Lost, now: float) -> None:
        """The connection of a leg ended. A lost client leaves its brokers; a lost broker is replaced."""
        leg, reason = event.leg, event.reason
        link, arrives = self._place(leg)
        if link is not None and arrives:
            self._stopped_short(link, f"closed the connection: {reason}", now)
        elif leg is self._client:
            if not leg.gone:
                self.shutdown.vanished(reason, now)
                self._hurry()
        elif link is not None and isinstance(link.state, Handshake):
            link.refused(f"connection closed before CONNECTED: {reason}", now)
            self._sought([link], now)
        elif link is not None:
            self.turns.deferred -= {leg}
            while leg.decoder.behind and not leg.closed:
                self._carry(leg, lambda: self.flow.to_client(link, now), now)
            leg.gone = True
            clean = reason == CLOSED
            if self.shutdown.answered_by_closing(link):
                self.shutdown.overdue(now, f"closed at DISCONNECT without its RECEIPT: {reason}")
            elif not leg.closed:
                self._broker_lost(link, f"closed the connection: {reason}", now, clean=clean)

    def half_closed(self, event: inputs.HalfClosed, now: float) -> None:
        """The client sends no more. If it is owed answers, it can still read them. Otherwise it counts as gone."""
        if self.shutdown.owing:
            self.shutdown.half_closed(now)
            self._finish(now)
        else:
            self.lost(inputs.Lost(self._client, CLOSED), now)

    def _finish(self, now: float) -> None:
        """Call `Shutdown.finish`, because the client half-closed its connection or the session ends."""
        self._carry(self._client, lambda: self.shutdown.finish(now), now)
        self._hurry()

    def _woke(self, event: inputs.Woke, now: float) -> None:
        if now >= self.shutdown.expires:
            self.end(EXPIRED, now)
            return
        if now >= self.shutdown.finish_at:
            self._finish(now)
        if now >= self.shutdown.until:
            self._overdue(now)
            return
        legs = [self._client] if self.shutdown.listening else []
        due: list[Link] = []
        for link in self.flow.links:
            legs += link.legs
            if now >= link.until:
                due.append(link)
        dead = self._outbox.beat(legs, now)
        if dead is not None:
            self._fell_silent(dead, now)
            return
        for link in due:
            if link.leaving:
                self._broker_lost(link, "", now)
                return
        for link in due:
            link.woke(now)
        self._sought(due, now)
        if due:
            self._waited(now)
        for link in [*self.flow.links]:
            if link.resender is not None and now >= link.resender.review_at:
                self._carry(link.state.leg or self._client, partial(self.flow.review, link, now), now)
                self._hurry()
        if now >= self.turns.deadline or (self._client.state is LegState.CONNECTED and self.buffer.unread):
            self._release(now)  # the pace allows more, or a link stays, and the client waited for this

    def _overdue(self, now: float) -> None:
        """Brokers did not answer in time what they were sent when the session was about to end."""
        for link in self.shutdown.unanswered():
            link.unconfirmed()
            self._broker_lost(link, "did not confirm in time what was said to it", now)
            return
        try:
            self.shutdown.overdue(now)
        except StompError as error:  # of a frame that waited until now
            self._fail(self._client, error, now)
        self.due = True

    def _leave(self, event: inputs.Leave, now: float) -> None:
        """Make the links to this broker move. If the client has already sent DISCONNECT, nothing changes."""
        for link in self.flow.links:
            if link.broker is event.broker and self.flow.disconnect is DisconnectState.NONE:
                link.leave(now, event.within, event.target, may_stay=event.may_stay)
        self._move(now)
        self.due = True

    def _reconsidered(self, event: inputs.Reconsidered, now: float) -> None:
        waiting = [link for link in self.flow.links if isinstance(link.state, Waiting)]
        for link in waiting:
            link.reconsidered(now)
        self._sought(waiting, now)

    def phased(self, now: float) -> None:
        """Follow moves, see `Phased`."""
        if self.shutdown.ending is None and not self._client.gone:
            self._waited(now)

    def spread(self, listener: Listener, chance: Callable[[], float]) -> bool:
        """Let the session follow the listener's moves, with another flow if it needs one, if that is possible now.
        Return whether it was.
        """
        flow, client = self.flow, self._client
        if client.state is not LegState.CONNECTED or self.shutdown.begun:
            return False
        if not flow.coupled:
            if listener is self._listener or not flow.router.turn_to(listener):
                return False
            self.session.kept.most = listener.budget
            self._listener = listener
            return True
        if not flow.parting:
            return False
        if listener.upstream.groups[0] is not flow.links[0].group or len(listener.upstream.groups) > 1:
            return False  # another configuration has other brokers
        self.session.kept.most = listener.budget
        self.flow = spread(flow, client, listener, self._outbox, chance)
        self.turns.follow(self.flow)
        self.shutdown.follow(self.flow)
        self._listener = listener
        return True

    def _stop_began(self, event: inputs.StopBegan, now: float) -> None:
        if not self._client.closed:
            self.shutdown.stop_began()
            self._carry(self._client, lambda: None, now)
            self.due = True

    def _stopped(self, event: inputs.Stopped, now: float) -> None:
        if not self._client.closed:
            self.shutdown.cut(STOPPING)

    def _killed(self, event: inputs.Killed, now: float) -> None:
        self.session.counters["sessions_crowded"] += event.why is CROWDED and not self._client.closed
        if not self.shutdown.begun:
            self.end(event.why, now)
        elif not self._client.closed:
            self.shutdown.cut(event.why)

    def end(self, why: Reason, now: float) -> None:
        """End the session in the normal way, see `Shutdown.end`. Nothing changes if the client's leg is closed."""
        if self._client.closed:
            return
        self._carry(self._client, lambda: self.shutdown.end(why, now), now)
        self._hurry()

    def _fail(self, leg: Leg, error: StompError, now: float, end: End | None = None) -> None:
        """End the session in the normal way with this ERROR, see `Shutdown.fail`."""
        self._carry(self._client, lambda: self.shutdown.fail(leg, error, now, end), now)
        self._hurry()

    def _blocked(self, event: inputs.Blocked, now: float) -> None:
        """The broker's connection accepts no bytes now: tell the flow, unless this is the next broker of a move."""
        if not self.flow.coupled and not self._place(event.leg)[1]:
            self.flow.blocked(event.leg)

    def _unblocked(self, event: inputs.Unblocked, now: float) -> None:
        flow = self.flow
        if not flow.coupled and not self._place(event.leg)[1]:
            self._carry(self._client, lambda: flow.unblocked(event.leg, now), now)

    def unknown(self, event: inputs.Unknown, now: float) -> None:
        """The new token is not valid, so it gets no receipt. The client may stay until the old token expires."""
        guard = self.flow.guard
        if guard.asked and not self._client.closed:
            turn_away(event.refusal, self.session.counters, self._outbox, not_renewed)
            guard.answered()

    # Brokers accept

    def _answered(self, leg: Leg, data: bytes, now: float) -> None:
        """A broker sent its first frame: it accepts the session, or another is asked, or the client gets its ERROR."""
        link, arrives = self._place(leg)
        if link is None:
            return
        if arrives:
            link.next_answered(data, now)
            self._left_at_once(now)
            return
        asked, answer = link.broker_at(leg), None
        try:
            answer = link.answered(data, now)
        except StompError as wrong:
            # Where there may be another broker, an answer that is not STOMP counts as no answer.
            if link.resender is None:
                raise
            link.refused(f"it answered CONNECT with what is not STOMP: {wrong.message}", now, STRANGE)
        match answer:
            case Accepted() as accepted:
                self._accepted(link, accepted, now)
                return
            case Denied() as error:
                self._outbox.put(fault(Event.REFUSED, asked, link.upstream, error.reason, detail=False))
                told = self.flow.denied(link, error, now)
                if told is not None:
                    self.session.counters["errors_passed"] += 1
                    if not self._client.gone and not self._client.closed:
                        self._outbox.put(Send(self._client, told))
                    self.shutdown.lose(self.flow.links)
                    end = ended(End.BROKER, "a broker answered CONNECT with ERROR")
                    self.shutdown.close(How.LINGER, end)
                    return
        self._sought([link], now)

    def _accepted(self, link: Link, accepted: Accepted, now: float) -> None:
        """A broker accepted the session of this link. Once enough links have a broker, answer the client's CONNECT."""
        client, flow, counters, outbox = self._client, self.flow, self.session.counters, self._outbox
        connection = link.connection
        leg, broker = connection.leg, connection.broker
        first = client.state is LegState.CONNECTING and flow.ready
        if link.recovering:  # a failover
            counters["failovers"] += 1
            outbox.put(Took(SILENCE, link.upstream.name, now - link.seeks_since))
            if link.before is not None:
                link.before.count(BrokerTally(failovers=1))
        at, resent, before = len(outbox), counters["frames_resent"], link.before
        if first:
            self._welcome(accepted, now)
        failure = None
        try:
            flow.connected(link, now)
        except StompError as error:
            failure = error
        version, again = accepted.accord.dialect.version, counters["frames_resent"] - resent
        outbox.insert(
            at, found(accepted.text, broker, before, link.upstream, version, accepted.product, again)
        )
        if failure is not None:
            self._fail(client, failure, now)
            return
        self._dismiss(now)
        self.shutdown.found(now)
        if broker.health.paused and flow.disconnect is DisconnectState.NONE:
            link.leave(now, link.upstream.drain_timeout, None)
        # True if there is more to do than to carry what the client sent in the meantime.
        more = (client.gone and not first) or connection.done or link.moving is not None or link.hasty
        if (not client.gone or connection.done) and (more or leg.decoder.behind):
            self._to_client(leg, now)
        elif not first and not client.gone:
            try:
                if self.turns.readable:
                    self.session.kept.check()
            except StompError as error:
                failure = error
            self._carried(client, flow.disconnect, failure, now)
        self._hurry()
        if client.state is LegState.CONNECTED and (more or self.buffer.unread):
            self._release(now)
        if first:
            if not client.gone:
                self.buffer.paced(self.flow)
            if self.shutdown.may_finish(now):
                self._finish(now)

    def _welcome(self, accepted: Accepted, now: float) -> None:
        """Send the client CONNECTED, with its version and our own heart-beats. `accepted` is from the newest broker."""
        client, session = self._client, self.session
        terms = None if self._offer is None else self._offer.terms
        self._offer = None  # links that may need another broker have it
        client.enter(LegState.CONNECTED)
        if self.buffer.pace is not None:
            self.buffer.pace.early = client.decoder.buffered
        client.heartbeat.agree(self._listener.heart_beat, terms or NO_BEATS, now)
        session.counters["sessions_connected"] += 1
        ours = terms and self._listener.heart_beat
        self._outbox.send(client, accepted.accord.connected(session.dialect, ours, session.name), now)

    # Frames

    def _to_broker(self, now: float, data: bytes = b"", most: int = TURN) -> int:
        """Carry at most `most` frames of the client: from its leg, then from `data`. Return how many were carried."""
        client, flow = self._client, self.flow
        before, failure, frames = flow.disconnect, None, self.session.client_frames
        try:
            if data:
                client.decoder.feed(data)
            flow.to_broker(now, most)
            if flow.survives:
                self.session.kept.check()
        except StompError as error:
            failure = error
        opened = None if flow.coupled else flow.opened()
        if opened:
            self._begin(opened, now)
        if not (opened and client.closed):
            self._carried(client, before, failure, now)
            if client.decoder.buffered and client.state is LegState.CONNECTED and client.decoder.behind:
                self.turns.give_way(client)
        return self.session.client_frames - frames

    def _to_client(self, leg: Leg, now: float) -> None:
        """Carry the frames that were read from a broker's leg to the client."""
        for link in self.flow.links:
            if link.state.leg is leg and leg.state is not LegState.CLOSED:
                break
        else:
            return
        before, failure = self.flow.disconnect, None
        try:
            self.flow.to_client(link, now)
        except StompError as error:
            failure = error
        self._carried(leg, before, failure, now)
        survives = self.flow.survives
        if survives and link.done:
            self._broker_lost(link, "", now)
            return
        if (leg.decoder.buffered and leg.decoder.behind) or (survives and link.hasty):
            self.turns.give_way(leg)
        if (survives or self.buffer.pace is not None) and self.buffer.unread:
            self._release(now)

    def _carry(self, leg: Leg, act: Callable[[], None], now: float) -> None:
        """Call `act`, which carries frames of the leg, and handle its error."""
        before, failure = self.flow.disconnect, None
        try:
            act()
        except StompError as error:
            failure = error
        self._carried(leg, before, failure, now)

    def _hurry(self) -> None:
        """Give a next turn to links that have more to send than this turn allows. Compute the next `Wake` anew."""
        for link in self.flow.links:
            if link.hasty and link.state.leg is not None:
                self.turns.give_way(link.state.leg)
        self.due = True

    def _carried(self, leg: Leg, before: DisconnectState, failure: StompError | None, now: float) -> None:
        """Frames of a leg were carried: handle the results, and `failure`. `before`: the state of DISCONNECT before."""
        flow, shutdown, client = self.flow, self.shutdown, self._client
        if flow.survives:
            self._dismiss(now)
            for link in flow.links:
                resender = link.resender
                if resender is not None and resender.review_at == inf and resender.watches(now):
                    self.due = True
        ending = shutdown.ending
        if failure is not None:
            shutdown.fail(leg, failure, now)
        elif flow.erred and self._listener.upstream.close_on_error and not shutdown.ending:
            shutdown.end(ERRED, now)
        elif shutdown.stopping and shutdown.drained:
            shutdown.end(STOPPING, now)
        if flow.disconnect is not before:
            shutdown.disconnecting(now)
            self.due = True
        if shutdown.ending is not ending:
            self.due = True  # the time of the end has begun
        if (shutdown.ending or client.gone) and shutdown.delivered:
            shutdown.conclude()
        elif flow.survives and not shutdown.ending:
            if self._move(now):
                self.due = True
            self.buffer.paced(self.flow)
        if (shutdown.ending or shutdown.finish_at < inf) and shutdown.may_finish(now):
            self._finish(now)

    def _dismiss(self, now: float) -> None:
        """Fail the session because of frames after which brokers close the connection; it goes on without a SEND that
        is not accepted. This is only for upstreams with one group. With several groups, `Quorum` does it.
        """
        for link in self.flow.links:
            if link.resender is not None and link.resender.refused_frames and len(link.upstream.groups) == 1:
                for error in link.take_refused():
                    goes_on = isinstance(error, NotAccepted) and not link.upstream.close_on_error
                    if goes_on and not self.shutdown.ending:
                        self._pass_over(link, error, now)
                    else:
                        self.shutdown.fail(self._client, error, now, rest=True)
                    self._hurry()

    def _pass_over(self, link: Link, error: StompError, now: float) -> None:
        """Send the client an ERROR about a SEND that is not accepted. The session goes on."""
        if error.receipt is not None:
            self.flow.passed_over(link, error.receipt)
        give_error(error, self._client, link.session, self._outbox, now)

    def _release(self, now: float) -> None:
        """Carry what the client sent while no frames could be carried to its brokers."""
        try:
            self.turns.release(self._to_broker, now)
        except StompError as error:
            self._fail(self._client, error, now)
        if self._client.state is not LegState.CONNECTED:
            self.buffer.clear()
        elif self.buffer.pace is not None:
            self.buffer.paced(self.flow)
            self.due = True
        elif self.flow.survives:
            self.buffer.paced(self.flow)

    # Brokers come and go

    def _place(self, leg: Leg) -> tuple[Link | None, bool]:
        """Return the link of this leg, or None; and whether the leg leads to the next broker of a move."""
        for link in self.flow.links:
            if link.state.leg is leg:
                return link, False
            if link.following is not None and link.following.leg is leg:
                return link, True
        return None, False

    def _begin(self, links: list[Link], now: float) -> None:
        """Look for brokers for these links."""
        for link in links:
            link.seek(now)
        self._sought(links, now)

    def _sought(self, links: list[Link], now: float, *, lost: bool = False) -> None:
        """Handle what the search of these links has found so far. End the session if a needed link has no broker left
        to try. `lost`: a broker was lost before the search.
        """
        failure = None
        try:
            for link in links:
                if isinstance(link.state, Ended):
                    self.flow.given_up(link, now)
        except StompError as error:
            failure = error
        if lost:
            self.shutdown.searching()
        if failure is None and not self.flow.coupled and (opened := self.flow.opened()):
            self._begin(opened, now)  # what NEW was to get goes to OLD
        if failure is None:
            self.due = True
            return
        self.session.counters["sessions_given_up"] += self._client.state is LegState.CONNECTED
        self._broker_failed(failure, [link for link in self.flow.links if link.ended], now)

    def _move(self, now: float) -> bool:
        """Send DISCONNECT to the brokers that links have to leave and can leave now. Return whether there are any."""
        moves = False
        for link in self.flow.links:
            if link.moving is not None and link.departing and link.leaves(now):
                link.disconnect(now)
                moves = True
        return moves

    def _broker_failed(self, error: StompError, links: list[Link], now: float) -> None:
        """End the session with this error, whose cause is the brokers of these links."""
        self.shutdown.lose(links)
        for link in links:
            link.end()
        self._fail(self._client, error, now, End.BROKER)

    def _broker_lost(self, link: Link, reason: str, now: float, *, clean: bool = False) -> None:
        """A broker was lost or left while a client was connected. `clean`: the connection was closed normally."""
        flow = self.flow
        if flow.over(link):
            self.shutdown.ended_with(link, reason, clean=clean)
            return
        link.lost(reason)
        before = flow.disconnect
        if self.shutdown.ending:
            self.shutdown.lost += link.unproved  # which `Flow.lost` counts
        try:
            flow.lost(link, now)
        except StompError as error:
            if not self._client.gone:
                self._broker_failed(error, [link], now)
                return
            self._outbox.put(unheard(error))

        seeks = not isinstance(link.state, Ended)  # `Flow.lost` may have ended it: nothing is missed there
        accepted = link.go_on(now) if seeks else None
        self._sought([link] * seeks, now, lost=True)
        if accepted is not None:
            self._accepted(link, accepted, now)
        if not self._client.closed:
            self._carried(self._client, before, None, now)

    def _stopped_short(self, link: Link, reason: str, now: float) -> None:
        """The next broker of a move did not accept. The link asks another one, or stays with its broker."""
        link.next_refused(reason, now)
        self._left_at_once(now)

    def _left_at_once(self, now: float) -> None:
        """Move the links that can move now. If a link keeps its broker, carry what the client sent in the meantime."""
        self._move(now)
        self.due = True
        self._waited(now)
        if self._client.state is LegState.CONNECTED:
            self._release(now)

    def _waited(self, now: float) -> None:
        """Send what waited for single brokers, because a link may stay with its broker."""
        if not self.flow.coupled and self._client.state is LegState.CONNECTED:
            self._to_broker(now, most=0)

    def _fell_silent(self, leg: Leg, now: float) -> None:
        """A peer sent nothing for longer than the heart-beats allow: treat the leg as lost."""
        self.session.counters["beats_missed"] += 1
        link, arrives = self._place(leg)
        if link is not None and arrives:
            self._stopped_short(link, SILENT, now)
            return
        if link is not None:
            link.fell_silent(now)
            self._broker_lost(link, SILENT, now)
            return
        facts: dict[str, Fact] = {"side": End.CLIENT.value, "beats": 1}
        self._outbox.put(Note(Event.LOST, "client fell silent", facts, detail=True))
        missed = StompError("heart-beat missed", "nothing came for longer than was agreed")
        self._fail(leg, missed, now, End.CLIENT)

    # New rules, and new tokens of the client

    def renewed(self, identity: Identity, now: float) -> None:
        """Let the session last until the client's new, valid token expires, and use the groups of this token."""
        client, guard = self._client, self.flow.guard
        if client.gone or client.closed:
            return
        self.shutdown.expires = identity.until
        self.due = True
        changed = guard.renewed(identity)
        receipt = guard.answered()
        give_receipts([] if receipt is None else [receipt], client, self._outbox, now)
        if changed:
            self._doubt(now)

    def ruled(self, rules: AccessRules | None, identity: Identity, now: float) -> None:
        """Use these rules from now on."""
        guard = self.flow.guard
        if guard is UNGUARDED and rules is not None:
            guard = Guard(rules, identity, self.session.counters)
        elif guard is not UNGUARDED:
            guard.ruled(rules)
        self.flow.guarded(guard)
        self._doubt(now)

    def _doubt(self, now: float) -> None:
        """Judge all subscriptions again by the rules."""
        flow = self.flow
        if flow.guard is not UNGUARDED:
            flow.guard.doubt([each for link in flow.links for each in link.session.subscriptions])
            self._review(now)

    def _review(self, now: float) -> None:
        """Judge more of the doubted subscriptions. If one is not allowed, end the session."""
        guard, client = self.flow.guard, self._client
        if guard.doubts is None or client.closed or self.shutdown.begun:
            return
        error = guard.objection(JUDGED)
        if error is None:
            if self.flow.guard.doubts is not None or client.decoder.behind:
                self.turns.give_way(client)
            return
        text = f"the rules were changed: {error.detail}"
        self.end(Reason("a subscription is no longer allowed", error.detail, text, error.quoted), now)

    inputs: ClassVar[dict[type[Any], Callable[[Any, Any, float], None]]] = {
        inputs.BrokerConnected: _connected,
        inputs.NotConnected: _not_connected,
        inputs.Lost: lost,
        inputs.HalfClosed: half_closed,
        inputs.GaveWay: gave_way,
        inputs.Paused: _paused,
        inputs.Resumed: _resumed,
        inputs.Blocked: _blocked,
        inputs.Unblocked: _unblocked,
        inputs.Woke: _woke,
        inputs.Unknown: unknown,
        inputs.StopBegan: _stop_began,
        inputs.Stopped: _stopped,
        inputs.Killed: _killed,
        inputs.Leave: _leave,
        inputs.Reconsidered: _reconsidered,
    }
    """What the session does for each input."""

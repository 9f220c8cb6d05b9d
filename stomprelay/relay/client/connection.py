"""A client that sent CONNECT, joined to its brokers: what is received on any leg, and what is due by time."""

from collections.abc import Callable
from math import inf
from typing import Final

from stomprelay.relay.client.shutdown import ERRED, STOPPING, Reason, Shutdown
from stomprelay.relay.client.turns import InputBuffer, Pace, Turns
from stomprelay.relay.effects import Outbox, Took
from stomprelay.relay.flow import DisconnectState, Flow
from stomprelay.relay.forward import TURN, give_receipts
from stomprelay.relay.guard import UNGUARDED, Guard
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link
from stomprelay.relay.link.suspicion import STRANGE
from stomprelay.relay.model.access import Identity
from stomprelay.relay.model.group import Broker, BrokerTally
from stomprelay.relay.model.histogram import SILENCE
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.rules import AccessRules
from stomprelay.relay.notes import SILENT, End, denied, ended, fell_silent, unheard
from stomprelay.session.effects import Close, How, Wake
from stomprelay.session.handshake import Offer
from stomprelay.session.heartbeat import BEAT, NO_BEATS
from stomprelay.session.leg import Leg, State
from stomprelay.session.reasons import CLOSED
from stomprelay.session.session import Session
from stomprelay.wire.dialect import demanding_utf8
from stomprelay.wire.errors import StompError
from stomprelay.wire.names import LOGIN

JUDGED: Final = 128
"""How many subscriptions are judged by new rules in one turn: a few milliseconds' work."""


class ClientConnection:
    """The inputs of a `Relay` from CONNECT on; see there. Call `begin` first, and `settle` at the end of each input.

    Its `flow` carries the frames, each link of it sees to its own broker, `Shutdown` to the end, and this one decides
    what the loss of either side means. `login`: the client's, or None.
    """

    __slots__ = (
        "_buffer",
        "_client",
        "_due",
        "_listener",
        "_offer",
        "_outbox",
        "flow",
        "login",
        "session",
        "shutdown",
        "turns",
    )

    def __init__(
        self, client: Leg, listener: Listener, offer: Offer, session: Session, flow: Flow, outbox: Outbox
    ) -> None:
        self.session = session
        self._client = client
        self._listener = listener
        self._offer: Offer | None = offer
        self.login = offer.first(LOGIN)
        self._outbox = outbox
        self._due = False
        self.flow = flow
        self._buffer = InputBuffer(client, outbox, session.kept.room(listener.upstream.resend_buffer))
        session.kept.watch(self._buffer)
        self.turns = Turns(client, flow, self._buffer, outbox)
        self.shutdown = Shutdown(client, listener, session, flow, self._buffer, outbox)

    @property
    def over(self) -> bool:
        """Whether the client's leg is closed, and no link has a broker or looks for one."""
        return self._client.closed and all(link.ended for link in self.flow.links)

    @property
    def deadline(self) -> float:
        """The time at which `woke` must be called next, in seconds; infinity for never."""
        deadline = min(self.shutdown.deadline, self.turns.deadline)
        for link in self.flow.links:
            deadline = min(deadline, link.until)
            for leg in (link.state.leg, link.next_leg):
                if leg is not None and leg.state is State.CONNECTED:
                    deadline = min(deadline, leg.heartbeat.deadline)
        return deadline

    @property
    def flows(self) -> bool:
        """Whether what the client sends next goes on to its brokers."""
        return not (self._client.gone or self._buffer.cost) and self.turns.readable

    @property
    def safe(self) -> bool:
        """Whether all that the client sent is where it shall be."""
        return not self._buffer.unread and self.flow.safe

    def limit(self, pace: Pace | None, now: float) -> None:
        """Have the client's frames go on at this pace from now on; None: as fast as can be."""
        self._buffer.limit(pace)
        if self._client.state is State.CONNECTED:
            self._release(now)
            self._buffer.paced(self.flow)

    # Inputs

    def begin(self, now: float, *, paused: bool) -> None:
        """Look for brokers while the client waits for CONNECTED. `paused`: it is not read from already."""
        client, dialect = self._client, self.session.dialect
        client.enter(State.CONNECTING, demanding_utf8(dialect) if self._listener.require_utf8 else dialect)
        if paused:
            self._buffer.hold()
        self._begin(self.flow.links, now)

    def received(self, leg: Leg, data: bytes, now: float) -> None:
        """Bytes were received on a leg: carry the frames in them to the other side."""
        buffer, downstream = self._buffer, leg is self._client
        if downstream and (leg.gone or self.shutdown.ending):
            return
        self.session.counters["client_bytes" if downstream else "broker_bytes"] += len(data)
        leg.heartbeat.received_at = now
        if data == BEAT and not (leg.decoder.buffered or (downstream and buffer.cost)):
            return
        self.session.active_at = now
        try:
            match leg.state:
                case State.CONNECTED if downstream:
                    ready = leg not in self.turns.deferred and self.flow.flowing
                    if ready and buffer.pace is None and not buffer.cost:
                        self._to_broker(now, data)
                    else:
                        self._wait(data, now)
                case State.CONNECTED | State.LEAVING if not downstream:
                    leg.decoder.feed(data)
                    if leg not in self.turns.deferred:
                        self._to_client(leg, now)
                case State.OPENING:
                    self._answered(leg, data, now)
                case State.CONNECTING:
                    leg.decoder.feed(data)
                    buffer.hold()
        except StompError as error:
            self._fail(leg, error, now)

    def passed(self, leg: Leg, to: Leg, frames: int, size: int, at: float) -> None:
        """Frames of a leg were sent straight on to the leg `to`; see `Relay.passed`."""
        session, downstream = self.session, leg is self._client
        session.counters["client_bytes" if downstream else "broker_bytes"] += size
        link = self._link(to if downstream else leg)
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

    def gave_way(self, leg: Leg, now: float) -> None:
        """Others had their turn: go on with what waits on the leg."""
        self.turns.had(leg)
        if leg is self._client:
            self._review(now)
            self._release(now)
        else:
            self._to_client(leg, now)

    def connected(self, leg: Leg, now: float, address: str | None = None) -> None:
        """The connection that an `Open` asked for is established: its link sends CONNECT. One that no link needs any
        more is closed.
        """
        link = self._link(leg) or self._arriving(leg)
        if leg.closed or link is None:
            self._outbox.put(Close(leg, How.ABORT))
        else:
            link.connected(leg, now, address)

    def refused(self, leg: Leg, reason: str, now: float) -> None:
        """The connection that an `Open` asked for failed: try the next broker."""
        arriving, link = self._arriving(leg), self._link(leg)
        if arriving is not None:
            self._stopped_short(arriving, f"did not connect: {reason}", now)
        elif link is not None and not leg.closed:
            link.refused(reason, now)
            self._sought([link], now)

    def prevented(self, leg: Leg, reason: str, now: float) -> None:
        """The connection that an `Open` asked for could not be tried: try the next broker."""
        arriving, link = self._arriving(leg), self._link(leg)
        if arriving is not None:
            self._stopped_short(arriving, f"could not be asked: {reason}", now)
        elif link is not None and not leg.closed:
            link.prevented(reason, now)
            self._sought([link], now)

    def lost(self, leg: Leg, reason: str, now: float) -> None:
        """A leg's connection ended without our `Close`."""
        link, arriving = self._link(leg), self._arriving(leg)
        if arriving is not None:
            self._stopped_short(arriving, f"closed the connection: {reason}", now)
            return
        if leg is self._client and not (leg.closed or leg.gone):
            self.shutdown.vanished(reason, now)
            self._hurry()
        elif leg.closed or link is None:
            return
        elif link.asking:
            self.refused(leg, f"connection closed before CONNECTED: {reason}", now)
        else:
            self.turns.had(leg)
            while leg.decoder.behind and not leg.closed:
                self._carry(leg, lambda: self.flow.to_client(link, now), now)
            leg.lost()
            clean = reason == CLOSED
            if self.shutdown.answered_by_closing(link):
                self.shutdown.overdue(now, f"closed at DISCONNECT without its RECEIPT: {reason}")
            elif not leg.closed:
                self._broker_lost(link, f"closed the connection: {reason}", now, clean=clean)

    def half_closed(self, now: float) -> None:
        """The client sends nothing more; see `Relay.half_closed`."""
        self.shutdown.half_closed(now)
        self._finish(now)

    def _finish(self, now: float) -> None:
        """See to a client that half-closed its connection: see `Shutdown.finish`."""
        self._carry(self._client, lambda: self.shutdown.finish(now), now)
        self._hurry()

    def woke(self, now: float) -> None:
        """The time of the last `Wake` has come."""
        if now >= self.shutdown.finish_at:
            self._finish(now)
        if now >= self.shutdown.until:
            for link in self.shutdown.unanswered():
                link.unconfirmed()
                self._broker_lost(link, "did not confirm in time what was said to it", now)
                return
            try:
                self.shutdown.overdue(now)
            except StompError as error:  # of a frame that waited until now
                self._fail(self._client, error, now)
            self._wake()
            return
        links = self.flow.links
        legs = [leg for each in links for leg in (each.leg, each.next_leg)]
        dead = self._outbox.beat([self._client, *legs] if self.shutdown.listening else legs, now)
        if dead is not None:
            self._fell_silent(dead, now)
            return
        for link in links:
            if link.leaving and now >= link.until:
                self._broker_lost(link, "", now)
                return
        due = [link for link in links if now >= link.until]
        for link in due:
            link.woke(now)
        self._sought(due, now)
        if now >= self.turns.deadline or (self._client.state is State.CONNECTED and self._buffer.unread):
            self._release(now)  # its pace allows more, or a link stays, for which the client was held

    def leave(self, broker: Broker, now: float, within: float, to: Broker | None, *, may_stay: bool) -> None:
        """Have the session leave this broker, or perhaps stay: see `Relay.leave`. Does nothing once the client sent
        DISCONNECT.
        """
        for link in self.flow.links:
            if link.broker is broker and self.flow.disconnect is DisconnectState.NONE:
                link.leave(now, within, to, may_stay=may_stay)
        self._move(now)
        self._wake()

    def reconsidered(self, now: float) -> None:
        """A broker is up again, or was resumed: links that wait try at once."""
        waiting = [link for link in self.flow.links if link.waiting]
        for link in waiting:
            link.reconsidered(now)
        self._sought(waiting, now)

    def stop_began(self, now: float) -> None:
        """The service begins to stop; see `Relay.stop_began`."""
        self.shutdown.stop_began()
        self._carry(self._client, lambda: None, now)
        self._wake()

    def end(self, why: Reason, now: float) -> None:
        """End the session in good order: see `Shutdown.end`."""
        self._carry(self._client, lambda: self.shutdown.end(why, now), now)
        self._hurry()

    def _fail(self, leg: Leg, error: StompError, now: float, end: End | None = None) -> None:
        """End the session in good order with this ERROR: see `Shutdown.fail`."""
        self._carry(self._client, lambda: self.shutdown.fail(leg, error, now, end), now)
        self._hurry()

    def blocked(self, leg: Leg) -> None:
        """A broker's connection cannot be written to for now; one that is only asked yet gets nothing more anyway."""
        if self._arriving(leg) is None:
            self.flow.blocked(leg)

    def unblocked(self, leg: Leg, now: float) -> None:
        """A broker's connection can be written to again: send what waits."""
        if self._arriving(leg) is None:
            self._carry(self._client, lambda: self.flow.unblocked(leg, now), now)

    def settle(self, *, passes: bool) -> None:
        """Ask to be woken when something is due; with `passes`, that what may pass straight on does so, and no more."""
        if self._due:
            self._due = False
            if not self.over:
                self._outbox.insert(0, Wake(self.deadline))  # first: `Resume` may lead to a newer one
        turns = self.turns
        if turns.allowed or (passes and self._client.state is State.CONNECTED):
            turns.let_pass(self.flow.passes() if passes and not self.shutdown.begun else [])

    # Brokers accept

    def _answered(self, leg: Leg, data: bytes, now: float) -> None:
        """A broker's first frame: the session is accepted, the search goes on, or its ERROR is the client's."""
        arriving = self._arriving(leg)
        if arriving is not None:
            arriving.next_answered(data, now)
            self._left_at_once(now)
            return
        link = self._link(leg)
        if link is None:
            return
        asked, answer = link.asked, None
        try:
            answer = link.answered(data, now)
        except StompError as wrong:
            # What is not STOMP is as good as no answer where there may be another broker.
            if link.resender is None:
                raise
            link.refused(f"it answered CONNECT with what is not STOMP: {wrong.message}", now, STRANGE)
        match answer:
            case Accepted() as accepted:
                self._accepted(link, accepted, now)
                return
            case bytes() as error:
                self._outbox.put(denied(asked, link.upstream))
                told = self.flow.denied(link, error, now)
                if told is not None:
                    self.session.counters["errors_passed"] += 1
                    self.shutdown.refuse(told, ended(End.BROKER, "a broker answered CONNECT with ERROR"))
                    return
        self._sought([link], now)

    def _accepted(self, link: Link, accepted: Accepted, now: float) -> None:
        """A link has a broker. The client is answered when there are enough of them, and only once."""
        client, flow, counters, outbox = self._client, self.flow, self.session.counters, self._outbox
        connection = link.connection
        leg, broker = connection.leg, connection.broker
        first = client.state is State.CONNECTING and flow.ready
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
        outbox.insert(at, accepted.note(broker, before, link.upstream, counters["frames_resent"] - resent))
        if failure is not None:
            self._fail(client, failure, now)
            return
        self._dismiss(now)
        self.shutdown.found(now)
        if broker.health.paused and flow.disconnect is DisconnectState.NONE:
            link.leave(now, link.upstream.drain_timeout, None)
        more = not first or link.done or link.moving  # than to carry what came meanwhile
        if (not client.gone or link.done) and (more or leg.decoder.behind):
            self._to_client(leg, now)
        self._hurry()
        if client.state is State.CONNECTED and (more or self._buffer.unread):
            self._release(now)
        if first and not client.gone:
            self._buffer.paced(self.flow)
        if self.shutdown.may_finish(now):
            self._finish(now)

    def _welcome(self, accepted: Accepted, now: float) -> None:
        """Answer the client's CONNECT, with its version and our own heart-beats; `accepted` is from the last broker."""
        client, session = self._client, self.session
        terms = None if self._offer is None else self._offer.terms
        self._offer = None  # links that may need another broker have it
        client.enter(State.CONNECTED)
        if self._buffer.pace is not None:
            self._buffer.pace.came_early(client.decoder.buffered)
        client.heartbeat.agree(self._listener.heart_beat, terms or NO_BEATS, now)
        session.counters["sessions_connected"] += 1
        ours = terms and self._listener.heart_beat
        self._outbox.send(client, accepted.accord.connected(session.dialect, ours, session.name), now)

    # Frames

    def _wait(self, data: bytes, now: float) -> None:
        """Keep bytes of the client that cannot go on now."""
        self._buffer.append(data)
        if self._buffer.pace is None:
            self._buffer.paced(self.flow)
        else:
            self._release(now)

    def _to_broker(self, now: float, data: bytes = b"", most: int = TURN) -> int:
        """Carry a turn's worth of the client's frames, `most` at most: those that were read from its leg, with `data`
        behind them. Return how many they were.
        """
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
            if client.state is State.CONNECTED and client.decoder.behind:
                self.turns.give_way(client)
        return self.session.client_frames - frames

    def _to_client(self, leg: Leg, now: float) -> None:
        """Carry the frames that were read from a broker's leg to the client."""
        link = self._link(leg)
        if link is None or leg.state is State.CLOSED:
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
        if leg.decoder.behind or (survives and link.hasty):
            self.turns.give_way(leg)
        if (survives or self._buffer.pace is not None) and self._buffer.unread:
            self._release(now)

    def _carry(self, leg: Leg, act: Callable[[], None], now: float) -> None:
        """Call `act`, by which frames of the leg pass."""
        before, failure = self.flow.disconnect, None
        try:
            act()
        except StompError as error:
            failure = error
        self._carried(leg, before, failure, now)

    def _hurry(self) -> None:
        """Go on in the next turn with what brokers have to know, where it was too much for this one, or at its time."""
        for link in self.flow.links:
            if link.hasty and link.leg is not None:
                self.turns.give_way(link.leg)
        self._wake()

    def _carried(self, leg: Leg, before: DisconnectState, failure: StompError | None, now: float) -> None:
        """Frames passed from a leg, and perhaps a failure after them; `before`: how far DISCONNECT was until then."""
        flow, shutdown, client = self.flow, self.shutdown, self._client
        if flow.survives:
            self._dismiss(now)
        if failure is not None:
            shutdown.fail(leg, failure, now)
        elif flow.erred and self._listener.upstream.close_on_error and not shutdown.ending:
            shutdown.end(ERRED, now)
        elif shutdown.stopping and shutdown.drained:
            shutdown.end(STOPPING, now)
        if flow.disconnect is not before:
            shutdown.disconnecting(now)
            self._wake()
        if (shutdown.ending or client.gone) and shutdown.delivered:
            shutdown.conclude()
        elif flow.survives and not shutdown.ending:
            if self._move(now):
                self._wake()
            self._buffer.paced(self.flow)
        if (shutdown.ending or shutdown.finish_at < inf) and shutdown.may_finish(now):
            self._finish(now)

    def _dismiss(self, now: float) -> None:
        """Refuse to the client what brokers close connections for."""
        for error in self.flow.take_refused():
            self.shutdown.fail(self._client, error, now, rest=True)
            self._hurry()

    def _release(self, now: float) -> None:
        """Carry what the client sent while it had no broker to the brokers that it has now."""
        try:
            self.turns.release(self._to_broker, now)
        except StompError as error:
            self._fail(self._client, error, now)
        if self._client.state is not State.CONNECTED:
            self._buffer.clear()
        elif self._buffer.pace is not None:
            self._buffer.paced(self.flow)
            self._wake()
        elif self.flow.survives:
            self._buffer.paced(self.flow)

    # Brokers come and go

    def _link(self, leg: Leg) -> Link | None:
        """Return the link that has this leg; None where there is none."""
        for link in self.flow.links:
            if link.state.leg is leg:
                return link
        return None

    def _arriving(self, leg: Leg) -> Link | None:
        """Return the link that has this leg to the broker that it is to move to; None where there is none."""
        for link in self.flow.links:
            if link.next_leg is leg:
                return link
        return None

    def _begin(self, links: list[Link], now: float) -> None:
        """Look for brokers for these."""
        for link in links:
            link.seek(now)
        self._sought(links, now)

    def _sought(self, links: list[Link], now: float, *, lost: bool = False) -> None:
        """These looked for brokers, having `lost` theirs or for another reason. Some may have found none for good: end
        the session where it cannot do without.
        """
        failure = None
        try:
            for link in links:
                if link.ended:
                    self.flow.given_up(link, now)
        except StompError as error:
            failure = error
        if lost:
            self.shutdown.searching()
        if failure is None:
            self._wake()
            return
        self.session.counters["sessions_given_up"] += self._client.state is State.CONNECTED
        self._broker_failed(failure, [link for link in self.flow.links if link.ended], now)

    def _move(self, now: float) -> bool:
        """Links that are to leave their broker do so at a quiet moment, which may be now. Returns whether one does,
        which has its time to answer from now on.
        """
        moves = False
        for link in self.flow.links:
            if link.departing and link.leaves(now):
                link.disconnect(now)
                moves = True
        return moves

    def _wake(self) -> None:
        """Have the next time at which something is due asked for at the end of the input."""
        self._due = True

    def _broker_failed(self, error: StompError, links: list[Link], now: float) -> None:
        """The session cannot go on, because of what became of the brokers of these links."""
        self.shutdown.lose(links)
        for link in links:
            link.end()
        self._fail(self._client, error, now, End.BROKER)

    def _broker_lost(self, link: Link, reason: str, now: float, *, clean: bool = False) -> None:
        """A broker was lost while a client was connected, or was left. `clean`: it closed in good order."""
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

        found = link.move(now) if link.leaving else link.go_on(How.ABORT, now)
        self._sought([link], now, lost=True)
        if found is not None:
            self._accepted(link, found, now)
        if not self.over:
            self._carried(self._client, before, None, now)

    def _stopped_short(self, link: Link, reason: str, now: float) -> None:
        """The broker that a link was to move to cannot be had, or was lost: it asks the next one, or stays."""
        link.next_refused(reason, now)
        self._left_at_once(now)

    def _left_at_once(self, now: float) -> None:
        """Links that can leave now do so; a client that was held for one that stays goes on."""
        self._move(now)
        self._wake()
        if self._client.state is State.CONNECTED:
            self._release(now)

    def _fell_silent(self, leg: Leg, now: float) -> None:
        """A peer sent nothing for longer than the heart-beats allow: the leg is lost."""
        self.session.counters["beats_missed"] += 1
        arriving = self._arriving(leg)
        if arriving is not None:
            self._stopped_short(arriving, SILENT, now)
            return
        link = self._link(leg)
        if link is not None:
            link.fell_silent(now)
            self._broker_lost(link, SILENT, now)
            return
        self._outbox.put(fell_silent())
        missed = StompError("heart-beat missed", "nothing came for longer than was agreed")
        self._fail(leg, missed, now, End.CLIENT)

    # Its rules change, or it shows a new token

    def renewed(self, identity: Identity, now: float) -> None:
        """The client has shown a new token: it may stay until that expires, with the groups of that."""
        client, guard = self._client, self.flow.guard
        if client.gone or client.closed:
            return
        self.shutdown.expires = identity.until
        self._wake()
        changed = guard.renewed(identity)
        receipt = guard.answered()
        give_receipts([] if receipt is None else [receipt], client, self._outbox, now)
        if changed:
            self._doubt(now)

    def ruled(self, rules: AccessRules | None, identity: Identity, now: float) -> None:
        """These are the rules from now on."""
        flow = self.flow
        if flow.guard is UNGUARDED and rules is not None:
            flow.guard = Guard(rules, identity, self.session.counters)
        elif flow.guard is not UNGUARDED:
            flow.guard.ruled(rules)
        self._doubt(now)

    def _doubt(self, now: float) -> None:
        """Have all subscriptions judged again."""
        flow = self.flow
        if flow.guard is not UNGUARDED:
            flow.guard.doubt([each for link in flow.links for each in link.session.subscriptions])
            self._review(now)

    def _review(self, now: float) -> None:
        """Judge more of the subscriptions that may not be allowed any more. End the session where one is not, unless it
        is about to end.
        """
        guard, client = self.flow.guard, self._client
        if not guard.doubts or client.closed or self.shutdown.begun:
            return
        error = guard.objection(JUDGED)
        if error is None:
            if self.flow.guard.doubts or client.decoder.behind:
                self.turns.give_way(client)
            return
        text = f"the rules were changed: {error.detail}"
        self.end(Reason("a subscription is no longer allowed", error.detail, text, error.quoted), now)

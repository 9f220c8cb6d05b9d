"""A client that sent CONNECT, joined to its brokers: what is received on any leg, and what is due by time."""

from collections.abc import Callable

from stomprelay.relay.client.buffer import InputBuffer
from stomprelay.relay.client.pace import Pace
from stomprelay.relay.client.review import Review
from stomprelay.relay.client.search import Search
from stomprelay.relay.client.shutdown import ERRED, STOPPING, Reason, Shutdown
from stomprelay.relay.client.turns import Turns
from stomprelay.relay.effects import Outbox
from stomprelay.relay.flow import DisconnectState, Flow
from stomprelay.relay.forward import TURN
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.notes import SILENT, End, denied, ended, fell_silent, unheard
from stomprelay.session.effects import Wake
from stomprelay.session.handshake import Offer
from stomprelay.session.heartbeat import BEAT, NO_BEATS
from stomprelay.session.leg import Leg, State
from stomprelay.session.reasons import CLOSED
from stomprelay.session.session import Session
from stomprelay.wire.dialect import demanding_utf8
from stomprelay.wire.errors import StompError
from stomprelay.wire.names import LOGIN


class ClientConnection:
    """The inputs of a `Relay` from CONNECT on; see there. Call `begin` first, and `settle` at the end of each input.

    Its `Flow` carries the frames, each link of it sees to its own broker, `Shutdown` to the end, and this one decides
    what the loss of either side means. `login`: the client's, or None.
    """

    __slots__ = (
        "_buffer",
        "_client",
        "_due",
        "_flow",
        "_listener",
        "_offer",
        "_outbox",
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
        self._flow = flow
        self._buffer = InputBuffer(client, outbox, session.kept.room(listener.upstream.resend_buffer))
        session.kept.watch(self._buffer)
        self.turns = Turns(client, flow, self._buffer, outbox)
        self.shutdown = Shutdown(client, listener, session, flow, self._buffer, outbox)

    @property
    def _search(self) -> Search:
        return Search(self._flow, self._outbox)

    def review(self, now: float) -> Review:
        """Return what is done when its rules change."""
        flow, shutdown, outbox = self._flow, self.shutdown, self._outbox
        return Review(
            self._client, flow, shutdown, self.turns, outbox, self._wake, lambda why: self.end(why, now)
        )

    @property
    def asked(self) -> bool:
        """Whether the client has shown a token, and it is not known yet whose it is."""
        return self._flow.guard.asked

    @property
    def links(self) -> list[Link]:
        """The session's links to groups of brokers."""
        return self._flow.links

    @property
    def coupled(self) -> bool:
        """Whether there is one broker at a time, so that it sets the client's pace."""
        return self._flow.coupled

    @property
    def over(self) -> bool:
        """Whether the client's leg is closed, and no link has a broker or looks for one."""
        return self._client.closed and all(link.ended for link in self.links)

    @property
    def deadline(self) -> float:
        """The time at which `woke` must be called next, in seconds; infinity for never."""
        return min(self.shutdown.deadline, self._search.deadline, self.turns.deadline)

    @property
    def kept(self) -> int:
        """The bytes that are kept of the session, those of frames that brokers have begun among them."""
        legs = [link.leg.decoder.buffered for link in self.links if link.leg is not None]
        return self.session.kept.size + sum(legs)

    @property
    def flows(self) -> bool:
        """Whether what the client sends next goes on to its brokers."""
        return not (self._client.gone or self._buffer) and self.turns.readable

    @property
    def safe(self) -> bool:
        """Whether all that the client sent is where it shall be."""
        return not self._buffer.unread and self._flow.safe

    def limit(self, pace: Pace | None, now: float) -> None:
        """Have the client's frames go on at this pace from now on; None: as fast as can be."""
        self._buffer.limit(pace)
        if self._client.state is State.CONNECTED:
            self._release(now)
            self._pace()

    # Inputs

    def begin(self, now: float, *, paused: bool) -> None:
        """Look for brokers while the client waits for CONNECTED. `paused`: it is not read from already."""
        client, dialect = self._client, self.session.dialect
        client.enter(State.CONNECTING, demanding_utf8(dialect) if self._listener.require_utf8 else dialect)
        if paused:
            self._buffer.hold()
        self._seek(now, lambda: self._search.begin(self.links, now))

    def received(self, leg: Leg, data: bytes, now: float) -> None:
        """Bytes were received on a leg: carry the frames in them to the other side."""
        downstream = leg is self._client
        if downstream and (leg.gone or self.shutdown.ending):
            return
        self.session.counters["client_bytes" if downstream else "broker_bytes"] += len(data)
        leg.heartbeat.received(now)
        if data == BEAT and not (leg.decoder.buffered or (downstream and self._buffer)):
            return
        self.session.active_at = now
        try:
            match leg.state:
                case State.CONNECTED if downstream:
                    self._from_client(data, now)
                case State.CONNECTED | State.LEAVING if not downstream:
                    leg.decoder.feed(data)
                    if not self.turns.awaits(leg):
                        self._to_client(leg, now)
                case State.OPENING:
                    self._answered(leg, data, now)
                case State.CONNECTING:
                    leg.decoder.feed(data)
                    self._buffer.hold()
        except StompError as error:
            self._fail(leg, error, now)

    def passed(self, leg: Leg, to: Leg, frames: int, size: int, at: float) -> None:
        """Frames of a leg were sent straight on to the leg `to`; see `Relay.passed`."""
        session, downstream = self.session, leg is self._client
        session.counters["client_bytes" if downstream else "broker_bytes"] += size
        link = self._search.link(to if downstream else leg)
        sent = session.client_sent if downstream else session.broker_sent
        sent(frames)
        if link is not None and link.broker is not None:
            link.connection.count(frames, sent=downstream)
        session.active_at = at
        leg.heartbeat.received(at)
        to.heartbeat.sent(at)

    def gave_way(self, leg: Leg, now: float) -> None:
        """Others had their turn: go on with what waits on the leg."""
        self.turns.had(leg)
        if leg is self._client:
            self.review(now).go_on()
            self._release(now)
        else:
            self._to_client(leg, now)

    def connected(self, leg: Leg, now: float, address: str | None = None) -> None:
        """The connection that an `Open` asked for is established: send CONNECT to the broker."""
        self._search.connected(leg, now, address)

    def refused(self, leg: Leg, reason: str, now: float) -> None:
        """The connection that an `Open` asked for failed: try the next broker."""
        arriving = self._search.arriving(leg)
        if arriving is not None:
            self._stopped_short(arriving, leg, f"did not connect: {reason}", now)
            return
        self._seek(now, lambda: self._search.refused(leg, reason, now))

    def prevented(self, leg: Leg, reason: str, now: float) -> None:
        """The connection that an `Open` asked for could not be tried: try the next broker."""
        arriving = self._search.arriving(leg)
        if arriving is not None:
            self._stopped_short(arriving, leg, f"could not be asked: {reason}", now)
            return
        self._seek(now, lambda: self._search.prevented(leg, reason, now))

    def lost(self, leg: Leg, reason: str, now: float) -> None:
        """A leg's connection ended without our `Close`."""
        link, arriving = self._search.link(leg), self._search.arriving(leg)
        if arriving is not None:
            self._stopped_short(arriving, leg, f"closed the connection: {reason}", now)
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
                self._carry(leg, lambda: self._flow.to_client(link, now), now)
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
        legs = [leg for each in self.links for leg in (each.leg, each.next_leg)]
        dead = self._outbox.beat([self._client, *legs] if self.shutdown.listening else legs, now)
        if dead is not None:
            self._fell_silent(dead, now)
            return
        for link in self.links:
            if link.leaving and now >= link.until:
                self._broker_lost(link, "", now)
                return
        self._seek(now, lambda: self._search.woke(now))
        if now >= self.turns.deadline or (self._client.state is State.CONNECTED and self._buffer.unread):
            self._release(now)  # its pace allows more, or a link stays, for which the client was held

    def leave(self, broker: Broker, now: float, within: float, to: Broker | None, *, may_stay: bool) -> None:
        """Have the session leave this broker, or perhaps stay: see `Relay.leave`."""
        self._search.leave(broker, now, within, to, may_stay=may_stay)
        self._wake()

    def reconsidered(self, now: float) -> None:
        """A broker is up again, or was resumed: links that wait try at once."""
        self._seek(now, lambda: self._search.reconsidered(now))

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
        if self._search.arriving(leg) is None:
            self._flow.blocked(leg)

    def unblocked(self, leg: Leg, now: float) -> None:
        """A broker's connection can be written to again: send what waits."""
        if self._search.arriving(leg) is None:
            self._carry(self._client, lambda: self._flow.unblocked(leg, now), now)

    def settle(self, *, passes: bool) -> None:
        """Ask to be woken when something is due; with `passes`, that what may pass straight on does so, and no more."""
        if self._due:
            self._due = False
            if not self.over:
                self._outbox.insert(0, Wake(self.deadline))  # first: `Resume` may lead to a newer one
        turns = self.turns
        if turns.allowed or (passes and self._client.state is State.CONNECTED):
            turns.let_pass(self._flow.passes() if passes and not self.shutdown.begun else [])

    # Brokers accept

    def _answered(self, leg: Leg, data: bytes, now: float) -> None:
        """A broker's first frame: the session is accepted, the search goes on, or its ERROR is the client's."""
        arriving = self._search.arriving(leg)
        if arriving is not None:
            arriving.next_answered(data, now)
            self._left_at_once(now)
            return
        link = self._search.link(leg)
        if link is None:
            return
        asked = link.asked
        match self._search.answered(link, data, now):
            case Accepted() as accepted:
                self._accepted(link, accepted, now)
                return
            case bytes() as error:
                self._outbox.put(denied(asked, link.upstream))
                told = self._flow.denied(link, error, now)
                if told is not None:
                    self.session.counters["errors_passed"] += 1
                    self.shutdown.refuse(told, ended(End.BROKER, "a broker answered CONNECT with ERROR"))
                    return
        self._seek(now, lambda: self._search.ended([link], now))

    def _accepted(self, link: Link, accepted: Accepted, now: float) -> None:
        """A link has a broker. The client is answered when there are enough of them, and only once."""
        client, flow, counters, outbox = self._client, self._flow, self.session.counters, self._outbox
        leg, broker = link.connection.leg, link.connection.broker
        first = client.state is State.CONNECTING and flow.ready
        self._search.found(link, now)
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
            self._pace()
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

    def _from_client(self, data: bytes, now: float) -> None:
        """Read bytes of the client; while there is no broker keep them."""
        if self._buffer.pace is None and not self._buffer and self.turns.readable:
            self._to_broker(now, data)
            return
        self._buffer.append(data)
        if self._buffer.pace is None:
            self._pace()
        else:
            self._release(now)

    def _to_broker(self, now: float, data: bytes = b"", most: int = TURN) -> int:
        """Carry a turn's worth of the client's frames, `most` at most: those that were read from its leg, with `data`
        behind them. Return how many they were.
        """
        client, flow = self._client, self._flow
        before, failure, frames = flow.disconnect, None, self.session.client_frames
        try:
            if data:
                client.decoder.feed(data)
            flow.to_broker(now, most)
            if flow.survives:
                self.session.kept.check()
        except StompError as error:
            failure = error
        opened = flow.opened()
        if opened:
            self._seek(now, lambda: self._search.begin(opened, now))
        if not (opened and client.closed):
            self._carried(client, before, failure, now)
            if client.state is State.CONNECTED:
                self.turns.give_way(client)
        return self.session.client_frames - frames

    def _to_client(self, leg: Leg, now: float) -> None:
        """Carry the frames that were read from a broker's leg to the client."""
        link = self._search.link(leg)
        if link is None or leg.closed:
            return
        self._carry(leg, lambda: self._flow.to_client(link, now), now)
        if link.done:
            self._broker_lost(link, "", now)
            return
        self.turns.give_way(leg, more=link.hasty)
        if self._buffer.unread:
            self._release(now)

    def _carry(self, leg: Leg, act: Callable[[], None], now: float) -> None:
        """Call `act`, by which frames of the leg pass."""
        before, failure = self._flow.disconnect, None
        try:
            act()
        except StompError as error:
            failure = error
        self._carried(leg, before, failure, now)

    def _hurry(self) -> None:
        """Go on in the next turn with what brokers have to know, where it was too much for this one, or at its time."""
        for link in self.links:
            if link.hasty and link.leg is not None:
                self.turns.give_way(link.leg, more=True)
        self._wake()

    def _carried(self, leg: Leg, before: DisconnectState, failure: StompError | None, now: float) -> None:
        """Frames passed from a leg, and perhaps a failure after them; `before`: how far DISCONNECT was until then."""
        flow, shutdown = self._flow, self.shutdown
        self._dismiss(now)
        if failure is not None:
            shutdown.fail(leg, failure, now)
        elif flow.erred and self._listener.upstream.close_on_error and not shutdown.ending:
            shutdown.end(ERRED, now)
        elif shutdown.drained:
            shutdown.end(STOPPING, now)
        if flow.disconnect is not before:
            shutdown.disconnecting(now)
            self._wake()
        if shutdown.delivered:
            shutdown.conclude()
        elif flow.survives and not shutdown.ending:
            if self._search.move(now):
                self._wake()
            self._pace()
        if shutdown.may_finish(now):
            self._finish(now)

    def _dismiss(self, now: float) -> None:
        """Refuse to the client what brokers close connections for."""
        for error in self._flow.take_refused():
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
            self._pace()
            self._wake()
        elif self._flow.survives:
            self._pace()

    def _pace(self) -> None:
        """Stop or resume reading from the client, by how much of what it sent waits."""
        if not self._client.closed:
            self._buffer.paced(full=self._flow.full, crowded=self._flow.crowded)

    # Brokers come and go

    def _seek(self, now: float, act: Callable[[], None]) -> None:
        """Call `act`, which looks for brokers. End the session where it raises `StompError`."""
        try:
            act()
        except StompError as error:
            self.session.counters["sessions_given_up"] += self._client.state is State.CONNECTED
            self._broker_failed(error, [link for link in self.links if link.ended], now)
        else:
            self._wake()

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
        flow = self._flow
        if flow.over(link):
            self.shutdown.ended_with(link, reason, clean=clean)
            return
        self._search.lost(link, reason)
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

        found: Accepted | None = None

        def again() -> None:
            nonlocal found
            try:
                found = self._search.again(link, now)
            finally:
                self.shutdown.searching()

        self._seek(now, again)
        if found is not None:
            self._accepted(link, found, now)
        if not self.over:
            self._carried(self._client, before, None, now)

    def _stopped_short(self, link: Link, leg: Leg, reason: str, now: float) -> None:
        """The broker that a link was to move to cannot be had, or was lost: it asks the next one, or stays."""
        link.next_refused(reason, now)
        self._left_at_once(now)

    def _left_at_once(self, now: float) -> None:
        """Links that can leave now do so; a client that was held for one that stays goes on."""
        self._search.move(now)
        self._wake()
        if self._client.state is State.CONNECTED:
            self._release(now)

    def _fell_silent(self, leg: Leg, now: float) -> None:
        """A peer sent nothing for longer than the heart-beats allow: the leg is lost."""
        self.session.counters["beats_missed"] += 1
        arriving = self._search.arriving(leg)
        if arriving is not None:
            self._stopped_short(arriving, leg, SILENT, now)
            return
        link = self._search.link(leg)
        if link is not None:
            link.fell_silent(now)
            self._broker_lost(link, SILENT, now)
            return
        self._outbox.put(fell_silent())
        missed = StompError("heart-beat missed", "nothing came for longer than was agreed")
        self._fail(leg, missed, now, End.CLIENT)

"""A session's link to one group of brokers: the broker that it has, or the search for one."""

from collections.abc import Callable
from math import inf

from stomprelay.relay.effects import Outbox
from stomprelay.relay.link.handshake import Accepted, Handshake
from stomprelay.relay.link.schedule import Schedule
from stomprelay.relay.link.states import Asking, Attempts, Connected, Ended, Leaving, Waiting
from stomprelay.relay.link.suspicion import CLOSED, STRANGE
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.notes import left, moved, refused, vain
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.effects import Close, How, Resume
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg, State
from stomprelay.session.session import Session
from stomprelay.wire.names import CONNECTED, DISCONNECT, RECEIPT_HEADER


class Link:
    """One session in one group. `session` is what is sent to the brokers of this group.

    `seek` begins the search; then call the method for what happens: `connected`, `answered`, `refused`, `lost`,
    `woke`, the last one at `until`. There is a `resender` where the session survives its broker, and where it has
    other links beside this one (`resends`). `before` is the broker that it had before; `recovering`: this one was
    lost, so that the next one is a failover. `seeks_since`: when it began to look for the one that it has or will have.
    """

    __slots__ = (
        "_attempts",
        "_chance",
        "_fresh",
        "_listener",
        "_outbox",
        "before",
        "group",
        "recovering",
        "resender",
        "seeks_since",
        "session",
        "state",
        "until",
        "upstream",
    )

    def __init__(
        self,
        listener: Listener,
        upstream: Upstream,
        group: Group,
        offer: Offer,
        session: Session,
        outbox: Outbox,
        chance: Callable[[], float],
        *,
        resends: bool = False,
    ) -> None:
        self.upstream = upstream
        self.group = group
        self.session = session
        self.state: Waiting | Asking | Connected | Ended = Waiting()
        self.before: Broker | None = None
        self.recovering, self._fresh = False, True
        self.seeks_since = 0.0
        self.until = inf
        self.resender: Resender | None = None
        if resends or upstream.movable:
            self.resender = Resender(
                session, outbox, listener.limits, most=upstream.resend_buffer, confirm=upstream.confirm
            )
        self._listener = listener
        self._outbox = outbox
        self._chance = chance
        self._attempts: Attempts | None = Attempts(offer, Schedule(group, upstream.reconnect_rate, chance))

    # What there is

    @property
    def up(self) -> bool:
        """Whether it has a broker that it is not leaving."""
        return type(self.state) is Connected

    @property
    def waiting(self) -> bool:
        """Whether it waits for the time of its next attempt."""
        return isinstance(self.state, Waiting)

    @property
    def asking(self) -> bool:
        """Whether a broker was asked for CONNECTED and has not answered."""
        return isinstance(self.state, Asking)

    @property
    def leaving(self) -> bool:
        """Whether its broker was sent DISCONNECT because the session moves."""
        return isinstance(self.state, Leaving)

    @property
    def ended(self) -> bool:
        """Whether it has no broker and looks for none."""
        return isinstance(self.state, Ended)

    @property
    def moving(self) -> bool:
        """Whether it is to leave its broker at a quiet moment."""
        return isinstance(self.state, Connected) and self.state.moving

    @property
    def may_stay(self) -> bool:
        """Whether it is to leave its broker at a quiet moment only, and stays where there is none in time."""
        return self.moving and self.connection.may_stay

    @property
    def done(self) -> bool:
        """Whether its broker is to be left at once."""
        return isinstance(self.state, Connected) and self.state.done

    @property
    def fresh(self) -> bool:
        """Whether no broker accepted the session yet."""
        return self._fresh

    @property
    def connection(self) -> Connected:
        """The broker that it has, with its leg and the bridges to it. Raises `LookupError` while there is none."""
        if not isinstance(self.state, Connected):
            raise LookupError("there is no broker")
        return self.state

    @property
    def leg(self) -> Leg | None:
        """The leg to the broker that it has, or asks."""
        state = self.state
        if type(state) is Connected or isinstance(state, (Connected, Ended)):
            return state.leg
        return state.handshake.leg if isinstance(state, Asking) else None

    @property
    def broker(self) -> Broker | None:
        """The broker that it has."""
        return self.state.broker if isinstance(self.state, Connected) else None

    @property
    def dropped_by(self) -> Broker | None:
        """The broker that it has, where the connection can have ended only by that broker's will or death; None where
        the session leaves it.
        """
        state = self.state
        return state.broker if type(state) is Connected and not (state.done or state.silent) else None

    @property
    def asked(self) -> Broker | None:
        """The broker that is asked for CONNECTED now."""
        return self.state.handshake.broker if isinstance(self.state, Asking) else None

    @property
    def reason(self) -> str:
        """Why no broker could be had, in words that a client may read."""
        return self.state.reason if isinstance(self.state, Ended) else ""

    @property
    def unwelcome(self) -> bool:
        """Whether no broker could be had because of what the client said in CONNECT."""
        return isinstance(self.state, Ended) and self.state.unwelcome

    @property
    def quiet(self) -> bool:
        """Whether its broker could be left without a loss: nothing is open, unacknowledged or unconfirmed."""
        return self.up and self.resender is not None and self.resender.quiet

    @property
    def uncertain(self) -> int:
        """How many SENDs may be lost if the session ended now."""
        if self.resender is None:
            return len(self.session.receipts)
        return self.resender.unconfirmed.sends + self.resender.unconfirmed.unproved

    # The search

    @property
    def _search(self) -> Attempts:
        """What leads from attempt to attempt; a link without a resender that had its broker has none."""
        assert self._attempts is not None
        return self._attempts

    def seek(self, now: float, prefer: Broker | None = None) -> None:
        """Look for a broker, first of all for this one where one is preferred."""
        self.seeks_since = now
        if self._attempts is None:
            self.state = Ended()
        else:
            self._attempts.schedule.begin(now, start=self._fresh, prefer=prefer)
            self._next(now)

    def _next(self, now: float, rest: float = 0.0) -> None:
        attempt = self._search.schedule.next(now)
        if attempt is None:
            self._give_up(now)
            return
        at = max(attempt.at, now + rest)
        if self._search.schedule.vain:
            self._outbox.put(vain(self.group, self.upstream, self._search.schedule.passes))
        if self.asking:
            self.hang_up(How.ABORT)
        self.state = Waiting(attempt.broker)
        self.until = min(at, self._search.schedule.deadline)
        if at <= now:
            self._open(attempt.broker, now)

    def _give_up(self, now: float) -> None:
        reason = self._search.schedule.verdict(now)
        self._search.schedule.ended()
        self.state = Ended(reason, self.leg)
        self.until = inf

    def _open(self, broker: Broker | None, now: float) -> None:
        """Open a connection to `broker`: the time of the attempt has come. Plan the next attempt where there is
        none, or where it is not worth a try any more.
        """
        if self._search.suspicion.proved:
            self._reject()
            return
        if broker is None or not self._search.schedule.stands(now):
            self._next(now)
            return
        handshake = Handshake(
            self._listener,
            self.upstream,
            broker,
            self._search.offer,
            self.session,
            self._outbox,
            tracked=self.resender is not None,
        )
        self._ask(handshake, now)

    def _ask(self, handshake: Handshake, now: float) -> None:
        deadline = now + self.upstream.connect_timeout
        self.state = Asking(handshake, deadline, handshake.broker.health.sight())
        self.until = min(deadline, self._search.schedule.deadline)
        handshake.open()

    def connected(self, leg: Leg, now: float, address: str | None = None) -> None:
        """The connection that was asked for is there, for a client at this IP address."""
        if isinstance(self.state, Asking) and self.state.handshake.leg is leg:
            self.state.told = True
            self._outbox.send(leg, self.state.handshake.connect(address), now)
        else:
            self._outbox.put(Close(leg, How.ABORT))

    def answered(self, data: bytes, now: float) -> Accepted | bytes | None:
        """The broker that is asked sent something. Returns what it accepted the session with, or the ERROR frame that
        is the client's; None while the search goes on.

        Raises `StompError` for what is not STOMP.
        """
        if not isinstance(self.state, Asking):
            return None
        handshake = self.state.handshake
        decoder = handshake.leg.decoder
        decoder.feed(data)
        for frame in decoder.frames():
            if frame.command is CONNECTED:
                accepted = handshake.accepted(frame, now)
                self._accepted(handshake, accepted, now)
                return accepted
            if handshake.retry(frame):
                self._ask(handshake, now)
                return None
            if self.upstream.movable and self.upstream.profile.unavailable(frame):
                self.refused("it answered CONNECT with an ERROR: unavailable", now, STRANGE)
                return None
            self._undecided(self.state)
            return frame.wire
        return None

    def _accepted(self, handshake: Handshake, accepted: Accepted, now: float) -> None:
        leg, broker, bridges = handshake.leg, handshake.broker, accepted.bridges
        self.state = Connected(leg, broker, bridges, accepted.product)
        self.until = inf
        self._fresh = False
        self._search.suspicion.cleared()
        broker.health.answered()
        self.state.place = broker.health.joined()
        self._search.schedule.found(now)
        if self.resender is None:
            self._attempts = None
        else:
            product = accepted.product
            self.resender.connected(
                leg,
                bridges.to_broker,
                broker,
                cumulative=product.cumulative,
                commits_early=product.commits_early,
            )

    def refused(self, reason: str, now: float, fault: str = CLOSED) -> None:
        """The broker that is asked cannot be reached, or did not take CONNECT: the next one. `fault` is what a client
        is told whose CONNECT is the cause.
        """
        state = self.state
        if not isinstance(state, Asking):
            return
        broker = state.handshake.broker
        if not state.told:
            self._fail(broker, now)
        elif self.upstream.movable:
            broker.health.doubt(state.sight)
            if self._fresh:
                self._search.suspicion.turned_away(broker, state.sight, fault)
        elif not broker.health.sessions and not broker.health.answered_since(state.sight):
            self._fail(broker, now)  # nobody probes a plain address
        self._refused(broker, reason, now)

    def _silent(self, state: Asking, now: float) -> None:
        """The broker that is asked did not answer in time: the next one. That counts, unless it answered others."""
        broker = state.handshake.broker
        if not broker.health.answered_since(state.sight):
            self._fail(broker, now)
        self._refused(broker, "no CONNECTED in time", now)

    def _undecided(self, state: Asking) -> None:
        """The attempt is over, and shows nothing: where the others wait for what it finds, a probe has to find it."""
        health = state.handshake.broker.health
        if health.up is False:
            health.doubt(state.sight)

    def _fail(self, broker: Broker, now: float) -> None:
        broker.speaks(None)  # when it comes back it may be another one
        broker.health.failed(self.upstream.checks, now, self._chance)

    def _refused(self, broker: Broker, reason: str, now: float) -> None:
        self.session.counters["brokers_refused"] += 1
        self._outbox.put(refused(broker, self.upstream, f"did not connect: {reason}"))
        if self.resender is not None:
            self.hang_up(How.ABORT)
        if self._search.suspicion.proved:
            self._reject()
        else:
            self._next(now, self._search.suspicion.rest)

    def _reject(self) -> None:
        """Give the session up, because of what its client said in CONNECT."""
        self._search.schedule.ended()
        self.session.counters["connects_rejected"] += 1
        self.state = Ended(self._search.suspicion.fault, self.leg, unwelcome=True)
        self.until = inf

    def prevented(self, reason: str, now: float) -> None:
        """The broker could not be asked, for a reason that lies with this process: the next one. It says nothing about
        the broker's health.
        """
        broker = self.asked
        if broker is None:
            return
        self.session.counters["connects_prevented"] += 1
        self._outbox.put(refused(broker, self.upstream, f"could not be asked: {reason}"))
        if self.resender is not None:
            self.hang_up(How.ABORT)
        self._next(now)

    def reconsidered(self, now: float) -> None:
        """A broker came back: where none is being asked, try again at once."""
        if self.waiting:
            self._search.schedule.reconsider(now)
            self._next(now)

    def woke(self, now: float) -> None:
        """The time `until` has come: begin or end an attempt, leave the broker, or stay with it."""
        match self.state:
            case Asking(deadline=deadline) as state if now >= deadline:
                self._silent(state, now)
            case Asking() as state:
                self._undecided(state)
                self.hang_up(How.ABORT)
                self._give_up(now)
            case Waiting() if now >= self._search.schedule.deadline:
                self._give_up(now)
            case Waiting(broker=broker):
                self._open(broker, now)
            case Connected(may_stay=True) if self.up:
                self.stay()
            case Connected() if self.up:
                self.disconnect(now)

    # Ends

    def fell_silent(self, now: float) -> None:
        """Record in the broker's health that it sent nothing for longer than the heart-beats allow."""
        if isinstance(self.state, Connected):
            self.state.silent = True
            self.state.broker.health.failed(self.upstream.checks, now, self._chance)

    @property
    def hasty(self) -> bool:
        """Whether it has a broker that is to be sent more in the next turn: then call `Flow.to_client`."""
        return self.up and self.resender is not None and self.resender.hasty

    def unconfirmed(self) -> None:
        """Record a doubt about the broker, which did not confirm in time what it was sent: that may be due to what the
        client sent.
        """
        if isinstance(self.state, Connected):
            self.state.silent = True
            self.state.broker.health.doubt(self.state.broker.health.sight())

    def lost(self) -> None:
        """Record that the broker was lost: the next one is a failover. Call `hang_up`, then `seek`."""
        self.recovering = True
        broker = self.broker
        if broker is not None:
            careful = self.resender is not None and self.resender.cautious
            broker.health.lost(suspect=careful or self.dropped_by is None)

    def hang_up(self, how: How) -> None:
        """Close the leg in this way, where it is not closed yet, and have no broker; call `seek` for another one."""
        leg = self.leg
        if leg is not None and not leg.closed:
            leg.enter(State.CLOSED)
            self._outbox.put(Close(leg, how))
        if isinstance(self.state, Connected):
            self.state.broker.health.left(self.state.place)
            if self.state.carried:
                self.state.broker.count(self.state.tally)
            self.before = self.state.broker
        self.state = Waiting()

    def end(self) -> None:
        """Close the leg and end the search: the session is over, or goes on without this group."""
        reason = self.reason
        if isinstance(self.state, Asking):
            self._undecided(self.state)
        self.hang_up(How.FLUSH)
        if self._attempts is not None:
            self._attempts.schedule.ended()
        self.state = Ended(reason)
        self.until = inf

    # Moving

    def leave(self, now: float, within: float, target: Broker | None, *, may_stay: bool = False) -> None:
        """Move the session, to `target` if it can, at a quiet moment; when the time is over anyway, or not at all."""
        if self.up and self.upstream.movable:
            up = self.connection
            up.moving, up.target, up.may_stay = True, target, may_stay
            self.until = now + within

    def stay(self) -> None:
        """The session need not move any more: its client leaves, or had no quiet moment in time."""
        if self.up and self.moving:
            self.connection.moving = False
            self.until = inf

    def abandon(self) -> None:
        """The broker went wrong: it is to be left at once."""
        self.connection.done = True

    def bids_farewell(self) -> None:
        """The broker said that it goes away: it is lost, though it may stay and answer all else like that."""
        if not self.leaving:
            self._outbox.put(left(self.broker, self.upstream, "it said that it goes away"))
            self.session.counters["brokers_lost"] += 1
            self.lost()
        self.abandon()

    def received_receipt(self, receipt: bytes) -> None:
        """The broker sent this RECEIPT. After that of our DISCONNECT the broker can be left."""
        if isinstance(self.state, Leaving) and receipt == self.state.receipt:
            self.state.done = True

    def disconnect(self, now: float) -> None:
        """Send DISCONNECT; then, or when the leg is lost, go on with `move`. Raises `LookupError` if it cannot move."""
        if self.resender is None:
            raise LookupError("a session without a resender stays with its broker")
        up = self.connection
        receipt = self.resender.unconfirmed.ask()
        frame = up.bridges.to_broker.compose(DISCONNECT, [(RECEIPT_HEADER, receipt)], self.session)
        self._outbox.put(moved(up.broker, self.upstream))
        up.leg.enter(State.LEAVING)
        self._outbox.send(up.leg, frame, now)
        # What it still has to send may wait behind messages that the client owes too many ACKs for.
        self._outbox.put(Resume(up.leg))
        up.broker.count(up.tally)
        self.state = Leaving(
            up.leg, up.broker, up.bridges, up.product, up.moving, up.target, place=up.place, receipt=receipt
        )
        self.until = now + self.upstream.disconnect_timeout

    def move(self, now: float) -> None:
        """The old broker was left: look for the next one."""
        self.session.counters["brokers_moved"] += 1
        self.recovering = False
        target = self.connection.target
        self.hang_up(How.FLUSH)
        self.seek(now, target)

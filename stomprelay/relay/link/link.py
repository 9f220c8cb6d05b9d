"""A session's link to one group of brokers: the broker that it has, or the search for one."""

from collections.abc import Callable
from math import inf
from typing import Final

from stomprelay.relay.effects import Outbox
from stomprelay.relay.link.handshake import Accepted, Handshake
from stomprelay.relay.link.schedule import Schedule
from stomprelay.relay.link.states import (
    Asking,
    Attempts,
    Connected,
    Ended,
    Leaving,
    Move,
    Next,
    Staying,
    Waiting,
)
from stomprelay.relay.link.suspicion import CLOSED, STRANGE
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.notes import left, lost, moved, refused, vain
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.effects import Close, How, Resume
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg, State
from stomprelay.session.session import Session
from stomprelay.wire.errors import StompError
from stomprelay.wire.names import CONNECTED

AGAIN: Final = 30.0
"""Seconds after which a session that no other broker took may be asked to move again, for the sake of balance."""


class Link:
    """One session in one group. `session` is what is sent to the brokers of this group.

    Call `seek` first, then the method for each event; call `woke` at `until`. `resender`: None where the session ends
    with its broker and has no other link (`resends`). `before`: the broker before this one. `recovering`: it was lost.
    `seeks_since`: when the search for the present broker began.
    """

    __slots__ = (
        "_attempts",
        "_chance",
        "_fresh",
        "_listener",
        "_outbox",
        "_resent",
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
        self._resent = 0
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
    def _move(self) -> Move | None:
        """How it is to leave its broker."""
        state = self.state
        return state.move if isinstance(state, Connected) and isinstance(state.move, Move) else None

    @property
    def moving(self) -> bool:
        """Whether it is to leave its broker at a quiet moment."""
        return self._move is not None

    @property
    def departing(self) -> bool:
        """Whether it leaves its broker at the next quiet moment: another broker accepted, or none may be asked."""
        state = self.state
        move = state.move if isinstance(state, Connected) else None
        return isinstance(move, Move) and (move.next is None or move.next.accepted is not None)

    def leaves(self, now: float) -> bool:
        """Return whether a link that is `departing` goes now: it is quiet, or its time is over."""
        move = self._move
        return self.quiet or (self.up and move is not None and now >= move.leave_by and not move.may_stay)

    @property
    def _staying(self) -> Staying | None:
        state = self.state
        return state.move if isinstance(state, Connected) and isinstance(state.move, Staying) else None

    @property
    def stays(self) -> str:
        """Why it has the broker that it was to leave: no other one took it; empty where that is not so."""
        staying = self._staying
        return "" if staying is None else staying.reason

    def movable(self, now: float) -> bool:
        """Return whether it may be asked to move for the sake of balance: no other broker refused it lately."""
        staying = self._staying
        return not self.moving and (staying is None or now >= staying.again)

    @property
    def _following(self) -> Next | None:
        """The broker that it is to move to, where one is asked."""
        move = self._move
        return None if move is None else move.next

    @property
    def next_leg(self) -> Leg | None:
        """The leg to the broker that it is to move to, where one was asked."""
        state = self.state
        move = state.move if isinstance(state, Connected) else None
        return move.next.handshake.leg if isinstance(move, Move) and move.next is not None else None

    @property
    def may_stay(self) -> bool:
        """Whether it is to leave its broker at a quiet moment only, and stays where there is none in time."""
        move = self._move
        return move is not None and move.may_stay

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
        return self.state.leg

    @property
    def broker(self) -> Broker | None:
        """The broker that it has."""
        return self.state.broker if isinstance(self.state, Connected) else None

    @property
    def dropped_by(self) -> Broker | None:
        """The broker whose will or death alone can have ended the connection; None where the session leaves it."""
        state = self.state
        return state.broker if type(state) is Connected and not (state.done or state.silent) else None

    @property
    def asked(self) -> Broker | None:
        """The broker that is asked for CONNECTED now."""
        return self.state.handshake.broker if isinstance(self.state, Asking) else None

    def broker_at(self, leg: Leg) -> Broker | None:
        """Return the broker to which a leg of this link leads; None where it has no such leg."""
        state = self.state
        if leg is state.leg:
            return state.broker if isinstance(state, Connected) else self.asked
        return self._following.handshake.broker if self._following and leg is self.next_leg else None

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
        resender = self.resender
        kept = len(self.session.receipts) if resender is None else resender.unconfirmed.sends
        return kept + self.unproved

    @property
    def unproved(self) -> int:
        """How many SENDs may be lost if the broker were lost now, whatever the next one confirms."""
        return self.session.unproved if self.resender is None else self.resender.unconfirmed.unproved

    def write_off(self) -> int:
        """Return how many SENDs may be lost, for the session ends now, and forget them."""
        lost = self.uncertain
        if self.resender is not None:
            self.resender.unconfirmed.write_off()
        self.session.forget_receipts()
        self.session.unproved = 0
        return lost

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
        search = self._search
        attempt = search.schedule.next(now)
        if attempt is None:
            self._give_up(now)
            return
        at = max(attempt.at, now + rest)
        if search.schedule.vain:
            self._outbox.put(vain(self.group, self.upstream, search.schedule.passes))
        if self.asking:
            self.hang_up(How.ABORT)
        self.state = Waiting(attempt.broker)
        self.until = min(at, search.schedule.deadline)
        if at <= now:
            self._open(attempt.broker, now)

    def _give_up(self, now: float) -> None:
        search = self._search
        reason = search.schedule.verdict(now)
        search.schedule.ended()
        self.state = Ended(reason, self.leg)
        self.until = inf

    def _open(self, broker: Broker | None, now: float) -> None:
        """Open a connection to `broker`, or plan the next attempt where this one is not worth it any more."""
        search = self._search
        if search.suspicion.proved:
            self._reject()
            return
        if broker is None or not search.schedule.stands(now):
            self._next(now)
            return
        self._ask(self._handshake(broker), now)

    def _handshake(self, broker: Broker) -> Handshake:
        return Handshake(
            self._listener,
            self.upstream,
            broker,
            self._search.offer,
            self.session,
            self._outbox,
            tracked=self.resender is not None,
        )

    def _ask(self, handshake: Handshake, now: float) -> None:
        deadline = now + self.upstream.connect_timeout
        self.state = Asking(handshake, deadline, handshake.broker.health.sight())
        self.until = min(deadline, self._search.schedule.deadline)
        handshake.open()

    def connected(self, leg: Leg, now: float, address: str | None = None) -> None:
        """The connection that was asked for is there, for a client at this IP address."""
        asked = self.state if isinstance(self.state, Asking) else self._following
        if asked is not None and asked.handshake.leg is leg:
            asked.told = True
            self._outbox.send(leg, asked.handshake.connect(address), now)
        else:
            self._outbox.put(Close(leg, How.ABORT))

    def answered(self, data: bytes, now: float) -> Accepted | bytes | None:
        """Read what the asked broker sent. Returns the accord, or the client's ERROR frame; None while the search goes
        on. Raises `StompError` for what is not STOMP.
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
        search = self._search
        leg, broker, bridges = handshake.leg, handshake.broker, accepted.bridges
        self.state = Connected(leg, broker, bridges, accepted.product)
        self.state.queue_sent(self._resent)
        self._resent = 0
        self.until = inf
        self._fresh = False
        search.suspicion.cleared()
        broker.health.answered()
        self.state.place = broker.health.joined()
        search.schedule.found(now)
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
        """The asked broker failed or refused CONNECT: ask the next one. `fault` is for a client that caused it."""
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

    def _undecided(self, state: Asking) -> None:
        """The attempt is over, and shows nothing: where the others wait for what it finds, a probe has to find it."""
        health = state.handshake.broker.health
        if health.up is False:
            health.doubt(state.sight)

    def _fail(self, broker: Broker, now: float) -> None:
        broker.speaks(None)  # when it comes back it may be another one
        broker.health.failed(self.upstream.checks, now, self._chance)

    def _refused(self, broker: Broker, reason: str, now: float) -> None:
        search = self._search
        self.session.counters["brokers_refused"] += 1
        self._outbox.put(refused(broker, self.upstream, f"did not connect: {reason}"))
        if self.resender is not None:
            self.hang_up(How.ABORT)
        if search.suspicion.proved:
            self._reject()
        else:
            self._next(now, search.suspicion.rest)

    def _reject(self) -> None:
        """Give the session up, because of what its client said in CONNECT."""
        search = self._search
        search.schedule.ended()
        self.session.counters["connects_rejected"] += 1
        self.state = Ended(search.suspicion.fault, self.leg, unwelcome=True)
        self.until = inf

    def prevented(self, reason: str, now: float) -> None:
        """This process could not ask the broker: ask the next one. The broker's health stays as it is."""
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
                broker = state.handshake.broker
                if not broker.health.answered_since(state.sight):
                    self._fail(broker, now)
                self._refused(broker, "no CONNECTED in time", now)
            case Asking() as state:
                self._undecided(state)
                self.hang_up(How.ABORT)
                self._give_up(now)
            case Waiting() if now >= self._search.schedule.deadline:
                self._give_up(now)
            case Waiting(broker=next_broker):
                self._open(next_broker, now)
            case Connected(move=Move() as move) if self.up:
                self._move_due(move, now)

    # Ends

    def fell_silent(self, now: float) -> None:
        """Record in the broker's health that it sent nothing for longer than the heart-beats allow."""
        if isinstance(self.state, Connected):
            self.state.silent = True
            self.state.broker.health.failed(self.upstream.checks, now, self._chance, silent=True)

    @property
    def hasty(self) -> bool:
        """Whether it has a broker that is to be sent more in the next turn: then call `Flow.to_client`."""
        return self.resender is not None and self.resender.hasty and self.up

    def unconfirmed(self) -> None:
        """Record a doubt about the broker, which did not confirm in time. The client's frames may be the cause."""
        if isinstance(self.state, Connected):
            self.state.silent = True
            self.state.broker.health.doubt(self.state.broker.health.sight())

    def lost(self, reason: str) -> None:
        """Record the loss of the broker. Call `hang_up`, then `seek`. No change where it was being left."""
        if not self.leaving and not self.done:
            self.session.counters["brokers_lost"] += 1
            self._lost()
            self._outbox.put(lost(self.broker, self.upstream, reason))

    def _lost(self) -> None:
        self.recovering = True
        self._goes_back()
        broker = self.broker
        if broker is not None:
            careful = self.resender is not None and self.resender.cautious
            broker.health.lost(suspect=careful or self.dropped_by is None)

    def queue_sent(self, count: int) -> None:
        """Count so many SENDs to queues at the broker that it has."""
        if isinstance(self.state, Connected):
            self.state.queue_sent(count)

    def queue_gave(self, count: int) -> None:
        """Count so many MESSAGEs from queues of the broker that it has."""
        if isinstance(self.state, Connected):
            self.state.queue_gave(count)

    def _goes_back(self) -> None:
        """Count what the broker keeps: what was not acknowledged, and not what is kept here for the next one."""
        if isinstance(self.state, Connected):
            kept = 0 if self.resender is None else self.resender.unconfirmed.sends
            self._resent += self.state.took_back(self.session.unacknowledged, kept)

    def hang_up(self, how: How) -> None:
        """Close the leg in this way, where it is not closed yet, and have no broker; call `seek` for another one."""
        leg = self.leg
        if leg is not None and not leg.closed:
            leg.enter(State.CLOSED)
            self._outbox.put(Close(leg, how))
        if self._move is not None:
            self._drop(self._move)
        if isinstance(self.state, Connected):
            self.state.broker.health.left(self.state.place)
            if self.state.carried:
                self.state.broker.count(self.state.tally)
            self.before = self.state.broker
        self.state = Waiting()

    def end(self) -> None:
        """Close the leg and end the search. The connection is still read from until the broker has closed it."""
        reason = self.reason
        self._goes_back()
        if isinstance(self.state, Asking):
            self._undecided(self.state)
        self.hang_up(How.LINGER)
        if self._attempts is not None:
            self._attempts.schedule.ended()
        self.state = Ended(reason)
        self.until = inf

    # Moving

    def leave(self, now: float, within: float, target: Broker | None, *, may_stay: bool = False) -> None:
        """Move the session to `target` or any other broker that accepts it, at a quiet moment or when the time is over;
        with `may_stay` only at a quiet moment. Without such a broker it stays.
        """
        if not self.up:
            return
        if not self.upstream.movable:
            self.connection.move = Staying("there is no other", inf)
            return
        up, move = self.connection, self._move
        if move is not None and move.next is not None and target not in (None, move.target):
            self._drop(move)
        following = None if move is None else move.next
        left = [] if following is None or move is None else move.left
        up.move = move = Move(target, may_stay, now + within, left, following)
        if following is None:
            move.left = [target] if target is not None else self._others(up.broker, now)
            if move.left:
                self._ask_next(up, move, now)
        self._look_again()

    def _others(self, broker: Broker, now: float) -> list[Broker]:
        """Return the brokers that the session may go to, in the order in which it asks them."""
        order = self.group.order(now, self._chance)
        order += [each for each in self.group.brokers if each not in order]
        return [each for each in order if each is not broker and not each.health.paused]

    def _ask_next(self, up: Connected, move: Move, now: float) -> None:
        """Ask the next broker for CONNECTED, at its turn. Without one the session stays."""
        move.left = [each for each in move.left if not each.health.paused]
        if not move.left:
            up.move = Staying(move.refusal, move.again)
            return
        broker = move.left.pop(0)
        move.next = Next(self._handshake(broker), broker.health.slot(self.upstream.reconnect_rate, now))
        if move.next.at <= now:
            self._open_next(move.next, now)

    def _open_next(self, following: Next, now: float) -> None:
        following.deadline = now + self.upstream.connect_timeout
        following.sight = following.handshake.broker.health.sight()
        following.handshake.open()

    def _look_again(self) -> None:
        """Have it looked at again when something of the move is due."""
        if not self.up:
            return  # it leaves, or is lost, by a time of its own
        move, self.until = self._move, inf
        if move is None:
            return
        if self.departing or move.may_stay:
            self.until = move.leave_by
        if move.next is not None and move.next.accepted is None:
            self.until = min(self.until, move.next.at if move.next.sight is None else move.next.deadline)

    def _move_due(self, move: Move, now: float) -> None:
        following = move.next
        if now >= move.leave_by and move.may_stay:
            self.stay()
        elif now >= move.leave_by and self.departing:
            self.disconnect(now)
        elif following is not None and following.accepted is None:
            if following.handshake.broker.health.paused:
                self.next_refused("is paused", now)
            elif following.sight is None:
                self._open_next(following, now)
            elif now >= following.deadline:
                self.next_refused("no CONNECTED in time", now)
        self._look_again()

    def next_answered(self, data: bytes, now: float) -> None:
        """The broker that the session is to move to sent something. After its CONNECTED the session can leave."""
        following = self._following
        if following is None:
            return
        handshake = following.handshake
        try:
            handshake.leg.decoder.feed(data)
            for frame in handshake.leg.decoder.frames():
                if frame.command is CONNECTED:
                    following.accepted = handshake.accepted(frame, now)
                    handshake.broker.health.answered()
                elif handshake.retry(frame):
                    following.told = False
                    self._open_next(following, now)
                else:
                    self.next_refused("answered CONNECT with an ERROR", now, alive=True)
                break
        except StompError as error:
            self.next_refused(f"answered CONNECT with what is not STOMP: {error.message}", now)
        self._look_again()

    def next_refused(self, reason: str, now: float, *, alive: bool = False) -> None:
        """The broker to move to cannot be had: ask the next one, or stay. `alive`: it answered."""
        up, move = self.connection, self._move
        if move is None or move.next is None:
            return
        following = move.next
        broker, sight = following.handshake.broker, following.sight
        if sight is not None and not alive and following.accepted is None:
            if following.told:
                broker.health.doubt(sight)
            else:
                self._fail(broker, now)
        self.session.counters["brokers_refused"] += 1
        self._outbox.put(refused(broker, self.upstream, reason))
        self._drop(move)
        if self.up:
            move.refusal, move.again = f"{broker} {reason}", now + AGAIN if alive else 0.0
            self._ask_next(up, move, now)
            self._look_again()

    def _drop(self, move: Move) -> None:
        """Ask no broker any more for a move."""
        following, move.next = move.next, None
        self._close(following)

    def _close(self, following: Next | None) -> None:
        if following is None or following.sight is None:
            return
        leg = following.handshake.leg
        if not leg.closed:
            leg.enter(State.CLOSED)
            self._outbox.put(Close(leg, How.LINGER))

    def stay(self) -> None:
        """The session need not move any more: its client leaves, or had no quiet moment in time."""
        move = self._move
        if self.up and move is not None:
            self._drop(move)
            self.connection.move = Staying(move.refusal, move.again) if move.refusal else None
            self.until = inf

    def abandon(self) -> None:
        """The broker went wrong: it is to be left at once."""
        self.connection.done = True

    def bids_farewell(self) -> None:
        """The broker said that it goes away: it is lost, though it may stay and answer all else like that."""
        if not self.leaving:
            self._outbox.put(left(self.broker, self.upstream, "it said that it goes away"))
            self.session.counters["brokers_lost"] += 1
            self._lost()
        self.abandon()

    def proved(self) -> None:
        """The broker confirmed that it has read all that it was sent."""
        if self.resender is not None:
            self.resender.unconfirmed.proved()

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
        frame = up.bridges.to_broker.leave(receipt, self.session)
        self._outbox.put(moved(up.broker, self.upstream))
        up.leg.enter(State.LEAVING)
        self._outbox.send(up.leg, frame, now)
        # What it still has to send may wait behind messages that the client owes too many ACKs for.
        self._outbox.put(Resume(up.leg))
        self._goes_back()
        up.broker.count(up.tally)
        self.state = Leaving(
            up.leg, up.broker, up.bridges, up.product, up.move, place=up.place, receipt=receipt
        )
        self.until = now + self.upstream.disconnect_timeout

    def move(self, now: float) -> Accepted | None:
        """The old broker was left: go on as `go_on`."""
        self.session.counters["brokers_moved"] += 1
        self.recovering = False
        return self.go_on(How.LINGER, now)

    def go_on(self, how: How, now: float) -> Accepted | None:
        """Close the leg and return the accord of the broker that accepted meanwhile; look for a broker if none did."""
        move, following = self._move, self._following
        if move is not None:
            move.next = None
        self.hang_up(how)
        if (
            following is not None
            and following.accepted is not None
            and not following.handshake.broker.health.paused
        ):
            handshake, accepted = following.handshake, following.accepted
            self.seeks_since = now
            self._search.schedule.moved(handshake.broker)
            self._accepted(handshake, accepted, now)
            return accepted
        self._close(following)
        self.seek(now, None if move is None else move.target)
        return None

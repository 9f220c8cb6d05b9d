"""Frames between a client and several brokers: groups of one upstream, upstreams by routes, or both."""

from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from itertools import islice
from typing import ClassVar, Literal

from stomprelay.relay.bridge import Tracer, settle
from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import NO_MORE, NOTHING, TURN, Joiner, Outbox, Pass, given_up, outvoted, words
from stomprelay.relay.fanout.dispatch import Dispatch
from stomprelay.relay.fanout.quorum import Confirmation, Quorum
from stomprelay.relay.fanout.router import OTHERS, Member, Router, Target
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.link import (
    DISCONNECTING,
    GOODBYE,
    Denied,
    DisconnectState,
    Link,
    broker_lost,
    not_to_be_had,
)
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.move import COPY, Mark
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.delivery import THING
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg, LegState
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    DESTINATION,
    DISCONNECT,
    ERROR,
    MESSAGE,
    RECEIPT,
    RECEIPT_HEADER,
    RECEIPT_ID,
    SUBSCRIPTION,
)
from stomprelay.wire.run import Run


@dataclass(slots=True, eq=False, repr=False)
class Fanout:
    """A `Flow` with several links, which `open_links` makes. `guard` judges the client's frames, `counter` counts
    them. It is not `coupled`: frames for one broker do not wait for other brokers, and the service reports each broker
    with `blocked` and `unblocked`.

    The client's DISCONNECT, or the relay's in its place, goes to all brokers when everything else is `safe`. `erred`:
    the last frame that the client was sent was an ERROR. `flowing`: CONNECTED was sent, so frames are carried.
    """

    _client: Leg
    listener: InitVar[Listener]
    _session: Session
    _outbox: Outbox
    open_links: InitVar[Callable[[Upstream], list[Link]]]
    guard: Guard
    _counter: DestinationCounter | None = None
    links: list[Link] = field(init=False)
    survives: ClassVar[bool] = True
    coupled: ClassVar[Literal[False]] = False
    flowing: bool = False
    erred: bool = False
    disconnect: DisconnectState = DisconnectState.NONE
    disconnect_receipt: bytes | None = None
    router: Router = field(init=False)
    _places: dict[Link, tuple[Target, Member]] = field(init=False)
    _quorum: Quorum = field(init=False)
    _dispatch: Dispatch = field(init=False)
    _tracer: Tracer | None = None
    _joiner: Joiner = field(default_factory=Joiner)
    _ends: bool = False
    _frame: bytes = b""  # the client's DISCONNECT
    _asked: bytes | None = None  # the receipt that DISCONNECT asks for
    _awaited: int = 0  # how many targets have to confirm it

    def __post_init__(self, listener: Listener, open_links: Callable[[Upstream], list[Link]]) -> None:
        session, outbox = self._session, self._outbox
        self._tracer = Tracer(session.name) if listener.trace else None
        self.router = Router(listener, outbox, open_links)
        self._places = self.router.places
        self.links = self.opened()
        self._quorum = Quorum(self._client, session, outbox, self.router)
        self._dispatch = Dispatch(session, outbox, self.router, self._quorum.confirmations)
        session.kept.watch(self)

    @property
    def cost(self) -> int:
        """The bytes that wait for members, or for answers of members."""
        waits = sum(member.cost for _, member in self._places.values())
        return waits + THING * self._quorum.confirmations.asked

    def take_over(self, tracer: Tracer | None) -> None:
        """Go on with a session whose only link has a broker, and that had another flow until now."""
        self._tracer = tracer
        self.flowing = True
        self.router.begin()
        [member] = self.router.main.members
        member.connected()
        unconfirmed = member.resender.unconfirmed
        self._session.kept.unwatch(unconfirmed)
        for receipt in [each for each, count in unconfirmed.owed_receipts.items() for _ in range(count)]:
            self._quorum.confirmations.ask(Confirmation(receipt, [member], 1))

    def guarded(self, guard: Guard) -> None:
        """Have this guard judge the client's frames from now on."""
        self.guard = guard

    # State of the flow

    @property
    def ready(self) -> bool:
        """Whether a quorum of the listener's own upstream has brokers."""
        return self.router.main.ready

    @property
    def full(self) -> bool:
        """Whether the client must not be read from, because in some upstream too few groups have room for frames."""
        return any(target.full for target in self.router.targets if not target.spare)

    @property
    def crowded(self) -> bool:
        """Whether, after the flow was `full`, the client must still not be read from."""
        return any(target.crowded for target in self.router.targets if not target.spare)

    @property
    def safe(self) -> bool:
        """Whether every frame that must not be lost has a known outcome, and a quorum has received all other frames."""
        pending = self._quorum.confirmations.pending
        return not pending and all(target.spare or target.safe for target in self.router.targets)

    @property
    def settled(self) -> bool:
        """Whether the client sent DISCONNECT and has received everything that it is owed."""
        if self.disconnect is DisconnectState.SENT:
            told = [member for member in self._needed if member.disconnecting]
            whole = all(member.safe and not member.holds for member in told)
            return self.disconnect_receipt is None and whole
        return self.disconnect is DisconnectState.CONFIRMED

    @property
    def _needed(self) -> list[Member]:
        """The members that get more than copies."""
        return [member for target, member in self._places.values() if not target.spare]

    def passes(self) -> list[Pass]:
        """Return an empty list, because the relay looks at each frame."""
        return []

    def opened(self) -> list[Link]:
        """Return the links that must `seek` a broker, because their upstream is newly used or they left a broker."""
        opened, self.router.opened = self.router.opened, []
        if opened:
            self.links = list(self._places)
        return opened

    # Carrying frames

    def to_broker(self, now: float, most: int = TURN) -> None:
        """Carry the frames that the client's leg has, at most `most` and not more than one turn's work."""
        leaves = self._client.gone or self.disconnect is not DisconnectState.NONE
        if self.router.behind and not leaves:
            self._follow(now)
        count, before = 0, self._session.client_frames
        frames = self._client.decoder.frames()
        if self.guard.active:
            frames = self.guard.judged(frames, self._client.dialect)
        if self._tracer is not None:
            frames = self._tracer.frames(frames)
        try:
            for frame in islice(frames, min(most, max(1, TURN // len(self._places)))):
                if self._counter is not None:
                    self._counter.passed(frame, self._session, self._client.dialect, 1)
                count += 1
                if frame.command is DISCONNECT:
                    self.disconnect_receipt = frame.header(RECEIPT_HEADER, self._client.dialect)
                    self._frame = frame.wire
                    self._begin_disconnect(self.disconnect_receipt)
                    break
                self._dispatch.number = before + self.guard.taken + count
                self._dispatch.send(frame)
        finally:
            self._session.client_sent(count)
            if len(self.links) != len(self._places):
                self.links = list(self._places)
            self._leave_flooded(now)

    def _follow(self, now: float) -> None:
        """Follow moves as far as possible now. Leave NEW where all of its moves are off again."""
        self._dispatch.follow()
        for target in self.router.given_back:
            self._left_out(target, "it was not there", now)
        for target in self.router.idle:
            for member in target.members:
                link = member.link
                if link.up and link.connection.leg.state is LegState.CONNECTED:
                    member.flush(now)
                    self._outbox.put(Send(link.connection.leg, DISCONNECTING))
                self._forget_copies(target, member)
                link.end()
            self.router.forget(target)

    def _leave_flooded(self, now: float) -> None:
        """Leave brokers for which too many bytes wait, then write the collected frames."""
        failure = None
        for target, member in self._places.values():
            if member.flooded and target.upstream.movable:
                try:
                    self._quorum.leave(target, member, now)
                except StompError as error:
                    failure = error
        self._go_on(now)
        if failure is not None:
            raise failure

    def to_client(self, link: Link, now: float) -> None:
        """Carry the frames that the broker's leg of a link has to the client."""
        target, member = self._places[link]
        try:
            self._forward(target, member, now)
        except StompError as error:
            if not target.fans or isinstance(error, Refused):
                raise
            self._quorum.fault(target, member, f"it sent what cannot be passed on: {error.message}", now)
        self._go_on(now)

    def _forward(self, target: Target, member: Member, now: float) -> None:
        """Carry one turn of a broker's frames as one `Send`. Raises `StompError` for a frame that cannot pass."""
        connection, session, joiner = member.link.connection, member.session, self._joiner
        bridge, leg = connection.bridges.to_client, connection.leg
        # Before CONNECTED the client asked for nothing, so only an ERROR may pass.
        early = self._client.state is LegState.CONNECTING

        def new_head(frame: Frame) -> bytes | None:
            if early and frame.command is not ERROR:
                return NOTHING
            if frame.command is MESSAGE:
                if self._ends or (member.ended and self._is_late(member, frame)):
                    return NOTHING
                if target.new and self._is_copy(member, frame):
                    return NOTHING
                if self.router.phases:
                    self._note_reply(target, member, frame)
                if member.erred:
                    self.erred = False  # the broker goes on
                    member.erred = False
                return bridge.head(frame, session)
            if frame.command is RECEIPT:
                if self._receipt_passes(target, member, frame, leg):
                    return bridge.head(frame, session)
                return NO_MORE if member.link.ended else NOTHING
            passes = self._error_passes(target, member, frame, leg, now)
            if member.link.done or member.given_up:
                return NO_MORE
            if not passes:
                return NOTHING
            receipt = frame.header(RECEIPT_ID, leg.dialect)
            if member.resender.unconfirmed.is_ours(receipt) or self._is_ours(receipt):
                return bridge.without(frame, RECEIPT_ID, session)  # the client never gave it
            return bridge.head(frame, session)

        try:
            frames: Iterator[Frame | Run] = islice(leg.decoder.frames(), TURN)
            if self._counter is not None:
                frames = self._counter.counting(frames, self._session, leg.dialect)
            joiner.carry(frames, new_head)
        finally:
            self._session.broker_sent(joiner.frames)
            connection.received_frames += joiner.frames
            data = joiner.take(trails=leg.decoder.trails)
            if data:
                self._outbox.send(self._client, data, now)
            if (own := session.take_own()) and leg.state is LegState.CONNECTED:
                self._outbox.send(leg, own, now)
            self._quorum.confirmed_late(member, now)

    @staticmethod
    def _is_late(member: Member, frame: Frame) -> bool:
        """Return whether a MESSAGE is for a subscription with ACKs that a move has ended: the broker keeps it."""
        id = frame.header(SUBSCRIPTION, member.link.connection.leg.dialect)
        found = member.session.subscriptions.delivered(id, b"") if id in member.ended else None
        return found is not None and found.ack != AUTO

    def _is_copy(self, member: Member, frame: Frame) -> bool:
        """Return whether a MESSAGE is the copy of a SEND whose original went to OLD, so that it is not for the client.
        Then it is settled.
        """
        leg, session = member.link.connection.leg, member.session
        if Mark.parse(frame.header(COPY, leg.dialect)) is None:
            return False
        name, destination = (
            frame.header(SUBSCRIPTION, leg.dialect),
            frame.header(DESTINATION, leg.dialect) or b"",
        )
        spoken = member.link.connection.bridges.to_client.spoken
        if spoken is not None:
            destination = spoken.to_client(destination, session)
        subscription = session.subscriptions.delivered(name, destination)
        if subscription is not None:
            settle(frame, subscription, leg.dialect, session)
        return True

    def _note_reply(self, target: Target, member: Member, frame: Frame) -> None:
        """Remember where the temporary queue is to which a MESSAGE wants its reply."""
        connection = member.link.connection
        name = frame.header(b"reply-to", connection.leg.dialect)
        spoken = connection.bridges.to_client.spoken
        if name is not None and spoken is not None:
            name = spoken.to_client(name, member.session)
        if name is not None and name.startswith(OTHERS):
            self.router.asked(target, name)

    def _receipt_passes(self, target: Target, member: Member, frame: Frame, leg: Leg) -> bool:
        receipt = member.session.asked(frame.header(RECEIPT_ID, leg.dialect))
        if receipt is None:
            return not target.fans
        member.answered(receipt)
        if member.resender.advances(receipt):
            member.faults = 0
        member.erred = False
        member.link.received_receipt(receipt)
        if member.disconnecting and receipt == self._asked:
            return self._disconnected(member, receipt) and not (self._ends or self._is_ours(receipt))
        if not member.resender.received(receipt):
            return False
        return any(not decided.hidden for decided in self._quorum.confirmations.confirm(member, receipt))

    def _error_passes(self, target: Target, member: Member, frame: Frame, leg: Leg, now: float) -> bool:
        """Return whether an ERROR passes to the client. Raises `StompError` if the ERROR ends the session."""
        counters = self._session.counters
        receipt = member.session.asked(frame.header(RECEIPT_ID, leg.dialect))
        asked = receipt is not None and self._quorum.confirmations.awaited(member, receipt) is not None
        if target.upstream.movable and member.link.connection.product.leaves(frame):
            counters["errors_withheld"] += 1  # the broker goes away, and the client need not know
            if receipt is not None:
                member.link.broker_leaves()
            return False
        if (member.ended or target.new) and member.link.connection.product.crossed(frame):
            # The client did not end what it is about, or does not know such ERRORs.
            counters["errors_withheld"] += 1
            return False
        member.resender.refused(receipt)
        member.answered(receipt or b"")
        text = words(frame, leg.dialect)
        reason = f"it answered ERROR: {text}" if text else "it answered ERROR"
        self.router.fault(target, reason)
        if target.optional and self._left_out(target, reason, now):
            return False
        if not target.fans:
            self.erred = True
            member.erred = True
            counters["errors_passed"] += 1
            return True
        if receipt is not None and asked:
            member.reason = reason
            counters["fanout_errors"] += 1
            self._outbox.put(outvoted(member.link.group, target.upstream, reason))
            self._quorum.refused(member, receipt, now)
            return False
        member.erred = True
        if all(each.erred for each in target.live):
            self.erred = True
            counters["errors_passed"] += 1
            return True
        counters["fanout_errors"] += 1
        self._quorum.fault(target, member, reason, now)
        return False

    def connected(self, link: Link, now: float) -> None:
        """Send a new broker the subscriptions, transactions and unconfirmed frames that it needs."""
        target, member = self._places[link]
        member.connected()
        self.flowing = self.flowing or self.ready
        receives = self.disconnect is DisconnectState.NONE and not (self._client.gone or self._ends)
        try:
            member.resender.replay(subscriptions=receives, now=now)
        except StompError as error:
            self._unable(target, member, error, now)
            return
        finally:
            member.resender.flush(now)
        self._go_on(now)
        self._dispatch.meet()

    def _unable(self, target: Target, member: Member, error: StompError, now: float) -> None:
        """A frame cannot be sent to a group: a fan-out gives the group up. Raises the error for a single broker."""
        self.router.fault(target, error.message)
        if target.optional and self._left_out(target, error.message, now):
            return
        if not target.fans:
            self._quorum.confirmations.refuse(member, error.receipt or b"")
            raise error
        self._quorum.give_up(target, member, f"{error.message} there", now)

    def over(self, link: Link) -> bool:
        """Whether the session ends with this link: its broker's ERROR was passed on, or the flow is `settled`."""
        return self.settled or (self.erred and self._places[link][1].erred and not self._client.gone)

    def lost(self, link: Link, now: float) -> None:
        """The link lost its broker and will seek another. Raises `StompError` if the session cannot survive this."""
        target, member = self._places[link]
        if target.spare:
            self._forget_copies(target, member)
            if self.disconnect is not DisconnectState.NONE:
                link.end()  # nothing more is sent there
                return
        if not target.upstream.movable and target.optional and self._left_out(target, "it was lost", now):
            self._go_on(now)
            return
        try:
            self._quorum.lost(target, member, now)
        finally:
            if not target.upstream.movable:
                raise broker_lost(target.upstream, self.disconnect_receipt)
        self._go_on(now)

    def review(self, link: Link, now: float) -> None:
        """Look for SENDs that a broker did not confirm in time, see `Resender.review`. Raises as `lost` does."""
        target, member = self._places[link]
        self._quorum.doubted(target, member, member.overdue(now), now)
        self._go_on(now)

    def passed_over(self, link: Link, receipt: bytes) -> None:
        """The client gets an ERROR in place of this receipt, and the session goes on."""
        self._quorum.confirmations.refuse(self._places[link][1], receipt)

    def given_up(self, link: Link, now: float) -> None:
        """The link found no broker. Raises `StompError` if the other groups are too few for the quorum."""
        target, member = self._places[link]
        if self._left_out(target, link.reason or "it could not be had", now):
            self._go_on(now)
            return
        if not target.fans:
            raise not_to_be_had(link, self.disconnect_receipt)
        self._quorum.give_up(target, member, link.reason, now)
        self._go_on(now)

    def denied(self, link: Link, error: Denied, now: float) -> bytes | None:
        """Return the ERROR with which a broker refused CONNECT, or None if others are enough. May raise `Refused`."""
        target, member = self._places[link]
        reason = f"it {error.reason}"
        if self._left_out(target, reason, now):
            self._go_on(now)
            return None
        try:
            self._quorum.give_up(target, member, reason, now)
            self._go_on(now)
        except StompError:
            if self.flowing and target.fans:
                raise
            return error.wire
        return None

    def waits(self, link: Link) -> bool:
        """Return whether frames wait until this link's broker can be written to."""
        return self._places[link][1].waits

    def unanswered(self) -> list[Link]:
        """Return the links whose brokers still owe an answer. They may be leaving their brokers."""
        there = [each for each in self._needed if each.up or each.link.leaving]
        return [each.link for each in there if not each.safe or self._awaits(each)]

    @property
    def lacking(self) -> list[Link]:
        """The links of the groups that have not confirmed everything, even if a quorum has it."""
        return [member.link for member in self._needed if not member.safe]

    def write_off(self, link: Link) -> int:
        """Give a group up, and expect no more answers from it. Return the number of SENDs that the group did not
        confirm, including SENDs that it was not sent.
        """
        target, member = self._places[link]
        if target.spare:
            self._forget_copies(target, member)
        member.given_up = True
        member.reason = link.reason
        self._quorum.confirmations.leave(member)
        return member.write_off()

    def _forget_copies(self, target: Target, member: Member) -> None:
        """Forget the copies that a broker has not confirmed, and count them as failed."""
        self.router.fault(target, "", member.write_off())

    def _left_out(self, target: Target, reason: str, now: float) -> bool:
        """Return whether the session goes on without the NEW of a move, at OLD, until the next phase. OLD then gets
        what NEW did not confirm. Raises as `to_broker` does.
        """
        router = self.router
        if target.upstream.name in router.left_out:
            return True
        if not router.replaceable(target):
            return False
        if self.disconnect in (DisconnectState.SENT, DisconnectState.CONFIRMED) and not target.spare:
            return False  # nothing may follow DISCONNECT
        spare = target.spare
        router.leave_out(target, reason)
        decided: list[Confirmation[Member]] = []
        for member in target.members:
            self._outbox.put(given_up(member.link.group, member.link.broker, target.upstream, reason))
            decided += self._quorum.released(member)
            decided += self._quorum.confirmations.replaced(member)
            member.reason = reason
            if spare:
                self._forget_copies(target, member)
        self._dispatch.replace(target)
        for member in target.members:
            member.link.end()
        self._quorum.announce(decided, now)
        return True

    def finish(self, now: float) -> None:
        """The client will send no more: send DISCONNECT as soon as everything that was sent before is safe."""
        self._begin_disconnect(self._session.name + GOODBYE)
        self._go_on(now)

    def _begin_disconnect(self, receipt: bytes | None) -> None:
        self._asked = receipt
        self._client.enter(LegState.LEAVING)
        self.disconnect = DisconnectState.WAITING

    def stop_messages(self) -> None:
        """From now on, send the client no MESSAGE and no RECEIPT for its DISCONNECT."""
        self._ends = True

    def send_disconnect(self, now: float) -> None:
        """Send the waiting DISCONNECT to all brokers that are `served`. The other groups stay `lacking`.
        Raises `StompError` if the served brokers lack SENDs that only the others were given, or refused them.
        """
        for target in self.router.targets:
            if target.wanting and not (self._ends or target.spare):
                if not target.fans:
                    raise broker_lost(target.upstream, self.disconnect_receipt)
                raise target.failure(target.wanting, self.disconnect_receipt)
        confirmations = self._quorum.confirmations
        away = [member for _, member in self._places.values() if not (member.given_up or member.served)]
        self._quorum.announce(
            [each for member in away for each in confirmations.leave(member, leniently=True)], now
        )
        self.disconnect = DisconnectState.SENT
        for target in self.router.targets:
            there = [member for member in target.live if member.served]
            for member in target.live:
                if member not in there:
                    if target.spare:
                        self._forget_copies(target, member)
                    member.link.end()
            for member in there:
                self._disconnect_from(member, now)
            if self._asked is not None and there and not target.spare:
                self._awaited += 1
                owing = [each for each in there if confirmations.owing(each) or each.holds]
                enough, hidden = min(target.quorum, len(there)), self._is_ours(self._asked)
                confirmations.ask(Confirmation(self._asked, there, enough, owing, hidden=hidden))

    def _disconnect_from(self, member: Member, now: float) -> None:
        if self._frame:
            member.send_disconnect(member.resender.spelled(self._frame), now)
        elif self._asked is not None:
            to_broker = member.link.connection.bridges.to_broker
            member.send_disconnect(to_broker.leave(self._asked, member.session), now)

    def _is_ours(self, receipt: bytes | None) -> bool:
        """Return whether a receipt is for the DISCONNECT that the relay sent in place of the client's."""
        return receipt is not None and not self._frame and receipt == self._asked

    def _awaits(self, member: Member) -> bool:
        """Return whether a member's broker was sent DISCONNECT and has not confirmed it."""
        receipt, awaited = self._asked, self._quorum.confirmations.awaited
        return member.disconnecting and receipt is not None and awaited(member, receipt) is not None

    def _disconnected(self, member: Member, receipt: bytes) -> bool:
        """Record that a broker confirmed DISCONNECT. Return whether enough brokers have now. If not, leave this one."""
        if not self._awaits(member):
            return False  # ActiveMQ may answer twice
        member.link.proved()
        self._awaited -= len(self._quorum.confirmations.confirm(member, receipt))
        if self.disconnect is DisconnectState.SENT and not self._awaited:
            self.disconnect = DisconnectState.CONFIRMED
            return True
        member.link.end()  # what it closes now is no loss
        return False

    def blocked(self, leg: Leg) -> None:
        """Keep frames for this broker until `unblocked`; other brokers continue."""
        self._member(leg).blocked = True

    def unblocked(self, leg: Leg, now: float) -> None:
        """Send the frames that waited for this broker."""
        self._member(leg).blocked = False
        self._go_on(now)

    def _member(self, leg: Leg) -> Member:
        return next(member for link, (_, member) in self._places.items() if link.state.leg is leg)

    def _go_on(self, now: float) -> None:
        """Write the collected frames, give the client its receipts, and send a waiting DISCONNECT if all is safe."""
        decided: list[Confirmation[Member]] = []
        failures: list[StompError] = []
        for target, member in [*self._places.values()]:
            try:
                try:
                    member.flush(now)
                except Refused as error:
                    self._unable(target, member, error, now)
                if target.fans:
                    self._quorum.poisoned(target, member, now, ends=self._ends)
                elif target.optional and (refused := member.link.take_refused()):
                    self._unable(target, member, refused[0], now)
            except StompError as error:
                failures.append(error)
            decided += self._quorum.released(member)
            member.link.pace(crowded=self.crowded)
            if not target.optional and target.upstream is not self.router.main.upstream and target.full:
                self.router.fault(target, "more waits for it than resend_buffer", 0)
        for failure in failures:
            raise failure
        self._quorum.announce(decided, now)
        if self.disconnect is DisconnectState.WAITING:
            if self.safe and any(member.up for member in self._needed):
                self.send_disconnect(now)
        elif self.disconnect is DisconnectState.SENT:
            for member in self._needed:
                if member.up and not member.disconnecting and member.safe:
                    self._disconnect_from(member, now)

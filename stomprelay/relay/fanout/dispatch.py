"""Which brokers a client's frame goes to: by routes and moves, by what the frame names, and by its transaction."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from stomprelay.relay.bridge import RECEIPTS, named, said
from stomprelay.relay.effects import Outbox, missed
from stomprelay.relay.fanout.quorum import Confirmation, Confirmations
from stomprelay.relay.fanout.router import CumulativeAck, Member, Router, Target, TransactionTarget, Way
from stomprelay.relay.model.mapping import durable
from stomprelay.relay.model.move import COPY, Mark, Move
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.delivery import Delivery
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import CUMULATIVE, Subscription, Subscriptions
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import ProtocolError, Refused, StompError
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import (
    ABORT,
    ACK,
    BEGIN,
    COMMIT,
    CONTENT_LENGTH,
    DESTINATION,
    ID,
    NACK,
    RECEIPT_HEADER,
    SEND,
    SUBSCRIBE,
    SUBSCRIPTION,
    TRANSACTION,
    UNSUBSCRIBE,
)

_ASKING: Final = re.compile(rb"\n%b:[^\n]*" % RECEIPT_HEADER)
"""Matches a header line that asks for a receipt, and the LF in front of it."""
VOTES: Final = RECEIPTS + b"vote-"
"""The middle of the relay's receipt ids for a quorum, between the session's name and a number."""


@dataclass(slots=True, eq=False, repr=False)
class Dispatch:
    """Sends each frame of a client to the members that it is for, and opens a confirmation for each receipt. `number`:
    that of the frame, counted from CONNECT, which is 0. The caller must set it before `send`.
    """

    _session: Session
    _outbox: Outbox
    _router: Router
    _confirmations: Confirmations[Member]
    number: int = 0
    _copies: int = 0
    _asked: int = 0
    _opened: list[Confirmation[Member]] = field(default_factory=list)
    _subscribed: dict[bytes, tuple[Target, ...]] = field(default_factory=dict)

    def send(self, frame: Frame) -> None:
        """Send a client's frame that is not DISCONNECT. Raises `StompError` for a frame that cannot be sent."""
        memo = self._router.memo
        if memo is not None and memo[0] is frame.memo:
            memo[1].send(frame)
            return
        self._router.memo = None
        self._opened.clear()
        try:
            receipt = frame.header(RECEIPT_HEADER, self._session.dialect)
            if frame.command is SEND:
                self._send(frame, receipt)
            else:
                _ORDERS[frame.command](self, frame, receipt)
        except StompError:
            for confirmation in self._opened:
                self._confirmations.withdraw(confirmation)
            raise

    def _header(self, frame: Frame, name: bytes) -> bytes | None:
        return frame.header(name, self._session.dialect)

    def _ask(
        self, receipt: bytes | None, target: Target, members: list[Member], *, crucial: bool = False
    ) -> None:
        """Open a confirmation by these members. The target's other members count as if they had refused."""
        if receipt is not None:
            missing = [member for member in target.members if member not in members]
            self._open(Confirmation(receipt, members, target.quorum, (), missing, crucial=crucial))

    def _ask_one(self, receipt: bytes | None, member: Member, *, crucial: bool = False) -> None:
        if receipt is not None:
            self._open(Confirmation(receipt, [member], 1, crucial=crucial))

    def _open(self, confirmation: Confirmation[Member]) -> None:
        self._confirmations.ask(confirmation)
        self._opened.append(confirmation)

    def _tell(self, target: Target, frame: Frame, receipt: bytes | None, *, crucial: bool = False) -> None:
        """Send a frame to all groups of a target that are not given up."""
        members = target.live
        self._ask(receipt, target, members, crucial=crucial)
        for member in members:
            member.send(frame)

    # Messages

    def _send(self, frame: Frame, receipt: bytes | None) -> None:
        destination = self._header(frame, DESTINATION) or b""
        name = self._header(frame, TRANSACTION)
        way = self._router.way(destination)
        placement = self._place(name, self._meant(way, name), receipt, way.either)
        target = way.target if placement is None else placement.target
        if way.copy is not None and way.move is not None and way.copy is not target:
            self._copy(way.copy, way.move, frame, placement)
        if not target.copies(destination):
            member = target.primary if target.fans else target.members[0]
            if target.fans and placement is not None:  # in a transaction it is always the same member
                member = next((each for each in target.live if each in placement.bearing), member)
                placement.bearing.add(member)
            self._ask_one(receipt, member, crucial=placement is None)
            member.sole = True
            member.send(frame)
            if not target.fans and receipt is None and name is None and way.copy is None:
                self._router.memo = None if frame.memo is None else (frame.memo, member)
            return
        members = target.receivers()
        for member in [each for each in target.live if each not in members]:
            self._session.lose("fanout_overflowed")
            if not member.short:  # only the first SEND that it misses is logged
                self._outbox.put(missed(member.link.group, target.upstream))
            member.reason = "its queue was full"
            member.short = True
            if placement is not None:
                placement.short.add(member)
        self._copies += 1
        frame = frame.with_header(COPY, b"%b-%d" % (self._session.name, self._copies))
        self._ask(receipt, target, members, crucial=placement is None)
        for member in members:
            member.send(frame)

    def _copy(self, target: Target, move: Move, frame: Frame, placement: TransactionTarget | None) -> None:
        """Send the NEW of a move a copy of a SEND. A failure is only counted."""
        member = target.members[0]
        if move.stopped:
            return
        if member.full:
            move.fault("more waits for it than resend_buffer")
            return
        try:
            if placement is not None and member not in placement.copies:
                member.compose(BEGIN, placement.headers)
                placement.copies.append(member)
            body = memoryview(frame.data)[frame.body : frame.end]
            mark = Mark.of(self._session.name, self.number, body).value
            lines = _ASKING.sub(b"", frame.data[frame.head - 1 : frame.body])
            member.send(frame.with_lines(lines).with_header(COPY, mark))
            move.copied += 1
        except StompError as error:
            move.fault(f"{error.message}: {error.detail}" if error.detail else error.message)

    # Subscriptions

    def _subscribe(self, frame: Frame, receipt: bytes | None) -> None:
        way = self._router.way(self._header(frame, DESTINATION) or b"")
        id = self._header(frame, ID)
        if id is not None and not {*self._subscribed.get(id, way.subscribed)} & {*way.subscribed}:
            raise ProtocolError("SUBSCRIBE repeats the id of an open subscription", receipt=receipt)
        self._expect(way.subscribed, id or b"")
        self._tell_each(way.subscribed, frame, receipt)
        if id is not None and self._router.forks:
            self._subscribed[id] = way.subscribed
        if way.move is not None:
            self._met(frame.headers(self._session.dialect), way)

    def _unsubscribe(self, frame: Frame, receipt: bytes | None) -> None:
        id = self._header(frame, ID)
        if id is None:
            destination = self._header(frame, DESTINATION) or b""
            targets = self._router.way(destination).subscribed
            if self._router.phases:
                targets = tuple([each for each, _ in self._placed_at(None, destination)]) or targets
        else:
            targets = self._subscribed.pop(id, (self._router.main,))
        if self._router.phases:
            placed = self._placed_at(id, self._header(frame, DESTINATION) or b"")
            place = next((each.destination for _, each in placed), b"")
            ended = durable(frame.headers(self._session.dialect), self._session.client_id, place)
            for move in self._router.phases if ended else ():
                move.met(ended, None)
        self._tell_each([each for each in targets if each.live] or [self._router.main], frame, receipt)

    def _tell_each(self, targets: Iterable[Target], frame: Frame, receipt: bytes | None) -> None:
        """Send a SUBSCRIBE or UNSUBSCRIBE to several targets. Only the first is asked for the receipt."""
        first, *others = targets
        self._tell(first, frame, receipt)
        if others:
            headers = [each for each in frame.headers(self._session.dialect) if each[0] != RECEIPT_HEADER]
            for target in others:
                self._compose(target, frame.command, headers)

    def _compose(self, target: Target, command: bytes, headers: Headers) -> None:
        """Send a frame in the client's name. If that fails, the session does without the target."""
        try:
            for member in target.live:
                member.compose(command, headers)
        except StompError as error:
            self._router.fault(target, error.message)

    @staticmethod
    def _expect(targets: Iterable[Target], id: bytes) -> None:
        """A subscription with this id is about to be made at these targets: its MESSAGEs are not late."""
        for target in targets:
            for member in target.live:
                member.ended.discard(id)

    def _placed_at(self, id: bytes | None, destination: bytes) -> Iterator[tuple[Target, Subscription]]:
        """Yield the targets with an open subscription of this id, or (None) to this destination without an id."""
        for target in self._router.targets:
            for member in target.live[:1]:
                found = _same(member.session.subscriptions, id, destination)
                if found is not None:
                    yield target, found

    # Moves

    def follow(self) -> None:
        """Do what changed phases of moves ask for, as far as it can be done now."""
        while self._router.step():
            pass
        waits = any(member.waits for _, member in self._router.places.values())
        self._router.unsettled = waits or not self._resubscribe()
        self.meet()

    def meet(self) -> None:
        """Record the client's durable subscriptions in their moves, because a phase or a broker of theirs is there."""
        for _, member in self._router.places.values() if self._router.phases else ():
            for each in member.session.subscriptions:
                self._met(each.headers, self._router.way(each.destination))

    def _met(self, headers: Headers, way: Way) -> None:
        """Record a subscription in the move of its destination, if it is durable."""
        move = way.move
        if move is None or self._router.phases[move] is not move.phase:
            return
        first = dict(reversed(headers)).get
        place = first(DESTINATION) or b""
        if name := durable(headers, self._session.client_id, place):
            members = [member for target in way.subscribed for member in target.live]
            there = [each.up and _same(each.session.subscriptions, first(ID), place) for each in members]
            move.met(name, len(way.subscribed) > 1 and all(there))

    def _resubscribe(self) -> bool:
        """Make each subscription where it should be now, and end it elsewhere. Return whether all is done."""
        done = True
        found: dict[bytes | tuple[bytes, int], list[tuple[Target, Subscription]]] = {}
        for target in self._router.targets:
            for member in target.live[:1]:
                unnamed: dict[bytes, int] = {}
                for each in member.session.subscriptions:
                    key: bytes | tuple[bytes, int] = each.id
                    if not each.named:
                        number = unnamed[each.destination] = unnamed.get(each.destination, 0) + 1
                        key = each.destination, number
                    found.setdefault(key, []).append((target, each))
        for places in found.values():
            subscription, there = places[0][1], [target for target, _ in places]
            wanted = self._router.way(subscription.destination).subscribed
            headers = [each for each in subscription.headers if each[0] != RECEIPT_HEADER]
            missing = [each for each in wanted if each not in there]
            ready = not any(member.ending for target in missing for member in target.live)
            self._expect(missing if ready else (), subscription.id)
            for target in missing if ready else ():
                self._compose(target, SUBSCRIBE, headers)
            ended = [ready and self._end(*each) for each in places if each[0] not in wanted]
            done = done and ready and all(ended)
            if subscription.named:
                now = [*wanted] * ready + there * (not (ready and all(ended)))
                self._subscribed[subscription.id] = tuple(dict.fromkeys(now))
        return done

    def _end(self, target: Target, subscription: Subscription) -> bool:
        """End a subscription, unless deliveries on it await their ACK. Return whether it was ended."""
        id = subscription.id if subscription.named else None
        own = [
            (member, found)
            for member in target.live
            if (found := _same(member.session.subscriptions, id, subscription.destination)) is not None
        ]
        for member, found in own:
            if member.session.transactions or member.session.ledger.owes(found):
                return False
        header = (DESTINATION, subscription.destination) if id is None else (ID, id)
        try:
            for member, found in own:
                member.end(found, header)
        except StompError as error:
            self._router.fault(target, error.message)
        return True

    def replace(self, target: Target) -> None:
        """Send what only this target was given, which was left out, to the target that takes its place."""
        frames: list[Frame] = []
        for member in target.members:
            for each in member.session.subscriptions:
                others = self._placed_at(each.id if each.named else None, each.destination)
                if all(other is target for other, _ in others):
                    self._subscribed.pop(each.id, None)
                    headers = [header for header in each.headers if header[0] != RECEIPT_HEADER]
                    wire = compose(SUBSCRIBE, headers, self._session.dialect)
                    frames += member.resender.offline.read(wire)
            frames += member.take()
            member.given_up = True
        for frame in frames:
            self.send(frame)

    def _acknowledge(self, frame: Frame, receipt: bytes | None) -> None:
        """Send an ACK or NACK to the message's broker; if it is cumulative, also to brokers of earlier messages."""
        target, member, delivery = self._origin(frame, receipt)
        name = self._header(frame, TRANSACTION)
        placement = self._place(name, target, receipt)
        if placement is not None:
            placement.bearing.add(member)
        self._ask_one(receipt, member)
        if member.given_up:
            self._session.lose("acks_stale")
            if receipt is not None:
                member.resender.unconfirmed.given.append(receipt)
        else:
            member.send(frame)
        if delivery is None or delivery.subscription.ack != CUMULATIVE:
            return
        ack = CumulativeAck(frame.command, delivery.subscription.id, delivery.order, name)
        each = delivery.subscription
        acks = [(other, ack) for other in target.live if other is not member]
        if self._router.phases and name is None:  # a transaction is at one upstream only
            for place, found in self._placed_at(each.id if each.named else None, each.destination):
                if place is not target:
                    acks += [(other, ack._replace(subscription=found.id)) for other in place.live]
        for other, ack in acks:
            if other.acknowledge(ack) and placement is not None:
                placement.bearing.add(other)

    def _origin(self, frame: Frame, receipt: bytes | None) -> tuple[Target, Member, Delivery | None]:
        """Return the target, member and delivery that an ACK or NACK most likely names (see `Delivery.rank`)."""
        dialect = self._session.dialect
        token = said(frame, dialect)
        found: tuple[Target, Member, Delivery] | None = None
        for target, member in self._router.places.values():
            delivery = named(frame, dialect, member.session.ledger)
            if delivery is None:
                continue
            if delivery.token == token:
                return target, member, delivery
            if found is None or (delivery.rank, delivery.order) < (found[2].rank, found[2].order):
                found = target, member, delivery
        if found is not None:
            return found
        for target, member in self._router.places.values():
            if member.session.ledger.unsure:
                return target, member, None  # its ledger may have forgotten the delivery
        for target, member in self._router.places.values():
            if member.session.ledger.dropped:
                return target, member, None  # its broker may still know the delivery
        subscription = self._header(frame, SUBSCRIPTION)
        target = self._subscribed.get(subscription or b"", (self._router.main,))[0]
        if target.fans:
            command = frame.command.decode()
            raise ProtocolError(f"{command} names no message that awaits one", receipt=receipt)
        return target, target.members[0], None

    # Transactions

    def _meant(self, way: Way, name: bytes | None) -> Target:
        """Return where a SEND goes if this transaction may go there. Subscriptions are perhaps at both upstreams of a
        move: then it goes where the transaction is, or where the oldest message awaits its ACK, which follows.
        """
        placement = None if name is None else self._router.placed.get(name)
        if placement is None or len(way.subscribed) == 1:
            return way.target
        if placement.used:
            return placement.target if placement.target in way.subscribed else way.target
        owed = [
            (oldest, number, target)
            for number, target in enumerate(way.subscribed)
            for member in target.live
            if (oldest := member.session.ledger.oldest) is not None
        ]
        return min(owed)[2] if owed else way.target

    def _place(
        self, name: bytes | None, target: Target, receipt: bytes | None, either: tuple[Upstream, ...] = ()
    ) -> TransactionTarget | None:
        """Put this transaction on `target`, and return where it is: if it was used at one of the upstreams `either`
        before a move went on, it stays there. Raises `ProtocolError` if it is used elsewhere.
        """
        placement = None if name is None else self._router.placed.get(name)
        if name is None or placement is None:
            return None
        older = placement.used and placement.turned != self._router.turned
        stays = older and any(each is placement.target.upstream for each in either)
        if placement.target is not target and not stays:
            if placement.used:
                shown = name[:64].decode("utf-8", "backslashreplace")
                where = f"{shown} is at upstream {placement.target}, this belongs to upstream {target}"
                raise ProtocolError("a transaction cannot span upstreams", where, receipt=receipt)
            for member in target.live:
                member.compose(BEGIN, placement.headers)
            for member in placement.target.live:
                member.compose(ABORT, [(TRANSACTION, name)])
            placement.target = target
        placement.used = True
        return placement

    def _begin(self, frame: Frame, receipt: bytes | None) -> None:
        headers = frame.headers(self._session.dialect)
        name = next((value for key, value in headers if key == TRANSACTION), None)
        if name is None or name in self._router.placed:
            # Brokers refuse this in their own words.
            self._tell(
                self._router.placed[name].target if name in self._router.placed else self._router.main,
                frame,
                receipt,
            )
            return
        most = self._session.most_transactions
        if len(self._router.placed) >= most:
            raise ProtocolError("too many open transactions", f"the limit is {most}", receipt=receipt)
        ours = [each for each in headers if each[0] not in (RECEIPT_HEADER, CONTENT_LENGTH)]
        placement = TransactionTarget(self._router.main, ours, self._router.turned)
        try:
            self._session.kept.take(placement.cost)
        except StompError as error:
            raise error.asked_for(receipt) from None
        self._router.placed[name] = placement
        self._tell(self._router.main, frame, receipt)

    def _ended(self, name: bytes | None, command: bytes) -> TransactionTarget | None:
        """Forget a transaction that ended by this command, and return where it was. Its copies end, too."""
        placement = None if name is None else self._router.placed.pop(name, None)
        if placement is not None:
            self._session.kept.give(placement.cost)
            for member in [each for each in placement.copies if not each.given_up]:
                with suppress(StompError):
                    member.compose(command, [(TRANSACTION, name or b"")])
        return placement

    def _abort(self, frame: Frame, receipt: bytes | None) -> None:
        placement = self._ended(self._header(frame, TRANSACTION), ABORT)
        self._tell(self._router.main if placement is None else placement.target, frame, receipt)

    def _commit(self, frame: Frame, receipt: bytes | None) -> None:
        """Send a COMMIT to the members that have the whole transaction. The COMMIT needs the same quorum as a SEND."""
        name = self._header(frame, TRANSACTION)
        placement = self._ended(name, COMMIT)
        if name is None or placement is None or not placement.target.fans:
            target = self._router.main if placement is None else placement.target
            self._tell(target, frame, receipt, crucial=True)
            return
        target, spoiled = placement.target, placement.spoiled(name)
        able = [member for member in target.members if member not in spoiled]
        if len(able) < target.quorum or not placement.bearing.issubset(able):
            why = "; ".join(f"group {member}: {member.reason}" for member in spoiled)
            raise Refused("the transaction cannot be committed", why, receipt=receipt)
        hidden = receipt is None
        if receipt is None:
            self._asked += 1
            receipt = b"%b%b%d" % (self._session.name, VOTES, self._asked)
            frame = frame.with_header(RECEIPT_HEADER, receipt)
        confirmation = Confirmation(
            receipt, able, target.quorum, placement.bearing, spoiled, crucial=True, hidden=hidden
        )
        self._open(confirmation)
        for member in able:
            member.send(frame)
        for member in spoiled:
            if not member.given_up:
                member.compose(ABORT, [(TRANSACTION, name)])


def _same(subscriptions: Subscriptions, id: bytes | None, destination: bytes) -> Subscription | None:
    """Return the open subscription with this id; without an id, the oldest one to this destination. None: neither."""
    return subscriptions.oldest(destination) if id is None else subscriptions.named(id)


_ORDERS: Final[dict[bytes, Callable[[Dispatch, Frame, bytes | None], None]]] = {
    SUBSCRIBE: Dispatch._subscribe,
    UNSUBSCRIBE: Dispatch._unsubscribe,
    ACK: Dispatch._acknowledge,
    NACK: Dispatch._acknowledge,
    BEGIN: Dispatch._begin,
    COMMIT: Dispatch._commit,
    ABORT: Dispatch._abort,
}

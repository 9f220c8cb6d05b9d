"""Deliveries that await their ACK. The relay keeps this account if the two sides name deliveries differently, or if
the session may move to a broker that does not know the deliveries. For the newest deliveries only the names are kept
(`recent`). A range of deliveries is settled or lost in one step, whatever its length.
"""

from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from heapq import heapify, heappop, heappush
from operator import itemgetter
from sys import maxsize
from typing import Final

from stomprelay.session.delivery import (
    THING,
    TOKEN,
    BrokerConnection,
    Cumulative,
    Delivery,
    DeliveryNumbers,
    Individual,
    TakenPositions,
    UnsettledDeliveries,
    is_token,
)
from stomprelay.session.recent import Recent, Row
from stomprelay.session.subscriptions import CUMULATIVE, Subscription
from stomprelay.wire.dialect import V1_2, Dialect

_RANKS: Final = 3
_MESSAGE_ID: Final = itemgetter(1)
_ACK_AT: Final = 2
_ACK: Final = itemgetter(_ACK_AT)


def _cost(delivery: Delivery) -> int:
    """Return how many bytes a delivery costs."""
    return THING + len(delivery.message_id) + len(delivery.ack or b"")


def _ended_cost(account: UnsettledDeliveries) -> int:
    """Return how many bytes an ended subscription costs while some of its deliveries are unsettled."""
    return THING + len(account.subscription.id) + len(account.subscription.destination)


@dataclass(slots=True, eq=False, repr=False)
class _Line:
    """The deliveries that have the same name, ordered by `rank` and then by age. A delivery that is no longer pending,
    or whose rank has changed, stays until it is the first, and is then removed.
    """

    _waiting: list[list[tuple[int, Delivery]]] = field(default_factory=lambda: [[] for _ in range(_RANKS)])
    _size: int = 0
    count: int = 0
    """The number of deliveries that are not gone."""

    def add(self, delivery: Delivery) -> None:
        """Add a delivery."""
        self.count += 1
        self.put(delivery)

    def put(self, delivery: Delivery) -> None:
        """Put back a delivery that was removed while a transaction held it."""
        heappush(self._waiting[delivery.rank], (delivery.order, delivery))
        self._size += 1

    def remove(self) -> None:
        """Record that one of the deliveries is gone."""
        self.count -= 1
        if self._size > 2 * self.count + 16:
            self._waiting = [[each for each in waiting if not each[1].gone] for waiting in self._waiting]
            for waiting in self._waiting:
                heapify(waiting)
            self._size = sum(map(len, self._waiting))

    def first(self) -> Delivery | None:
        """Return the pending delivery that an ACK with this name settles; None if there is none."""
        for rank, waiting in enumerate(self._waiting):
            while waiting:
                delivery = waiting[0][1]
                if delivery.pending and delivery.rank == rank:
                    return delivery
                heappop(waiting)
                self._size -= 1
                if delivery.pending:
                    self.put(delivery)
                elif not delivery.gone:
                    delivery.unsettled.call_again(delivery, self.put)
        return None


class _SameId:
    """The deliveries of one message-id: all, and those of each subscription. `len`: the number of subscriptions."""

    __slots__ = ("_every", "_lines")

    def __init__(self, first: Delivery) -> None:
        self._every = _Line()
        self._lines: dict[bytes, _Line] = {}
        self.add(first)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, delivery: Delivery) -> None:
        self._every.add(delivery)
        self._lines.setdefault(delivery.subscription.id, _Line()).add(delivery)

    def remove(self, delivery: Delivery) -> bool:
        """Record that a delivery is gone. Return whether it was the last one with the message-id."""
        self._every.remove()
        line = self._lines[delivery.subscription.id]
        line.remove()
        if not line.count:
            del self._lines[delivery.subscription.id]
        return not self._every.count

    def first(self, subscription: bytes | None) -> Delivery | None:
        line = self._every if subscription is None else self._lines.get(subscription)
        return None if line is None else line.first()


@dataclass(slots=True, eq=False, repr=False)
class Namesakes:
    """The deliveries of a ledger by message-id, until they are gone. Several deliveries may have the same id: a broker
    gives the same id to all subscriptions of a topic, and gives a message the same id when it sends the message again.
    `shared`: the cost of shared ids, in `THING`s.
    """

    shared: int = 0
    _named: dict[bytes, Delivery | _SameId] = field(default_factory=dict)

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self._named

    def __len__(self) -> int:
        return len(self._named)

    def has_none_of(self, message_ids: Iterable[bytes]) -> bool:
        """Whether no delivery has one of these message-ids."""
        return self._named.keys().isdisjoint(message_ids)

    def add(self, delivery: Delivery) -> None:
        """Add a delivery."""
        before = self._named.setdefault(delivery.message_id, delivery)
        if before is delivery:
            return
        listed = len(before) if isinstance(before, _SameId) else 0
        if not isinstance(before, _SameId):
            before = self._named[delivery.message_id] = _SameId(before)
        before.add(delivery)
        self.shared += len(before) - listed

    def remove(self, delivery: Delivery) -> None:
        """Forget a delivery that is gone."""
        named = self._named[delivery.message_id]
        if isinstance(named, _SameId):
            listed = len(named)
            last = named.remove(delivery)
            self.shared -= listed - len(named)
            if not last:
                return
        del self._named[delivery.message_id]

    def first(self, message_id: bytes, subscription: bytes | None) -> Delivery | None:
        """Return the pending delivery that an ACK of this message-id is for: the oldest one of the lowest rank. With a
        `subscription` id, only deliveries of that subscription count. None if none is pending.
        """
        named = self._named.get(message_id)
        if isinstance(named, _SameId):
            return named.first(subscription)
        if named is None or not named.pending or subscription not in (None, named.subscription.id):
            return None
        return named


@dataclass(slots=True, eq=False, repr=False)
class Ledger:
    """The unsettled deliveries of one client: no ACK or NACK has come, or only one that belongs to an open
    transaction.

    When the ledger is `full`, do not read from the broker until the ledger is not `crowded` any more. `orders`: gives
    deliveries their numbers; the client's ledgers with several brokers share it. `dialect`: the client's. `recent`:
    the newest deliveries. `forgot`: deliveries of lost brokers were forgotten to make room, so an ACK with an unknown
    name may be for one of them. `dropped`: deliveries of ended subscriptions were forgotten, and the present broker
    may still await their ACKs.
    """

    _most: int
    _orders: DeliveryNumbers = field(default_factory=DeliveryNumbers)
    dialect: InitVar[Dialect] = V1_2
    forgot: bool = False
    dropped: bool = False
    recent: Recent = field(init=False)
    _again: bool = False
    _size: int = 0
    _connection: BrokerConnection = field(default_factory=BrokerConnection)
    _accounts: dict[Subscription, UnsettledDeliveries] = field(default_factory=dict)
    _replaced: dict[Subscription, Individual] = field(default_factory=dict)
    _by_order: dict[int, Delivery] = field(default_factory=dict)
    _by_ack: dict[bytes, Delivery] = field(default_factory=dict)
    _tokened: dict[bytes, Delivery] = field(default_factory=dict)
    _named: Namesakes = field(default_factory=Namesakes)
    _hidden: Namesakes = field(default_factory=Namesakes)
    _held: dict[bytes, list[tuple[UnsettledDeliveries, TakenPositions]]] = field(default_factory=dict)
    _pending: int = 0
    _lost: int = 0
    _expected: int = 0
    _in_doubt: int = 0
    _ended: dict[UnsettledDeliveries, None] = field(default_factory=dict)
    _stale: bool = False

    def __post_init__(self, dialect: Dialect) -> None:
        self.recent = Recent(dialect, self._orders)

    def __len__(self) -> int:
        return self._pending + len(self.recent)

    @property
    def cost(self) -> int:
        """The bytes that the ledger costs."""
        return self._size + THING * (self._named.shared + self._hidden.shared) + self.recent.size

    @property
    def awaited(self) -> int:
        """The number of deliveries for which the client owes an ACK, or a COMMIT of it: those of open subscriptions."""
        return self._expected + self._in_doubt + len(self.recent)

    @property
    def full(self) -> bool:
        """Whether `awaited` is `most` or more."""
        return self.awaited >= self._most

    @property
    def crowded(self) -> bool:
        """Whether `awaited` is more than half of `most`."""
        return self.awaited * 2 > self._most

    @property
    def expecting(self) -> bool:
        """Whether an open subscription has a delivery that awaits its ACK and is not lost."""
        return self._expected > 0 or len(self.recent) > 0

    def owes(self, subscription: Subscription) -> bool:
        """Whether the present broker awaits an ACK of a delivery on this subscription."""
        self._list_recent()
        account = self._accounts.get(subscription)
        return account is not None and account.live > 0

    @property
    def unsure(self) -> bool:
        """Whether an ACK with an unknown name may be for a forgotten delivery, or for one that another ACK settled."""
        return self.forgot or self._again

    def delivered(self, rows: bytes, width: int, count: int) -> bool:
        """Record MESSAGEs, in rows of `width` values. Return False, and record nothing, if each must go to `noted`."""
        room = self._most - self._pending - self._in_doubt - len(self.recent)
        if self.forgot or ((self._ended or self._lost) and count > room):
            return False  # `noted` makes room
        if self._by_order and self._knows(self.recent.decoded(rows, width)):
            return False
        return self.recent.add(rows, width)

    def _knows(self, rows: list[Row]) -> bool:
        """Whether a delivery outside `recent` already has one of the decoded names in these rows."""
        if not self._named.has_none_of(map(_MESSAGE_ID, rows)):
            return True
        return len(rows[0]) > _ACK_AT and not self._by_ack.keys().isdisjoint(map(_ACK, rows))

    def values(self, names: bytes, first: int, stop: int) -> bytes | None:
        """Return the values `first` up to `stop` of the rows with these names; None if the ACKs must be looked at."""
        return (
            None if self.forgot or self._tokened or self._hidden else self.recent.values(names, first, stop)
        )

    def acknowledged(self, names: bytes) -> bool:
        """Settle ACKs or NACKs of these names, outside transactions. Return whether all may pass as they came. If not,
        the caller must look at each ACK. Names that were settled here are then unknown to the ledger.
        """
        # If one of these is true, broker and client may use the same name for different deliveries.
        if self.forgot or self._tokened or self._hidden:
            self._list_recent()
            return False
        # An ACK that is settled here and then looked at would not pass if the ledger is `unsure`.
        if (self._by_order or self._again) and self.recent.values(names) is None:
            return False
        found, covered = self.recent.settle(names)
        for subscription in covered:
            account = self._accounts.get(subscription)
            if account is not None and account.pending:
                self._again = self._again or account.lost > 0
                self._take(account, account.take_all())
        return found

    def passed_over(self, subscription: Subscription, message_id: bytes, ack: bytes | None) -> bool:
        """Record a MESSAGE on a cumulative subscription that the client does not get. Return False if the caller must
        acknowledge it at once, because no ACK of the client is to come before the next delivery.
        """
        live = self.live
        if not (live or self._in_doubt):
            return False
        last = self.latest(subscription, maxsize)
        # Brokers may count the messages of all subscriptions together.
        if last is not None and not (last.lost or self._in_doubt) and last.unsettled.live == live:
            last.covers = message_id, ack
        return True

    @property
    def live(self) -> int:
        """The number of pending deliveries whose broker awaits an ACK."""
        self._list_recent()
        return self._pending - self._lost

    @property
    def oldest(self) -> int | None:
        """The number of the oldest delivery that awaits its ACK and is not lost; None if there is none."""
        self._list_recent()
        owed = (order for order, each in self._by_order.items() if each.pending and not each.lost)
        return next(owed, None)

    def _list_recent(self) -> None:
        """Make a `Delivery` of each recent delivery, with the subscription that it came on."""
        for order, subscription, message_id, ack in self.recent.take():
            self._add(order, subscription, message_id, ack, open=True)

    def noted(
        self,
        subscription: Subscription,
        message_id: bytes,
        ack: bytes | None,
        *,
        tokened: bool = False,
        hidden: bool = False,
    ) -> Delivery:
        """Record a MESSAGE and return its delivery. `tokened`, `hidden`: see `Delivery`."""
        self._list_recent()
        if self._pending + self._in_doubt >= self._most:
            self._make_room()
        account = self._accounts.get(subscription)
        if self._lost and isinstance(account, Cumulative):
            self._replace(account, message_id)
        order = self._orders.give()
        return self._add(
            order, subscription, message_id, ack, open=subscription.open, tokened=tokened, hidden=hidden
        )

    def _add(
        self,
        order: int,
        subscription: Subscription,
        message_id: bytes,
        ack: bytes | None,
        *,
        open: bool,
        tokened: bool = False,
        hidden: bool = False,
    ) -> Delivery:
        account = self._accounts.get(subscription)
        if account is None:
            kind = Cumulative if subscription.ack == CUMULATIVE else Individual
            account = self._accounts[subscription] = kind(subscription)
            self._size += 0 if open else _ended_cost(account)
        delivery = Delivery(account, message_id, ack, order, self._connection, tokened=tokened, hidden=hidden)
        self._by_order[order] = delivery
        self._size += _cost(delivery)
        (self._hidden if hidden else self._named).add(delivery)
        if ack is not None and tokened:
            self._tokened[ack] = delivery  # the broker means no earlier delivery by this name
        elif ack is not None:
            self._by_ack.setdefault(ack, delivery)
        self._pending += 1
        if open:
            self._expected += 1
        else:
            self._ended[account] = None
        return delivery

    def _replace(self, account: Cumulative, message_id: bytes) -> None:
        """A lost message came again: move its lost delivery out of `account`, so that later ACKs do not settle it."""
        for names in (self._named, self._hidden):
            old = names.first(message_id, account.subscription.id)
            if old is not None and old.lost and old.unsettled is account:
                old.move(self._replaced.setdefault(account.subscription, Individual(account.subscription)))
                self._again = True

    def ended(self, subscription: Subscription) -> None:
        """Record that a subscription was closed. Its deliveries are forgotten when room is needed."""
        if self.recent.concerns(subscription):
            self._list_recent()
        account = self._accounts.get(subscription)
        if account is not None:
            self._expected -= account.live
            self._size += _ended_cost(account)
            self._leave(account)

    def _leave(self, account: UnsettledDeliveries) -> None:
        """Forget an ended subscription, if it has no pending deliveries. Otherwise remember it for `_make_room`."""
        self._ended[account] = None
        if account.empty:
            self._forget(account)

    def _make_room(self) -> None:
        """Forget deliveries of ended subscriptions and lost brokers to make room. May set `forgot` and `dropped`."""
        for account in list(self._ended):
            self._forget(account)
        if self._stale:
            self._stale = False
            for account in [*self._accounts.values(), *self._replaced.values()]:
                self._forget(account)

    def _forget(self, account: UnsettledDeliveries) -> None:
        """Forget the pending deliveries of an ended subscription, or those of lost brokers on an open subscription."""
        lost = account.lost
        self.forgot = self.forgot or lost > 0
        taken = account.take_all() if account in self._ended else account.take_below(account.live_from)
        self.dropped = self.dropped or len(taken) > lost
        self._pending -= len(taken)
        self._lost -= lost
        self._release(account, taken)
        self._ended.pop(account, None)

    def _release(self, account: UnsettledDeliveries, taken: TakenPositions) -> None:
        """Forget the deliveries at these positions, and their names."""
        for delivery in account.release(taken):
            delivery.gone = True
            self._size -= _cost(delivery)
            del self._by_order[delivery.order]
            (self._hidden if delivery.hidden else self._named).remove(delivery)
            by_ack = self._tokened if delivery.tokened else self._by_ack
            if delivery.ack is not None and by_ack.get(delivery.ack) is delivery:
                del by_ack[delivery.ack]
        subscription = account.subscription
        if not account.empty:
            return
        if self._replaced.get(subscription) is account:
            del self._replaced[subscription]
        elif not subscription.open and self._accounts.get(subscription) is account:
            del self._accounts[subscription]
            self._ended.pop(account, None)
            self._size -= _ended_cost(account)

    def lost(self) -> None:
        """Record that the broker is lost. Its deliveries are lost, too, and no broker gets their ACKs."""
        self._list_recent()
        self._connection.lost = True
        self._connection = BrokerConnection()
        self.forgot = self.forgot or self.dropped
        self.dropped = False
        self._lost = self._pending
        self._expected = 0
        self._stale = True

    def taken(self, ack: bytes) -> bool:
        """Whether an unsettled delivery has this `ack` value, or a forgotten delivery may have had it."""
        return self.forgot or ack in self._by_ack or self.recent.has(ack)

    def named(self, message_id: bytes) -> bool:
        """Whether the client knows an unsettled delivery by this `message-id`."""
        self._list_recent()
        return message_id in self._named

    def hides(self, name: bytes | None) -> bool:
        """Whether the broker knows an unsettled delivery by this name, but the client knows it only by its token."""
        return name is not None and (name in self._tokened or name in self._hidden)

    def by_token(self, token: bytes) -> Delivery | None:
        """Return the pending delivery with this token. Without one, return the one with this `ack` value, or None."""
        if self.recent.has(token):
            self._list_recent()
        delivery = self.given(token) or self._by_ack.get(token)
        return delivery if delivery is not None and delivery.pending else None

    def given(self, token: bytes) -> Delivery | None:
        """Return the pending delivery with this token, or None."""
        digits = token.removeprefix(TOKEN)
        if not is_token(token) or not digits.isdigit() or len(digits) >= 20:
            return None
        delivery = self._by_order.get(int(digits))
        return delivery if delivery is not None and delivery.pending else None

    def by_message(self, message_id: bytes, subscription: bytes | None = None) -> Delivery | None:
        """Return the pending delivery whose token this is. If there is none, look for deliveries with this message-id
        (and subscription). Return the delivery with the lowest `Delivery.rank`, and of several the oldest. None if
        there is none.
        """
        if message_id not in self._named and self.recent.may_have(message_id, subscription):
            self._list_recent()
        return self.given(message_id) or self._named.first(message_id, subscription)

    def latest(self, subscription: Subscription, order: int) -> Delivery | None:
        """Return the last pending delivery with a number below `order` on a cumulative subscription, or None."""
        account = self._accounts.get(subscription)
        return account.latest(order) if isinstance(account, Cumulative) else None

    def settled(self, delivery: Delivery, transaction: bytes | None = None, *, other: bool = False) -> bool:
        """Settle a delivery and all others that its ACK covers. With a `transaction`, `aborted` makes them unsettled
        again. `other`: the ACK names another broker's. Return False if one of them belongs to a lost broker.
        """
        account = delivery.unsettled
        whole = self._take(account, account.take(delivery.position), transaction)
        # The client may have meant a lost delivery of this name: it then acknowledges later what is covered now.
        namesake = self._named.first(delivery.message_id, None) if self._lost else None
        self._again = self._again or other or (namesake is not None and namesake.lost)
        return whole

    def _take(
        self, account: UnsettledDeliveries, taken: TakenPositions, transaction: bytes | None = None
    ) -> bool:
        """Settle the deliveries at these positions. Return False if one of them belongs to a lost broker."""
        lost = account.lost_among(taken)
        self._again = self._again or 0 < lost < len(taken)
        self._count(account, taken, lost, -1)
        if transaction is None:
            self._release(account, taken)
        else:
            self._held.setdefault(transaction, []).append((account, taken))
            self._in_doubt += len(taken)
        return not lost

    def _count(self, account: UnsettledDeliveries, taken: TakenPositions, lost: int, sign: int) -> None:
        """Count the deliveries at these positions as pending (`sign` 1) or as not pending any more (-1)."""
        self._pending += sign * len(taken)
        self._lost += sign * lost
        if account.subscription.open:
            self._expected += sign * (len(taken) - lost)

    def committed(self, transaction: bytes) -> None:
        """The transaction was committed: forget the deliveries that it settled."""
        for account, taken in self._held.pop(transaction, ()):
            self._in_doubt -= len(taken)
            self._release(account, taken)

    def aborted(self, transaction: bytes) -> None:
        """The transaction was aborted: make its deliveries unsettled again, in their old order."""
        back = self._held.pop(transaction, ())
        for account, taken in back:
            self._in_doubt -= len(taken)
            lost = account.lost_among(taken)
            self._stale = self._stale or lost > 0
            self._count(account, taken, lost, 1)
            account.give_back(taken)
        for account, _ in back:
            if not account.subscription.open:
                self._leave(account)

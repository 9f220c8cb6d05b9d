"""Deliveries that await their ACK, where the two sides name them differently.

The broker's names for a delivery are its message-id, its subscription and, on 1.2, its `ack` value; the client
knows some of them or a token of ours. The ledger is kept only where those differ, or where a session may move to
another broker, which knows nothing of these deliveries; elsewhere ACKs pass untouched.
"""

from collections import deque
from itertools import count, takewhile
from operator import attrgetter
from typing import Final

from stomprelay.session.subscriptions import CUMULATIVE, Subscription

TOKEN: Final = b"relay-ack-"
"""How our tokens begin; a number follows. They are bytes that need no escape and that no client library changes.
"""


def ours(name: bytes) -> bool:
    """Whether the name of a delivery has the form of our tokens. It may be another relay's token."""
    return name.startswith(TOKEN)


class Delivery:
    """One MESSAGE that its consumer has to acknowledge, by the broker's names. `token` is the name that we give
    it.

    `tokened`: the client was given the token although the broker gave an `ack` value. `lost`: the broker's
    connection on which it came has ended, so no broker awaits its ACK.
    """

    __slots__ = ("ack", "lost", "message_id", "order", "subscription", "tokened")

    def __init__(
        self, subscription: Subscription, message_id: bytes, ack: bytes | None, order: int, *, tokened: bool
    ) -> None:
        self.lost = False
        self.tokened = tokened
        self.subscription = subscription
        self.message_id = message_id
        self.ack = ack
        self.order = order

    def lose(self) -> None:
        """Record that the connection of the broker that it came from has ended."""
        self.lost = True

    @property
    def token(self) -> bytes:
        """The name of ours that the client sends in its ACK: on 1.2 when the broker has no `ack` value, otherwise
        when another delivery has the same name.
        """
        return TOKEN + b"%d" % self.order


class Ledger:
    """The unsettled deliveries of one client.

    `full`: `most` or more deliveries are remembered, those of open transactions included; stop reading from the
    broker until it is no longer `crowded`. `orders` numbers the deliveries; ledgers of one client share it.
    """

    __slots__ = (
        "_bereft",
        "_by_ack",
        "_by_message",
        "_held",
        "_in_doubt",
        "_lost",
        "_most",
        "_orders",
        "_pending",
        "forgot",
    )

    def __init__(self, most: int, orders: "count[int] | None" = None) -> None:
        self._most = most
        self._orders = count(1) if orders is None else orders
        self._lost = 0
        self.forgot = False
        self._bereft = False
        self._by_ack: dict[bytes, Delivery] = {}
        self._pending: dict[int, Delivery] = {}
        self._by_message: dict[bytes, list[Delivery]] = {}
        self._held: dict[bytes, list[Delivery]] = {}
        self._in_doubt = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def awaited(self) -> int:
        """The number of deliveries whose ACK a broker still awaits."""
        return len(self._pending) - self._lost + self._in_doubt

    @property
    def full(self) -> bool:
        """Whether `most` or more deliveries are unsettled."""
        return self.awaited >= self._most

    @property
    def crowded(self) -> bool:
        """Whether more than half of `most` deliveries are unsettled."""
        return self.awaited * 2 > self._most

    @property
    def expecting(self) -> bool:
        """Whether an ACK is still to be expected: of a delivery that is not lost, on an open subscription."""
        return any(not each.lost and each.subscription.open for each in self._pending.values())

    def noted(
        self, subscription: Subscription, message_id: bytes, ack: bytes | None, *, tokened: bool = False
    ) -> Delivery:
        """Record a MESSAGE that is sent to the client, and return its delivery."""
        if len(self._pending) + self._in_doubt >= self._most:
            self.forget_closed()
        delivery = Delivery(subscription, message_id, ack, next(self._orders), tokened=tokened)
        self._enter(delivery)
        return delivery

    def _enter(self, delivery: Delivery) -> None:
        self._pending[delivery.order] = delivery
        same = self._by_message.setdefault(delivery.message_id, [])
        same.append(delivery)
        delivery.subscription.delivered(delivery.order)
        if delivery.ack is not None and not delivery.tokened:
            self._by_ack.setdefault(delivery.ack, delivery)
        self._lost += delivery.lost

    def _remove(self, delivery: Delivery) -> None:
        del self._pending[delivery.order]
        same = self._by_message[delivery.message_id]
        if len(same) == 1:
            del self._by_message[delivery.message_id]
        else:
            same.remove(delivery)
        delivery.subscription.settled(delivery.order)
        if delivery.ack is not None and self._by_ack.get(delivery.ack) is delivery:
            del self._by_ack[delivery.ack]
        self._lost -= delivery.lost

    def forget_closed(self) -> None:
        """Forget the deliveries of ended subscriptions and of lost brokers, to make room for new ones. From then
        on an ACK that names no delivery may belong to one that was forgotten (`forgot`).
        """
        for delivery in [each for each in self._pending.values() if each.lost or not each.subscription.open]:
            self.forgot = self.forgot or delivery.lost
            self._remove(delivery)

    def lost(self) -> None:
        """Record that the broker's connection has ended: all its deliveries are lost, and ACKs of them are sent to
        no broker.
        """
        for delivery in self._pending.values():
            delivery.lose()
        for held in self._held.values():
            for delivery in held:
                delivery.lose()
        self._lost = len(self._pending)
        self._bereft = True

    def taken(self, ack: bytes) -> bool:
        """Whether an unsettled delivery has this `ack` value already, or one that was forgotten may have had it."""
        if self.forgot or ack in self._by_ack:
            return True
        # What an open transaction acknowledged may come back, and a next broker may use its name.
        return self._bereft and any(each.ack == ack for held in self._held.values() for each in held)

    def named(self, message_id: bytes) -> bool:
        """Whether an unsettled delivery has this `message-id`."""
        return message_id in self._by_message

    def by_token(self, token: bytes) -> Delivery | None:
        """Return the delivery with this token, or else with this `ack` value of the broker's; None where there is
        none.
        """
        return self.given(token) or self._by_ack.get(token)

    def given(self, token: bytes) -> Delivery | None:
        """Return the delivery to which we gave this token; None where there is none."""
        digits = token.removeprefix(TOKEN)
        if ours(token) and digits.isdigit() and len(digits) < 20:
            return self._pending.get(int(digits))
        return None

    def by_message(self, message_id: bytes, subscription: bytes | None = None) -> Delivery | None:
        """Return the delivery with this token, or else the oldest one of this message, on the subscription of that
        id where one is given; None where there is none.
        """
        if ours(message_id) and (delivery := self.given(message_id)) is not None:
            return delivery
        for delivery in self._by_message.get(message_id, ()):
            if subscription is None or delivery.subscription.id == subscription:
                return delivery
        return None

    def latest(self, subscription: Subscription, order: int) -> Delivery | None:
        """Return the last unsettled delivery on a subscription among those numbered below `order`; None where
        there is none.
        """
        earlier = deque(takewhile(lambda each: each < order, subscription.unsettled), maxlen=1)
        return self._pending[earlier[0]] if earlier else None

    def settled(self, delivery: Delivery, transaction: bytes | None = None) -> bool:
        """Settle a delivery for which the client sent ACK or NACK, with all earlier ones of its subscription where
        the mode is cumulative. In a transaction they are unsettled again when it is aborted. Return whether none
        of them is of a lost broker.
        """
        gone = [delivery]
        if delivery.subscription.ack == CUMULATIVE:
            earlier = takewhile(lambda order: order < delivery.order, delivery.subscription.unsettled)
            gone = [*map(self._pending.__getitem__, earlier), delivery]
        for each in gone:
            self._remove(each)
        if transaction is not None:
            self._held.setdefault(transaction, []).extend(gone)
            self._in_doubt += len(gone)
        return not any(each.lost for each in gone)

    def committed(self, transaction: bytes) -> None:
        """Forget the deliveries that were settled in this transaction: it was committed."""
        self._in_doubt -= len(self._held.pop(transaction, ()))

    def aborted(self, transaction: bytes) -> None:
        """Make the deliveries that were settled in this transaction unsettled again, in their old order: it was
        aborted.
        """
        back = self._held.pop(transaction, ())
        self._in_doubt -= len(back)
        for delivery in back:
            self._enter(delivery)
            self._by_message[delivery.message_id].sort(key=attrgetter("order"))
        for subscription in {delivery.subscription for delivery in back}:
            subscription.sort()

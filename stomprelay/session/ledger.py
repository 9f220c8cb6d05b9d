"""Deliveries that await their ACK, where the two sides name them differently.

The broker's names for a delivery are its message-id, its subscription and, on 1.2, its `ack` value; the client
knows some of them or a token of ours. The ledger is kept only where those differ; elsewhere ACKs pass untouched.
"""

from typing import Final

from stomprelay.session.subscriptions import CUMULATIVE, Subscription

TOKEN: Final = b"relay-ack-%d"
"""Made of octets that no escape and no client library can damage."""


class Delivery:
    """One MESSAGE that its consumer has to acknowledge, by the broker's names. `token` is ours for it."""

    __slots__ = ("ack", "message_id", "order", "subscription")

    def __init__(self, subscription: Subscription, message_id: bytes, ack: bytes | None, order: int) -> None:
        self.subscription = subscription
        self.message_id = message_id
        self.ack = ack
        self.order = order

    @property
    def token(self) -> bytes:
        """What a 1.2 client is given to acknowledge with when the broker has no such value."""
        return TOKEN % self.order


class Ledger:
    """The unsettled deliveries of one client.

    `full` tells that the client owes `most` or more acknowledgements: stop reading from the broker until it is
    false again.
    """

    __slots__ = ("_by_message", "_by_token", "_count", "_held", "_made", "_most", "_of")

    def __init__(self, most: int) -> None:
        self._most = most
        self._made = 0
        self._count = 0
        self._by_token: dict[bytes, Delivery] = {}
        self._by_message: dict[bytes, list[Delivery]] = {}
        self._of: dict[Subscription, dict[int, Delivery]] = {}
        self._held: dict[bytes, list[Delivery]] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        """Whether as many deliveries are unsettled as may be."""
        return self._count >= self._most

    @property
    def crowded(self) -> bool:
        """Whether more than half of what may be is unsettled."""
        return self._count * 2 > self._most

    def noted(self, subscription: Subscription, message_id: bytes, ack: bytes | None) -> Delivery:
        """A MESSAGE passed to the client."""
        if self._count >= self._most:
            self._forget_closed()
        self._made += 1
        delivery = Delivery(subscription, message_id, ack, self._made)
        self._enter(delivery)
        return delivery

    def _forget_closed(self) -> None:
        """Deliveries of ended subscriptions may still be acknowledged, but not at the price of new ones."""
        for subscription in [each for each in self._of if not each.open]:
            for delivery in list(self._of[subscription].values()):
                self._remove(delivery)

    def _enter(self, delivery: Delivery) -> None:
        self._count += 1
        self._by_token[delivery.token] = delivery
        self._by_message.setdefault(delivery.message_id, []).append(delivery)
        self._of.setdefault(delivery.subscription, {})[delivery.order] = delivery

    def _remove(self, delivery: Delivery) -> None:
        self._count -= 1
        del self._by_token[delivery.token]
        same = self._by_message[delivery.message_id]
        same.remove(delivery)
        if not same:
            del self._by_message[delivery.message_id]
        pending = self._of[delivery.subscription]
        del pending[delivery.order]
        if not pending:
            del self._of[delivery.subscription]

    def by_token(self, token: bytes) -> Delivery | None:
        """The delivery that we gave this token."""
        return self._by_token.get(token)

    def by_message(self, message_id: bytes, subscription: bytes | None = None) -> Delivery | None:
        """The oldest delivery of this message, on the subscription of that id where one is given."""
        for delivery in self._by_message.get(message_id, ()):
            if subscription is None or delivery.subscription.id == subscription:
                return delivery
        return None

    def settled(self, delivery: Delivery, transaction: bytes | None = None) -> None:
        """The client acknowledged (or refused) a delivery: with it go the earlier ones of its subscription where
        the mode is cumulative. Inside a transaction they come back when it is aborted.
        """
        if delivery.subscription.ack == CUMULATIVE:
            gone = []
            for each in self._of[delivery.subscription].values():
                gone.append(each)
                if each is delivery:
                    break
        else:
            gone = [delivery]
        for each in gone:
            self._remove(each)
        if transaction is not None:
            self._held.setdefault(transaction, []).extend(gone)

    def committed(self, transaction: bytes) -> None:
        """What was settled in the transaction is settled for good."""
        self._held.pop(transaction, None)

    def aborted(self, transaction: bytes) -> None:
        """What was settled in the transaction awaits its ACK again, in the old order."""
        for delivery in self._held.pop(transaction, ()):
            self._enter(delivery)
            pending = self._of[delivery.subscription]
            self._of[delivery.subscription] = dict(sorted(pending.items()))

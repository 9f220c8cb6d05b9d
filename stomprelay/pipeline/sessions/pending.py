"""The deliveries of a session that wait for their ACK or NACK, by the names that the client knows them by: the account
that the relay keeps (see `session.ledger`), made of what a journal has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from stomprelay.pipeline.sessions.outages import BrokerLoss
from stomprelay.pipeline.sessions.subscriptions import Subscription
from stomprelay.pipeline.sessions.transfer import KIND, Transfer, continuation
from stomprelay.session.delivery import TOKEN as _TOKEN
from stomprelay.session.subscriptions import CUMULATIVE as _CUMULATIVE

TOKEN: Final = _TOKEN.decode()
CUMULATIVE: Final = _CUMULATIVE.decode()


@dataclass(slots=True, eq=False)
class PendingDelivery:
    """A MESSAGE that waits for its ACK or NACK. `order`: its number in the session, below 0 if the relay gave none.
    `answered`: time (ns) and outcome in an open transaction. `replaced`: another broker delivered it again by its name.
    """

    subscription: Subscription
    message_id: str | None
    ack: str | None
    broker: str | None
    transfer: Transfer
    upstream: str | None = None
    order: int = 0
    loss: BrokerLoss | None = None
    answered: tuple[int, str] | None = None
    replaced: bool = False

    def replace(self) -> None:
        """Record that it is `replaced`."""
        self.replaced = True
        self.subscription.unsettled.pop(self.order, None)

    def number(self, order: int, *, hidden: bool) -> None:
        """Set its order number. `hidden`: the client got the relay's token instead of its `ack`."""
        self.order = order
        if hidden:
            self.ack = None

    def answer(self, ns: int, outcome: str) -> None:
        """Record an ACK or NACK in a transaction that is still open."""
        self.answered = (ns, outcome)

    def reopen(self) -> None:
        """Forget its ACK or NACK: the transaction was aborted."""
        self.answered = None

    def lose(self, loss: BrokerLoss) -> None:
        """Record that its broker was lost."""
        self.loss = loss


def _by_likelihood(delivery: PendingDelivery) -> tuple[bool, bool, int]:
    """Return what ranks the deliveries of one name as the relay does: see `Delivery.rank`."""
    return delivery.loss is not None, not delivery.subscription.open, delivery.order


class PendingDeliveries:
    """The deliveries of one session without an ACK or NACK that took effect; iterating yields them."""

    def __init__(self) -> None:
        self._orders = 0
        self._pending: dict[int, PendingDelivery] = {}
        self._held: dict[str, list[PendingDelivery]] = {}
        self._others = 0
        self._by_ack: dict[str, PendingDelivery] = {}
        self._by_message: dict[str, list[PendingDelivery]] = {}

    def __iter__(self) -> Iterator[PendingDelivery]:
        yield from self._pending.values()
        for held in self._held.values():
            yield from held

    def noted(self, delivery: PendingDelivery, *, alike: bool, counted: bool) -> None:
        """Add a delivery and number it. `alike`: both sides speak one version; `counted`: the relay numbered it."""
        if counted:
            self._orders += 1
        else:
            self._others -= 1
        ack = delivery.ack
        if delivery.message_id is not None and delivery.subscription.mode == CUMULATIVE:
            old = self.named(None, delivery.message_id, delivery.subscription.id)
            if old is not None and old.loss is not None and old.subscription is delivery.subscription:
                old.replace()
        hidden = ack is not None and (ack in self._by_ack or (alike and ack.startswith(TOKEN)))
        delivery.number(self._orders if counted else self._others, hidden=hidden)
        self._enter(delivery)

    def _enter(self, delivery: PendingDelivery) -> None:
        self._pending[delivery.order] = delivery
        if not delivery.replaced:
            delivery.subscription.unsettled[delivery.order] = None
        if delivery.message_id is not None:
            same = self._by_message.get(delivery.message_id)
            if same is None:
                self._by_message[delivery.message_id] = [delivery]
            else:
                same.append(delivery)
        if delivery.ack is not None:
            self._by_ack.setdefault(delivery.ack, delivery)

    def _free(self, delivery: PendingDelivery) -> None:
        if delivery.ack is not None and self._by_ack.get(delivery.ack) is delivery:
            del self._by_ack[delivery.ack]

    def _take(self, delivery: PendingDelivery) -> None:
        del self._pending[delivery.order]
        delivery.subscription.unsettled.pop(delivery.order, None)
        if delivery.message_id is not None:
            same = self._by_message[delivery.message_id]
            if len(same) == 1:
                del self._by_message[delivery.message_id]
            else:
                same.remove(delivery)

    def named(
        self, name: str | None, message_id: str | None, subscription: str | None
    ) -> PendingDelivery | None:
        """Return the delivery that an ACK or NACK with these headers (`name`: `id`) is for, or None."""
        if name is not None:
            delivery = self._given(name) or self._by_ack.get(name)
            return None if delivery is None or delivery.answered is not None else delivery
        if message_id is None:
            return None
        delivery = self._given(message_id)
        if delivery is not None:
            return delivery
        fits = [
            each
            for each in self._by_message.get(message_id, ())
            if subscription is None or each.subscription.id == subscription
        ]
        return min(fits, key=_by_likelihood) if fits else None

    def _given(self, token: str) -> PendingDelivery | None:
        if not token.startswith(TOKEN):
            return None
        digits = token[len(TOKEN) :]
        return self._pending.get(int(digits)) if digits.isdecimal() and len(digits) < 20 else None

    def answered(
        self, delivery: PendingDelivery, transaction: str | None, ns: int, outcome: str
    ) -> list[PendingDelivery]:
        """Record an ACK or NACK. Return the deliveries that it is for. They are removed or, in a transaction, held
        until `committed` or `aborted`.
        """
        gone = [delivery]
        if delivery.subscription.mode == CUMULATIVE and not delivery.replaced:
            earlier = takewhile(lambda order: order < delivery.order, delivery.subscription.unsettled)
            gone = [*map(self._pending.__getitem__, earlier), delivery]
        for each in gone:
            self._take(each)
            if transaction is None:
                self._free(each)
            else:
                each.answer(ns, outcome)
        if transaction is not None:
            self._held.setdefault(transaction, []).extend(gone)
        return gone

    def committed(self, transaction: str) -> list[PendingDelivery]:
        """Remove and return the deliveries whose ACK or NACK was in this transaction."""
        held = self._held.pop(transaction, [])
        for delivery in held:
            self._free(delivery)
        return held

    def aborted(self, transaction: str) -> None:
        """Put back the deliveries whose ACK or NACK was in this transaction, in order."""
        back = self._held.pop(transaction, [])
        for delivery in back:
            delivery.reopen()
            self._enter(delivery)
            if delivery.message_id is not None:
                self._by_message[delivery.message_id].sort(key=lambda each: each.order)
        for subscription in {delivery.subscription for delivery in back}:
            subscription.sort()

    def of(self, broker: str) -> list[PendingDelivery]:
        """Return the deliveries of a broker that was lost now; the client can still ack them."""
        return [each for each in self if each.loss is None and each.broker == broker]

    def answering(self, broker: str) -> list[str]:
        """Return the open transactions that have an ACK or NACK for this broker."""
        return [
            name
            for name, held in self._held.items()
            if any(each.broker == broker and not each.loss for each in held)
        ]

    def forget(self, until: int) -> None:
        """Remove the deliveries whose broker was lost, and replaced before `until` (ns)."""
        for each in [each for each in self._pending.values() if each.loss is not None]:
            if each.loss is not None and each.loss.over and each.loss.ended_ns < until:
                self._take(each)
                self._free(each)

    # From batch to batch

    def dump(self, numbers: dict[Subscription, int], losses: list[BrokerLoss]) -> list[Any]:
        """Return its state for JSON. Subscriptions appear by number, new ones are added to `numbers`."""
        which = {id(loss): at for at, loss in enumerate(losses)}

        def told(delivery: PendingDelivery, transaction: str | None) -> list[Any]:
            return [
                delivery.order,
                numbers.setdefault(delivery.subscription, len(numbers)),
                delivery.message_id,
                delivery.ack,
                delivery.broker,
                delivery.upstream,
                which.get(id(delivery.loss)),
                transaction,
                delivery.answered,
                delivery.transfer[: KIND + 1],
                delivery.replaced,
            ]

        # What an aborted transaction gave back stands last, but came first.
        pending = sorted(self._pending.values(), key=lambda each: each.order)
        rows = [told(each, None) for each in pending]
        rows += [told(each, name) for name, held in self._held.items() for each in held]
        return [self._orders, self._others, rows]

    @classmethod
    def load(
        cls, values: list[Any], numbered: list[Subscription], losses: list[BrokerLoss]
    ) -> "PendingDeliveries":
        """Return what `dump` described. `numbered`: the subscriptions, each at its number."""
        unsettled = cls()
        unsettled._orders, unsettled._others, *_, rows = values
        for (
            order,
            number,
            message_id,
            ack,
            broker,
            upstream,
            loss,
            transaction,
            answered,
            place,
            *more,
        ) in rows:
            delivery = PendingDelivery(
                numbered[number], message_id, ack, broker, continuation(place), upstream
            )
            delivery.order = order
            delivery.replaced = any(more)
            if loss is not None:
                delivery.loss = losses[loss]
            if transaction is None:
                unsettled._enter(delivery)
            else:
                delivery.answered = tuple(answered)
                unsettled._held.setdefault(transaction, []).append(delivery)
                if delivery.ack is not None:
                    unsettled._by_ack.setdefault(delivery.ack, delivery)
        return unsettled

"""Deliveries without an answer, and which of them an ACK or NACK is about: as the relay tells, see `session.ledger`.

The journal has MESSAGEs as brokers said them and ACKs as clients said them. Where the versions differ, or two brokers
gave the same name, the client knows a delivery by the relay's token, which holds its number in the session.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final

from stomprelay.pipeline.match.loss import Loss
from stomprelay.pipeline.match.sighting import KIND, Sighting, piece
from stomprelay.pipeline.match.subscribed import Subscription
from stomprelay.session.ledger import TOKEN as _TOKEN
from stomprelay.session.subscriptions import CUMULATIVE as _CUMULATIVE

TOKEN: Final = _TOKEN.decode()
CUMULATIVE: Final = _CUMULATIVE.decode()


class Delivery:
    """One MESSAGE that waits for its answer. `order` is its number (below 0 where the relay gave none), `loss` what
    became of its broker, if it is gone. `answered`: when, and how, in a transaction that is still open.
    """

    __slots__ = (
        "ack",
        "answered",
        "broker",
        "loss",
        "message_id",
        "order",
        "sighting",
        "subscription",
        "upstream",
    )

    def __init__(
        self,
        subscription: Subscription,
        message_id: str | None,
        ack: str | None,
        broker: str | None,
        sighting: Sighting,
        upstream: str | None = None,
    ) -> None:
        self.order = 0
        self.subscription = subscription
        self.message_id = message_id
        self.ack = ack
        self.broker = broker
        self.upstream = upstream
        self.sighting = sighting
        self.loss: Loss | None = None
        self.answered: tuple[int, str] | None = None


class Unsettled:
    """The deliveries of one session that have no answer yet."""

    __slots__ = ("_bereft", "_by_ack", "_by_message", "_held", "_orders", "_others", "_pending")

    def __init__(self) -> None:
        self._orders = 0
        self._pending: dict[int, Delivery] = {}
        self._held: dict[str, list[Delivery]] = {}
        self._others = 0
        self._bereft = False
        self._by_ack: dict[str, Delivery] = {}
        self._by_message: dict[str, list[Delivery]] = {}

    def __iter__(self) -> Iterator[Delivery]:
        yield from self._pending.values()
        for held in self._held.values():
            yield from held

    def noted(self, delivery: Delivery, *, alike: bool, counted: bool) -> None:
        """A MESSAGE passed. `alike`: both sides speak one version; `counted`: the relay gave it a number."""
        if counted:
            self._orders += 1
            delivery.order = self._orders
        else:
            self._others -= 1
            delivery.order = self._others
        ack = delivery.ack
        if ack is not None and (ack in self._by_ack or (alike and self._tokened(ack))):
            delivery.ack = None
        self._enter(delivery)

    def _tokened(self, ack: str) -> bool:
        """Whether the client is given a token in place of this `ack`."""
        if ack.startswith(TOKEN):
            return True
        return self._bereft and any(each.ack == ack for held in self._held.values() for each in held)

    def _enter(self, delivery: Delivery) -> None:
        self._pending[delivery.order] = delivery
        delivery.subscription.unsettled[delivery.order] = None
        if delivery.message_id is not None:
            same = self._by_message.get(delivery.message_id)
            if same is None:
                self._by_message[delivery.message_id] = [delivery]
            else:
                same.append(delivery)
        if delivery.ack is not None:
            self._by_ack.setdefault(delivery.ack, delivery)

    def _remove(self, delivery: Delivery) -> None:
        del self._pending[delivery.order]
        del delivery.subscription.unsettled[delivery.order]
        if delivery.message_id is not None:
            same = self._by_message[delivery.message_id]
            if len(same) == 1:
                del self._by_message[delivery.message_id]
            else:
                same.remove(delivery)
        if delivery.ack is not None and self._by_ack.get(delivery.ack) is delivery:
            del self._by_ack[delivery.ack]

    def named(self, name: str | None, message_id: str | None, subscription: str | None) -> Delivery | None:
        """The delivery that an ACK or NACK is about. `name`: its `id`."""
        if name is not None:
            return self._given(name) or self._by_ack.get(name)
        if message_id is None:
            return None
        delivery = self._given(message_id)
        if delivery is not None:
            return delivery
        for delivery in self._by_message.get(message_id, ()):
            if subscription is None or delivery.subscription.id == subscription:
                return delivery
        return None

    def _given(self, token: str) -> Delivery | None:
        if not token.startswith(TOKEN):
            return None
        digits = token[len(TOKEN) :]
        return self._pending.get(int(digits)) if digits.isdecimal() and len(digits) < 20 else None

    def answered(self, delivery: Delivery, transaction: str | None, ns: int, outcome: str) -> list[Delivery]:
        """An ACK or NACK, with which the earlier ones of its subscription go where the mode is cumulative. Answers all
        of them; in a transaction they are held, to be `committed` or to come back when it is `aborted`.
        """
        gone = [delivery]
        if delivery.subscription.mode == CUMULATIVE:
            earlier = takewhile(lambda order: order < delivery.order, delivery.subscription.unsettled)
            gone = [*map(self._pending.__getitem__, earlier), delivery]
        for each in gone:
            self._remove(each)
        if transaction is not None:
            for each in gone:
                each.answered = (ns, outcome)
            self._held.setdefault(transaction, []).extend(gone)
        return gone

    def committed(self, transaction: str) -> list[Delivery]:
        """What was answered in a transaction is answered for good."""
        return self._held.pop(transaction, [])

    def aborted(self, transaction: str) -> None:
        """What was answered in a transaction waits for its answer again, in the old order."""
        back = self._held.pop(transaction, [])
        for delivery in back:
            delivery.answered = None
            self._enter(delivery)
            if delivery.message_id is not None:
                self._by_message[delivery.message_id].sort(key=lambda each: each.order)
        for subscription in {delivery.subscription for delivery in back}:
            subscription.unsettled = dict.fromkeys(sorted(subscription.unsettled))

    def of(self, broker: str) -> list[Delivery]:
        """The deliveries of a broker that is gone now. They are still known by their names."""
        self._bereft = True
        return [each for each in self if each.loss is None and each.broker == broker]

    def answering(self, broker: str) -> list[str]:
        """The open transactions in which deliveries of this broker were answered."""
        return [
            name
            for name, held in self._held.items()
            if any(each.broker == broker and not each.loss for each in held)
        ]

    def forget(self, until: int) -> None:
        """Deliveries whose broker was lost and replaced before `until` are not asked after any more."""
        for each in [each for each in self._pending.values() if each.loss is not None]:
            if each.loss is not None and each.loss.over and each.loss.ended_ns < until:
                self._remove(each)

    # From batch to batch

    def dump(self, numbers: dict[Subscription, int], losses: list[Loss]) -> list[Any]:
        """As JSON has it; `numbers` of subscriptions are added to."""
        which = {id(loss): at for at, loss in enumerate(losses)}

        def told(delivery: Delivery, transaction: str | None) -> list[Any]:
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
                delivery.sighting[: KIND + 1],
            ]

        rows = [told(each, None) for each in self._pending.values()]
        rows += [told(each, name) for name, held in self._held.items() for each in held]
        return [self._orders, self._others, self._bereft, rows]

    @classmethod
    def load(cls, values: list[Any], numbered: list[Subscription], losses: list[Loss]) -> "Unsettled":
        """Of what `dump` made."""
        unsettled = cls()
        unsettled._orders, unsettled._others, unsettled._bereft, rows = values
        for order, number, message_id, ack, broker, upstream, loss, transaction, answered, place in rows:
            delivery = Delivery(numbered[number], message_id, ack, broker, piece(place), upstream)
            delivery.order = order
            if loss is not None:
                delivery.loss = losses[loss]
            if transaction is None:
                unsettled._enter(delivery)
            else:
                delivery.answered = tuple(answered)
                unsettled._held.setdefault(transaction, []).append(delivery)
        return unsettled

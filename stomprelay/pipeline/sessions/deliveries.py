"""The subscriptions of a session, its deliveries, and the delivery that each ACK or NACK is for.

The relay itself has the same data (see `session.subscriptions` and `session.ledger`). Here the data come from the
journal: MESSAGEs as brokers sent them and ACKs as clients sent them. If client and broker speak different versions, or
two brokers gave the same id, the client knows a delivery by the relay's token. The token holds the delivery's number in
the session.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from stomprelay.pipeline.schema import ACKED, NACKED, RETURNED
from stomprelay.pipeline.sessions import record as r
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.outages import BrokerLoss, SessionBrokers
from stomprelay.pipeline.sessions.publishing import Transactions
from stomprelay.pipeline.sessions.transfer import AUTO
from stomprelay.pipeline.sessions.waits import Wait, merged
from stomprelay.session.delivery import TOKEN as _TOKEN
from stomprelay.session.subscriptions import CUMULATIVE as _CUMULATIVE
from stomprelay.session.subscriptions import LATELY
from stomprelay.session.subscriptions import MADE as _MADE
from stomprelay.wire.dialect import DIALECTS, DeliveryNaming

TOKEN: Final = _TOKEN.decode()
CUMULATIVE: Final = _CUMULATIVE.decode()
MADE: Final = _MADE.decode()


def _naming(delivery: DeliveryNaming) -> frozenset[str | None]:
    """Return the versions in which an ACK names a delivery in the way `delivery`."""
    return frozenset(each.version.decode() for each in DIALECTS.values() if each.delivery is delivery)


_BY_ACK: Final = _naming(DeliveryNaming.ACK)
"""The versions in which an ACK's `id` is the MESSAGE's `ack`."""
_BY_MESSAGE: Final = _naming(DeliveryNaming.MESSAGE_ID)
"""The versions in which an ACK needs only a message-id."""


@dataclass(slots=True, eq=False)
class SeenSubscription:
    """A SUBSCRIBE at `since` (ns). `id` is the name that brokers know: the client's name if `named`, else a name that
    the relay made. `mode` is None if the SUBSCRIBE was not seen. `open` is false after UNSUBSCRIBE. `unsettled` has
    the numbers of unanswered deliveries as keys, in ascending order.
    """

    id: str
    destination: str | None
    mode: str | None
    since: int | None
    named: bool = field(kw_only=True)
    open: bool = True
    unsettled: dict[int, None] = field(default_factory=dict)

    @property
    def shown(self) -> str | None:
        """Return the name that tables show: the id, or the destination if the client chose no id."""
        return self.id if self.named else self.destination

    def dump(self) -> list[Any]:
        """Return the state for `load`, without `unsettled`, as a list that JSON can hold."""
        return [self.id, self.destination, self.mode, self.since, self.named, self.open]

    @classmethod
    def load(cls, values: list[Any]) -> "SeenSubscription":
        """Return the subscription whose state `dump` returned, with an empty `unsettled`."""
        id, destination, mode, since, named, is_open = values
        return cls(id, destination, mode, since, named=named, open=is_open)


class Subscribed:
    """A session's subscriptions by id. `opened` has the present subscriptions, `ended` the latest that were
    unsubscribed. `acknowledging` counts the subscriptions in `opened` and `ended` that want ACKs.
    """

    def __init__(self) -> None:
        self.opened: dict[str, SeenSubscription] = {}
        self.ended: dict[str, SeenSubscription] = {}
        self.acknowledging = 0
        self._made = 0

    def subscribe(self, id: str | None, destination: str | None, mode: str, since: int) -> None:
        """Record a SUBSCRIBE at `since` (ns). It replaces a subscription of the same id. If `id` is None, the
        subscription gets the name that the relay makes for it.
        """
        named = id is not None
        if id is None:
            self._made += 1
            while f"{MADE}{self._made}" in self.opened:
                self._made += 1
            id = f"{MADE}{self._made}"
        replaced = self.opened.pop(id, None)
        if replaced is not None:
            replaced.open = False
            self.acknowledging -= replaced.mode != AUTO
        self.acknowledging += mode != AUTO
        self.opened[id] = SeenSubscription(id, destination, mode, since, named=named)
        self._forget(self.ended.pop(id, None))

    def unsubscribe(self, id: str | None, destination: str | None) -> None:
        """Record an UNSUBSCRIBE of this id. If `id` is None, the oldest subscription to this destination ends."""
        subscription = self.opened.get(id) if id is not None else self._oldest(self.opened, destination)
        if subscription is None:
            return
        subscription.open = False
        del self.opened[subscription.id]
        self.ended[subscription.id] = subscription
        if len(self.ended) > LATELY:
            self._forget(self.ended.pop(next(iter(self.ended))))

    def _forget(self, ended: SeenSubscription | None) -> None:
        self.acknowledging -= ended is not None and ended.mode != AUTO

    @staticmethod
    def _oldest(among: dict[str, SeenSubscription], destination: str | None) -> SeenSubscription | None:
        return next((each for each in among.values() if each.destination == destination), None)

    def delivered(self, id: str | None, destination: str | None) -> SeenSubscription | None:
        """Return the subscription of a MESSAGE with the header `subscription` (`id`) and this destination; or None."""
        opened = self.opened
        named = None if id is None else opened.get(id) or self.ended.get(id)
        if named is not None:
            return named
        if id is None and len(opened) == 1 and not self.ended:
            return next(iter(opened.values()))
        found = self._oldest(opened, destination) or self._oldest(self.ended, destination)
        if id is not None:
            return None if found is None or found.named else found
        return next(iter(opened.values())) if found is None and len(opened) == 1 else found

    def dump(self, numbers: dict[SeenSubscription, int]) -> list[Any]:
        """Return the state for `load`, with subscriptions as numbers. Missing subscriptions are added to `numbers`."""
        for each in (*self.opened.values(), *self.ended.values()):
            numbers.setdefault(each, len(numbers))
        opened = [numbers[each] for each in self.opened.values()]
        return [opened, [numbers[each] for each in self.ended.values()], self._made]

    @classmethod
    def load(cls, values: list[Any], numbered: list[SeenSubscription]) -> "Subscribed":
        """Return the subscriptions whose state `dump` returned. `numbered` has the subscriptions by number."""
        subscribed = cls()
        opened, ended, subscribed._made = values
        subscribed.opened = {numbered[each].id: numbered[each] for each in opened}
        subscribed.ended = {numbered[each].id: numbered[each] for each in ended}
        known = (*subscribed.opened.values(), *subscribed.ended.values())
        subscribed.acknowledging = sum(each.mode != AUTO for each in known)
        return subscribed


@dataclass(slots=True, eq=False)
class PendingDelivery:
    """A MESSAGE that waits for its ACK or NACK. `order` is its number in the session; below 0 if the relay gave it no
    number. `ack` is None if the client got the relay's token instead. `loss` is set if the broker was lost. `answered`
    (time in ns, outcome) is set while the ACK or NACK is in an open transaction. `replaced`: another broker delivered
    a message with the same message-id.
    """

    subscription: SeenSubscription
    message_id: str | None
    ack: str | None
    broker: str | None
    transfer: s.Transfer
    upstream: str | None = None
    order: int = 0
    loss: BrokerLoss | None = None
    answered: tuple[int, str] | None = None
    replaced: bool = False


class PendingDeliveries:
    """The deliveries of one session whose ACK or NACK is missing or in an open transaction. Iterating yields them."""

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
        """Add a delivery and set its `order`. `alike`: client and broker speak the same version. `counted`: the relay
        numbered this delivery.
        """
        if counted:
            self._orders += 1
        else:
            self._others -= 1
        ack = delivery.ack
        if delivery.message_id is not None and delivery.subscription.mode == CUMULATIVE:
            old = self.named(None, delivery.message_id, delivery.subscription.id)
            if old is not None and old.loss is not None and old.subscription is delivery.subscription:
                old.replaced = True
                old.subscription.unsettled.pop(old.order, None)
        if ack is not None and (ack in self._by_ack or (alike and ack.startswith(TOKEN))):
            delivery.ack = None
        delivery.order = self._orders if counted else self._others
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
        """Forget the `ack` of this delivery, because a later delivery may have the same `ack`."""
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
        """Return the delivery that an ACK or NACK with these headers is for, or None. `name` is the header `id`."""
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
        if not fits:
            return None
        # As in the relay: see `Delivery.rank`.
        return min(fits, key=lambda each: (each.loss is not None, not each.subscription.open, each.order))

    def _given(self, token: str) -> PendingDelivery | None:
        """Return the delivery to which the relay gave this token; None for any other text."""
        if not token.startswith(TOKEN):
            return None
        digits = token[len(TOKEN) :]
        return self._pending.get(int(digits)) if digits.isdecimal() and len(digits) < 20 else None

    def answered(
        self, delivery: PendingDelivery, transaction: str | None, ns: int, outcome: str
    ) -> list[PendingDelivery]:
        """Record an ACK or NACK of this delivery at `ns`. Return the deliveries that it answers; with a cumulative
        subscription these include earlier deliveries. Without a transaction the deliveries are removed. In a
        transaction they are kept apart until `committed` or `aborted` is called.
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
                each.answered = (ns, outcome)
        if transaction is not None:
            self._held.setdefault(transaction, []).extend(gone)
        return gone

    def committed(self, transaction: str) -> list[PendingDelivery]:
        """Record a COMMIT. Remove and return the deliveries whose ACK or NACK is in this transaction."""
        held = self._held.pop(transaction, [])
        for delivery in held:
            self._free(delivery)
        return held

    def aborted(self, transaction: str) -> None:
        """Record an ABORT. The deliveries whose ACK or NACK is in this transaction wait again, in their order."""
        back = self._held.pop(transaction, [])
        for delivery in back:
            delivery.answered = None
            self._enter(delivery)
            if delivery.message_id is not None:
                self._by_message[delivery.message_id].sort(key=lambda each: each.order)
        for subscription in {delivery.subscription for delivery in back}:
            subscription.unsettled = dict.fromkeys(sorted(subscription.unsettled))

    def of(self, broker: str) -> list[PendingDelivery]:
        """Return the deliveries of this lost broker. They are not removed: the client may still answer them."""
        return [each for each in self if each.loss is None and each.broker == broker]

    def answering(self, broker: str) -> list[str]:
        """Return the open transactions that have an ACK or NACK for a delivery of this broker."""
        return [
            name
            for name, held in self._held.items()
            if any(each.broker == broker and not each.loss for each in held)
        ]

    def forget(self, until: int) -> None:
        """Remove the deliveries whose broker was lost, if the outage was over before `until` (ns)."""
        for each in [each for each in self._pending.values() if each.loss is not None]:
            if each.loss is not None and each.loss.outage.over and each.loss.outage.ended_ns < until:
                self._take(each)
                self._free(each)

    # From batch to batch

    def dump(self, numbers: dict[SeenSubscription, int], losses: list[BrokerLoss]) -> list[Any]:
        """Return the state for `load`. It has subscriptions as numbers, and losses as places in `losses`. Missing
        subscriptions are added to `numbers`.
        """
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
                delivery.transfer[: s.KIND + 1],
                delivery.replaced,
            ]

        # Deliveries from an aborted transaction stand last, but came first.
        pending = sorted(self._pending.values(), key=lambda each: each.order)
        rows = [told(each, None) for each in pending]
        rows += [told(each, name) for name, held in self._held.items() for each in held]
        return [self._orders, self._others, rows]

    @classmethod
    def load(
        cls, values: list[Any], numbered: list[SeenSubscription], losses: list[BrokerLoss]
    ) -> "PendingDeliveries":
        """Return the deliveries whose state `dump` returned. `numbered` has the subscriptions by number."""
        unsettled = cls()
        unsettled._orders, unsettled._others, rows = values
        for order, number, message_id, ack, broker, upstream, *more in rows:
            loss, transaction, answered, place, replaced = more
            given = numbered[number], message_id, ack, broker, s.continuation(place), upstream, order
            lost = None if loss is None else losses[loss]
            delivery = PendingDelivery(*given, lost, replaced=replaced)
            if transaction is None:
                unsettled._enter(delivery)
            else:
                delivery.answered = tuple(answered)
                unsettled._held.setdefault(transaction, []).append(delivery)
                if delivery.ack is not None:
                    unsettled._by_ack.setdefault(delivery.ack, delivery)
        return unsettled


class Consumption:
    """A session's subscriptions and unanswered deliveries. Iterating yields the rows of these deliveries. `tell` is
    called with the row of each delivery that gets an outcome. Deliveries that wait longer than `stuck_after` (ns) are
    counted; `waits` returns them.
    """

    def __init__(self, tell: Callable[[s.Transfer], None], stuck_after: int) -> None:
        self._tell = tell
        self._stuck_after = stuck_after
        self._waits: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._subscribed = Subscribed()
        self._pending_deliveries = PendingDeliveries()
        self._version: str | None = None

    def __iter__(self) -> Iterator[s.Transfer]:
        for delivery in self._pending_deliveries:
            yield delivery.transfer

    def subscribe(self, record: r.Record, ns: int) -> None:
        """Record a SUBSCRIBE at `ns`."""
        self._version = record[r.VERSION]
        self._subscribed.subscribe(record[r.SUBSCRIPTION], record[r.DESTINATION], record[r.ACK] or AUTO, ns)

    def unsubscribe(self, record: r.Record) -> None:
        """Record an UNSUBSCRIBE. Deliveries of that subscription can still be acked or nacked."""
        self._subscribed.unsubscribe(record[r.SUBSCRIPTION], record[r.DESTINATION])

    def delivered(
        self, record: r.Record, transfer: s.Transfer, brokers: SessionBrokers, *, whole: bool
    ) -> None:
        """Record a MESSAGE. Set the subscription, the mode and, in mode auto, the outcome in its row `transfer`.
        `whole`: no earlier frame of this connection is missing.
        """
        name, destination, version = record[r.SUBSCRIPTION], record[r.DESTINATION], record[r.VERSION]
        ack = record[r.ACK] if version in _BY_ACK else None
        found = subscription = self._subscribed.delivered(name, destination)
        if subscription is not None:
            transfer[s.SUBSCRIPTION] = subscription.shown
            transfer[s.SINCE_NS] = subscription.since
            transfer[s.MODE] = subscription.mode
            auto = subscription.mode == AUTO
        else:
            # No SUBSCRIBE asked for it, as with reply queues; or the SUBSCRIBE was not seen.
            auto = whole
            if not auto and ack is None:
                return
            subscription = SeenSubscription(name or "", destination, None, None, named=name is not None)
        if auto:
            transfer[s.SETTLED_NS] = transfer[s.KNOWN_NS] = transfer[s.NS]
            transfer[s.OUTCOME] = ACKED
            return
        alike = version == self._version
        message_id = record[r.MESSAGE_ID]
        counted = found is not None and message_id is not None
        delivery = PendingDelivery(
            subscription, message_id, ack, record[r.BROKER], transfer, record[r.UPSTREAM]
        )
        self._pending_deliveries.noted(
            delivery, alike=alike, counted=counted and (not alike or self._subscribed.acknowledging > 0)
        )
        if delivery.broker not in brokers.live:
            loss = brokers.going(delivery.broker)
            if loss is not None:  # the session is leaving this broker: no answer will reach it
                self._settle(delivery, transfer[s.NS], transfer[s.NS], RETURNED)
                delivery.loss = loss

    def answered(
        self, record: r.Record, ns: int, brokers: SessionBrokers, transactions: Transactions, *, whole: bool
    ) -> None:
        """Record an ACK or NACK at `ns`. Its deliveries get their outcome now or, in a transaction, at the COMMIT.
        `whole`: no earlier frame of this connection is missing.
        """
        name = record[r.ACK] if record[r.VERSION] in _BY_ACK else None
        delivery = self._pending_deliveries.named(name, record[r.MESSAGE_ID], record[r.SUBSCRIPTION])
        if delivery is None and record[r.VERSION] in _BY_MESSAGE:
            delivery = self._pending_deliveries.named(None, record[r.MESSAGE_ID], None)
        loss = brokers.missing if delivery is None else delivery.loss
        if loss is not None:
            loss.change(stale_acks=loss.outage.stale_acks + 1)
        transaction = record[r.TRANSACTION]
        if transaction is not None and transaction not in transactions:
            if whole:
                transaction = None
            else:
                transactions.begin(transaction)
        if transaction is not None and loss is not None:
            transactions.doom(transaction)
        if delivery is None or (loss is not None and not loss.outage.over and brokers.several):
            return  # with several brokers, the relay does not look for the delivery while its broker is gone
        outcome = ACKED if record[r.COMMAND] == "ACK" else NACKED
        for each in self._pending_deliveries.answered(delivery, transaction, ns, outcome):
            if transaction is None:
                self._settle(each, ns, ns, outcome)
            elif each.loss is not None:
                transactions.doom(transaction)

    def committed(self, transaction: str, ns: int) -> None:
        """Record a COMMIT at `ns`: the ACKs and NACKs in the transaction take effect."""
        for delivery in self._pending_deliveries.committed(transaction):
            if delivery.answered is not None:
                self._settle(delivery, delivery.answered[0], ns, delivery.answered[1])

    def aborted(self, transaction: str) -> None:
        """Record an ABORT: the ACKs and NACKs in the transaction have no effect."""
        self._pending_deliveries.aborted(transaction)

    def lost(self, loss: BrokerLoss, ns: int, transactions: Transactions) -> None:
        """Record the loss of a broker at `ns`. Its deliveries count as returned. Transactions with an ACK or NACK for
        one of these deliveries cannot be committed.
        """
        for transaction in self._pending_deliveries.answering(loss.outage.broker):
            transactions.doom(transaction)
        for delivery in self._pending_deliveries.of(loss.outage.broker):
            self._settle(delivery, ns, ns, RETURNED)
            delivery.loss = loss

    def ended(self, ns: int) -> None:
        """Record that the client left at `ns`. All deliveries of the session count as returned."""
        for delivery in self._pending_deliveries:
            self._settle(delivery, ns, ns, RETURNED)
        self._pending_deliveries = PendingDeliveries()

    def _settle(self, delivery: PendingDelivery, settled: int, known: int, outcome: str) -> None:
        """Set the outcome of a delivery, unless it was returned before because its broker was lost. The answer came at
        `settled` and took effect at `known`.
        """
        if delivery.loss is None:
            transfer = delivery.transfer
            transfer[s.SETTLED_NS], transfer[s.KNOWN_NS], transfer[s.OUTCOME] = settled, known, outcome
            self._waited(delivery, settled, outcome, final=True)
            self._tell(transfer)

    def _waited(self, delivery: PendingDelivery, ns: int, outcome: str | None, *, final: bool) -> None:
        """Count this delivery if it has waited too long at `ns`. `final`: its outcome cannot change any more."""
        since, to = delivery.transfer[s.NS], delivery.subscription
        if ns - since > self._stuck_after:
            key = (to.shown, to.destination, delivery.upstream, delivery.broker, ns, outcome, final)
            oldest, count = self._waits.get(key, (since, 0))
            self._waits[key] = min(oldest, since), count + 1

    def waits(
        self, relay: str, session: str, client: str | None, now: int, *, present: bool, over: bool
    ) -> Iterator[Wait]:
        """Yield a `Wait` for deliveries that waited too long, and for deliveries that still wait too long at `now`
        (ns). Deliveries whose waits overlap share a `Wait`. Call this method once for each batch. `present`: the run of
        the relay still writes; `over`: no more records of the session will come.
        """
        for delivery in self._pending_deliveries:
            if delivery.loss is None:
                self._waited(delivery, *(delivery.answered or (now, None)), final=False)
        known = []
        for (*where, until, outcome, final), (since, deliveries) in self._waits.items():
            going = present and not over and outcome is None
            times = (since, until, until - since)
            values = (relay, session, client, *where, *times, deliveries, outcome, going, final or over)
            known.append(Wait._make(values))
        yield from merged(each for each in known if each.final)
        yield from (each for each in known if not each.final)

    # From batch to batch

    def dump(self, brokers: SessionBrokers, before: int) -> list[Any]:
        """Return the state for `load`, without losses that were over before `before` (ns) and their deliveries."""
        self._pending_deliveries.forget(before)
        brokers.forget(before, {id(each.loss) for each in self._pending_deliveries})
        numbers: dict[SeenSubscription, int] = {}
        subscribed = self._subscribed.dump(numbers)
        unsettled = self._pending_deliveries.dump(numbers, brokers.losses)
        return [self._version, [each.dump() for each in numbers], subscribed, unsettled]

    def load(self, values: list[Any], brokers: SessionBrokers) -> None:
        """Restore what `dump` returned. `brokers` must be from the same state."""
        self._version, subscriptions, subscribed, unsettled = values
        numbered = [SeenSubscription.load(each) for each in subscriptions]
        self._subscribed = Subscribed.load(subscribed, numbered)
        self._pending_deliveries = PendingDeliveries.load(unsettled, numbered, brokers.losses)

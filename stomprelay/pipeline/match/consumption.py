"""What a session is delivered, and what it answers."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from stomprelay.pipeline.match import record as r
from stomprelay.pipeline.match import sighting as s
from stomprelay.pipeline.match.brokers import Brokers
from stomprelay.pipeline.match.loss import Loss
from stomprelay.pipeline.match.outcome import ACKED, NACKED, RETURNED
from stomprelay.pipeline.match.subscribed import AUTO, Subscribed, Subscription
from stomprelay.pipeline.match.transactions import Transactions
from stomprelay.pipeline.match.unsettled import Delivery, Unsettled
from stomprelay.pipeline.match.waits import Waits
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.dialect import Delivery as Naming

_BY_ACK: Final = frozenset(
    dialect.version.decode() for dialect in DIALECTS.values() if dialect.delivery is Naming.ACK
)
"""The versions in which an ACK's `id` is the MESSAGE's `ack`."""


class Consumption:
    """The subscriptions of one session and its deliveries without an answer. `tell` is told of each sighting that was
    settled. `stuck_after` (ns): deliveries that wait longer for their answer are among `waits`.
    """

    __slots__ = ("_subscribed", "_tell", "_unsettled", "_version", "_waits")

    def __init__(self, tell: Callable[[s.Sighting], None], stuck_after: int) -> None:
        self._tell = tell
        self._waits = Waits(stuck_after)
        self._subscribed = Subscribed()
        self._unsettled = Unsettled()
        self._version: str | None = None

    def __iter__(self) -> Iterator[s.Sighting]:
        for delivery in self._unsettled:
            yield delivery.sighting

    def subscribe(self, record: r.Record, ns: int) -> None:
        """SUBSCRIBE."""
        self._version = record[r.VERSION]
        self._subscribed.subscribe(record[r.SUBSCRIPTION], record[r.DESTINATION], record[r.ACK] or AUTO, ns)

    def unsubscribe(self, record: r.Record) -> None:
        """UNSUBSCRIBE. What it was delivered may still be answered."""
        self._subscribed.unsubscribe(record[r.SUBSCRIPTION], record[r.DESTINATION])

    def delivered(self, record: r.Record, sighting: s.Sighting, brokers: Brokers, *, whole: bool) -> None:
        """A MESSAGE. `whole`: all that the session said before is known."""
        name, destination, version = record[r.SUBSCRIPTION], record[r.DESTINATION], record[r.VERSION]
        ack = record[r.ACK] if version in _BY_ACK else None
        found = self._subscribed.delivered(name, destination)
        subscription = found or self._subscribed.meant(destination)
        if subscription is not None:
            sighting[s.SUBSCRIPTION] = subscription.shown
            sighting[s.SINCE_NS] = subscription.since
            sighting[s.MODE] = subscription.mode
            auto = subscription.mode == AUTO
        else:
            # Nobody asked for it, as with reply queues; or it is not known who did.
            auto = whole
            if not auto and ack is None:
                return
            subscription = Subscription(name or "", destination, None, None, named=name is not None)
        if auto:
            sighting[s.SETTLED_NS] = sighting[s.KNOWN_NS] = sighting[s.NS]
            sighting[s.OUTCOME] = ACKED
            return
        alike = version == self._version
        message_id = record[r.MESSAGE_ID]
        counted = found is not None and message_id is not None
        delivery = Delivery(subscription, message_id, ack, record[r.BROKER], sighting, record[r.UPSTREAM])
        self._unsettled.noted(
            delivery, alike=alike, counted=counted and (not alike or self._subscribed.acknowledging > 0)
        )
        if delivery.broker not in brokers.live:
            loss = brokers.going(delivery.broker)
            if loss is not None:  # the session is leaving it: no answer will reach it
                self._settle(delivery, sighting[s.NS], sighting[s.NS], RETURNED)
                delivery.loss = loss

    def answered(
        self, record: r.Record, ns: int, brokers: Brokers, transactions: Transactions, *, whole: bool
    ) -> None:
        """ACK or NACK."""
        name = record[r.ACK] if record[r.VERSION] in _BY_ACK else None
        delivery = self._unsettled.named(name, record[r.MESSAGE_ID], record[r.SUBSCRIPTION])
        loss = brokers.missing if delivery is None else delivery.loss
        if loss is not None:
            loss.stale()
        transaction = record[r.TRANSACTION]
        if transaction is not None and transaction not in transactions:
            if whole:
                transaction = None
            else:
                transactions.begin(transaction)
        if transaction is not None and loss is not None:
            transactions.doom(transaction)
        if delivery is None or (loss is not None and not loss.over and brokers.several):
            return  # where there are several brokers, the relay does not look which one it is while its own is gone
        outcome = ACKED if record[r.COMMAND] == "ACK" else NACKED
        for each in self._unsettled.answered(delivery, transaction, ns, outcome):
            if transaction is None:
                self._settle(each, ns, ns, outcome)
            elif each.loss is not None:
                transactions.doom(transaction)

    def committed(self, transaction: str, ns: int) -> None:
        """What was answered in a transaction took effect now."""
        for delivery in self._unsettled.committed(transaction):
            if delivery.answered is not None:
                self._settle(delivery, delivery.answered[0], ns, delivery.answered[1])

    def aborted(self, transaction: str) -> None:
        """What was answered in a transaction was not."""
        self._unsettled.aborted(transaction)

    def lost(self, loss: Loss, ns: int, transactions: Transactions) -> None:
        """A broker is gone, and its deliveries with it. They are still known by their names."""
        for transaction in self._unsettled.answering(loss.broker):
            transactions.doom(transaction)
        for delivery in self._unsettled.of(loss.broker):
            self._settle(delivery, ns, ns, RETURNED)
            delivery.loss = loss

    def ended(self, ns: int) -> None:
        """The client is gone."""
        for delivery in self._unsettled:
            self._settle(delivery, ns, ns, RETURNED)
        self._unsettled = Unsettled()

    def _settle(self, delivery: Delivery, settled: int, known: int, outcome: str) -> None:
        if delivery.loss is None:
            sighting = delivery.sighting
            sighting[s.SETTLED_NS], sighting[s.KNOWN_NS], sighting[s.OUTCOME] = settled, known, outcome
            self._waits.ended(delivery, settled, outcome)
            self._tell(sighting)

    def waits(self, now: int) -> Waits:
        """The deliveries that were overdue when they were settled, and those that have no answer at `now` and are. Ask
        once, at the end of a batch.
        """
        for delivery in self._unsettled:
            if delivery.loss is None:
                self._waits.goes_on(delivery, now)
        return self._waits

    # From batch to batch

    def dump(self, brokers: Brokers, before: int) -> list[Any]:
        """As JSON has it. Deliveries of brokers whose loss was over `before` are forgotten, and such losses."""
        self._unsettled.forget(before)
        brokers.forget(before, {id(each.loss) for each in self._unsettled})
        numbers: dict[Subscription, int] = {}
        subscribed = self._subscribed.dump(numbers)
        unsettled = self._unsettled.dump(numbers, brokers.losses)
        return [self._version, [each.dump() for each in numbers], subscribed, unsettled]

    def load(self, values: list[Any], brokers: Brokers) -> None:
        """Of what `dump` made, and the brokers of that time."""
        self._version, subscriptions, subscribed, unsettled = values
        numbered = [Subscription.load(each) for each in subscriptions]
        self._subscribed = Subscribed.load(subscribed, numbered)
        self._unsettled = Unsettled.load(unsettled, numbered, brokers.losses)

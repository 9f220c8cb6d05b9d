"""What a session is delivered, and what it answers: which delivery an ACK or NACK is about, as the relay itself tells
(see `session.ledger`).

The journal has MESSAGEs as brokers sent them and ACKs as clients sent them. Where the versions differ, or two brokers
gave the same id, the client knows a delivery by the relay's token, which holds its number in the session.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from stomprelay.pipeline.schema import ACKED, NACKED, RETURNED
from stomprelay.pipeline.sessions import record as r
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.outages import BrokerLoss, Brokers
from stomprelay.pipeline.sessions.pending import PendingDeliveries, PendingDelivery
from stomprelay.pipeline.sessions.publishing import Transactions
from stomprelay.pipeline.sessions.subscriptions import Subscribed, Subscription
from stomprelay.pipeline.sessions.transfer import AUTO
from stomprelay.pipeline.sessions.waits import Waits
from stomprelay.wire.dialect import DIALECTS, DeliveryNaming


def _naming(delivery: DeliveryNaming) -> frozenset[str | None]:
    """Return the versions in which an ACK names a delivery so."""
    return frozenset(each.version.decode() for each in DIALECTS.values() if each.delivery is delivery)


_BY_ACK: Final = _naming(DeliveryNaming.ACK)
"""The versions in which an ACK's `id` is the MESSAGE's `ack`."""
_BY_MESSAGE: Final = _naming(DeliveryNaming.MESSAGE_ID)
"""Those in which a message-id is enough, whatever stands beside it."""


class Consumption:
    """A session's subscriptions and unanswered deliveries; iterating yields the rows of these. `tell` is called with
    the row of each delivery that is settled. Those that wait longer than `stuck_after` (ns) are among `waits`.
    """

    def __init__(self, tell: Callable[[s.Transfer], None], stuck_after: int) -> None:
        self._tell = tell
        self._waits = Waits(stuck_after)
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

    def delivered(self, record: r.Record, transfer: s.Transfer, brokers: Brokers, *, whole: bool) -> None:
        """Record a MESSAGE, and complete `transfer`. `whole`: no earlier frame is missing."""
        name, destination, version = record[r.SUBSCRIPTION], record[r.DESTINATION], record[r.VERSION]
        ack = record[r.ACK] if version in _BY_ACK else None
        found = subscription = self._subscribed.delivered(name, destination)
        if subscription is not None:
            transfer[s.SUBSCRIPTION] = subscription.shown
            transfer[s.SINCE_NS] = subscription.since
            transfer[s.MODE] = subscription.mode
            auto = subscription.mode == AUTO
        else:
            # Nobody asked for it, as with reply queues; or it is not known who did.
            auto = whole
            if not auto and ack is None:
                return
            subscription = Subscription(name or "", destination, None, None, named=name is not None)
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
            if loss is not None:  # the session is leaving it: no answer will reach it
                self._settle(delivery, transfer[s.NS], transfer[s.NS], RETURNED)
                delivery.lose(loss)

    def answered(
        self, record: r.Record, ns: int, brokers: Brokers, transactions: Transactions, *, whole: bool
    ) -> None:
        """Record an ACK or NACK at `ns`. `whole`: no earlier frame of the session is missing."""
        name = record[r.ACK] if record[r.VERSION] in _BY_ACK else None
        delivery = self._pending_deliveries.named(name, record[r.MESSAGE_ID], record[r.SUBSCRIPTION])
        if delivery is None and record[r.VERSION] in _BY_MESSAGE:
            delivery = self._pending_deliveries.named(None, record[r.MESSAGE_ID], None)
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
        """Record the loss of a broker at `ns`: deliveries count as returned, their transactions are doomed."""
        for transaction in self._pending_deliveries.answering(loss.broker):
            transactions.doom(transaction)
        for delivery in self._pending_deliveries.of(loss.broker):
            self._settle(delivery, ns, ns, RETURNED)
            delivery.lose(loss)

    def ended(self, ns: int) -> None:
        """Record that the client left at `ns`: all its deliveries count as returned."""
        for delivery in self._pending_deliveries:
            self._settle(delivery, ns, ns, RETURNED)
        self._pending_deliveries = PendingDeliveries()

    def _settle(self, delivery: PendingDelivery, settled: int, known: int, outcome: str) -> None:
        if delivery.loss is None:
            transfer = delivery.transfer
            transfer[s.SETTLED_NS], transfer[s.KNOWN_NS], transfer[s.OUTCOME] = settled, known, outcome
            self._waits.ended(delivery, settled, outcome)
            self._tell(transfer)

    def waits(self, now: int) -> Waits:
        """Return the deliveries that waited too long, also those that wait at `now` (ns). Call it once a batch."""
        for delivery in self._pending_deliveries:
            if delivery.loss is None:
                self._waits.goes_on(delivery, now)
        return self._waits

    # From batch to batch

    def dump(self, brokers: Brokers, before: int) -> list[Any]:
        """Return its state for JSON; losses that ended before `before` (ns) are dropped with their deliveries."""
        self._pending_deliveries.forget(before)
        brokers.forget(before, {id(each.loss) for each in self._pending_deliveries})
        numbers: dict[Subscription, int] = {}
        subscribed = self._subscribed.dump(numbers)
        unsettled = self._pending_deliveries.dump(numbers, brokers.losses)
        return [self._version, [each.dump() for each in numbers], subscribed, unsettled]

    def load(self, values: list[Any], brokers: Brokers) -> None:
        """Restore what `dump` returned. `brokers` must be those of the same state."""
        self._version, subscriptions, subscribed, unsettled = values
        numbered = [Subscription.load(each) for each in subscriptions]
        self._subscribed = Subscribed.load(subscribed, numbered)
        self._pending_deliveries = PendingDeliveries.load(unsettled, numbered, brokers.losses)

"""A message as it becomes known, its SEND and its deliveries, and its row of the table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stomprelay.pipeline import schema
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.settings import TimeLimits


def is_topic(transfer: Sequence[Any]) -> bool:
    """Return whether the destination of a SEND or MESSAGE is a topic."""
    return (transfer[s.DESTINATION] or "").startswith(schema.TOPICS)


@dataclass(slots=True, eq=False)
class Message:
    """One message: its SEND, None if it was not seen, and its MESSAGEs in order. `available`: since when (ns) a broker
    can deliver it. `ends`: the last delivery by recipient. `_open`: deliveries without an outcome; `_bad`: returned
    ones.
    """

    first: int
    topic: bool = field(kw_only=True)
    last: int = 0
    sent: s.Transfer | None = None
    deliveries: list[s.Transfer] = field(default_factory=list)
    available: int | None = None
    aborted: bool = False
    ends: dict[tuple[Any, ...], s.Transfer] = field(default_factory=dict)
    _open: int = 0
    _bad: int = 0

    def __post_init__(self) -> None:
        self.last = self.first

    # What happens

    def was_sent(self, transfer: s.Transfer, ns: int) -> None:
        """Record its SEND, at `ns`."""
        self.sent = transfer
        self.last = max(self.last, ns)

    def became_available(self, ns: int) -> None:
        """Record that a broker can deliver it from `ns` on: it was sent or committed."""
        self.available = ns
        self.last = max(self.last, ns)

    def was_confirmed(self, ns: int) -> None:
        """Record the RECEIPT for its SEND, at `ns`. `was_sent` must have been called before."""
        assert self.sent is not None
        self.sent[s.RECEIPT_NS] = ns
        self.last = max(self.last, ns)

    def was_aborted(self, ns: int) -> None:
        """Record that the transaction of its SEND was aborted, at `ns`."""
        self.aborted = True
        self.last = max(self.last, ns)

    def was_delivered(self, transfer: s.Transfer, ns: int) -> s.Transfer | None:
        """Record a MESSAGE. Return the earlier delivery that it repeats, None if there was none."""
        self.deliveries.append(transfer)
        self.last = max(self.last, ns)
        to = self.recipient(transfer)
        before = self.ends.get(to)
        if before is not None and before[s.OUTCOME] == schema.RETURNED:
            self._bad -= 1
        self.ends[to] = transfer
        if transfer[s.OUTCOME] is None:
            self._open += 1
        elif transfer[s.OUTCOME] == schema.RETURNED:
            self._bad += 1
        return before

    def was_settled(self, delivery: s.Transfer, ns: int, settled: int | None, outcome: str) -> None:
        """Record the first outcome of a delivery. `settled`: when it was said; `ns`: when it took effect."""
        self.last = max(self.last, ns)
        if delivery[s.OUTCOME] is not None:
            return
        delivery[s.SETTLED_NS], delivery[s.KNOWN_NS], delivery[s.OUTCOME] = settled, ns, outcome
        self._open -= 1
        if outcome == schema.RETURNED and self.ends[self.recipient(delivery)] is delivery:
            self._bad += 1

    def recipient(self, delivery: s.Transfer) -> tuple[Any, ...]:
        """Return the key of `ends`: (client, subscription) of a topic's message, () of a queue's."""
        return (delivery[s.CLIENT], delivery[s.SUBSCRIPTION]) if self.topic else ()

    # What is known

    @property
    def back(self) -> bool:
        """Return whether a broker has it again: its last delivery was nacked or returned."""
        return bool(self.deliveries) and self.deliveries[-1][s.OUTCOME] in (schema.NACKED, schema.RETURNED)

    @property
    def flying(self) -> bool:
        """Return whether a delivery still waits for its ACK, NACK or return."""
        return self._open > 0

    @property
    def settled(self) -> bool:
        """Return whether no RECEIPT, ACK or repetition is missing; without deliveries, whether it was aborted."""
        sent = self.sent
        if (
            sent is not None
            and sent[s.RECEIPT] is not None
            and sent[s.RECEIPT_NS] is None
            and not self.aborted
        ):
            return False
        return not self._open and not self._bad if self.deliveries else self.aborted

    def until(self, limits: TimeLimits) -> int:
        """Return the time in ns after which the message is final."""
        if not self.settled:
            return self.last + limits.give_up
        if self.sent is None:
            return max(self.last + limits.linger, self.first + limits.patience)
        return self.last + limits.linger

    @property
    def outcome(self) -> str:
        """Return the worst outcome of all recipients: not settled, returned, nacked, acked."""
        if not self.deliveries:
            if self.aborted:
                return schema.ABORTED
            sent = self.sent
            unconfirmed = sent is not None and sent[s.RECEIPT] is not None and sent[s.RECEIPT_NS] is None
            return schema.UNCONFIRMED if unconfirmed else schema.UNDELIVERED
        outcomes = {each[s.OUTCOME] for each in self.ends.values()}
        if None in outcomes:
            return schema.DELIVERED
        return next(each for each in (schema.RETURNED, schema.NACKED, schema.ACKED) if each in outcomes)

    @property
    def redelivered(self) -> int:
        """Return how many deliveries repeat one to the same subscription, or one that went back."""
        seen: set[tuple[Any, ...]] = set()
        returned: set[tuple[Any, ...]] = set()
        count = 0
        for each in self.deliveries:
            subscription, to = (each[s.SESSION], each[s.SUBSCRIPTION]), self.recipient(each)
            count += subscription in seen or to in returned
            seen.add(subscription)
            if each[s.OUTCOME] in (schema.NACKED, schema.RETURNED):
                returned.add(to)
        return count

    def row(self, key: str, method: str, *, final: bool) -> list[Any]:
        """Return the values of a row of `MESSAGES`: times in ns, durations in µs, `headers` as JSON."""
        sent, deliveries = self.sent, self.deliveries
        begun = deliveries[0] if sent is None else sent
        ns = begun[s.NS]
        relay, destination, size = begun[s.RELAY], begun[s.DESTINATION], begun[s.SIZE]
        producer = session = sent_ns = receipt = transaction = headers = receipt_us = delivery_us = ack_us = (
            None
        )
        if sent is not None:
            producer, session, sent_ns = sent[s.CLIENT], sent[s.SESSION], ns
            receipt, transaction, headers = sent[s.RECEIPT], sent[s.TRANSACTION], sent[s.HEADERS]
            if sent[s.RECEIPT_NS] is not None:
                receipt_us = max(sent[s.RECEIPT_NS] - ns, 0) // 1000
            if deliveries:
                delivery_us = max(min(each[s.NS] for each in deliveries) - ns, 0) // 1000
        for each in deliveries:
            if each[s.OUTCOME] == schema.ACKED and each[s.MODE] is not None and each[s.MODE] != s.AUTO:
                ack_us = (each[s.SETTLED_NS] - each[s.NS]) // 1000
                break
        found = len(deliveries) > (sent is None)
        return [
            *(ns, relay, destination, producer, session, sent_ns, size, receipt, transaction, headers),
            *(s.carried(key), method if found else None, self.outcome, [_told(each) for each in deliveries]),
            *(self.redelivered if len(deliveries) > 1 else 0, receipt_us, delivery_us, ack_us, final),
            *(begun[s.SEGMENT], begun[s.POSITION], begun[s.NUMBER]),
        ]

    # From batch to batch

    def dump(self) -> list[Any]:
        """Return its state as a list that JSON can hold; `load` reads it."""
        return [
            None if self.sent is None else self.sent[1:],
            [each[1:] for each in self.deliveries],
            *(self.available, self.aborted, self.topic, self.first, self.last),
        ]

    @classmethod
    def load(cls, key: str, values: list[Any]) -> "Message":
        """Return the message whose state `dump` returned; the state leaves out its `key`."""
        sent, deliveries, available, aborted, topic, first, last = values
        message = cls(first, topic=topic)
        message.available, message.aborted = available, aborted
        if sent is not None:
            message.sent = [key, *sent]
        for each in deliveries:
            message.was_delivered([key, *each], last)
        message.last = last
        return message


def _told(delivery: s.Transfer) -> tuple[Any, ...]:
    """Return the values of one element of the column `deliveries`, with times in ns."""
    return (
        delivery[s.NS],
        delivery[s.CLIENT],
        delivery[s.SESSION],
        delivery[s.SUBSCRIPTION],
        delivery[s.UPSTREAM],
        delivery[s.BROKER],
        delivery[s.MESSAGE_ID],
        delivery[s.MODE],
        delivery[s.SETTLED_NS],
        delivery[s.OUTCOME] or schema.DELIVERED,
    )

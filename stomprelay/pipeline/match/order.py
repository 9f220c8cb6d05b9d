"""Which message a MESSAGE is, where nothing in it tells for sure: by the order in which messages were sent.

Messages of one order look alike: they have the same id of their publisher's, or the same destination and body as far
as that is known. The first that was sent is the first that is delivered; of a topic, to each of its subscribers. A
broker's message-id, `redelivered` and the relay's `relay-copy` show one that was delivered before.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from itertools import islice
from typing import Any, Final

from stomprelay.pipeline.match.message import Message
from stomprelay.pipeline.match.transfer import (
    AGAIN,
    BROKER,
    COPY,
    KIND,
    KNOWN_NS,
    MESSAGE_ID,
    NS,
    NUMBER,
    OFFSET,
    RELAY,
    SEGMENT,
    SESSION,
    SINCE_NS,
    SUBSCRIPTION,
    Transfer,
)
from stomprelay.pipeline.settings import TimeLimits

Position = tuple[int, str, int, int]
"""A message's place among those that were sent: when it became available, and where its SEND is in the journal."""
_BEFORE_ALL: Final = ("", 0, 0)


def position(message: Message) -> Position:
    """Return where a message stands in the order of sending. Only for a message that has a SEND and is
    available.
    """
    assert message.sent is not None
    assert message.available is not None
    return (message.available, message.sent[SEGMENT], message.sent[OFFSET], message.sent[NUMBER])


class SendOrder:
    """The order of the messages of one key, and which of them each MESSAGE delivers. `by_id`: the key is a
    publisher's id, so there is rarely more than one message of it.

    The `Matching` calls `adopted` and `next` to find the message of a SEND or MESSAGE, and reports every
    change with `available`, `delivered`, `settled` and `swept`.
    """

    __slots__ = (
        "_back",
        "_by_id",
        "_by_message",
        "_copies",
        "_flying",
        "_limits",
        "_orphans",
        "_reached",
        "_sent",
        "_undelivered",
    )

    def __init__(self, limits: TimeLimits, *, by_id: bool) -> None:
        self._limits = limits
        self._by_id = by_id
        self._by_message: dict[tuple[str | None, str], Message] = {}
        self._copies: dict[str, Message] = {}
        self._sent: list[Message] = []
        self._undelivered: deque[Message] = deque()
        self._back: deque[tuple[Message, Transfer]] = deque()
        self._flying: deque[tuple[Message, Transfer]] = deque()
        self._orphans: deque[Message] = deque()
        self._reached: dict[tuple[Any, Any], Position] = {}

    # Publishers

    def adopted(self, transfer: Transfer, ns: int) -> Message | None:
        """Return the message without a SEND that this SEND belongs to: its delivery was journaled by another
        relay whose clock is ahead. None if the SEND begins a new message.
        """
        orphans = self._orphans
        while orphans:
            first = orphans[0]
            if first.sent is not None or ns > first.until(self._limits):
                orphans.popleft()
                continue
            elsewhere = first.deliveries[0][RELAY] != transfer[RELAY]
            if self._by_id or (elsewhere and ns - first.first <= self._limits.linger):
                return orphans.popleft()
            return None
        return None

    def available(self, message: Message) -> None:
        """Record that brokers can deliver this message from now on."""
        self._sent.append(message)
        if not message.deliveries:
            self._undelivered.append(message)

    # Consumers

    def next(self, delivery: Transfer, ns: int, *, topic: bool) -> Message | None:
        """Return the message that a MESSAGE at `ns` delivers; None if its SEND was not seen, so that the
        caller begins a new message. Call `delivered` afterwards.
        """
        known = self._known(delivery, ns)
        if known is not None:
            return known
        return self._of_topic(delivery, ns) if topic else self._of_queue(delivery, ns)

    def _known(self, delivery: Transfer, ns: int) -> Message | None:
        """Return the message that was delivered before with the same message-id from the same broker, or the
        same `relay-copy`; None if there is none that still counts.
        """
        name = delivery[MESSAGE_ID]
        found = None if name is None else self._by_message.get((delivery[BROKER], name))
        if found is None and delivery[COPY] is not None:
            found = self._copies.get(delivery[COPY])
        return found if found is not None and self._alive(found, ns) else None

    def _alive(self, message: Message, ns: int) -> bool:
        return not message.aborted and ns <= message.until(self._limits)

    def _of_queue(self, delivery: Transfer, ns: int) -> Message | None:
        if delivery[AGAIN]:
            found = self._again(ns) or self._lost_sight_of(delivery, ns)
            if found is not None:
                return found
        while self._undelivered:
            message = self._undelivered.popleft()
            if not message.deliveries and self._alive(message, ns):
                return message
        return self._again(ns) or (self._any(ns) if self._by_id else None)

    def _again(self, ns: int) -> Message | None:
        """Return the first message whose last delivery was nacked or returned, so that a broker has it again;
        None if there is none.
        """
        while self._back:
            message, delivery = self._back.popleft()
            if delivery is message.deliveries[-1] and message.back and self._alive(message, ns):
                return message
        return None

    def _lost_sight_of(self, delivery: Transfer, ns: int) -> Message | None:
        """Return the first message that another session was delivered and has not acked. Its broker
        redelivers it before the relay has noticed that this session's client is gone. None if there is none.
        """
        while self._flying:
            message, last = self._flying[0]
            if last is not message.deliveries[-1] or not message.flying or not self._alive(message, ns):
                self._flying.popleft()
                continue
            return None if last[SESSION] == delivery[SESSION] else message
        return None

    def _any(self, ns: int) -> Message | None:
        return next((each for each in reversed(self._sent) if self._alive(each, ns)), None)

    def _of_topic(self, delivery: Transfer, ns: int) -> Message | None:
        """Return the next message for the subscription: the first after the one it got last, or since it
        subscribed. None if there is none.
        """
        subscriber = (delivery[SESSION], delivery[SUBSCRIPTION])
        reached = self._reached.get(subscriber)
        if reached is not None:
            at = bisect_right(self._sent, reached, key=position)
        else:
            at = bisect_left(self._sent, (delivery[SINCE_NS] or 0, *_BEFORE_ALL), key=position)
        found = next((each for each in islice(self._sent, at, None) if self._alive(each, ns)), None)
        if found is None and reached is None and at:
            # The two came by different connections, and the broker had the subscription first.
            last = self._sent[at - 1]
            found = last if self._alive(last, ns) and ns <= last.first + self._limits.linger else None
        return found or (self._any(ns) if self._by_id else None)

    def delivered(self, message: Message, delivery: Transfer) -> None:
        """Record that `delivery` is a delivery of `message`, whether `next` found it or the caller made it.
        `message.was_delivered` must have been called before.
        """
        self._name(message, delivery)
        if message.sent is None:
            self._orphans.append(message)
        elif message.topic and message.available is not None:
            subscriber = (delivery[SESSION], delivery[SUBSCRIPTION])
            self._reached[subscriber] = max(
                position(message), self._reached.get(subscriber, position(message))
            )
        if message.flying and not message.topic:
            self._flying.append((message, delivery))

    def _name(self, message: Message, delivery: Transfer) -> None:
        if delivery[MESSAGE_ID] is not None:
            self._by_message[delivery[BROKER], delivery[MESSAGE_ID]] = message
        if delivery[COPY] is not None:
            self._copies[delivery[COPY]] = message

    def settled(self, message: Message) -> None:
        """Record that a delivery of `message` was acked, nacked or returned. `message.was_settled` must have
        been called before.
        """
        if message.back and not message.topic:
            self._back.append((message, message.deliveries[-1]))

    # From batch to batch

    def swept(self, left: list[Message]) -> None:
        """Forget all messages but those in `left`."""
        known = set(map(id, left))
        self._sent = [each for each in self._sent if id(each) in known]
        self._undelivered = deque(each for each in self._undelivered if id(each) in known)
        self._back = deque(each for each in self._back if id(each[0]) in known)
        self._flying = deque(each for each in self._flying if id(each[0]) in known)
        self._orphans = deque(each for each in self._orphans if id(each) in known)
        self._by_message = {name: each for name, each in self._by_message.items() if id(each) in known}
        self._copies = {name: each for name, each in self._copies.items() if id(each) in known}
        if self._sent:
            first = position(self._sent[0])
            self._reached = {who: at for who, at in self._reached.items() if at >= first}
        else:
            self._reached = {}

    def dump(self) -> list[Any]:
        """Return how far each subscriber of a topic is, as a list that JSON can hold; `load` reads it. All
        other state follows from the messages.
        """
        return [[*who, *at] for who, at in self._reached.items()]

    def load(self, values: list[Any], messages: list[Message]) -> None:
        """Restore the state from what `dump` returned and from the messages that were restored, in the order
        in which they were seen. Call it once, before anything else.
        """
        for session, subscription, *at in values:
            self._reached[session, subscription] = (at[0], at[1], at[2], at[3])
        deliveries = [(delivery, message) for message in messages for delivery in message.deliveries]
        deliveries.sort(key=_came)
        for delivery, message in deliveries:
            self._name(message, delivery)
        self._orphans.extend(each for each in messages if each.sent is None)
        sent = [each for each in messages if each.sent is not None and each.available is not None]
        self._sent = sorted(sent, key=position)
        self._undelivered = deque(each for each in self._sent if not each.deliveries)
        last = [(each, end) for end, each in deliveries if end is each.deliveries[-1] and not each.topic]
        self._flying = deque(each for each in last if each[0].flying)
        went = [each for each in last if each[0].back]
        self._back = deque(sorted(went, key=_settled))


def _came(delivered: tuple[Transfer, Message]) -> Any:
    return delivered[0][NS:KIND]


def _settled(last: tuple[Message, Transfer]) -> int:
    return last[1][KNOWN_NS] or 0

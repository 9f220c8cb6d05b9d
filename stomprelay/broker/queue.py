"""Queues, topics and their consumers."""

from collections import OrderedDict, deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from stomprelay.broker.bounds import Memory
from stomprelay.broker.message import Message
from stomprelay.broker.output import Outbox
from stomprelay.session.subscriptions import AUTO, CUMULATIVE
from stomprelay.wire.dialect import DeliveryNaming, Dialect
from stomprelay.wire.errors import LimitError
from stomprelay.wire.names import DESTINATION, REDELIVERED, SUBSCRIPTION


class Entry:
    """One queue's copy of a message, from its arrival until it is settled.

    `order` is its place among the queue's, oldest first; `refusals` how often it was NACKed. `consumer` is who has
    it, or had it last, and `delivery` that consumer's number for it, in the order of its deliveries.
    """

    __slots__ = ("consumer", "delivery", "message", "order", "redelivered", "refusals")

    def __init__(self, message: Message, order: int) -> None:
        self.message = message
        self.order = order
        self.redelivered = False
        self.refusals = 0
        self.consumer: Consumer | None = None
        self.delivery = 0

    def __lt__(self, other: "Entry") -> bool:
        """Older entries come first."""
        return self.order < other.order


_REDELIVERED = REDELIVERED + b":true\n"


class Consumer:
    """Who gets messages, and which of them it has not acknowledged.

    `id` is the client's name for the subscription, None where it gave none; `tag` is ours, told in the `ack` header
    of a 1.2 client. `unsettled` holds what awaits an ACK by message-id, in the order of delivery, and `window` says
    how much that may be. A consumer that acknowledges nothing has what it is sent at once.
    """

    __slots__ = (
        "_ack",
        "_delivered",
        "_dialect",
        "_prefix",
        "acknowledges",
        "closed",
        "cumulative",
        "destination",
        "id",
        "outbox",
        "queue",
        "tag",
        "unsettled",
        "waiting",
        "window",
    )

    queue: "Queue"
    """Where its messages come from; `Queue.joined` sets it."""

    def __init__(
        self,
        tag: bytes,
        id: bytes | None,
        destination: bytes,
        mode: bytes,
        prefetch: int,
        dialect: Dialect,
        outbox: Outbox,
    ) -> None:
        self.tag = tag
        self.id = id
        self.destination = destination
        self.outbox = outbox
        self.acknowledges = mode != AUTO
        self.cumulative = mode == CUMULATIVE
        self.window: float = prefetch if self.acknowledges else inf
        self.unsettled: OrderedDict[bytes, Entry] = OrderedDict()
        self.waiting = False
        self.closed = False
        self._delivered = 0
        self._dialect = dialect
        named = [] if id is None else [(SUBSCRIPTION, id)]
        self._prefix = b"MESSAGE\n%bmessage-id:" % dialect.write([*named, (DESTINATION, destination)])
        tells = self.acknowledges and dialect.delivery is DeliveryNaming.ACK
        self._ack = b"ack:%b-" % tag if tells else b""

    @property
    def able(self) -> bool:
        """Whether it can be given one more message now."""
        return self.outbox.ready and len(self.unsettled) < self.window

    def write(self, message: Message, redelivered: bool) -> None:
        """Send it a message."""
        head = message.head
        self.outbox.deliver(
            b"%b%b\n%b%b%b"
            % (
                self._prefix,
                message.id,
                b"%b%b\n" % (self._ack, message.id) if self._ack else b"",
                _REDELIVERED if redelivered else b"",
                head.lines if head.lines is not None else head.written(self._dialect),
            ),
            message.body,
        )

    def take(self, entry: Entry) -> None:
        """Send it a message that it has to acknowledge."""
        message = entry.message
        self._delivered += 1
        entry.consumer = self
        entry.delivery = self._delivered
        self.unsettled[message.id] = entry
        self.write(message, entry.redelivered)

    def named(self, message_id: bytes) -> list[Entry]:
        """What an ACK or NACK of this message is about; it awaits no other. Empty when nothing of that name does.

        Where acknowledging is cumulative, all that was sent before goes with it (STOMP 1.2, "SUBSCRIBE ack
        Header").
        """
        unsettled = self.unsettled
        if message_id not in unsettled:
            return []
        if not self.cumulative:
            return [unsettled.pop(message_id)]
        entries = []
        name = b""
        while name != message_id:
            name, entry = unsettled.popitem(last=False)
            entries.append(entry)
        return entries

    def restore(self, entries: list[Entry]) -> None:
        """What an aborted transaction had acknowledged awaits its ACK again, in the old order."""
        everything = sorted([*self.unsettled.values(), *entries], key=_by_delivery)
        self.unsettled = OrderedDict([(entry.message.id, entry) for entry in everything])


def _by_delivery(entry: Entry) -> int:
    return entry.delivery


class Queue:
    """What waits, and who waits for it.

    While anything waits no consumer is able to take it: whoever makes a consumer able (or lets one join) has to
    tell by `revived`. `len()` is how many messages wait, `octets` how many octets they are; `entries` counts those
    that await an ACK too. A `private` queue serves one subscriber of a topic and dies with it.
    """

    __slots__ = (
        "_dead",
        "_fresh",
        "_memory",
        "_most",
        "_most_octets",
        "_order",
        "_returned",
        "_waiting",
        "consumers",
        "destination",
        "entries",
        "octets",
        "private",
    )

    def __init__(
        self,
        destination: bytes,
        memory: Memory,
        most: int,
        most_octets: int,
        *,
        private: bool = False,
    ) -> None:
        self.destination = destination
        self.private = private
        self.consumers: dict[Consumer, None] = {}
        self.entries = 0
        self.octets = 0
        self._memory = memory
        self._most = most
        self._most_octets = most_octets
        self._order = 0
        self._fresh: deque[Entry] = deque()
        self._returned: list[Entry] = []
        self._waiting: deque[Consumer] = deque()
        self._dead = False

    def __len__(self) -> int:
        return len(self._fresh) + len(self._returned)

    @property
    def idle(self) -> bool:
        """Whether nobody would miss it."""
        return not self.entries and not self.consumers

    def has_room(self, count: int, octets: int) -> bool:
        """Whether so many more messages of so many octets together may wait. One may in any case."""
        waiting = len(self)
        if waiting + count == 1:
            return True
        return waiting + count <= self._most and self.octets + octets <= self._most_octets

    def require_room(self, count: int, octets: int) -> None:
        """Raise `LimitError` where `has_room` says no."""
        if not self.has_room(count, octets):
            bound = f"{self._most} messages and {self._most_octets} bytes"
            raise LimitError("the queue is full", f"a queue keeps {bound} at most")

    def keeps(self) -> bool:
        """Whether a message that came now would have to be kept: to wait, or until it is acknowledged."""
        consumer = self._next()
        return consumer is None or consumer.acknowledges

    def publish(self, message: Message) -> None:
        """A message came. Raises `LimitError` when it would have to be kept and cannot be."""
        consumer = self._next()
        if consumer is None:
            self.require_room(1, message.size)
            self._memory.admit(message)
        elif consumer.acknowledges:
            self._memory.admit(message)
        self._place(message, consumer)

    def add(self, message: Message) -> None:
        """A message came for which room was seen to."""
        self._place(message, self._next())

    def _place(self, message: Message, consumer: Consumer | None) -> None:
        if consumer is not None and not consumer.acknowledges:
            consumer.write(message, False)
            return
        self._memory.hold(message)
        self.entries += 1
        self._order += 1
        entry = Entry(message, self._order)
        if consumer is not None:
            consumer.take(entry)
        else:
            self.octets += message.size
            self._fresh.append(entry)

    def _next(self) -> Consumer | None:
        """Whose turn it is, of those who are able."""
        waiting = self._waiting
        while waiting:
            consumer = waiting[0]
            if consumer.outbox.ready and len(consumer.unsettled) < consumer.window:
                if len(waiting) > 1:
                    waiting.rotate(-1)
                return consumer
            waiting.popleft()
            consumer.waiting = False
        return None

    # Consumers

    def joined(self, consumer: Consumer) -> None:
        """A consumer subscribed. Tell by `revived` when it may be served."""
        consumer.queue = self
        self.consumers[consumer] = None

    def revived(self, consumer: Consumer) -> None:
        """A consumer may be able to take messages again."""
        if not consumer.waiting and consumer.able:
            consumer.waiting = True
            self._waiting.append(consumer)
        self.pump()

    def stepped_back(self, consumer: Consumer) -> None:
        """A consumer refused what it had: the others come first."""
        if consumer.waiting and len(self._waiting) > 1:
            self._waiting.remove(consumer)
            self._waiting.append(consumer)

    def left(self, consumer: Consumer) -> None:
        """A consumer is gone: what it did not acknowledge waits again. `pump` when all who go are gone."""
        consumer.closed = True
        del self.consumers[consumer]
        if consumer.waiting:
            self._waiting.remove(consumer)
            consumer.waiting = False
        if self.private:
            self._dead = True
            while (entry := self._pop()) is not None:
                self.settled(entry)
        self.returned(list(consumer.unsettled.values()))
        consumer.unsettled.clear()

    def pump(self) -> None:
        """Give what waits to those who are able to take it."""
        while self._fresh or self._returned:
            consumer = self._next()
            if consumer is None:
                return
            entry = self._pop()
            assert entry is not None
            if consumer.acknowledges:
                consumer.take(entry)
            else:
                consumer.write(entry.message, entry.redelivered)
                self.settled(entry)

    # Entries

    def _pop(self) -> Entry | None:
        """The oldest of those that wait; whatever was delivered before is older than what was not."""
        if self._returned:
            entry = heappop(self._returned)
        elif self._fresh:
            entry = self._fresh.popleft()
        else:
            return None
        self.octets -= entry.message.size
        return entry

    def settled(self, entry: Entry) -> None:
        """The queue is done with a message that does not wait."""
        self.entries -= 1
        self._memory.release(entry.message)

    def returned(self, entries: list[Entry]) -> None:
        """What was delivered in vain waits again, in the old place. `pump` afterwards."""
        for entry in entries:
            if self._dead:
                self.settled(entry)
            else:
                entry.redelivered = True
                self.octets += entry.message.size
                heappush(self._returned, entry)

    def evicted(self) -> bool:
        """The oldest that waits is thrown away. Answers whether there was one."""
        entry = self._pop()
        if entry is None:
            return False
        self.settled(entry)
        return True


class Topic:
    """The private queues of the subscribers.

    `overran` is told the outbox of a subscriber for which more would wait than the bounds allow: it has to be
    disconnected, for neither the publisher nor the other subscribers shall suffer for it.
    """

    __slots__ = ("_memory", "_most", "_most_octets", "_overran", "_queues", "destination")

    def __init__(
        self,
        destination: bytes,
        memory: Memory,
        most: int,
        most_octets: int,
        overran: Callable[[Outbox], None],
    ) -> None:
        self.destination = destination
        self._memory = memory
        self._most = most
        self._most_octets = most_octets
        self._overran = overran
        self._queues: dict[Consumer, Queue] = {}

    @property
    def idle(self) -> bool:
        """Whether nobody is subscribed."""
        return not self._queues

    @property
    def entries(self) -> int:
        """How many copies are kept, to wait or until they are acknowledged."""
        return sum(queue.entries for queue in self._queues.values())

    def publish(self, message: Message) -> None:
        """A message came. Raises `LimitError`, and nobody gets it, when it would have to be kept and cannot be."""
        if not self._memory.fits(message) and any(queue.keeps() for queue in self._queues.values()):
            self._memory.admit(message)
        self.add(message)

    def add(self, message: Message) -> None:
        """A message came for which room was seen to."""
        for consumer, queue in self._queues.items():
            if len(queue) and not queue.has_room(1, message.size):
                self._overran(consumer.outbox)
            else:
                queue.add(message)

    def require_room(self, count: int, octets: int) -> None:
        """Topics have room: what a subscriber cannot take is its own loss."""

    def joined(self, consumer: Consumer) -> None:
        """A consumer subscribed. Tell its queue by `revived` when it may be served."""
        queue = Queue(self.destination, self._memory, self._most, self._most_octets, private=True)
        queue.joined(consumer)
        self._queues[consumer] = queue

    def left(self, consumer: Consumer) -> None:
        """A consumer is gone, and what it had not received or not acknowledged with it."""
        self._queues.pop(consumer).left(consumer)

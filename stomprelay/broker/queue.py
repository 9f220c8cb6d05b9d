"""A queue: each message goes to one consumer, in the order of arrival, the consumers by turns."""

from collections import deque
from heapq import heappop, heappush

from stomprelay.broker.consumer import Consumer
from stomprelay.broker.entry import Entry
from stomprelay.broker.memory import Memory
from stomprelay.broker.message import Message
from stomprelay.wire.errors import LimitError


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

"""Every queue and topic by its name, the messages in them, and what waits for COMMIT."""

from collections.abc import Callable, Iterable
from typing import Final

from stomprelay.broker.bounds import Bounds, Memory
from stomprelay.broker.message import QUEUE, TOPIC, Head, Message
from stomprelay.broker.output import Outbox
from stomprelay.broker.queue import Consumer, Entry, Queue, Topic
from stomprelay.wire.errors import LimitError

DEAD_LETTERS: Final = QUEUE + b"DLQ"
"""The queue of messages that their consumers refused too often. Beyond it there is nothing: it keeps what is refused
again, and lets the oldest go when it is full.
"""

ORIGINAL_DESTINATION: Final = b"original-destination"
"""The header of a dead letter that says where it could not be delivered."""


class Destinations:
    """Queues and topics come with their first message or consumer and go with their last.

    A name that begins with `/topic/` is a topic's, any other a queue's. `overran` is told the outboxes of
    subscribers that are too slow for their topic, `lost` how many dead letters had to be thrown away.
    """

    __slots__ = ("_bounds", "_by_name", "_lost", "_made", "_name", "_overran", "memory")

    def __init__(
        self,
        bounds: Bounds,
        name: bytes,
        overran: Callable[[Outbox], None],
        lost: Callable[[int], None],
    ) -> None:
        self.memory = Memory(bounds.memory)
        self._bounds = bounds
        self._name = name
        self._overran = overran
        self._lost = lost
        self._made = 0
        self._by_name: dict[bytes, Queue | Topic] = {}

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def entries(self) -> dict[bytes, int]:
        """How many messages each destination keeps, to wait or until they are acknowledged."""
        return {name: destination.entries for name, destination in self._by_name.items()}

    # Messages

    def message(self, head: Head, body: bytes) -> Message:
        """A message with an id of its own; `body` ends in NUL."""
        self._made += 1
        return Message(b"%b-%d" % (self._name, self._made), head, body)

    def publish(self, message: Message) -> None:
        """A message came. Raises `LimitError` when it would have to be kept and cannot be."""
        name = message.head.destination
        destination = self._by_name.get(name)
        if destination is None:
            if name.startswith(TOPIC):
                return
            destination = self._queue(name)
            try:
                destination.publish(message)
            except LimitError:
                self.tidy(destination)
                raise
        else:
            destination.publish(message)

    def require_room(self, messages: Iterable[Message]) -> None:
        """Raise `LimitError` unless all of these can be added; the memory holds them already."""
        wanted: dict[bytes, tuple[int, int]] = {}
        for message in messages:
            count, octets = wanted.get(message.head.destination, (0, 0))
            wanted[message.head.destination] = count + 1, octets + message.size
        for name, (count, octets) in wanted.items():
            if name in self._by_name:
                self._by_name[name].require_room(count, octets)
            elif not name.startswith(TOPIC):
                destination = self._queue(name)
                try:
                    destination.require_room(count, octets)
                finally:
                    self.tidy(destination)

    def add(self, message: Message) -> None:
        """A message came for which room was seen to."""
        name = message.head.destination
        if name in self._by_name:
            self._by_name[name].add(message)
        elif not name.startswith(TOPIC):
            self._queue(name).add(message)

    def refused(self, entries: list[Entry]) -> None:
        """Consumers refused these. They wait again (`pump` their queues), or go to the dead letters."""
        for consumer in {entry.consumer: None for entry in entries}:
            assert consumer is not None
            consumer.queue.stepped_back(consumer)
        for entry in entries:
            assert entry.consumer is not None
            queue = entry.consumer.queue
            entry.refusals += 1
            if entry.refusals < self._bounds.refusals or queue.destination == DEAD_LETTERS:
                queue.returned([entry])
                continue
            old = entry.message
            head = old.head.moved(DEAD_LETTERS, ORIGINAL_DESTINATION, queue.destination)
            queue.settled(entry)
            self._bury(self.message(head, old.body))

    def _bury(self, letter: Message) -> None:
        thrown = 0
        while True:
            try:
                self.publish(letter)
                break
            except LimitError:
                thrown += 1
                graves = self._by_name.get(DEAD_LETTERS)
                if not isinstance(graves, Queue) or not graves.evicted():
                    break
                self.tidy(graves)
        if thrown:
            self._lost(thrown)

    # Consumers

    def joined(self, consumer: Consumer) -> None:
        """A consumer subscribed. Tell its queue by `revived` when it may be served."""
        name = consumer.destination
        destination = self._by_name.get(name)
        if destination is None:
            destination = self._topic(name) if name.startswith(TOPIC) else self._queue(name)
        destination.joined(consumer)

    def left(self, consumer: Consumer) -> None:
        """A consumer is gone. `pump` its queue when all who go are gone, and `tidy` it."""
        self._by_name[consumer.destination].left(consumer)

    def tidy(self, queue: Queue) -> None:
        """Forget the queue's destination if nobody would miss it."""
        destination = self._by_name.get(queue.destination)
        if destination is not None and destination.idle:
            del self._by_name[queue.destination]

    def _queue(self, name: bytes) -> Queue:
        bounds = self._bounds
        queue = self._by_name[name] = Queue(name, self.memory, bounds.queue_messages, bounds.queue_bytes)
        return queue

    def _topic(self, name: bytes) -> Topic:
        bounds = self._bounds
        topic = self._by_name[name] = Topic(
            name,
            self.memory,
            bounds.topic_messages,
            bounds.topic_bytes,
            self._overran,
        )
        return topic


class Transaction:
    """The SENDs, ACKs and NACKs of one transaction (STOMP 1.2, "BEGIN"), until it is committed or aborted.

    What was acknowledged in it is nobody's meanwhile: neither redelivered nor counted against its consumer.
    """

    __slots__ = ("_accepted", "_destinations", "_frames", "_messages", "_most", "_refused")

    def __init__(self, destinations: Destinations, most: int) -> None:
        self._destinations = destinations
        self._most = most
        self._frames = 0
        self._messages: list[Message] = []
        self._accepted: list[Entry] = []
        self._refused: list[Entry] = []

    def _counted(self) -> None:
        if self._frames >= self._most:
            raise LimitError("the transaction is too large", f"the limit is {self._most} frames")
        self._frames += 1

    def sent(self, message: Message) -> None:
        """A SEND. Raises `LimitError` when there is no room for it."""
        self._destinations.memory.admit(message)
        self._counted()
        self._destinations.memory.hold(message)
        self._messages.append(message)

    def acknowledged(self, entries: list[Entry], *, refused: bool) -> None:
        """An ACK, or a NACK (`refused`), of these. Raises `LimitError` when the transaction is too large."""
        try:
            self._counted()
        except LimitError:
            self._restore(entries)
            raise
        (self._refused if refused else self._accepted).extend(entries)

    def committed(self) -> None:
        """All of it happens, or nothing: then `LimitError` is raised and it can still be aborted."""
        destinations = self._destinations
        destinations.require_room(self._messages)
        queues = self._queues()
        for entry in self._accepted:
            assert entry.consumer is not None
            entry.consumer.queue.settled(entry)
        destinations.refused(self._refused)
        for message in self._messages:
            destinations.add(message)
        self._end(queues)

    def aborted(self) -> None:
        """Nothing of it happens: what was sent is forgotten, what was acknowledged awaits its ACK again."""
        queues = self._queues()
        self._restore([*self._accepted, *self._refused])
        self._end(queues)

    def _restore(self, entries: list[Entry]) -> None:
        consumers = {entry.consumer: None for entry in entries}
        for consumer in consumers:
            assert consumer is not None
            own = [entry for entry in entries if entry.consumer is consumer]
            if consumer.closed:
                consumer.queue.returned(own)
            else:
                consumer.restore(own)

    def _queues(self) -> dict[Queue, None]:
        """The queues whose messages were acknowledged, each once."""
        entries = (*self._accepted, *self._refused)
        return {entry.consumer.queue: None for entry in entries if entry.consumer is not None}

    def _end(self, queues: dict[Queue, None]) -> None:
        for message in self._messages:
            self._destinations.memory.release(message)
        for queue in queues:
            queue.pump()
            self._destinations.tidy(queue)
        self._messages = []
        self._accepted = []
        self._refused = []

"""Every queue and topic by its name, their messages, and the open transactions."""

from collections.abc import Callable, Iterable
from typing import Final

from stomprelay.broker.message import QUEUE, TOPIC, Bounds, Memory, Message, MessageHead
from stomprelay.broker.queue import Consumer, Held, Queue, QueuedMessage, Topic
from stomprelay.wire.errors import LimitError

DEAD_LETTERS: Final = QUEUE + b"DLQ"
"""The queue for messages that were refused too often. When it is full, its oldest messages are dropped."""

ORIGINAL_DESTINATION: Final = b"original-destination"
"""The name of the header that has a dead letter's original destination."""

Acknowledged = tuple[Consumer, list[QueuedMessage] | Held]
"""The messages of one ACK or NACK, with their consumer."""


class Destinations:
    """All queues and topics (`/topic/...`). A queue or topic exists while it has messages or consumers. `name` begins
    the ids of messages. `dropped` is called with the number of dropped dead letters.
    """

    def __init__(self, bounds: Bounds, name: bytes, dropped: Callable[[int], None]) -> None:
        self.memory = Memory(bounds.memory)
        self._bounds = bounds
        self._name = name
        self._dropped = dropped
        self._made = 0
        self._by_name: dict[bytes, Queue | Topic] = {}

    @property
    def kept(self) -> dict[bytes, int]:
        """The number of messages in each destination, waiting or unacknowledged."""
        return {name: destination.kept for name, destination in self._by_name.items()}

    # Messages

    def message(self, head: MessageHead, body: bytes) -> Message:
        """Return a message with a new id. `body` must end in the frame's `END`."""
        self._made += 1
        return Message(b"%b-%d" % (self._name, self._made), head, body)

    def publish(self, message: Message) -> None:
        """Send a message to consumers, or keep it. Raises `LimitError` if there is no room."""
        name = message.head.destination
        destination = self._by_name.get(name)
        if destination is None:
            if name.startswith(TOPIC):
                return
            queue = self._add_queue(name)
            try:
                queue.publish(message)
            except LimitError:
                self.remove_if_idle(queue)
                raise
        else:
            destination.publish(message)

    def require_room(self, messages: Iterable[Message]) -> None:
        """Raise `LimitError` if there is no room for all of these messages. Their memory is already counted."""
        wanted: dict[bytes, tuple[int, int]] = {}
        for message in messages:
            count, size = wanted.get(message.head.destination, (0, 0))
            wanted[message.head.destination] = count + 1, size + message.size
        for name, (count, size) in wanted.items():
            if name in self._by_name:
                self._by_name[name].require_room(count, size)
            elif not name.startswith(TOPIC):
                queue = self._add_queue(name)
                try:
                    queue.require_room(count, size)
                finally:
                    self.remove_if_idle(queue)

    def add(self, message: Message) -> None:
        """Do what `publish` does, without the check of the room: the caller has done it."""
        name = message.head.destination
        if name in self._by_name:
            self._by_name[name].add(message)
        elif not name.startswith(TOPIC):
            self._add_queue(name).add(message)

    def refused(self, refused: Iterable[Acknowledged]) -> None:
        """Take back refused messages: they become dead letters, or wait again. Then call `deliver` of their queues."""
        refused = list(refused)
        for consumer in {consumer: None for consumer, _ in refused}:
            consumer.queue.put_last(consumer)
        for consumer, messages in refused:
            queue = consumer.queue
            for queued in messages:
                queued.refusals += 1
                if queued.refusals < self._bounds.refusals or queue.destination == DEAD_LETTERS:
                    queue.returned([queued])
                    continue
                old = queued.message
                head = old.head.moved(DEAD_LETTERS, ORIGINAL_DESTINATION, queue.destination)
                queue.settled(queued)
                self._add_dead_letter(self.message(head, old.body))

    def _add_dead_letter(self, letter: Message) -> None:
        """Add a dead letter. If there is no room, drop the oldest ones. If there is still no room, drop this letter."""
        dropped = 0
        while True:
            try:
                self.publish(letter)
                break
            except LimitError:
                dropped += 1
                letters = self._by_name.get(DEAD_LETTERS)
                if not isinstance(letters, Queue) or not letters.drop_oldest():
                    break
                self.remove_if_idle(letters)
        if dropped:
            self._dropped(dropped)

    # Consumers

    def queue_for(self, name: bytes) -> Queue:
        """Return the queue for a new consumer; for a topic, a new private queue. Call the queue's `joined` at once."""
        destination = self._by_name.get(name)
        if destination is None:
            if not name.startswith(TOPIC):
                return self._add_queue(name)
            most, size = self._bounds.topic_messages, self._bounds.topic_bytes
            destination = self._by_name[name] = Topic(name, self.memory, most, size)
        return destination.queue() if isinstance(destination, Topic) else destination

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer. If its queue has no other consumer, call `deliver` of the queue, then `remove_if_idle`."""
        self._by_name[consumer.queue.destination].left(consumer)

    def remove_if_idle(self, queue: Queue) -> None:
        """Remove the queue's destination if it has neither messages nor consumers."""
        destination = self._by_name.get(queue.destination)
        if destination is not None and destination.idle:
            del self._by_name[queue.destination]

    def _add_queue(self, name: bytes) -> Queue:
        bounds = self._bounds
        queue = self._by_name[name] = Queue(name, self.memory, bounds.queue_messages, bounds.queue_bytes)
        return queue


class PendingTransaction:
    """The frames of one transaction (STOMP 1.2, "BEGIN"). Until the transaction ends, messages that it acknowledges
    are not delivered again, and do not count in the window of their consumer.
    """

    def __init__(self, destinations: Destinations, max_frames: int) -> None:
        self._destinations = destinations
        self._max_frames = max_frames
        self._frames = 0
        self._messages: list[Message] = []
        self._accepted: list[Acknowledged] = []
        self._refused: list[Acknowledged] = []

    def _count(self) -> None:
        if self._frames >= self._max_frames:
            raise LimitError("the transaction is too large", f"the limit is {self._max_frames} frames")
        self._frames += 1

    def sent(self, message: Message) -> None:
        """Add a SEND. Raises `LimitError` if there is no room for it."""
        self._destinations.memory.admit(message)
        self._count()
        self._destinations.memory.hold(message)
        self._messages.append(message)

    def acknowledged(
        self, consumer: Consumer, messages: list[QueuedMessage] | Held, *, refused: bool
    ) -> None:
        """Add an ACK, or a NACK (`refused`), of these messages. Raises `LimitError` if the transaction is too large."""
        try:
            self._count()
        except LimitError:
            consumer.queue.restore(consumer, messages)
            raise
        (self._refused if refused else self._accepted).append((consumer, messages))

    def committed(self) -> None:
        """Execute all frames. If there is no room, raise `LimitError` and execute no frame."""
        destinations = self._destinations
        destinations.require_room(self._messages)
        queues = self._queues()
        for consumer, messages in self._accepted:
            for queued in messages:
                consumer.queue.settled(queued)
        destinations.refused(self._refused)
        for message in self._messages:
            destinations.add(message)
        self._end(queues)

    def aborted(self) -> None:
        """Drop the messages that were sent in the transaction. Messages that it had acknowledged await an ACK again."""
        queues = self._queues()
        for consumer, messages in (*self._accepted, *self._refused):
            consumer.queue.restore(consumer, messages)
        self._end(queues)

    def _queues(self) -> dict[Queue, None]:
        """Return the queues of the messages that the transaction acknowledged, each queue once."""
        return {consumer.queue: None for consumer, _ in (*self._accepted, *self._refused)}

    def _end(self, queues: dict[Queue, None]) -> None:
        for message in self._messages:
            self._destinations.memory.release(message)
        for queue in queues:
            queue.deliver()
            self._destinations.remove_if_idle(queue)
        self._messages = []
        self._accepted = []
        self._refused = []

"""A topic: each message goes to everybody who is subscribed when it comes."""

from collections.abc import Callable

from stomprelay.broker.consumer import Consumer
from stomprelay.broker.memory import Memory
from stomprelay.broker.message import Message
from stomprelay.broker.outbox import Outbox
from stomprelay.broker.queue import Queue


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

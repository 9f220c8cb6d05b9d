"""What waits for COMMIT."""

from stomprelay.broker.destinations import Destinations
from stomprelay.broker.entry import Entry
from stomprelay.broker.message import Message
from stomprelay.broker.queue import Queue
from stomprelay.wire.errors import LimitError


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

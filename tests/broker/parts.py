"""Queues, topics and consumers without a client: built by hand, each consumer with a buffer of its own."""

from typing import Final

from stomprelay.broker.bounds import Bounds, Memory
from stomprelay.broker.destinations import Destinations
from stomprelay.broker.message import Message, MessageHead
from stomprelay.broker.output import Output, SendBuffer
from stomprelay.broker.queue import Consumer, Queue, Topic
from stomprelay.session.leg import Leg, Side
from stomprelay.session.subscriptions import AUTO
from stomprelay.wire.dialect import V1_2, Dialect
from stomprelay.wire.frame import Limits

MEMORY: Final = 10_000


class Slow:
    """Output whose flush tells which buffers overran."""

    def __init__(self) -> None:
        self.output = Output()
        self.buffers: list[SendBuffer] = []

    def buffer(self) -> SendBuffer:
        """A buffer of a new leg."""

        def too_slow() -> None:
            self.buffers.append(made)

        made = SendBuffer(Leg(Side.DOWNSTREAM, Limits()), self.output, too_slow)
        return made

    def overran(self) -> list[SendBuffer]:
        """The buffers that overran since the last call."""
        self.output.flush(0.0)
        found, self.buffers = self.buffers, []
        return found


def buffer() -> SendBuffer:
    """A buffer of a new leg."""
    return Slow().buffer()


def queue(
    max_messages: int = 10,
    max_bytes: int = MEMORY,
    *,
    destination: bytes = b"/queue/a",
    private: bool = False,
) -> tuple[Queue, Memory]:
    """An empty queue and the memory in which its messages count."""
    memory = Memory(MEMORY)
    return Queue(destination, memory, max_messages, max_bytes, private=private), memory


def consumer(
    dialect: Dialect = V1_2,
    mode: bytes = AUTO,
    id: bytes | None = b"s",
    destination: bytes = b"/queue/a",
    prefetch: int = 3,
) -> Consumer:
    """A consumer of a queue that has not heard of it."""
    return Consumer(queue(destination=destination)[0], b"7", id, mode, prefetch, dialect, buffer())


def message(number: int, size: int = 0) -> Message:
    """A message whose id and body are its number."""
    text = b"%d" % number
    return Message(text, MessageHead(b"/queue/a", b"\n", []), text + b"\0" + b"\0" * size)


def joined(
    to: Queue, mode: bytes = AUTO, prefetch: int = 1000, own_buffer: SendBuffer | None = None
) -> Consumer:
    """A consumer that has subscribed and may be sent messages."""
    made = Consumer(to, b"1", None, mode, prefetch, V1_2, own_buffer or buffer())
    to.joined(made)
    to.consumer_ready(made)
    return made


def bodies(of: Consumer) -> list[bytes]:
    """What the consumer was sent since the last call."""
    return [frame.partition(b"\n\n")[2] for frame in of.buffer.drain().split(b"\0") if frame]


def publish(to: Queue, *numbers: int) -> None:
    """Messages of these numbers."""
    for number in numbers:
        to.publish(message(number))


class OneTopic:
    """A topic with its memory and the subscribers that were too slow for it."""

    def __init__(self, max_messages: int = 3, max_bytes: int = MEMORY) -> None:
        self.memory = Memory(MEMORY)
        self._slow = Slow()
        self.topic = Topic(b"/topic/a", self.memory, max_messages, max_bytes)

    @property
    def overran(self) -> list[SendBuffer]:
        """The buffers of those that were too slow since the last look."""
        return self._slow.overran()

    def joined(self, mode: bytes = AUTO, prefetch: int = 1000) -> Consumer:
        """A consumer that has subscribed and may be sent messages."""
        return joined(self.topic.queue(), mode, prefetch, self._slow.buffer())


class AllDestinations:
    """Destinations, and how many dead letters were dropped."""

    def __init__(self, **bounds: int) -> None:
        self.lost: list[int] = []
        self.all = Destinations(Bounds(**bounds), b"b", self.lost.append)

    def message(self, destination: bytes, body: bytes, size: int = 0) -> Message:
        """A message to a destination."""
        return self.all.message(MessageHead(destination, b"\n", []), body + b"\0" * (size + 1))

    def joined(self, destination: bytes, mode: bytes = AUTO, prefetch: int = 1000) -> Consumer:
        """A consumer that has subscribed and may be sent messages."""
        return joined(self.all.queue_for(destination), mode, prefetch)

    def left(self, consumer: Consumer) -> None:
        """A consumer is gone, and nothing else."""
        self.all.left(consumer)
        consumer.queue.deliver()
        self.all.remove_if_idle(consumer.queue)

    def refuse(self, consumer: Consumer, times: int) -> None:
        """The consumer refuses what it has, again and again."""
        for _ in range(times):
            messages = consumer.acknowledged(next(iter(consumer.unsettled)))
            self.all.refused([(consumer, messages)])
            consumer.queue.consumer_ready(consumer)

"""Queues, topics and their consumers: which consumer gets each message, and which messages await an ACK. The module
also has the output of one input of the broker: one `Send` for each leg, then all other effects.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from sys import maxsize

from stomprelay.broker.message import Memory, Message
from stomprelay.session.delivery import Positions
from stomprelay.session.effects import Effect, Send
from stomprelay.session.leg import Leg
from stomprelay.session.subscriptions import AUTO, CUMULATIVE
from stomprelay.wire.dialect import DeliveryNaming, Dialect
from stomprelay.wire.errors import LimitError
from stomprelay.wire.names import DESTINATION, REDELIVERED, SUBSCRIPTION

_REDELIVERED = REDELIVERED + b":true\n"


@dataclass(slots=True, eq=False, repr=False)
class QueuedMessage:
    """A message while one queue keeps it. `order`: its place in the queue. `refusals`: how many NACKs it had."""

    message: Message
    order: int
    refusals: int = 0

    def __lt__(self, other: "QueuedMessage") -> bool:
        """Whether this message is older than `other`."""
        return self.order < other.order


class Unsettled:
    """Deliveries by number, each with its message-id. `len()` counts the deliveries that await an ACK. `in` tells
    whether the delivery with a message-id awaits an ACK. A transaction may hold deliveries: these await no ACK until
    they are released.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._by_number: dict[int, tuple[bytes, QueuedMessage]] = {}
        self._awaited = Positions()

    def __len__(self) -> int:
        return len(self._awaited)

    def __iter__(self) -> Iterator[bytes]:
        for number in self._awaited:
            yield self._by_number[number][0]

    def __contains__(self, message_id: object) -> bool:
        return isinstance(message_id, bytes) and self._numbers.get(message_id, -1) in self._awaited

    def add(self, number: int, message_id: bytes, item: QueuedMessage) -> None:
        """Add a delivery that awaits an ACK."""
        self._numbers[message_id] = number
        self._by_number[number] = message_id, item
        self._awaited.add(number)

    def hold(self, message_id: bytes) -> Positions:
        """Hold the deliveries that a cumulative ACK of this message covers, and return them; empty for an unknown
        message. Later call `release` or `take` with them.
        """
        return self._awaited.take_below(self._numbers[message_id] + 1) if message_id in self else Positions()

    def hold_all(self) -> Positions:
        """Hold all deliveries that await an ACK, and return them. Later call `release` or `take` with them."""
        return self._awaited.take_below(maxsize)

    def release(self, held: Positions) -> None:
        """Let held deliveries await an ACK again, in their old places."""
        self._awaited.give(held)

    def take(self, held: Positions) -> list[tuple[bytes, QueuedMessage]]:
        """Forget held deliveries, and return them in their order."""
        taken = [self._by_number.pop(number) for number in held]
        for message_id, _ in taken:
            del self._numbers[message_id]
        return taken


class Held:
    """The deliveries of one cumulative ACK in a transaction, up to `message_id`. At the end, either iterate over this
    object once, to take the messages, or give its `runs` to `Unsettled.release`.
    """

    def __init__(
        self, take: Callable[[Positions], list[QueuedMessage]], message_id: bytes, runs: Positions
    ) -> None:
        self._take = take
        self.message_id = message_id
        self.runs = runs

    def __iter__(self) -> Iterator[QueuedMessage]:
        return iter(self._take(self.runs))


class Holders:
    """For each message-id, the consumers of one client that received it, the earliest first. An ACK that names no
    subscription needs this.
    """

    def __init__(self) -> None:
        self._by_message: dict[bytes, OrderedDict[Consumer, None]] = {}

    def add(self, message_id: bytes, holder: "Consumer") -> None:
        """Record that this message was sent to this consumer."""
        self._by_message.setdefault(message_id, OrderedDict())[holder] = None

    def remove(self, message_id: bytes, holder: "Consumer") -> None:
        """Record that this consumer no longer has to acknowledge this message."""
        holders = self._by_message.get(message_id)
        if holders is not None:
            holders.pop(holder, None)
            if not holders:
                del self._by_message[message_id]

    def find(self, message_id: bytes) -> "Consumer | None":
        """Return the earliest consumer that still has to acknowledge this message; None if there is none."""
        holders = self._by_message.get(message_id, ())
        return next((each for each in holders if message_id in each.unsettled), None)


class Consumer:
    """One subscription: the form of its MESSAGE frames, and the messages that the client has not acknowledged.

    `id`: the client's name for the subscription, or None. `tag`: the broker's name for the subscription, in `ack`
    headers. `unsettled`: messages that await an ACK, at most `window`. `acknowledges`: False if a message needs no ACK.
    `holders`: the client's consumers by message; None if all ACKs name the subscription.
    """

    def __init__(
        self,
        queue: "Queue",
        tag: bytes,
        id: bytes | None,
        mode: bytes,
        prefetch: int,
        dialect: Dialect,
        buffer: "SendBuffer",
        holders: Holders | None = None,
    ) -> None:
        self.queue = queue
        self.tag = tag
        self.id = id
        self.buffer = buffer
        self.acknowledges = mode != AUTO
        self.window: float = prefetch if self.acknowledges else inf
        self._cumulative = mode == CUMULATIVE
        self._up_to = Unsettled()
        self._one_by_one: dict[bytes, QueuedMessage] = {}
        self.unsettled: Collection[bytes] = self._up_to if self._cumulative else self._one_by_one
        self._holders = holders
        self._delivered = 0
        self._dialect = dialect
        named = [] if id is None else [(SUBSCRIPTION, id)]
        self._prefix = b"MESSAGE\n%bmessage-id:" % dialect.write([*named, (DESTINATION, queue.destination)])
        has_ack = self.acknowledges and dialect.delivery is DeliveryNaming.ACK
        self._ack = b"ack:%b-" % tag if has_ack else b""

    @property
    def able(self) -> bool:
        """Whether the consumer can get one more message now."""
        return self.buffer.ready and len(self.unsettled) < self.window

    def write(self, message: Message, redelivered: bool) -> None:
        """Send the consumer a message. `redelivered`: with the header `redelivered:true`."""
        head = message.head
        self.buffer.deliver(
            b"%b%b\n%b%b%b"
            % (
                self._prefix,
                message.id,
                b"%b%b\n" % (self._ack, message.id) if self._ack else b"",
                _REDELIVERED if redelivered else b"",
                head.written(self._dialect),
            ),
            message.body,
        )

    def take(self, queued: QueuedMessage, redelivered: bool = False) -> None:
        """Send the consumer a message that it has to acknowledge, and keep it in `unsettled`."""
        self._await(queued)
        self.write(queued.message, redelivered)

    def _await(self, queued: QueuedMessage) -> None:
        message_id = queued.message.id
        if self._cumulative:
            self._delivered += 1
            self._up_to.add(self._delivered, message_id, queued)
        else:
            self._one_by_one[message_id] = queued
        if self._holders is not None:
            self._holders.add(message_id, self)

    def acknowledged(self, message_id: bytes) -> list[QueuedMessage]:
        """Remove an ACK's messages from `unsettled`, also earlier messages if ACKs are cumulative. Return them."""
        if self._cumulative:
            return self.taken(self._up_to.hold(message_id))
        queued = self._one_by_one.pop(message_id, None)
        if queued is None:
            return []
        if self._holders is not None:
            self._holders.remove(message_id, self)
        return [queued]

    def held(self, message_id: bytes) -> list[QueuedMessage] | Held:
        """Do what `acknowledged` does, in a transaction. If the transaction is aborted, `restore` the result."""
        if not self._cumulative:
            return self.acknowledged(message_id)
        runs = self._up_to.hold(message_id)
        if not runs:
            return []
        if self._holders is not None:
            self._holders.remove(message_id, self)
        return Held(self.taken, message_id, runs)

    def taken(self, runs: Positions) -> list[QueuedMessage]:
        """Forget these held deliveries, and return their messages."""
        messages = self._up_to.take(runs)
        if self._holders is not None:
            for message_id, _ in messages:
                self._holders.remove(message_id, self)
        return [queued for _, queued in messages]

    def restore(self, messages: list[QueuedMessage] | Held) -> None:
        """Put messages that an aborted transaction had acknowledged back into `unsettled`, in their old places."""
        if isinstance(messages, Held):
            self._up_to.release(messages.runs)
            if self._holders is not None:
                self._holders.add(messages.message_id, self)
        else:
            for queued in messages:
                self._await(queued)

    def give_up(self) -> list[QueuedMessage]:
        """Remove all messages that the client has not acknowledged from `unsettled`, and return them."""
        if self._cumulative:
            return self.taken(self._up_to.hold_all())
        messages = list(self._one_by_one.values())
        self._one_by_one.clear()
        if self._holders is not None:
            for queued in messages:
                self._holders.remove(queued.message.id, self)
        return messages


@dataclass(eq=False, repr=False)
class Queue:
    """A queue: each message goes to one consumer, in the order of arrival; the consumers take turns.

    A message waits only while no consumer can take it: call `consumer_ready` when a consumer joins, or may be able to
    take a message again. `len()` and `waiting_bytes` count the waiting messages; `kept` also counts the messages that
    await an ACK. `private`: the queue belongs to one subscriber of a topic, and ends with the subscriber.
    """

    destination: bytes
    _memory: Memory
    _max_messages: int
    _max_bytes: int
    private: bool = False
    kept: int = 0
    waiting_bytes: int = 0
    _order: int = 0
    _new: deque[QueuedMessage] = field(default_factory=deque)
    _returned: list[QueuedMessage] = field(default_factory=list)
    _consumers: dict[Consumer, None] = field(default_factory=dict)
    # The consumers that could take a message when this was last checked, in the order of their turns.
    _able: OrderedDict[Consumer, None] = field(default_factory=OrderedDict)
    _ended: bool = False

    def __len__(self) -> int:
        return len(self._new) + len(self._returned)

    @property
    def idle(self) -> bool:
        """Whether the queue has neither messages nor consumers."""
        return not self.kept and not self._consumers

    def has_room(self, count: int, size: int) -> bool:
        """Return whether `count` more messages, together of `size` bytes, may wait. A single message always may."""
        waiting = len(self)
        if waiting + count == 1:
            return True
        return waiting + count <= self._max_messages and self.waiting_bytes + size <= self._max_bytes

    def require_room(self, count: int, size: int) -> None:
        """Raise `LimitError` if `has_room` is False."""
        if not self.has_room(count, size):
            bound = f"{self._max_messages} messages and {self._max_bytes} bytes"
            raise LimitError("the queue is full", f"a queue keeps {bound} at most")

    def must_keep(self) -> bool:
        """Whether a message would now have to be kept, either to wait or until it is acknowledged."""
        consumer = self._next()
        return consumer is None or consumer.acknowledges

    def publish(self, message: Message) -> None:
        """Send a message to a consumer, or keep it. Raises `LimitError` if there is no room."""
        consumer = self._next()
        if consumer is None:
            self.require_room(1, message.size)
            self._memory.admit(message)
        elif consumer.acknowledges:
            self._memory.admit(message)
        self._add(message, consumer)

    def add(self, message: Message) -> None:
        """Do what `publish` does, without the check of the room: the caller has done it."""
        self._add(message, self._next())

    def _add(self, message: Message, consumer: Consumer | None) -> None:
        if consumer is not None and not consumer.acknowledges:
            consumer.write(message, False)
            return
        self._memory.hold(message)
        self.kept += 1
        self._order += 1
        queued = QueuedMessage(message, self._order)
        if consumer is not None:
            consumer.take(queued)
        else:
            self.waiting_bytes += message.size
            self._new.append(queued)

    # Consumers

    def joined(self, consumer: Consumer) -> None:
        """Add a consumer. Call `consumer_ready` when the consumer may get messages."""
        self._consumers[consumer] = None

    def consumer_ready(self, consumer: Consumer) -> None:
        """Send waiting messages to a consumer that may be able to take messages again."""
        if consumer not in self._able:
            if consumer.able:
                self._able[consumer] = None
            elif not consumer.buffer.ready:
                consumer.buffer.held_up[consumer] = None
        self.deliver()

    def put_last(self, consumer: Consumer) -> None:
        """Give a consumer the last turn, because it refused messages."""
        if consumer in self._able:
            self._able.move_to_end(consumer)

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer. Its messages wait again. When all leaving consumers are removed, call `deliver`."""
        del self._consumers[consumer]
        self._able.pop(consumer, None)
        consumer.buffer.held_up.pop(consumer, None)
        if self.private:
            self._ended = True
            while self.drop_oldest():
                pass
        self.returned(consumer.give_up())

    def overran(self) -> None:
        """Let the connections of the queue's consumers end when this input ends: too many messages wait."""
        for consumer in self._consumers:
            buffer = consumer.buffer
            buffer.output.overrun[buffer.too_slow] = None

    def deliver(self) -> None:
        """Send the waiting messages to the consumers that can take them."""
        while self._new or self._returned:
            consumer = self._next()
            if consumer is None:
                return
            redelivered = bool(self._returned)
            queued = self._take_oldest()
            if consumer.acknowledges:
                consumer.take(queued, redelivered)
            else:
                consumer.write(queued.message, redelivered)
                self.settled(queued)

    def _next(self) -> Consumer | None:
        """Return the consumer that has the next turn and can take a message; None if there is none."""
        able = self._able
        while able:
            consumer = next(iter(able))
            if consumer.able:
                if len(able) > 1:
                    able.move_to_end(consumer)
                return consumer
            del able[consumer]
            if not consumer.buffer.ready:
                consumer.buffer.held_up[consumer] = None
        return None

    # Messages

    def _take_oldest(self) -> QueuedMessage:
        """Remove and return the oldest waiting message. Returned messages are older than new messages."""
        queued = heappop(self._returned) if self._returned else self._new.popleft()
        self.waiting_bytes -= queued.message.size
        return queued

    def settled(self, queued: QueuedMessage) -> None:
        """Forget a delivered message that is acknowledged or needs no ACK."""
        self.kept -= 1
        self._memory.release(queued.message)

    def returned(self, messages: list[QueuedMessage]) -> None:
        """Put unacknowledged messages back into the queue, in their old places. Call `deliver` afterwards."""
        for queued in messages:
            if self._ended:
                self.settled(queued)
            else:
                self.waiting_bytes += queued.message.size
                heappush(self._returned, queued)

    def restore(self, consumer: Consumer, messages: list[QueuedMessage] | Held) -> None:
        """Take back messages that an aborted transaction had acknowledged. They await the consumer's ACK again. If the
        consumer is gone, they wait for another consumer. Then call `deliver`.
        """
        if consumer in self._consumers:
            consumer.restore(messages)
        else:
            self.returned(list(messages))

    def drop_oldest(self) -> bool:
        """Drop the oldest waiting message. Return False if there is none."""
        if not len(self):
            return False
        self.settled(self._take_oldest())
        return True


class Topic:
    """A topic. Each message goes to every present subscriber, through a private queue for each subscriber. A
    subscriber for which too many messages wait is disconnected, so the others need not wait for it.
    """

    def __init__(self, destination: bytes, memory: Memory, max_messages: int, max_bytes: int) -> None:
        self.destination = destination
        self._memory = memory
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._queues: dict[Queue, None] = {}

    @property
    def idle(self) -> bool:
        """Whether the topic has no subscribers."""
        return not self._queues

    @property
    def kept(self) -> int:
        """The number of copies that are kept, waiting or unacknowledged."""
        return sum(queue.kept for queue in self._queues)

    def publish(self, message: Message) -> None:
        """Send a message to all subscribers. If there is no memory for it, raise `LimitError` and send it to nobody."""
        if not self._memory.fits(message) and any(queue.must_keep() for queue in self._queues):
            self._memory.admit(message)
        self.add(message)

    def add(self, message: Message) -> None:
        """Do what `publish` does, without the check of the memory: the caller has done it."""
        for queue in self._queues:
            if len(queue) and not queue.has_room(1, message.size):
                queue.overran()
            else:
                queue.add(message)

    def require_room(self, count: int, size: int) -> None:
        """Do nothing: a topic always has room, because a slow subscriber is disconnected."""

    def queue(self) -> Queue:
        """Return a new private queue for one subscriber. Call the queue's `joined` at once."""
        queue = Queue(self.destination, self._memory, self._max_messages, self._max_bytes, private=True)
        self._queues[queue] = None
        return queue

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer, with all messages that it did not receive or acknowledge."""
        del self._queues[consumer.queue]
        consumer.queue.left(consumer)


# What an input writes


class Output:
    """The output of one input, for all connections. It has effects, and in `filled` the buffers that have bytes.
    `overrun` has the functions that end the connections of subscribers that are too slow for their topics. At the end
    of an input call `flush`, then `drain`.
    """

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self.filled: list[SendBuffer] = []
        self.overrun: dict[Callable[[], None], None] = {}

    def put(self, *effects: Effect) -> None:
        """Append these effects."""
        self._effects += effects

    def drain(self) -> list[Effect]:
        """Return all effects that were put since the last call. The caller must perform them in order."""
        effects, self._effects = self._effects, []
        return effects

    def flush(self, now: float) -> None:
        """End the connections in `overrun`. Then put a `Send` for each filled buffer before all other effects."""
        while self.overrun:
            end, _ = self.overrun.popitem()
            end()
        rest = self.drain()
        for buffer in self.filled:
            buffer.leg.heartbeat.sent_at = now
            self.put(Send(buffer.leg, buffer.drain()))
        self.filled.clear()
        self.put(*rest)


class SendBuffer:
    """Collects the bytes for one leg. At the end of each input they are written.

    `ready`: messages may be added, because the transport is not full, the leg is not closed, and the turn is not
    `at_limit`. `limit`: the most bytes in a turn; between turns there is no limit. `held_up`: consumers that wait until
    the buffer is `ready`. `unread`: bytes of replies since the transport became full. `too_slow`: the function that
    ends the connection, see `Output.overrun`.
    """

    def __init__(self, leg: Leg, output: Output, too_slow: Callable[[], None]) -> None:
        self.leg = leg
        self.ready = True
        self.at_limit = False
        self.unread = 0
        self.output = output
        self.too_slow = too_slow
        self.limit: float = inf
        self._open = True
        self._writable = True
        self._pieces: list[bytes] = []
        self._size = 0
        self.held_up: OrderedDict[Consumer, None] = OrderedDict()

    def deliver(self, head: bytes, body: bytes) -> None:
        """Add a message. Call this only while `ready` is True."""
        pieces = self._pieces
        if not pieces:
            self.output.filled.append(self)
        pieces.append(head)
        pieces.append(body)
        self._size += len(head) + len(body)
        if self._size >= self.limit:
            self.at_limit = True
            self.ready = False

    def reply(self, data: bytes) -> None:
        """Add bytes that never wait: a receipt, an error, a beat. While the transport is full, `unread` counts them."""
        if not self._pieces:
            self.output.filled.append(self)
        self._pieces.append(data)
        if not self._writable:
            self.unread += len(data)

    def drain(self) -> bytes:
        """Return the bytes to be written now, and empty the buffer."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return data

    def start_turn(self, limit: int) -> None:
        """Allow messages to be added until the buffer has `limit` bytes."""
        self.limit = limit
        self.at_limit = False
        self.ready = self._open and self._writable

    def go_on(self) -> None:
        """Resume `held_up` consumers in order while `ready` is True. A consumer that waits again becomes the last."""
        while self.ready and self.held_up:
            consumer, _ = self.held_up.popitem(last=False)
            consumer.queue.consumer_ready(consumer)

    def paused(self) -> None:
        """Allow no messages: the transport is full."""
        self._writable = False
        self.ready = False

    def resumed(self) -> None:
        """Record that the transport has room again. Messages may be added when the next turn starts."""
        self._writable = True
        self.unread = 0

    def closed(self) -> None:
        """Allow no more messages: the leg is closed."""
        self._open = False
        self.ready = False

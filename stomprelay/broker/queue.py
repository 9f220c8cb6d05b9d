"""Queues, topics and their consumers: each message's consumer, and the messages that await their ACK."""

from collections import OrderedDict, deque
from collections.abc import Collection
from heapq import heappop, heappush
from math import inf

from stomprelay.broker.bounds import Memory
from stomprelay.broker.message import Message
from stomprelay.broker.output import SendBuffer
from stomprelay.broker.unsettled import Held, Holders, Runs, Unsettled
from stomprelay.session.subscriptions import AUTO, CUMULATIVE
from stomprelay.wire.dialect import DeliveryNaming, Dialect
from stomprelay.wire.errors import LimitError
from stomprelay.wire.names import DESTINATION, REDELIVERED, SUBSCRIPTION

_REDELIVERED = REDELIVERED + b":true\n"


class QueuedMessage:
    """A message in one queue until it is settled. `order`: its place. `refusals`: its NACKs. `redelivered`: a consumer
    had it before. `delivery`: its number at the last consumer.
    """

    __slots__ = ("delivery", "message", "order", "redelivered", "refusals")

    def __init__(self, message: Message, order: int) -> None:
        self.message = message
        self.order = order
        self.redelivered = False
        self.refusals = 0
        self.delivery = 0

    def __lt__(self, other: "QueuedMessage") -> bool:
        """Whether this message is older than the other one."""
        return self.order < other.order

    def delivered(self, number: int) -> None:
        """Record that it was sent to a consumer, as the consumer's delivery of this number."""
        self.delivery = number

    def returned(self) -> None:
        """Record that it was not acknowledged, and waits again."""
        self.redelivered = True

    def refused(self) -> int:
        """Record a NACK. Return the number of its NACKs."""
        self.refusals += 1
        return self.refusals


class Consumer:
    """One subscription: the form of its MESSAGE frames, and the messages that it has not acknowledged.

    `id`: the client's name for it or None. `tag`: the broker's, for the `ack` header. `unsettled`: messages that await
    an ACK, `window` at most. `acknowledges`: False if a message is settled when it is sent. `holders`: the client's
    consumers by message; None if all ACKs name the subscription.
    """

    __slots__ = (
        "_ack",
        "_cumulative",
        "_delivered",
        "_dialect",
        "_holders",
        "_one_by_one",
        "_prefix",
        "_up_to",
        "acknowledges",
        "buffer",
        "id",
        "queue",
        "tag",
        "unsettled",
        "window",
    )

    def __init__(
        self,
        queue: "Queue",
        tag: bytes,
        id: bytes | None,
        mode: bytes,
        prefetch: int,
        dialect: Dialect,
        buffer: SendBuffer,
        holders: "Holders[Consumer] | None" = None,
    ) -> None:
        self.queue = queue
        self.tag = tag
        self.id = id
        self.buffer = buffer
        self.acknowledges = mode != AUTO
        self.window: float = prefetch if self.acknowledges else inf
        self._cumulative = mode == CUMULATIVE
        self._up_to: Unsettled[QueuedMessage] = Unsettled()
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
        """Whether it can get one more message now."""
        return self.buffer.ready and len(self.unsettled) < self.window

    def write(self, message: Message, redelivered: bool) -> None:
        """Send the consumer a message, `redelivered` or not."""
        head = message.head
        self.buffer.deliver(
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

    def take(self, queued: QueuedMessage) -> None:
        """Send the consumer a message that it has to acknowledge, and keep it in `unsettled`."""
        self._delivered += 1
        queued.delivered(self._delivered)
        self._await(queued)
        self.write(queued.message, queued.redelivered)

    def _await(self, queued: QueuedMessage) -> None:
        message_id = queued.message.id
        if self._cumulative:
            self._up_to.add(queued.delivery, message_id, queued)
        else:
            self._one_by_one[message_id] = queued
        if self._holders is not None:
            self._holders.add(message_id, self)

    def acknowledged(self, message_id: bytes) -> list[QueuedMessage]:
        """Take an ACK's messages, earlier ones included if it is cumulative, from `unsettled`, and return them."""
        if self._cumulative:
            return self.taken(self._up_to.hold(message_id))
        queued = self._one_by_one.pop(message_id, None)
        if queued is None:
            return []
        if self._holders is not None:
            self._holders.remove(message_id, self)
        return [queued]

    def held(self, message_id: bytes) -> list[QueuedMessage] | Held[QueuedMessage]:
        """As `acknowledged`, for an ACK or NACK in a transaction, which may be aborted: then call `restore`."""
        if not self._cumulative:
            return self.acknowledged(message_id)
        runs = self._up_to.hold(message_id)
        if not runs:
            return []
        if self._holders is not None:
            self._holders.remove(message_id, self)
        return Held(self.taken, message_id, runs)

    def taken(self, runs: Runs) -> list[QueuedMessage]:
        """Return messages that were removed from `unsettled`, for good."""
        messages = self._up_to.take(runs)
        if self._holders is not None:
            for message_id, _ in messages:
                self._holders.remove(message_id, self)
        return [queued for _, queued in messages]

    def restore(self, messages: list[QueuedMessage] | Held[QueuedMessage]) -> None:
        """Put messages that an aborted transaction had acknowledged back into `unsettled`, in their old places."""
        if isinstance(messages, Held):
            self._up_to.release(messages.runs)
            if self._holders is not None:
                self._holders.add(messages.message_id, self)
        else:
            for queued in messages:
                self._await(queued)

    def give_up(self) -> list[QueuedMessage]:
        """Remove from `unsettled` and return all messages that it has not acknowledged."""
        if self._cumulative:
            return self.taken(self._up_to.hold_all())
        messages = list(self._one_by_one.values())
        self._one_by_one.clear()
        if self._holders is not None:
            for queued in messages:
                self._holders.remove(queued.message.id, self)
        return messages

    def resume(self) -> None:
        """Continue to send: the buffer is ready again, which it was not when there was a message for the consumer."""
        self.queue.consumer_ready(self)


class Queue:
    """A queue: each message goes to one consumer, in the order of arrival, the consumers by turns.

    While a message waits no consumer can take it: call `consumer_ready` when one may, or joins. `len()` and
    `waiting_bytes`: what waits; `kept`: with what awaits an ACK. `private`: of one topic's subscriber, and ends with
    it.
    """

    __slots__ = (
        "_able",
        "_consumers",
        "_ended",
        "_max_bytes",
        "_max_messages",
        "_memory",
        "_new",
        "_order",
        "_private",
        "_returned",
        "destination",
        "kept",
        "waiting_bytes",
    )

    def __init__(
        self,
        destination: bytes,
        memory: Memory,
        max_messages: int,
        max_bytes: int,
        *,
        private: bool = False,
    ) -> None:
        self.destination = destination
        self.kept = 0
        self.waiting_bytes = 0
        self._private = private
        self._memory = memory
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._order = 0
        self._new: deque[QueuedMessage] = deque()
        self._returned: list[QueuedMessage] = []
        self._consumers: dict[Consumer, None] = {}
        # Those that were able to take a message when they were looked at last, in the order of their turns.
        self._able: OrderedDict[Consumer, None] = OrderedDict()
        self._ended = False

    def __len__(self) -> int:
        return len(self._new) + len(self._returned)

    @property
    def idle(self) -> bool:
        """Whether it has neither messages nor consumers."""
        return not self.kept and not self._consumers

    def has_room(self, count: int, size: int) -> bool:
        """Return whether `count` more messages of `size` bytes together may wait. A single one always may."""
        waiting = len(self)
        if waiting + count == 1:
            return True
        return waiting + count <= self._max_messages and self.waiting_bytes + size <= self._max_bytes

    def require_room(self, count: int, size: int) -> None:
        """Raise `LimitError` where `has_room` is False."""
        if not self.has_room(count, size):
            bound = f"{self._max_messages} messages and {self._max_bytes} bytes"
            raise LimitError("the queue is full", f"a queue keeps {bound} at most")

    def must_keep(self) -> bool:
        """Whether the next message would have to be kept: to wait, or until it is acknowledged."""
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
        """As `publish`, for a message for which the caller has already checked the room."""
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
        """Add a consumer. Call `consumer_ready` when it may get messages."""
        self._consumers[consumer] = None

    def consumer_ready(self, consumer: Consumer) -> None:
        """Send the waiting messages to a consumer that may be able to take some again."""
        if consumer not in self._able:
            if consumer.able:
                self._able[consumer] = None
            elif not consumer.buffer.ready:
                consumer.buffer.holds_up(consumer)
        self.deliver()

    def put_last(self, consumer: Consumer) -> None:
        """Move a consumer behind the others, because it refused messages: the others get the next ones first."""
        if consumer in self._able:
            self._able.move_to_end(consumer)

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer: its messages wait again. Call `deliver` after the last one."""
        del self._consumers[consumer]
        self._able.pop(consumer, None)
        consumer.buffer.forget(consumer)
        if self._private:
            self._ended = True
            while self.drop_oldest():
                pass
        self.returned(consumer.give_up())

    def overran(self) -> None:
        """End the connections of its consumers at the end of this input: more messages wait than the bounds allow."""
        for consumer in self._consumers:
            consumer.buffer.overran()

    def deliver(self) -> None:
        """Send the waiting messages to the consumers that can take them."""
        while self._new or self._returned:
            consumer = self._next()
            if consumer is None:
                return
            queued = self._take_oldest()
            if consumer.acknowledges:
                consumer.take(queued)
            else:
                consumer.write(queued.message, queued.redelivered)
                self.settled(queued)

    def _next(self) -> Consumer | None:
        """Return the next consumer, by turns, that can take a message; None if there is none."""
        able = self._able
        while able:
            consumer = next(iter(able))
            # `consumer.able`, without the call: once for each message.
            if consumer.buffer.ready and len(consumer.unsettled) < consumer.window:
                if len(able) > 1:
                    able.move_to_end(consumer)
                return consumer
            del able[consumer]
            if not consumer.buffer.ready:
                consumer.buffer.holds_up(consumer)
        return None

    # Messages

    def _take_oldest(self) -> QueuedMessage:
        """Remove and return the oldest waiting message; those that were delivered before are older than new ones."""
        queued = heappop(self._returned) if self._returned else self._new.popleft()
        self.waiting_bytes -= queued.message.size
        return queued

    def settled(self, queued: QueuedMessage) -> None:
        """Forget a delivered message that is acknowledged or needs no ACK."""
        self.kept -= 1
        self._memory.release(queued.message)

    def returned(self, messages: list[QueuedMessage]) -> None:
        """Let unacknowledged messages wait again, in their old places. Call `deliver` afterwards."""
        for queued in messages:
            if self._ended:
                self.settled(queued)
            else:
                queued.returned()
                self.waiting_bytes += queued.message.size
                heappush(self._returned, queued)

    def restore(self, consumer: Consumer, messages: list[QueuedMessage] | Held[QueuedMessage]) -> None:
        """Take back messages of an aborted transaction: they await their ACK or a consumer. Then call `deliver`."""
        if consumer in self._consumers:
            consumer.restore(messages)
        else:
            self.returned(list(messages))

    def drop_oldest(self) -> bool:
        """Drop the oldest message that waits. Return whether there was one."""
        if not len(self):
            return False
        self.settled(self._take_oldest())
        return True


class Topic:
    """A topic: each message goes to all present subscribers, each by a private queue. A subscriber that exceeds the
    bounds is disconnected; nobody waits for it.
    """

    __slots__ = ("_max_bytes", "_max_messages", "_memory", "_queues", "destination")

    def __init__(self, destination: bytes, memory: Memory, max_messages: int, max_bytes: int) -> None:
        self.destination = destination
        self._memory = memory
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._queues: dict[Queue, None] = {}

    @property
    def idle(self) -> bool:
        """Whether it has no subscribers."""
        return not self._queues

    @property
    def kept(self) -> int:
        """The number of copies that are kept, waiting or unacknowledged."""
        return sum(queue.kept for queue in self._queues)

    def publish(self, message: Message) -> None:
        """Send a message to all subscribers. Raises `LimitError`, and sends it to none, without memory for it."""
        if not self._memory.fits(message) and any(queue.must_keep() for queue in self._queues):
            self._memory.admit(message)
        self.add(message)

    def add(self, message: Message) -> None:
        """As `publish`, for a message for which the caller has already checked the memory."""
        for queue in self._queues:
            if len(queue) and not queue.has_room(1, message.size):
                queue.overran()
            else:
                queue.add(message)

    def require_room(self, count: int, size: int) -> None:
        """Raise nothing: a topic always has room, because a subscriber that is too slow is disconnected."""

    def queue(self) -> Queue:
        """Return a new private queue for one subscriber. Call its `joined` at once."""
        queue = Queue(self.destination, self._memory, self._max_messages, self._max_bytes, private=True)
        self._queues[queue] = None
        return queue

    def left(self, consumer: Consumer) -> None:
        """Remove a consumer, with all messages that it had not received or not acknowledged."""
        del self._queues[consumer.queue]
        consumer.queue.left(consumer)

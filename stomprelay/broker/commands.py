"""Executes a connected client's frames: subscriptions, transactions, and each other command."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from stomprelay.broker.destinations import Destinations, PendingTransaction
from stomprelay.broker.message import Bounds, MessageHead, require_destination
from stomprelay.broker.queue import Consumer, Held, Holders, QueuedMessage, SendBuffer
from stomprelay.session.subscriptions import AUTO, MODES
from stomprelay.wire.dialect import DeliveryNaming, Dialect
from stomprelay.wire.errors import LimitError, ProtocolError, Refused, StompError
from stomprelay.wire.frame import END, Frame, compose
from stomprelay.wire.names import (
    ABORT,
    ACK,
    ACK_HEADER,
    BEGIN,
    COMMIT,
    DESTINATION,
    DISCONNECT,
    ID,
    MESSAGE_ID,
    NACK,
    RECEIPT,
    RECEIPT_HEADER,
    RECEIPT_ID,
    SELECTOR,
    SEND,
    SUBSCRIBE,
    SUBSCRIPTION,
    TRANSACTION,
    UNSUBSCRIBE,
)

_PREFETCH: Final = (b"prefetch-count", b"activemq.prefetchSize")
"""RabbitMQ's and ActiveMQ's headers of SUBSCRIBE for the number of messages that may await an ACK."""


class ClientCommands:
    """Executes the frames of one client, until `left` is True: the client sent DISCONNECT. `consumers`: its
    subscriptions. Call `closed` when the connection ends.
    """

    def __init__(
        self, dialect: Dialect, buffer: SendBuffer, destinations: Destinations, bounds: Bounds
    ) -> None:
        self.left = False
        self._dialect = dialect
        self._buffer = buffer
        self._destinations = destinations
        self._bounds = bounds
        self.consumers: dict[bytes, Consumer] = {}
        self._named: dict[bytes, Consumer] = {}
        self._by_destination: dict[bytes, OrderedDict[Consumer, None]] = {}
        self._holders = Holders() if dialect.delivery is DeliveryNaming.MESSAGE_ID else None
        self._memo: bytes | None = None
        self._head: MessageHead | None = None
        self._tags = 0
        self._transactions: dict[bytes, PendingTransaction] = {}
        commands: dict[bytes, Callable[[Frame], None]] = {
            SEND: self._send,
            SUBSCRIBE: self._subscribe,
            UNSUBSCRIBE: self._unsubscribe,
            ACK: self._ack,
            NACK: self._ack,
            BEGIN: self._begin,
            COMMIT: self._end,
            ABORT: self._end,
            DISCONNECT: self._disconnect,
        }
        self._commands = {name: command for name, command in commands.items() if name in dialect.commands}

    # Inputs

    def execute(self, frame: Frame) -> None:
        """Execute a frame. Raises `StompError`, with the frame's receipt, if the frame cannot be executed."""
        try:
            command = self._commands.get(frame.command)
            if command is None:
                version = self._dialect.version.decode()
                raise ProtocolError(f"STOMP {version} has no {frame.command.decode()}")
            command(frame)
        except StompError as error:
            error.asked_for(frame.header(RECEIPT_HEADER, self._dialect))
            raise

    def closed(self) -> None:
        """Abort the open transactions and end the subscriptions: the connection has ended, and its buffer is closed."""
        for transaction in self._transactions.values():
            transaction.aborted()
        self._transactions.clear()
        consumers = list(self.consumers.values())
        self.consumers.clear()
        self._named.clear()
        self._by_destination.clear()
        for consumer in consumers:
            self._destinations.left(consumer)
        for queue in {consumer.queue: None for consumer in consumers}:
            queue.deliver()
            self._destinations.remove_if_idle(queue)

    # Frames

    def _confirm(self, frame: Frame) -> None:
        receipt = frame.header(RECEIPT_HEADER, self._dialect)
        if receipt is not None:
            self._buffer.reply(compose(RECEIPT, [(RECEIPT_ID, receipt)], self._dialect))

    def _send(self, frame: Frame) -> None:
        memo = frame.memo
        if memo is None or memo is not self._memo or self._head is None:
            self._memo, self._head = memo, MessageHead.read(frame, self._dialect)
        head = self._head
        message = self._destinations.message(head, frame.payload + END)
        if head.transaction is None:
            self._destinations.publish(message)
        else:
            self._transaction(head.transaction).sent(message)
        if head.receipt is not None:
            self._confirm(frame)

    def _subscribe(self, frame: Frame) -> None:
        dialect = self._dialect
        destination = require_destination(frame.header(DESTINATION, dialect), "SUBSCRIBE")
        id = frame.header(ID, dialect)
        if id is None and dialect.named_subscriptions:
            raise ProtocolError("SUBSCRIBE needs an id header")
        if id is not None and id in self._named:
            raise ProtocolError("SUBSCRIBE repeats the id of an open subscription")
        mode = frame.header(ACK_HEADER, dialect)
        if mode is not None and mode not in MODES:
            known = b", ".join(sorted(MODES)).decode()
            raise ProtocolError("SUBSCRIBE has an unknown ack mode", f"known: {known}")
        if frame.header(SELECTOR, dialect):
            raise Refused("selectors are not supported", "the embedded broker delivers all or nothing")
        if frame.header(b"browser", dialect) == b"true":
            raise Refused("browsing is not supported", "the embedded broker would have consumed the queue")
        if len(self.consumers) >= self._bounds.subscriptions:
            limit = f"the limit is {self._bounds.subscriptions} a connection"
            raise LimitError("too many subscriptions", limit)
        prefetch = self._prefetch(frame)
        self._tags += 1
        tag = b"%d" % self._tags
        queue = self._destinations.queue_for(destination)
        consumer = Consumer(queue, tag, id, mode or AUTO, prefetch, dialect, self._buffer, self._holders)
        queue.joined(consumer)
        self.consumers[tag] = consumer
        self._by_destination.setdefault(destination, OrderedDict())[consumer] = None
        if id is not None:
            self._named[id] = consumer
        self._confirm(frame)
        queue.consumer_ready(consumer)

    def _prefetch(self, frame: Frame) -> int:
        for name in _PREFETCH:
            value = frame.header(name, self._dialect)
            if value is not None:
                if not value.isdigit() or len(value) > 18:
                    raise ProtocolError(f"{name.decode()} is not a number", "it says", quoted=value)
                return int(value) or self._bounds.prefetch
        return self._bounds.prefetch

    def _unsubscribe(self, frame: Frame) -> None:
        id = frame.header(ID, self._dialect)
        if id is not None:
            consumer = self._named.get(id)
        elif self._dialect.named_subscriptions:
            raise ProtocolError("UNSUBSCRIBE needs an id header")
        else:
            destination = frame.header(DESTINATION, self._dialect)
            if destination is None:
                raise ProtocolError("UNSUBSCRIBE needs an id or a destination header")
            consumer = next(iter(self._by_destination.get(destination, ())), None)
        if consumer is None:
            raise ProtocolError("UNSUBSCRIBE names no open subscription")
        del self.consumers[consumer.tag]
        if consumer.id is not None:
            del self._named[consumer.id]
        there = self._by_destination[consumer.queue.destination]
        del there[consumer]
        if not there:
            del self._by_destination[consumer.queue.destination]
        self._destinations.left(consumer)
        self._confirm(frame)
        consumer.queue.deliver()
        self._destinations.remove_if_idle(consumer.queue)

    def _ack(self, frame: Frame) -> None:
        name = frame.header(TRANSACTION, self._dialect)
        transaction = None if name is None else self._transaction(name)
        consumer, message_id = self._find(frame)
        messages: list[QueuedMessage] | Held = []
        if consumer is not None:
            messages = (consumer.acknowledged if transaction is None else consumer.held)(message_id)
        if consumer is None or not messages:
            raise ProtocolError(f"{frame.command.decode()} names no message that awaits one")
        queue = consumer.queue
        refused = frame.command is NACK
        if transaction is not None:
            transaction.acknowledged(consumer, messages, refused=refused)
        elif refused:
            self._destinations.refused([(consumer, messages)])
        else:
            for queued in messages:
                queue.settled(queued)
        self._confirm(frame)
        queue.consumer_ready(consumer)

    def _find(self, frame: Frame) -> tuple[Consumer | None, bytes]:
        """Return the consumer that an ACK or NACK names, and the message-id. An unknown consumer is None. Raises
        `ProtocolError` if a header is missing.
        """
        naming = self._dialect.delivery
        if naming is DeliveryNaming.ACK:
            tag, _, message_id = self._require(ID, frame).partition(b"-")
            return self.consumers.get(tag), message_id
        if naming is DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID:
            self._require(SUBSCRIPTION, frame)
        message_id = self._require(MESSAGE_ID, frame)
        subscription = frame.header(SUBSCRIPTION, self._dialect)
        if subscription is not None:
            return self._named.get(subscription), message_id
        return None if self._holders is None else self._holders.find(message_id), message_id

    def _begin(self, frame: Frame) -> None:
        name = self._require(TRANSACTION, frame)
        if name in self._transactions:
            raise ProtocolError("BEGIN repeats the name of an open transaction")
        if len(self._transactions) >= self._bounds.transactions:
            limit = f"the limit is {self._bounds.transactions} a connection"
            raise LimitError("too many open transactions", limit)
        self._transactions[name] = PendingTransaction(self._destinations, self._bounds.transaction_frames)
        self._confirm(frame)

    def _end(self, frame: Frame) -> None:
        name = self._require(TRANSACTION, frame)
        transaction = self._transaction(name)
        if frame.command == COMMIT:
            transaction.committed()
        else:
            transaction.aborted()
        del self._transactions[name]
        self._confirm(frame)

    def _disconnect(self, frame: Frame) -> None:
        self._confirm(frame)
        self.left = True

    def _require(self, name: bytes, frame: Frame) -> bytes:
        value = frame.header(name, self._dialect)
        if value is None:
            article = "an" if name == ID else "a"
            raise ProtocolError(f"{frame.command.decode()} needs {article} {name.decode()} header")
        return value

    def _transaction(self, name: bytes) -> PendingTransaction:
        transaction = self._transactions.get(name)
        if transaction is None:
            raise ProtocolError("unknown transaction", "no such transaction was begun", quoted=name)
        return transaction

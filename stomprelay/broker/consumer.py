"""One subscription, as the queue sees it that serves it."""

from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING

from stomprelay.broker.entry import Entry
from stomprelay.broker.message import Message
from stomprelay.broker.outbox import Outbox
from stomprelay.session.subscriptions import AUTO, CUMULATIVE
from stomprelay.wire.dialect import DeliveryNaming, Dialect
from stomprelay.wire.names import DESTINATION, REDELIVERED, SUBSCRIPTION

if TYPE_CHECKING:
    from stomprelay.broker.queue import Queue

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

"""The limits of the embedded broker, and the count of the bytes of its messages."""

from dataclasses import dataclass
from typing import Final

from stomprelay.broker.message import Message
from stomprelay.wire.errors import LimitError
from stomprelay.wire.head import Limits


@dataclass(frozen=True)
class Bounds:
    """Every number is at least 1; sizes are in bytes. A client that exceeds one gets an ERROR and is disconnected.

    `memory` bounds all messages that are kept, for whatever reason; `queue_messages` and `queue_bytes` what waits in
    one queue. A topic does not wait for a slow subscriber: where more than `topic_messages` or `topic_bytes` wait for
    one, it is the subscriber that is disconnected. `subscriptions` and `transactions` are those of one connection,
    `transaction_frames` those of one transaction. `prefetch`: messages that may await their ACK at one consumer
    which asks for no other number by `prefetch-count` or `activemq.prefetchSize`. `refusals`: how many NACKs move a
    message to the dead letters. `headers`, `header_line` and `body` bound one frame, `before_connect` what may come
    until CONNECT is complete, `connect_timeout` (seconds) when it must have come. `burst`: how much of what waits
    for a client is written to it at once. `unread`: bytes of receipts that wait for a client which does not read
    before it is not read from either.
    """

    memory: int = 256 * 1024 * 1024
    queue_messages: int = 100_000
    queue_bytes: int = 128 * 1024 * 1024
    topic_messages: int = 10_000
    topic_bytes: int = 32 * 1024 * 1024
    subscriptions: int = 1000
    transactions: int = 100
    transaction_frames: int = 10_000
    prefetch: int = 1000
    refusals: int = 5
    headers: int = Limits.headers
    header_line: int = Limits.header_line
    body: int = Limits.body
    before_connect: int = 65536
    connect_timeout: float = 10.0
    burst: int = 256 * 1024
    unread: int = 1024 * 1024

    @property
    def limits(self) -> Limits:
        """Return the limits of a leg's decoder."""
        return Limits(self.headers, self.header_line, self.body)


DEFAULTS: Final = Bounds()


class Memory:
    """The count of the bytes that the broker keeps, at most `most`, of which `used` are in use. A message counts once,
    however many places keep it. Each place that keeps one has to `hold` it first and to `release` it in the end.
    """

    __slots__ = ("most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    def fits(self, message: Message) -> bool:
        """Return whether a message can be held within the bound."""
        return message.held or self.used + message.size <= self.most

    def admit(self, message: Message) -> None:
        """Raise `LimitError` if a message cannot be held within the bound."""
        if not self.fits(message):
            raise LimitError("the broker's memory is full", f"it keeps messages of {self.most} bytes at most")

    def hold(self, message: Message) -> None:
        """Count one more place that keeps the message. Call `admit` or `fits` before."""
        if message.hold():
            self.used += message.size

    def release(self, message: Message) -> None:
        """Count one place fewer that keeps the message; with the last one its bytes are free again."""
        if message.release():
            self.used -= message.size

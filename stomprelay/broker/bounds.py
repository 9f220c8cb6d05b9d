"""The limits of the embedded broker, and the count of the bytes of its messages."""

from dataclasses import dataclass
from typing import Final

from stomprelay.broker.message import Message
from stomprelay.wire.errors import LimitError
from stomprelay.wire.frame import Limits


@dataclass(frozen=True)
class Bounds:
    """Every number is at least 1; sizes are in bytes. A client that exceeds one gets an ERROR and is disconnected.

    `memory`: all kept messages. `queue_messages`, `queue_bytes`: of one queue. `topic_messages`, `topic_bytes`: of one
    slow subscriber. `subscriptions`, `transactions`: of one connection. `transaction_frames`: of one transaction.
    `prefetch`: unacknowledged messages of a consumer that asks for no number. `refusals`: NACKs that make a dead
    letter. `headers`, `header_line`, `body`: of one frame. `before_connect`: until CONNECT is complete,
    `connect_timeout` seconds. `burst`: written at once. `unread`: waiting receipts before the client is not read from.
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
    """The count of kept bytes: `used` of at most `most`. A message counts once. Each place that keeps one has to `hold`
    and later `release` it.
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

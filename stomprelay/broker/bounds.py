"""How much the embedded broker takes from everybody together, and from each."""

from dataclasses import dataclass
from typing import Final

from stomprelay.wire.limits import Limits


@dataclass(frozen=True)
class Bounds:
    """Every number is at least 1; sizes are in bytes. Who asks for more is told so in an ERROR and disconnected.

    `memory` bounds all messages kept, whatever for; `queue_messages` and `queue_bytes` what waits in one queue.
    A topic does not wait for a slow subscriber: where more than `topic_messages` or `topic_bytes` wait for one, it
    is the subscriber that is disconnected. `subscriptions` and `transactions` are those of one connection,
    `transaction_frames` those of one transaction. `prefetch`: messages that may await their ACK at one consumer
    which asks for no other number by `prefetch-count` or `activemq.prefetchSize`. `refusals`: how many NACKs move a
    message to the dead letters. `headers`, `header_line` and `body` bound one frame, `before_connect` what may come
    until CONNECT is complete, `connect_timeout` (seconds) when it must have come. `burst`: how much of what waits
    for a client is written to it at once. `unread`: octets of receipts that wait for a client which does not read
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
        """What a leg's decoder takes."""
        return Limits(self.headers, self.header_line, self.body)


DEFAULTS: Final = Bounds()

"""The output of one input of the embedded broker: one `Send` for each leg, then all other effects."""

from collections import OrderedDict
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from stomprelay.session.effects import Effect, Send
from stomprelay.session.leg import Leg

if TYPE_CHECKING:
    from stomprelay.broker.queue import Consumer


class Output:
    """The output of one input, for all connections: effects, and bytes in buffers. An input ends with `flush`, then
    `drain`.
    """

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._filled: list[SendBuffer] = []
        self._overrun: dict[Callable[[], None], None] = {}

    def put(self, *effects: Effect) -> None:
        """Append these effects."""
        self._effects += effects

    def drain(self) -> list[Effect]:
        """Return all effects since the last call, and forget them; the caller must perform them in order."""
        effects, self._effects = self._effects, []
        return effects

    def filled(self, buffer: "SendBuffer") -> None:
        """Record that an empty buffer now has bytes: `flush` will send them."""
        self._filled.append(buffer)

    def overran(self, end: Callable[[], None]) -> None:
        """Let `flush` call `end`, once, to end the connection of a subscriber that is too slow for its topic."""
        self._overrun[end] = None

    def flush(self, now: float) -> None:
        """End the connections that are too slow; then put the bytes of the buffers before all other effects."""
        while self._overrun:
            end, _ = self._overrun.popitem()
            end()
        rest = self.drain()
        for buffer in self._filled:
            buffer.leg.heartbeat.sent_at = now
            self.put(Send(buffer.leg, buffer.drain()))
        self._filled.clear()
        self.put(*rest)


class SendBuffer:
    """The bytes for one leg, written at the end of the input.

    `ready`: messages may be added, as the transport is not full, the leg not closed and the turn not `at_limit`.
    `limit`: of a turn's bytes, infinity between turns. `held_up`: consumers that wait until it is `ready`.
    `unread`: bytes of replies while the transport was full. `too_slow` is called at the end after `overran`.
    """

    def __init__(self, leg: Leg, output: Output, too_slow: Callable[[], None]) -> None:
        self.leg = leg
        self.ready = True
        self.at_limit = False
        self.unread = 0
        self._output = output
        self._too_slow = too_slow
        self.limit: float = inf
        self._open = True
        self._writable = True
        self._pieces: list[bytes] = []
        self._size = 0
        self.held_up: OrderedDict[Consumer, None] = OrderedDict()

    def deliver(self, head: bytes, body: bytes) -> None:
        """Add a message, while `ready`."""
        pieces = self._pieces
        if not pieces:
            self._output.filled(self)
        pieces.append(head)
        pieces.append(body)
        self._size += len(head) + len(body)
        if self._size >= self.limit:
            self.at_limit = True
            self.ready = False

    def reply(self, data: bytes) -> None:
        """Add a frame that never waits: a receipt, an error, a beat. `unread` counts it while the transport is full."""
        if not self._pieces:
            self._output.filled(self)
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
        """Resume `held_up` consumers in order while the buffer is `ready`; one that waits again becomes the last."""
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

    def overran(self) -> None:
        """End the connection at the end of this input: more messages wait for this client than the bounds allow."""
        self._output.overran(self._too_slow)

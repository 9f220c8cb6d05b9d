"""Deliveries whose ACK waits until Spark has committed them, and those that come again meanwhile.

Spark may have a message twice on offer: once in the spool, and once more from a broker that was not told in time. A
message is known again by its id and its body, so long as it can come again at all.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32


class Owed(NamedTuple):
    """A delivery: the message's sequence in the spool, and the `ack` value."""

    sequence: int
    ack: bytes


class Debts:
    """What one receiver owes its broker. `memory`: how many messages below the last committed one may come again.

    Ask `known` for each message before it is spooled, and tell of each delivery with `owe`.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._known: dict[bytes, tuple[int, int]] = {}
        self._owed: dict[bytes, deque[Owed]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._owed.values()))

    def remember(self, sequence: int, message_id: bytes, body: bytes) -> None:
        """A message is in the spool, or about to be."""
        self._known[message_id] = (sequence, crc32(body))

    def known(self, message_id: bytes, body: bytes) -> int | None:
        """The sequence under which a message is in the spool already."""
        found = self._known.get(message_id)
        return found[0] if found is not None and found[1] == crc32(body) else None

    def owe(self, subscription: bytes, owed: Owed) -> None:
        """A delivery came on a subscription."""
        self._owed.setdefault(subscription, deque()).append(owed)

    def due(self, committed: int) -> dict[bytes, bytes]:
        """By subscription the last ACK that may be said, and with it all before: Spark has committed all sequences
        below. They are owed no more.
        """
        found: dict[bytes, bytes] = {}
        for subscription, owed in self._owed.items():
            while owed and owed[0].sequence < committed:
                found[subscription] = owed.popleft().ack
        for message_id in self._forgettable(committed - self._memory):
            del self._known[message_id]
        return found

    def _forgettable(self, below: int) -> Iterable[bytes]:
        """Messages are remembered in the order of their sequences."""
        found = []
        for message_id, (sequence, _) in self._known.items():
            if sequence >= below:
                break
            found.append(message_id)
        return found

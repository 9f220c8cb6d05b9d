"""How many bytes the relay keeps of one client, and how many it may. `take` and `give` count lasting things; what has a
count of its own is summed up when needed (`watch`).
"""

from typing import Final, Protocol

from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import LimitError

THING: Final = 512
"""Bytes that anything that is kept costs beside its text: its objects, and its places in tables."""
_HEADER: Final = 160
"""The same for one header."""


def cost(headers: Headers) -> int:
    """Return how many bytes a frame's decoded headers cost."""
    return THING + sum(len(name) + len(value) + _HEADER for name, value in headers)


class Costing(Protocol):
    """What keeps something. `cost`: the bytes of it."""

    @property
    def cost(self) -> int:
        """The bytes of what is kept now."""


class Budget:
    """The bytes that are kept of one client; `most` may be. Its sessions with several brokers share one."""

    __slots__ = ("_size", "_watched", "most")

    def __init__(self, most: int = 1 << 26) -> None:
        self.most = most
        self._size = 0
        self._watched: tuple[Costing, ...] = ()

    @property
    def size(self) -> int:
        """The number of bytes that are kept."""
        size = self._size
        for each in self._watched:
            size += each.cost
        return size

    @property
    def full(self) -> bool:
        """Whether as much is kept as may be."""
        return self.size >= self.most

    def room(self, wanted: int) -> int:
        """Return how many bytes may wait in one place: `wanted`, or fewer, to stop reading before a refusal."""
        return min(wanted, self.most // 4)

    def watch(self, keeper: Costing) -> None:
        """Add what this one keeps to `size`, whenever that is asked for."""
        self._watched = (*self._watched, keeper)

    def take(self, size: int) -> None:
        """Count that so many more bytes are kept. Raises `LimitError`, and counts nothing, where that is too much."""
        self._size += size
        try:
            self.check()
        except LimitError:
            self._size -= size
            raise

    def give(self, size: int) -> None:
        """Record that so many bytes are kept no longer."""
        self._size -= size

    def check(self) -> None:
        """Raise `LimitError` if more is kept than may be."""
        if self.size > self.most:
            raise LimitError("too much is kept for this client", f"the limit is {self.most} bytes")

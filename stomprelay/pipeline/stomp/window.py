"""Which rows of a task are confirmed. Rows are numbered from 0, and sent in their order."""

from collections import deque
from dataclasses import dataclass


@dataclass
class _Group:
    first: int
    last: int
    told: bool = False
    sure: bool = False


class Window:
    """The rows between what was sent and what the broker vouches for. From the first that is not safe on `size` may be
    sent; every `every`-th asks for a receipt, of which the broker says that it vouches for all before it.

    `confirmed` is the number of the first row that is not safe, `next` that of the one to be sent next. Where a receipt
    for several rows comes from a broker that vouches for one only the window is `stuck`: have the broker confirm all by
    other means, and say `settled`.
    """

    def __init__(self, size: int, every: int, first: int = 0) -> None:
        self.confirmed = first
        self._size = size
        self._every = every
        self.next = self._begun = first
        self._groups: deque[_Group] = deque()
        self._by_last: dict[int, _Group] = {}

    @property
    def room(self) -> int:
        """How many rows may be sent now."""
        return self._size - (self.next - self.confirmed)

    @property
    def stuck(self) -> bool:
        """Whether no receipt can make anything more safe."""
        return bool(self._groups) and self._groups[0].told

    def sent(self) -> bytes | None:
        """One more row goes out. Answers the receipt that it asks for, if any."""
        number = self.next
        self.next += 1
        if number - self._begun + 1 < self._every:
            return None
        group = self._by_last[number] = _Group(self._begun, number)
        self._groups.append(group)
        self._begun = self.next
        return b"%d" % number

    def received(self, receipt: bytes, *, cumulative: bool) -> None:
        """A receipt came."""
        group = self._by_last.pop(int(receipt), None) if receipt.isdigit() else None
        if group is None:
            return
        group.told = True
        group.sure = cumulative or group.first == group.last
        while self._groups and self._groups[0].told and self._groups[0].sure:
            self.confirmed = self._groups.popleft().last + 1

    def settled(self) -> None:
        """The broker confirmed everything."""
        self.confirmed = self._begun = self.next
        self._groups.clear()
        self._by_last.clear()

"""The unacknowledged deliveries of a consumer, where one ACK covers all deliveries before it."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from math import inf
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

Runs = list[tuple[int, int]]
"""Numbers of deliveries, as the first and the last of each unbroken run, in order."""


class Unsettled(Generic[T]):
    """Deliveries by number, each with its message-id. `len()` and `in` are about those that await an ACK, by
    message-id. A transaction may hold deliveries, in runs of neighbours.
    """

    __slots__ = ("_awaited", "_by_number", "_numbers", "_runs")

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._by_number: dict[int, tuple[bytes, T]] = {}
        self._runs: Runs = []
        self._awaited = 0

    def __len__(self) -> int:
        return self._awaited

    def __iter__(self) -> Iterator[bytes]:
        for first, last in self._runs:
            for number in range(first, last + 1):
                yield self._by_number[number][0]

    def __contains__(self, message_id: object) -> bool:
        number = self._numbers.get(message_id) if isinstance(message_id, bytes) else None
        return number is not None and self._run(number) is not None

    def _run(self, number: int) -> int | None:
        """The index of the run that contains the delivery; None if the delivery is held."""
        at = bisect_right(self._runs, (number, inf)) - 1
        return at if at >= 0 and number <= self._runs[at][1] else None

    def add(self, number: int, message_id: bytes, item: T) -> None:
        """Add a delivery that awaits an ACK."""
        self._numbers[message_id] = number
        self._by_number[number] = message_id, item
        self.release([(number, number)])

    def hold(self, message_id: bytes) -> Runs:
        """Hold and return the deliveries that an ACK of this message covers, empty for an unknown one. Then call
        `release` or `take` with them.
        """
        number = self._numbers.get(message_id)
        at = None if number is None else self._run(number)
        if number is None or at is None:
            return []
        first, last = self._runs[at]
        held = [*self._runs[:at], (first, number)]
        self._runs[: at + 1] = [(number + 1, last)] if number < last else []
        self._awaited -= sum(last - first + 1 for first, last in held)
        return held

    def hold_all(self) -> Runs:
        """Return all deliveries that await an ACK, as `hold` does."""
        held, self._runs, self._awaited = self._runs, [], 0
        return held

    def release(self, held: Runs) -> None:
        """Let deliveries await an ACK again, in their old places."""
        runs = self._runs
        for first, last in held:
            self._awaited += last - first + 1
            at = end = bisect_left(runs, (first, last))
            if at and runs[at - 1][1] == first - 1:
                at -= 1
                first = runs[at][0]  # noqa: PLW2901 - one run with its neighbour
            if end < len(runs) and runs[end][0] == last + 1:
                last = runs[end][1]  # noqa: PLW2901
                end += 1
            runs[at:end] = [(first, last)]

    def take(self, held: Runs) -> list[tuple[bytes, T]]:
        """Forget held deliveries, and return them in their order."""
        taken = [self._by_number.pop(number) for first, last in held for number in range(first, last + 1)]
        for message_id, _ in taken:
            del self._numbers[message_id]
        return taken


class Held(Generic[T]):
    """The deliveries of one cumulative ACK in a transaction, up to `message_id`. Iterate over it once, or give its
    `runs` to `Unsettled.release`.
    """

    __slots__ = ("_take", "message_id", "runs")

    def __init__(self, take: Callable[[Runs], list[T]], message_id: bytes, runs: Runs) -> None:
        self._take = take
        self.message_id = message_id
        self.runs = runs

    def __iter__(self) -> Iterator[T]:
        return iter(self._take(self.runs))


class Waiting(Protocol):
    """An object that messages were sent to: those in `unsettled` await an ACK."""

    unsettled: Collection[bytes]


W = TypeVar("W", bound=Waiting)


class Holders(Generic[W]):
    """The receivers of each message among the consumers of one client, by message-id, the earliest receiver first."""

    __slots__ = ("_by_message",)

    def __init__(self) -> None:
        self._by_message: dict[bytes, OrderedDict[W, None]] = {}

    def add(self, message_id: bytes, holder: W) -> None:
        """Record that this message was sent to this receiver."""
        self._by_message.setdefault(message_id, OrderedDict())[holder] = None

    def remove(self, message_id: bytes, holder: W) -> None:
        """Record that this receiver has acknowledged this message, or never had it."""
        holders = self._by_message.get(message_id)
        if holders is not None:
            holders.pop(holder, None)
            if not holders:
                del self._by_message[message_id]

    def find(self, message_id: bytes) -> W | None:
        """Return the first receiver at which this message awaits an ACK."""
        holders = self._by_message.get(message_id, ())
        return next((each for each in holders if message_id in each.unsettled), None)

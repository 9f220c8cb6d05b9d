"""Deliveries by their message-ids, which several may have: a broker gives one id to all subscriptions of a topic, and
again to what it sends again.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from stomprelay.session.delivery import Delivery

_RANKS: Final = 3


class _Line:
    """Deliveries of one name, by `rank` and then age. Those that are not pending, or have another rank now, are sorted
    out when they come first.
    """

    __slots__ = ("_size", "_waiting", "count")

    def __init__(self) -> None:
        self._waiting: list[list[tuple[int, Delivery]]] = [[] for _ in range(_RANKS)]
        self._size = 0
        self.count = 0
        """How many of them are not gone."""

    def add(self, delivery: Delivery) -> None:
        """Put in a delivery."""
        self.count += 1
        self.put(delivery)

    def put(self, delivery: Delivery) -> None:
        """Put in a delivery again that was sorted out while a transaction held it."""
        heappush(self._waiting[delivery.rank], (delivery.order, delivery))
        self._size += 1

    def remove(self) -> None:
        """Record that one of them is gone."""
        self.count -= 1
        if self._size > 2 * self.count + 16:
            self._waiting = [[each for each in waiting if not each[1].gone] for waiting in self._waiting]
            for waiting in self._waiting:
                heapify(waiting)
            self._size = sum(map(len, self._waiting))

    def first(self) -> Delivery | None:
        """Return the one that an ACK is for; None where none is pending."""
        for rank, waiting in enumerate(self._waiting):
            while waiting:
                delivery = waiting[0][1]
                if delivery.pending and delivery.rank == rank:
                    return delivery
                heappop(waiting)
                self._size -= 1
                if delivery.pending:
                    self.put(delivery)
                elif not delivery.gone:
                    delivery.unsettled.call_again(delivery, self.put)
        return None


class _Twins:
    """Deliveries of one message-id: all of them, and those of each subscription id. `len` is of how many ids."""

    __slots__ = ("_every", "_lines")

    def __init__(self, first: Delivery) -> None:
        self._every = _Line()
        self._lines: dict[bytes, _Line] = {}
        self.add(first)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, delivery: Delivery) -> None:
        self._every.add(delivery)
        self._lines.setdefault(delivery.subscription.id, _Line()).add(delivery)

    def remove(self, delivery: Delivery) -> bool:
        """Record that one is gone. Returns whether that was the last."""
        self._every.remove()
        line = self._lines[delivery.subscription.id]
        line.remove()
        if not line.count:
            del self._lines[delivery.subscription.id]
        return not self._every.count

    def first(self, subscription: bytes | None) -> Delivery | None:
        line = self._every if subscription is None else self._lines.get(subscription)
        return None if line is None else line.first()


class Namesakes:
    """The deliveries of a ledger by message-id, until they are gone. `twins`: the cost of shared ids, in things."""

    __slots__ = ("_named", "twins")

    def __init__(self) -> None:
        self.twins = 0
        self._named: dict[bytes, Delivery | _Twins] = {}

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self._named

    def __len__(self) -> int:
        return len(self._named)

    def has_none_of(self, message_ids: Iterable[bytes]) -> bool:
        """Whether no delivery has one of these message-ids."""
        return self._named.keys().isdisjoint(message_ids)

    def add(self, delivery: Delivery) -> None:
        """Add a delivery."""
        before = self._named.setdefault(delivery.message_id, delivery)
        if before is delivery:
            return
        listed = len(before) if isinstance(before, _Twins) else 0
        if not isinstance(before, _Twins):
            before = self._named[delivery.message_id] = _Twins(before)
        before.add(delivery)
        self.twins += len(before) - listed

    def remove(self, delivery: Delivery) -> None:
        """Forget a delivery, which is gone."""
        named = self._named[delivery.message_id]
        if isinstance(named, _Twins):
            listed = len(named)
            last = named.remove(delivery)
            self.twins -= listed - len(named)
            if not last:
                return
        del self._named[delivery.message_id]

    def first(self, message_id: bytes, subscription: bytes | None) -> Delivery | None:
        """Return the pending delivery that an ACK of this message-id (on this subscription) is for: the oldest of the
        lowest rank. None where none is pending.
        """
        named = self._named.get(message_id)
        if isinstance(named, _Twins):
            return named.first(subscription)
        if named is None or not named.pending or subscription not in (None, named.subscription.id):
            return None
        return named

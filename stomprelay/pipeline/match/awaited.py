"""Receipts that a client asked for and was not given yet."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from stomprelay.pipeline.match.sighting import KIND, RECEIPT_NS, Sighting, piece


class _Asked:
    """A frame that asked for a receipt; `sighting` is that of a SEND. `told` are the brokers that gave it, where there
    are several, `at` when the first did.
    """

    __slots__ = ("at", "ns", "sighting", "told")

    def __init__(self, ns: int, sighting: Sighting | None) -> None:
        self.ns = ns
        self.sighting = sighting
        self.told: list[str | None] = []
        self.at: int | None = None


class Awaited:
    """The n-th frame with a receipt id answers to the n-th RECEIPT with it; where a session has several brokers, to
    the n-th of each, of which the first counts. After `give_up` ns nobody waits any more, and for another broker's not
    longer than `linger` ns.
    """

    __slots__ = ("_by_id", "_give_up", "_linger")

    def __init__(self, give_up: int, linger: int) -> None:
        self._by_id: dict[str, deque[_Asked]] = {}
        self._give_up = give_up
        self._linger = linger

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def __iter__(self) -> Iterator[Sighting]:
        for asked in self._by_id.values():
            for each in asked:
                if each.sighting is not None:
                    yield each.sighting

    def ask(self, receipt: str, ns: int, sighting: Sighting | None) -> None:
        """A frame asks for a receipt."""
        asked = self._by_id.get(receipt)
        if asked is None:
            asked = self._by_id[receipt] = deque()
        asked.append(_Asked(ns, sighting))

    def given(self, receipt: str, broker: str | None, ns: int, brokers: int) -> Sighting | None:
        """A RECEIPT came from a broker, of so many `brokers`. Answers the SEND that it is for, with its time, if it is
        for one and is its first.
        """
        asked = self._by_id.get(receipt)
        if asked is None:
            return None
        if brokers > 1 or len(asked) > 1 or asked[0].at is not None:
            self._expire(receipt, asked, ns)
        for each in asked:
            if broker is not None and broker in each.told:
                continue
            if brokers <= 1 or len(each.told) + 1 >= brokers:
                asked.remove(each)
                if not asked:
                    del self._by_id[receipt]
            else:
                each.told.append(broker)
            if each.at is None:
                each.at = ns
                if each.sighting is not None:
                    each.sighting[RECEIPT_NS] = ns
                    return each.sighting
            return None
        return None

    def refused(self, receipt: str) -> None:
        """An ERROR names this receipt: it will not be given."""
        asked = self._by_id.get(receipt)
        if asked is not None:
            asked.popleft()
            if not asked:
                del self._by_id[receipt]

    def forget(self, now: int) -> None:
        """Those for which nobody waits any more."""
        for receipt, asked in list(self._by_id.items()):
            self._expire(receipt, asked, now)

    def _expire(self, receipt: str, asked: deque[_Asked], now: int) -> None:
        for each in [each for each in asked if self._past(each, now)]:
            asked.remove(each)
        if not asked:
            self._by_id.pop(receipt, None)

    def _past(self, asked: _Asked, now: int) -> bool:
        if asked.at is not None and now > asked.at + self._linger:
            return True
        return now > asked.ns + self._give_up

    # From batch to batch

    def dump(self) -> list[Any]:
        """As JSON has it."""
        return [
            [
                receipt,
                each.ns,
                each.told,
                each.at,
                None if each.sighting is None else each.sighting[: KIND + 1],
            ]
            for receipt, asked in self._by_id.items()
            for each in asked
        ]

    def load(self, values: list[Any]) -> None:
        """Of what `dump` made."""
        for receipt, ns, told, at, place in values:
            self.ask(receipt, ns, None if place is None else piece(place))
            self._by_id[receipt][-1].told = told
            self._by_id[receipt][-1].at = at

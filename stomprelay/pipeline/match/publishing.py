"""What a session sends that takes effect later: frames that asked for a receipt, and transactions."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from stomprelay.pipeline.match.transfer import ABORTED, ENDED_NS, KIND, RECEIPT_NS, Transfer, continuation

REFUSED: Final = "the transaction cannot be committed"
"""How the relay's ERROR begins that answers COMMIT of a transaction which it cannot follow any more."""


class _Asked:
    """A frame that asked for a receipt; `transfer` is that of a SEND. `told` are the brokers that gave it, where there
    are several, `at` when the first did.
    """

    __slots__ = ("at", "ns", "told", "transfer")

    def __init__(self, ns: int, transfer: Transfer | None) -> None:
        self.ns = ns
        self.transfer = transfer
        self.told: list[str | None] = []
        self.at: int | None = None

    def given(self, ns: int) -> Transfer | None:
        """A RECEIPT came for it. Returns the SEND, with its time, if it is one and the RECEIPT its first."""
        if self.at is not None:
            return None
        self.at = ns
        if self.transfer is not None:
            self.transfer[RECEIPT_NS] = ns
        return self.transfer


class PendingReceipts:
    """The n-th frame with a receipt id belongs to the n-th RECEIPT with it; where a session has several brokers, to
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

    def __iter__(self) -> Iterator[Transfer]:
        for asked in self._by_id.values():
            for each in asked:
                if each.transfer is not None:
                    yield each.transfer

    def ask(self, receipt: str, ns: int, transfer: Transfer | None) -> None:
        """A frame asks for a receipt."""
        asked = self._by_id.get(receipt)
        if asked is None:
            asked = self._by_id[receipt] = deque()
        asked.append(_Asked(ns, transfer))

    def given(self, receipt: str, broker: str | None, ns: int, brokers: int) -> Transfer | None:
        """A RECEIPT came from a broker, of so many `brokers`. Returns the SEND that it is for, with its time, if it is
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
            return each.given(ns)
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
                None if each.transfer is None else each.transfer[: KIND + 1],
            ]
            for receipt, asked in self._by_id.items()
            for each in asked
        ]

    def load(self, values: list[Any]) -> None:
        """Of what `dump` made."""
        for receipt, ns, told, at, place in values:
            self.ask(receipt, ns, None if place is None else continuation(place))
            self._by_id[receipt][-1].told = told
            self._by_id[receipt][-1].at = at


class Transactions:
    """The open ones, each with its SENDs. `tell` is called with each SEND whose transaction ended."""

    __slots__ = ("_committed", "_committed_ns", "_doomed", "_open", "_refused_ns", "tell")

    def __init__(self, tell: Callable[[Transfer], None]) -> None:
        self.tell = tell
        self._open: dict[str, list[Transfer]] = {}
        self._doomed: set[str] = set()
        self._committed: list[Transfer] = []
        self._committed_ns = 0
        self._refused_ns = -1

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def __iter__(self) -> Iterator[Transfer]:
        yield from self._committed
        for sent in self._open.values():
            yield from sent

    def begin(self, name: str) -> None:
        """BEGIN."""
        self._open.setdefault(name, [])

    def sent(self, name: str, transfer: Transfer) -> None:
        """A SEND in it, even if its BEGIN was not seen."""
        self._open.setdefault(name, []).append(transfer)

    def doom(self, name: str) -> None:
        """It answered for a delivery of a broker that was lost, so the relay will not commit it."""
        self._doomed.add(name)

    def commit(self, name: str, ns: int) -> bool:
        """COMMIT. Returns whether the relay can follow it."""
        self._committed, self._committed_ns = self._open.pop(name, []), ns
        doomed = name in self._doomed
        self._doomed.discard(name)
        if doomed or self._refused_ns == ns:
            self._undo(self._committed, ns)
            return False
        for transfer in self._committed:
            transfer[ENDED_NS] = ns
            self.tell(transfer)
        return True

    def abort(self, name: str, ns: int) -> None:
        """ABORT."""
        self._undo(self._open.pop(name, []), ns)
        self._doomed.discard(name)

    def refused(self, ns: int) -> None:
        """The relay answered the last COMMIT, or the next one of the same time, with an ERROR."""
        self._refused_ns = ns
        self._undo(self._committed, ns)

    def ended(self, ns: int) -> None:
        """The session is over."""
        for sent in self._open.values():
            self._undo(sent, ns)
        self._open.clear()

    def _undo(self, sent: list[Transfer], ns: int) -> None:
        for transfer in sent:
            transfer[ENDED_NS], transfer[ABORTED] = ns, True
            self.tell(transfer)

    # From batch to batch

    def dump(self, since: int) -> list[Any]:
        """As JSON has it; a COMMIT before `since` was not refused."""
        if self._committed_ns < since:
            self._committed = []
        opened = {name: [each[: KIND + 1] for each in sent] for name, sent in self._open.items()}
        committed = [each[: KIND + 1] for each in self._committed]
        return [opened, sorted(self._doomed), committed, self._committed_ns, self._refused_ns]

    def load(self, values: list[Any], continuations: dict[tuple[Any, ...], Transfer]) -> None:
        """Of what `dump` made. `continuations` are those that wait for a receipt: they may wait for COMMIT, too."""
        opened, doomed, committed, self._committed_ns, self._refused_ns = values

        def one(place: list[Any]) -> Transfer:
            return continuations.setdefault(tuple(place[:KIND]), continuation(place))

        self._open = {name: [one(place) for place in sent] for name, sent in opened.items()}
        self._committed = [one(place) for place in committed]
        self._doomed = set(doomed)

"""The frames of a session that take effect later: frames with a receipt, and frames in transactions."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from stomprelay.pipeline.sessions.transfer import ABORTED, ENDED_NS, KIND, RECEIPT_NS, Transfer, continuation

REFUSED: Final = "the transaction cannot be committed"
"""The start of the `message` of the relay's ERROR for a COMMIT of a doomed transaction."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A frame that asked for a receipt, at `ns`. `transfer` is the row of the frame if it is a SEND. `told` has the
    brokers that sent the RECEIPT, `at` is the time (ns) of the first RECEIPT.
    """

    ns: int
    transfer: Transfer | None
    told: list[str | None] = field(default_factory=list)
    at: int | None = None


class PendingReceipts:
    """The frames of one session that wait for a RECEIPT. Iterating yields the rows of SENDs among them. The n-th
    RECEIPT with an id, from each broker, is for the n-th frame with this id. Of several brokers, the first RECEIPT
    counts. A frame is forgotten `give_up` ns after it came, or `linger` ns after its first RECEIPT.
    """

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
        """Record a frame that asks for a receipt, at `ns`. `transfer` is the row of a SEND, None for other frames."""
        self._by_id.setdefault(receipt, deque()).append(_Asked(ns, transfer))

    def given(self, receipt: str, broker: str | None, ns: int, brokers: int) -> Transfer | None:
        """Record a RECEIPT at `ns`. `broker` is its sender, None for the relay; the session has `brokers` brokers. If
        this is the first RECEIPT for a SEND, set the time in the row of the SEND and return this row. Else return None.
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
            if each.at is not None:
                return None
            each.at = ns
            if each.transfer is not None:
                each.transfer[RECEIPT_NS] = ns
            return each.transfer
        return None

    def refused(self, receipt: str) -> None:
        """Drop the oldest frame with this receipt id. An ERROR named this id, so no RECEIPT will come."""
        asked = self._by_id.get(receipt)
        if asked is not None:
            asked.popleft()
            if not asked:
                del self._by_id[receipt]

    def forget(self, now: int) -> None:
        """Drop the frames whose time is over at `now` (ns)."""
        for receipt, asked in list(self._by_id.items()):
            self._expire(receipt, asked, now)

    def _expire(self, receipt: str, asked: deque[_Asked], now: int) -> None:
        for each in [*asked]:
            if now > each.ns + self._give_up or (each.at is not None and now > each.at + self._linger):
                asked.remove(each)
        if not asked:
            self._by_id.pop(receipt, None)

    # From batch to batch

    def dump(self) -> list[Any]:
        """Return the state for `load`, as a list that JSON can hold."""
        return [
            [receipt, each.ns, each.told, each.at, each.transfer and each.transfer[: KIND + 1]]
            for receipt, asked in self._by_id.items()
            for each in asked
        ]

    def load(self, values: list[Any]) -> None:
        """Add the frames that `dump` returned. Rows of SENDs become continuations."""
        for receipt, ns, told, at, place in values:
            self.ask(receipt, ns, None if place is None else continuation(place))
            self._by_id[receipt][-1].told = told
            self._by_id[receipt][-1].at = at


class Transactions:
    """A session's open transactions. Iterating yields the rows of their SENDs. When a transaction ends, `tell` is
    called with the row of each of its SENDs.
    """

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
        """Record a BEGIN of the transaction `name`. If it is open already, nothing changes."""
        self._open.setdefault(name, [])

    def sent(self, name: str, transfer: Transfer) -> None:
        """Record a SEND in the transaction `name`. Open the transaction if its BEGIN was not seen."""
        self._open.setdefault(name, []).append(transfer)

    def doom(self, name: str) -> None:
        """Record that `name` has an ACK or NACK for a lost broker's delivery: the relay will refuse the COMMIT."""
        self._doomed.add(name)

    def commit(self, name: str, ns: int) -> bool:
        """Record a COMMIT at `ns`. Return False if the relay refuses it; then the caller must undo ACKs and NACKs."""
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
        """Record an ABORT at `ns`. `tell` is called with each SEND of the transaction, which is marked as aborted."""
        self._undo(self._open.pop(name, []), ns)
        self._doomed.discard(name)

    def refused(self, ns: int) -> None:
        """Record that the relay refused a COMMIT with an ERROR at `ns`. The SENDs of the last COMMIT count as aborted.
        If another COMMIT follows with the same time, its SENDs count as aborted, too.
        """
        self._refused_ns = ns
        self._undo(self._committed, ns)

    def ended(self, ns: int) -> None:
        """Abort all open transactions: the session ended at `ns`."""
        for sent in self._open.values():
            self._undo(sent, ns)
        self._open.clear()

    def _undo(self, sent: list[Transfer], ns: int) -> None:
        for transfer in sent:
            transfer[ENDED_NS], transfer[ABORTED] = ns, True
            self.tell(transfer)

    # From batch to batch

    def dump(self, since: int) -> list[Any]:
        """Return the state for `load`. The SENDs of the last COMMIT are left out if it came before `since` (ns),
        because the relay can no longer refuse it.
        """
        if self._committed_ns < since:
            self._committed = []
        opened = {name: [each[: KIND + 1] for each in sent] for name, sent in self._open.items()}
        committed = [each[: KIND + 1] for each in self._committed]
        return [opened, sorted(self._doomed), committed, self._committed_ns, self._refused_ns]

    def load(self, values: list[Any], continuations: dict[tuple[Any, ...], Transfer]) -> None:
        """Restore what `dump` returned. `continuations` has, by place, the rows of SENDs that also wait for a RECEIPT.
        Transactions and receipts must use the same row.
        """
        opened, doomed, committed, self._committed_ns, self._refused_ns = values

        def one(place: list[Any]) -> Transfer:
            return continuations.setdefault(tuple(place[:KIND]), continuation(place))

        self._open = {name: [one(place) for place in sent] for name, sent in opened.items()}
        self._committed = [one(place) for place in committed]
        self._doomed = set(doomed)

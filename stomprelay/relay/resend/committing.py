"""Transactions that a broker was sent and whose outcome is not known. Where a broker confirms COMMIT too early
(`Profile.commits_early`), its RECEIPT is held back until those of the transaction's SENDs have come.
"""

from collections.abc import Callable, Iterator

from stomprelay.wire.errors import Refused


def unknown_outcome(receipt: bytes | None) -> Refused:
    """Return the error for a client whose broker was lost after a COMMIT; see `Resender.lost`."""
    return Refused(
        "the outcome of a transaction is unknown", "its broker was lost after COMMIT", receipt=receipt
    )


class _Pending:
    """One transaction. `awaited`: its SENDs' outstanding receipts, with their numbers; `own`: the relay's among them.
    `receipt`: that of its COMMIT, None before. `errors`: their number when it began.
    """

    __slots__ = ("awaited", "errors", "ours", "own", "receipt")

    def __init__(self, errors: int) -> None:
        self.errors = errors
        self.awaited: dict[bytes, int] = {}
        self.own: bytes | None = None
        self.receipt: bytes | None = None
        self.ours = False

    @property
    def client_receipts(self) -> Iterator[bytes]:
        """Those that the client awaits."""
        if self.receipt is not None and not self.ours:
            yield self.receipt
        yield from (receipt for receipt in self.awaited if receipt != self.own)


class Committing:
    """The transactions of one session at one broker. Its length is how much it keeps; `late` is for `take_late`."""

    __slots__ = ("_committed", "_errors", "_held", "_open", "_parts", "late")

    def __init__(self) -> None:
        self._errors = 0
        self._open: dict[bytes, _Pending] = {}
        self._committed: dict[bytes, _Pending] = {}
        self._held: dict[_Pending, None] = {}
        self._parts: dict[bytes, _Pending] = {}
        self.late: list[bytes] = []

    def __len__(self) -> int:
        return len(self._open) + len(self._committed) + len(self._held) + len(self._parts)

    @property
    def safe(self) -> bool:
        """Whether no COMMIT is without its answers."""
        return not self._committed and not self._held

    # What is sent

    def asked(self, name: bytes, receipt: bytes) -> None:
        """A SEND of the client's passes in the transaction `name` that asks for this receipt."""
        pending = self._opened(name)
        # An id that another transaction uses meanwhile cannot be told apart: the COMMIT does without it.
        if self._parts.setdefault(receipt, pending) is pending:
            pending.awaited[receipt] = pending.awaited.get(receipt, 0) + 1

    def ask(self, name: bytes, make: Callable[[], bytes]) -> bytes:
        """Return the receipt id for a SEND in the transaction `name`, which `make` returns once for all of them."""
        pending = self._opened(name)
        if pending.own is None:
            pending.own = make()
        self.asked(name, pending.own)
        return pending.own

    def aborted(self, name: bytes) -> None:
        """An ABORT passes: nothing comes of the transaction's SENDs."""
        pending = self._open.pop(name, None)
        if pending is not None:
            self._release(pending)

    def committed(self, name: bytes | None, receipt: bytes, *, ours: bool) -> None:
        """A COMMIT passes that this receipt will confirm, one of the relay's own or the client's."""
        pending = (None if name is None else self._open.pop(name, None)) or _Pending(self._errors)
        pending.receipt = receipt
        pending.ours = ours
        self._committed[receipt] = pending

    # What is received

    def received(self, receipt: bytes) -> bool:
        """A RECEIPT came. Returns whether it is a COMMIT's that must wait. After each, look at `take_late`."""
        pending = self._committed.pop(receipt, None)
        if pending is None:
            self._part_received(receipt)
        elif pending.awaited and pending.errors == self._errors:
            self._held[pending] = None
            return True
        return False

    def refused(self, receipt: bytes) -> None:
        """An ERROR came that names this receipt: what asked for it is answered for good."""
        pending = self._committed.pop(receipt, None)
        if pending is None:
            self._part_received(receipt)
        else:
            self._release(pending)

    def erred(self) -> None:
        """An ERROR without a receipt came: any SEND may stay unanswered, so COMMIT counts by its own RECEIPT."""
        self._errors += 1
        self._open.clear()
        self._parts.clear()
        self.late += (pending.receipt for pending in self._held if pending.receipt is not None)
        self._held.clear()

    def take_late(self) -> list[bytes]:
        """Return the receipts of COMMITs that were held back and are true since the last call."""
        late, self.late = self.late, []
        return late

    def take_doubts(self) -> list[bytes | None]:
        """Forget all, and return the receipts of unanswered COMMITs (or None), each with its SENDs' receipts."""
        doubts: list[bytes | None] = []
        for pending in (*self._committed.values(), *self._held):
            doubts += [None] if pending.ours else []
            doubts += pending.client_receipts
        self._committed.clear()
        self._held.clear()
        return doubts

    def lost(self) -> list[bytes]:
        """The broker is lost. Returns the receipts that the client awaits and that are now in doubt."""
        self._open.clear()
        self._parts.clear()
        uncertain = (*self._committed.values(), *self._held)
        return [receipt for pending in uncertain for receipt in pending.client_receipts]

    def _opened(self, name: bytes) -> _Pending:
        pending = self._open.get(name)
        if pending is None:
            pending = self._open[name] = _Pending(self._errors)
        return pending

    def _part_received(self, receipt: bytes) -> None:
        pending = self._parts.get(receipt)
        if pending is None:
            return
        pending.awaited[receipt] -= 1
        if not pending.awaited[receipt]:
            del pending.awaited[receipt], self._parts[receipt]
            if pending in self._held and not pending.awaited and pending.receipt is not None:
                del self._held[pending]
                self.late.append(pending.receipt)

    def _release(self, pending: _Pending) -> None:
        """Wait for no SEND of a transaction any more."""
        if pending.errors == self._errors:
            for receipt in pending.awaited:
                del self._parts[receipt]

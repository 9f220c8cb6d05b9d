"""Keeps the frames that a broker was sent and that may not have arrived, so that the next broker can be sent them. They
are in the client's spelling and order. Also keeps the receipts that the client is owed.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Final, NamedTuple

from stomprelay.relay.bridge import RECEIPTS
from stomprelay.session.delivery import THING
from stomprelay.wire.errors import Refused
from stomprelay.wire.run import Run

UNCONFIRMED: Final = "its broker did not confirm it in time"


def unknown_outcome(receipt: bytes | None, why: str = "its broker was lost after COMMIT") -> Refused:
    """Return the error for a client about a COMMIT that no broker has confirmed; see `Resender.lost`."""
    return Refused("the outcome of a transaction is unknown", why, receipt=receipt)


@dataclass(slots=True, eq=False, repr=False)
class _Pending:
    """One transaction. `awaited`: the receipts that its SENDs still await; each has the number of SENDs that await it.
    `own`: the receipt in `awaited` that the relay made. `receipt`: the receipt of COMMIT; None before COMMIT. `errors`:
    how many ERRORs had come when the transaction began.
    """

    errors: int
    awaited: dict[bytes, int] = field(default_factory=dict)
    own: bytes | None = None
    receipt: bytes | None = None
    ours: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Committing:
    """The transactions that a broker was sent and whose outcome is not known. If the broker confirms COMMIT too early
    (`Profile.commits_early`), the RECEIPT for COMMIT is held back until the RECEIPTs of the transaction's SENDs have
    come. `late`: the receipts for `take_late`.
    """

    late: list[bytes] = field(default_factory=list)
    _errors: int = 0
    _open: dict[bytes, _Pending] = field(default_factory=dict)
    _committed: dict[bytes, _Pending] = field(default_factory=dict)
    _held: dict[_Pending, None] = field(default_factory=dict)
    _parts: dict[bytes, _Pending] = field(default_factory=dict)
    _marked: tuple[_Pending, ...] = ()

    @property
    def safe(self) -> bool:
        """Whether each COMMIT is answered, and the SENDs of its transaction, too."""
        return not self._committed and not self._held

    # What is sent

    def asked(self, name: bytes, receipt: bytes) -> None:
        """Record that a SEND of the client in the transaction `name` asks for this receipt."""
        pending = self._opened(name)
        # If two transactions use the same receipt id, the COMMIT of the second one does not wait for this receipt.
        if self._parts.setdefault(receipt, pending) is pending:
            pending.awaited[receipt] = pending.awaited.get(receipt, 0) + 1

    def ask(self, name: bytes, make: Callable[[], bytes]) -> bytes:
        """Return the relay's receipt id for SENDs in this transaction. The first call gets the id from `make`."""
        pending = self._opened(name)
        if pending.own is None:
            pending.own = make()
        self.asked(name, pending.own)
        return pending.own

    def aborted(self, name: bytes) -> Iterable[bytes]:
        """Record an ABORT: the transaction's SENDs have no effect. Return the receipts that no broker will give."""
        pending = self._open.pop(name, None)
        if pending is None:
            return ()
        self._release(pending)
        return pending.awaited

    def committed(self, name: bytes | None, receipt: bytes, *, ours: bool) -> None:
        """Record a COMMIT, which this receipt will confirm. `ours`: the receipt is the relay's, not the client's."""
        pending = (None if name is None else self._open.pop(name, None)) or _Pending(self._errors)
        pending.receipt = receipt
        pending.ours = ours
        self._committed[receipt] = pending

    # What is received

    def received(self, receipt: bytes) -> bool:
        """Record a RECEIPT. Return whether it is for a COMMIT and must be held back. Then call `take_late`."""
        pending = self._committed.pop(receipt, None)
        if pending is None:
            self._part_received(receipt)
        elif pending.awaited and pending.errors == self._errors:
            self._held[pending] = None
            return True
        return False

    def refused(self, receipt: bytes) -> None:
        """Record an ERROR that names this receipt. The frame that asked for the receipt gets no other answer."""
        pending = self._committed.pop(receipt, None)
        if pending is None:
            self._part_received(receipt)
        else:
            self._release(pending)

    def erred(self) -> None:
        """Record an ERROR without a receipt: any SEND may stay unanswered, so COMMIT awaits only its own RECEIPT."""
        self._errors += 1
        self._open.clear()
        self._parts.clear()
        self.late += (pending.receipt for pending in self._held if pending.receipt is not None)
        self._held.clear()

    def take_late(self) -> list[bytes]:
        """Return the receipts of COMMITs that were held back and may be given now. Each is returned once."""
        late, self.late = self.late, []
        return late

    def lost(self) -> list[bytes | None]:
        """The broker is lost: forget all transactions. Return the receipts in doubt. For each unanswered COMMIT these
        are its own receipt (None if the client asked for none), and the receipts that the client awaits for SENDs of
        the transaction.
        """
        doubts = self._doubts(self._unanswered) if self._committed or self._held else []
        for each in (self._open, self._committed, self._held, self._parts):
            each.clear()
        return doubts

    def mark(self) -> None:
        """Remember which COMMITs are not answered now, for `overdue`."""
        self._marked = self._unanswered

    def overdue(self) -> list[bytes | None]:
        """Forget the COMMITs that were not answered at the last `mark` and still are not. Return receipts as `lost`."""
        overdue = tuple([pending for pending in self._marked if pending in self._unanswered])
        doubts = self._doubts(overdue)
        for pending in overdue:
            self._held.pop(pending, None)
            if pending.receipt is not None and self._committed.get(pending.receipt) is pending:
                del self._committed[pending.receipt]
            self._release(pending)
        return doubts

    @property
    def _unanswered(self) -> tuple[_Pending, ...]:
        return (*self._committed.values(), *self._held)

    @staticmethod
    def _doubts(unanswered: tuple[_Pending, ...]) -> list[bytes | None]:
        doubts: list[bytes | None] = []
        for pending in unanswered:
            doubts.append(None if pending.ours else pending.receipt)
            doubts += (receipt for receipt in pending.awaited if receipt != pending.own)
        return doubts

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
        """Await no receipts of this transaction's SENDs any more."""
        if pending.errors == self._errors:
            for receipt in pending.awaited:
                del self._parts[receipt]


class Kept(NamedTuple):
    """Frames back to back: SENDs that one `receipt` confirms, or a whole transaction that no broker was sent yet.
    `sent`: the frames were sent before, so sending them again may make duplicates. `sends`: the number of SENDs.
    """

    wire: bytes
    receipt: bytes
    sent: bool
    sends: int = 1


class _Row(NamedTuple):
    """Kept entries back to back in `wire`, from `start`. Each has an end in `ends`, a receipt, and `sends` SENDs."""

    wire: bytes
    receipts: list[bytes]
    start: int
    ends: Sequence[int]
    sent: bool
    sends: int

    def kept(self, first: int) -> Iterator[Kept]:
        """Yield the entries of the row one by one, from number `first` on."""
        at = self.ends[first - 1] if first else self.start
        for receipt, end in zip(self.receipts[first:], self.ends[first:], strict=True):
            yield Kept(self.wire[at - self.start : end - self.start], receipt, self.sent, self.sends)
            at = end


_NO_ROWS: Final[deque[_Row]] = deque(maxlen=0)
_NONE_ASIDE: Final[deque[Kept]] = deque(maxlen=0)
"""Shared by many sessions: an empty deque takes three quarters of a kilobyte, and many sessions keep nothing."""


@dataclass(slots=True, eq=False, repr=False)
class Unconfirmed:
    """What the brokers of one session in one group have not confirmed. `name` is the session's. At `most` bytes the
    client is not read from, until half of them are confirmed.

    `size`: the kept bytes. `sends`: the kept SENDs. `unproved`: how many SENDs without a receipt were sent since the
    last RECEIPT. `given`: receipts for `take_given`. `owed_receipts`: receipts that the client awaits. `aside`: entries
    that `take` returned and that still have to be sent. New entries stand in rows; the first entry waits for the next
    receipt. A receipt out of order splits the rows into entries (`_kept`).
    """

    name: InitVar[bytes]
    most: int
    cumulative: bool = False
    commits_early: bool = False
    size: int = 0
    sends: int = 0
    unproved: int = 0
    _unkept: int = 0  # all SENDs that were not kept
    _covers: dict[bytes, int] = field(default_factory=dict)  # how many of these a receipt covers
    committing: Committing = field(default_factory=Committing)
    given: list[bytes] = field(default_factory=list)
    _name: bytes = b""
    _asked: int = 0
    _number: int = 0
    # To find its first entry, a plain dict goes through all entries that were deleted before it.
    _kept: OrderedDict[int, Kept] = field(default_factory=OrderedDict)
    _rows: deque[_Row] = field(init=False)  # all of them behind what is in `_kept`
    _done: int = 0  # of the first row
    _waiting: int = 0  # in all rows
    aside: deque[Kept] = field(init=False)
    _latest: bytes | None = None
    _marked: int = 0
    _by_receipt: dict[bytes, int | deque[int]] = field(default_factory=dict)
    owed_receipts: dict[bytes, int] = field(default_factory=dict)
    _owed_size: int = 0

    def __post_init__(self, name: bytes) -> None:
        self._name = name + RECEIPTS
        self._rows, self.aside = _NO_ROWS, _NONE_ASIDE

    @property
    def cost(self) -> int:
        """The number of bytes that the unconfirmed frames cost, including receipt ids."""
        things = len(self._kept) + self._waiting + len(self.aside) + len(self.owed_receipts)
        of = self.committing
        things += len(of._open) + len(of._committed) + len(of._held) + len(of._parts)
        return self.size + self._owed_size + THING * things

    @property
    def safe(self) -> bool:
        """Whether everything that must reach a broker is known to have reached a broker."""
        return not self._kept and not self._rows and not self.aside and self.committing.safe

    # What is sent

    def ask(self) -> bytes:
        """Return a new receipt id of the relay's own."""
        self._asked += 1
        return self._name + b"%d" % self._asked

    def ask_each(self, count: int) -> list[bytes]:
        """Return so many new receipt ids of the relay's own."""
        first = self._asked + 1
        self._asked += count
        line = self._name.replace(b"%", b"%%") + b"%d\n"
        return (line * count % tuple(range(first, first + count))).splitlines()

    def is_ours(self, receipt: bytes | None) -> bool:
        """Whether a receipt id was made by `ask`."""
        return receipt is not None and receipt.startswith(self._name)

    def owe(self, receipt: bytes) -> None:
        """Record that the client asked for this receipt, so that it must be sent the receipt once."""
        self.cover(receipt)
        owed = self.owed_receipts.get(receipt, 0)
        self._owed_size += 0 if owed else len(receipt)
        self.owed_receipts[receipt] = owed + 1

    def owes(self, receipt: bytes) -> bool:
        """Whether the client still awaits this receipt."""
        return receipt in self.owed_receipts

    def pass_unkept(self, sends: int = 1) -> None:
        """Count SENDs that are sent without a receipt. They are not kept."""
        self.unproved += sends
        self._unkept += sends

    def cover(self, receipt: bytes) -> None:
        """A frame asks for this receipt, which will show that the broker has all SENDs before it."""
        if self.unproved:
            self._covers[receipt] = self._unkept

    def keep(self, wire: bytes, receipt: bytes, *, sent: bool = True, sends: int = 1) -> None:
        """Keep frames that have `sends` SENDs, until `receipt` confirms them. `sent`: a broker was sent the frames."""
        self.cover(receipt)
        self._append(_Row(wire, [receipt], 0, (len(wire),), sent, sends))

    def keep_run(self, run: Run, receipts: list[bytes]) -> None:
        """Keep a run of SENDs. Each has its receipt at the same index. The run's rule must want `parts`."""
        self._append(_Row(run.wire, receipts, run.start, run.ends, True, 1))

    def _append(self, row: _Row) -> None:
        if self._rows is _NO_ROWS:
            self._rows = deque()
        self._rows.append(row)
        self._latest = row.receipts[-1]
        self._waiting += len(row.receipts)
        self.size += len(row.wire)
        self.sends += row.sends * len(row.receipts)

    def _unfold(self) -> None:
        """Split the rows into entries, so that each entry can be found by its receipt."""
        for row in self._rows:
            for kept in row.kept(self._done):
                self._number += 1
                self._kept[self._number] = kept
                earlier = self._by_receipt.setdefault(kept.receipt, self._number)
                if isinstance(earlier, deque):
                    earlier.append(self._number)
                elif earlier != self._number:
                    self._by_receipt[kept.receipt] = deque((earlier, self._number))
            self._done = 0
        self._rows = _NO_ROWS
        self._waiting = 0

    def commit(self, receipt: bytes, *, ours: bool, name: bytes | None = None) -> None:
        """Record a COMMIT of the transaction `name`. Its outcome is unknown until this receipt confirms it."""
        self.cover(receipt)
        self.committing.committed(name, receipt, ours=ours)
        self._latest = receipt

    def take_latest(self) -> bytes | None:
        """Return the newest receipt that `keep`, `keep_run` or `commit` recorded since the last call, or None."""
        latest, self._latest = self._latest, None
        return latest

    # What is received

    def received(self, receipt: bytes) -> bool:
        """Record a RECEIPT. Return whether it passes to the client. Then give the client what `take_late` returns."""
        self.unproved = min(self.unproved, self._unkept - self._covers.get(receipt, 0))
        if self._comes_next(receipt):
            self._confirm(1)
        elif (number := self._first(receipt)) is not None:
            while self.cumulative and (first := next(iter(self._kept))) != number:
                self._forget(first)
            self._forget(number)
        if self.committing.received(receipt):
            return False
        return self.settle(receipt)

    def received_all(self, receipts: list[bytes]) -> bool:
        """Record RECEIPTs if all are the relay's own, in order. If not, return False: call `received` for each."""
        if not (
            self.owed_receipts.keys().isdisjoint(receipts) and self._by_receipt.keys().isdisjoint(receipts)
        ):
            return False
        counts: list[int] = []
        done, at = self._done, 0
        for row in self._rows:
            awaited = row.receipts[done : done + len(receipts) - at]
            if awaited != receipts[at : at + len(awaited)]:
                return False
            counts.append(len(awaited))
            done, at = 0, at + len(awaited)
            if at == len(receipts):
                break
        else:
            return False
        for count in counts:
            self._confirm(count)
        return True

    def refused(self, receipt: bytes) -> None:
        """Record an ERROR that names this receipt. The frame that asked for the receipt gets no other answer."""
        if self._comes_next(receipt):
            self._done_with(1)
        elif (number := self._first(receipt)) is not None:
            self._forget(number)
        self.committing.refused(receipt)
        self.settle(receipt)

    def mark(self) -> None:
        """Remember what is unconfirmed now, for `overdue` and `Committing.overdue`."""
        self._unfold()
        self._marked = self._number
        self.committing.mark()

    def overdue(self) -> list[Kept]:
        """Return the entries that were unconfirmed at the last `mark` and still are."""
        return [kept for number, kept in self._kept.items() if number <= self._marked]

    def take_late(self) -> list[bytes]:
        """Return the receipts that were held back and may be given now, each once. Give them to the client."""
        return [receipt for receipt in self.committing.take_late() if self.settle(receipt)]

    def settle(self, receipt: bytes) -> bool:
        """Record that the client is sent this receipt, or an ERROR instead. Return whether the receipt was owed."""
        self._covers.pop(receipt, None)
        owed = self.owed_receipts.get(receipt)
        if owed is None:
            return False
        if owed == 1:
            del self.owed_receipts[receipt]
            self._owed_size -= len(receipt)
        else:
            self.owed_receipts[receipt] = owed - 1
        return True

    def _comes_next(self, receipt: bytes) -> bool:
        """Whether the first entry of the rows awaits this receipt, and no earlier entry does."""
        if not self._rows or self._rows[0].receipts[self._done] != receipt:
            return False
        return receipt not in self._by_receipt

    def _confirm(self, count: int) -> None:
        """Record that so many entries of the first row are confirmed."""
        while self.cumulative and self._kept:
            self._forget(next(iter(self._kept)))
        self._done_with(count)

    def _done_with(self, count: int) -> None:
        """Forget so many entries of the first row."""
        row, before = self._rows[0], self._done
        self._done += count
        self._waiting -= count
        self.size -= row.ends[self._done - 1] - (row.ends[before - 1] if before else row.start)
        self.sends -= count * row.sends
        if self._done == len(row.receipts):
            self._rows.popleft()
            self._done = 0

    def _first(self, receipt: bytes) -> int | None:
        """Return the number in `_kept` of the first entry that this receipt confirms; None if there is none."""
        numbers = self._by_receipt.get(receipt)
        if numbers is None and self._rows:
            self._unfold()
            numbers = self._by_receipt.get(receipt)
        return numbers[0] if isinstance(numbers, deque) else numbers

    def _forget(self, number: int) -> None:
        """Forget this entry of `_kept`, which is the first one with its receipt."""
        kept = self._kept.pop(number)
        self.size -= len(kept.wire)
        self.sends -= kept.sends
        numbers = self._by_receipt[kept.receipt]
        if isinstance(numbers, deque) and len(numbers) > 1:
            numbers.popleft()
        else:
            del self._by_receipt[kept.receipt]

    # Receipts that the relay gives

    def take_given(self) -> list[bytes]:
        """Return the new receipts that the relay must give, in order. Give them to the client."""
        given, self.given = self.given, []
        return given

    # The broker is lost

    def lost(self, again: Iterable[bytes]) -> list[bytes | None]:
        """The broker is lost. Add to `given` the receipts of frames that no other broker needs, such as UNSUBSCRIBE or
        ACK. These are all owed receipts, except those of kept frames, those in doubt, and those in `again`. Return the
        receipts in doubt, see `Committing.lost`.
        """
        self.unproved = 0
        self._covers.clear()
        for kept in self.aside:
            self.size -= len(kept.wire)
            self.sends -= kept.sends
            self.keep(kept.wire, kept.receipt, sent=kept.sent, sends=kept.sends)
        self.aside = _NONE_ASIDE
        if self._rows:
            self._unfold()
        doubts = self.committing.lost()
        if doubts:
            self.doubt(doubts)
        if self.owed_receipts:
            asked = Counter(again)
            asked.update(kept.receipt for kept in self._kept.values())
            for receipt in [*(Counter(self.owed_receipts) - asked).elements()]:
                self.settle(receipt)
                self.given.append(receipt)
        return doubts

    def doubt(self, doubts: list[bytes | None]) -> None:
        """Owe these receipts no more, see `Committing.lost`: the client gets an ERROR in their place."""
        for receipt in doubts:
            if receipt is not None:
                self.settle(receipt)

    def take(self) -> list[Kept]:
        """Forget and return what the new broker must be sent, in the old order. After sending an entry, keep it."""
        if self._rows:
            self._unfold()
        taken = list(self._kept.values())
        self._kept.clear()
        self._by_receipt.clear()
        self.size = self.sends = 0
        return taken

    def write_off(self) -> None:
        """Forget all that is kept, because no broker will be sent it."""
        self.take()
        self.aside = _NONE_ASIDE
        self.unproved = 0

    def set_aside(self, kept: Sequence[Kept], *, first: bool = False) -> None:
        """Keep entries from `take` in `aside` until they are sent: in front if `first` is True, else at the end."""
        if self.aside is _NONE_ASIDE and kept:
            self.aside = deque(kept)
        elif first:
            self.aside.extendleft(reversed(kept))
        else:
            self.aside.extend(kept)
        self.size += sum(len(each.wire) for each in kept)
        self.sends += sum(each.sends for each in kept)

    def take_aside(self) -> Kept:
        """Forget and return the first entry that was set aside. Keep it again when it is sent."""
        kept = self.aside.popleft()
        self.size -= len(kept.wire)
        self.sends -= kept.sends
        return kept

"""What was sent to a broker and may not have arrived, in the client's spelling and order, so that a new broker can be
sent it again; and which receipts the client is owed.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stomprelay.relay.bridge.bridge import RECEIPTS
from stomprelay.relay.resend.committing import Committing
from stomprelay.session.delivery import THING
from stomprelay.wire.run import Run


class Kept(NamedTuple):
    """Frames back to back: SENDs that one `receipt` confirms, or a whole transaction that no broker was sent. `sent`:
    sending it again may make a duplicate. `sends`: SENDs among them.
    """

    wire: bytes
    receipt: bytes
    sent: bool
    sends: int = 1


class _Row(NamedTuple):
    """Things back to back in `wire`, from `start`: each has its place in `ends`, its receipt and `sends` SENDs."""

    wire: bytes
    receipts: list[bytes]
    start: int
    ends: Sequence[int]
    sent: bool
    sends: int

    def kept(self, first: int) -> Iterator[Kept]:
        """Return its things one by one, from the `first` on."""
        at = self.ends[first - 1] if first else self.start
        for receipt, end in zip(self.receipts[first:], self.ends[first:], strict=True):
            yield Kept(self.wire[at - self.start : end - self.start], receipt, self.sent, self.sends)
            at = end


_NO_ROWS: Final[deque[_Row]] = deque(maxlen=0)
_NONE_ASIDE: Final[deque[Kept]] = deque(maxlen=0)
"""An empty deque has three quarters of a kilobyte; many sessions never keep anything."""


class Unconfirmed:
    """The unconfirmed of one session in one group. `name` is the session's. With `most` bytes it is `full`: stop
    reading from the client until it is not `crowded`.

    `size`: bytes. `sends`: SENDs. `unproved`: SENDs that are not kept and that no later RECEIPT covers. `given`:
    receipts for `take_given`. New things stand in rows, the first of which waits for the next receipt; a receipt out of
    order takes the rows apart.
    """

    __slots__ = (
        "_aside",
        "_asked",
        "_by_receipt",
        "_commits_early",
        "_done",
        "_kept",
        "_latest",
        "_most",
        "_name",
        "_number",
        "_owed",
        "_owed_size",
        "_rows",
        "_waiting",
        "committing",
        "cumulative",
        "given",
        "sends",
        "size",
        "unproved",
    )

    def __init__(self, name: bytes, most: int) -> None:
        self.cumulative = False
        self.size = 0
        self.sends = 0
        self.unproved = 0
        self._name = name + RECEIPTS
        self._most = most
        self._asked = 0
        self._number = 0
        # Ordered: a plain dict goes through all that was deleted in front of its first.
        self._kept: OrderedDict[int, Kept] = OrderedDict()
        self._rows = _NO_ROWS  # all of them behind what is in `_kept`
        self._done = 0  # of the first row
        self._waiting = 0  # in all rows
        self._aside = _NONE_ASIDE
        self._latest: bytes | None = None
        self._by_receipt: dict[bytes, int | deque[int]] = {}
        self._owed: dict[bytes, int] = {}
        self._owed_size = 0
        self._commits_early = False
        self.committing = Committing()
        self.given: list[bytes] = []

    def __len__(self) -> int:
        return len(self._kept) + self._waiting + len(self._aside)

    @property
    def cost(self) -> int:
        """The number of bytes that all of it costs, receipt ids included."""
        things = len(self._kept) + self._waiting + len(self._aside) + len(self._owed) + len(self.committing)
        return self.size + self._owed_size + THING * things

    @property
    def full(self) -> bool:
        """Whether as much is kept as may be."""
        return self.size >= self._most

    @property
    def crowded(self) -> bool:
        """Whether more than half of what may be is kept."""
        return self.size * 2 > self._most

    @property
    def quiet(self) -> bool:
        """Whether no RECEIPT of the broker is outstanding."""
        return self.safe and not self._owed

    @property
    def safe(self) -> bool:
        """Whether nothing that must reach a broker is uncertain to have done so."""
        return not self._kept and not self._rows and not self._aside and self.committing.safe

    # What is sent

    def connected(self, *, cumulative: bool, commits_early: bool = False) -> None:
        """There is a broker. `cumulative` and `commits_early` are its profile's."""
        self.cumulative = cumulative
        self._commits_early = commits_early

    def ask(self) -> bytes:
        """Return a receipt id of the relay's own that was never given before."""
        self._asked += 1
        return self._name + b"%d" % self._asked

    def ask_each(self, count: int) -> list[bytes]:
        """Return so many of them."""
        first = self._asked + 1
        self._asked += count
        line = self._name.replace(b"%", b"%%") + b"%d\n"
        return (line * count % tuple(range(first, first + count))).splitlines()

    def is_ours(self, receipt: bytes | None) -> bool:
        """Whether a receipt id was made by `ask`."""
        return receipt is not None and receipt.startswith(self._name)

    def owe(self, receipt: bytes) -> None:
        """Record that the client asked for this receipt and has to be sent it once."""
        owed = self._owed.get(receipt, 0)
        self._owed_size += 0 if owed else len(receipt)
        self._owed[receipt] = owed + 1

    def owes(self, receipt: bytes) -> bool:
        """Whether the client still awaits this receipt."""
        return receipt in self._owed

    def proved(self) -> None:
        """The broker has received all that it was sent."""
        self.unproved = 0

    def pass_unkept(self, sends: int = 1) -> None:
        """Count SENDs that are sent without a receipt, so that they are not kept."""
        self.unproved += sends

    def keep(self, wire: bytes, receipt: bytes, *, sent: bool = True, sends: int = 1) -> None:
        """Frames pass, or wait for a broker (not `sent`), that `receipt` will confirm; so many are SENDs."""
        self._append(_Row(wire, [receipt], 0, (len(wire),), sent, sends))

    def keep_run(self, run: Run, receipts: list[bytes]) -> None:
        """A run of SENDs passes, each of which the receipt at its place will confirm; its rule has to want `parts`."""
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
        """Take apart what stands in rows: each thing is found by its receipt then."""
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

    def pass_inside(self, name: bytes, receipt: bytes | None, *, confirm: bool) -> bytes | None:
        """A SEND passes in the transaction `name`, with this receipt. Returns the relay's own that it must ask for."""
        if self._commits_early and receipt is not None:
            self.committing.asked(name, receipt)
        elif self._commits_early and confirm:
            return self.committing.ask(name, self.ask)
        return None

    def commit(self, receipt: bytes, *, ours: bool, name: bytes | None = None) -> None:
        """A COMMIT of the transaction `name` passes. Until this receipt confirms it, its outcome is unknown."""
        self.committing.committed(name, receipt, ours=ours)
        self._latest = receipt

    def take_latest(self) -> bytes | None:
        """Return the receipt that confirms what was kept, or committed, last since the last call; None for nothing."""
        latest, self._latest = self._latest, None
        return latest

    # What is received

    def received(self, receipt: bytes) -> bool:
        """A RECEIPT came. Returns whether it passes to the client. Then give the client those of `take_late`."""
        self.unproved = 0
        if self._comes_next(receipt):
            self._confirm(1)
        elif (number := self._first(receipt)) is not None:
            while self.cumulative and (first := next(iter(self._kept))) != number:
                self._forget(first)
            self._forget(number)
        if self.committing.received(receipt):
            return False
        return self._settle(receipt)

    def received_all(self, receipts: list[bytes]) -> bool:
        """Return whether RECEIPTs are the relay's next, and recorded; otherwise call `received` with each."""
        if not (self._owed.keys().isdisjoint(receipts) and self._by_receipt.keys().isdisjoint(receipts)):
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
        self.unproved = 0
        for count in counts:
            self._confirm(count)
        return True

    def refused(self, receipt: bytes) -> None:
        """An ERROR came that names this receipt: what asked for it is answered for good."""
        if self._comes_next(receipt):
            self._done_with(1)
        elif (number := self._first(receipt)) is not None:
            self._forget(number)
        self.committing.refused(receipt)
        self._settle(receipt)

    def take_late(self) -> list[bytes]:
        """Return the receipts that came and were held back until now, since the last call; give them to the client."""
        return [receipt for receipt in self.committing.take_late() if self._settle(receipt)]

    def renounce(self, receipt: bytes) -> None:
        """No broker will be sent what asks for this receipt, and the client is sent an ERROR in its place."""
        self._settle(receipt)

    def _settle(self, receipt: bytes) -> bool:
        owed = self._owed.get(receipt)
        if owed is None:
            return False
        if owed == 1:
            del self._owed[receipt]
            self._owed_size -= len(receipt)
        else:
            self._owed[receipt] = owed - 1
        return True

    def _comes_next(self, receipt: bytes) -> bool:
        """Whether the first of the rows waits for this receipt, and nothing before it does."""
        if not self._rows or self._rows[0].receipts[self._done] != receipt:
            return False
        return receipt not in self._by_receipt

    def _confirm(self, count: int) -> None:
        """So many things of the first row are confirmed."""
        while self.cumulative and self._kept:
            self._forget(next(iter(self._kept)))
        self._done_with(count)

    def _done_with(self, count: int) -> None:
        """Keep no longer so many things of the first row."""
        row, before = self._rows[0], self._done
        self._done += count
        self._waiting -= count
        self.size -= row.ends[self._done - 1] - (row.ends[before - 1] if before else row.start)
        self.sends -= count * row.sends
        if self._done == len(row.receipts):
            self._rows.popleft()
            self._done = 0

    def _first(self, receipt: bytes) -> int | None:
        """Return the number of the first that this receipt will confirm, which is in no row then."""
        numbers = self._by_receipt.get(receipt)
        if numbers is None and self._rows:
            self._unfold()
            numbers = self._by_receipt.get(receipt)
        return numbers[0] if isinstance(numbers, deque) else numbers

    def _forget(self, number: int) -> None:
        """Keep no longer what is the first of its receipt."""
        kept = self._kept.pop(number)
        self.size -= len(kept.wire)
        self.sends -= kept.sends
        numbers = self._by_receipt[kept.receipt]
        if isinstance(numbers, deque) and len(numbers) > 1:
            numbers.popleft()
        else:
            del self._by_receipt[kept.receipt]

    # Receipts that the relay gives

    def give(self, receipt: bytes) -> None:
        """No broker will be sent what asks for this receipt: the relay gives it in a broker's place."""
        self.given.append(receipt)

    def take_given(self) -> list[bytes]:
        """Return the receipts that the relay has to give since the last call, in order; give them to the client."""
        given, self.given = self.given, []
        return given

    # What a loss means

    def lost(self, again: Iterable[bytes]) -> list[bytes]:
        """The broker is lost. Returns the receipts that the relay gives in its place: all but those of kept frames and
        `again`, because an UNSUBSCRIBE or ACK needs no other broker.
        """
        self.unproved = 0
        for kept in self._aside:
            self.size -= len(kept.wire)
            self.sends -= kept.sends
            self.keep(kept.wire, kept.receipt, sent=kept.sent, sends=kept.sends)
        self._aside = _NONE_ASIDE
        self._unfold()
        asked = Counter(again)
        asked.update(kept.receipt for kept in self._kept.values())
        asked.update(self.committing.lost())
        given = list((Counter(self._owed) - asked).elements())
        for receipt in given:
            self._settle(receipt)
            self.give(receipt)
        return given

    def take_doubts(self) -> list[bytes | None]:
        """Return once the receipts of unanswered COMMITs (None: without), each with those asked for in it."""
        return self.committing.take_doubts()

    def take(self) -> list[Kept]:
        """Return what has to be sent to the new broker, in the old order. It is forgotten: keep it as it is sent."""
        self._unfold()
        taken = list(self._kept.values())
        self._kept.clear()
        self._by_receipt.clear()
        self.size = self.sends = 0
        return taken

    def write_off(self) -> None:
        """Forget all that is kept: no broker will be sent it."""
        self.take()
        self._aside = _NONE_ASIDE
        self.unproved = 0

    def set_aside(self, kept: Sequence[Kept], *, first: bool = False) -> None:
        """Keep what `take` returned until it is sent, a part at a time: see `aside`. It comes last, or `first`."""
        if self._aside is _NONE_ASIDE and kept:
            self._aside = deque(kept)
        elif first:
            self._aside.extendleft(reversed(kept))
        else:
            self._aside.extend(kept)
        self.size += sum(len(each.wire) for each in kept)
        self.sends += sum(each.sends for each in kept)

    @property
    def aside(self) -> Kept | None:
        """The first part that was set aside; None where there is none."""
        return self._aside[0] if self._aside else None

    def take_aside(self) -> Kept:
        """Return the first part that was set aside. It is forgotten: keep it as it is sent."""
        kept = self._aside.popleft()
        self.size -= len(kept.wire)
        self.sends -= kept.sends
        return kept

"""What was said to a broker and may not have arrived, in the order in which it was said.

A broker that is lost takes with it whatever it had not confirmed. The unconfirmed keeps such frames, as their client
spelled them, until a RECEIPT tells that they are safe; a new broker is told them again. It also knows which receipts
the client is owed, so that each reaches it once however often its frame was said.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

RECEIPTS: Final = b"-receipt-"
"""In the middle of the relay's own receipt ids, between the session's name and a number."""


class Kept(NamedTuple):
    """Frames of a client, back to back: SENDs that one RECEIPT confirms, or a transaction from BEGIN to COMMIT that no
    broker was told of. `receipt` is the id of that RECEIPT. `said` tells that a broker was told already, so that
    saying it again may make a duplicate.
    """

    wire: bytes
    receipt: bytes
    said: bool


class Unconfirmed:
    """The unconfirmed of one session in one group. `name` is the session's, `most` how many octets may be kept
    before it is `full`: then stop reading from the client until it is not `crowded` any more.

    `cumulative` tells that the broker confirms with a SEND all those before it. `unproved` counts the SENDs that were
    said, are not kept, and that no later RECEIPT showed to have been received (STOMP 1.2, "RECEIPT": it is
    cumulative as far as receiving goes).
    """

    __slots__ = (
        "_asked",
        "_by_receipt",
        "_committing",
        "_kept",
        "_most",
        "_name",
        "_number",
        "_owed",
        "cumulative",
        "octets",
        "unproved",
    )

    def __init__(self, name: bytes, most: int) -> None:
        self.cumulative = False
        self.octets = 0
        self.unproved = 0
        self._name = name + RECEIPTS
        self._most = most
        self._asked = 0
        self._number = 0
        self._kept: dict[int, Kept] = {}
        self._by_receipt: dict[bytes, list[int]] = {}
        self._owed: dict[bytes, int] = {}
        self._committing: dict[bytes, bool] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def full(self) -> bool:
        """Whether as much is kept as may be."""
        return self.octets >= self._most

    @property
    def crowded(self) -> bool:
        """Whether more than half of what may be is kept."""
        return self.octets * 2 > self._most

    @property
    def quiet(self) -> bool:
        """Whether no answer of the broker is outstanding."""
        return not self._kept and not self._committing and not self._owed

    @property
    def safe(self) -> bool:
        """Whether nothing that must reach a broker is uncertain to have done so."""
        return not self._kept and not self._committing

    # What is said

    def ask(self) -> bytes:
        """A receipt id of our own, never given before."""
        self._asked += 1
        return self._name + b"%d" % self._asked

    def mine(self, receipt: bytes | None) -> bool:
        """Whether a receipt id is of our own making."""
        return receipt is not None and receipt.startswith(self._name)

    def owe(self, receipt: bytes) -> None:
        """A frame passes whose client asked for a receipt."""
        self._owed[receipt] = self._owed.get(receipt, 0) + 1

    def keep(self, wire: bytes, receipt: bytes, *, said: bool = True) -> None:
        """Frames pass, or wait for a broker (not `said`), that `receipt` will confirm."""
        self._number += 1
        self._kept[self._number] = Kept(wire, receipt, said)
        self._by_receipt.setdefault(receipt, []).append(self._number)
        self.octets += len(wire)

    def commit(self, receipt: bytes, *, ours: bool) -> None:
        """A COMMIT passes that this receipt will confirm; until then nobody knows what became of it."""
        self._committing[receipt] = ours

    # What is answered

    def received(self, receipt: bytes) -> bool:
        """A RECEIPT came. Answers whether it is the client's: asked for by it, and not given before."""
        self.unproved = 0
        numbers = self._by_receipt.get(receipt)
        if numbers is not None:
            number = numbers[0]
            if self.cumulative:
                while (first := next(iter(self._kept))) != number:
                    self._forget(first)
            self._forget(number)
        self._committing.pop(receipt, None)
        return self._paid(receipt)

    def refused(self, receipt: bytes) -> None:
        """An ERROR came that names this receipt: what asked for it is answered for good."""
        numbers = self._by_receipt.get(receipt)
        if numbers is not None:
            self._forget(numbers[0])
        self._committing.pop(receipt, None)
        self._paid(receipt)

    def _paid(self, receipt: bytes) -> bool:
        owed = self._owed.get(receipt)
        if owed is None:
            return False
        if owed == 1:
            del self._owed[receipt]
        else:
            self._owed[receipt] = owed - 1
        return True

    def _forget(self, number: int) -> None:
        kept = self._kept.pop(number)
        self.octets -= len(kept.wire)
        numbers = self._by_receipt[kept.receipt]
        numbers.remove(number)
        if not numbers:
            del self._by_receipt[kept.receipt]

    def owes(self, receipt: bytes) -> bool:
        """Whether the client still awaits this receipt."""
        return receipt in self._owed

    # What a loss means

    def lost(self, again: Iterable[bytes]) -> list[bytes]:
        """The broker is gone; `again` are the receipts that the next one will be asked for, beside those of what is
        kept. Answers the others that the client is owed, which the relay gives in the broker's place: their frames
        have no effect left to wait for, as an UNSUBSCRIBE or the ACK of a message that nobody awaits it for.
        """
        asked = Counter(again)
        asked.update(kept.receipt for kept in self._kept.values())
        asked.update(self._committing.keys())
        given = list((Counter(self._owed) - asked).elements())
        for receipt in given:
            self._paid(receipt)
        return given

    @property
    def doubts(self) -> list[bytes]:
        """The receipts of all COMMITs that were said and not answered; see `doubted`."""
        return list(self._committing)

    def doubted(self) -> tuple[bytes | None] | None:
        """Whether a COMMIT was said and not answered: the receipt that its client asked for with it, if any. It is
        never said again, and this is told once.
        """
        doubts = [None if ours else receipt for receipt, ours in self._committing.items()]
        self._committing.clear()
        return (doubts[0],) if doubts else None

    def taken(self) -> list[Kept]:
        """What has to be said to the new broker, in the old order. It is not kept any more: keep it as it is said."""
        taken = list(self._kept.values())
        self._kept.clear()
        self._by_receipt.clear()
        self.octets = 0
        return taken

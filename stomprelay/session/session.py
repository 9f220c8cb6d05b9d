"""What a client believes it has: its version, subscriptions, open transactions, receipts owed.

A session belongs to one client connection and outlives the legs toward brokers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from stomprelay.session.ledger import Ledger, ours
from stomprelay.session.subscriptions import Subscription, Subscriptions
from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.names import ABORT, BEGIN, COMMIT, SUBSCRIBE, TRANSACTION, UNSUBSCRIBE


class Transaction:
    """What was said in a transaction that is neither committed nor aborted.

    `frames` are its BEGIN and SENDs as the client spelled them, where the session may have to say them again, and
    `size` their size; once it is `cut`, only the BEGIN is kept. `acknowledged` tells that the broker was told of an
    ACK or NACK in it; `doomed` says why it cannot be committed any more.
    """

    __slots__ = ("acknowledged", "cut", "doomed", "frames", "size")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0
        self.cut = False
        self.acknowledged = False
        self.doomed: str | None = None

    def keep(self, wire: bytes, room: int) -> int:
        """A frame of it passes, BEGIN first. Answers by how much more is kept: what does not fit into `room` cuts the
        transaction, which then ends with its broker.
        """
        if self.cut:
            return 0
        if len(wire) <= room or not self.frames:
            self.frames.append(wire)
            self.size += len(wire)
            return len(wire)
        self.cut = True
        kept = self.size
        del self.frames[1:]
        self.size = len(self.frames[0])
        return self.size - kept

    def acknowledge(self) -> None:
        """The broker was sent an ACK or NACK in it: a next broker could not be."""
        self.acknowledged = True

    def doom(self, reason: str) -> None:
        """It cannot be committed any more; `reason` is in words that a client may read."""
        self.doomed = reason

    def lost(self) -> None:
        """The broker that had begun it is lost."""
        if self.acknowledged:
            self.doom("it acknowledged messages of a broker that was lost")
        elif self.cut:
            self.doom("its broker was lost, and it was too large to be kept")


class Session:
    """The standing orders of one client, spelled in nobody's dialect (all values decoded).

    `name` tells sessions apart in logs; `receipts` holds the receipt ids of SENDs that the broker still owes;
    `counters` is where things are counted. `memo` is the head of the client's last SEND that left no trace here, as
    the decoder marks repeated heads, and `memo_head` what became of it; `traces` counts those that did. Sessions that
    one client has on several brokers share `orders`, by which their deliveries are numbered: see `beside`.
    """

    __slots__ = (
        "_ledger",
        "_most",
        "_neighbours",
        "_orders",
        "counters",
        "dialect",
        "memo",
        "memo_head",
        "name",
        "receipts",
        "subscriptions",
        "traces",
        "transactions",
    )

    def __init__(
        self,
        name: bytes,
        dialect: Dialect,
        unsettled: int,
        counters: dict[str, int],
        orders: "count[int] | None" = None,
        neighbours: "list[Session] | None" = None,
    ) -> None:
        self.name = name
        self.dialect = dialect
        self.counters = counters
        self.subscriptions = Subscriptions()
        self._ledger: Ledger | None = None
        self.traces = 0
        self.memo: bytes | None = None
        self.memo_head: bytes | None = None
        self.transactions: dict[bytes, Transaction] = {}
        self.receipts: dict[bytes, None] = {}
        self._most = unsettled
        self._orders = orders
        self._neighbours = neighbours
        if neighbours is not None:
            neighbours.append(self)

    def beside(self) -> "Session":
        """The same client's session with one more broker. The client is never given one name for deliveries of
        both.
        """
        self._orders = self._orders or count(1)
        if self._neighbours is None:
            self._neighbours = [self]
        return Session(self.name, self.dialect, self._most, self.counters, self._orders, self._neighbours)

    WATCHED = frozenset({SUBSCRIBE, UNSUBSCRIBE, BEGIN, COMMIT, ABORT})
    """The client's commands that `observed` must be told, whether or not anything needs translating."""

    @property
    def ledger(self) -> Ledger:
        """The account of deliveries, opened with the first one that the two sides name differently."""
        if self._ledger is None:
            self._orders = self._orders or count(1)
            self._ledger = Ledger(self._most, self._orders)
        return self._ledger

    def taken(self, ack: bytes) -> bool:
        """Whether an `ack` value would not tell the client's deliveries apart."""
        if self._neighbours is None:
            return ours(ack) or self.ledger.taken(ack)
        ledgers = [each._ledger for each in self._neighbours]
        return ours(ack) or any(each is not None and each.taken(ack) for each in ledgers)

    def clashes(self, message_id: bytes) -> bool:
        """Whether a delivery of another broker goes by this `message-id`, or might."""
        if self._neighbours is None:
            return False
        others = [each._ledger for each in self._neighbours if each is not self]
        return ours(message_id) or any(each is not None and each.named(message_id) for each in others)

    @property
    def full(self) -> bool:
        """Whether the client owes more ACKs than are kept: stop reading from the broker until it does not."""
        return self._ledger is not None and self._ledger.full

    @property
    def crowded(self) -> bool:
        """Whether it is too early to read on from a broker that was paused for being `full`."""
        return self._ledger is not None and self._ledger.crowded

    @property
    def quiet(self) -> bool:
        """Whether nothing is open that a broker knows of beside subscriptions."""
        return not self.transactions and (self._ledger is None or not self._ledger.expecting)

    def remember(self, memo: bytes, head: bytes | None) -> None:
        """A SEND passed that left no trace here: SENDs with the same start pass with the same new head."""
        self.memo = memo
        self.memo_head = head

    def forget_head(self) -> None:
        """There is a new broker: what became of the last SEND's head says nothing about the next one's."""
        self.memo = None

    @contextmanager
    def without_transactions(self) -> Iterator[list[Transaction]]:
        """Until the block ends the session has no open transaction; yields those that it had and has again then."""
        opened, self.transactions = self.transactions, {}
        try:
            yield list(opened.values())
        finally:
            self.transactions = opened

    def lost_broker(self) -> None:
        """The broker is gone, and with it what it knew of deliveries and transactions, and the receipts that it owed:
        what is said again asks for them anew.
        """
        self.receipts.clear()
        if self._ledger is not None:
            self._ledger.lost()
        for transaction in self.transactions.values():
            transaction.lost()

    def observed(self, command: bytes, headers: Headers) -> Subscription | None:
        """A WATCHED command passes to the broker. Answers the subscription it opens or closes, if any."""
        if command is SUBSCRIBE:
            return self.subscriptions.opened(headers)
        if command is UNSUBSCRIBE:
            closed = self.subscriptions.closed(headers)
            if self._ledger is not None and self._ledger.crowded:
                self._ledger.forget_closed()
            return closed
        transaction = next((value for name, value in headers if name == TRANSACTION), b"")
        if command is BEGIN:
            if len(self.transactions) >= self._most:
                raise ProtocolError("too many open transactions")
            self.transactions.setdefault(transaction, Transaction())
        else:
            self.transactions.pop(transaction, None)
            if self._ledger is not None:
                settle = self._ledger.committed if command is COMMIT else self._ledger.aborted
                settle(transaction)
        return None

    def lose(self, counter: str, count: int = 1) -> None:
        """Something that one side said will not reach the other; `counter` says of what kind."""
        self.traces += 1
        self.counters[counter] += count

    def owed(self, receipt: bytes) -> None:
        """A SEND passed that asks for a receipt."""
        self.traces += 1
        if len(self.receipts) < self._most:
            self.receipts[receipt] = None

    def received(self, receipt: bytes | None) -> None:
        """The broker sent a RECEIPT, or an ERROR that names it."""
        if receipt is not None:
            self.receipts.pop(receipt, None)

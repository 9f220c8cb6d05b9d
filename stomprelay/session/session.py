"""What a client has open: version, subscriptions, transactions, owed receipts. A session outlives the legs toward
brokers. Also how many bytes the relay keeps of the client, and how many it may keep.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from itertools import filterfalse
from typing import ClassVar, Final, Protocol

from stomprelay.session.delivery import THING, DeliveryNumbers, is_token
from stomprelay.session.ledger import Ledger
from stomprelay.session.recent import ids_of, joined, split
from stomprelay.session.subscriptions import AUTO, Subscription, Subscriptions
from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import LimitError, ProtocolError
from stomprelay.wire.names import ABORT, BEGIN, COMMIT, ID, SUBSCRIBE, TRANSACTION, UNSUBSCRIBE

_RECEIPT: Final = 160
"""The bytes that a receipt id costs in addition to its text."""
_FRAME: Final = 64
"""The bytes that a frame of a transaction costs in addition to its text."""
_PLACES: Final = 128
"""The bytes that a subscription costs in addition to `cost`: for its entries by id and by destination."""


_HEADER: Final = 160
"""The bytes that a header costs in addition to its text."""


def cost(headers: Headers) -> int:
    """Return how many bytes a frame's decoded headers cost."""
    return THING + sum(len(name) + len(value) + _HEADER for name, value in headers)


class Costing(Protocol):
    """An object that keeps bytes; `cost` is their number."""

    @property
    def cost(self) -> int:
        """The number of kept bytes."""


@dataclass(slots=True, eq=False, repr=False)
class Budget:
    """The bytes that are kept of one client, at most `most`. Sessions of the client with several brokers share it."""

    most: int = 1 << 26
    _size: int = 0
    _watched: tuple[Costing, ...] = ()

    @property
    def size(self) -> int:
        """The number of bytes that are kept."""
        size = self._size
        for each in self._watched:
            size += each.cost
        return size

    @property
    def full(self) -> bool:
        """Whether no more bytes may be kept."""
        return self.size >= self.most

    def room(self, wanted: int) -> int:
        """Return how many bytes may wait in one place: at most `wanted`; reading stops before a `LimitError`."""
        return min(wanted, self.most // 4)

    def watch(self, keeper: Costing) -> None:
        """Count the `cost` of this object in `size`; each use of `size` reads `cost` again."""
        self._watched = (*self._watched, keeper)

    def unwatch(self, keeper: Costing) -> None:
        """Do not count the `cost` of this object any more."""
        self._watched = tuple([each for each in self._watched if each is not keeper])

    def take(self, size: int) -> None:
        """Count `size` more kept bytes. Raises `LimitError`, and counts nothing, if the sum is more than `most`."""
        self._size += size
        if self.size > self.most:
            self._size -= size
            raise self._too_much

    def give(self, size: int) -> None:
        """Count `size` fewer kept bytes."""
        self._size -= size

    def check(self) -> None:
        """Raise `LimitError` if more bytes are kept than `most`."""
        if self.size > self.most:
            raise self._too_much

    @property
    def _too_much(self) -> LimitError:
        return LimitError("too much is kept for this client", f"the limit is {self.most} bytes")


@dataclass(slots=True, eq=False, repr=False)
class Transaction:
    """The frames of an open transaction.

    `frames`: its BEGIN and SENDs as they came, if another broker may need them; `size` is the number of their bytes.
    Once the transaction is `cut`, only the BEGIN is kept. `cost`: the bytes that the session counts in addition.
    `acknowledged`: the transaction has an ACK or NACK. Another broker does not know the deliveries, so the next loss
    dooms the transaction. `doomed`: why the transaction cannot be committed; None if it can. `receipts`: those that the
    broker owes for its SENDs, if the relay keeps no frames.
    """

    cost: int = 0
    frames: list[bytes] = field(default_factory=list)
    size: int = 0
    cut: bool = False
    acknowledged: bool = False
    doomed: str | None = None
    receipts: set[bytes] = field(default_factory=set)

    def keep(self, wire: bytes, room: int) -> int:
        """Keep a frame; BEGIN must be the first one. Return by how many bytes `size` grew; negative if it shrank. A
        frame of more than `room` bytes cuts the transaction: only BEGIN is kept, and the next loss dooms the
        transaction.
        """
        if self.cut:
            return 0
        if len(wire) <= room or not self.frames:
            self.frames.append(wire)
            self.size += len(wire)
            self.cost += _FRAME
            return len(wire)
        self.cut = True
        kept = self.size
        self.cost -= _FRAME * (len(self.frames) - 1)
        self.frames = self.frames[:1]
        self.size = len(self.frames[0])
        return self.size - kept

    def lost(self) -> None:
        """Record that the transaction's broker is lost. A transaction that cannot be sent again is doomed."""
        if self.acknowledged:
            self.doomed = "it acknowledged messages of a broker that was lost"
        elif self.cut:
            self.doomed = "its broker was lost, and it was too large to be kept"


SENT_TO: Final = 8
"""The highest number of destinations of a client's SENDs that are remembered."""
_LONGEST: Final = 200
"""The highest number of bytes that are kept of a destination's name in `Session.sent_to`."""

_NO_TRANSACTIONS: Final[dict[bytes, Transaction]] = {}
_NO_RECEIPTS: Final[dict[bytes, Transaction | None]] = {}
_NONE_MISREAD: Final[dict[bytes, deque[bytes]]] = {}
"""Shared by all sessions that have no entry yet, because most sessions never have one. Never add to these three."""


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """What one client has open at its broker. All values are decoded, except those of `delivered` and `acknowledged`.

    `name` is unique. `receipts`: the receipt ids that the broker still owes for SENDs, each with the open transaction
    that its SEND is in, or None; `uncommitted`: how many of them are in one. `unproved`: how many SENDs without a
    receipt were sent to the broker since its last RECEIPT; nothing shows yet whether the broker has them. `misreads`:
    see `asked`. `counters`: the relay's. `kept`: the bytes that are kept of the client. `_most`: how many deliveries
    may await an ACK.

    `memo`: the head of the last SEND that changed nothing in the session, as it came; `memo_head`: the same head as it
    was sent on. `traces`: how many frames changed something. `client_frames`, `broker_frames`: how many frames came;
    only the first of a client's sessions counts them. `sent_to`: the destinations of the client's last SENDs, if
    destinations are counted. `_orders`: gives deliveries their numbers; the client's sessions with several brokers
    (`beside`, `_neighbours`) share it. `active_at`: when the last bytes came that were not a beat, in seconds.
    `epoch`: the time since 1970 at which the clock of `active_at` was 0. `client_id`: that of CONNECT; empty: none.
    `own`: frames of the relay's own that the broker is to be sent.
    """

    name: bytes
    dialect: Dialect
    _most: int
    counters: dict[str, int]
    _: KW_ONLY
    most_transactions: int = 1024
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    kept: Budget = field(default_factory=Budget)
    active_at: float = 0.0
    epoch: float = 0.0
    client_id: bytes = b""
    transactions: dict[bytes, Transaction] = field(default_factory=lambda: _NO_TRANSACTIONS)
    receipts: dict[bytes, Transaction | None] = field(default_factory=lambda: _NO_RECEIPTS)
    misreads: dict[bytes, deque[bytes]] = field(default_factory=lambda: _NONE_MISREAD)
    uncommitted: int = 0
    unproved: int = 0
    traces: int = 0
    memo: bytes | None = None
    memo_head: bytes | None = None
    client_frames: int = 0
    broker_frames: int = 0
    sent_to: tuple[bytes, ...] = ()
    own: bytes = b""
    _ledger: Ledger | None = None
    _transactions_size: int = 0
    _orders: DeliveryNumbers | None = None
    _neighbours: "list[Session] | None" = None

    def beside(self) -> "Session":
        """Return a session of the same client for one more broker. Names of deliveries stay unique for the client."""
        self._orders = self._orders or DeliveryNumbers()
        if self._neighbours is None:
            self._neighbours = [self]
        another = Session(
            self.name,
            self.dialect,
            self._most,
            self.counters,
            most_transactions=self.most_transactions,
            subscriptions=Subscriptions(self.subscriptions.most),
            kept=self.kept,
            epoch=self.epoch,
            client_id=self.client_id,
            _orders=self._orders,
            _neighbours=self._neighbours,
        )
        self._neighbours.append(another)
        return another

    def wall(self) -> int:
        """Return the milliseconds since 1970 when the last bytes came. The head for which they are asked depends on
        them, so `memo` must not be used again.
        """
        self.traces += 1
        first = self._neighbours[0] if self._neighbours else self
        return int((self.epoch + first.active_at) * 1000)

    def client_sent(self, frames: int) -> None:
        """Count frames that were received from the client."""
        self.counters["client_frames"] += frames
        self.client_frames += frames

    def broker_sent(self, frames: int) -> None:
        """Count frames that were received from a broker."""
        self.counters["broker_frames"] += frames
        self.broker_frames += frames

    def sends_to(self, destination: bytes) -> None:
        """Record that the client sent to this destination. `sent_to` has the newest destinations, up to `SENT_TO`."""
        name = destination[:_LONGEST]
        if name not in self.sent_to:
            self.sent_to = (*self.sent_to[1 - SENT_TO :], name)

    @property
    def unacknowledged(self) -> int:
        """How many deliveries await an ACK of the client."""
        return 0 if self._ledger is None else self._ledger.awaited

    WATCHED: ClassVar = frozenset({SUBSCRIBE, UNSUBSCRIBE, BEGIN, COMMIT, ABORT})
    """The client's commands whose frames must be given to `observed`, whether or not they need translating."""

    @property
    def ledger(self) -> Ledger:
        """The account of deliveries. The first use creates it."""
        if self._ledger is None:
            self._orders = self._orders or DeliveryNumbers()
            ledger = self._ledger = Ledger(self._most, self._orders, self.dialect)
            self.kept.watch(ledger)
        return self._ledger

    def taken(self, ack: bytes) -> bool:
        """Whether an `ack` value must not be given to the client: it would name two deliveries, or may be our token."""
        if is_token(ack) or self.ledger.taken(ack):
            return True
        return self._neighbours is not None and any(
            each.dropped or each.taken(ack) for each in self._others()
        )

    def clashes(self, message_id: bytes) -> bool:
        """Whether the client knows, or may know, a delivery of another broker by this `message-id`."""
        if self._neighbours is None:
            return False
        if is_token(message_id):
            return True
        return any(each.unsure or each.dropped or each.named(message_id) for each in self._others())

    def _others(self) -> Iterator[Ledger]:
        """Yield the ledgers of the client's sessions with other brokers."""
        for each in self._neighbours or ():
            if each is not self and each._ledger is not None:
                yield each._ledger

    def delivered(self, rows: bytes, width: int, count: int, *, unnamed: bool = False) -> bool:
        """Record MESSAGEs that pass as they came, in rows of `width` values (see `recent`). Return False, and record
        nothing, if a MESSAGE needs a look: its names may have to change, its subscription is unknown, the session would
        become `full`, or (without `unnamed`) the client gave the subscription no id.
        """
        dialect = self.dialect
        if self._neighbours is not None or not dialect.spells_once(rows):
            return False
        ledger = self.ledger
        unaccounted = set()
        for id in ledger.recent.unfamiliar(ids_of(rows, width)):
            subscription = self.subscriptions.delivered(dialect.decode(ID, id), b"")
            if subscription is None or not (unnamed or subscription.named):
                return False
            if subscription.ack == AUTO:
                unaccounted.add(id)
            elif subscription.open:
                ledger.recent.introduced(id, subscription)
            else:
                return False
        if unaccounted:
            accounted = [row for row in split(rows, width) if row[0] not in unaccounted]
            rows, count = joined(accounted), len(accounted)
        if not count:
            return True
        if ledger.awaited + count >= self._most or self.kept.full:
            return False  # the caller then takes them one by one until the session is full
        return ledger.delivered(rows, width, count)

    def values(self, names: bytes, first: int, stop: int) -> bytes | None:
        """Return the values `first` up to `stop` of the rows with these names; None if the ACKs must be looked at."""
        return None if self._ledger is None else self._ledger.values(names, first, stop)

    def acknowledged(self, names: bytes) -> bool:
        """Settle ACKs or NACKs of these names (see `recent`), outside transactions. Return whether all may pass
        unchanged. If not, the caller must look at each ACK. An ACK that was settled here is then sent on unchanged.
        """
        return self._ledger is not None and self._ledger.acknowledged(names)

    def take_own(self) -> bytes:
        """Return `own`, and forget it."""
        own, self.own = self.own, b""
        return own

    @property
    def full(self) -> bool:
        """Whether to stop reading until the session is not `crowded`: too many ACKs are owed, or too much is kept."""
        return self._ledger is not None and (
            self._ledger.full or (self._ledger.awaited > 0 and self.kept.full)
        )

    @property
    def crowded(self) -> bool:
        """Whether there is still too little room to read from the broker again, after the session was `full`."""
        return self._ledger is not None and (
            self._ledger.crowded or (self._ledger.awaited > 0 and self.kept.full)
        )

    @property
    def quiet(self) -> bool:
        """Whether no transaction is open and the client owes no ACK, so that leaving the broker loses nothing."""
        return not self.transactions and (self._ledger is None or not self._ledger.expecting)

    def keep(self, transaction: Transaction, wire: bytes, most: int) -> None:
        """Keep a frame of an open transaction (see `Transaction.keep`). All of them together may keep `most` bytes."""
        before, size = transaction.size + transaction.cost, len(wire) + _FRAME
        self.kept.take(size)
        self._transactions_size += transaction.keep(wire, most - self._transactions_size)
        self.kept.give(size + before - transaction.size - transaction.cost)

    @contextmanager
    def without_transactions(self) -> Iterator[None]:
        """Take the open transactions out of the session until the `with` block ends."""
        opened, self.transactions = self.transactions, _NO_TRANSACTIONS
        size, self._transactions_size = self._transactions_size, 0
        try:
            yield
        finally:
            self.transactions = opened
            self._transactions_size = size

    def lost_broker(self) -> None:
        """Record that the broker is lost, and its deliveries. Transactions that cannot be sent again are doomed."""
        for receipt in [each for each, asked in self.misreads.items() for _ in asked]:
            self.asked(receipt)
        if self._ledger is not None:
            self._ledger.lost()
        for transaction in self.transactions.values():
            transaction.lost()

    def observed(self, command: bytes, headers: Headers) -> Subscription | None:
        """Record a frame with a command in `WATCHED`. Return the subscription that it opens or closes, or None. Raises
        `ProtocolError` for too many subscriptions or transactions, and `LimitError` if too much is kept.
        """
        if command is SUBSCRIBE or command is UNSUBSCRIBE:
            return self._subscribed(command, headers)
        name = next((value for name, value in headers if name == TRANSACTION), b"")
        if command is BEGIN:
            self._begun(name)
            return None
        transaction = self.transactions.pop(name, None)
        if transaction is not None:
            if command is COMMIT:
                self.receipts.update(dict.fromkeys(transaction.receipts))
                self.uncommitted -= len(transaction.receipts)
            else:  # RabbitMQ gives no RECEIPT for what is aborted
                for receipt in [*transaction.receipts]:
                    self.received(receipt)
            self._transactions_size -= transaction.size
            self.kept.give(transaction.size + transaction.cost)
        if self._ledger is not None:
            settle = self._ledger.committed if command is COMMIT else self._ledger.aborted
            settle(name)
        return None

    def _subscribed(self, command: bytes, headers: Headers) -> Subscription | None:
        subscriptions = self.subscriptions
        if command is UNSUBSCRIBE:
            found = subscriptions.closed(headers)
        else:
            size = cost(headers) + _PLACES
            self.kept.take(size)
            try:
                found = subscriptions.opened(headers, size)
            except ProtocolError:
                self.kept.give(size)
                raise
        for closed in subscriptions.take_closed():
            self.kept.give(closed.cost)
            if self._ledger is not None:
                self._ledger.ended(closed)
        return found

    def _begun(self, name: bytes) -> None:
        if name in self.transactions:
            return
        if len(self.transactions) >= self.most_transactions:
            raise ProtocolError("too many open transactions", f"the limit is {self.most_transactions}")
        size = THING + len(name)
        self.kept.take(size)
        if self.transactions is _NO_TRANSACTIONS:
            self.transactions = {}
        self.transactions[name] = Transaction(size)

    def lose(self, counter: str, count: int = 1) -> None:
        """Count losses in `counters[counter]`: headers or frames that the other side is not sent."""
        self.traces += 1
        self.counters[counter] += count

    def owed(self, receipt: bytes, inside: bytes | None = None) -> None:
        """Record that the broker owes the RECEIPT of a SEND, `inside` this transaction. Raises `LimitError`."""
        self.traces += 1
        if receipt not in self.receipts:
            self.kept.take(_RECEIPT + len(receipt))
            if not self.receipts:
                self.receipts = {}
            transaction = None if inside is None else self.transactions.get(inside)
            self.receipts[receipt] = transaction
            if transaction is not None:
                transaction.receipts.add(receipt)
                self.uncommitted += 1

    def received(self, receipt: bytes | None) -> None:
        """Record that the broker sent the RECEIPT with this id; None changes nothing."""
        if receipt in self.receipts:
            transaction = self.receipts.pop(receipt)
            self.kept.give(_RECEIPT + len(receipt))
            if transaction is not None:
                transaction.receipts.remove(receipt)
                self.uncommitted -= 1

    def misread(self, receipt: bytes, taken: bytes) -> None:
        """Record that the broker answers `receipt` as `taken`. Raises `LimitError` if too much is kept."""
        self.traces += 1
        self.kept.take(2 * THING + len(receipt) + len(taken))
        if self.misreads is _NONE_MISREAD:
            self.misreads = {}
        self.misreads.setdefault(taken, deque()).append(receipt)

    def asked(self, receipt: bytes | None) -> bytes | None:
        """Return the receipt that the client asked for, if the broker's RECEIPT has the id `receipt`. The two differ if
        the broker reads the client's spelling differently (`misreads`). Call this once for each RECEIPT.
        """
        asked = self.misreads.get(receipt) if receipt is not None else None
        if receipt is None or asked is None:
            return receipt
        first = asked.popleft()
        self.kept.give(2 * THING + len(first) + len(receipt))
        if not asked:
            del self.misreads[receipt]
        return first

    def pass_unproved(self, sends: int) -> None:
        """Count SENDs without a receipt that are sent to the broker."""
        self.unproved += sends

    def owed_all(self, receipts: Iterable[bytes]) -> bool:
        """Record these receipts of SENDs as `owed` does. Return False, and record nothing, if they are too many."""
        new = dict.fromkeys(filterfalse(self.receipts.__contains__, receipts))
        try:
            self.kept.take(_RECEIPT * len(new) + sum(map(len, new)))
        except LimitError:
            return False
        self.traces += 1
        if self.receipts:
            self.receipts.update(new)
        else:
            self.receipts = new
        return True

    def received_all(self, receipts: Iterable[bytes]) -> None:
        """Record that the broker sent the RECEIPTs with these ids, as `received` does for one. Set `unproved` to 0."""
        self.unproved = 0
        owed, size = self.receipts, 0
        for receipt in receipts:
            if self.uncommitted:
                self.received(receipt)
            elif receipt in owed:
                del owed[receipt]
                size += _RECEIPT + len(receipt)
        self.kept.give(size)

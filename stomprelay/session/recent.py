"""The newest deliveries, of which only the names are kept. One call records all deliveries of a chunk, and one call
settles many; there is no object for each delivery. If a loss, an ended subscription or a transaction concerns these
deliveries, the ledger makes a `Delivery` of each. Only the compiled `_rows` can keep names alone; without `_rows` the
ledger always has a `Delivery` for each.

A row has values of a MESSAGE: its subscription, its message-id and, in versions whose ACKs need it, its `ack`. A name
has the values by which an ACK names a delivery. Both are texts with an LF behind each value, spelled as on the wire to
the client: see `Dialect.spells_once`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from stomprelay.session.delivery import THING, TOKEN, DeliveryNumbers
from stomprelay.session.subscriptions import CUMULATIVE, Subscription
from stomprelay.wire.decoder import compiled
from stomprelay.wire.dialect import DeliveryNaming, Dialect

if TYPE_CHECKING:
    from stomprelay.session._rows import Rows

Row = tuple[bytes, ...]

COMPILED: Final = compiled("stomprelay.session._rows")
"""The compiled `_rows`; None if it was not built, or if the environment asks for no compiled module."""

_NAME: Final[Mapping[DeliveryNaming, tuple[int, int]]] = {
    DeliveryNaming.MESSAGE_ID: (1, 2),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: (0, 2),
    DeliveryNaming.ACK: (2, 3),
}
"""For each way of naming deliveries: the part of a row that is its name, from the first index up to the second."""
_WIDEST: Final = 3
_OURS: Final = b"\n" + TOKEN


def split(text: bytes, width: int) -> list[Row]:
    """Return the rows or names in a text, each as a tuple of `width` values."""
    *values, rest = text.split(b"\n")
    if rest:
        raise ValueError("a value without its LF")
    return list(zip(*[iter(values)] * width, strict=True))


def joined(rows: Iterable[Sequence[bytes]]) -> bytes:
    """Return these rows as one text."""
    return b"".join([value + b"\n" for row in rows for value in row])


def _ids(rows: bytes, width: int) -> set[bytes]:
    return {row[0] for row in split(rows, width)}


ids_of: Final[Callable[[bytes, int], set[bytes]]] = _ids if COMPILED is None else COMPILED.ids
"""Returns the set of the first values, which are subscription ids, of rows with this many values."""


@dataclass(slots=True, eq=False, repr=False)
class Recent:
    """The newest deliveries of a client of this dialect. They are of the present broker and on open subscriptions. No
    other delivery in the ledger has the same name. `orders` gives them their numbers. The deliveries that are still
    unsettled have the highest of these numbers, without a gap.
    """

    _dialect: Dialect
    _orders: DeliveryNumbers
    _end: int = 0
    _width: int = _WIDEST
    _rows: "Rows | None" = None
    _subscriptions: dict[bytes, Subscription] = field(default_factory=dict)
    _cumulative: set[bytes] = field(default_factory=set)

    def __len__(self) -> int:
        return 0 if self._rows is None else len(self._rows)

    @property
    def size(self) -> int:
        """The bytes that the recent deliveries cost."""
        return 0 if self._rows is None else THING * len(self._rows) + self._rows.size

    def concerns(self, subscription: Subscription) -> bool:
        """Whether one of the deliveries may be on this subscription. If so, call `take` when the subscription ends."""
        return self._subscriptions.get(self._dialect.encode(subscription.id)) is subscription

    def has(self, ack: bytes) -> bool:
        """Whether a recent delivery has this decoded `ack` value. False if the version's ACKs have no such value."""
        return self._dialect.delivery is DeliveryNaming.ACK and self._has(ack)

    def _has(self, *name: bytes) -> bool:
        """Whether one of the deliveries has this decoded name."""
        if not self._rows:
            return False
        text = joined([tuple(map(self._dialect.encode, name))])
        return text.count(b"\n") == len(name) and self.values(text) is not None

    def may_have(self, message_id: bytes, subscription: bytes | None) -> bool:
        """Whether this decoded message-id (and subscription, if given) may name one of the deliveries."""
        match self._dialect.delivery:
            case DeliveryNaming.MESSAGE_ID:
                return self._has(message_id)
            case DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID if subscription is not None:
                return self._has(subscription, message_id)
        return len(self) > 0

    def values(self, names: bytes, first: int = 0, stop: int = 0) -> bytes | None:
        """Return the values `first` up to `stop` of the rows with these names; None if `settle` may not find a name."""
        return None if self._rows is None else self._rows.values(names, first, stop)

    def decoded(self, rows: bytes, width: int) -> list[tuple[bytes, ...]]:
        """Return the rows in a text, each with `width` decoded values."""
        return split(self._dialect.decode_once(rows), width)

    def unfamiliar(self, ids: set[bytes]) -> set[bytes]:
        """Return the subscription ids that were not `introduced`."""
        return ids.difference(self._subscriptions)

    def introduced(self, id: bytes, subscription: Subscription) -> None:
        """Record the open subscription with this id."""
        self._subscriptions[id] = subscription
        if subscription.ack == CUMULATIVE:
            self._cumulative.add(id)

    def add(self, rows: bytes, width: int) -> bool:
        """Add the rows of the newest deliveries. Return False, and add no row, if a name exists already or a row may
        contain the relay's `TOKEN`.
        """
        if COMPILED is None or _OURS in rows:
            return False
        kept = self._rows
        if kept is None or width != self._width:
            if kept:
                return False
            self._width = width
            kept = self._rows = COMPILED.Rows(width, *_NAME[self._dialect.delivery])
        before = len(kept)
        if not kept.add(rows, self._cumulative):
            return False
        many = len(kept) - before
        self._end = self._orders.give(many) + many
        return True

    def settle(self, names: bytes) -> tuple[bool, list[Subscription]]:
        """Forget the deliveries that ACKs of these names cover. Return whether each name was found, and the cumulative
        subscriptions on which the ACKs cover earlier deliveries, too.
        """
        if self._rows is None:
            return False, []
        found, covered = self._rows.remove(names)
        return found, [self._subscriptions[id] for id in covered]

    def take(self) -> list[tuple[int, Subscription, bytes, bytes | None]]:
        """Forget all deliveries. Return the number, subscription, decoded message-id and `ack` of each, in order."""
        if self._rows is None:
            return []
        subscriptions, left = self._subscriptions, len(self._rows)
        rows = self._rows.take()
        self._subscriptions, self._cumulative = {}, set()
        return [
            (order, subscriptions[id], row[1], row[2] if self._width == _WIDEST else None)
            for id, row, order in zip(
                rows.split(b"\n")[: -1 : self._width],
                self.decoded(rows, self._width),
                range(self._end - left, self._end),
                strict=True,
            )
        ]

"""Deliveries of which nothing is known but their names.

Nearly every delivery is acknowledged by the name under which it came before anything else is asked about it. So all of
a chunk are noted in one go, by their names, and settled so: no objects are made, and nothing goes through them one by
one. As soon as something else concerns them, a loss, the end of a subscription, a transaction, the ledger takes them
and makes a `Delivery` of each.

What a MESSAGE says of its delivery is its row: the id of its subscription, its message-id and, where ACKs name that,
its `ack` value. What an ACK says of it is its name: an `id`, or a message-id, or the id of a subscription and a
message-id. Both come as texts, with an LF behind each value, and values stand there as they do on the wire to the
client, or would: see `Dialect.spells_once`.
"""

from collections.abc import Mapping
from typing import Final

from stomprelay.session.delivery import TOKEN, Orders
from stomprelay.session.kept import THING
from stomprelay.session.rows import ROWS, joined, split
from stomprelay.session.subscriptions import CUMULATIVE, Subscription
from stomprelay.wire.dialect import DeliveryNaming, Dialect

_NAME: Final[Mapping[DeliveryNaming, tuple[int, int]]] = {
    DeliveryNaming.MESSAGE_ID: (1, 2),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: (0, 2),
    DeliveryNaming.ACK: (2, 3),
}
"""From which value of a row up to which its name is."""
_WIDEST: Final = 3
_OURS: Final = b"\n" + TOKEN


class Recent:
    """The newest deliveries of a client of this dialect: all came on the broker's connection that there is, for open
    subscriptions, and no two have one name, nor has anything else in the ledger. They are kept in the order in which
    they came, and numbered by `orders` as they come; nobody else has a number of these until they are taken. Which ones
    those had that were settled is not kept: those that are left have the last ones.
    """

    __slots__ = ("_cumulative", "_dialect", "_end", "_orders", "_rows", "_subscriptions", "_width")

    def __init__(self, dialect: Dialect, orders: Orders) -> None:
        self._dialect = dialect
        self._orders = orders
        self._end = 0
        self._width = _WIDEST
        self._rows = ROWS(_WIDEST, *_NAME[dialect.delivery])
        self._subscriptions: dict[bytes, Subscription] = {}
        self._cumulative: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size(self) -> int:
        """The number of bytes that all of them cost."""
        return THING * len(self._rows) + self._rows.size

    def concerns(self, subscription: Subscription) -> bool:
        """Whether this subscription was introduced: one of them may be its own. Then `take` all when it ends."""
        return self._subscriptions.get(self._dialect.encode(subscription.id)) is subscription

    def has(self, ack: bytes) -> bool:
        """Whether one of them has this `ack` value, decoded, where ACKs name that."""
        return self._dialect.delivery is DeliveryNaming.ACK and self._has(ack)

    def _has(self, *name: bytes) -> bool:
        """Whether one of them has this name, decoded."""
        if not self._rows:
            return False
        text = joined([tuple(map(self._dialect.encode, name))])
        return text.count(b"\n") == len(name) and self.values(text) is not None

    def may_have(self, message_id: bytes, subscription: bytes | None) -> bool:
        """Whether one of them can be what is meant by this message-id, on the subscription of that id where one is
        given. Both are decoded.
        """
        match self._dialect.delivery:
            case DeliveryNaming.MESSAGE_ID:
                return self._has(message_id)
            case DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID if subscription is not None:
                return self._has(subscription, message_id)
        return len(self._rows) > 0

    def values(self, names: bytes, first: int = 0, stop: int = 0) -> bytes | None:
        """Return the values `first` up to `stop` of the rows of these names; None where `settle` would not find each of
        them, or that is not certain.
        """
        return self._rows.values(names, first, stop)

    def decoded(self, rows: bytes, width: int) -> list[tuple[bytes, ...]]:
        """Return rows of so many values, decoded."""
        return split(self._dialect.decode_once(rows), width)

    def unfamiliar(self, ids: set[bytes]) -> set[bytes]:
        """Return those of these ids of subscriptions that were not `introduced`."""
        return ids.difference(self._subscriptions)

    def introduced(self, id: bytes, subscription: Subscription) -> None:
        """Record which subscription, an open one, is meant by an id."""
        self._subscriptions[id] = subscription
        if subscription.ack == CUMULATIVE:
            self._cumulative.add(id)

    def add(self, rows: bytes, width: int) -> bool:
        """Add deliveries, the newest, of subscriptions that were introduced, in rows of so many values. Return False,
        and add none, where one of them has a name that is here, or may be a token of ours.
        """
        if _OURS in rows:
            return False
        if width != self._width:
            if self._rows:
                return False
            self._width = width
            self._rows = ROWS(width, *_NAME[self._dialect.delivery])
        before = len(self._rows)
        if not self._rows.add(rows, self._cumulative):
            return False
        many = len(self._rows) - before
        self._end = self._orders.give(many) + many
        return True

    def settle(self, names: bytes) -> tuple[bool, list[Subscription]]:
        """Forget what ACKs of these names are for: each for its delivery, and where its subscription is cumulative for
        all before it. Return whether each name was found, and those cumulative subscriptions: what else they have is
        covered, too.
        """
        found, covered = self._rows.remove(names)
        return found, [self._subscriptions[id] for id in covered]

    def take(self) -> list[tuple[int, Subscription, bytes, bytes | None]]:
        """Return all of them in order, each as its number, its subscription and, decoded, its message-id and `ack`
        value. They are forgotten here.
        """
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

"""Deliveries of which nothing is known but their names.

Nearly every delivery is acknowledged by the name under which it came before anything else is asked about it. So all of
a chunk are noted in one go, by their names, and settled so: no objects are made, and nothing goes through them one by
one. As soon as something else concerns them, a loss, the end of a subscription, a transaction, the ledger takes them
and makes a `Delivery` of each.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Any, Final

from stomprelay.session.delivery import TOKEN
from stomprelay.session.kept import THING
from stomprelay.session.subscriptions import CUMULATIVE, Subscription
from stomprelay.wire.dialect import DeliveryNaming, Dialect

Row = tuple[bytes, ...]
"""What a MESSAGE says of its delivery: the id of its subscription, its message-id and, where ACKs name that, its `ack`
value. They are as they stand on the wire to the client, or would: see `Dialect.spells_once`.
"""
Name = bytes | Row
"""What an ACK says of a delivery, in the same way: an `id`, or a message-id, or the id of a subscription and a
message-id.
"""

_NAME: Final[Mapping[DeliveryNaming, Callable[[Row], Any]]] = {
    DeliveryNaming.MESSAGE_ID: itemgetter(1),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: itemgetter(slice(2)),
    DeliveryNaming.ACK: itemgetter(2),
}
_ROW: Final[Callable[[tuple[Row, int]], Row]] = itemgetter(0)
_OURS: Final = b"\n" + TOKEN


def text_of(rows: Sequence[Row]) -> bytes:
    """Return all values of the rows, with LFs between them."""
    return b"\n".join(chain.from_iterable(rows))


class Recent:
    """The newest deliveries of a client of this dialect: all came on the broker's connection that there is, for open
    subscriptions, and no two have one name, nor has anything else in the ledger. They are kept in the order in which
    they came, each with the number that `orders` gives it.
    """

    __slots__ = ("_cumulative", "_dialect", "_lines", "_name", "_orders", "_rows", "_subscriptions", "_text")

    def __init__(self, dialect: Dialect, orders: Iterator[int]) -> None:
        self._dialect = dialect
        self._orders = orders
        self._name = _NAME[dialect.delivery]
        self._rows: dict[Name, tuple[Row, int]] = {}
        self._subscriptions: dict[bytes, Subscription] = {}
        self._cumulative: set[bytes] = set()
        # Of each cumulative subscription what is its own, in order.
        self._lines: dict[bytes, deque[Name]] = {}
        self._text = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size(self) -> int:
        """The number of bytes that all of them cost."""
        return THING * len(self._rows) + self._text

    def concerns(self, subscription: Subscription) -> bool:
        """Whether this subscription was introduced: one of them may be its own. Then `take` all when it ends."""
        return self._subscriptions.get(self._dialect.encode(subscription.id)) is subscription

    def has(self, ack: bytes) -> bool:
        """Whether one of them has this `ack` value, decoded, where ACKs name that."""
        return bool(self._rows) and self._dialect.encode(ack) in self._rows

    def has_all(self, names: Iterable[Name]) -> bool:
        """Whether each of these names is that of one of them."""
        return all(map(self._rows.__contains__, names))

    def rows(self, names: Sequence[Name]) -> list[Row] | None:
        """Return the rows of these names; None where that is not certain, or `settle` may not find each of them."""
        if self._lines and self._are_first(names):
            return list(map(_ROW, map(self._rows.__getitem__, names)))
        if len(names) > 1 and (self._lines or len(set(names)) < len(names)):
            return None
        found = list(filter(None, map(self._rows.get, names)))
        return list(map(_ROW, found)) if len(found) == len(names) else None

    def _are_first(self, names: Sequence[Name]) -> bool:
        """Whether these are the next ones of the only subscription, a cumulative one, one after the other."""
        if len(self._subscriptions) != 1:
            return False
        (line,) = self._lines.values()
        return list(islice(iter(line), len(names))) == list(names)

    def may_have(self, message_id: bytes, subscription: bytes | None) -> bool:
        """Whether one of them can be what is meant by this message-id, on the subscription of that id where one is
        given. Both are decoded.
        """
        if not self._rows:
            return False
        encode = self._dialect.encode
        match self._dialect.delivery:
            case DeliveryNaming.MESSAGE_ID:
                return encode(message_id) in self._rows
            case DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID if subscription is not None:
                return (encode(subscription), encode(message_id)) in self._rows
        return True

    def decoded(self, rows: Sequence[Row], text: bytes) -> Sequence[Row]:
        """Return the rows decoded; `text` is `text_of` them."""
        if b"\\" not in text or not rows:
            return rows
        values = iter(self._dialect.decode_once(text).split(b"\n"))
        return list(zip(*[values] * len(rows[0]), strict=True))

    def unfamiliar(self, ids: set[bytes]) -> set[bytes]:
        """Return those of these ids of subscriptions that were not `introduced`."""
        return ids.difference(self._subscriptions)

    def introduced(self, id: bytes, subscription: Subscription) -> None:
        """Record which subscription, an open one, is meant by an id."""
        self._subscriptions[id] = subscription
        if subscription.ack == CUMULATIVE:
            self._cumulative.add(id)

    def add(self, rows: Sequence[Row], text: bytes) -> bool:
        """Add deliveries, the newest, of subscriptions that were introduced; `text` is `text_of` them. Return False,
        and add none, where one of them has a name that is here, or may be a token of ours.
        """
        kept, names = self._rows, list(map(self._name, rows))
        different = set(names)
        if _OURS in text or len(different) < len(names) or not kept.keys().isdisjoint(different):
            return False
        kept.update(zip(names, zip(rows, self._orders, strict=False), strict=True))
        self._text += len(text) + 1
        if self._cumulative and len(self._subscriptions) == 1:
            self._lines.setdefault(rows[0][0], deque()).extend(names)
        elif self._cumulative:
            for name, row in zip(names, rows, strict=True):
                if row[0] in self._cumulative:
                    self._lines.setdefault(row[0], deque()).append(name)
        return True

    def settle(self, names: Sequence[Name]) -> tuple[bool, list[Subscription]]:
        """Forget what ACKs of these names are for: each for its delivery, and where its subscription is cumulative for
        all before it. Return whether each name was found, and those cumulative subscriptions: what else they have is
        covered, too.
        """
        found, covered = True, list[Subscription]()
        if self._lines:
            found, settled, covered = self._settle_in_order(names)
        else:
            popped = list(map(self._rows.pop, names, repeat(None)))
            settled = [each for each in popped if each is not None]
            found = len(settled) == len(popped)
        if settled:
            self._text -= len(text_of(list(map(_ROW, settled)))) + 1
        return found, covered

    def _settle_in_order(
        self, names: Sequence[Name]
    ) -> tuple[bool, list[tuple[Row, int]], list[Subscription]]:
        """Do as `settle`, and return the rows too, with their numbers."""
        rows, lines = self._rows, self._lines
        if len(self._subscriptions) == 1:
            ((id, subscription),) = self._subscriptions.items()
            queue = lines[id]
            if self._are_first(names):  # as most do
                settled = list(map(rows.pop, names))
                for _ in names:
                    queue.popleft()
                if not queue:
                    del lines[id]
                return True, settled, [subscription]
        found, settled, covered = True, list[tuple[Row, int]](), dict[bytes, Subscription]()
        for name in names:
            numbered = rows.get(name)
            if numbered is None:
                found = False
                continue
            id = numbered[0][0]
            line = lines.get(id)
            if line is not None:
                first = line.popleft()
                while first != name:
                    settled.append(rows.pop(first))
                    first = line.popleft()
                if not line:
                    del lines[id]
                covered[id] = self._subscriptions[id]
            settled.append(rows.pop(name))
        return found, settled, list(covered.values())

    def take(self) -> list[tuple[int, Subscription, bytes, bytes | None]]:
        """Return all of them in order, each as its number, its subscription and, decoded, its message-id and `ack`
        value. They are forgotten here.
        """
        numbered, subscriptions = list(self._rows.values()), self._subscriptions
        rows = list(map(_ROW, numbered))
        self._rows, self._subscriptions, self._cumulative, self._lines = {}, {}, set(), {}
        self._text = 0
        decoded = self.decoded(rows, text_of(rows))
        return [
            (order, subscriptions[row[0]], each[1], each[2] if len(each) > 2 else None)
            for (row, order), each in zip(numbered, decoded, strict=True)
        ]

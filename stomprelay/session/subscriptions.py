"""A client's subscriptions, and their names on each side."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.names import ACK_HEADER, DESTINATION, ID, RECEIPT_HEADER, SELECTOR

AUTO: Final = b"auto"
CUMULATIVE: Final = b"client"
INDIVIDUAL: Final = b"client-individual"
MADE: Final = b"relay-"
"""The first part of each id that the relay gives to a subscription: letters, digits and dashes only."""
LATELY: Final = 16
"""The number of ended subscriptions that are remembered, for messages that are still on their way to them."""
MODES: Final = frozenset({AUTO, CUMULATIVE, INDIVIDUAL})


class Subscription:
    """A client's subscription. `headers`: the decoded headers of its SUBSCRIBE. After `close` only the receipt is left.

    `id`: its id toward a broker. `named`: the client chose the id. Otherwise the client must never be sent the id.
    `cost`: in bytes. `selector`: which messages the client wants; None: all. `test`: whether a MESSAGE with these
    headers fits it, if the relay keeps that.
    """

    __slots__ = ("ack", "cost", "destination", "headers", "id", "named", "open", "selector", "test")

    def __init__(self, id: bytes, headers: Headers, *, named: bool, cost: int = 0) -> None:
        self.cost = cost
        self.id = id
        self.named = named
        self.headers = headers
        self.open = True
        self.destination = b""
        self.ack = AUTO
        self.selector: bytes | None = None
        self.test: Callable[[Callable[[bytes], bytes | None]], bool] | None = None
        for name, value in reversed(headers):
            if name == DESTINATION:
                self.destination = value
            elif name == ACK_HEADER:
                self.ack = value
            elif name == SELECTOR:
                self.selector = value

    def close(self) -> None:
        """Record that the client ended the subscription, with UNSUBSCRIBE or with another SUBSCRIBE of the same id."""
        self.open = False
        self.test = None
        self.headers = [each for each in self.headers if each[0] == RECEIPT_HEADER][:1]


_NONE: Final[OrderedDict[bytes, Subscription]] = OrderedDict()
_NOWHERE: Final[dict[bytes, OrderedDict[bytes, Subscription]]] = {}
"""Shared by all clients that never subscribed. Never add to these two."""


@dataclass(slots=True, eq=False, repr=False)
class Subscriptions:
    """The open subscriptions of one client, oldest first. `acknowledging`: the number of subscriptions with ACKs,
    `selecting`: with selectors, both including recently ended ones. `acknowledged`: the number of open ones with ACKs,
    `cumulative`: with cumulative ACKs. `most`: how many may be open.
    """

    most: int = 65536
    # OrderedDicts: to find its first entry, a plain dict goes through all entries that were deleted before it. They
    # are created with the first entry.
    _by_id: OrderedDict[bytes, Subscription] = field(default_factory=lambda: _NONE)
    _by_destination: dict[bytes, OrderedDict[bytes, Subscription]] = field(default_factory=lambda: _NOWHERE)
    _ended: OrderedDict[bytes, Subscription] = field(default_factory=lambda: _NONE)
    _closed: tuple[Subscription, ...] = ()
    _made: int = 0
    acknowledging: int = 0
    selecting: int = 0
    acknowledged: int = 0
    cumulative: int = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(self._by_id.values())

    @property
    def destinations(self) -> Collection[bytes]:
        """The destinations of the open subscriptions, each once, oldest first. Use them before the next input."""
        return self._by_destination.keys()

    def opened(self, headers: Headers, cost: int = 0) -> Subscription:
        """Add and return a subscription. Without an `id` header it gets an id from the relay. An older open
        subscription with the same id ends. `cost` is in bytes. Raises `ProtocolError` if too many are open.
        """
        id = next((value for name, value in headers if name == ID), None)
        if len(self._by_id) >= self.most:
            raise ProtocolError("too many subscriptions", f"the limit is {self.most}")
        if id is None:
            self._made += 1
            while MADE + b"%d" % self._made in self._by_id:
                self._made += 1
            subscription = Subscription(MADE + b"%d" % self._made, headers, named=False, cost=cost)
        else:
            subscription = Subscription(id, headers, named=True, cost=cost)
        replaced = self._by_id.get(subscription.id)
        if replaced is not None:
            self._close(replaced)
            self._forget(replaced)
        self.acknowledging += subscription.ack != AUTO
        self.selecting += subscription.selector is not None
        self._count(subscription, 1)
        if self._by_id is _NONE:
            self._by_id, self._by_destination = OrderedDict(), {}
        self._by_id[subscription.id] = subscription
        same = self._by_destination.get(subscription.destination)
        if same is None:
            same = self._by_destination[subscription.destination] = OrderedDict()
        same[subscription.id] = subscription
        self._forget(self._ended.pop(subscription.id, None))
        return subscription

    def named(self, id: bytes) -> Subscription | None:
        """Return the open subscription with this id; None if there is none."""
        return self._by_id.get(id)

    def selects(self, id: bytes) -> bool:
        """Return whether the MESSAGEs of this id may be for a subscription with a selector."""
        found = self._by_id.get(id) or self._ended.get(id)
        return found is None or found.selector is not None

    def delivered(self, id: bytes | None, destination: bytes) -> Subscription | None:
        """Return the subscription of a MESSAGE, or None. First choice: the open or recently ended subscription with
        this id. Second choice: a subscription to this destination. If the MESSAGE has an id, the client must have given
        that subscription no id. A MESSAGE without an id may also be for the only open subscription.
        """
        named = None if id is None else self._by_id.get(id) or self._ended.get(id)
        if named is not None:
            return named
        if id is None and len(self._by_id) == 1 and not self._ended:
            return next(iter(self))
        found = self.oldest(destination)
        if found is None:
            found = next((each for each in self._ended.values() if each.destination == destination), None)
        if id is not None:
            return None if found is None or found.named else found
        return next(iter(self)) if found is None and len(self._by_id) == 1 else found

    def oldest(self, destination: bytes) -> Subscription | None:
        """Return the oldest open subscription to a destination, or None. A 1.0 UNSUBSCRIBE ends this subscription."""
        same = self._by_destination.get(destination)
        return None if same is None else next(iter(same.values()))

    def closed(self, headers: Headers) -> Subscription | None:
        """Close and return the subscription that UNSUBSCRIBE names by `id` or `destination`; None if there is none."""
        names = dict(reversed(headers))
        subscription = self._by_id.get(names[ID]) if ID in names else self.oldest(names.get(DESTINATION, b""))
        if subscription is not None:
            self._close(subscription)
            if self._ended is _NONE:
                self._ended = OrderedDict()
            self._ended[subscription.id] = subscription
            if len(self._ended) > LATELY:
                self._forget(self._ended.popitem(last=False)[1])
        return subscription

    def _forget(self, ended: Subscription | None) -> None:
        """Count a subscription no more: it ended long ago, or another one has its id."""
        if ended is not None:
            self.acknowledging -= ended.ack != AUTO
            self.selecting -= ended.selector is not None

    def take_closed(self) -> tuple[Subscription, ...]:
        """Return the subscriptions closed since the last call, by `closed` or because another took their id."""
        closed, self._closed = self._closed, ()
        return closed

    def _count(self, subscription: Subscription, by: int) -> None:
        self.acknowledged += by * (subscription.ack != AUTO)
        self.cumulative += by * (subscription.ack == CUMULATIVE)

    def _close(self, subscription: Subscription) -> None:
        subscription.close()
        self._count(subscription, -1)
        self._closed = (*self._closed, subscription)
        del self._by_id[subscription.id]
        same = self._by_destination[subscription.destination]
        del same[subscription.id]
        if not same:
            del self._by_destination[subscription.destination]

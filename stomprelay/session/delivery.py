"""Deliveries: MESSAGEs that await an ACK, one by one and for each subscription."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Final, Protocol

from stomprelay.session.positions import Positions
from stomprelay.session.subscriptions import CUMULATIVE, Subscription

TOKEN: Final = b"relay-ack-"
"""How our tokens begin, in front of a number."""
THING: Final = 512
"""Bytes that anything that is kept costs beside its text: its objects, and its places in tables."""


def ours(name: bytes) -> bool:
    """Whether the name of a delivery has the form of our tokens. It may be another relay's token."""
    return name.startswith(TOKEN)


class DeliveryNumbers:
    """Numbers for the deliveries of one client, from 1 on, in their order, as a reader of the journal counts them."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 1

    def give(self, many: int = 1) -> int:
        """Return the first of `many` consecutive unused numbers."""
        first = self._next
        self._next += many
        return first


class TakenPositions(Sized, Iterable[int], Protocol):
    """Pending positions that an ACK settled."""


class BrokerConnection:
    """A broker's connection, as far as deliveries are concerned: `lost` once it has ended."""

    __slots__ = ("lost",)

    def __init__(self) -> None:
        self.lost = False


class Delivery:
    """A MESSAGE that needs an ACK, by the broker's names. `token` is our name for it, `position` its place in
    `unsettled`.

    `tokened`, `hidden`: the client got the token in place of the `ack` value, or of the message-id. `lost`: its broker
    was lost and awaits no ACK. `gone`: it was settled for good, or forgotten.
    """

    __slots__ = (
        "_connection",
        "ack",
        "gone",
        "hidden",
        "message_id",
        "order",
        "position",
        "tokened",
        "unsettled",
    )

    def __init__(
        self,
        unsettled: "UnsettledDeliveries",
        message_id: bytes,
        ack: bytes | None,
        order: int,
        connection: BrokerConnection,
        *,
        tokened: bool,
        hidden: bool = False,
    ) -> None:
        self.unsettled = unsettled
        self.message_id = message_id
        self.ack = ack
        self.order = order
        self.tokened = tokened
        self.hidden = hidden
        self.gone = False
        self._connection = connection
        self.position = unsettled.add(self, connection)

    @property
    def subscription(self) -> Subscription:
        """Its subscription."""
        return self.unsettled.subscription

    @property
    def lost(self) -> bool:
        """Whether the connection of the broker that it came from has ended."""
        return self._connection.lost

    @property
    def pending(self) -> bool:
        """Whether it awaits its ACK. A delivery that is neither pending nor `gone` was acknowledged in an open
        transaction.
        """
        return not self.gone and self.unsettled.awaits(self.position)

    @property
    def rank(self) -> int:
        """The rank of its name in ACKs, lowest first: 1 for an ended subscription, 2 for a lost broker, or 0."""
        return 2 if self._connection.lost else 0 if self.unsettled.subscription.open else 1

    @property
    def token(self) -> bytes:
        """Our name for it in the client's ACK: on 1.2 without an `ack` value, or where its name is taken."""
        return TOKEN + b"%d" % self.order

    def move(self, unsettled: "UnsettledDeliveries") -> None:
        """Move a pending delivery from its account to another one."""
        self.unsettled.remove(self.position)
        self.unsettled = unsettled
        self.position = unsettled.add(self, self._connection)


class UnsettledDeliveries(ABC):
    """The deliveries of one subscription that are pending or were acknowledged in open transactions, by position. What
    an ACK takes is either forgotten (`release`), or held for its transaction and perhaps given back (`give_back`).
    """

    __slots__ = ("_again", "_connection", "_deliveries", "_live_from", "_next", "_room", "subscription")

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self._deliveries: dict[int, Delivery] = {}
        self._next = 0
        self._connection = BrokerConnection()
        self._live_from = 0
        self._again: list[tuple[Delivery, Callable[[Delivery], None]]] = []
        self._room = 16

    @property
    def empty(self) -> bool:
        """Whether there are none, pending or held."""
        return not self._deliveries

    @property
    def live(self) -> int:
        """The number of pending ones whose broker awaits an ACK."""
        return self.pending - self.lost

    @property
    def live_from(self) -> int:
        """The first position whose broker is not lost: all pending ones before it are lost, none after it is."""
        return self._next if self._connection.lost else self._live_from

    def __getitem__(self, position: int) -> Delivery:
        return self._deliveries[position]

    def add(self, delivery: Delivery, connection: BrokerConnection) -> int:
        """Add a delivery that came on this connection, the newest; return its position."""
        position = self._next
        if connection is not self._connection:
            self._connection = connection
            self._live_from = position
        self._next = position + 1
        self._deliveries[position] = delivery
        self._append(position)
        return position

    def remove(self, position: int) -> None:
        """Remove the one at this position, which is pending."""
        self._take_out(position)
        del self._deliveries[position]

    def take_all(self) -> TakenPositions:
        """Take all pending ones."""
        return self.take_below(self._next)

    def release(self, taken: TakenPositions) -> Iterator[Delivery]:
        """Forget what was taken, and yield it. Exhaust the iterator."""
        for position in taken:
            yield self._deliveries.pop(position)

    def call_again(self, delivery: Delivery, again: Callable[[Delivery], None]) -> None:
        """Call `again` with a held delivery when held deliveries are given back, unless it is gone by then."""
        self._again.append((delivery, again))
        if len(self._again) > self._room:
            self._again = [each for each in self._again if not each[0].gone]
            self._room = 2 * len(self._again) + 16

    def give_back(self, taken: TakenPositions) -> None:
        """Make these pending again, in their old order."""
        self._put_back(taken)
        waiting, self._again = self._again, []
        for delivery, again in waiting:
            if not delivery.gone:
                again(delivery)

    @property
    @abstractmethod
    def pending(self) -> int:
        """The number of deliveries that await their ACK."""

    @property
    @abstractmethod
    def lost(self) -> int:
        """The number of pending ones whose broker was lost."""

    @abstractmethod
    def awaits(self, position: int) -> bool:
        """Whether the delivery at this position is pending."""

    @abstractmethod
    def take(self, position: int) -> TakenPositions:
        """Take what an ACK of this position covers: this delivery, and others as the subscription's mode says."""

    @abstractmethod
    def take_below(self, position: int) -> TakenPositions:
        """Take all pending ones below a position."""

    @abstractmethod
    def lost_among(self, taken: TakenPositions) -> int:
        """Return how many of these are lost."""

    @abstractmethod
    def _append(self, position: int) -> None: ...

    @abstractmethod
    def _take_out(self, position: int) -> None: ...

    @abstractmethod
    def _put_back(self, taken: TakenPositions) -> None: ...


class Individual(UnsettledDeliveries):
    """The deliveries of a subscription in which an ACK is for one delivery."""

    __slots__ = ("_live", "_pending")

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self._pending: set[int] = set()
        self._live = 0  # of the newest connection

    @property
    def pending(self) -> int:
        """The number of deliveries that await their ACK."""
        return len(self._pending)

    @property
    def lost(self) -> int:
        """The number of pending ones whose broker was lost."""
        return len(self._pending) - (0 if self._connection.lost else self._live)

    def awaits(self, position: int) -> bool:
        """Whether the delivery at this position is pending."""
        return position in self._pending

    def take(self, position: int) -> TakenPositions:
        """Take the one at this position."""
        self._take_out(position)
        return (position,)

    def take_below(self, position: int) -> TakenPositions:
        """Take all pending ones below a position. Looks at every pending one."""
        taken = [each for each in self._pending if each < position]
        self._pending.difference_update(taken)
        self._live -= sum(each >= self._live_from for each in taken)
        return taken

    def lost_among(self, taken: TakenPositions) -> int:
        """Return how many of these are lost."""
        return sum(each < self.live_from for each in taken)

    def _append(self, position: int) -> None:
        if position == self._live_from:
            self._live = 0
        self._live += 1
        self._pending.add(position)

    def _take_out(self, position: int) -> None:
        self._pending.remove(position)
        self._live -= position >= self._live_from

    def _put_back(self, taken: TakenPositions) -> None:
        self._live += sum(each >= self._live_from for each in taken)
        self._pending.update(taken)


class Cumulative(UnsettledDeliveries):
    """The deliveries of a subscription in which an ACK covers all earlier ones, too: it takes one piece."""

    __slots__ = ("_pending",)

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self._pending = Positions()

    @property
    def pending(self) -> int:
        """The number of deliveries that await their ACK."""
        return len(self._pending)

    @property
    def lost(self) -> int:
        """The number of pending ones whose broker was lost."""
        return self._pending.below(self.live_from)

    def awaits(self, position: int) -> bool:
        """Whether the delivery at this position is pending."""
        return position in self._pending

    def take(self, position: int) -> TakenPositions:
        """Take the one at this position and all before it."""
        return self._pending.take_below(position + 1)

    def take_below(self, position: int) -> TakenPositions:
        """Take all pending ones below a position."""
        return self._pending.take_below(position)

    def lost_among(self, taken: TakenPositions) -> int:
        """Return how many of these are lost."""
        assert isinstance(taken, Positions)
        return taken.below(self.live_from)

    def latest(self, order: int) -> Delivery | None:
        """Return the last pending delivery with a number below `order`; None without one."""
        last = self._pending.last(lambda position: self._deliveries[position].order < order)
        return None if last is None else self._deliveries[last]

    def _append(self, position: int) -> None:
        self._pending.append(position)

    def _take_out(self, position: int) -> None:
        self._pending.remove(position)

    def _put_back(self, taken: TakenPositions) -> None:
        assert isinstance(taken, Positions)
        self._pending.give(taken)


def unsettled(subscription: Subscription) -> UnsettledDeliveries:
    """Return a new account of a subscription's deliveries, as its mode wants it."""
    return Cumulative(subscription) if subscription.ack == CUMULATIVE else Individual(subscription)

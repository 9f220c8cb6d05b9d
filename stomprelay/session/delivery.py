"""Deliveries, which are MESSAGEs that await an ACK: one delivery, and all deliveries of a subscription."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Protocol, Self

from stomprelay.session.subscriptions import Subscription


class _Node:
    """A tree of positions: a run from `start` up to `stop` between two subtrees. `count`: the number of positions."""

    __slots__ = ("count", "height", "left", "right", "start", "stop")

    def __init__(self, left: "_Node | None", start: int, stop: int, right: "_Node | None") -> None:
        self.left = left
        self.start = start
        self.stop = stop
        self.right = right
        self.height = 1 + max(_height(left), _height(right))
        self.count = _count(left) + stop - start + _count(right)


_Tree = _Node | None


def _height(tree: _Tree) -> int:
    return 0 if tree is None else tree.height


def _count(tree: _Tree) -> int:
    return 0 if tree is None else tree.count


def _balanced(left: _Tree, start: int, stop: int, right: _Tree) -> _Node:
    """Return a tree of both trees and the run between them. The heights of the trees may differ by 2 at most."""
    if left is not None and left.height > _height(right) + 1:
        inner = left.right
        if inner is None or _height(left.left) >= inner.height:
            return _Node(left.left, left.start, left.stop, _Node(inner, start, stop, right))
        first = _Node(left.left, left.start, left.stop, inner.left)
        return _Node(first, inner.start, inner.stop, _Node(inner.right, start, stop, right))
    if right is not None and right.height > _height(left) + 1:
        inner = right.left
        if inner is None or _height(right.right) >= inner.height:
            return _Node(_Node(left, start, stop, inner), right.start, right.stop, right.right)
        last = _Node(inner.right, right.start, right.stop, right.right)
        return _Node(_Node(left, start, stop, inner.left), inner.start, inner.stop, last)
    return _Node(left, start, stop, right)


def _join(left: _Tree, start: int, stop: int, right: _Tree) -> _Node:
    """Return a tree of both trees and the run between them. The trees may have any heights."""
    if left is not None and left.height > _height(right) + 1:
        return _balanced(left.left, left.start, left.stop, _join(left.right, start, stop, right))
    if right is not None and right.height > _height(left) + 1:
        return _balanced(_join(left, start, stop, right.left), right.start, right.stop, right.right)
    return _Node(left, start, stop, right)


def _without_last(tree: _Node) -> tuple[_Tree, int, int]:
    """Return the tree without its last run; then the start and the stop of that run."""
    if tree.right is None:
        return tree.left, tree.start, tree.stop
    rest, start, stop = _without_last(tree.right)
    return _join(tree.left, tree.start, tree.stop, rest), start, stop


def _first(tree: _Node) -> int:
    while tree.left is not None:
        tree = tree.left
    return tree.start


def _concatenated(left: _Tree, right: _Tree) -> _Tree:
    """Return a tree of both trees. All positions of `left` must come first. Runs that touch become one run."""
    if left is None or right is None:
        return right if left is None else left
    rest, start, stop = _without_last(left)
    if _first(right) == stop:
        right = _extended(right, start)
        if rest is None:
            return right
        rest, start, stop = _without_last(rest)
    return _join(rest, start, stop, right)


def _extended(tree: _Node, start: int) -> _Node:
    """Return the tree with its first run extended back to `start`."""
    if tree.left is None:
        return _Node(None, start, tree.stop, tree.right)
    return _Node(_extended(tree.left, start), tree.start, tree.stop, tree.right)


def _split(tree: _Tree, at: int) -> tuple[_Tree, _Tree]:
    """Return a tree of the positions below `at`, and a tree of the positions from `at` on."""
    if tree is None:
        return None, None
    if at <= tree.start:
        below, rest = _split(tree.left, at)
        return below, _join(rest, tree.start, tree.stop, tree.right)
    if at >= tree.stop:
        below, rest = _split(tree.right, at)
        return _join(tree.left, tree.start, tree.stop, below), rest
    return _join(tree.left, tree.start, at, None), _join(None, at, tree.stop, tree.right)


@dataclass(slots=True, eq=False, repr=False)
class Positions:
    """A set of positions, kept as runs. Calls take logarithmic time; iteration and `give` may take longer."""

    _tree: _Tree = None

    def __len__(self) -> int:
        return _count(self._tree)

    def __contains__(self, position: int) -> bool:
        tree = self._tree
        while tree is not None:
            if position < tree.start:
                tree = tree.left
            elif position >= tree.stop:
                tree = tree.right
            else:
                return True
        return False

    def __iter__(self) -> Iterator[int]:
        waiting: list[_Node] = []
        tree = self._tree
        while waiting or tree is not None:
            while tree is not None:
                waiting.append(tree)
                tree = tree.left
            tree = waiting.pop()
            yield from range(tree.start, tree.stop)
            tree = tree.right

    def add(self, position: int) -> None:
        """Add a position that is higher than all others."""
        self._tree = _concatenated(self._tree, _Node(None, position, position + 1, None))

    def take_below(self, at: int) -> Self:
        """Remove the positions below `at`, and return them."""
        below, self._tree = _split(self._tree, at)
        return type(self)(below)

    def remove(self, position: int) -> None:
        """Remove one position from the set."""
        below = self.take_below(position)
        self.take_below(position + 1)
        self.give(below)

    def give(self, taken: Self) -> None:
        """Add the positions of `taken`, which is empty afterwards."""
        done: _Tree = None
        one, other = self._tree, taken._tree
        while one is not None and other is not None:
            if _first(other) < _first(one):
                one, other = other, one
            head, one = _split(one, _first(other))
            done = _concatenated(done, head)
        self._tree = _concatenated(done, other if one is None else one)
        taken._tree = None

    def below(self, at: int) -> int:
        """Return how many positions are below `at`."""
        count, tree = 0, self._tree
        while tree is not None:
            if at <= tree.start:
                tree = tree.left
            else:
                count += _count(tree.left) + min(at, tree.stop) - tree.start
                tree = tree.right
        return count

    def last(self, fits: Callable[[int], bool]) -> int | None:
        """Return the last position for which `fits` is true, or None. If `fits` is true for a position, it must be
        true for all earlier positions.
        """
        found, tree = None, self._tree
        while tree is not None:
            if fits(tree.start):
                found, tree = tree, tree.right
            else:
                tree = tree.left
        if found is None:
            return None
        start, stop = found.start, found.stop
        while stop - start > 1:
            middle = (start + stop) // 2
            start, stop = (middle, stop) if fits(middle) else (start, middle)
        return start


TOKEN: Final = b"relay-ack-"
"""The first part of each token of ours; a number follows."""
THING: Final = 512
"""The bytes that a kept delivery or name costs in addition to its text: its objects, and its entries in tables."""


def is_token(name: bytes) -> bool:
    """Whether the name of a delivery has the form of a token of ours. The token may be one of another relay."""
    return name.startswith(TOKEN)


@dataclass(slots=True, eq=False, repr=False)
class DeliveryNumbers:
    """Numbers the deliveries of one client 1, 2, 3 and so on. A reader of the journal numbers them in the same way."""

    _next: int = 1

    def give(self, many: int = 1) -> int:
        """Return the first of `many` consecutive unused numbers."""
        first = self._next
        self._next += many
        return first


class TakenPositions(Sized, Iterable[int], Protocol):
    """The positions of pending deliveries that an ACK settled."""


@dataclass(slots=True, eq=False, repr=False)
class BrokerConnection:
    """The state of a broker's connection, shared by its deliveries. `lost`: the connection has ended."""

    lost: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """A MESSAGE that needs an ACK. `message_id` and `ack` are the broker's names for the delivery, `token` is the
    relay's. `order`: its number. `position`: its place in `unsettled`.

    `tokened`: the client got the token in place of the `ack` value. `hidden`: the client got the token in place of the
    message-id. `lost`: the broker was lost and awaits no ACK. `gone`: the delivery was settled for good, or forgotten.
    `covers`: the `message_id` and `ack` of a later MESSAGE, which the client did not get: an ACK of this delivery names
    that one to the broker, and so settles both.
    """

    unsettled: "UnsettledDeliveries"
    message_id: bytes
    ack: bytes | None
    order: int
    _connection: BrokerConnection
    _: KW_ONLY
    tokened: bool
    hidden: bool = False
    gone: bool = False
    covers: tuple[bytes, bytes | None] | None = None
    position: int = field(init=False)

    def __post_init__(self) -> None:
        self.position = self.unsettled.add(self, self._connection)

    @property
    def subscription(self) -> Subscription:
        """The subscription of the delivery."""
        return self.unsettled.subscription

    @property
    def lost(self) -> bool:
        """Whether the connection that the delivery came from has ended."""
        return self._connection.lost

    @property
    def pending(self) -> bool:
        """Whether the delivery awaits its ACK. Otherwise it is `gone`, or was acknowledged in an open transaction."""
        return not self.gone and self.unsettled.awaits(self.position)

    @property
    def rank(self) -> int:
        """2 if the broker was lost, else 1 if the subscription ended, else 0. An ACK is for the lowest rank."""
        return 2 if self._connection.lost else 0 if self.unsettled.subscription.open else 1

    @property
    def token(self) -> bytes:
        """The relay's own name for the delivery. The client gets it if the broker's name is missing or taken."""
        return TOKEN + b"%d" % self.order

    def move(self, unsettled: "UnsettledDeliveries") -> None:
        """Move this pending delivery to another account."""
        self.unsettled.remove(self.position)
        self.unsettled = unsettled
        self.position = unsettled.add(self, self._connection)


@dataclass(slots=True, eq=False, repr=False)
class UnsettledDeliveries(ABC):
    """The deliveries of one subscription that are pending or were acknowledged in open transactions, by position.
    `take` returns the positions that an ACK settles. Next, the caller calls `release` with these positions. If the ACK
    is in a transaction, the caller does so at COMMIT; at ABORT the caller calls `give_back`.
    """

    subscription: Subscription
    _pending: set[int] | Positions = field(init=False)
    _deliveries: dict[int, Delivery] = field(default_factory=dict)
    _next: int = 0
    _connection: BrokerConnection = field(default_factory=BrokerConnection)
    _live_from: int = 0
    _again: list[tuple[Delivery, Callable[[Delivery], None]]] = field(default_factory=list)
    _room: int = 16

    @property
    def empty(self) -> bool:
        """Whether there is no delivery, neither pending nor held by a transaction."""
        return not self._deliveries

    @property
    def live(self) -> int:
        """The number of pending deliveries whose broker awaits an ACK."""
        return self.pending - self.lost

    @property
    def live_from(self) -> int:
        """The first position whose broker is not lost. Pending deliveries are lost if they are before this position."""
        return self._next if self._connection.lost else self._live_from

    def __getitem__(self, position: int) -> Delivery:
        return self._deliveries[position]

    def add(self, delivery: Delivery, connection: BrokerConnection) -> int:
        """Add a delivery of this connection as the newest one. Return its position."""
        position = self._next
        if connection is not self._connection:
            self._connection = connection
            self._live_from = position
        self._next = position + 1
        self._deliveries[position] = delivery
        self._append(position)
        return position

    def remove(self, position: int) -> None:
        """Remove the pending delivery at this position."""
        self._take_out(position)
        del self._deliveries[position]

    def take_all(self) -> TakenPositions:
        """Take all pending deliveries, and return their positions."""
        return self.take_below(self._next)

    def release(self, taken: TakenPositions) -> Iterator[Delivery]:
        """Forget the deliveries at these positions, and yield them. The caller must exhaust the iterator."""
        for position in taken:
            yield self._deliveries.pop(position)

    def call_again(self, delivery: Delivery, again: Callable[[Delivery], None]) -> None:
        """Call `again` with this held delivery at the next `give_back`, unless the delivery is gone by then."""
        self._again.append((delivery, again))
        if len(self._again) > self._room:
            self._again = [each for each in self._again if not each[0].gone]
            self._room = 2 * len(self._again) + 16

    def give_back(self, taken: TakenPositions) -> None:
        """Make the deliveries at these positions pending again, in their old order."""
        self._put_back(taken)
        waiting, self._again = self._again, []
        for delivery, again in waiting:
            if not delivery.gone:
                again(delivery)

    @property
    def pending(self) -> int:
        """The number of deliveries that await their ACK."""
        return len(self._pending)

    def awaits(self, position: int) -> bool:
        """Whether the delivery at this position is pending."""
        return position in self._pending

    @property
    @abstractmethod
    def lost(self) -> int:
        """The number of pending deliveries whose broker was lost."""

    @abstractmethod
    def take(self, position: int) -> TakenPositions:
        """Take the delivery at this position, and earlier ones if ACKs are cumulative. Return the taken positions."""

    @abstractmethod
    def take_below(self, position: int) -> TakenPositions:
        """Take all pending deliveries below a position."""

    @abstractmethod
    def lost_among(self, taken: TakenPositions) -> int:
        """Return how many of the deliveries at these positions are lost."""

    def _append(self, position: int) -> None:
        self._pending.add(position)

    def _take_out(self, position: int) -> None:
        self._pending.remove(position)

    @abstractmethod
    def _put_back(self, taken: TakenPositions) -> None: ...


@dataclass(slots=True, eq=False, repr=False)
class Individual(UnsettledDeliveries):
    """The deliveries of a subscription on which each ACK settles one delivery."""

    _pending: set[int] = field(default_factory=set)
    _live: int = 0  # of the newest connection

    @property
    def lost(self) -> int:
        """The number of pending deliveries whose broker was lost."""
        return len(self._pending) - (0 if self._connection.lost else self._live)

    def take(self, position: int) -> TakenPositions:
        """Take the delivery at this position."""
        self._take_out(position)
        return (position,)

    def take_below(self, position: int) -> TakenPositions:
        """Take all pending deliveries below a position. The time grows with the number of pending deliveries."""
        taken = [each for each in self._pending if each < position]
        self._pending.difference_update(taken)
        self._live -= sum(each >= self._live_from for each in taken)
        return taken

    def lost_among(self, taken: TakenPositions) -> int:
        """Return how many of the deliveries at these positions are lost."""
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


@dataclass(slots=True, eq=False, repr=False)
class Cumulative(UnsettledDeliveries):
    """The deliveries of a subscription on which an ACK also settles all earlier deliveries."""

    _pending: Positions = field(default_factory=Positions)

    @property
    def lost(self) -> int:
        """The number of pending deliveries whose broker was lost."""
        return self._pending.below(self.live_from)

    def take(self, position: int) -> TakenPositions:
        """Take the delivery at this position and all earlier ones."""
        return self._pending.take_below(position + 1)

    def take_below(self, position: int) -> TakenPositions:
        """Take all pending deliveries below a position."""
        return self._pending.take_below(position)

    def lost_among(self, taken: TakenPositions) -> int:
        """Return how many of the deliveries at these positions are lost."""
        assert isinstance(taken, Positions)
        return taken.below(self.live_from)

    def latest(self, order: int) -> Delivery | None:
        """Return the last pending delivery with a number below `order`; None if there is none."""
        last = self._pending.last(lambda position: self._deliveries[position].order < order)
        return None if last is None else self._deliveries[last]

    def _put_back(self, taken: TakenPositions) -> None:
        assert isinstance(taken, Positions)
        self._pending.give(taken)

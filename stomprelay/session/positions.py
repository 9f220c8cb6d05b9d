"""A set of positions in a sequence, kept as runs in balanced trees (AVL) whose nodes never change, so that a piece
which a cumulative ACK takes shares them.
"""

from collections.abc import Callable, Iterator
from typing import Self


class _Node:
    """A run from `start` up to `stop`, between two subtrees. `count`: all positions in the tree."""

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
    """Return a tree of both and the run between them; their heights may differ by 2 at most."""
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
    """Return a tree of both and the run between them, of any heights."""
    if left is not None and left.height > _height(right) + 1:
        return _balanced(left.left, left.start, left.stop, _join(left.right, start, stop, right))
    if right is not None and right.height > _height(left) + 1:
        return _balanced(_join(left, start, stop, right.left), right.start, right.stop, right.right)
    return _Node(left, start, stop, right)


def _without_last(tree: _Node) -> tuple[_Tree, int, int]:
    """Return the tree without its last run, and that run."""
    if tree.right is None:
        return tree.left, tree.start, tree.stop
    rest, start, stop = _without_last(tree.right)
    return _join(tree.left, tree.start, tree.stop, rest), start, stop


def _first(tree: _Node) -> int:
    while tree.left is not None:
        tree = tree.left
    return tree.start


def _concatenated(left: _Tree, right: _Tree) -> _Tree:
    """Return a tree of both; all of `left` is before `right`. Runs that touch become one."""
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
    """Return the tree with its first run beginning at `start` already."""
    if tree.left is None:
        return _Node(None, start, tree.stop, tree.right)
    return _Node(_extended(tree.left, start), tree.start, tree.stop, tree.right)


def _split(tree: _Tree, at: int) -> tuple[_Tree, _Tree]:
    """Return the positions below `at`, and the others."""
    if tree is None:
        return None, None
    if at <= tree.start:
        below, rest = _split(tree.left, at)
        return below, _join(rest, tree.start, tree.stop, tree.right)
    if at >= tree.stop:
        below, rest = _split(tree.right, at)
        return _join(tree.left, tree.start, tree.stop, below), rest
    return _join(tree.left, tree.start, at, None), _join(None, at, tree.stop, tree.right)


class Positions:
    """Positions in a sequence. Costs rise with the logarithm of the runs, but for iteration and a mixed `give`."""

    __slots__ = ("_tree",)

    def __init__(self, tree: _Tree = None) -> None:
        self._tree = tree

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

    def append(self, position: int) -> None:
        """Add a position behind all others."""
        self._tree = _concatenated(self._tree, _Node(None, position, position + 1, None))

    def take_below(self, at: int) -> Self:
        """Remove the positions below `at`, and return them."""
        below, self._tree = _split(self._tree, at)
        return type(self)(below)

    def remove(self, position: int) -> None:
        """Remove one position of the set."""
        below = self.take_below(position)
        self.take_below(position + 1)
        self.give(below)

    def give(self, taken: Self) -> None:
        """Add positions that were taken, which are left without any."""
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
        """Return how many of them are below `at`."""
        count, tree = 0, self._tree
        while tree is not None:
            if at <= tree.start:
                tree = tree.left
            else:
                count += _count(tree.left) + min(at, tree.stop) - tree.start
                tree = tree.right
        return count

    def last(self, fits: Callable[[int], bool]) -> int | None:
        """Return the last position for which `fits` is true, or None. If it is true for a position, it must be true for
        all before it.
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

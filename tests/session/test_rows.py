"""Rows under names, kept in Python and in C."""

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.session import recent
from stomprelay.session.recent import Row, joined, split

if recent.COMPILED is None:
    pytest.skip("not built, or not wanted", allow_module_level=True)


class Rows:
    """The model: rows of `width` values in order, unique by their values `first` up to `stop`."""

    def __init__(self, width: int, first: int, stop: int) -> None:
        self._width = width
        self._first = first
        self._stop = stop
        self._rows: dict[Row, tuple[int, Row]] = {}
        self._added = 0
        # Of each whose rows are covered what there is, in order.
        self._covered: dict[bytes, deque[Row]] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, text: bytes, covered: set[bytes]) -> bool:
        """Add the newest rows; `covered` ones go with later ones. Return False, and add none, where a name is taken."""
        rows = split(text, self._width)
        names = [row[self._first : self._stop] for row in rows]
        different = set(names)
        if len(different) < len(names) or not self._rows.keys().isdisjoint(different):
            return False
        for name, row in zip(names, rows, strict=True):
            self._added += 1
            self._rows[name] = self._added, row
            if row[0] in covered:
                self._covered.setdefault(row[0], deque()).append(name)
        self.size += len(text)
        return True

    def values(self, names: bytes, first: int, stop: int) -> bytes | None:
        """Return the values `first` up to `stop` of the rows of these names; None where `remove` may not find each."""
        wanted = split(names, self._stop - self._first)
        if not all(map(self._rows.__contains__, wanted)):
            return None
        found = [self._rows[name] for name in wanted]
        if self._covered and not all(one[0] < next[0] for one, next in pairwise(found)):
            return None
        if len(set(wanted)) < len(wanted) or stop > self._width:
            return None
        return joined([row[first:stop] for _, row in found])

    def remove(self, names: bytes) -> tuple[bool, set[bytes]]:
        """Remove the rows of these names and what they cover. Return whether each was found, and whose were."""
        found, whose = True, set[bytes]()
        for name in split(names, self._stop - self._first):
            numbered = self._rows.get(name)
            if numbered is None:
                found = False
                continue
            id = numbered[1][0]
            line = self._covered.get(id)
            covered = [name] if line is None else []
            if line is not None:
                whose.add(id)
                while not covered or covered[-1] != name:
                    covered.append(line.popleft())
                if not line:
                    del self._covered[id]
            self.size -= len(joined([self._rows.pop(each)[1] for each in covered]))
        return found, whose

    def take(self) -> bytes:
        """Remove all rows, and return them."""
        text = joined([row for _, row in self._rows.values()])
        self._rows, self._covered, self.size = {}, {}, 0
        return text


in_both = pytest.mark.parametrize("kind", [Rows, recent.COMPILED.Rows], ids=["model", "compiled"])
NOBODY = set[bytes]()


def row(number: int, whose: bytes = b"a") -> Row:
    """One of three values; its name is the last of them."""
    return whose, b"m-%d" % number, b"k-%d" % number


def names(*numbers: int) -> bytes:
    """What names these rows."""
    return joined([row(number)[2:] for number in numbers])


@in_both
@pytest.mark.parametrize("text", [b"a", b"a\n", b"a\nb\nc", b"a\nb\nc\nd\ne\n"], ids=repr)
def test_texts_that_are_none(kind: type[Rows], text: bytes) -> None:
    """Where the last LF is missing, or the last values of a row or a name, nothing is added."""
    it = kind(3, 1, 3)
    for taking in (lambda: it.add(text, NOBODY), lambda: it.remove(text), lambda: recent.ids_of(text, 3)):
        with pytest.raises(ValueError):  # noqa: PT011 - they say it in different words
            taking()
    assert len(it) == 0


WHOSE = b"a", b"bb", b""
NUMBERS = st.integers(0, 40)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(NUMBERS, max_size=5)),
    st.tuples(st.just("add next"), st.builds(range, st.integers(0, 30))),
    st.tuples(st.sampled_from(["remove", "values"]), st.lists(NUMBERS, max_size=5)),
    st.tuples(st.sampled_from(["remove", "values"]), st.builds(range, NUMBERS, NUMBERS)),
    st.tuples(st.just("take"), st.none()),
)


@given(
    steps=st.lists(STEPS, max_size=30),
    shape=st.sampled_from([(2, 1, 2), (2, 0, 2), (3, 1, 2), (3, 0, 2), (3, 2, 3)]),
    covered=st.sets(st.sampled_from(WHOSE)),
)
def test_both_do_alike(
    steps: list[tuple[str, list[int] | range | None]], shape: tuple[int, int, int], covered: set[bytes]
) -> None:
    """Whatever comes, in whatever order, they return the same and keep the same."""
    width, first, stop = shape
    one, other = Rows(*shape), recent.COMPILED.Rows(*shape)
    added = 0

    def texts(numbers: Iterable[int], start: int, end: int) -> bytes:
        return joined([row(number, WHOSE[number % 3])[start:end] for number in numbers])

    for step, what in steps:
        match step:
            case "take":
                assert one.take() == other.take()
            case "remove":
                text = texts(what or (), first, stop)
                assert one.remove(text) == other.remove(text)
            case "values":
                text = texts(what or (), first, stop)
                for start, end in ((0, 0), (0, 1), (1, 3)):
                    assert one.values(text, start, end) == other.values(text, start, end)
            case _:
                numbers = list(what or ())
                if step == "add next":
                    numbers = [added + number for number in numbers]
                    added += len(numbers)
                text = texts(numbers, 0, width)
                assert {row[0] for row in split(text, width)} == recent.ids_of(text, width)
                assert one.add(text, covered) == other.add(text, covered)
        assert (len(one), one.size) == (len(other), other.size)
    assert one.take() == other.take()

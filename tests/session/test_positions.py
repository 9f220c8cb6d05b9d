"""Sets of positions, as runs in balanced trees."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.session.delivery import Positions, _height, _Tree

STEP = st.tuples(
    st.sampled_from(["append", "append", "skip", "take", "take", "give", "remove"]), st.integers(0, 40)
)


def runs(tree: _Tree) -> list[tuple[int, int]]:
    """The runs in order; no node's two sides differ by more than 1 in height."""
    if tree is None:
        return []
    assert abs(_height(tree.left) - _height(tree.right)) <= 1
    return [*runs(tree.left), (tree.start, tree.stop), *runs(tree.right)]


@given(steps=st.lists(STEP, max_size=60))
def test_they_are_a_set_in_order(steps: list[tuple[str, int]]) -> None:
    """Appended, taken and given back in any order, and asked everything after each step; runs are as long as can be."""
    positions, model, following = Positions(), set[int](), 0
    taken: list[tuple[Positions, set[int]]] = []
    for what, number in steps:
        if what == "append":
            positions.add(following)
            model.add(following)
        elif what == "take":
            piece, gone = positions.take_below(number), {each for each in model if each < number}
            assert (list(piece), len(piece)) == (sorted(gone), len(gone))
            model -= gone
            taken.append((piece, gone))
        elif what == "give" and taken:
            piece, back = taken.pop(number % len(taken))
            positions.give(piece)
            assert len(piece) == 0
            model |= back
        elif what == "remove" and model:
            positions.remove(sorted(model)[number % len(model)])
            model.remove(sorted(model)[number % len(model)])
        following += what in ("append", "skip")
        assert (list(positions), len(positions)) == (sorted(model), len(model))
        found = runs(positions._tree)
        assert all(one[1] < other[0] for one, other in pairwise(found))
        for at in range(following + 1):
            assert (at in positions) == (at in model)
            assert positions.below(at) == sum(each < at for each in model)
            assert positions.last(lambda each, at=at: each < at) == max(  # type: ignore[misc]
                (each for each in model if each < at), default=None
            )

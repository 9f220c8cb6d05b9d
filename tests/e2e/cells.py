"""A matrix of tests, of which every run takes a sample and `make test-deep` the rest."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import pytest


def sampled(cells: Sequence[Any], aspects: Callable[[Any], Iterable[Hashable]]) -> list[Any]:
    """Return a parameter of pytest for each cell, called by all that it stands for; those that show no aspect of their
    own are marked deep.

    An aspect is what a cell can show and others may show as well. Together the cells of the sample show all aspects
    of the matrix: the cell that adds most is taken next, the first one of equals.
    """
    left = {number: set(aspects(cell)) for number, cell in enumerate(cells)}
    taken: set[int] = set()
    while left:
        best = max(left, key=lambda number: len(left[number]))
        shown = left.pop(best)
        taken.add(best)
        left = {number: rest for number, each in left.items() if (rest := each - shown)}
    deep = (pytest.mark.deep,)
    return [
        pytest.param(
            cell,
            id="-".join(each if isinstance(each, str) else each.name for each in cell),
            marks=() if number in taken else deep,
        )
        for number, cell in enumerate(cells)
    ]

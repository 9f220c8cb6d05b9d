"""What is open, in slices: parts that are written once, of which a batch reads and writes anew only those it touches.

A slice has the open rows of `messages` with the state of each message. A batch looks up which keys it has rows for, or
the time of which is over; what else is in their slices is copied, and small slices become one.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

ROWS: Final = 20_000
"""Rows in a slice, about."""


class Slice(NamedTuple):
    """How many rows a slice has, up to when (ns) none of them changes by itself, and the hours of the rows."""

    rows: int
    due: int
    hours: list[str]


@dataclass
class Plan:
    """What a batch does with slices. `gone`: those that it reads, and whose place others take; `into`: the slice that
    the untouched rows of each go to; `fresh`: slices for the rows that the batch makes, one for each span of time from
    `since` on that is `span` ns long.
    """

    gone: dict[str, Slice] = field(default_factory=dict)
    into: dict[str, str] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    since: int = 0
    span: int = 1

    @property
    def made(self) -> list[str]:
        """Return the slices that this batch writes."""
        return sorted({*self.into.values(), *self.fresh})


def plan(
    name: str, known: Mapping[str, Slice], hits: Mapping[str, int], fresh: int, times: tuple[int, int]
) -> Plan:
    """Return what to do for a batch that touches so many rows of these slices, and makes about `fresh` rows with
    these times in ns, first and last. `name` begins the names of its slices.
    """
    found = Plan({each: known[each] for each in sorted(hits)})
    made, held = 0, 0
    for each, old in found.gone.items():
        left = max(old.rows - hits[each], 0)
        if held and held + left > ROWS:
            made, held = made + 1, 0
        found.into[each] = f"{name}-{made:04d}"
        held += left
    if found.gone and held + fresh > ROWS:
        made += 1
    many = -(-fresh // ROWS) or 1
    found.fresh = [f"{name}-{number:04d}" for number in range(made, made + many)]
    found.since = times[0]
    found.span = max(-(-(times[1] - times[0] + 1) // many), 1)
    return found


@dataclass(frozen=True)
class Touched:
    """Call it with rows of (hash, due, ...). It yields those of these hashes, and those that are due before `until`."""

    hashes: pa.Array
    until: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take and yield batches, as `mapInArrow` wants it."""
        for batch in batches:
            known = pc.is_in(batch.column(0), value_set=self.hashes)
            due = pc.less(batch.column(1), self.until)
            yield batch.filter(pc.or_kleene(known, due))


def dumped(slices: Mapping[str, Slice]) -> dict[str, Any]:
    """Return them as JSON can hold them."""
    return {name: list(each) for name, each in slices.items()}


def loaded(values: Mapping[str, Any]) -> dict[str, Slice]:
    """Return what `dumped` described."""
    return {name: Slice(*each) for name, each in values.items()}

"""Which destinations have a place, and that nothing is lost or counted twice; and how long things took."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.model.counters import (
    BOUNDS,
    CONNECT,
    FORMER,
    PLACES,
    DestinationCounts,
    DestinationTally,
    Histogram,
    Times,
)

ONE = DestinationTally(sends=1, send_bytes=100)
steps = st.lists(
    st.one_of(st.none(), st.tuples(st.integers(0, 3 * PLACES), st.integers(1, 50), st.booleans())),
    max_size=300,
)
"""A turn, or a destination by number, how often, and whether it is sent to or delivered from."""


def total(table: DestinationCounts) -> DestinationTally:
    """All that it has, wherever."""
    found = table.other
    for tally in (*table.shown.values(), *table.former.values()):
        found = found.plus(tally)
    return found


def full() -> DestinationCounts:
    """A table whose places are taken, each by who is sent to twice."""
    table = DestinationCounts()
    for number in range(PLACES):
        table.count(b"/queue/%d" % number, DestinationTally(sends=2, send_bytes=200))
    return table


@given(st.integers(0, PLACES), steps)
def test_nothing_is_lost_and_nothing_falls(first: int, said: list[tuple[int, int, bool] | None]) -> None:
    """What is counted is there, once; no more have a place than there are; and no count of a name ever falls."""
    table, counted = DestinationCounts(), DestinationTally()
    for number in range(first):
        table.count(b"/first/%d" % number, ONE)
        counted = counted.plus(ONE)
    known: dict[bytes, DestinationTally] = {}
    other = table.other
    for step in said:
        if step is None:
            table.turn()
        else:
            number, times, sent = step
            more = DestinationTally(times, 10 * times) if sent else DestinationTally(0, 0, times, 10 * times)
            table.count(b"/queue/%d" % number, more)
            counted = counted.plus(more)
        assert len(table.shown) <= PLACES
        assert all(now >= before for now, before in zip(table.other, other, strict=True))
        for name, tally in table.shown.items():
            assert all(now >= before for now, before in zip(tally, known.get(name, tally), strict=True))
            known[name] = tally
        other = table.other
    assert total(table) == counted


def test_places_that_change_all_the_time() -> None:
    """Of those that had one so many are remembered, and no more."""
    table = full()
    for turn in range(2 * FORMER):
        name = b"/queue/of/a/minute/%d" % turn
        for each in range(3):
            table.count(b"%b/%d" % (name, each), DestinationTally(sends=10 ** turn.bit_length()))
        table.turn()
    assert len(table.former) == FORMER
    assert len(table.shown) == PLACES


@pytest.mark.parametrize(
    ("seconds", "at"),
    [
        (0.0, 0),
        (-1.0, 0),
        (0.0001, 0),
        (0.00011, 1),
        (0.3, BOUNDS.index(0.5)),
        (60.0, -2),
        (60.1, -1),
        (1e9, -1),
    ],
)
def test_a_time_is_in_one_class(seconds: float, at: int) -> None:
    """In the first that is not smaller; the last is for all that took longer, the first for a clock that went back."""
    found = Histogram()
    found.record(seconds)
    assert found.counts[at] == found.count == 1
    assert len(found.counts) == len(BOUNDS) + 1
    assert found.sum == max(seconds, 0.0)


def test_times_of_each_name_and_label() -> None:
    """A histogram is there from the first time on."""
    times = Times()
    times.record(CONNECT, "public", 0.5)
    times.record(CONNECT, "public", 1.5)
    times.record(CONNECT, "inner", 0.5)
    assert {key: (found.count, found.sum) for key, found in times.items()} == {
        (CONNECT, "public"): (2, 2.0),
        (CONNECT, "inner"): (1, 0.5),
    }

"""How long things took: each time is in one class, and the sum is of all."""

import pytest

from stomprelay.relay.model.counters import BOUNDS, CONNECT, Histogram, Times


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

"""Segments in the order of their numbers, and how far all relays are."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.read.runs import Runs, Segment, number_of, run_of
from stomprelay.pipeline.settings import SECOND, TimeLimits

TERMS = TimeLimits(patience=600 * SECOND)


def _segment(number: int, begins: float, ends: float, run: str = "a", *, ended: bool = False) -> Segment:
    """Times in seconds."""
    name = f"20261121T082300-my-relay-{run * 8}-{number:06d}"
    return Segment(name, number, round(begins * SECOND), round(ends * SECOND), ended)


def _numbers(segments: list[Segment]) -> list[int]:
    return [number_of(each.name) for each in segments]


def test_names() -> None:
    """A relay's name may have dashes; what is no name has no number."""
    assert run_of(_segment(12, 0, 0).name) == "my-relay-aaaaaaaa"
    assert (number_of(_segment(12, 0, 0).name), number_of("x")) == (12, 0)


def test_in_order() -> None:
    """A segment that is ahead of a missing one waits until that is there."""
    runs = Runs(TERMS)
    assert _numbers(runs.arrived([_segment(2, 10, 20), _segment(1, 0, 10)])) == [1, 2]
    assert _numbers(runs.arrived([_segment(4, 30, 40)])) == []
    assert runs.until == 20 * SECOND
    runs = Runs.load(runs.dump(), TERMS)
    assert _numbers(runs.arrived([_segment(5, 40, 50), _segment(3, 20, 30)])) == [3, 4, 5]
    assert (runs.until, runs.horizon) == (50 * SECOND, 50 * SECOND)


def test_a_missing_segment_is_not_waited_for_for_ever() -> None:
    """After `patience` of journal time those behind it are read, and later the missing one, too late as it is."""
    runs = Runs(TERMS)
    assert _numbers(runs.arrived([_segment(7, 0, 10)])) == []
    assert _numbers(runs.arrived([_segment(9, 20, 600)])) == []
    assert _numbers(runs.arrived([_segment(10, 600, 620)])) == [7]
    assert _numbers(runs.arrived([_segment(11, 620, 621)])) == [9, 10, 11]
    assert _numbers(runs.arrived([_segment(8, 10, 20)])) == [8]
    assert runs.until == 621 * SECOND


def test_a_segment_of_which_nothing_can_be_read() -> None:
    """It is no gap."""
    runs = Runs(TERMS)
    bad = _segment(1, 0, 0)._replace(first_ns=None, newest_ns=None)
    assert _numbers(runs.arrived([bad, _segment(2, 5, 6)])) == [1, 2]


def test_a_run_that_is_forgotten() -> None:
    """After a day without a record; that batch is told up to when it had been read, no other."""
    day = 24 * 3600
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 10), _segment(1, 0, 20, "b")])
    runs = Runs.load(runs.dump(), TERMS)
    runs.arrived([_segment(2, day, day + 15, "b")])
    assert (len(runs.newest), runs.gone) == (1, {"my-relay-aaaaaaaa": 10 * SECOND})
    runs = Runs.load(runs.dump(), TERMS)
    runs.arrived([_segment(3, day + 15, day + 20, "b")])
    assert (len(runs.newest), runs.gone) == (1, {})


def test_several_relays() -> None:
    """All have been read up to where the one that is behind is; not if it ended, or is too far behind."""
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 10), _segment(1, 0, 50, "b")])
    assert (runs.until, runs.present) == (
        10 * SECOND,
        frozenset({"my-relay-aaaaaaaa", "my-relay-bbbbbbbb"}),
    )
    runs.arrived([_segment(2, 10, 20, ended=True)])
    assert runs.until == 50 * SECOND
    runs.arrived([_segment(1, 55, 60, "c"), _segment(2, 50, 70, "b")])
    assert runs.until == 60 * SECOND
    runs.arrived([_segment(3, 70, 1000, "b")])
    assert (runs.until, runs.present) == (1000 * SECOND, frozenset({"my-relay-bbbbbbbb"}))
    assert runs.newest["my-relay-cccccccc"] == 60 * SECOND


def test_a_relay_whose_first_segment_is_missing() -> None:
    """Nothing is for good that it may have something to say about."""
    runs = Runs(TERMS)
    runs.arrived([_segment(2, 30, 40), _segment(1, 0, 50, "b")])
    assert runs.until == 30 * SECOND


def test_what_was_read_stays_read() -> None:
    """A relay that comes late does not turn time back; one that is silent for days is forgotten."""
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 100)])
    runs.arrived([_segment(1, 0, 50, "b")])
    assert runs.until == 100 * SECOND
    runs.arrived([_segment(2, 100, 100_000)])
    assert set(runs.newest) == {"my-relay-aaaaaaaa"}


@given(order=st.permutations(range(1, 9)), data=st.data())
def test_any_order_in_any_batches(order: list[int], data: st.DataObject) -> None:
    """All are read, in their order."""
    runs = Runs(TERMS)
    read: list[int] = []
    while order:
        count = data.draw(st.integers(1, len(order)))
        read += _numbers(runs.arrived([_segment(each, each, each + 1) for each in order[:count]]))
        order = order[count:]
        runs = Runs.load(runs.dump(), TERMS)
    assert read == list(range(1, 9))
    assert runs.until == 9 * SECOND

"""Segments in the order of their numbers, and how far all relays are."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.read.runs import RunGap, Runs, Segment, number_of, run_of
from stomprelay.pipeline.settings import SECOND, TimeLimits

TERMS = TimeLimits(patience=600 * SECOND)
A, B = f"my-relay-{'a' * 8}", f"my-relay-{'b' * 8}"


def _segment(number: int, begins: float, ends: float, run: str = "a", *, ended: bool = False) -> Segment:
    """Times in seconds."""
    name = f"20261121T082300-my-relay-{run * 8}-{number:06d}"
    return Segment(name, number, round(begins * SECOND), round(ends * SECOND), ended)


def _numbers(segments: list[Segment]) -> list[int]:
    return [number_of(each.name) for each in segments]


def test_a_missing_segment_is_not_waited_for_for_ever() -> None:
    """After `patience` of journal time those behind it are read, and later the missing one, too late as it is."""
    runs = Runs(TERMS)
    assert _numbers(runs.arrived([_segment(7, 0, 10)])) == []
    assert _numbers(runs.arrived([_segment(9, 20, 600)])) == []
    assert _numbers(runs.arrived([_segment(10, 600, 620)])) == [7]
    assert _numbers(runs.arrived([_segment(11, 620, 621)])) == [9, 10, 11]
    assert _numbers(runs.arrived([_segment(8, 10, 20)])) == [8]
    assert runs.until == 621 * SECOND


def _marked(number: int, begins: int, ends: int, run: str = "a", *, ended: bool = False) -> Segment:
    """A row and a mark for each second."""
    marks = [(at, at * 100, (begins + at - 1) * SECOND) for at in range(1, ends - begins + 1)]
    return _segment(number, begins, ends, run, ended=ended)._replace(rows=ends - begins + 1, marks=marks)


def _parts(segments: list[Segment]) -> list[tuple[str, int, int, int, int]]:
    """Run, number, rows, and from which offset to which."""
    return [
        (run_of(each.name)[-1], number_of(each.name), each.rows, each.begin, each.end) for each in segments
    ]


def test_what_others_are_not_ready_for_waits() -> None:
    """A segment is used up to where others begin to have more, and a record more; its rest, when they have come."""
    runs = Runs(TERMS)
    assert _parts(runs.arrived([_marked(1, 0, 20), _marked(1, 5, 40, "b")], 12 * SECOND)) == [
        ("a", 1, 14, 0, 1400),
        ("b", 1, 9, 0, 900),
    ]
    assert (runs.until, runs.newest) == (12 * SECOND, {A: 13 * SECOND, B: 13 * SECOND})
    waiting = [(each.rows, each.begin, each.first_ns) for each in runs.waiting]
    assert waiting == [(7, 1400, 13 * SECOND), (27, 900, 13 * SECOND)]
    runs = Runs.load(runs.dump(), TERMS)
    assert runs.had(_segment(1, 0, 20).name)
    assert not runs.gaps
    found = runs.arrived([_marked(2, 20, 60, ended=True), _marked(1, 12, 30, "c")], 25 * SECOND)
    assert _parts(found) == [
        ("a", 1, 7, 1400, 0),
        ("a", 2, 7, 0, 700),
        ("b", 1, 13, 900, 2200),
        ("c", 1, 15, 0, 1500),
    ]
    assert A in runs.present
    runs = Runs.load(runs.dump(), TERMS)
    assert _parts(runs.arrived([_marked(2, 30, 31, "c")])) == [
        ("a", 2, 34, 700, 0),
        ("b", 1, 14, 2200, 0),
        ("c", 1, 4, 1500, 0),
        ("c", 2, 2, 0, 0),
    ]
    assert (runs.until, runs.waiting) == (31 * SECOND, [])
    assert runs.present == {B, "my-relay-cccccccc"}


def test_what_comes_after_all_that_is_read_waits_as_a_whole() -> None:
    """Though nobody knows where it could be parted; and nothing follows it before."""
    runs = Runs(TERMS)
    segments = [_segment(1, 0, 10), _segment(2, 11, 20), _segment(3, 9, 30)]
    assert _numbers(runs.arrived(segments, 10 * SECOND)) == [1]
    assert _numbers(runs.arrived([_segment(1, 10, 30, "b")])) == [2, 3, 1]
    assert runs.gaps == {}


def test_a_relay_that_was_found_dead_long_after() -> None:
    """Its end is no later than what is there and not read yet: neither are others over by it, nor is all final."""
    died = _segment(1, 0, 10, ended=True)._replace(found_ns=10**6 * SECOND)
    alive = _segment(1, 0, 30, "b")._replace(within_ns=60 * SECOND)
    for segments, until in (([died], 40), ([died, alive], 30)):
        runs = Runs(TERMS)
        runs.arrived(segments, 40 * SECOND)
        assert (runs.until, runs.horizon) == (until * SECOND, 40 * SECOND)
        runs = Runs.load(runs.dump(), TERMS)
        assert _numbers(runs.arrived([_segment(2, 30, 90, "b")])) == [2]
        assert runs.until == 10**6 * SECOND


def test_a_run_that_is_forgotten() -> None:
    """After a day without a record; that batch is told up to when it had been read, no other."""
    day = 24 * 3600
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 10), _segment(1, 0, 20, "b")])
    runs = Runs.load(runs.dump(), TERMS)
    runs.arrived([_segment(2, day, day + 15, "b")])
    assert (len(runs.newest), runs.gone) == (1, {A: 10 * SECOND})
    runs = Runs.load(runs.dump(), TERMS)
    runs.arrived([_segment(3, day + 15, day + 20, "b")])
    assert (len(runs.newest), runs.gone) == (1, {})


def test_several_relays() -> None:
    """All have been read up to where the one that is behind is; not if it ended, or is too far behind."""
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 10), _segment(1, 0, 50, "b")])
    assert (runs.until, runs.present) == (10 * SECOND, frozenset({A, B}))
    runs.arrived([_segment(2, 10, 20, ended=True)])
    assert runs.until == 50 * SECOND
    runs.arrived([_segment(1, 55, 60, "c"), _segment(2, 50, 70, "b")])
    assert runs.until == 60 * SECOND
    runs.arrived([_segment(3, 70, 1000, "b")])
    assert (runs.until, runs.present) == (1000 * SECOND, frozenset({B}))
    assert runs.newest["my-relay-cccccccc"] == 60 * SECOND


def test_what_was_read_stays_read() -> None:
    """A relay that comes late does not turn time back; nothing is for good that a missing first segment may change."""
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 100)])
    runs.arrived([_segment(1, 0, 50, "b")])
    assert runs.until == 100 * SECOND
    runs = Runs(TERMS)
    runs.arrived([_segment(2, 30, 40), _segment(1, 0, 50, "b")])
    assert runs.until == 30 * SECOND


def test_the_dead_are_not_waited_for() -> None:
    """A run is over where somebody found its relay gone; time goes on to when that was."""
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 10), _segment(1, 0, 50, "b")])
    assert runs.until == 10 * SECOND
    runs.arrived([_segment(2, 10, 20, ended=True)._replace(found_ns=80 * SECOND)])
    assert (runs.until, runs.horizon) == (50 * SECOND, 80 * SECOND)
    assert (runs.newest[A], runs.present) == (20 * SECOND, frozenset({B}))
    runs = Runs.load(runs.dump(), TERMS)
    runs.arrived([_segment(2, 50, 60, "b", ended=True)])
    assert runs.until == 80 * SECOND


def test_the_silent_are_not_waited_for() -> None:
    """A relay that breaks its promise to speak is taken for dead after twice as long and a minute, until it speaks."""
    runs = Runs(TERMS)
    promise = _segment(1, 0, 10)._replace(within_ns=20 * SECOND)
    runs.arrived([promise, _segment(1, 0, 110, "b")])
    assert (runs.until, runs.present) == (10 * SECOND, frozenset({A, B}))
    runs = Runs.load(runs.dump(), TERMS)
    runs.arrived([_segment(2, 110, 111, "b")])
    assert (runs.until, runs.present) == (111 * SECOND, frozenset({B}))
    assert _numbers(runs.arrived([_segment(2, 110, 112), _segment(3, 110, 120, "b")])) == [2, 3]
    assert (runs.until, runs.present) == (112 * SECOND, frozenset({A, B}))
    runs.arrived([_segment(4, 110, 600, "b")])
    assert runs.until == 600 * SECOND


def test_a_gap_in_a_run_that_is_over_keeps_nothing() -> None:
    """What follows is read at once, whether the relay ended, was found dead, or is silent."""
    runs = Runs(TERMS)
    assert _numbers(runs.arrived([_segment(1, 0, 1), _segment(3, 2, 3), _segment(5, 4, 5)])) == [1]
    assert runs.gaps == {A: [RunGap(2, 2, waits=True), RunGap(4, 4, waits=True)]}
    assert _numbers(runs.arrived([_segment(6, 5, 6, ended=True)])) == [3, 5, 6]
    assert runs.gaps == {A: [RunGap(2, 2), RunGap(4, 4)]}
    assert runs.until == 6 * SECOND
    runs = Runs(TERMS)
    waiting = [_segment(1, 0, 1), _segment(3, 2, 3)._replace(within_ns=SECOND)]
    assert _numbers(runs.arrived([*waiting, _segment(1, 64, 66, "b")])) == [1, 3, 1]


def test_gaps_are_told_as_they_change() -> None:
    """From the batch on that finds them; one filled in time is none any more, of a late one it is told what came."""
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 0, 1)])
    assert runs.gaps == {}
    runs.arrived([_segment(6, 5, 6)])
    assert (runs.gaps, runs.before(A)) == ({A: [RunGap(2, 5, waits=True)]}, [])
    runs = Runs.load(runs.dump(), TERMS)
    runs.arrived([_segment(1, 5, 6, "b")])
    assert runs.gaps == {}
    runs.arrived([_segment(number, number, number) for number in (2, 3, 4)])
    assert (runs.gaps, runs.before(A)) == ({A: [RunGap(5, 5, waits=True)]}, [RunGap(2, 5, waits=True)])
    runs.arrived([_segment(5, 5, 5)])
    assert runs.gaps == {A: []}
    runs.arrived([_segment(12, 6, 606)])
    runs.arrived([_segment(13, 607, 608)])
    assert runs.gaps == {A: [RunGap(7, 11)]}
    for number in (10, 8, 9):
        runs = Runs.load(runs.dump(), TERMS)
        assert _numbers(runs.arrived([_segment(number, 6, 7)])) == [number]
    assert runs.gaps == {A: [RunGap(7, 11, (8, 9, 10))]}


def test_a_segment_that_comes_twice() -> None:
    """Of several with one number the first is used, or that which could be read; so it is with one that came late."""
    runs = Runs(TERMS)
    bad = _segment(1, 0, 0)._replace(first_ns=None, newest_ns=None)
    again = _segment(1, 0, 1)._replace(name=f"20261121T082301-{A}-000001")
    assert runs.arrived([bad, again, _segment(1, 0, 2)]) == [again]
    assert (runs.had(bad.name), runs.had(_segment(2, 0, 0).name)) == (True, False)
    assert runs.arrived([_segment(1, 0, 3)]) == []
    assert _numbers(runs.arrived([_segment(3, 3, 4, ended=True)])) == [3]
    assert _numbers(runs.arrived([_segment(2, 2, 3), _segment(2, 2, 3)])) == [2]
    assert runs.arrived([_segment(2, 2, 3)]) == []


def test_what_is_told_of_each_run() -> None:
    """How it began and ended, and what it has, also of what waits for others; who is forgotten has a row of its own."""
    runs = Runs(TERMS)
    held = _segment(1, 0, 10)._replace(relay="my relay", rows=9, events=2, dropped=3)
    last = _segment(4, 10, 20, ended=True)._replace(relay="my relay", rows=1, events=1, cut=7)
    runs.arrived([held, _segment(1, 0, 30, "b", ended=True), _segment(1, 0, 1, "c"), last])
    silent = _segment(1, 10, 50, "d")._replace(within_ns=1)
    runs.arrived([silent, _segment(2, 50, 900, "e"), _segment(3, 0, 0, "e")])
    runs = Runs.load(runs.dump(), TERMS)
    rows = {name[-1]: row[1:] for name, row in runs.rows().items()}
    assert rows["a"] == (A, 0, 20 * SECOND, 20 * SECOND, "stopped", None, 2, 2, 7, 3, 3, 7)
    assert {each: (row[3] is None, row[4], row[7]) for each, row in rows.items()} == {
        "a": (False, "stopped", 2),
        "b": (False, "stopped", 0),
        "c": (True, "running", 0),
        "d": (True, "silent", 0),
        "e": (True, "running", 1),
    }
    runs.arrived([_segment(5, 901, 902, "e", ended=True)._replace(found_ns=90_000 * SECOND)])
    assert runs.rows() == {}
    assert runs.rows(gone=True)["my-relay-eeeeeeee"][4:7] == (902 * SECOND, "killed", 90_000 * SECOND)


def test_a_run_of_long_ago() -> None:
    """However often it is forgotten, the rest of it is not taken for a new one."""
    day = 24 * 3600
    runs = Runs(TERMS)
    runs.arrived([_segment(1, 10 * day, 10 * day + 1, "b")])
    for number in (1, 2, 3):
        runs = Runs.load(runs.dump(), TERMS)
        assert _numbers(runs.arrived([_segment(number, number, number)])) == [number]
        assert (runs.gone, runs.gaps) == ({A: number * SECOND}, {})
    runs.arrived([_segment(2, 10 * day, 12 * day, "b")])
    assert A not in runs.dump()


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

"""Which segments are a batch, and what is said of it."""

from pathlib import Path

from bench import batches
from bench.batches import FRAMES, One, Sizes, cut, judged, report


def test_batches_are_the_last_segments() -> None:
    """As many as have the frames of a batch; what is before is read at first."""
    segments = [(Path(f"{number}"), FRAMES // 2) for number in range(7)]
    before, found = cut(segments, 2)
    assert [path.name for path in before] == ["0", "1", "2"]
    assert [[path.name for path in batch] for batch in found] == [["3", "4"], ["5", "6"]]


def one(cpu: float, jobs: int = 9) -> One:
    """A batch that takes half as many seconds."""
    return One(10_000, cpu / 2, cpu, jobs, 1 << 20, 1 << 21)


def test_goals() -> None:
    """The first three against the last three; the most jobs."""
    found = [one(cpu) for cpu in (2.0, 9.0, 2.0, 3.0, 4.0, 3.0)]
    seconds, growth, jobs = judged(found, Sizes(batches=6))
    assert growth.found is not None
    assert growth.found.median == 1.5
    assert (seconds.met, growth.met, jobs.met) == (True, False, True)
    assert not judged([*found, one(2.0, 11)], Sizes())[2].met
    assert not any(each.met for each in judged([], Sizes()))


def test_each_batch_is_a_row() -> None:
    """And the first, the median and the last."""
    lines = [line.split() for line in report([one(2.0), one(3.0), one(1.0)], Sizes(1, 2, 3)).splitlines()]
    (last,) = (line for line in lines if line[:1] == ["last"])
    assert last == ["last", "10,000", "0.500", "1.00", "9", "1.00", "2.00"]
    assert ["median", "10,000", "1.00", "2.00", "9", "1.00", "2.00"] in lines
    assert [line[0] for line in lines if line[1:2] == ["10,000"]] == [
        "1",
        "2",
        "3",
        "first",
        "median",
        "last",
    ]


def test_what_a_run_says() -> None:
    """The line of a batch, whatever its numbers."""
    done = batches._DONE.match("batch 12: 1,003 segments, 1.2 GiB: 10,012 frames in 2.3 s, 4,353 frames/s")
    assert done is not None
    assert done.groups() == ("1,003", "10,012", "2.3")
    assert batches._DONE.match("batch 0: 1 segment, 7 B: 1 frame in 0.3 s, 3 frames/s; 1 row in quarantine")

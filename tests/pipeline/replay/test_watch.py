"""What a user sees of a replay."""

import io
import threading

import pytest

from stomprelay.pipeline.replay import watch
from stomprelay.pipeline.replay.watch import Watch


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Scene:
    """A clock and a count that are set by hand."""

    def __init__(self, out: io.StringIO, before: int = 0) -> None:
        self.now = 100.0
        self.confirmed = before
        self.watch = Watch(out, 2000, before, lambda: self.confirmed, lambda: self.now)


@pytest.mark.parametrize(
    ("confirmed", "seconds", "said"),
    [
        (0, 0, "0 of 2,000 messages confirmed"),
        (500, 5, "500 of 2,000 messages confirmed, 100/s, 15 s left"),
        (20, 40, "20 of 2,000 messages confirmed, 0/s, 66 min left"),
        (1, 60, "1 of 2,000 messages confirmed, 0/s, 33 h 19 min left"),
        (2000, 1, "2,000 of 2,000 messages confirmed, 2,000/s, 0 s left"),
    ],
)
def test_the_line(confirmed: int, seconds: float, said: str) -> None:
    """How many of how many, how fast, how long."""
    scene = Scene(io.StringIO())
    scene.confirmed = confirmed
    scene.now += seconds
    assert scene.watch.line() == said


def test_what_an_earlier_run_sent_is_no_speed_of_this_one() -> None:
    """The rate is that of messages confirmed since this run began."""
    scene = Scene(io.StringIO(), before=1000)
    scene.now += 10
    scene.confirmed = 1100
    assert scene.watch.line() == "1,100 of 2,000 messages confirmed, 10/s, 90 s left"


def test_elsewhere_lines_are_few() -> None:
    """A log has one every ten seconds."""
    out = io.StringIO()
    scene = Scene(out)
    for _ in range(25):
        scene.now += 1
        scene.watch.tick()
    assert out.getvalue() == "0 of 2,000 messages confirmed\n" * 2


def test_an_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once what goes on has ended, too: whoever interrupts stops that as well."""
    out = Terminal()
    stopped = threading.Event()
    ended = threading.Event()

    def interrupted() -> int:
        stopped.set()
        raise KeyboardInterrupt

    def work() -> None:
        stopped.wait(30)
        ended.set()

    monkeypatch.setattr(watch, "OFTEN", 0.001)
    with pytest.raises(KeyboardInterrupt):
        Watch(out, 2, 0, interrupted).follow(work)
    assert ended.is_set()

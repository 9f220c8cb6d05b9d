"""What the user sees."""

import io

import pytest

from stomprelay.pipeline import bar
from stomprelay.pipeline.follow.progress import ProgressLine


class Terminal(io.StringIO):
    """One that can go back to the start of a line."""

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> list[str]:
        """The lines as they look."""
        lines = []
        for line in self.getvalue().split("\n"):
            shown = ""
            for continuation in line.split("\r"):
                shown = continuation + shown[len(continuation) :]
            lines.append(shown.rstrip())
        return lines


class Clock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_terminal_shows_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar of the bytes of all that is planned, and one line that stays for each batch."""
    monkeypatch.setattr(bar, "AFTER", 0.0)
    out, clock = Terminal(), Clock()
    progress = ProgressLine(out, clock)
    progress.plan(30 << 20)
    progress.begin(3, 2, 10 << 20)
    assert out.screen[0].startswith("batch 3, frames:   0%|")
    clock.now += 8
    progress.end(2, 1000, 1)
    progress.tick()
    done = "1,000 frames in 8.0 s, 125 frames/s; 1 row in quarantine"
    assert out.screen == [f"batch 3: 2 segments, 10.0 MiB: {done}", ""]
    assert progress.summary() == f"2 segments, {done}: see table `quarantine`"
    with progress.working("joining small files", "hours") as shown:
        shown(1, 2)
    progress.begin(4, 1, 10 << 20)
    progress.step("messages")
    assert out.screen[1].startswith("batch 4, messages:  33%|")
    assert "| 10.0M/30.0M [00:00<" in out.screen[1]
    progress.close()
    assert out.screen[1] == ""


def test_a_file_gets_whole_lines_only() -> None:
    """As does a service's log."""
    out, clock = io.StringIO(), Clock()
    progress = ProgressLine(out, clock)
    progress.begin(0, 1, 100)
    progress.step("flow")
    progress.tick()
    assert out.getvalue() == ""
    clock.now += 1
    progress.end(1, 1, 0)
    assert out.getvalue() == "batch 0: 1 segment, 100 B: 1 frame in 1.0 s, 1 frames/s\n"
    assert progress.summary() == "1 segment, 1 frame in 1.0 s, 1 frames/s"


def test_nothing_new_is_told() -> None:
    """A run that finds nothing is no failure."""
    assert ProgressLine(io.StringIO()).summary() == "nothing new in the journal"

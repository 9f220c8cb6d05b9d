"""What the user sees."""

import io

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


def test_a_terminal_shows_what_goes_on() -> None:
    """One line that changes, and one that stays for each batch."""
    out, clock = Terminal(), Clock()
    progress = ProgressLine(out, clock)
    progress.begin(3, 2, 3 << 20)
    clock.now += 2
    progress.tick(1, 4)
    assert out.screen == ["batch 3: 2 segments, 3.0 MiB: frames 1/4, 2 s"]
    progress.step("messages")
    assert out.screen == ["batch 3: 2 segments, 3.0 MiB: messages, 2 s"]
    clock.now += 3
    progress.end(2, 1000, 1)
    progress.tick(1, 1)
    assert out.screen == [
        "batch 3: 2 segments, 3.0 MiB: 1,000 frames in 5.0 s, 200 frames/s; 1 row in quarantine",
        "",
    ]
    assert progress.summary() == (
        "2 segments, 1,000 frames in 5.0 s, 200 frames/s; 1 row in quarantine: see table `quarantine`"
    )


def test_a_file_gets_whole_lines_only() -> None:
    """As does a service's log."""
    out, clock = io.StringIO(), Clock()
    progress = ProgressLine(out, clock)
    progress.begin(0, 1, 100)
    progress.step("flow")
    progress.tick(1, 2)
    assert out.getvalue() == ""
    clock.now += 1
    progress.end(1, 1, 0)
    assert out.getvalue() == "batch 0: 1 segment, 100 B: 1 frame in 1.0 s, 1 frames/s\n"
    assert progress.summary() == "1 segment, 1 frame in 1.0 s, 1 frames/s"


def test_nothing_new_is_told() -> None:
    """A run that finds nothing is no failure."""
    assert ProgressLine(io.StringIO()).summary() == "nothing new in the journal"


def test_large_numbers_are_short() -> None:
    """Octets have units."""
    out = io.StringIO()
    progress = ProgressLine(out, Clock())
    progress.begin(0, 1, 5 << 30)
    progress.end(1, 0, 0)
    assert "5.0 GiB" in out.getvalue()

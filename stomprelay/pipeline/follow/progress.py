"""What a user sees while the pipeline works: one line that changes on a terminal, a line for each batch elsewhere."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Final, TextIO

_SHOWN: Final = 10
"""Sentences about what is missing that are shown for a batch, at most."""


class ProgressLine:
    """Call `begin`, `step` and `end` as a batch goes on, and `tick` every now and then, perhaps in another thread."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._out = out
        self._live = out.isatty()
        self._clock = clock
        self._began = clock()
        self._width = 0
        self._batch = ""
        self._step = ""
        self._since = self._began
        self.segments = self.frames = self.damages = self.batches = 0

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._wipe()
        self._out.write(f"{text}\n")
        self._out.flush()

    def begin(self, number: int, segments: int, octets: int) -> None:
        """Show that a batch begins. `octets`: the bytes of its segments."""
        self._batch = f"batch {number}: {_many(segments, 'segment')}, {_octets(octets)}"
        self._since = self._clock()
        self.step("frames")

    def step(self, name: str) -> None:
        """Set what the batch is working on: a table's name."""
        self._step = name
        self.tick()

    def end(self, segments: int, frames: int, damages: int, missing: Sequence[str] = ()) -> None:
        """Show that the batch is done, and count what it had for `summary`. `missing`: sentences about what is not
        there; of many the first are shown.
        """
        self.segments += segments
        self.frames += frames
        self.damages += damages
        self.batches += 1
        took = self._clock() - self._since
        line = f"{self._batch}: {_many(frames, 'frame')} in {took:.1f} s, {_rate(frames, took)}"
        if damages:
            line += f"; {_many(damages, 'row')} in quarantine"
        self._batch = ""
        self.say(line)
        for sentence in missing[:_SHOWN]:
            self.say(sentence)
        if len(missing) > _SHOWN:
            self.say(f"and {_many(len(missing) - _SHOWN, 'more stretch', 'es')}: see table `quarantine`")

    def tick(self, done: int = 0, total: int = 0) -> None:
        """On a terminal, redraw the line; Spark has finished `done` of `total` tasks."""
        if not (self._live and self._batch):
            return
        line = f"{self._batch}: {self._step}"
        if total:
            line += f" {done}/{total}"
        line += f", {self._clock() - self._since:.0f} s"
        self._wipe()
        self._out.write(line)
        self._out.flush()
        self._width = len(line)

    def summary(self) -> str:
        """Return a sentence about the whole run."""
        took = self._clock() - self._began
        if not self.batches:
            return "nothing new in the journal"
        text = (
            f"{_many(self.segments, 'segment')}, {_many(self.frames, 'frame')} in {took:.1f} s, "
            f"{_rate(self.frames, took)}"
        )
        if self.damages:
            text += f"; {_many(self.damages, 'row')} in quarantine: see table `quarantine`"
        return text

    def _wipe(self) -> None:
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._width = 0


def _many(count: int, noun: str, ending: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def _rate(frames: int, seconds: float) -> str:
    return f"{frames / max(seconds, 0.001):,.0f} frames/s"


def _octets(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"

"""What a user sees while the pipeline works: a line for each batch and, on a terminal, a bar."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO

from stomprelay.pipeline.bar import ProgressBar, many, octets

_SHOWN: Final = 10
"""At most so many sentences about missing frames and segments are shown for a batch."""


class ProgressLine:
    """Shows how far a run is. Call `begin`, `step` and `end` for each batch, and `tick` now and then, perhaps in
    another thread. The bar counts the bytes of the segments of batches that are done.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._out = out
        self._bar = ProgressBar(out, octets=True)
        self.say, self.close = self._bar.say, self._bar.end
        self._clock = clock
        self._began = clock()
        self._planned = self._through = self._octets = 0
        self._number = 0
        self._batch = ""
        self._step = ""
        self._since = self._began
        self.segments = self.frames = self.damages = self.batches = 0

    def plan(self, octets: int) -> None:
        """Set how many bytes of segments the next batches have to read."""
        self._planned, self._through = octets, 0
        self._bar.begin("", octets)

    def begin(self, number: int, segments: int, size: int) -> None:
        """Show that a batch begins. `size`: the bytes of its segments."""
        self._batch = f"batch {number}: {many(segments, 'segment')}, {octets(size)}"
        self._number, self._octets = number, size
        if self._through + size > self._planned:
            self.plan(size)
        self._since = self._clock()
        self.step("frames")

    def step(self, name: str) -> None:
        """Show the table that the batch works on now."""
        self._step = name
        self.tick()

    def end(self, segments: int, frames: int, damages: int, missing: Sequence[str] = ()) -> None:
        """Show that the batch is done. `missing` are sentences about gaps; at most `_SHOWN` of them are shown."""
        self.segments += segments
        self.frames += frames
        self.damages += damages
        self.batches += 1
        took = self._clock() - self._since
        line = f"{self._batch}: {many(frames, 'frame')} in {took:.1f} s, {_rate(frames, took)}"
        if damages:
            line += f"; {many(damages, 'row')} in quarantine"
        self._batch = ""
        self._through += self._octets
        self.say(line)
        for sentence in missing[:_SHOWN]:
            self.say(sentence)
        if len(missing) > _SHOWN:
            self.say(f"and {many(len(missing) - _SHOWN, 'more stretch', 'es')}: see table `quarantine`")

    def tick(self) -> None:
        """Draw the bar again, on a terminal."""
        if self._batch:
            self._bar.set(self._through, self._planned, f"batch {self._number}, {self._step}")
            self._bar.draw()

    @contextmanager
    def working(self, name: str, unit: str) -> Iterator[Callable[[int, int], None]]:
        """Show another bar in this context. Call the context's value with the done and the whole amount."""
        bar = ProgressBar(self._out, unit)
        self._bar.wipe()
        bar.begin(name)
        with bar.going():
            yield bar.set

    def summary(self) -> str:
        """Return a sentence about the whole run."""
        took = self._clock() - self._began
        if not self.batches:
            return "nothing new in the journal"
        text = (
            f"{many(self.segments, 'segment')}, {many(self.frames, 'frame')} in {took:.1f} s, "
            f"{_rate(self.frames, took)}"
        )
        if self.damages:
            text += f"; {many(self.damages, 'row')} in quarantine: see table `quarantine`"
        return text


def _rate(frames: int, seconds: float) -> str:
    return f"{frames / max(seconds, 0.001):,.0f} frames/s"

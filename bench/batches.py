"""One small batch after another, with many messages that nobody receives: what each costs, and whether that grows."""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from typing import Final

from bench import journals
from bench.goals import Judged
from bench.machine import family, started
from bench.pipeline import PipelineError
from bench.report import Goal, median, spread
from stomprelay.journal import segment
from stomprelay.journal.block import SIZES, Block

NAME: Final = "batches"
FRAMES: Final = 10_000
"""Frames and events of a batch, about."""
WARM: Final = 3
"""Batches before the first that counts: Java compiles what it has come to know."""
_RATE: Final = 5000.0
_AGE: Final = FRAMES / _RATE / 4
"""Seconds of the journal in which so many frames come, about four for a message."""
_SKEW: Final = 0.05
"""Seconds by which clocks of relays differ that are kept in step."""
_DONE: Final = re.compile(r"^batch \d+: ([\d,]+) segments?, .*: ([\d,]+) frames? in ([\d.]+) s")
_LAST: Final = 3
_TICKS: Final = os.sysconf("SC_CLK_TCK")

SECONDS: Final = Goal(3, at_most=True)
GROWTH: Final = Goal(1.2, at_most=True)
JOBS: Final = Goal(10, at_most=True)


@dataclass(frozen=True)
class Sizes:
    """`first`: records before all batches; `backlog`: messages that stay undelivered; `batches`: how many count."""

    first: int = 200_000
    backlog: int = 400_000
    batches: int = 25


QUICK: Final = Sizes(20_000, 40_000, 5)


@dataclass(frozen=True)
class One:
    """A batch: the seconds that the run says it took, the CPU seconds of all its processes, and Spark's jobs."""

    seconds: float
    cpu: float
    jobs: int


def measure(directory: Path, sizes: Sizes, note: Callable[[str], None]) -> list[One]:
    """Raises `PipelineError`."""
    place = directory / NAME
    try:
        return _measured(place, sizes, note)
    finally:
        rmtree(place, ignore_errors=True)


def _measured(place: Path, sizes: Sizes, note: Callable[[str], None]) -> list[One]:
    made, journal, events = place / "made", place / "journal", place / "events"
    for folder in (made, journal, events):
        folder.mkdir(parents=True)
    many = sizes.batches + WARM
    records = sizes.first + 2 * sizes.backlog + (many + 1) * FRAMES
    world = journals.World(
        records, runs=1, deaths=0, failovers=0, comings=0, nacked=0.0, backlog=sizes.backlog,
        rate=_RATE, age=_AGE, trace=False, skew=_SKEW,
    )  # fmt: skip
    journals.make(made, world)
    segments = [(path, _frames(path)) for path in sorted(made.iterdir())]
    before, (*batches, _) = cut(segments, many + 1)  # the last one is the end of all runs
    for path in before:
        path.rename(journal / path.name)
    with _Run(journal, place / "tables", events) as run:
        began = time.perf_counter()
        frames, _ = run.hear(len(before))
        note(f"batches: {frames:,} records before them took {time.perf_counter() - began:.0f} s")
        found = []
        times = []
        for batch in batches:
            before_batch = run.spent()
            times.append(time.time())
            for path in batch:
                path.rename(journal / path.name)
            _, seconds = run.hear(len(batch))
            found.append((seconds, run.spent() - before_batch))
        times.append(time.time())
    jobs = _jobs(events, times)
    return [One(*spent, count) for spent, count in zip(found, jobs, strict=True)][WARM:]


def cut(segments: Sequence[tuple[Path, int]], batches: int) -> tuple[list[Path], list[list[Path]]]:
    """Return the segments for the first load, and those of so many batches at the end, of about `FRAMES` frames."""
    left = [*segments]
    found: list[list[Path]] = []
    for _ in range(batches):
        batch: list[Path] = []
        count = 0
        while left and count < FRAMES * 0.95:
            path, frames = left.pop()
            batch.append(path)
            count += frames
        found.append(batch[::-1])
    return [path for path, _ in left], found[::-1]


def _frames(path: Path) -> int:
    count = 0
    for each in segment.read(path):
        if isinstance(each, Block):
            count += len(each.sizes) // SIZES or 1
    return count


class _Run:
    """`stomprelay-pipeline run` in a process of its own."""

    def __init__(self, journal: Path, tables: Path, events: Path) -> None:
        given = ["--journal", str(journal), "--tables", str(tables), "--interval", "1"]
        logged = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        for name, value in logged.items():
            given += ["--conf", f"{name}={value}"]
        command = [sys.executable, "-m", "stomprelay.pipeline.cli", "run"]
        self._child = started("run", [*command, *given], journal.parent)

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_: object) -> None:
        self._child.stop()

    def hear(self, segments: int) -> tuple[int, float]:
        """Wait until so many segments are in the tables. Return their frames, and the seconds of their batches."""
        frames, seconds = 0, 0.0
        while segments > 0:
            line = self._child.hear()
            if not line and self._child.exited(0):
                raise PipelineError(f"run ended:\n{self._child.last_words}")
            done = _DONE.match(line)
            if done is not None:
                segments -= int(done[1].replace(",", ""))
                frames += int(done[2].replace(",", ""))
                seconds += float(done[3])
        return frames, seconds

    def spent(self) -> float:
        """Return the CPU seconds of all its processes until now."""
        cpu = 0
        for pid in family(self._child.pid):
            with suppress(OSError):  # it has ended meanwhile
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                cpu += sum(map(int, fields[11:15]))
        return cpu / _TICKS


def _jobs(folder: Path, times: Sequence[float]) -> list[int]:
    """Return how many jobs Spark began between each two of these times."""
    begun = [at / 1000 for path in folder.iterdir() for at in _begun(path)]
    return [sum(first <= at < last for at in begun) for first, last in pairwise(times)]


def _begun(path: Path) -> Iterator[int]:
    for line in path.read_text().splitlines():
        if '"SparkListenerJobStart"' in line[:60]:
            yield json.loads(line)["Submission Time"]


def judged(found: Sequence[One], sizes: Sizes) -> list[Judged]:
    """Its goals. The first and the last cost are medians of three batches."""
    what = f"batches, {sizes.backlog:,} undelivered"
    first, last = (median([one.cpu for one in some]) or 0.0 for some in (found[:_LAST], found[-_LAST:]))
    return [
        Judged(what, "seconds", None, spread([one.seconds for one in found]), SECONDS),
        Judged(what, "last CPU/first", first, spread([last / first] if first else []), GROWTH),
        Judged(what, "jobs", None, spread([float(max(one.jobs for one in found))] if found else []), JOBS),
    ]

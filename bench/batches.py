"""One small batch after another, with many messages that nobody receives: what each costs, and whether that grows."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from typing import IO, Final

from bench import journals
from bench.goals import Judged, verdicts
from bench.machine import ROOT, family
from bench.pipeline import PipelineError
from bench.report import Goal, figure, median, spread, table
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
    """`first`: records before all batches; `backlog`: messages that stay undelivered; `batches`: how many count.
    `traced`: messages carry a trace; without one they are matched by their order.
    """

    first: int = 200_000
    backlog: int = 400_000
    batches: int = 25
    traced: bool = False


QUICK: Final = Sizes(20_000, 40_000, 5)
LONG: Final = Sizes(5_000_000, 400_000, 200)


@dataclass(frozen=True)
class One:
    """A batch: what the run says that it took, CPU seconds of all its processes, Spark's jobs, and octets that its
    processes read and wrote, what they told each other included.
    """

    frames: int
    seconds: float
    cpu: float
    jobs: int
    read: int
    written: int


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
        rate=_RATE, age=_AGE, trace=sizes.traced, skew=_SKEW,
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
            cpu, read, written = run.spent()
            times.append(time.time())
            for path in batch:
                path.rename(journal / path.name)
            frames, seconds = run.hear(len(batch))
            after = run.spent()
            found.append((frames, seconds, after[0] - cpu, after[1] - read, after[2] - written))
        times.append(time.time())
    jobs = _jobs(events, times)
    return [
        One(frames, seconds, cpu, count, read, written)
        for (frames, seconds, cpu, read, written), count in zip(found, jobs, strict=True)
    ][WARM:]


def cut(segments: Sequence[tuple[Path, int]], batches: int) -> tuple[list[Path], list[list[Path]]]:
    """Return the segments (each with its frames) for the first load, and those of so many batches at the end, each of
    `FRAMES` frames or a few more.
    """
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
        command = ["from stomprelay.pipeline.cli import main; raise SystemExit(main())", "run"]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-c", *command, *given],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def __enter__(self) -> "_Run":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        self._process.communicate()

    def hear(self, segments: int) -> tuple[int, float]:
        """Wait until so many segments are in the tables. Return their frames, and the seconds of their batches."""
        frames, seconds = 0, 0.0
        said: list[str] = []
        while segments > 0:
            line = self._out.readline()
            if not line:
                raise PipelineError("run ended:\n" + "".join(said[-15:]))
            said.append(line)
            done = _DONE.match(line)
            if done is not None:
                segments -= int(done[1].replace(",", ""))
                frames += int(done[2].replace(",", ""))
                seconds += float(done[3])
        return frames, seconds

    @property
    def _out(self) -> IO[str]:
        assert self._process.stderr is not None
        return self._process.stderr

    def spent(self) -> tuple[float, int, int]:
        """Return CPU seconds, octets read and octets written of all its processes until now."""
        cpu, read, written = 0, 0, 0
        for pid in family(self._process.pid):
            with suppress(OSError):  # it has ended meanwhile
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                cpu += sum(map(int, fields[11:15]))
                counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
                read += int(counts["rchar"])
                written += int(counts["wchar"])
        return cpu / _TICKS, read, written


def _jobs(folder: Path, times: Sequence[float]) -> list[int]:
    """Return how many jobs Spark began between each two of these times."""
    begun = [at / 1000 for path in folder.iterdir() for at in _begun(path)]
    return [sum(first <= at < last for at in begun) for first, last in pairwise(times)]


def _begun(path: Path) -> Iterator[int]:
    for line in path.read_text().splitlines():
        if '"SparkListenerJobStart"' in line[:60]:
            yield json.loads(line)["Submission Time"]


HEADER: Final = ("batch", "frames", "seconds", "CPU s", "jobs", "read MiB", "written MiB")


def _row(name: str, one: One) -> list[str]:
    octets = [figure(each / 2**20) for each in (one.read, one.written)]
    return [name, f"{one.frames:,}", figure(one.seconds), figure(one.cpu), str(one.jobs), *octets]


def judged(found: Sequence[One], sizes: Sizes) -> list[Judged]:
    """Its goals. The first and the last cost are medians of three batches."""
    what = f"batches, {sizes.backlog:,} undelivered{', traced' if sizes.traced else ''}"
    first, last = (median([one.cpu for one in some]) or 0.0 for some in (found[:_LAST], found[-_LAST:]))
    return [
        Judged(what, "seconds", None, spread([one.seconds for one in found]), SECONDS),
        Judged(what, "last CPU/first", first, spread([last / first] if first else []), GROWTH),
        Judged(what, "jobs", None, spread([float(max(one.jobs for one in found))] if found else []), JOBS),
    ]


def report(found: Sequence[One], sizes: Sizes) -> str:
    """Each batch; first, median and last; and whether the goals are met."""
    middle = sorted(found, key=lambda one: one.cpu)[len(found) // 2 : len(found) // 2 + 1]
    rows = [_row(str(number), one) for number, one in enumerate(found, 1)]
    rows += [
        _row(name, one)
        for name, some in (("first", found[:1]), ("median", middle), ("last", found[-1:]))
        for one in some
    ]
    matched = "traced" if sizes.traced else "matched by order"
    title = f"batches: {sizes.backlog:,} messages undelivered, {sizes.first:,} records before, {matched}, all warm"
    return "\n".join([table(title, HEADER, rows), verdicts("batches: goals", judged(found, sizes))])

"""Interleaved rounds: each contender carries the same load in turn, so that what shakes the machine shakes all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar

from bench.load import Case, Load, LoadError, Run
from bench.report import median, ratios

P = ParamSpec("P")
T = TypeVar("T")

FIRST: Final = 200
"""Messages of the first run of a calibration."""

MOST: Final = 4_000_000
"""Messages of the longest run."""


@dataclass(frozen=True)
class Entry:
    """One who takes part: its name, where it listens, whose CPU is counted, and what it carries."""

    name: str
    port: int
    pids: Sequence[int]
    case: Case


@dataclass
class Series:
    """What one entry did, a run for each round; `failure` says why it has none."""

    name: str
    case: Case
    runs: list[Run] = field(default_factory=list)
    failure: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The series of one load; `name` says which."""

    name: str
    series: Sequence[Series]

    def of(self, name: str) -> Series | None:
        """An entry's series."""
        return next((one for one in self.series if one.name == name), None)

    def absolute(self, figure: Callable[[Run], float], of: str) -> float | None:
        """An entry's median figure, for scale only."""
        series = self.of(of)
        return median([figure(run) for run in series.runs]) if series else None

    def ratios(self, figure: Callable[[Run], float], of: str, over: str) -> list[float]:
        """A figure's ratios between two entries in the same round; none when one is missing."""
        ours, theirs = self.of(of), self.of(over)
        if ours is None or theirs is None or ours.failure or theirs.failure:
            return []
        return ratios([figure(run) for run in ours.runs], [figure(run) for run in theirs.runs])

    def failures(self) -> list[str]:
        """A line for each entry that has no figures."""
        return [f"FAILED {one.name}, {self.name}: {one.failure}\n" for one in self.series if one.failure]


def measure(load: Load, name: str, entries: Sequence[Entry], rounds: int, seconds: float) -> Outcome:
    """Run a load: first each entry until its count fits `seconds`, then the rounds.

    An entry that fails is left out of the rounds that follow; its series says why.
    """
    found = [Series(entry.name, entry.case) for entry in entries]
    counts = [
        _attempt(series, calibrated, load, entry, seconds)
        for entry, series in zip(entries, found, strict=True)
    ]
    order = list(zip(entries, found, counts, strict=True))
    for number in range(rounds):
        turn = number % len(order)
        for entry, series, count in order[turn:] + order[:turn]:
            if count is not None and series.failure is None:
                run = _attempt(series, _run, load, entry, count)
                if run is not None:
                    series.runs.append(run)
    return Outcome(name, found)


def _run(load: Load, entry: Entry, messages: int) -> Run:
    return load.run(entry.case, entry.port, messages, entry.pids)


def calibrated(load: Load, entry: Entry, seconds: float) -> int:
    """How many messages take about so long; finding out warms both sides up. Raises `LoadError`."""
    messages = FIRST
    while True:
        run = _run(load, entry, messages)
        wanted = min(MOST, int(run.rate * seconds))
        if run.seconds > seconds / 3 or wanted <= messages:
            return max(FIRST, wanted)
        messages = min(wanted, messages * 20)


def _attempt(series: Series, attempt: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
    try:
        return attempt(*args, **named)
    except (LoadError, OSError) as error:  # OSError: the contender is gone, and its clock with it
        series.failure = str(error)
        return None

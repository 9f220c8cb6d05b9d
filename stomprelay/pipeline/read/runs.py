"""The runs of relays: which of their segments can be read on, and up to when all of them have been read."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stomprelay.journal.segment import CLOSED, parse_name
from stomprelay.pipeline.settings import SECOND, TimeLimits

_DAY: Final = 24 * 3600 * SECOND
"""A run that wrote nothing for so long (and for longer than messages stay open) is forgotten."""


class Segment(NamedTuple):
    """A segment that a batch read: the times in ns of its first and newest record, None if nothing of it
    could be read; and whether the run ended with it.
    """

    name: str
    batch: int
    first_ns: int | None
    newest_ns: int | None
    ended: bool


def run_of(segment: str) -> str:
    """Return the relay and run in a segment's name."""
    return segment.partition("-")[2].rpartition("-")[0]


def number_of(segment: str) -> int:
    """Return the number of a segment in its run; 0 if the name is not a segment's."""
    found = parse_name(segment + CLOSED)
    return 0 if found is None else found[0].number


@dataclass
class _Run:
    """The state of one run. `due`: the number of the next segment to read on; `waiting`: segments behind a
    gap, by number.
    """

    due: int = 1
    newest_ns: int = 0
    ended: bool = False
    waiting: dict[int, Segment] = field(default_factory=dict)

    def read(self, number: int) -> None:
        """Move a segment from `waiting` to those that were read."""
        segment = self.waiting.pop(number)
        self.due = max(self.due, number + 1)
        self.newest_ns = max(self.newest_ns, segment.newest_ns or 0)
        self.ended = self.ended or segment.ended


class Runs:
    """Call `arrived` with the segments of each batch. It returns which segments can be used now, including
    those of earlier batches. `gone`: the runs that it forgot in the last call, with the time in ns of their
    newest record.
    """

    def __init__(self, limits: TimeLimits) -> None:
        self._limits = limits
        self._runs: dict[str, _Run] = {}
        self._until = 0
        self.gone: dict[str, int] = {}

    def arrived(self, segments: Iterable[Segment]) -> list[Segment]:
        """Add segments that were read, in any order. Return those that can be used now, in order of run and
        number.
        """
        for segment in segments:
            run = self._runs.setdefault(run_of(segment.name), _Run())
            run.waiting[number_of(segment.name)] = segment
        horizon = self.horizon
        ready = [segment for run in self._runs.values() for segment in self._ready(run, horizon)]
        keep = max(_DAY, self._limits.give_up)
        old = {name for name, run in self._runs.items() if not run.waiting and run.newest_ns + keep < horizon}
        self.gone = {name: self._runs.pop(name).newest_ns for name in old}
        self._until = self._read(horizon)
        return sorted(ready, key=lambda segment: (run_of(segment.name), number_of(segment.name)))

    def _ready(self, run: _Run, horizon: int) -> Iterator[Segment]:
        """Yield the segments of a run up to the first gap. A gap older than `patience` is skipped; a segment
        that arrives later is used all the same.
        """
        while run.waiting:
            number = min(run.waiting)
            segment = run.waiting[number]
            since = horizon if segment.first_ns is None else segment.first_ns
            if number > run.due and horizon <= since + self._limits.patience:
                return
            run.read(number)
            yield segment

    @property
    def horizon(self) -> int:
        """Return the time in ns of the newest record that arrived; 0 without any."""
        waiting = [each.newest_ns or 0 for run in self._runs.values() for each in run.waiting.values()]
        return max([*(run.newest_ns for run in self._runs.values()), *waiting], default=0)

    @property
    def until(self) -> int:
        """Return the time in ns up to which all runs have been read, not counting runs that ended or are more
        than `patience` behind. It never decreases.
        """
        return self._until

    def _read(self, horizon: int) -> int:
        earliest = horizon - self._limits.patience
        parse_name = [_progress(run) for run in self._runs.values() if not run.ended or run.waiting]
        return max(self._until, min((each for each in parse_name if each >= earliest), default=horizon))

    @property
    def newest(self) -> dict[str, int]:
        """Return the time in ns up to which each run has been read."""
        return {name: run.newest_ns for name, run in self._runs.items()}

    @property
    def present(self) -> frozenset[str]:
        """Return the runs that wrote something within `patience` before `horizon`."""
        earliest = self.horizon - self._limits.patience
        return frozenset(name for name, run in self._runs.items() if run.newest_ns >= earliest)

    def dump(self) -> str:
        """Return its state as JSON; `load` reads it."""
        runs = {
            name: [run.due, run.newest_ns, run.ended, [*run.waiting.values()]]
            for name, run in self._runs.items()
        }
        return json.dumps([self._until, runs])

    @classmethod
    def load(cls, text: str, limits: TimeLimits) -> "Runs":
        """Return the runs whose state `dump` returned."""
        self = cls(limits)
        self._until, runs = json.loads(text)
        for name, (due, newest_ns, ended, waiting) in runs.items():
            segments = [Segment(*each) for each in waiting]
            self._runs[name] = _Run(due, newest_ns, ended, {number_of(each.name): each for each in segments})
        return self


def _progress(run: _Run) -> int:
    """Return the time in ns up to which a run has been read; if nothing was, the time of its first waiting
    record.
    """
    begins = [each.first_ns for each in run.waiting.values() if each.first_ns is not None]
    return run.newest_ns or min(begins, default=0)

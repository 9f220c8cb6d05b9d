"""The runs of relays: which segments can be read now, which are missing, and up to when all runs have been read."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

from stomprelay.journal.segment import CLOSED, parse_name, safe_name
from stomprelay.pipeline.schema import KILLED, RUNNING, SILENT, STOPPED
from stomprelay.pipeline.settings import SECOND, TimeLimits

_DAY: Final = 24 * 3600 * SECOND
"""A run is forgotten if it wrote nothing for this time or for `give_up`, whichever is longer."""
_GRACE: Final = 60 * SECOND
"""A run is silent if nothing came of it for twice `within_ns` plus this time. Its segment is closed within
`within_ns`, and its relay writes again within `within_ns`.
"""


class Segment(NamedTuple):
    """A segment that a batch read, or a part of a segment. `first_ns` and `newest_ns` are the times (ns) of its first
    and newest record, None if it cannot be read. `ended`: the run ended with this segment. `found_ns`: when another
    process found the relay dead, or 0. `within_ns`: the relay promises to write again within this time.

    `begin` and `end` are the offsets of a part, 0 for no bound. `marks` are the places where the segment can be
    parted: the number of rows before, the offset of the next row, and the newest time before. `rows` counts frames and
    `events`, `dropped` frames that the relay left out, `cut` bytes that were cut off a torn end.
    """

    name: str
    batch: int
    first_ns: int | None
    newest_ns: int | None
    ended: bool
    found_ns: int = 0
    within_ns: int = 0
    rows: int = 0
    marks: Sequence[Sequence[int]] = ()
    begin: int = 0
    end: int = 0
    relay: str = ""
    events: int = 0
    dropped: int = 0
    cut: int = 0

    def parted(self, until: int) -> "tuple[Segment | None, Segment | None]":
        """Return the records up to about `until` (ns), and the later records. A part without records is None."""
        if self.newest_ns is None or self.newest_ns <= until:
            return self, None
        if self.first_ns is not None and self.first_ns > until:
            return None, self
        for at, (rows, offset, ns) in enumerate(self.marks):
            if ns > until:
                marks = [(before - rows, place, newest) for before, place, newest in self.marks[at + 1 :]]
                first = self._replace(newest_ns=ns, ended=False, rows=rows, marks=(), end=offset)
                rest = self._replace(first_ns=ns, rows=self.rows - rows, marks=marks, begin=offset)
                return first, rest
        return self, None


def run_of(segment: str) -> str:
    """Return the relay and run in a segment's name. A file with another name is a run of its own, with that name."""
    if parse_name(segment + CLOSED) is None:
        return segment
    return segment.partition("-")[2].rpartition("-")[0]


def number_of(segment: str) -> int:
    """Return the number of a segment in its run; 0 if the name is no segment's name."""
    found = parse_name(segment + CLOSED)
    return 0 if found is None else found[0].number


class RunGap(NamedTuple):
    """Segments `first` to `last` of a run were missing when a later segment came. `waits`: later segments are kept
    until the missing segments come, or until `patience` is over. `came` are the sorted numbers of missing segments
    that came after the later segments had been read.
    """

    first: int
    last: int
    came: tuple[int, ...] = ()
    waits: bool = False

    def lacks(self, number: int) -> bool:
        """Return whether this segment is still missing."""
        return self.first <= number <= self.last and number not in self.came


@dataclass
class RunSummary:
    """What is known of a run: see `schema.RUNS`. `outcome`: how the run ended, empty if it did not end."""

    relay: str = ""
    began_ns: int | None = None
    heard_ns: int | None = None
    outcome: str = ""
    found_ns: int = 0
    segments: int = 0
    frames: int = 0
    events: int = 0
    dropped: int = 0
    torn: int = 0

    def add(self, segment: Segment, *, again: bool) -> None:
        """Add a segment. `again`: the segment was counted before, with another file that could not be read."""
        self.segments += not again
        self.frames += segment.rows - segment.events
        self.events += segment.events
        self.dropped += segment.dropped
        self.torn += segment.cut
        self.relay = self.relay or segment.relay
        self.found_ns = max(self.found_ns, segment.found_ns)
        if segment.first_ns is not None and segment.newest_ns is not None:
            self.began_ns = min(
                segment.first_ns, segment.first_ns if self.began_ns is None else self.began_ns
            )
            self.heard_ns = max(segment.newest_ns, self.heard_ns or 0)
        if segment.ended:
            self.outcome = KILLED if segment.found_ns else STOPPED

    def row(self, name: str, missing: int, *, silent: bool) -> tuple[Any, ...]:
        """Return the values of the run's row in `runs`, with times in ns. `name`: the run's name, see `run_of`."""
        relay = safe_name(self.relay)
        digits = name.removeprefix(f"{relay}-")
        outcome = self.outcome or (SILENT if silent else RUNNING)
        ended = self.heard_ns if self.outcome else None
        return (
            *(self.relay or name.rpartition("-")[0] or name, digits, self.began_ns, self.heard_ns, ended),
            *(outcome, self.found_ns or None, self.segments, missing, self.frames, self.events, self.dropped),
            self.torn,
        )


@dataclass
class _Run:
    """One run. `due`: the number of the next segment to read. `waiting`: segments that came and were not read, by
    number. `skipped`: gaps whose later segments were read. `since`: the number of the batch that found the run.
    `heard_ns`: the newest time of all runs when a segment of this run last came. `gone`: only the numbers of its
    segments are remembered.
    """

    since: int
    due: int = 1
    newest_ns: int = 0
    ended: bool = False
    found_ns: int = 0
    within_ns: int = 0
    heard_ns: int = 0
    gone: bool = False
    told: RunSummary = field(default_factory=RunSummary)
    skipped: list[RunGap] = field(default_factory=list)
    waiting: dict[int, Segment] = field(default_factory=dict)

    def add(self, number: int, segment: Segment) -> None:
        """Add a segment to `waiting`. If its number was read, or a readable segment of its number waits, do nothing. A
        file without a segment's name is a run of its own, which ends with this file.
        """
        known = self.waiting.get(number)
        if (known is None and not self.has_read(number)) or (known is not None and known.newest_ns is None):
            self.waiting[number] = segment if number else segment._replace(ended=True)
            self.gone = False
            self.told.add(segment, again=known is not None)

    def has_read(self, number: int) -> bool:
        """Return whether the segment of this number was read."""
        return number < self.due and not any(gap.lacks(number) for gap in self.skipped)

    def read(self, number: int) -> Segment:
        """Move a segment from `waiting` to the segments that were read. Return the segment."""
        segment = self.waiting.pop(number)
        if number < self.due:
            for at, gap in enumerate(self.skipped):
                if gap.lacks(number):
                    self.skipped[at] = gap._replace(came=(*sorted((*gap.came, number)),))
        else:
            if number > self.due:
                self.skipped.append(RunGap(self.due, number - 1))
            self.due = number + 1
            self.ended = segment.ended
            self.within_ns = segment.within_ns or self.within_ns
        self.newest_ns = max(self.newest_ns, segment.newest_ns or 0)
        self.found_ns = max(self.found_ns, segment.found_ns)
        return segment

    def is_over(self, horizon: int) -> bool:
        """Return whether no more records of the run are expected at `horizon` (ns)."""
        if self.ended or (self.waiting and self.waiting[max(self.waiting)].ended):
            return True
        within = max([self.within_ns, *(each.within_ns for each in self.waiting.values())])
        newest = max([self.newest_ns, *(each.newest_ns or 0 for each in self.waiting.values())])
        return bool(within) and horizon > newest + 2 * within + _GRACE

    def put_back(self, number: int, rest: Segment, newest_ns: int) -> None:
        """Put the unread `rest` of a segment back to `waiting`. The caller must put back all later segments, too.
        `newest_ns` is the newest time of the records that were read.
        """
        self.waiting[number] = rest
        self.due = min(self.due, number)
        self.newest_ns = newest_ns
        self.ended = False

    @property
    def gaps(self) -> list[RunGap]:
        """Return all gaps of the run, in order."""
        found, due = [*self.skipped], self.due
        for number in sorted(self.waiting):
            if number > due:
                found.append(RunGap(due, number - 1, waits=True))
            due = max(due, number + 1)
        return found


class Runs:
    """The runs of all relays. Call `arrived` with the segments of each batch. Then `until` is the time (ns) up to
    which all runs have been read, `gaps` has all gaps of each run whose gaps have changed, and `gone` has the runs
    that were forgotten, each with its newest time (ns).
    """

    def __init__(self, limits: TimeLimits) -> None:
        self.limits = limits
        self._runs: dict[str, _Run] = {}
        self.until = 0
        self._unread: int | None = None
        self._before: dict[str, list[RunGap]] = {}
        self.gone: dict[str, int] = {}
        self.gaps: dict[str, list[RunGap]] = {}

    def arrived(self, segments: Iterable[Segment], unread: int | None = None) -> list[Segment]:
        """Add segments, in any order. Return the segments, and parts of segments, that can be used now, sorted by run
        and number. `unread` is the first time (ns) of segments that come in later batches. If `unread` is given,
        records after `until` wait for these segments.
        """
        self._unread = unread
        read = {name: (run.due, run.newest_ns) for name, run in self._runs.items()}
        self._before = {name: run.gaps for name, run in self._runs.items()}
        came = set()
        for segment in segments:
            name, number = run_of(segment.name), number_of(segment.name)
            run = self._runs.setdefault(name, _Run(segment.batch, due=min(number, 1)))
            run.add(number, segment)
            came.add(name)
        horizon = self.horizon
        for name in came:
            self._runs[name].heard_ns = horizon
        ready = [segment for run in self._runs.values() for segment in self._ready(run, horizon)]
        after = {name: run.gaps for name, run in self._runs.items()}
        self.gaps = {name: gaps for name, gaps in after.items() if gaps != self.before(name)}
        self._forget(horizon)
        self.until = self._read(horizon)
        ready.sort(key=lambda segment: (run_of(segment.name), number_of(segment.name)))
        return ready if unread is None else [*self._within(ready, read)]

    def _within(self, ready: Iterable[Segment], read: Mapping[str, tuple[int, int]]) -> Iterator[Segment]:
        """Yield the parts of these segments up to `until`. Late segments are yielded whole. All other parts wait.
        `read` has for each run its next number and newest time before this batch.
        """
        for name, segments in groupby(ready, lambda each: run_of(each.name)):
            due, newest = read.get(name, (1, 0))
            found = [(number_of(each.name), each) for each in segments]
            followed = [number for number, _ in found if number >= due]
            if followed != [*range(due, due + len(followed))]:
                yield from (each for _, each in found)
                continue
            held = False
            for number, each in found:
                first: Segment | None = each
                rest: Segment | None = None
                if held:
                    first, rest = None, each
                elif number >= due:
                    first, rest = each.parted(self.until)
                if first is not None:
                    newest = max(newest, first.newest_ns or 0)
                    yield first
                if rest is not None:
                    held = True
                    self._runs[name].put_back(number, rest, newest)

    def _ready(self, run: _Run, horizon: int) -> Iterator[Segment]:
        """Yield the segments of a run that can be read now: those before the first gap that may still be filled."""
        over = run.is_over(horizon)
        while run.waiting:
            number = min(run.waiting)
            first_ns = run.waiting[number].first_ns
            since = horizon if first_ns is None else first_ns
            if number > run.due and not over and horizon <= since + self.limits.patience:
                return
            yield run.read(number)

    def _forget(self, horizon: int) -> None:
        """Forget runs that have long been silent, and set `gone`. The numbers of their segments are forgotten later."""
        keep = max(_DAY, self.limits.give_up)
        old = [name for name, run in self._present() if not run.waiting and run.newest_ns + keep < horizon]
        self.gone = {name: self._runs[name].newest_ns for name in old}
        for name in old:
            self._runs[name].gone = True
        for name in [name for name, run in self._runs.items() if run.gone and run.heard_ns + keep < horizon]:
            del self._runs[name]

    def _present(self) -> list[tuple[str, _Run]]:
        return [(name, run) for name, run in self._runs.items() if not run.gone]

    @property
    def horizon(self) -> int:
        """Return the newest time (ns) at which a record was written or a relay was found dead. The result is at most
        `unread`. Without records it is 0.
        """
        newest = max(
            [
                *(max(run.newest_ns, run.found_ns) for run in self._runs.values()),
                *(max(each.newest_ns or 0, each.found_ns) for each in self.waiting),
            ],
            default=0,
        )
        return newest if self._unread is None else min(newest, self._unread)

    def _read(self, horizon: int) -> int:
        earliest = horizon - self.limits.patience
        progress = [_progress(run) for _, run in self._present() if run.waiting or not run.is_over(horizon)]
        if self._unread is not None:
            progress.append(self._unread)
        return max(self.until, min((each for each in progress if each >= earliest), default=horizon))

    @property
    def newest(self) -> dict[str, int]:
        """Return the time in ns up to which each run has been read."""
        return {name: run.newest_ns for name, run in self._present()}

    def rows(self, *, gone: bool = False) -> dict[str, tuple[Any, ...]]:
        """Return the row of each remembered run, by name; with `gone`, of each forgotten run. See `RunSummary.row`."""
        horizon = self.horizon
        return {
            name: run.told.row(
                name,
                sum(each.last - each.first + 1 - len(each.came) for each in run.gaps),
                silent=run.is_over(horizon),
            )
            for name, run in self._runs.items()
            if run.gone is gone and run.told.segments
        }

    @property
    def ended(self) -> dict[str, int]:
        """Return the runs that ended and were read, including runs just forgotten, with their newest times (ns)."""
        there = [*self._present(), *((name, self._runs[name]) for name in self.gone if name in self._runs)]
        return {name: run.newest_ns for name, run in there if run.ended and not run.waiting}

    @property
    def present(self) -> frozenset[str]:
        """Return the runs that wrote within `patience` and that are either not over or have unread segments."""
        horizon = self.horizon
        earliest = horizon - self.limits.patience
        return frozenset(
            name
            for name, run in self._present()
            if run.newest_ns >= earliest and (run.waiting or not run.is_over(horizon))
        )

    def before(self, run: str) -> list[RunGap]:
        """Return the gaps that a run had before the last call of `arrived`."""
        return self._before.get(run, [])

    @property
    def waiting(self) -> list[Segment]:
        """Return the segments, and parts of segments, that have come and are not read yet."""
        return [each for run in self._runs.values() for each in run.waiting.values()]

    def since(self, run: str) -> int:
        """Return the number of the batch that found a run."""
        return self._runs[run].since

    def had(self, segment: str) -> bool:
        """Return whether a segment of this run and number arrived before."""
        run, number = self._runs.get(run_of(segment)), number_of(segment)
        return run is not None and (number in run.waiting or run.has_read(number))

    def dump(self) -> str:
        """Return the state for `load`, as JSON."""
        runs = {
            name: {
                **asdict(run),
                "waiting": [*run.waiting.values()],
                "skipped": [gap._asdict() for gap in run.skipped],
            }
            for name, run in self._runs.items()
        }
        return json.dumps([self.until, runs])

    @classmethod
    def load(cls, text: str, limits: TimeLimits) -> "Runs":
        """Return the runs whose state `dump` returned."""
        self = cls(limits)
        self.until, runs = json.loads(text)
        self._runs = {name: _loaded(values) for name, values in runs.items()}
        return self


def _loaded(values: Any) -> _Run:
    segments = [Segment(*each) for each in values.pop("waiting")]
    skipped = [RunGap(**{**each, "came": tuple(each["came"])}) for each in values.pop("skipped")]
    told = RunSummary(**values.pop("told", {}))  # tables of release 0.2 do not have it
    waiting = {number_of(each.name): each for each in segments}
    return _Run(**values, told=told, skipped=skipped, waiting=waiting)


def _progress(run: _Run) -> int:
    """Return the time in ns up to which a run was read; if nothing was read, the time of its first waiting record."""
    begins = [each.first_ns for each in run.waiting.values() if each.first_ns is not None]
    return run.newest_ns or min(begins, default=0)

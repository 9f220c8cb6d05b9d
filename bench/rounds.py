"""Interleaved rounds: each contender carries the same load in turn, so that what shakes the machine shakes all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, ParamSpec, TypeVar

from bench.contenders import HAPROXY, PORTFORWARD, RELAY, Contender
from bench.load import Case, Load, LoadError, Run
from bench.report import median, ratios

P = ParamSpec("P")
T = TypeVar("T")

FIRST: Final = 200
"""Messages of the first run of a calibration."""

MOST: Final = 4_000_000
"""Messages of the longest run."""


@dataclass
class Series:
    """What one contender did with one case, a run for each round; `failure` says why it has none."""

    contender: str
    case: Case
    runs: list[Run] = field(default_factory=list)
    failure: str | None = None


@dataclass(frozen=True)
class Group:
    """A load that all contenders carry, and variants of it that only the relay's cost depends on."""

    base: Case
    variants: tuple[Case, ...] = ()

    @property
    def name(self) -> str:
        """The kind of load and the size of its bodies."""
        size = f"{self.base.body // 1024} KiB" if self.base.body >= 1024 else f"{self.base.body} B"
        return f"{self.base.mode}, {size} bodies"


@dataclass(frozen=True)
class Outcome:
    """The series of one group; the relay's by case, the others by contender."""

    group: Group
    series: Sequence[Series]

    def of(self, contender: str, case: Case | None = None) -> Series | None:
        """A contender's series, of the base case when none is named."""
        wanted = case or self.group.base
        return next((one for one in self.series if one.contender == contender and one.case == wanted), None)

    def ratio(self, figure: Callable[[Run], float], case: Case, over: str, of: str = RELAY) -> float | None:
        """The median of a figure's ratios between two contenders in the same round; None when one is missing."""
        ours, theirs = self.of(of, case), self.of(over)
        if ours is None or theirs is None or ours.failure or theirs.failure:
            return None
        return median(ratios([figure(run) for run in ours.runs], [figure(run) for run in theirs.runs]))

    def cells(
        self, figure: Callable[[Run], float], case: Case
    ) -> tuple[float | None, float | None, float | None]:
        """relay/haproxy, portforward/haproxy, relay/portforward."""
        return (
            self.ratio(figure, case, HAPROXY),
            self.ratio(figure, self.group.base, HAPROXY, PORTFORWARD) if case == self.group.base else None,
            self.ratio(figure, case, PORTFORWARD),
        )


def measure(load: Load, running: Sequence[Contender], group: Group, rounds: int, seconds: float) -> Outcome:
    """Run a group: first each entry until its count fits `seconds`, then the rounds.

    An entry that fails is left out of the rounds that follow; its series says why.
    """
    entries = list(_entries(running, group))
    counts = [
        _attempt(series, _calibrated, load, contender, series.case, seconds) for contender, series in entries
    ]
    order = list(zip(entries, counts, strict=True))
    for number in range(rounds):
        turn = number % len(order)
        for (contender, series), count in order[turn:] + order[:turn]:
            if count is not None and series.failure is None:
                run = _attempt(series, _run, load, contender, series.case, count)
                if run is not None:
                    series.runs.append(run)
    return Outcome(group, [series for _, series in entries])


def _entries(running: Sequence[Contender], group: Group) -> Iterator[tuple[Contender, Series]]:
    for contender in running:
        for case in (group.base, *(group.variants if contender.name == RELAY else ())):
            yield contender, Series(contender.name, case)


def _run(load: Load, contender: Contender, case: Case, messages: int) -> Run:
    return load.run(case, contender.ports[case.client, case.broker], messages, contender.pid)


def _calibrated(load: Load, contender: Contender, case: Case, seconds: float) -> int:
    """How many messages take about so long; finding out warms both sides up."""
    messages = FIRST
    while True:
        run = _run(load, contender, case, messages)
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

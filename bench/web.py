"""STOMP over WebSocket: the relay beside Spring's, and beside RabbitMQ's own web-stomp, with RabbitMQ behind it and
with its embedded broker.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import goals
from bench.contenders import PLAIN, RELAY, ROUTES, Contender, relay
from bench.goals import CPU, Judged
from bench.load import RABBITMQ, SMALL, Case, Load, LoadError
from bench.machine import AbsentError, cores
from bench.report import NONE, Goal, figure, median, spread, table
from bench.rounds import Entry, Outcome, calibrated, measure
from bench.rows import FIGURES, UNITS
from bench.spring import SPRING, spring

if TYPE_CHECKING:
    from tests.e2e.brokers import RabbitMQ

NAME: Final = "web"
WEB_STOMP: Final = "web-stomp"
PLAIN_STOMP: Final = "plain"
"""The same without WebSocket: through the relay where that is beside Spring's, to RabbitMQ itself beside its own."""
OWN: Final = "own"
"""The relay's own CPU where otherwise RabbitMQ's counts, too."""
BEHIND: Final = "behind"
"""RabbitMQ's CPU behind the relay: no relay can bring the sum below it."""

WARM: Final = 10.0
"""Seconds for which Java carries a row before it is measured: until then it compiles."""

_KIB: Final = 1024
_LISTENER: Final = "web = true\n"
_LOGIN: Final = "guest"
_QUIET: Final = "+sbwt none +sbwtdcpu none +sbwtdio none"
"""Erlang's schedulers do not spin while they wait, which would be counted as work."""


def _web(mode: str, body: int, connections: int | None = None, window: int = 1) -> Case:
    return Case(mode, body, piece=SMALL, web=True, connections=connections, window=window)


ROWS: Final = {
    "trip, 64 B": _web("latency", 64),
    "trip, 1 KiB": _web("latency", _KIB),
    "SEND 1 KiB": _web("sink", _KIB),
    "MESSAGE 1 KiB": _web("source", _KIB),
    "SEND and its MESSAGE, 1 KiB": _web("loop", _KIB, 8, 32),
    "SEND 64 KiB": _web("sink", 64 * _KIB),
    "MESSAGE 64 KiB": _web("source", 64 * _KIB),
    "200 clients, 100 B there and back": _web("loop", 100, 200),
    "set-up and end of a session": _web("polite", 0),
}
_OURS: Final = {"source"}
"""What only the null broker can do."""

BOUNDED: Final = frozenset(
    {"trip, 64 B", "trip, 1 KiB", "200 clients, 100 B there and back", "set-up and end of a session"}
)
"""Rows on which nothing that stands before RabbitMQ costs less than web-stomp, even if it cost nothing itself: what
RabbitMQ does for a message that comes alone, it does by either door.
"""


@dataclass(frozen=True)
class Beside:
    """The relay beside `other` on all rows, as `title` says, in short `name`. `asides` are what else is said of CPU: in
    words, of whom, over whose. Rows that are `bounded` have no goal, but a bound.
    """

    name: str
    title: str
    other: str
    asides: Sequence[tuple[str, str, str]]
    found: Sequence[Outcome]
    bounded: Collection[str] = ()

    def judged(self) -> list[Judged]:
        """The relay's figures over the other's, where there is a goal for them."""
        return [
            Judged(
                f"{outcome.name}, {self.name}",
                UNITS[name],
                outcome.absolute(FIGURES[name], self.other),
                spread(outcome.ratios(FIGURES[name], RELAY, self.other)),
                goal,
            )
            for outcome in self.found
            if outcome.name not in self.bounded
            for name, goal in _goals(outcome).items()
        ]

    def report(self) -> str:
        """The goals, then what has none, then the asides, and what failed."""
        bounds = [
            self._bound(outcome, name)
            for outcome in self.found
            if outcome.name in self.bounded
            for name in _goals(outcome)
        ]
        parts = [goals.verdicts(f"{NAME}: {self.title}", self.judged())]
        if bounds:
            header = ["load", "figure", "base", "median", "quartiles", "bound"]
            parts.append(table("no goal: RabbitMQ alone is the bound", header, bounds))
        if self.asides:
            rows = [
                [
                    outcome.name,
                    *(figure(median(outcome.ratios(FIGURES[CPU], *pair))) for _, *pair in self.asides),
                ]
                for outcome in self.found
            ]
            parts.append(table("CPU a message", ["load", *(words for words, *_ in self.asides)], rows))
        return "\n".join([*parts, *(line for outcome in self.found for line in outcome.failures())])

    def _bound(self, outcome: Outcome, name: str) -> list[str]:
        """A row of what is found beside what no relay can pass: RabbitMQ's own CPU behind it, or its plain STOMP."""
        found = spread(outcome.ratios(FIGURES[name], RELAY, self.other))
        bound = median(outcome.ratios(FIGURES[name], BEHIND if name == CPU else PLAIN_STOMP, self.other))
        return [
            outcome.name,
            UNITS[name],
            figure(outcome.absolute(FIGURES[name], self.other)),
            figure(found.median if found else None),
            found.said if found else NONE,
            figure(bound),
        ]


def _goals(outcome: Outcome) -> Mapping[str, Goal]:
    return goals.WEB_TRIP if "trip" in outcome.name else goals.WEB


def measure_all(
    load: Load, directory: Path, rounds: int, seconds: float, note: Callable[[str], None], warm: float = WARM
) -> Iterator[Beside]:
    """All rows beside each of those that can run here; why another cannot is noted."""
    for empty, entries in (
        (
            Beside(
                "beside Spring's",
                "the relay over Spring's, null broker",
                SPRING,
                [("relay/relay without WebSocket", RELAY, PLAIN_STOMP)],
                (),
            ),
            beside_spring,
        ),
        (
            Beside(
                "beside web-stomp",
                "relay and RabbitMQ over RabbitMQ with web-stomp",
                WEB_STOMP,
                [
                    ("web-stomp/plain STOMP", WEB_STOMP, PLAIN_STOMP),
                    ("relay and RabbitMQ/plain STOMP", RELAY, PLAIN_STOMP),
                    ("relay alone/web-stomp", OWN, WEB_STOMP),
                    ("RabbitMQ behind the relay/web-stomp", BEHIND, WEB_STOMP),
                ],
                (),
                BOUNDED,
            ),
            beside_web_stomp,
        ),
        (
            Beside(
                "embedded broker beside web-stomp",
                "the relay with its embedded broker over RabbitMQ with web-stomp",
                WEB_STOMP,
                (),
                (),
            ),
            embedded_beside_web_stomp,
        ),
    ):
        home = directory / empty.name.replace(" ", "-").replace("'", "")
        home.mkdir()
        try:
            with entries(load, home) as entries_of:
                yield replace(empty, found=list(_outcomes(load, entries_of, rounds, seconds, warm)))
        except (AbsentError, RuntimeError, AssertionError) as error:
            note(f"{NAME}: the relay {empty.name} is left out: {error}")


def _outcomes(
    load: Load, entries_of: Callable[[Case], list[Entry]], rounds: int, seconds: float, warm: float
) -> Iterator[Outcome]:
    for name, case in ROWS.items():
        entries = entries_of(case)
        for entry in entries:
            if entry.name == SPRING:
                _warm_up(load, entry, warm)
        if entries:
            yield measure(load, name, entries, rounds, seconds)


def _warm_up(load: Load, entry: Entry, seconds: float) -> None:
    until = time.monotonic() + seconds
    with suppress(LoadError):  # which the run to be measured will say
        count = calibrated(load, entry, min(1.0, seconds))
        while time.monotonic() < until:
            load.run(entry.case, entry.port, count)


@contextmanager
def beside_spring(load: Load, directory: Path) -> Iterator[Callable[[Case], list[Entry]]]:
    """The relay with and without WebSocket, and Spring's, in front of the null broker."""
    broker = load.ports[RABBITMQ]
    with ExitStack() as stack:
        theirs = stack.enter_context(spring(broker, directory))
        ours = stack.enter_context(_relay(broker, directory))

        def entries(case: Case) -> list[Entry]:
            # Spring has a session of its own with the broker.
            case = replace(case, others=1)
            return [
                ours.entry(replace(case, web=False), name=PLAIN_STOMP),
                ours.entry(case),
                theirs.entry(case),
            ]

        yield entries


@contextmanager
def beside_web_stomp(_load: Load, directory: Path) -> Iterator[Callable[[Case], list[Entry]]]:
    """RabbitMQ by web-stomp and by its plain STOMP, and by the relay: with RabbitMQ's CPU, and each one's alone."""
    with _rabbitmq(directory) as broker, _relay(broker.port, directory) as ours:

        def entries(case: Case) -> list[Entry]:
            if case.mode in _OURS:
                return []
            case = replace(case, login=_LOGIN)
            own = ours.entry(case, name=OWN)
            return [
                Entry(PLAIN_STOMP, broker.port, [broker.pid], replace(case, web=False)),
                own,
                replace(own, name=BEHIND, pids=[broker.pid]),
                replace(own, name=RELAY, pids=[*own.pids, broker.pid]),
                Entry(WEB_STOMP, broker.web_port, [broker.pid], case),
            ]

        yield entries


@contextmanager
def embedded_beside_web_stomp(_load: Load, directory: Path) -> Iterator[Callable[[Case], list[Entry]]]:
    """A broker with its own door beside a broker with its own door."""
    with _rabbitmq(directory) as broker, embedded(directory) as ours:

        def entries(case: Case) -> list[Entry]:
            if case.mode in _OURS:
                return []
            case = replace(case, login=_LOGIN)
            return [ours.entry(case), Entry(WEB_STOMP, broker.web_port, [broker.pid], case)]

        yield entries


@contextmanager
def _rabbitmq(directory: Path) -> "Iterator[RabbitMQ]":
    """RabbitMQ on the core of what is measured. Raises `AbsentError` where it is not installed."""
    from tests.e2e import brokers
    from tests.e2e.certificates import Authority

    credentials = Authority(directory, "bench").issue("rabbitmq")
    with ExitStack() as stack:
        try:
            broker = stack.enter_context(brokers.rabbitmq(directory, credentials, erl=_QUIET))
        except brokers.Absent as error:
            raise AbsentError(str(error)) from None
        for thread in Path(f"/proc/{broker.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores()[1]})
        yield broker


def _relay(broker: int, directory: Path) -> AbstractContextManager[Contender]:
    return relay({PLAIN: ROUTES[PLAIN].format(broker=f"127.0.0.1:{broker}")}, directory, listener=_LISTENER)


def embedded(directory: Path) -> AbstractContextManager[Contender]:
    """Return the relay with its embedded broker, which has a login for nobody."""
    return relay({PLAIN: 'uri = "memory:"'}, directory, listener=_LISTENER)

"""STOMP over WebSocket: the relay beside Spring's, and beside RabbitMQ's own web-stomp, with RabbitMQ behind it and
with its embedded broker.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import goals
from bench.contenders import PLAIN, RELAY, ROUTES, Contender, relay
from bench.goals import Judged
from bench.load import RABBITMQ, SMALL, Case, Load, LoadError
from bench.machine import AbsentError, cores
from bench.report import Goal
from bench.rounds import Entry, Outcome, calibrated, measure
from bench.rows import compared
from bench.spring import SPRING, spring

if TYPE_CHECKING:
    from tests.e2e.brokers import RabbitMQ

NAME: Final = "web"
WEB_STOMP: Final = "web-stomp"

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

_BOUNDED: Final = frozenset(
    {"trip, 64 B", "trip, 1 KiB", "200 clients, 100 B there and back", "set-up and end of a session"}
)
"""Rows on which nothing that stands before RabbitMQ costs less than web-stomp, even if it cost nothing itself: what
RabbitMQ does for a message that comes alone, it does by either door. They are not measured.
"""


@dataclass(frozen=True)
class Beside:
    """The relay beside `other` on its rows, as `title` says, in short `name`."""

    name: str
    title: str
    other: str
    found: Sequence[Outcome] = ()

    def judged(self) -> list[Judged]:
        """The relay's figures over the other's."""
        return [
            one
            for each in self.found
            for one in compared(each, f"{each.name}, {self.name}", RELAY, self.other, _goals(each))
        ]

    def report(self) -> str:
        """The goals, and what failed."""
        failed = [line for outcome in self.found for line in outcome.failures()]
        return "\n".join([goals.verdicts(f"{NAME}: {self.title}", self.judged()), *failed])


def _goals(outcome: Outcome) -> Mapping[str, Goal]:
    return goals.WEB_TRIP if "trip" in outcome.name else goals.WEB


def measure_all(
    load: Load, directory: Path, rounds: int, seconds: float, note: Callable[[str], None], warm: float = WARM
) -> Iterator[Beside]:
    """All rows beside each of those that can run here; why another cannot is noted."""
    spring_ = Beside("beside Spring's", "the relay over Spring's, null broker", SPRING)
    ours = Beside("beside web-stomp", "relay and RabbitMQ over RabbitMQ with web-stomp", WEB_STOMP)
    alone = Beside(
        "embedded broker beside web-stomp",
        "the relay with its embedded broker over RabbitMQ with web-stomp",
        WEB_STOMP,
    )
    for empty, entries in (
        (spring_, beside_spring),
        (ours, beside_web_stomp),
        (alone, embedded_beside_web_stomp),
    ):
        home = directory / empty.name.replace(" ", "-").replace("'", "")
        home.mkdir()
        try:
            with entries(load, home) as entries_of:
                yield replace(empty, found=list(_outcomes(load, entries_of, rounds, seconds, warm)))
        except (AbsentError, RuntimeError, AssertionError) as error:
            note(f"{NAME}: the relay {empty.name} is left out: {error}")


def _outcomes(
    load: Load, entries_of: Callable[[str, Case], list[Entry]], rounds: int, seconds: float, warm: float
) -> Iterator[Outcome]:
    for name, case in ROWS.items():
        entries = entries_of(name, case)
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
def beside_spring(load: Load, directory: Path) -> Iterator[Callable[[str, Case], list[Entry]]]:
    """The relay and Spring's, in front of the null broker."""
    broker = load.ports[RABBITMQ]
    with ExitStack() as stack:
        theirs = stack.enter_context(spring(broker, directory))
        ours = stack.enter_context(_relay(broker, directory))

        def entries(name: str, case: Case) -> list[Entry]:
            # Spring has a session of its own with the broker.
            case = replace(case, others=1)
            return [ours.entry(case), theirs.entry(case)]

        yield entries


@contextmanager
def beside_web_stomp(_load: Load, directory: Path) -> Iterator[Callable[[str, Case], list[Entry]]]:
    """RabbitMQ by web-stomp, and by the relay: the CPU of both counts."""
    with _rabbitmq(directory) as broker, _relay(broker.port, directory) as ours:

        def entries(name: str, case: Case) -> list[Entry]:
            if case.mode in _OURS or name in _BOUNDED:
                return []
            case = replace(case, login=_LOGIN)
            relayed = ours.entry(case)
            return [
                replace(relayed, pids=[*relayed.pids, broker.pid]),
                Entry(WEB_STOMP, broker.web_port, [broker.pid], case),
            ]

        yield entries


@contextmanager
def embedded_beside_web_stomp(_load: Load, directory: Path) -> Iterator[Callable[[str, Case], list[Entry]]]:
    """A broker with its own door beside a broker with its own door."""
    with _rabbitmq(directory) as broker, embedded(directory) as ours:

        def entries(name: str, case: Case) -> list[Entry]:
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

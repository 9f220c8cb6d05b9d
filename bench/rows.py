"""The rows of the goals: what clients do, carried by HAProxy, by the relay, and by a relay that keeps a journal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench import contenders, goals
from bench.contenders import HAPROXY, JOURNAL, PLAIN, RELAY, Contender
from bench.goals import CPU, P50, P99, RATE, Judged
from bench.load import LARGE, SMALL, Case, Load, Run
from bench.machine import AbsentError
from bench.report import Goal, spread
from bench.rounds import Outcome, measure

FIGURES: Final[Mapping[str, Callable[[Run], float]]] = {
    CPU: lambda run: run.cost,
    RATE: lambda run: run.rate,
    P50: lambda run: run.p50 or 0.0,
    P99: lambda run: run.p99 or 0.0,
}
UNITS: Final = {CPU: "CPU us", RATE: "rate /s", P50: "p50 us", P99: "p99 us"}


@dataclass(frozen=True)
class Row:
    """One kind of work: what it is, the route it takes through the relay, and its variants by name.

    Where HAProxy cannot do the same work, what it carries is said by `nearest`: the version that its clients speak.
    """

    name: str
    title: str
    variants: Mapping[str, Case]
    route: str = PLAIN
    nearest: str | None = None

    def nearest_to(self, case: Case) -> Case:
        """What HAProxy carries."""
        return replace(case, client=self.nearest) if self.nearest else case


def _pieces(case: Case) -> dict[str, Case]:
    """The same in large pieces and in small ones."""
    large = max(LARGE, 4 * case.body)
    return {
        f"{large // 1024} KiB a write": replace(case, piece=large),
        "a frame a write": replace(case, piece=SMALL),
    }


_KIB: Final = 1024
_OLD: Final = replace(Case("sink", _KIB), client="1.0", escaped=True)

ROWS: Final = (
    Row("send", "SEND 1 KiB", _pieces(Case("sink", _KIB))),
    Row("send-ruled", "SEND 1 KiB with rules and rates", _pieces(Case("sink", _KIB)), contenders.RULED),
    Row(
        "send-mapped",
        "SEND 1 KiB with a map between products",
        _pieces(Case("sink", _KIB)),
        contenders.MAPPED,
    ),
    Row("message", "MESSAGE 1 KiB, auto", _pieces(Case("source", _KIB))),
    Row(
        "ack",
        "MESSAGE 1 KiB with an ACK each, client-individual, failover: upstream",
        _pieces(Case("individual", _KIB)),
        contenders.FAILOVER,
    ),
    Row("confirm", "SEND 1 KiB under confirm", _pieces(Case("sink", _KIB)), contenders.CONFIRM),
    Row("bridge-send", "SEND 1 KiB 1.0 to 1.2, a value to escape", _pieces(_OLD), contenders.BRIDGE, "1.2"),
    Row(
        "bridge-message",
        "MESSAGE 1 KiB 1.2 to 1.0, an id to unescape, acknowledged",
        _pieces(replace(_OLD, mode="ack")),
        contenders.BRIDGE,
        "1.2",
    ),
    Row("send-64k", "SEND 64 KiB", _pieces(Case("sink", 64 * _KIB))),
    Row("message-64k", "MESSAGE 64 KiB, auto", _pieces(Case("source", 64 * _KIB))),
    Row("loop", "50 connections, 100 B there and back", {"a frame a write": Case("loop", 100, piece=SMALL)}),
    Row("trip", "one round trip, SEND 1 KiB and its RECEIPT", {"one": Case("latency", _KIB, piece=SMALL)}),
    Row(
        "receipts",
        "50 connections, SEND 1 KiB and its RECEIPT",
        {"one at a time": Case("latency", _KIB, piece=SMALL, connections=50)},
    ),
    Row(
        "session",
        "set-up and end of a session",
        {"close after CONNECTED": Case("sessions"), "with DISCONNECT": Case("polite")},
    ),
)
NAMES: Final = tuple(row.name for row in ROWS)


@contextmanager
def running(broker: int, directory: Path, note: Callable[[str], None]) -> Iterator[list[Contender]]:
    """All contenders that can run here, at once; why another cannot is noted."""
    journal, routes = contenders.journal_of(directory / JOURNAL), contenders.routes_to(broker)
    with ExitStack() as stack:
        found = []
        for name, starting in (
            (HAPROXY, contenders.haproxy(broker, directory)),
            (RELAY, contenders.relay(routes, directory)),
            (JOURNAL, contenders.relay(routes, directory, JOURNAL, journal)),
        ):
            try:
                found.append(stack.enter_context(starting))
            except (AbsentError, RuntimeError) as error:
                note(f"{name} is left out: {error}")
        yield found


def outcomes(
    load: Load, running: Sequence[Contender], row: Row, rounds: int, seconds: float
) -> Iterator[Outcome]:
    """Run each variant of a row."""
    for variant, case in row.variants.items():
        nearest = {HAPROXY: row.nearest_to(case)}
        entries = [one.entry(nearest.get(one.name, case), row.route) for one in running]
        yield measure(load, f"{row.name}, {variant}", entries, rounds, seconds)


def compared(outcome: Outcome, what: str, of: str, over: str, bounds: Mapping[str, Goal]) -> list[Judged]:
    """An entry's figures over another's, with the absolute figure for scale."""
    found = {
        name: (outcome.absolute(FIGURES[name], over), outcome.ratios(FIGURES[name], of, over))
        for name in bounds
    }
    return [
        Judged(what, UNITS[name], scale, spread(over), bounds[name]) for name, (scale, over) in found.items()
    ]


def judged(row: Row, outcome: Outcome) -> list[Judged]:
    """The relay's figures over HAProxy's, and those of the relay with a journal over the relay's."""
    name = outcome.name
    ours = compared(outcome, name, RELAY, HAPROXY, goals.ROWS[row.name])
    return [*ours, *compared(outcome, f"{name}, journal", JOURNAL, RELAY, goals.JOURNAL)]


def report(row: Row, found: Sequence[Outcome]) -> str:
    """A row's figures and goals, and what failed."""
    figures = [one for outcome in found for one in judged(row, outcome)]
    failed = [line for outcome in found for line in outcome.failures()]
    return "\n".join([goals.verdicts(f"{row.name}: {row.title}", figures), *failed])

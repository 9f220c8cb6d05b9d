"""Round trips of a SEND with a receipt on one connection."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bench import goals
from bench.contenders import DIRECT, HAPROXY
from bench.load import Case, Run
from bench.report import Goal, figure, table
from bench.rounds import Group, Outcome
from bench.throughput import HEADER, absolute, cells, failures

MODE: Final = "latency"


def groups(bodies: Sequence[int]) -> list[Group]:
    """One for each size of body: the same version on both sides, and across versions with a value to escape."""
    bases = [Case(MODE, body) for body in bodies]
    return [
        Group(base, (replace(base, client="1.0", escaped=True), replace(base, broker="1.0", escaped=True)))
        for base in bases
    ]


def report(outcome: Outcome) -> str:
    """Tables of the median and of the 99th percentile of a group's round trips, and of what they cost."""
    p50 = _table(outcome, "p50", lambda run: run.p50 or 0.0, goals.round_trip)
    p99 = _table(outcome, "p99", lambda run: run.p99 or 0.0, lambda _: None)
    cost = _table(outcome, "CPU", lambda run: run.cost, lambda _: None)
    return "\n".join([p50, p99, cost, *failures(outcome)])


def _table(
    outcome: Outcome,
    name: str,
    of: Callable[[Run], float],
    goal: Callable[[Case], Goal | None],
) -> str:
    scale = figure(absolute(outcome, HAPROXY, of))
    direct = outcome.ratio(of, outcome.group.base, HAPROXY, DIRECT)
    beside = f"; direct is {figure(direct)} of it" if direct else ""  # it has no CPU of its own
    title = f"{outcome.group.name}: {name}, less is better (haproxy {scale} us{beside})"
    return table(title, HEADER, cells(outcome, of, goal))

"""Messages a second and CPU a message under streams and loops."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from bench import goals
from bench.contenders import DIRECT, HAPROXY, PORTFORWARD, RELAY
from bench.load import Case, Run
from bench.report import Goal, figure, median, table, verdict
from bench.rounds import Group, Outcome

MODES: Final = ("sink", "source", "ack", "loop")
"""SENDs that are discarded, MESSAGEs streamed, MESSAGEs each with its ACK, and one message at a time there and back."""

HEADER: Final = ("versions, heads", "relay/haproxy", "portforward/haproxy", "relay/portforward", "goal")


def groups(mode: str, bodies: Sequence[int]) -> list[Group]:
    """What is measured of a mode: the same version on both sides for all, and what else the relay does."""
    return [_group(Case(mode, body)) for body in bodies]


def _group(base: Case) -> Group:
    old_client, old_broker = replace(base, client="1.0"), replace(base, broker="1.0")
    if base.mode in {"ack", "loop"}:
        return Group(base, (replace(old_client, escaped=True), replace(old_broker, escaped=True)))
    variants = [
        replace(base, same=True),
        replace(base, escaped=True),
        *(replace(case, escaped=escaped) for case in (old_client, old_broker) for escaped in (False, True)),
        replace(base, client="1.1", escaped=True),
    ]
    return Group(base, tuple(variants))


def report(outcome: Outcome) -> str:
    """Two tables of a group, its rate and its cost, and what failed."""
    return "\n".join([_rates(outcome), _costs(outcome), *failures(outcome)])


def failures(outcome: Outcome) -> list[str]:
    """A line for each series that has no figures."""
    return [
        f"FAILED {one.contender}, {outcome.group.name}, {one.case.label}: {one.failure}\n"
        for one in outcome.series
        if one.failure
    ]


def absolute(outcome: Outcome, contender: str, figure_of: Callable[[Run], float]) -> float | None:
    """A contender's median figure under the group's base case, for scale only."""
    series = outcome.of(contender)
    return median([figure_of(run) for run in series.runs]) if series else None


def cells(
    outcome: Outcome, of: Callable[[Run], float], goal: Callable[[Case], Goal | None]
) -> list[list[str]]:
    """A row for each case: the three ratios, and what the goal says of the first."""
    rows = []
    for case in (outcome.group.base, *outcome.group.variants):
        values = outcome.cells(of, case)
        rows.append([case.label, *map(figure, values), verdict(goal(case), values[0])])
    return rows


def _rates(outcome: Outcome) -> str:
    scale = figure(absolute(outcome, HAPROXY, lambda run: run.rate))
    direct = figure(outcome.ratio(lambda run: run.rate, outcome.group.base, HAPROXY, DIRECT))
    title = f"{outcome.group.name}: messages a second (haproxy {scale}; direct is {direct} of it)"
    rows = cells(outcome, lambda run: run.rate, lambda case: goals.rate(case, HAPROXY))
    over = goals.rate(outcome.group.base, PORTFORWARD)
    if over:
        ours = outcome.ratio(lambda run: run.rate, outcome.group.base, PORTFORWARD, RELAY)
        rows.append(["  the first over portforward", "", "", figure(ours), verdict(over, ours)])
    return table(title, HEADER, rows)


def _costs(outcome: Outcome) -> str:
    scale = figure(absolute(outcome, HAPROXY, lambda run: run.cost))
    title = f"{outcome.group.name}: CPU a message, less is better (haproxy {scale} us)"
    return table(title, HEADER, cells(outcome, lambda run: run.cost, goals.cost))

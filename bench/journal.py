"""What the journal costs: relays that keep one, of heads, of short bodies and of whole ones, beside a plain relay."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from bench import goals
from bench.contenders import Contender, relays
from bench.load import Case, Load, Run
from bench.report import figure, table, verdict
from bench.rounds import Group, Outcome, measure
from bench.throughput import absolute, failures

NAME: Final = "journal"

PLAIN: Final = "plain"
HEADS: Final = "heads"
SHORT: Final = "256 bytes"
WHOLE: Final = "whole"
KINDS: Final = (HEADS, SHORT, WHOLE)

_BODIES: Final = {HEADS: '"none"', SHORT: "256", WHOLE: '"all"'}
_LOADS: Final = (("sink", 1024), ("source", 1024), ("individual", 1024), ("loop", 100), ("latency", 1024))
"""Kinds of load, and sizes of bodies."""
_SEGMENT: Final = 16 << 20
_KEPT: Final = 64 << 20
"""Octets of a segment, and of those that are kept: what is measured is not the machine's fresh memory."""
_LONGER: Final = 2.5
"""So many times as long as others these runs are: what is recorded is written some time later."""

HEADER: Final = (
    "load",
    "plain/s",
    *(f"{kind}/plain" for kind in KINDS),
    "goal",
)
COSTS: Final = ("load", "plain us", *(f"{kind}/plain" for kind in KINDS))


def running(broker: int, directory: Path) -> AbstractContextManager[list[Contender]]:
    """A relay without a journal, and one for each kind, in front of a null broker."""
    settings = {PLAIN: ""}
    for kind, bodies in _BODIES.items():
        folder = directory / f"journal-{kind}".replace(" ", "-")
        settings[kind] = (
            f'[journal]\ndirectory = "{folder}"\nbodies = {bodies}\nsegment_size = {_SEGMENT}\nretain_size = {_KEPT}\n'
        )
    return relays(settings, broker, directory)


def outcomes(load: Load, relays: Sequence[Contender], rounds: int, seconds: float) -> list[Outcome]:
    """Run every kind of load through all of them, in turn."""
    return [
        measure(load, relays, Group(Case(mode, body)), rounds, _LONGER * seconds) for mode, body in _LOADS
    ]


def report(found: Sequence[Outcome]) -> str:
    """A row for each kind of load: messages a second, and CPU a message, over the plain relay's; what failed."""
    rates = [_row(each, lambda run: run.rate) for each in found]
    for row, each in zip(rates, found, strict=True):
        row.append(verdict(goals.JOURNAL, _ratio(each, lambda run: run.rate, HEADS)))
    costs = [_row(each, lambda run: run.cost) for each in found]
    return "\n".join(
        [
            table("journal: messages a second", HEADER, rates),
            table("journal: CPU a message, less is better", COSTS, costs),
            *(line for each in found for line in failures(each)),
        ]
    )


def _row(outcome: Outcome, of: Callable[[Run], float]) -> list[str]:
    cells = [figure(_ratio(outcome, of, kind)) for kind in KINDS]
    return [outcome.group.name, figure(absolute(outcome, PLAIN, of)), *cells]


def _ratio(outcome: Outcome, of: Callable[[Run], float], kind: str) -> float | None:
    return outcome.ratio(of, outcome.group.base, PLAIN, kind)

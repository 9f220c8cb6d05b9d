"""What a journal costs: relays that keep one, of heads, of short bodies and of whole ones, beside a plain relay."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench.contenders import PLAIN, ROUTES, Contender, journal_of, relay
from bench.load import Case, Load, Run
from bench.report import figure, median, table
from bench.rounds import Outcome, measure

NAME: Final = "journal"

HEADS: Final = "heads"
SHORT: Final = "256 bytes"
WHOLE: Final = "whole"
KINDS: Final = (HEADS, SHORT, WHOLE)

_BODIES: Final = {HEADS: '"none"', SHORT: "256", WHOLE: '"all"'}
_LOADS: Final = (("sink", 1024), ("source", 1024), ("individual", 1024), ("loop", 100), ("latency", 1024))
"""Kinds of load, and sizes of bodies."""
_LONGER: Final = 2.5
"""So many times as long as others these runs are: what is recorded is written some time later."""

HEADER: Final = ("load", "plain/s", *(f"{kind}/plain" for kind in KINDS))
COSTS: Final = ("load", "plain us", *(f"{kind}/plain" for kind in KINDS))


@contextmanager
def running(broker: int, directory: Path) -> Iterator[list[Contender]]:
    """A relay without a journal, and one for each kind, in front of a null broker."""
    routes = {PLAIN: ROUTES[PLAIN].format(broker=f"127.0.0.1:{broker}")}
    with ExitStack() as stack:
        relays = [stack.enter_context(relay(routes, directory, PLAIN))]
        for kind, bodies in _BODIES.items():
            settings = journal_of(directory / f"journal-{kind}".replace(" ", "-"), bodies)
            relays.append(stack.enter_context(relay(routes, directory, kind, settings)))
        yield relays


def outcomes(load: Load, relays: Sequence[Contender], rounds: int, seconds: float) -> list[Outcome]:
    """Run every kind of load through all of them, in turn."""
    return [
        measure(
            load,
            f"{mode}, {body} B",
            [one.entry(Case(mode, body)) for one in relays],
            rounds,
            _LONGER * seconds,
        )
        for mode, body in _LOADS
    ]


def report(found: Sequence[Outcome]) -> str:
    """A row for each kind of load: messages a second, and CPU a message, over the plain relay's; what failed."""
    return "\n".join(
        [
            table("journal: messages a second", HEADER, [_row(each, lambda run: run.rate) for each in found]),
            table(
                "journal: CPU a message, less is better",
                COSTS,
                [_row(each, lambda run: run.cost) for each in found],
            ),
            *(line for each in found for line in each.failures()),
        ]
    )


def _row(outcome: Outcome, of: Callable[[Run], float]) -> list[str]:
    cells = [figure(median(outcome.ratios(of, kind, PLAIN))) for kind in KINDS]
    return [outcome.name, figure(outcome.absolute(of, PLAIN)), *cells]

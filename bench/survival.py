"""What surviving a broker costs: the books of failover, and confirmed sending, over the plain upstream."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.contenders import CONFIRM, FAILOVER, PLAIN, ROUTES, Contender, relay
from bench.load import ACTIVEMQ, RABBITMQ, Case, Load, Run
from bench.report import figure, median, table
from bench.rounds import Outcome, measure

NAME: Final = "survival"

_BODY: Final = 1024
_KINDS: Final = (PLAIN, FAILOVER, CONFIRM)


@dataclass(frozen=True)
class Traffic:
    """One kind of load on a null broker that says it is this product; `confirm` where clients send something."""

    name: str
    mode: str
    product: str
    confirm: bool = True


TRAFFIC: Final = (
    Traffic("SEND, cumulative receipts (ActiveMQ)", "sink", ACTIVEMQ),
    Traffic("SEND, a receipt for each (RabbitMQ)", "sink", RABBITMQ),
    Traffic("SEND and its MESSAGE, one at a time", "loop", RABBITMQ),
    Traffic("MESSAGE, ack:auto", "source", RABBITMQ, confirm=False),
    Traffic("MESSAGE, ack:client-individual, ACK", "individual", RABBITMQ, confirm=False),
)

HEADER: Final = (
    "load",
    "plain/s",
    "failover/plain",
    "confirm/plain",
    "plain us",
    "failover/plain",
    "confirm/plain",
)


def running(ports: Mapping[str, int], directory: Path) -> AbstractContextManager[Contender]:
    """The relay, with a route of each kind to each product."""
    routes = {
        f"{kind}-{product}": ROUTES[kind].format(broker=f"127.0.0.1:{ports[product]}")
        for product in (ACTIVEMQ, RABBITMQ)
        for kind in _KINDS
    }
    return relay(routes, directory)


def outcome(load: Load, relay: Contender, traffic: Traffic, rounds: int, seconds: float) -> Outcome:
    """Run one kind of load on the routes, in turn."""
    case = Case(traffic.mode, _BODY)
    kinds = _KINDS if traffic.confirm else (PLAIN, FAILOVER)
    entries = [relay.entry(case, f"{kind}-{traffic.product}", kind) for kind in kinds]
    return measure(load, traffic.name, entries, rounds, seconds)


def report(found: Sequence[Outcome]) -> str:
    """A row for each kind of load: messages a second and CPU a message, over the plain upstream's; what failed."""
    rows = [
        [outcome.name, *_cells(outcome, lambda run: run.rate), *_cells(outcome, lambda run: run.cost)]
        for outcome in found
    ]
    title = "survival: messages a second, and CPU a message (less is better), 1 KiB bodies"
    return "\n".join(
        [table(title, HEADER, rows), *(line for outcome in found for line in outcome.failures())]
    )


def _cells(outcome: Outcome, of: Callable[[Run], float]) -> list[str]:
    ratios = [median(outcome.ratios(of, kind, PLAIN)) for kind in (FAILOVER, CONFIRM)]
    return [figure(outcome.absolute(of, PLAIN)), *map(figure, ratios)]

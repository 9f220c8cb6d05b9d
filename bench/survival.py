"""What surviving a broker costs: the books of failover, and confirmed sending, over the plain upstream."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.contenders import Contender, upstreams
from bench.load import ACTIVEMQ, RABBITMQ, Case, Load, Run
from bench.report import figure, table
from bench.rounds import Group, Outcome, measure
from bench.throughput import absolute

NAME: Final = "survival"

PLAIN: Final = "plain"
FAILOVER: Final = "failover"
CONFIRM: Final = "confirm"

_SETTINGS: Final = {
    PLAIN: 'uri = "tcp://127.0.0.1:{port}"',
    FAILOVER: 'uri = "failover:(tcp://127.0.0.1:{port})"',
    CONFIRM: 'uri = "failover:(tcp://127.0.0.1:{port})"\nconfirm = true',
}
_BODY: Final = 1024


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


def running(ports: Mapping[str, int], directory: Path) -> AbstractContextManager[list[Contender]]:
    """The relay, with an upstream of each kind for each product."""
    settings = {
        f"{kind}-{product}": setting.format(port=ports[product])
        for product in (ACTIVEMQ, RABBITMQ)
        for kind, setting in _SETTINGS.items()
    }
    return upstreams(settings, directory)


def outcome(load: Load, relay: Sequence[Contender], traffic: Traffic, rounds: int, seconds: float) -> Outcome:
    """Run one kind of load on the upstreams, in turn."""
    kinds = (PLAIN, FAILOVER, CONFIRM) if traffic.confirm else (PLAIN, FAILOVER)
    by_name = {contender.name: contender for contender in relay}
    entries = [
        Contender(kind, one.ports, one.child)
        for kind in kinds
        for one in [by_name[f"{kind}-{traffic.product}"]]
    ]
    return measure(load, entries, Group(Case(traffic.mode, _BODY)), rounds, seconds)


def report(found: Sequence[tuple[Traffic, Outcome]]) -> str:
    """A row for each kind of load: messages a second and CPU a message, over the plain upstream's; what failed."""
    rows = [
        [traffic.name, *_cells(outcome, lambda run: run.rate), *_cells(outcome, lambda run: run.cost)]
        for traffic, outcome in found
    ]
    title = "survival: messages a second, and CPU a message (less is better), 1 KiB bodies"
    failed = [
        f"FAILED {one.contender}, {traffic.name}: {one.failure}\n"
        for traffic, outcome in found
        for one in outcome.series
        if one.failure
    ]
    return "\n".join([table(title, HEADER, rows), *failed])


def _cells(outcome: Outcome, of: Callable[[Run], float]) -> list[str]:
    case = outcome.group.base
    ratios = [outcome.ratio(of, case, PLAIN, kind) for kind in (FAILOVER, CONFIRM)]
    return [figure(absolute(outcome, PLAIN, of)), *map(figure, ratios)]

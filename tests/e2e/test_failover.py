"""Sessions that survive their broker, under load: two brokers, foreign clients, and every kind of fault in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.clients.client import Client
from tests.e2e.facts import NET_STOMP, PHP_STOMP, STOMP_GEM, STOMP_PY, STOMPEST, LibraryFacts
from tests.e2e.fleet import FREEZE, KILL, RESET, STOP, SWALLOW, Fault, Fleet, failover, fleet, nodes
from tests.e2e.load import Consumer, Producer, Worker, all_flow, descents, settle

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@dataclass(frozen=True)
class Line:
    """A producer and a consumer of one queue."""

    source: LibraryFacts
    source_version: str
    sink: LibraryFacts
    sink_version: str
    ack: str = "client-individual"
    every: int = 1
    """After how many messages the consumer acknowledges."""


PAIRS = {
    ("rabbitmq", "rabbitmq_2"): (
        Line(STOMP_PY, "1.2", STOMPEST, "1.2"),
        Line(STOMP_GEM, "1.1", NET_STOMP, "1.0", "client", 5),
    ),
    ("activemq", "activemq_2"): (
        Line(NET_STOMP, "1.0", STOMP_GEM, "1.2", "client", 3),
        Line(STOMPEST, "1.1", STOMP_PY, "1.1"),
    ),
    ("rabbitmq", "activemq"): (
        Line(STOMPEST, "1.2", PHP_STOMP, "1.0", "client"),
        Line(STOMP_GEM, "1.2", STOMP_PY, "1.2", "client", 4),
    ),
}

FAULTS = (KILL, RESET, FREEZE, SWALLOW, STOP, RESET, KILL, FREEZE)
"""Each on the broker that serves, so that sessions go to and fro."""


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_faults_under_load(
    pair: tuple[str, str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    client: Callable[[LibraryFacts], Client],
) -> None:
    """Nothing confirmed is lost, each receipt comes once, order holds, and no client sees anything but silence."""
    brokers: list[Broker] = [request.getfixturevalue(name) for name in pair]
    queues = [f"/queue/failover-{'-'.join(pair)}-{number}" for number in range(2)]
    with nodes(*brokers) as members, fleet(tmp_path, members, failover(members)) as running:
        lines = list(zip(queues, PAIRS[pair], strict=True))
        producers = [
            Producer(line.source.name, client(line.source), running.port, line.source_version, queue)
            for queue, line in lines
        ]
        consumers = [
            Consumer(
                *(line.sink.name, client(line.sink), running.port, line.sink_version, queue),
                *(line.ack, line.every),
            )
            for queue, line in lines
        ]
        workers = [*producers, *consumers]
        for worker in workers:
            worker.start()
        all_flow(workers)
        for fault in FAULTS:
            _strike(running, fault, workers)
        running.heal()
        for queue, producer, consumer in zip(queues, producers, consumers, strict=True):
            account = settle(queue, [broker.port for broker in brokers], [producer], [consumer])
            print(f"{queue}: {account}")
            assert not account.lost
            # On each broker order holds; with each change of the broker it may begin anew.
            assert descents(consumer.bodies) <= 2 * len(FAULTS)
        # The clients' own logs had nothing; some libraries connect again without a word.
        assert running.counted("sessions_connected") == len(workers)
        assert running.counted("errors_sent") == running.counted("errors_passed") == 0


def _strike(running: Fleet, fault: Fault, workers: Sequence[Worker]) -> None:
    """Do something to the broker that serves, and wait until all work goes on without it."""
    running.heal()
    struck = running.serving
    fault.inject(struck)
    all_flow(workers)
    fault.begin_healing(struck)

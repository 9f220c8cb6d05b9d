"""Sessions that survive their broker, under load: two brokers, foreign clients, and every kind of fault in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.clients.client import Client
from tests.e2e.facts import PHP_STOMP, STOMP_GEM, STOMP_PY, STOMPEST, LibraryFacts
from tests.e2e.fleet import FREEZE, KILL, RESET, STOP, SWALLOW, Fault, Fleet, Node, failover, fleet, nodes
from tests.e2e.load import Consumer, Producer, Worker, all_flow, descents, settle
from tests.e2e.ports import free_port
from tests.e2e.relay import listening

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
    ("artemis", "activemq_6"): (
        Line(STOMPEST, "1.1", STOMP_PY, "1.2"),
        Line(STOMP_PY, "1.2", STOMP_GEM, "1.2", "client", 4),
    ),
    ("rabbitmq", "activemq"): (
        Line(STOMPEST, "1.2", PHP_STOMP, "1.0", "client"),
        Line(STOMP_GEM, "1.2", STOMP_PY, "1.2", "client", 4),
    ),
}

EACH = (KILL, RESET, FREEZE, SWALLOW, STOP)
"""Each on the broker that serves, so that sessions go to and fro."""


def modern(members: Sequence[Node], port: int) -> str:
    """A listener and an upstream of its own of the same brokers, in 1.2, so that legs of 1.0 clients beat."""
    upstream = failover(members, name="modern", more='versions = ["1.2"]')
    return listening(port, "modern", f'upstream = "modern"\n[upstream.modern]{upstream}')


@pytest.mark.parametrize(
    ("pair", "faults"),
    [
        pytest.param(("rabbitmq", "activemq"), EACH, marks=pytest.mark.ci, id="rabbitmq+activemq"),
        pytest.param(("artemis", "activemq_6"), (KILL,), marks=pytest.mark.deep, id="artemis+activemq_6"),
    ],
)
def test_faults_under_load(
    pair: tuple[str, str],
    faults: Sequence[Fault],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    client: Callable[[LibraryFacts], Client],
    queue: str,
) -> None:
    """Nothing confirmed is lost, each receipt comes once, order holds, and no client sees anything but silence."""
    brokers: list[Broker] = [request.getfixturevalue(name) for name in pair]
    queues = [f"{queue}-{number}" for number in range(2)]
    beating = free_port()
    with (
        nodes(*brokers) as members,
        fleet(tmp_path, members, failover(members) + modern(members, beating)) as running,
    ):
        running.relay.wait_for_log(rf" starting on {beating}$")

        def port(version: str) -> int:
            return beating if version == "1.0" else running.port

        lines = list(zip(queues, PAIRS[pair], strict=True))
        producers, consumers = [], []
        for place, line in lines:
            source, sink = client(line.source), client(line.sink)
            producers.append(
                Producer(line.source.name, source, port(line.source_version), line.source_version, place)
            )
            consumers.append(
                Consumer(
                    *(line.sink.name, sink, port(line.sink_version), line.sink_version, place),
                    *(line.ack, line.every),
                )
            )
        workers = [*producers, *consumers]
        for worker in workers:
            worker.start()
        all_flow(workers)
        for fault in faults:
            _strike(running, fault, workers)
        running.heal()
        for place, producer, consumer in zip(queues, producers, consumers, strict=True):
            account = settle(place, [broker.port for broker in brokers], [producer], [consumer])
            print(f"{producer.name} to {consumer.name}: {account}")
            assert not account.lost
            # On each broker order holds; with each change of the broker it may begin anew.
            assert descents(consumer.bodies) <= 2 * len(faults)
        # The clients' own logs had nothing; some libraries connect again without a word.
        assert running.admin.counted("sessions_connected") == len(workers)
        assert running.admin.counted("errors_sent") == running.admin.counted("errors_passed") == 0


def _strike(running: Fleet, fault: Fault, workers: Sequence[Worker]) -> None:
    """Do something to the broker that serves, and wait until all work goes on without it."""
    running.heal()
    running.relay.wait_until(running.all_up)
    struck = running.serving
    print(
        f"{fault.name} for {struck.broker.name} at {struck.uri}", {each.name: each.count for each in workers}
    )
    fault.inject(struck)
    all_flow(workers)
    fault.begin_healing(struck)

"""A planned switch-over while clients work: a broker is paused, left by its sessions, and taken up again."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.clients.client import Client
from tests.e2e.facts import STOMP_GEM, STOMP_PY, LibraryFacts
from tests.e2e.fleet import Fleet, Node, surviving
from tests.e2e.load import Consumer, Producer, all_flow, settle

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@pytest.fixture
def pair(tmp_path: Path, rabbitmq: Broker, activemq: Broker) -> Iterator[Fleet]:
    """Run a relay in front of a RabbitMQ and an ActiveMQ."""
    with surviving(tmp_path, rabbitmq, activemq) as running:
        yield running


def left(running: Fleet, node: Node) -> bool:
    """Tell whether a broker is paused and has no session any more."""
    told = running.admin.brokers()[node.uri]
    return (told["state"], told["sessions"]) == ("paused", 0)


def serves(running: Fleet, node: Node, sessions: int) -> bool:
    """Tell whether a broker has so many sessions."""
    return bool(running.admin.brokers()[node.uri]["sessions"] == sessions)


@pytest.mark.ci
def test_under_load(pair: Fleet, client: Callable[[LibraryFacts], Client], queue: str) -> None:
    """To and fro, and nothing is lost; no client sees more than silence; the paused broker has no session."""
    producer = Producer("stomp.py", client(STOMP_PY), pair.port, "1.2", queue)
    consumer = Consumer("gem", client(STOMP_GEM), pair.port, "1.1", queue, "client", 3)
    workers = [producer, consumer]
    for worker in workers:
        worker.start()
    all_flow(workers)
    for away, there in (pair.nodes, pair.nodes[::-1]):
        pair.admin.told("/brokers/pause", broker=away.uri, within=5)
        pair.relay.wait_until(partial(left, pair, away))
        pair.relay.wait_until(partial(serves, pair, there, 2))
        away.proxy.cut()
        all_flow(workers)
        away.proxy.flow()
        pair.admin.told("/brokers/resume", broker=away.uri)
    account = settle(queue, [node.broker.port for node in pair.nodes], [producer], [consumer])
    print(f"{queue}: {account}")
    assert not account.lost
    assert pair.admin.counted("sessions_connected") == 2
    assert pair.admin.counted("errors_sent") == pair.admin.counted("errors_passed") == 0

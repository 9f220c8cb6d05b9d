"""A planned switch-over while clients work: a broker is paused, left by its sessions, and taken up again."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.clients.client import Client
from tests.e2e.facts import STOMP_GEM, STOMP_PY, LibraryFacts
from tests.e2e.fleet import Fleet, Node, failover, fleet, nodes, surviving
from tests.e2e.load import Consumer, Producer, all_flow, settle
from tests.e2e.relay import stomprelay
from tests.e2e.talker import Talker

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


def test_the_other_broker_does_not_take_the_sessions(
    tmp_path: Path, rabbitmq: Broker, activemq: Broker, queue: str
) -> None:
    """It has no such virtual host: they go on where they are, and the command says how many and why, and fails."""
    with nodes(activemq, rabbitmq) as members:
        lines = failover(members, more='host = "elsewhere"')
        with fleet(tmp_path, members, lines) as running, Talker.at(running.port) as client:
            here, there = running.nodes
            client.subscribe(queue, "1")
            status, told = commanded(running, "pause", here.uri)
            assert status == 1
            assert f"1 session stays, for no other broker took them: {there.uri} answered CONNECT" in told
            client.send(queue, b"still here")
            assert client.bodies(1) == [b"still here"]
            command(running, "resume", here.uri)
            client.leave()
            assert running.admin.counted("errors_passed") == running.admin.counted("errors_sent") == 0


def command(running: Fleet, *arguments: str) -> str:
    """Run `stomprelay` with these arguments; it has to succeed."""
    status, told = commanded(running, *arguments)
    assert status == 0, told
    return told


def commanded(running: Fleet, *arguments: str) -> tuple[int, str]:
    """Run `stomprelay` with these arguments, and return its exit status and what it printed."""
    done = stomprelay(*arguments, "--admin", running.admin.url)
    return done.returncode, done.stdout + done.stderr

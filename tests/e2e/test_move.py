"""Destinations move from one product to another and back, phase by phase, while clients work."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.clients.client import Client
from tests.e2e.facts import STOMP_GEM, STOMP_PY, LibraryFacts
from tests.e2e.fleet import KILL, Fleet, nodes
from tests.e2e.load import Consumer, Producer, all_flow, drain, settle
from tests.e2e.raw import body
from tests.e2e.relay import relay, served, stomprelay
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.ci)], ids=["one process", "two workers"])
def moving(
    request: pytest.FixtureRequest, tmp_path: Path, activemq: Broker, rabbitmq: Broker
) -> Iterator[Fleet]:
    """Run a relay before an ActiveMQ, from which all queues are to move to RabbitMQ."""
    with nodes(activemq, rabbitmq) as members:
        old, new = (f'uri = "failover:({node.uri})"\nconfirm = true\n' for node in members)
        upstreams = f'{old}[upstream.new]\n{new}[move.queues]\nprefix = "/queue/"\nto = "new"\n'
        more = f'moves_file = "{tmp_path / "moves.json"}"'
        with served(tmp_path, upstreams, more=more, workers=request.param) as running:
            yield Fleet(running, running.port, running.admin, members)


def to(running: Fleet, order: str) -> None:
    """An operator gives this order, and waits until all sessions have followed."""
    found = stomprelay("move", order, "queues", "--admin", running.admin.url)
    assert found.returncode == 0, found.stderr
    running.relay.wait_until(lambda: followed(running))


def followed(running: Fleet) -> bool:
    """Tell whether all sessions have followed the move."""
    [move] = running.admin.told("/moves")["moves"]
    assert not move["stopped"], move
    return bool(move["followed"] == move["sessions"])


@pytest.mark.ci
@pytest.mark.parametrize("moving", [2], ids=["two workers"], indirect=True)
def test_under_load(moving: Fleet, client: Callable[[LibraryFacts], Client], queue: str) -> None:
    """There and back, and what was confirmed is received once; the clients see nothing of it."""
    producers = [Producer("stomp.py", client(STOMP_PY), moving.port, "1.2", queue)]
    consumers = [
        Consumer("gem", client(STOMP_GEM), moving.port, "1.1", queue, "client", 3),
        Consumer("python", client(STOMP_PY), moving.port, "1.2", queue, "client-individual"),
    ]
    workers = [*producers, *consumers]
    for worker in workers:
        worker.start()
    all_flow(workers)
    for order in (*["next"] * 4, *["back"] * 4, "next", "next"):
        to(moving, order)
        all_flow(workers)
    account = settle(queue, [node.broker.port for node in moving.nodes], producers, consumers)
    print(f"{queue}: {account}")
    assert not account.lost
    assert not account.duplicates
    assert moving.admin.counted("sessions_connected") == len(workers)
    assert moving.admin.counted("errors_sent") == moving.admin.counted("errors_passed") == 0


def test_over_a_kill(moving: Fleet, queue: str, tmp_path: Path) -> None:
    """The phase is on disk before a session follows: the sessions of the next relay begin in it."""
    for _ in range(3):
        to(moving, "next")
    moving.relay.kill()
    ports = [moving.port, moving.admin.port]
    with relay(tmp_path, moving.relay.file.read_text(), ports), Talker.at(moving.port) as talker:
        [move] = moving.admin.told("/moves")["moves"]
        assert move["phase"] == "new"
        talker.send(queue, b"x")
        talker.leave()
    assert drain(moving.nodes[1].broker.port, queue) == [b"x"]


@pytest.mark.parametrize(
    "workers", [1, pytest.param(2, marks=pytest.mark.ci)], ids=["one process", "two workers"]
)
def test_a_durable_subscriber_that_is_away(
    workers: int, tmp_path: Path, activemq: Broker, rabbitmq: Broker, queue: str
) -> None:
    """Producers wait for it, also after a kill; then NEW keeps for it what comes, and OLD stays until it has come."""
    own = queue.rpartition("/")[2]
    topic = f"/topic/{own}"
    new = f'uri = "failover:({rabbitmq.uri})"\nhost = "/"\nprofile = "rabbitmq"\nmap.clients = "activemq"'
    upstreams = f"""uri = "failover:({activemq.uri})"
profile = "activemq"
[upstream.new]
{new}
[move.topics]
destination = "{topic}"
to = "new"
"""
    more = f'moves_file = "{tmp_path / "moves.json"}"'
    with served(tmp_path, upstreams, more=more, workers=workers) as running:
        port, admin = running.port, running.admin

        def order(phase: str) -> str:
            found = stomprelay("move", phase, "topics", "--admin", admin.url)
            return found.stderr if found.returncode else ""

        def move() -> dict[str, Any]:
            [row] = admin.told("/moves")["moves"]
            return dict(row)

        def there() -> Talker:
            talker = Talker.at(port, client_id=own)
            talker.ask(
                "SUBSCRIBE", id="1", destination=topic, ack="client", **{"activemq.subscriptionName": "s"}
            )
            return talker

        assert not order("next")
        there().leave()
        assert not order("next")
        missing = f"durable subscribers have not been connected since topics is both: {own}: s; "
        running.wait_until(lambda: missing in order("next"))
        running.wait_until(lambda: f"{own}: s" in (tmp_path / "moves.json").read_text())
        running.kill()
        file = running.file.read_text()
    with relay(tmp_path, file, [port, admin.port]) as running:
        assert missing in order("next")
        with there() as talker:
            running.wait_until(lambda: not move()["away"])
            talker.leave()
        assert not order("next")
        with Talker.at(port) as producer:
            producer.send(topic, b"1")
            producer.leave()
        assert move()["away"] == [f"{own}: s"]
        assert "since topics is new" in order("next")
        with there() as talker:
            talker.acknowledge(message := talker.message())
            assert body(message) == b"1"
            running.wait_until(lambda: not move()["away"])
            talker.ask("UNSUBSCRIBE", id="1")
            talker.leave()
        assert not order("next")


@pytest.mark.long
def test_kills(moving: Fleet, client: Callable[[LibraryFacts], Client], queue: str) -> None:
    """Either broker dies in each phase, there and back: nothing that was confirmed is lost, and no client notices."""
    producers = [Producer("stomp.py", client(STOMP_PY), moving.port, "1.2", queue)]
    consumers = [Consumer("gem", client(STOMP_GEM), moving.port, "1.1", queue, "client-individual")]
    workers = [*producers, *consumers]
    for worker in workers:
        worker.start()
    for order in (*["next"] * 4, *["back"] * 2):
        to(moving, order)
        for node in moving.nodes:
            KILL.inject(node)
            KILL.begin_healing(node)
            node.heal()
            all_flow(workers)
        moving.relay.wait_until(lambda: followed(moving))
    account = settle(queue, [node.broker.port for node in moving.nodes], producers, consumers)
    print(f"{queue}: {account}")
    assert not account.lost
    assert moving.admin.counted("errors_sent") == moving.admin.counted("errors_passed") == 0

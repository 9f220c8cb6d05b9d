"""Several brokers that serve at once: who gets a session, and how sessions come back to a broker that was away."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, Node, fleet, nodes
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@contextmanager
def balanced(directory: Path, members: list[Node], policy: str, weight: int = 1) -> Iterator[Fleet]:
    """Run a relay with this policy; the first node has a weight."""
    first, second = (node.uri for node in members)
    config = f"""
uri = "failover:({first}?weight={weight},{second})?initialReconnectDelay=10"
policy = "{policy}"
confirm = true
rebalance_rate = 50
[upstream.main.health]
pause = 0.5
longest_pause = 1
probe = 0.5
"""
    with fleet(directory, members, config) as running:
        yield running


def shares(running: Fleet) -> list[int]:
    """How many sessions each broker has."""
    told = running.admin.brokers()
    return [told[node.uri]["sessions"] for node in running.nodes]


def levelled(found: list[int], expected: list[int]) -> bool:
    """Tell whether every broker has its share, but for one session: for that nobody moves."""
    return sum(found) == sum(expected) and abs(found[0] - expected[0]) <= 1


@pytest.mark.parametrize(
    ("policy", "weight", "expected"), [("round-robin", 1, [6, 6]), ("round-robin", 3, [9, 3])]
)
def test_sessions_spread_and_come_back(
    policy: str, weight: int, expected: list[int], tmp_path: Path, activemq: Broker, rabbitmq: Broker
) -> None:
    """Each broker has its share; when one was away, sessions return to it, and clients do not notice."""
    with (
        nodes(rabbitmq, activemq) as members,
        balanced(tmp_path, members, policy, weight) as running,
        ExitStack() as stack,
    ):
        clients = [stack.enter_context(Talker.at(running.port)) for _ in range(12)]
        assert shares(running) == expected
        for number, client in enumerate(clients):
            client.subscribe(f"/topic/balance-{number}", "1")
        members[1].proxy.cut()
        for client in clients:
            client.send("/queue/balance", b"during")
        assert shares(running) == [12, 0]
        members[1].proxy.flow()
        running.relay.wait_until(lambda: levelled(shares(running), expected))
        for number, client in enumerate(clients):
            client.send(f"/topic/balance-{number}", b"%d" % number)
            assert client.bodies(1) == [b"%d" % number]
            client.leave()

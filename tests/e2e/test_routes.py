"""Destinations that lead to different brokers in one session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, fleet, nodes
from tests.e2e.load import drain
from tests.e2e.raw import body, headers
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

HERE, THERE, GLOBBED = "/queue/routes", "/queue/orders.routes", "/queue/routes.audit"


@pytest.fixture
def routed(tmp_path: Path, activemq: Broker, rabbitmq: Broker) -> Iterator[Fleet]:
    """Run a relay that takes orders and audits to RabbitMQ and everything else to ActiveMQ."""
    with nodes(activemq, rabbitmq) as members:
        here, there = members
        config = f"""
uri = "{here.uri}"
[upstream.orders]
uri = "{there.uri}"
"""
        routes = """
[[route]]
prefix = "/queue/orders."
upstream = "orders"
[[route]]
glob = "/queue/*.audit"
upstream = "orders"
"""
        with fleet(tmp_path, members, config, routes) as running:
            yield running


def test_a_leg_is_opened_when_it_is_needed(routed: Fleet) -> None:
    """Nobody connects to a broker whose destinations nobody asked for."""
    with Talker.at(routed.port) as client:
        client.send(HERE, b"1")
        assert routed.nodes[1].proxy.accepted == 0
        client.send(THERE, b"2")
        client.send(GLOBBED, b"3")
        assert routed.nodes[1].proxy.accepted == 1
        client.leave()
    held = [[drain(node.broker.port, queue) for queue in (HERE, THERE, GLOBBED)] for node in routed.nodes]
    assert held == [[[b"1"], [], []], [[], [b"2"], [b"3"]]]


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_consuming_from_both(routed: Fleet, version: str) -> None:
    """Messages of both come on one connection, and what is acknowledged is gone at the one that it came from."""
    with Talker.at(routed.port, version) as client:
        client.subscribe(HERE, "a", "client-individual")
        client.subscribe(THERE, "b", "client-individual")
        for number in range(5):
            for queue in (HERE, THERE):
                client.send(queue, b"%d" % number)
        found: dict[str, list[bytes]] = {HERE: [], THERE: []}
        for _ in range(10):
            message = client.message()
            said = headers(message)
            found[said[b"destination"].decode()].append(body(message))
            assert said[b"subscription"] == (b"a" if said[b"destination"] == HERE.encode() else b"b")
            client.acknowledge(message)
        assert found == {queue: [b"%d" % number for number in range(5)] for queue in (HERE, THERE)}
        client.leave()
    assert drain(routed.nodes[0].broker.port, HERE) == []
    assert drain(routed.nodes[1].broker.port, THERE) == []


@pytest.mark.parametrize("order", [(HERE, THERE), (THERE, HERE)])
def test_a_transaction_on_both_is_refused(routed: Fleet, order: tuple[str, str]) -> None:
    """It ends in an ERROR and neither broker delivers anything; one that stays on a broker is fine."""
    with Talker.at(routed.port) as client:
        client.tell("BEGIN", transaction="one")
        client.tell("SEND", b"fine", destination=THERE, transaction="one", persistent="true")
        client.ask("COMMIT", transaction="one")
        client.tell("BEGIN", transaction="two")
        for queue in order:
            client.tell("SEND", b"half", destination=queue, transaction="two", persistent="true")
        client.tell("COMMIT", transaction="two")
        assert b"two" in client.error()
    assert drain(routed.nodes[0].broker.port, HERE) == []
    assert drain(routed.nodes[1].broker.port, THERE) == [b"fine"]

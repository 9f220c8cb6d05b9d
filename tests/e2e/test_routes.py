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


@pytest.fixture
def here(queue: str) -> str:
    """Give a queue for which no route is meant."""
    return queue


@pytest.fixture
def there(queue: str) -> str:
    """Give a queue of orders."""
    return queue.replace("/queue/", "/queue/orders.")


@pytest.fixture
def routed(tmp_path: Path, activemq: Broker, rabbitmq: Broker) -> Iterator[Fleet]:
    """Run a relay that takes orders and audits to RabbitMQ and everything else to ActiveMQ."""
    with nodes(activemq, rabbitmq) as members:
        config = f"""
uri = "{members[0].uri}"
[upstream.orders]
uri = "{members[1].uri}"
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


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_consuming_from_both(routed: Fleet, here: str, there: str, version: str) -> None:
    """Messages of both come on one connection, and what is acknowledged is gone at the one that it came from."""
    with Talker.at(routed.port, version) as client:
        client.subscribe(here, "a", "client-individual")
        client.subscribe(there, "b", "client-individual")
        for number in range(5):
            for place in (here, there):
                client.send(place, b"%d" % number)
        found: dict[str, list[bytes]] = {here: [], there: []}
        for _ in range(10):
            message = client.message()
            said = headers(message)
            found[said[b"destination"].decode()].append(body(message))
            assert said[b"subscription"] == (b"a" if said[b"destination"] == here.encode() else b"b")
            client.acknowledge(message)
        assert found == {place: [b"%d" % number for number in range(5)] for place in (here, there)}
        client.leave()
    assert drain(routed.nodes[0].broker.port, here) == []
    assert drain(routed.nodes[1].broker.port, there) == []

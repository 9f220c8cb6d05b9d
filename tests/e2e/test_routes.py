"""Destinations that lead to different brokers in one session."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, fleet, nodes
from tests.e2e.load import drain
from tests.e2e.raw import CONNECT, Connection, ScriptedBroker, body, headers
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


def fewer(running: Fleet, descriptors: int) -> bool:
    """Tell whether the relay has closed a connection."""
    return running.relay.descriptors() < descriptors


@pytest.mark.parametrize("turned", [False, True])
def test_brokers_that_part_one_after_the_other(tmp_path: Path, turned: bool) -> None:
    """The client's DISCONNECT is confirmed when both brokers have confirmed it; what they do then is their affair."""
    routes = '[[route]]\nprefix = "/queue/orders."\nupstream = "orders"'
    with ScriptedBroker() as one, ScriptedBroker() as other:
        uris = [f'uri = "tcp://127.0.0.1:{broker.port}"' for broker in (one, other)]
        with (
            fleet(tmp_path, [], "\n[upstream.orders]\n".join(uris), routes) as running,
            Connection.to(running.port) as client,
        ):
            client.write(CONNECT)
            first = one.accept()
            first.connected()
            assert client.frame().startswith(b"CONNECTED\n")
            client.write(b"SEND\ndestination:/queue/orders.a\nreceipt:1\n\n\0")
            second = other.accept()
            second.connected()
            assert second.frame().startswith(b"SEND\n")
            second.write(b"RECEIPT\nreceipt-id:1\n\n\0")
            assert client.frame() == b"RECEIPT\nreceipt-id:1\n\n\0"
            client.write(b"DISCONNECT\nreceipt:bye\n\n\0")
            for broker in (second, first) if turned else (first, second):
                asked = broker.frame()
                assert asked.startswith(b"DISCONNECT\n")
                descriptors = running.relay.descriptors()
                broker.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % headers(asked)[b"receipt"])
                broker.close()
                running.relay.wait_until(partial(fewer, running, descriptors))
            assert client.frame() == b"RECEIPT\nreceipt-id:bye\n\n\0"

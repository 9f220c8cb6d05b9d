"""Clients that were written for ActiveMQ, with its names, and RabbitMQ behind the relay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.brokers import Artemis, Broker
from tests.e2e.fleet import Fleet, fleet, nodes
from tests.e2e.load import drain
from tests.e2e.raw import body, headers
from tests.e2e.relay import served
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@pytest.fixture
def named(tmp_path: Path, rabbitmq: Broker) -> Iterator[Fleet]:
    """Run a relay to RabbitMQ for clients that use ActiveMQ's names."""
    with nodes(rabbitmq) as members:
        config = f"""
uri = "failover:({members[0].uri})"
confirm = true
[upstream.main.map]
names = [["/queue/{{name}}", "/queue/{{name:percent}}"], ["/topic/{{name}}", "/topic/{{name:hash}}"]]
"""
        with fleet(tmp_path, members, config) as running:
            yield running


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_names_of_another_product(named: Fleet, queue: str, version: str) -> None:
    """A queue with a slash in its name, which RabbitMQ refuses, and a topic's wildcard, which it does not know."""
    place, topic = f"{queue}/orders/new", queue.replace("/queue/", "/topic/")
    with Talker.at(named.port, version) as client:
        client.subscribe(place, "a", "client-individual")
        client.subscribe(f"{topic}.>", "b", "auto")
        for number in range(3):
            client.send(place, b"%d" % number)
            client.send(f"{topic}.x.y", b"%d" % number)
        found: dict[bytes, list[bytes]] = {}
        for _ in range(6):
            message = client.message()
            found.setdefault(headers(message)[b"destination"], []).append(body(message))
            if headers(message)[b"destination"] == place.encode():
                client.acknowledge(message)
        sent = [b"0", b"1", b"2"]
        assert found == {place.encode(): sent, f"{topic}.x.y".encode(): sent}
        client.leave()
    assert drain(named.nodes[0].broker.port, f"{queue}%2Forders%2Fnew") == []


@pytest.mark.parametrize("product", ["artemis", "artemis_shipped", "activemq", "rabbitmq"])
def test_replies_to_what_is_temporary(
    request: pytest.FixtureRequest, tmp_path: Path, product: str, queue: str
) -> None:
    """A queue and a topic of one name are two places of the client's own, and come back as the client wrote them."""
    broker = request.getfixturevalue(product.removesuffix("_shipped"))
    port = broker.shipped_port if product.endswith("_shipped") else broker.port
    clients = "artemis" if product == "activemq" else "activemq"
    upstream = f'uri = "tcp://127.0.0.1:{port}"\n[upstream.main.map]\nclients = "{clients}"\ntemporary_queues = true\n'
    with (
        served(tmp_path, upstream) as running,
        Talker.at(running.port) as one,
        Talker.at(running.port) as two,
    ):
        names = {"q": "/temp-queue/x", "t": "/temp-topic/x"}
        for id, name in names.items():
            one.subscribe(name, id)
            one.send(queue, id.encode(), **{"reply-to": name})
        two.subscribe(queue, "work")
        for _ in names:
            asked = two.message()
            two.send(headers(asked)[b"reply-to"].decode(), body(asked))
        for reply in [one.message() for _ in names]:
            id = headers(reply)[b"subscription"].decode()
            assert (headers(reply)[b"destination"], body(reply)) == (names.pop(id).encode(), id.encode())


def test_probes_fill_a_queue(tmp_path: Path, artemis: Artemis, queue: str) -> None:
    """Artemis as it is shipped would drop the message of a probe, and send its receipt."""
    upstream = f'''uri = "failover:(tcp://127.0.0.1:{artemis.shipped_port})"
login = "guest"
passcode = "guest"
[upstream.main.health]
probe = 0.1
destination = "{queue}"
'''
    with served(tmp_path, upstream) as running:
        running.wait_until(lambda: running.admin.told("/brokers")["brokers"][0]["state"] == "up")
        with Talker.at(running.port) as client:
            client.subscribe(queue, "1")
            assert headers(client.message())[b"destination-type"] == b"ANYCAST"

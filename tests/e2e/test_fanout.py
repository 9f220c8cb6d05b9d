"""One client, several brokers at once: SENDs to all, a quorum of receipts, and merged subscriptions."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, Node, fleet, nodes
from tests.e2e.load import drain
from tests.e2e.raw import body
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@pytest.fixture
def pair(activemq: Broker, rabbitmq: Broker) -> Iterator[list[Node]]:
    """Give an ActiveMQ and a RabbitMQ."""
    with nodes(activemq, rabbitmq) as members:
        yield members


def fanout(
    members: Sequence[Node], options: str, group: str = "failover:({})?randomize=false&timeout=2000"
) -> str:
    """Return the lines of an upstream that has a group for each node, of this form."""
    groups = ",".join(group.format(node.uri) for node in members)
    uri = f'uri = "fanout:({groups})?{options}"'
    return f"{uri}\nconfirm = true\nheart_beat = [500, 500]\nconnect_timeout = 2"


def held(members: Sequence[Node], queue: str) -> list[list[bytes]]:
    """Return what each broker holds in a queue, which is empty then."""
    return [drain(node.broker.port, queue) for node in members]


@pytest.fixture(scope="module")
def both(activemq: Broker, rabbitmq: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Run a relay before both, with a receipt for what both have."""
    with nodes(activemq, rabbitmq) as members:
        directory = tmp_path_factory.mktemp("both")
        with fleet(directory, members, fanout(members, "minAckCount=2")) as running:
            yield running


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_everything_goes_to_all(both: Fleet, version: str, queue: str) -> None:
    """With `minAckCount=2` a receipt means that both have it, and it comes once."""
    bodies = [b"%d" % number for number in range(100)]
    with Talker.at(both.port, version) as client:
        client.send(queue, *bodies)
        assert held(both.nodes, queue) == [bodies, bodies]
        client.leave()


@pytest.mark.ci
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_subscriptions_are_merged(both: Fleet, ack: str, version: str, queue: str) -> None:
    """The client gets both brokers' messages; its ACKs reach the broker that each came from."""
    with Talker.at(both.port, version) as client:
        client.subscribe(queue, "1", ack)
        for node in both.nodes:
            with Talker.at(node.broker.port) as other:
                other.send(queue, *[f"{node.broker.name}-{number}".encode() for number in range(5)])
        messages = [client.message() for _ in range(10)]
        by_broker = {
            node.broker.name: [each for each in messages if body(each).startswith(node.broker.name.encode())]
            for node in both.nodes
        }
        assert [len(each) for each in by_broker.values()] == [5, 5]
        if ack == "client":
            for each in by_broker.values():
                client.acknowledge(each[-1])
        elif ack == "client-individual":
            for message in messages:
                client.acknowledge(message)
        client.leave()
    assert held(both.nodes, queue) == [[], []]


@pytest.mark.ci
@pytest.mark.parametrize("dead", [0, 1])
def test_a_group_that_dies(pair: list[Node], tmp_path: Path, dead: int, queue: str) -> None:
    """With `minAckCount=1` the client does not notice; the dead one catches up when it is there again."""
    bodies = [b"%d" % number for number in range(300)]
    upstream = fanout(pair, "minAckCount=1", "{}")
    with fleet(tmp_path, pair, upstream) as running, Talker.at(running.port) as client:
        client.send(queue, *bodies[:100])
        pair[dead].proxy.cut()
        client.send(queue, *bodies[100:200])
        pair[dead].proxy.flow()
        client.send(queue, *bodies[200:])
        found: list[list[bytes]] = [[], []]

        def caught_up() -> bool:
            for each, more in zip(found, held(pair, queue), strict=True):
                each.extend(more)
            return set(found[0]) == set(found[1]) == set(bodies)

        running.relay.wait_until(caught_up)
        assert list(dict.fromkeys(found[dead])) == bodies
        assert found[1 - dead] == bodies
        client.leave()

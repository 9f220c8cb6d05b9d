"""What a client sent before the relay ends its session, at real brokers, while messages are on their way to it."""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.e2e.child import PATIENCE
from tests.e2e.load import drain
from tests.e2e.ports import free_port
from tests.e2e.raw import headers
from tests.e2e.relay import listening, relay
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

SENDS = 300
BODY = b"x" * 3072
UPSTREAMS = {
    "plain": 'uri = "tcp://127.0.0.1:{}"',
    "failover": 'uri = "failover:(tcp://127.0.0.1:{})"',
    "confirm": 'uri = "failover:(tcp://127.0.0.1:{})"\nconfirm = true',
}
FAULTS = [
    ("plain", b"JUMP\n\n\0"),
    ("failover", b"SEND\ndestination:/queue/a\ncontent-length:100000\n\n"),
    ("confirm", b"SEND\ndestination:/queue/denied\n\nx\0"),
]


class Ways(NamedTuple):
    """A relay before one broker: its port for each kind of upstream, and the broker's."""

    ports: dict[str, int]
    broker: int


@pytest.fixture(scope="module", params=["rabbitmq", "activemq", "activemq_6", "artemis"])
def ways(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    """Run a relay with a listener for each kind of upstream, before a broker of this product.

    While a session ends, a broker that is silent for half the `disconnect_timeout` counts as lost, and gets the SENDs
    without a RECEIPT again. On a busy machine a broker may be silent for longer than half of the default's 5 seconds.
    """
    broker = request.getfixturevalue(request.param).port
    ports = {name: free_port() for name in UPSTREAMS}
    config = '[[rule]]\naction = "deny"\nsend = "/queue/denied"\n'
    for name, text in UPSTREAMS.items():
        config += listening(
            ports[name], name, f'upstream = "{name}"\nrules_default = "allow"\nlimits.body = 50000'
        )
        config += f'[upstream.{name}]\nprofile = "{request.param.partition("_")[0]}"\n{text.format(broker)}\n'
        config += f"disconnect_timeout = {2 * PATIENCE}\n"
    with relay(tmp_path_factory.mktemp("ends"), config, [*ports.values()]):
        yield Ways(ports, broker)


@pytest.mark.ci
@pytest.mark.parametrize(("kind", "fault"), FAULTS, ids=[kind for kind, _ in FAULTS])
def test_what_came_before_a_fault_is_delivered(ways: Ways, queue: str, kind: str, fault: bytes) -> None:
    """All SENDs are at the broker, once, and their RECEIPTs at the client before the ERROR; no MESSAGE is lost."""
    with Talker.at(ways.broker) as other:
        other.send(f"{queue}-in", *[b"%d" % number + BODY for number in range(100)])
    client = Talker.at(ways.ports[kind])
    client.tell("SUBSCRIBE", destination=f"{queue}-in", id="in", ack="client-individual")
    sends = b"".join(
        b"SEND\ndestination:%b\npersistent:true\nreceipt:%d\n\n%d %b\0"
        % (queue.encode(), number, number, BODY)
        for number in range(SENDS)
    )
    # The client reads nothing before it has written everything, so that messages wait in all sockets.
    writing = threading.Thread(target=client.write, args=[sends + fault])
    writing.start()
    receipts = []
    while not (frame := client.frame()).startswith(b"ERROR\n"):
        if frame.startswith(b"RECEIPT\n"):
            receipts.append(int(headers(frame)[b"receipt-id"]))
    writing.join()
    client.close()
    assert sorted(receipts) == list(range(SENDS))
    there = [int(each.partition(b" ")[0]) for each in drain(ways.broker, queue, SENDS)]
    assert sorted(there) == list(range(SENDS))
    assert len(drain(ways.broker, f"{queue}-in", 100)) == 100

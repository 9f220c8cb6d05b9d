"""Queues of RabbitMQ that are full and reject, or have no majority: the client is told, and everything else is as
before.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.brokers import RabbitMQ
from tests.e2e.conftest import Through
from tests.e2e.load import drain
from tests.e2e.raw import Connection, body, headers
from tests.e2e.relay import served

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

NOT_ACCEPTED = b"a message was not accepted"


def send(queue: str, body: bytes, receipt: str = "") -> bytes:
    """A SEND to a queue, which asks for this receipt, if there is one."""
    asking = f"receipt:{receipt}\n".encode() if receipt else b""
    return b"SEND\ndestination:%b\npersistent:true\n%b\n%b\0" % (queue.encode(), asking, body)


def read(client: Connection, *awaited: str) -> dict[bytes, bytes]:
    """Return the next frames by the receipts that they name, which must be these; a missing one is empty."""
    frames = [client.frame() for _ in awaited]
    found = {headers(frame).get(b"receipt-id", b""): frame for frame in frames}
    assert sorted(found) == sorted(each.encode() for each in awaited), frames
    return found


def taken(port: int, queue: str) -> bytes:
    """Take the only message of a queue."""
    with Connection.to(port) as client:
        client.connect()
        client.write(b"SUBSCRIBE\nid:0\ndestination:%b\nack:auto\n\n\0" % queue.encode())
        message = client.frame()
        client.write(b"DISCONNECT\nreceipt:bye\n\n\0")
        assert client.frame().startswith(b"RECEIPT\n")
    return body(message)


@pytest.fixture(scope="module")
def rejecting(rabbitmq: RabbitMQ) -> Iterator[str]:
    """Give the prefix of queues that reject what does not fit."""
    with rabbitmq.rejecting("full-"):
        yield "/queue/full-"


@pytest.fixture
def full(rabbitmq: RabbitMQ, rejecting: str, queue: str) -> str:
    """Give a queue that holds one message, `first`, and rejects more."""
    name = queue.replace("/queue/", rejecting)
    with Connection.to(rabbitmq.port) as other:
        other.connect()
        other.write(send(name, b"first", "f"))
        read(other, "f")
    return name


@pytest.fixture(params=["failover", "confirm", "fanout"])
def connected(request: pytest.FixtureRequest, through: Through) -> Callable[[], Connection]:
    """Give what connects a client through the relay."""

    def connect() -> Connection:
        client = Connection.to(through("rabbitmq", request.param).port)
        client.connect()
        return client

    return connect


@pytest.mark.ci
def test_what_rabbitmq_does(rabbitmq: RabbitMQ, full: str, queue: str) -> None:
    """It drops a message without a word, until a SEND asked for a receipt; from then on it closes the connection."""
    with Connection.to(rabbitmq.port) as client:
        client.connect()
        client.write(send(full, b"dropped") + send(queue, b"taken", "r"))
        read(client, "r")
        client.write(send(full, b"rejected", "b"))
        assert client.rest().strip(b"\n") == b""
    assert taken(rabbitmq.port, full) == b"first"


def test_the_client_is_told_and_goes_on(
    rabbitmq: RabbitMQ, connected: Callable[[], Connection], full: str, queue: str
) -> None:
    """The ERROR names the receipt. What is around it is delivered; the message is taken where there is room again."""
    with connected() as client:
        client.write(send(queue, b"1", "1") + send(full, b"again", "b") + send(queue, b"2", "2"))
        error = read(client, "1", "b", "2")[b"b"]
        assert headers(error)[b"message"] == NOT_ACCEPTED
        assert body(error).startswith(f"SEND {full} (receipt b): the broker closed".encode())
        assert taken(rabbitmq.port, full) == b"first"
        client.write(send(full, b"again", "b") + send(queue, b"3", "3"))
        assert all(each.startswith(b"RECEIPT\n") for each in read(client, "b", "3").values())
        client.write(b"DISCONNECT\nreceipt:bye\n\n\0")
        read(client, "bye")
    assert taken(rabbitmq.port, full) == b"again"
    found = drain(rabbitmq.port, queue)
    assert list(dict.fromkeys(found)) == [b"1", b"2", b"3"]


@pytest.mark.ci
def test_many_clients(connected: Callable[[], Connection], full: str, queue: str) -> None:
    """Each is told of each of its messages, though all of them lose their connections again and again."""
    clients = [connected() for _ in range(10)]
    for number in range(3):
        for client in clients:
            client.write(send(full, b"no", f"b{number}") + send(queue, b"yes", f"g{number}"))
        for client in clients:
            found = read(client, f"b{number}", f"g{number}")
            assert headers(found[f"b{number}".encode()])[b"message"] == NOT_ACCEPTED
            assert found[f"g{number}".encode()].startswith(b"RECEIPT\n")
    for client in clients:
        client.close()


@pytest.mark.ci
def test_a_message_that_the_relay_alone_asks_for(through: Through, full: str, queue: str) -> None:
    """With `confirm` the client is told of a SEND that asked for no receipt, too."""
    with Connection.to(through("rabbitmq", "confirm").port) as client:
        client.connect()
        client.write(send(full, b"no"))
        error = client.frame()
        assert error.startswith(b"ERROR\nmessage:" + NOT_ACCEPTED)
        assert b"receipt-id" not in error
        assert body(error).startswith(f"SEND {full}: the broker closed".encode())
        client.write(send(queue, b"yes", "g"))
        read(client, "g")


@pytest.mark.ci
def test_a_transaction(connected: Callable[[], Connection], full: str) -> None:
    """RabbitMQ takes what it can: the client is told that the outcome is unknown."""
    inside = send(full, b"no", "in").replace(b"persistent:", b"transaction:t\npersistent:")
    with connected() as client:
        client.write(b"BEGIN\ntransaction:t\n\n\0" + inside + b"COMMIT\ntransaction:t\nreceipt:c\n\n\0")
        error = client.rest()
        assert b"ERROR\nmessage:the outcome of a transaction is unknown\nreceipt-id:" in error
        assert b"RECEIPT" not in error


@pytest.mark.ci
def test_a_quorum_queue_without_a_majority(rabbitmq: RabbitMQ, tmp_path: Path, queue: str) -> None:
    """The connection stays without a RECEIPT: the client is told when the time is over. The message may come later."""
    quorum = f"{queue}-quorum"
    upstream = f'uri = "failover:({rabbitmq.uri})"\nconfirm = true\nconfirm_timeout = 2.0'
    made = b"x-queue-type:quorum\ndurable:true\nauto-delete:false\ndestination:"
    with served(tmp_path, upstream) as relay, Connection.to(relay.port) as client:
        client.connect()
        client.write(send(quorum, b"1", "1").replace(b"destination:", made))
        read(client, "1")
        with rabbitmq.without_majority(quorum):
            began = time.monotonic()
            client.write(send(quorum, b"2", "2").replace(b"destination:", made) + send(queue, b"yes", "g"))
            read(client, "g")
            error = read(client, "2")[b"2"]
            assert time.monotonic() - began >= 2.0
            assert headers(error)[b"message"] == NOT_ACCEPTED
            assert body(error).endswith(b": the broker did not confirm it in time")
            client.write(send(queue, b"yes", "h"))
            read(client, "h")
        assert relay.admin.counted("sends_overdue") == 1
        assert relay.admin.counted("brokers_lost") == 0
        client.write(send(quorum, b"3", "3").replace(b"destination:", made))
        read(client, "3")
        client.write(b"SUBSCRIBE\nid:0\nack:auto\n" + made + quorum.encode() + b"\nreceipt:s\n\n\0")
        frames = [client.frame() for _ in range(4)]
        assert [body(each) for each in frames if each.startswith(b"MESSAGE")] == [b"1", b"2", b"3"]

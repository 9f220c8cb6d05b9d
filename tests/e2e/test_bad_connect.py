"""Clients that provoke brokers: what they cost, and that nobody else notices."""

from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, fleet, nodes
from tests.e2e.raw import Connection

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

MANY = 200
SEND = b"SEND\ndestination:%b\nreceipt:%b\n\nhi\0"


def upstream(uris: list[str]) -> str:
    """The lines of an upstream without probes: who doubts a broker has it probed."""
    return f'uri = "failover:({",".join(uris)})?randomize=false"\n'


def provoked(running: Fleet, login: bytes) -> list[Connection]:
    """Many clients with a login; each second one does not wait for an answer. Returns the others."""
    waiting = []
    for at in range(MANY):
        client = Connection.to(running.port)
        client.write(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:%b\npasscode:x\n\n\0" % login)
        client.write(SEND % (b"/queue/x", b"r"))
        if at % 2:
            client.close()
        else:
            waiting.append(client)
    return waiting


def states(running: Fleet) -> set[str]:
    """What the relay says of its brokers."""
    return {each["state"] for each in running.admin.brokers().values()}


@pytest.mark.ci
def test_a_login_that_rabbitmq_closes_for(rabbitmq: Broker, tmp_path: Path, queue: str) -> None:
    """It says nothing, and does so each time: the client is told, in the relay's words, and both places stay up."""
    with (
        nodes(rabbitmq, rabbitmq) as members,
        fleet(tmp_path, members, upstream([each.uri for each in members])) as running,
        Connection.to(running.port) as good,
    ):
        assert good.connect().startswith(b"CONNECTED\n")
        seen: set[str] = set()

        def over() -> bool:
            seen.update(states(running))
            # A client that is gone has no more than its time, within which it may not be proved.
            told = running.admin.counted("connects_rejected")
            return told + running.admin.counted("clients_undelivered") == MANY

        waiting = provoked(running, b"a\\qb")
        running.relay.wait_until(over)
        for client in waiting:
            assert client.frame().startswith(
                b"ERROR\nmessage:the broker closed the connection when it was sent CONNECT\n"
            )
            client.close()
        assert running.admin.counted("connects_rejected") >= len(waiting)
        assert seen <= {"up", "unknown"}
        assert running.admin.counted("brokers_refused") <= 4 * MANY
        good.write(SEND % (queue.encode(), b"1"))
        assert good.frame() == b"RECEIPT\nreceipt-id:1\n\n\0"
        running.relay.wait_until(lambda: all(node.proxy.connections <= 1 for node in members))
        with Connection.to(running.port) as another:
            assert another.connect().startswith(b"CONNECTED\n")


def test_a_selector_that_reads_like_an_outage(activemq: Broker, tmp_path: Path, queue: str) -> None:
    """The client is told that it is not subscribed, and goes on with the same broker."""
    with (
        nodes(activemq) as members,
        fleet(tmp_path, members, upstream([each.uri for each in members])) as running,
        Connection.to(running.port) as client,
    ):
        client.connect()
        client.write(b"SUBSCRIBE\nid:0\ndestination:%b\nselector:shutdown ==== 1\n\n\0" % queue.encode())
        assert b"\nmessage:shutdown ==== 1\n" in client.frame()
        client.write(SEND % (queue.encode(), b"1"))
        assert client.frame() == b"RECEIPT\nreceipt-id:1\n\n\0"
        assert running.admin.counted("errors_withheld") == 0
        assert running.admin.counted("brokers_lost") == 0

"""More clients than the process has file descriptors for."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.brokers import memory
from tests.e2e.raw import CONNECT, Connection
from tests.e2e.relay import served

pytestmark = pytest.mark.e2e

DESCRIPTORS = 200
CLIENTS = 400


@pytest.mark.ci
@pytest.mark.parametrize("uri", ["failover:(tcp://127.0.0.1:{})", "tcp://localhost:{}"])
def test_twice_as_many_clients_as_descriptors(tmp_path: Path, uri: str) -> None:
    """Those that can be served are, with their broker; each other one is told why not. Nobody blames the broker, and
    when they have left there is room again.
    """
    with (
        memory(tmp_path) as broker,
        served(tmp_path, f'uri = "{uri.format(broker.port)}"', descriptors=DESCRIPTORS) as running,
        ExitStack() as opened,
    ):
        clients = [opened.enter_context(Connection.to(running.port)) for _ in range(CLIENTS)]
        for each in clients:
            each.write(CONNECT)
        answers = [each.frame() for each in clients]
        taken = [
            each for each, answer in zip(clients, answers, strict=True) if answer.startswith(b"CONNECTED")
        ]
        refused = [answer for answer in answers if b"message:too many connections\n" in answer]
        assert len(taken) + len(refused) == CLIENTS
        assert len(taken) > DESCRIPTORS // 8
        for each in taken:
            each.write(b"SUBSCRIBE\nid:0\ndestination:/topic/t\nreceipt:s\n\n\0")
            assert each.frame().startswith(b"RECEIPT\n")
        taken[0].write(b"SEND\ndestination:/topic/t\n\nhello\0")
        assert all(each.frame().startswith(b"MESSAGE\n") for each in taken)
        found = running.admin.metrics()
        assert found["sessions"] == len(taken)
        assert found["clients_refused_total"] == len(refused)
        assert (found["broker_up"], found["broker_failures"], found["brokers_refused_total"]) == (1, 0, 0)
        assert found["connects_prevented_total"] == 0
        for each in clients:
            each.close()
        running.wait_until(lambda: running.admin.metrics()["connections"] == 0)
        again = [opened.enter_context(Connection.to(running.port)) for _ in range(len(taken))]
        for each in again:
            each.write(CONNECT)
        assert all(each.frame().startswith(b"CONNECTED") for each in again)
        assert running.log.count("refused") < 10
        assert "EMFILE" not in running.log

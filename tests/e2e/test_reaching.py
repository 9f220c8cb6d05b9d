"""Which broker a new session reaches: where one does not answer, refuses the login, or is not there."""

from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.fleet import Fleet, failover, fleet, nodes
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, headers
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e


@pytest.mark.broker
@pytest.mark.parametrize("first", ["rabbitmq", "activemq"])
def test_a_wrong_password_is_final(first: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The first broker's own ERROR reaches the client; the next broker is not asked, and the first one not blamed."""
    one, two = (request.getfixturevalue(name) for name in (first, "memory"))
    with nodes(one, two) as members, fleet(tmp_path, members, failover(members, probe=0)) as running:
        with Connection.to(one.port) as direct, Connection.to(running.port) as client:
            expected = direct.connect(passcode="wrong")
            error = client.connect(passcode="wrong")
            assert error.startswith(b"ERROR\n")
            assert headers(error)[b"message"] == headers(expected)[b"message"]
            assert client.rest().strip() == b""
        assert members[1].proxy.accepted == 0
        with Talker.at(running.port) as client:
            client.send("/queue/reaching", b"fine")
        assert members[1].proxy.accepted == 0


def test_a_broker_that_accepts_and_never_answers(tmp_path: Path, memory: Broker) -> None:
    """After `connect_timeout` the next one serves; later sessions do not wait for the first one again."""
    with (
        nodes(memory, memory) as members,
        fleet(tmp_path, members, failover(members, probe=0)) as running,
    ):
        members[0].proxy.swallow()
        with Talker.at(running.port) as client, Talker.at(running.port) as another:
            for each in (client, another):
                each.send("/topic/reaching", b"fine")
                each.leave()
        assert members[0].proxy.accepted == 1
        assert members[1].proxy.accepted == 2


def test_no_broker_in_time(tmp_path: Path) -> None:
    """A client that comes when no broker is there gets an ERROR that says why, after `timeout`."""
    nowhere = ",".join(f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
    with (
        fleet(tmp_path, [], f'uri = "failover:({nowhere})?timeout=2000"') as running,
        Connection.to(running.port) as client,
    ):
        error = client.connect()
        _says_why(error, running)
        assert client.rest().strip() == b""


def test_the_last_broker_dies(tmp_path: Path, memory: Broker) -> None:
    """A session whose brokers are all gone gets an ERROR that says why, after `timeout`."""
    with nodes(memory) as members:
        places = f"{members[0].uri},tcp://127.0.0.1:{free_port()}"
        config = f'uri = "failover:({places})?randomize=false&timeout=2000"\nconfirm = true'
        with fleet(tmp_path, members, config) as running, Talker.at(running.port) as client:
            client.send("/topic/reaching", b"fine")
            memory.kill()
            receipt = client.ask_later("SEND", b"in vain", destination="/topic/reaching")
            error = client.error()
            _says_why(error, running)
            assert receipt not in error.decode() or f"receipt-id:{receipt}" in error.decode()


def test_a_limited_number_of_attempts(tmp_path: Path) -> None:
    """`startupMaxReconnectAttempts` passes over the list, and no more."""
    nowhere = f"tcp://127.0.0.1:{free_port()}"
    uri = f"failover:({nowhere})?startupMaxReconnectAttempts=3&initialReconnectDelay=1"
    with fleet(tmp_path, [], f'uri = "{uri}"') as running, Connection.to(running.port) as client:
        _says_why(client.connect(), running)
        assert running.counted("brokers_refused") == 3


def _says_why(error: bytes, running: Fleet) -> None:
    assert error.startswith(b"ERROR\n"), error
    assert b"broker" in headers(error)[b"message"]
    assert running.counted("errors_sent") == 1

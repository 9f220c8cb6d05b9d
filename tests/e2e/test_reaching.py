"""Which broker a new session reaches where one refuses the login."""

from pathlib import Path

import pytest

from tests.e2e.fleet import failover, fleet, nodes
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

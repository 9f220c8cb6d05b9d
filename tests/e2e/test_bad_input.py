"""What is no STOMP, or too much of it, before a session begins."""

import pytest

from tests.e2e.raw import Connection
from tests.e2e.rig import Rig, error

pytestmark = pytest.mark.e2e


EARLY = [
    b"SEND\ndestination:/queue/a\n\nx\0",
    b"JUMP\n\n\0",
    b"CONNECT\naccept-version:9.9\nhost:/\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:abc\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:/\n" + b"x:y\n" * 100000,
    b"x" * 1000000,
]


@pytest.mark.parametrize("early", EARLY, ids=lambda early: repr(early[:60]))
def test_bad_input_before_connect(rig: Rig, early: bytes) -> None:
    """It gets an ERROR, and no broker is bothered."""
    client = Connection.to(rig.port)
    client.write(early)
    error(client)
    assert not rig.broker.waiting()

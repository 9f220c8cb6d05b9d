"""What is no STOMP, or too much of it, from either side: an ERROR that names the reason and the end of one session."""

import pytest

from tests.e2e.raw import Connection
from tests.e2e.rig import MESSAGE, SEND, Rig, error

pytestmark = pytest.mark.e2e


GARBAGE = [
    b"GARBAGE\n\n\0",
    b"\x16\x03\x01\x02\x00\x01",
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    b"MESSAGE\nmessage-id:m1\ncontent-length:-1\n\nx\0",
    b"MESSAGE\nmessage-id:m1\ncontent-length:1\ncontent-length:2\n\nx\0",
    b"MESSAGE\nmessage-id:m1\ncontent-length:2\n\nlonger\0",
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_broker_that_sends_garbage(rig: Rig, garbage: bytes) -> None:
    """The client gets what came before, then an ERROR; the broker connection ends."""
    client, broker = rig.session()
    broker.write(MESSAGE + garbage)
    assert client.frame() == MESSAGE
    error(client)
    assert broker.rest().strip(b"\n") == b""
    broker.close()


BAD = [
    b"JUMP\n\n\0",
    b"SEND\ndestination:/queue/a\ncontent-length:1\ncontent-length:2\n\nx\0",
    b"SEND\ndestination:/queue/a\nbad:\\t\n\nx\0",
    b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
    b"SEND\n" + b"x:" + b"y" * 1000000,
    b"SEND\ndestination:/queue/a\n" + b"x:y\n" * 100000,
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: repr(bad[:60]))
def test_bad_input_from_a_client(rig: Rig, bad: bytes) -> None:
    """It gets an ERROR; the broker sees the frames before, nothing of this one, and the end."""
    client, broker = rig.session()
    client.write(SEND)
    assert broker.frame() == SEND
    client.write(bad)
    broker.parts()
    error(client)
    assert broker.rest().strip(b"\n") == b""
    broker.close()


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

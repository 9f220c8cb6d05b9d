"""A client that closes its direction only: it gets what it asked for, and its connection ends in good time."""

import socket
from pathlib import Path

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.raw import Connection
from tests.e2e.relay import served

pytestmark = pytest.mark.e2e

HELLO = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


def _asks(port: int, *frames: bytes) -> bytes:
    """Send all of it at once, close the sending direction, and return what comes until the end, EOLs aside."""
    with Connection.to(port) as client:
        client.write(HELLO + b"".join(frames))
        client.socket.shutdown(socket.SHUT_WR)
        return client.rest()


def _receipts(answers: bytes) -> set[bytes]:
    found = [each.lstrip(b"\n") for each in answers.split(b"\0")]
    return {each.split(b"receipt-id:")[1].split(b"\n")[0] for each in found if each.startswith(b"RECEIPT\n")}


def _sends(queue: bytes) -> list[bytes]:
    line = b"SEND\ndestination:/queue/%b\nreceipt:%d\n\n%d\0"
    return [line % (queue, each, each) for each in range(500)]


@pytest.mark.broker
@pytest.mark.parametrize("name", ["rabbitmq", "activemq", "memory"])
def test_receipts_after_a_half_close(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """All of 500, and of other frames than SENDs; then the end comes, well before the time is over."""
    broker: Broker = request.getfixturevalue(name)
    begin, commit = (b"%b\ntransaction:t\nreceipt:%b\n\n\0" % (each, each) for each in (b"BEGIN", b"COMMIT"))
    with served(tmp_path, f'uri = "{broker.uri}"\ndisconnect_timeout = 60') as running:
        answers = _asks(running.port, *_sends(b"answered"), begin, commit)
        assert answers.lstrip(b"\n").startswith(b"CONNECTED\n")
        assert _receipts(answers) == {b"%d" % each for each in range(500)} | {b"BEGIN", b"COMMIT"}
        running.wait_for_log("vanished: client left, and has its answers")

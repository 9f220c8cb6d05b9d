"""A client that sends more than it may, before a relay that runs."""

import socket
from pathlib import Path

import pytest

from tests.e2e.raw import Connection, headers
from tests.e2e.relay import served

pytestmark = pytest.mark.e2e

LINE = b"SEND\ndestination:/queue/half\nreceipt:%d\n\n%b\0"


def test_who_half_closes_with_more_to_send(tmp_path: Path) -> None:
    """While it waits for its limit it is not taken for gone, though it leaves no longer than a moment otherwise."""
    limits = "linger = 0.1\nlimits.bytes = 2000000"
    with served(tmp_path, listener=limits) as running, Connection.to(running.port) as client:
        assert client.connect().startswith(b"CONNECTED\n")
        for number in range(400):
            client.write(LINE % (number, b"x" * 10_000))
        client.socket.shutdown(socket.SHUT_WR)
        for number in range(400):
            assert headers(client.frame())[b"receipt-id"] == b"%d" % number

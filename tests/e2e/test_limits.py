"""Clients that send more than they may, before a relay that runs: they are slowed down or refused, others are not."""

import socket
from pathlib import Path

import pytest

from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, body, headers
from tests.e2e.relay import listening, relay, served

pytestmark = pytest.mark.e2e

SENDS = 300
LINE = b"SEND\ndestination:/queue/%b\nreceipt:%d\n\nhello\0"
LIMITS = {
    "slow": "limits = { frames = 1, burst = 10 }",
    "steady": "limits.address = { frames = 200, bytes = 100000 }",
    "strict": 'limits = { frames = 50, when_reached = "refuse" }',
    "free": "",
}


def _sends(queue: bytes) -> bytes:
    return b"".join(LINE % (queue, each) for each in range(SENDS))


def _receipts(client: Connection, count: int = SENDS) -> list[bytes]:
    return [headers(client.frame())[b"receipt-id"] for _ in range(count)]


def _connected(port: int) -> Connection:
    client = Connection.to(port)
    assert client.connect().startswith(b"CONNECTED\n")
    return client


def test_who_sends_faster_than_he_may(tmp_path: Path) -> None:
    """He waits, and gets all his answers in their order; or is refused with the limit's name. Others do not wait."""
    numbers = [b"%d" % each for each in range(SENDS)]
    ports = [free_port() for _ in LIMITS]
    config = "".join(listening(port, *limits) for port, limits in zip(ports, LIMITS.items(), strict=True))
    with relay(tmp_path, f'{config}[upstream.main]\nuri = "memory:"\n', ports) as running:
        slow, steady, strict, free = map(_connected, ports)
        slow.write(_sends(b"slow"))
        assert _receipts(slow, 9) == numbers[:9]
        running.wait_for_log(
            "limited: client is read from no faster: frames, the limit of this listener is 1 a second"
        )
        free.write(_sends(b"free"))
        assert _receipts(free) == numbers
        steady.write(_sends(b"steady") + b"DISCONNECT\nreceipt:bye\n\n\0")
        assert [*_receipts(steady), *_receipts(steady, 1)] == [*numbers, b"bye"]
        running.wait_for_log("frames, the limit for one address is 200 a second")
        strict.write(_sends(b"strict"))
        while (frame := strict.frame()).startswith(b"RECEIPT\n"):
            pass
        assert headers(frame)[b"message"] == b"too many frames a second"
        assert body(frame) == b"the limit of this listener is 50 a second"

        slow.close()
        for client in (steady, strict, free):
            client.close()


def test_who_half_closes_with_more_to_send(tmp_path: Path) -> None:
    """While it waits for its limit it is not taken for gone, though it leaves no longer than a moment otherwise."""
    limits = "linger = 0.1\nlimits.bytes = 2000000"
    with served(tmp_path, listener=limits) as running, _connected(running.port) as client:
        for number in range(400):
            client.write(LINE.replace(b"hello", b"x" * 10_000) % (b"half", number))
        client.socket.shutdown(socket.SHUT_WR)
        assert _receipts(client, 400) == [b"%d" % each for each in range(400)]

"""Who does it wrong over WebSocket, at a relay that runs: each is refused clearly, and nobody else notices."""

import socket
from collections.abc import Iterator

import pytest

from tests.e2e.doors import CONNECT, HANDSHAKE, doors, said
from tests.e2e.raw import Connection
from tests.e2e.relay import Relay
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

ORIGIN = b"https://shop.example"
PING = b"\x89\xfd\x00\x00\x00\x00" + b"p" * 125
PONG = b"\x8a\x7d" + b"p" * 125
FLOOD = 30_000


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Relay, int]]:
    """A relay for the pages of one site."""
    with doors(tmp_path_factory.mktemp("bad"), web=f'origins = ["{ORIGIN.decode()}"]') as found:
        yield found


@pytest.fixture
def port(door: tuple[Relay, int]) -> Iterator[int]:
    """Its port; whatever comes there, a session beside it goes on, and nothing of the others is left."""
    running, port = door
    with Talker.at(port) as bystander:
        bystander.subscribe("/queue/beside", "1")
        before = running.descriptors()
        yield port
        running.wait_until(lambda: running.descriptors() == before)
        bystander.send("/queue/beside", b"still here")
        assert bystander.bodies(1) == [b"still here"]


def opened(port: int, more: bytes = b"") -> Connection:
    """A session over WebSocket, from a page of the site."""
    client = Connection.to(port)
    client.write(HANDSHAKE[:-2] + b"Origin: " + ORIGIN + b"\r\n" + more + b"\r\n")
    assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
    client.write(said(CONNECT))
    assert client.until(b"\0").startswith(b"\x82")
    return client


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Origin: https://elsewhere.example", b"403"),
        (b"Origin: " + ORIGIN + b".elsewhere.example", b"403"),
        (b"Origin: null", b"403"),
        (b"Sec-WebSocket-Protocol: mqtt", b"400"),
        (b"Sec-WebSocket-Protocol: v13.stomp, graphql-ws", b"400"),
        (b"Sec-WebSocket-Version: 12", b"426"),
    ],
)
def test_another_origin_or_protocol(port: int, header: bytes, status: bytes) -> None:
    """The answer says what is wrong, then comes the end."""
    with Connection.to(port) as client:
        client.write(HANDSHAKE[:-2] + header + b"\r\n\r\n")
        answer = client.rest()
        assert answer.split(b" ")[1] == status
        assert answer.partition(b"\r\n\r\n")[2].strip()


@pytest.mark.parametrize(
    "left", [b"", b"\x88", b"\x88\x82\x00\x00\x00\x00\x03", said(b"SEND\ndestination:/q")]
)
def test_half_a_close(port: int, left: bytes) -> None:
    """A client that closes its direction, be it within its close frame or another one, is gone."""
    with opened(port) as client:
        client.write(left)
        client.socket.shutdown(socket.SHUT_WR)
        client.rest()


def test_a_flood_of_pings(port: int) -> None:
    """A client that reads nothing of its answers is answered no more than it can take; its session goes on, and all it
    says behind them counts.
    """
    with opened(port) as client:
        client.write(PING * FLOOD)
        client.write(said(b"SEND\ndestination:/queue/flood\nreceipt:1\n\nx\0"))
        heard = client.until(b"receipt-id:1\n\n\0")
        assert PONG in heard
        assert heard.count(PONG) < FLOOD

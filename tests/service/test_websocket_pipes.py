"""What passes from a WebSocket to a broker's socket without the core."""

import socket
from collections.abc import Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from stomprelay.relay.model.listener import Web
from stomprelay.service.connection.failures import Farewell
from stomprelay.service.connection.protocol import PIPE, LegProtocol
from stomprelay.service.connection.web import WebLegProtocol
from stomprelay.service.network.sockets import FIRST_READ, READ
from tests.sanitizer import run_sanitized
from tests.service.harness import SEND, listener
from tests.service.test_pipes import ODD, Scene, reactor
from tests.service.test_websocket import BINARY, CLOSE, HEAD, PING, PONG, TEXT, ended, masked, said

__all__ = ["reactor"]

pytestmark = pytest.mark.skipif(PIPE is None, reason="pipes are not compiled here")

FRAGMENT, REST = 0x01, 0x80


class WebScene(Scene):
    """A session whose client speaks WebSocket."""

    web = Web(ping_interval=20.0, message=1000)

    def upgrades(self) -> None:
        """The client asks for a WebSocket, and gets it. From now on each of its pieces is sent at once."""
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sends(HEAD + b"\r\n")
        self.answered(b"\r\n\r\n")

    def client_protocol(self) -> LegProtocol:
        """Return one whose handshake is to come."""
        door = listener(web=self.web)
        return WebLegProtocol(self.driver, self.relay.client, door, self.web, lambda: Farewell.DONE)

    def answered(self, end: bytes) -> bytes:
        """What the client is told, up to this."""
        data = b""
        while not data.endswith(end):
            data += self.client.recv(1)
        return data

    def in_order(self) -> bytes:
        """What came from the client, whether it passed or the relay was told."""
        passed, came = self.received(), b""
        self.reported()
        for told in self.said():
            if told[0] == "passed":
                came, passed = came + passed[: told[-1]], passed[told[-1] :]
            elif told[0] == "received":
                came += told[-1]
        return came


@pytest.fixture
def scene(reactor: Any) -> Iterator[WebScene]:
    """A session over WebSocket."""
    scene = WebScene(reactor)
    scene.upgrades()
    yield scene
    scene.close()


def test_messages_pass(scene: WebScene) -> None:
    """Text or binary, a frame in each or many in one: the broker has them at once, and the relay is not asked."""
    scene.lets_pass()
    scene.sends(masked(TEXT, SEND) + masked(BINARY, SEND + SEND))
    assert scene.received() == SEND * 3
    assert scene.said() == []
    assert scene.reported() == [scene.passed(3, 3 * len(SEND))]


def test_however_it_is_cut(scene: WebScene) -> None:
    """In a head, in a payload, in a ping between messages or between fragments of one: the same bytes in order."""
    scene.lets_pass()
    wire = masked(TEXT, SEND) + masked(PING, b"there?")
    wire += masked(FRAGMENT, SEND[:9]) + masked(PING, b"still?") + masked(REST, SEND[9:])
    wire += masked(BINARY, SEND)
    for cut in range(1, len(wire)):
        scene.sends(wire[:cut])
        scene.sends(wire[cut:])
        assert scene.in_order() == SEND * 3
        scene.answered(said(PONG, b"still?"))
    scene.sends(masked(TEXT, SEND))
    assert scene.received() == SEND


@pytest.mark.parametrize(
    ("wrong", "code"),
    [(masked(TEXT, b"\xff"), 1007), (masked(0xC1, b""), 1002), (masked(BINARY, b"\n" * 1001), 1009)],
)
def test_what_is_refused(scene: WebScene, wrong: bytes, code: int) -> None:
    """What came before has passed, the close code says why, and nothing passes any more."""
    scene.lets_pass()
    scene.sends(masked(TEXT, SEND) + wrong + masked(TEXT, SEND))
    scene.turn(3)
    assert scene.in_order() == SEND
    assert scene.client.recv(100)[2:4] == pack("!H", code)
    assert scene.relay.client not in scene.runtime.protocols


def test_a_client_that_closes(scene: WebScene) -> None:
    """What came before counts, and its close frame is answered."""
    scene.lets_pass()
    scene.sends(masked(TEXT, SEND) + masked(CLOSE, pack("!H", 1000)))
    assert scene.in_order() == SEND
    assert scene.answered(ended(1000)) == ended(1000)


def test_a_busy_one_is_read_in_large_pieces(scene: WebScene) -> None:
    """What fills the room is the relay's, as without WebSocket, and then there is more room."""
    scene.lets_pass()
    scene.sends(masked(BINARY, SEND) * (2 * FIRST_READ // len(SEND)))
    assert scene.protocol(scene.relay.client).socket().bufferSize == READ
    scene.turn(5)
    assert scene.in_order() == SEND * (2 * FIRST_READ // len(SEND))


def test_a_client_without_websocket(reactor: Any) -> None:
    """On the same listener, its frames pass as on any other."""
    scene = WebScene(reactor)
    scene.sends(ODD)
    scene.lets_pass()
    scene.sends(SEND)
    assert scene.in_order() == ODD + SEND
    scene.close()


@pytest.mark.deep
def test_all_this_under_address_sanitizer(tmp_path: Path) -> None:
    """Again in another process, whose compiled modules tell of any read or write out of bounds."""
    sources = [
        "stomprelay/wire/_scan.pyx",
        "stomprelay/service/connection/_pipe.pyx",
        "stomprelay/service/network/_messages.pyx",
    ]
    run_sanitized(
        tmp_path, sources, "tests/service/test_websocket_pipes.py", "tests/service/test_messages.py"
    )

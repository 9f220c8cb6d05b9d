"""Brokers over WebSocket: the request, every answer to it, and a session through masked messages."""

from struct import pack, unpack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionDone

from stomprelay.config.address import broker as at
from stomprelay.relay.model.group import Group, Reconnect
from stomprelay.relay.model.listener import Web
from stomprelay.relay.model.profile import RABBITMQ
from stomprelay.service.network.upgrade import AcceptedUpgrade, WebSocketHandshake, WebSocketRequest
from stomprelay.service.network.websocket import each_frame, masked
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    MESSAGE,
    SEND,
    SUBSCRIBE,
    FakeTransport,
    RelayHarness,
    listener,
    movable,
    upstream,
)
from tests.service.test_websocket import BINARY, CLOSE, PING, PONG, TEXT, said

NO_HTTP = "the peer does not speak HTTP/1.1"
URL = "ws://192.0.2.1:15674/stomp/ws"


def over_websocket(**settings: Any) -> RelayHarness:
    """A relay to a broker over WebSocket."""
    return RelayHarness(listener(upstream=upstream(broker=at(URL), **settings)))


def asking(connect: bytes = CONNECT) -> tuple[RelayHarness, FakeTransport, FakeTransport]:
    """A relay, a client that asks for a session, and the broker, which was asked for a WebSocket."""
    relay = over_websocket()
    client = relay.client()
    client.sends(connect)
    return relay, client, relay.broker()


def answer(request: bytes, web: Web | None = None) -> bytes:
    """What our own listener answers to a request."""
    found = WebSocketHandshake(web or Web(path="/stomp/ws"), (b"1.0", b"1.1", b"1.2"), 1000).received(request)
    assert isinstance(found, AcceptedUpgrade), found
    return found.answer


def messages(wire: bytes) -> list[tuple[int, bytes]]:
    """The first byte and the payload of each frame that a client sent, all of them masked."""
    found = []
    while wire:
        assert wire[1] & 0x80
        size, at = wire[1] & 0x7F, 2
        if size > 125:
            form, at = ("!H", 4) if size == 126 else ("!Q", 10)
            (size,) = unpack(form, wire[2:at])
        found.append((wire[0], masked(wire[at + 4 : at + 4 + size], wire[at : at + 4])))
        wire = wire[at + 4 + size :]
    return found


def reached(relay: RelayHarness) -> FakeTransport:
    """The broker that the relay tries to reach, which accepts the WebSocket."""
    broker = relay.broker()
    broker.sends(answer(broker.written()))
    return broker


def session(relay: RelayHarness) -> tuple[FakeTransport, FakeTransport]:
    """A connected client, and its broker over WebSocket."""
    client = relay.client()
    client.sends(CONNECT)
    broker = reached(relay)
    [(first, connect)] = messages(broker.written())
    assert first == TEXT
    assert connect.startswith(b"CONNECT\n")
    broker.sends(said(TEXT, CONNECTED))
    assert client.written().startswith(b"CONNECTED\n")
    return client, broker


# The request


def test_the_request() -> None:
    """What the standard asks of a client; of STOMP's subprotocols those that the upstream may speak, the best first."""
    wire = WebSocketRequest("broker.example.net:15674", "/ws", (b"1.1", b"1.2")).wire
    line, *headers, _, rest = wire.split(b"\r\n")
    named = dict(each.split(b": ") for each in headers)
    assert line == b"GET /ws HTTP/1.1"
    assert len(named.pop(b"Sec-WebSocket-Key")) == 24
    assert named == {
        b"Host": b"broker.example.net:15674",
        b"Upgrade": b"websocket",
        b"Connection": b"Upgrade",
        b"Sec-WebSocket-Version": b"13",
        b"Sec-WebSocket-Protocol": b"v12.stomp, v11.stomp",
    }
    assert rest == b""


def test_an_answer_in_pieces() -> None:
    """Byte by byte, behind another one that only says to wait; what follows it is the WebSocket's."""
    request = WebSocketRequest("a", "/stomp/ws", (b"1.2",))
    wire = b"HTTP/1.1 100 Continue\r\n\r\n" + answer(request.wire)
    for byte in wire[:-1]:
        assert request.received(bytes((byte,))) is None
    assert request.received(wire[-1:] + b"rest") == b"rest"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"101 Switching Protocols", b"403 Go away", "HTTP 403 Forbidden"),
        (b"101 Switching Protocols", b"302 Found", "HTTP 302 Found"),
        (b"101 Switching Protocols", b"599 Odd", "HTTP 599"),
        (b"HTTP/1.1 101", b"ERROR\n101", NO_HTTP),
        (b"Upgrade: websocket", b"Upgrade: h2c", "the peer switched to something other than WebSocket"),
        (b"Connection: Upgrade", b"Connection: close", "the peer switched to something other than WebSocket"),
        (b"Accept: ", b"Accept: x", "the peer answered another WebSocket's handshake"),
        (b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: other\r\n\r\n", "the peer speaks an extension"),
        (b"v12.stomp", b"mqtt", "the peer chose a subprotocol"),
        (b"\r\n\r\n", b"\r\nX: " + b"x" * 20000, NO_HTTP),
        (b"\r\nUpgrade:", b"\r\n folded\r\nUpgrade:", NO_HTTP),
    ],
)
def test_an_answer_that_opens_nothing(old: bytes, new: bytes, why: str, log: list[str]) -> None:
    """The broker is one that cannot be reached, and the log says why; nothing that it says is repeated."""
    relay, client, broker = asking()
    broker.sends(answer(broker.written()).replace(old, new, 1))
    assert broker.ends
    assert b"ERROR\n" in client.written()
    relay.reactor.advance(30)
    assert any(f"did not connect: {why}" in line for line in log)
    assert not any("Go away" in line or "Odd" in line for line in log)


@pytest.mark.parametrize("half", [True, False])
def test_an_end_before_the_answer(half: bool, log: list[str]) -> None:
    """A server that closes, be it its own direction only, refused."""
    relay, client, broker = asking()
    if half:
        broker.protocol.readConnectionLost()
        assert broker.ends[0] == "flush"
    else:
        broker.disconnects(ConnectionDone())
    assert b"ERROR\n" in client.written()
    relay.reactor.advance(30)
    assert any("did not connect: " in line for line in log)


# A session


def test_both_ways() -> None:
    """Masked text to the broker; text and binary from it, in any pieces."""
    client, broker = session(over_websocket())
    client.sends(SUBSCRIBE + SEND)
    assert messages(broker.written()) == [(TEXT, SUBSCRIBE), (TEXT, SEND)]
    for first in (TEXT, BINARY):
        wire = said(first, MESSAGE)
        for byte in wire:
            broker.sends(bytes((byte,)))
        assert client.written() == MESSAGE


def test_a_length_with_blanks() -> None:
    """In 1.0 blanks are no part of a header: a body behind such a length is not taken for another frame."""
    _, client, broker = asking(b"CONNECT\n\n\0")
    broker.sends(answer(broker.written()))
    broker.written()
    broker.sends(said(TEXT, b"CONNECTED\nsession:1\n\n\0"))
    send = b"SEND\ndestination:/queue/a\ncontent-length: 20 \n\n\0SEND\ndestination:/b\0"
    client.sends(send)
    assert [payload for _, payload in messages(broker.written())] == [send]


def test_one_frame_in_a_message() -> None:
    """Some brokers take a message for one frame, so that each has its own, whatever is in its body."""
    client, broker = session(over_websocket())
    sends = [
        b"SEND\ndestination:/queue/a\ncontent-length:5\n\n\0\n\n\0\n\0",
        b"SEND\ndestination:/queue/a\n\n\0",
        b"SEND\ndestination:/queue/a\ncontent-length:2\n\n\xff\0\0",
    ]
    client.sends(b"".join(sends))
    found = messages(broker.written())
    assert [payload for _, payload in found] == sends
    assert [first for first, _ in found] == [TEXT, TEXT, BINARY]


def counted(body: bytes, eols: int) -> bytes:
    """A frame with a `content-length`, and so many EOLs behind it."""
    return b"SEND\na:b\ncontent-length:%d\n\n%b\0%b" % (len(body), body, b"\n" * eols)


@given(st.lists(st.builds(counted, st.binary(max_size=20), st.integers(0, 2)), max_size=5), st.integers(0, 2))
def test_frames_told_apart(frames: list[bytes], eols: int) -> None:
    """Whatever bodies hold; EOLs in front are a message of their own."""
    first = [b"\n" * eols] if eols else []
    assert list(each_frame(b"".join(first + frames))) == first + frames


def test_pings_are_answered() -> None:
    """And what came with the answer counts."""
    *_, broker = asking()
    broker.sends(answer(broker.written()) + said(PING, b"x"))
    assert messages(broker.written())[-1] == (PONG, b"x")


def test_half_a_close() -> None:
    """A broker that closes its direction is lost, as over plain TCP."""
    client, broker = session(over_websocket())
    broker.protocol.readConnectionLost()
    assert b"ERROR\n" in client.written()


@pytest.mark.parametrize("movable_upstream", [False, True])
def test_a_broker_that_parts_silently(movable_upstream: bool) -> None:
    """RabbitMQ closes at DISCONNECT and never gives its RECEIPT, so it is asked for one by something else."""
    group = Group("main", (at(URL),), Reconnect() if movable_upstream else None)
    relay = RelayHarness(listener(upstream=movable(group, profile=RABBITMQ)))
    client, broker = session(relay)
    broker.written()
    client.sends(SEND + b"DISCONNECT\nreceipt:77\n\n\0")
    [(_, send), (_, begin)] = messages(broker.written())
    assert send == SEND
    assert begin == b"BEGIN\ntransaction:relay-parting\nreceipt:77\n\n\0"
    broker.sends(said(TEXT, b"RECEIPT\nreceipt-id:77\n\n\0"))
    assert client.written() == b"RECEIPT\nreceipt-id:77\n\n\0"
    client.disconnects()
    assert messages(broker.written()) == [(CLOSE, pack("!H", 1000))]


def test_a_client_that_left_meanwhile() -> None:
    """The attempt ends with it, and the late answer opens nothing."""
    _, client, broker = asking()
    request = broker.written()
    client.disconnects()
    broker.sends(answer(request))
    assert broker.written() == b""
    assert broker.ends

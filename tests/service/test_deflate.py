"""Compressed messages: what is agreed, what comes and goes, and what a bomb costs."""

import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionLost

from stomprelay.relay.link.link import DISCONNECTING
from stomprelay.relay.model.listener import Web
from stomprelay.service.network.deflate import compressed
from stomprelay.service.network.upgrade import AcceptedUpgrade
from stomprelay.service.network.websocket import WebSocket
from tests.service.harness import CONNECT, CONNECTED, MESSAGE, SEND, SUBSCRIBE, FakeTransport, RelayHarness
from tests.service.test_websocket import BINARY, HEAD, PING, TEXT, asked, doors, ended, masked, opened, said

OFFER = b"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
RSV1 = 0x40
ANSWER = b"permessage-deflate; server_no_context_takeover; client_no_context_takeover"
LONG = b"SEND\ndestination:/queue/a\n\n%b\0" % (b"hello" * 200)


def inflated(payload: bytes, bits: int = 15) -> bytes:
    """A whole message as a client reads it."""
    return zlib.decompressobj(-bits).decompress(payload + b"\x00\x00\xff\xff")


def compressing(**web: Any) -> tuple[RelayHarness, FakeTransport, FakeTransport]:
    """A connected client with which compression was agreed on, and its broker."""
    relay = doors(Web(compression=True, **web))
    client = opened(relay, OFFER)
    client.sends(masked(TEXT, CONNECT))
    broker = relay.broker()
    broker.sends(CONNECTED)
    broker.written()
    client.written()
    return relay, client, broker


@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        (b"permessage-deflate", ANSWER),
        (b"permessage-deflate;client_max_window_bits = 15".replace(b" ", b""), ANSWER),
        (b"x-webkit-deflate-frame, permessage-deflate; client_no_context_takeover", ANSWER),
        (b"permessage-deflate; server_max_window_bits=10", ANSWER + b"; server_max_window_bits=10"),
        (b"permessage-deflate; server_max_window_bits=8, permessage-deflate", ANSWER),
        (b"permessage-deflate; server_max_window_bits=8", None),
        (b"permessage-deflate; server_max_window_bits", None),
        (b"permessage-deflate; other", None),
        (b"permessage-bzip2", None),
    ],
)
def test_what_is_agreed(offer: bytes, answer: bytes | None) -> None:
    """The first offer that can be taken, and neither side keeps anything between messages."""
    found = asked(HEAD + b"Sec-WebSocket-Extensions: " + offer + b"\r\n\r\n", Web(compression=True))
    assert isinstance(found, AcceptedUpgrade)
    said_so = b"Sec-WebSocket-Extensions: %b\r\n" % answer if answer else b""
    assert found.answer.count(b"Sec-WebSocket-Extensions") == bool(answer)
    assert said_so in found.answer
    assert found.window == (0 if answer is None else 10 if b"=10" in answer else 15)


def test_not_unless_it_is_wanted() -> None:
    """By default nobody's offer is taken, and a compressed message is none."""
    relay = doors()
    client = opened(relay, OFFER)
    client.sends(masked(TEXT | RSV1, compressed(CONNECT, 15)))
    assert client.written() == ended(1002, b"Reserved bit set unexpectedly")


def test_both_ways() -> None:
    """Compressed where it is worth it, text and binary, with the window that the client wants."""
    relay = doors(Web(compression=True))
    client = opened(relay, b"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9\r\n")
    client.sends(masked(TEXT | RSV1, compressed(CONNECT, 15)))
    broker = relay.broker()
    broker.written()
    broker.sends(CONNECTED)
    assert client.written() == said(TEXT, CONNECTED + b"\n")
    client.sends(masked(TEXT | RSV1, compressed(SUBSCRIBE + LONG, 15)) + masked(TEXT, SEND))
    assert broker.written() == SUBSCRIBE + LONG + SEND
    for first, body in ((TEXT, b"hello" * 200), (BINARY, b"\xff" * 1000)):
        broker.sends(MESSAGE.replace(b"hello", body))
        wire = client.written()
        assert wire[0] == first | RSV1
        assert len(wire) < 130
        assert inflated(wire[2:], 9) == MESSAGE.replace(b"hello", body)


def test_the_end_of_a_stream_of_deflate() -> None:
    """A sender may end it with each message (RFC 7692, section 7.2.3.4); nothing may hide behind that."""
    _, client, broker = compressing()
    stream = zlib.compressobj(6, zlib.DEFLATED, -15)
    whole = stream.compress(SEND) + stream.flush()
    client.sends(masked(TEXT | RSV1, whole + b"\x00") + masked(TEXT | RSV1, whole))
    assert broker.written() == SEND + SEND
    client.sends(masked(0x01 | RSV1, whole) + masked(0x00, SEND))
    assert client.written().startswith(ended(1002, b"error in extension"))


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (masked(TEXT | RSV1, b"no deflate"), 1002),
        (masked(PING | RSV1, b""), 1002),
        (masked(0x01, b"\n") + masked(0x80 | RSV1, b"\n"), 1002),
        (masked(TEXT | RSV1, compressed(b"\xff", 15)), 1007),
    ],
)
def test_what_is_refused(wire: bytes, code: int) -> None:
    """The close code says why, and no broker gets any of it."""
    relay, client, broker = compressing()
    client.sends(wire)
    assert client.written()[2:4] == code.to_bytes(2)
    assert broker.written() == DISCONNECTING
    assert len(relay.service.state.sessions) == 0


def test_a_bomb() -> None:
    """Of a message that is inflated to a thousand times its size no more is made than `message` and a piece."""
    websocket = WebSocket(FakeTransport(), 100_000, lambda: 1000, window=15)
    wire = masked(BINARY | RSV1, compressed(b"\n" * 50_000_000, 15))
    found = [websocket.received(wire)]
    while websocket.waits:
        found.append(websocket.received())
    [end] = filter(None, (each.end for each in found))
    assert end.endswith("refused with code 1009: a message is too large")
    assert sum(len(each.data) for each in found) <= 100_000
    assert len(found) < 5


def test_many_bombs_one_at_a_time() -> None:
    """Few are inflated of those that come faster than the broker takes them; the rest waits as it came."""
    relay, client, broker = compressing()
    big = b"SEND\ndestination:/queue/a\ncontent-length:1000000\n\n%b\0" % (b"x" * 1_000_000)
    broker.fills()
    assert not client.reading
    client.sends(masked(TEXT | RSV1, compressed(big, 15)) * 20)
    assert broker.written().count(b"SEND\n") <= 2
    broker.drains()
    relay.reactor.pump([0.0] * 100)
    assert client.reading


def test_others_have_their_turn_between() -> None:
    """Much that was compressed to little does not pass in one turn, also where the broker takes all of it."""
    relay, client, broker = compressing()
    big = b"SEND\ndestination:/queue/a\ncontent-length:1000000\n\n%b\0" % (b"x" * 1_000_000)
    turns: list[int] = []

    def turn() -> None:
        turns.append(broker.written().count(b"SEND\n"))
        if sum(turns) < 10 and len(turns) < 100:
            relay.reactor.callLater(0, turn)

    client.sends(masked(TEXT | RSV1, compressed(big, 15)) * 10)
    turn()
    relay.reactor.advance(0)
    assert sum(turns) == 10
    assert max(turns) <= 2


@given(
    st.lists(st.binary(max_size=3000), max_size=4),
    st.lists(st.integers(0, 4000), max_size=6),
    st.sampled_from([0, 9, 12, 15]),
)
def test_any_cutting(messages: list[bytes], cuts: list[int], bits: int) -> None:
    """However the wire is cut, compressed or not (0), the bytes are the same."""
    websocket = WebSocket(FakeTransport(), 100_000, lambda: 1000, window=bits)
    wire = b"".join(
        masked(BINARY | RSV1, compressed(each, bits)) if bits else masked(BINARY, each) for each in messages
    )
    found = []
    places = sorted({0, len(wire), *(cut for cut in cuts if cut < len(wire))})
    for start, stop in pairwise(places):
        found.append(websocket.received(wire[start:stop]))
        while websocket.waits:
            found.append(websocket.received())
    assert b"".join(each.data for each in found) == b"".join(messages)
    assert not any(each.end for each in found)


@pytest.mark.parametrize("orderly", [True, False])
def test_what_came_before_the_end(orderly: bool) -> None:
    """It is looked at as if the client were there, while others have their turns; then the session ends."""
    relay, client, broker = compressing()
    small = masked(TEXT | RSV1, compressed(b"SEND\ndestination:/queue/a\n\nx\0", 15))
    client.sends(small * 100)
    client.disconnects(None if orderly else ConnectionLost())
    written = broker.written()
    assert written.count(b"SEND\n") < 100
    assert len(relay.service.state.sessions) == 1
    for _ in range(10):
        relay.reactor.advance(0)
        written += broker.written()
    assert written.count(b"SEND\n") == 100
    assert len(relay.service.state.sessions) == 0

"""WebSocket as a transport: its handshake and its frames byte by byte, and STOMP through it to a broker."""

import subprocess
import sys
from http import HTTPStatus
from struct import pack
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.model.listener import Web
from stomprelay.relay.model.rates import RateLimits, Rates
from stomprelay.service.clients.clients import LINGERING
from stomprelay.service.connection.web import WebLegProtocol
from stomprelay.service.network.upgrade import AcceptedUpgrade, HttpRefusal, WebSocketHandshake
from stomprelay.service.network.websocket import FRAMES
from tests.image import ROOT
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    MESSAGE,
    SUBSCRIBE,
    FakeTransport,
    RelayHarness,
    listener,
)

HEAD = (
    b"GET /ws HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
"""That of RFC 6455, section 1.2, without origin and subprotocols."""
ACCEPTED = b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
MASK = bytes.fromhex("37fa213d")
TEXT, BINARY, CLOSE, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8A


def length(size: int) -> tuple[int, bytes]:
    """What the second byte of a frame says of its length, without a mask; and the bytes behind it."""
    if size < 126:
        return size, b""
    return (126, pack("!H", size)) if size < 65536 else (127, pack("!Q", size))


def masked(first: int, payload: bytes) -> bytes:
    """A frame as clients send it."""
    short, longer = length(len(payload))
    coded = bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))
    return bytes((first, 0x80 | short)) + longer + MASK + coded


def said(first: int, payload: bytes) -> bytes:
    """A frame as servers send it."""
    short, longer = length(len(payload))
    return bytes((first, short)) + longer + payload


def ended(code: int, why: bytes = b"") -> bytes:
    """A close frame as servers send it."""
    return said(CLOSE, pack("!H", code) + why)


def doors(web: Web | None = None, **settings: Any) -> RelayHarness:
    """A relay whose listener speaks WebSocket as well."""
    return RelayHarness(listener(web=web or Web(), **settings))


def opened(relay: RelayHarness, more: bytes = b"") -> FakeTransport:
    """A client whose handshake is done."""
    client = relay.client()
    client.sends(HEAD + more + b"\r\n")
    answer = client.written()
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert ACCEPTED in answer
    return client


def session(relay: RelayHarness, first: int = TEXT) -> tuple[FakeTransport, FakeTransport]:
    """A connected client over WebSocket, and its broker."""
    client = opened(relay)
    client.sends(masked(first, CONNECT))
    broker = relay.broker()
    assert broker.written().startswith(b"CONNECT\n")
    broker.sends(CONNECTED)
    assert b"CONNECTED\n" in client.written()[:20]
    return client, broker


# The handshake


def asked(
    request: bytes, web: Web | None = None, versions: tuple[bytes, ...] = (b"1.0", b"1.1", b"1.2")
) -> Any:
    """What a request gets, which is given byte by byte."""
    handshake = WebSocketHandshake(web or Web(), versions, 1000)
    found = (handshake.received(request[at : at + 1]) for at in range(len(request)))
    return next(filter(None, found), None)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        (b"GET", b"POST", 405),
        (b"/ws", b"/", 404),
        (b"/ws", b"/ws/other", 404),
        (b"HTTP/1.1", b"HTTP/1.0", 505),
        (b"HTTP/1.1", b"SMTP/1.1", 400),
        (b"Host: server.example.com\r\n", b"", 400),
        (b"Host:", b"Host: other\r\nHost:", 400),
        (b"Upgrade: websocket\r\n", b"", 426),
        (b"Upgrade: websocket", b"Upgrade: h2c", 426),
        (b"Connection: Upgrade", b"Connection: close", 426),
        (b"Version: 13", b"Version: 8", 426),
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b"", 400),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"c2hvcnQ=", 400),
        (b"dGhlIHNhbXBsZSBub25jZQ==", b"no base64", 400),
        (b"Host:", b"Content-Length: 4\r\nHost:", 400),
        (b"Host:", b"Transfer-Encoding: chunked\r\nHost:", 400),
        (b"Host:", b"X: " + b"x" * 1000 + b"\r\nHost:", 431),
        (b"Host:", b"X\0: x\r\nHost:", 400),
        (b"Upgrade: websocket\r\n", b"Upgrade: websocket\n", 400),
        (b"\r\nHost:", b"\n\nHost:", 400),
    ],
)
def test_a_request_that_opens_no_websocket(old: bytes, new: bytes, status: int) -> None:
    """Each gets a status, and words in a response that is complete."""
    found = asked(HEAD.replace(old, new, 1) + b"\r\n")
    assert isinstance(found, HttpRefusal)
    assert found.status == status
    assert found.answer.startswith(b"HTTP/1.1 %d " % status)
    assert found.answer.endswith(b"Connection: close\r\n\r\n" + found.why.encode() + b"\r\n")


LINES = (
    *(b"host:a", b"Upgrade: websocket", b"UPGRADE:\tWebSocket , h2c \t", b"Connection: keep-alive, Upgrade"),
    *(b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Protocol: v12.stomp", b"Origin: https://a.example"),
    *(
        b"Cookie:  a=b;\tc=\xe4  ",
        b"Empty:",
        b"Empty: \t",
        b"Content-Length: 0",
        b"Transfer-Encoding: chunked",
    ),
    *(
        b"Name : x",
        b": x",
        b" folded",
        b"no colon",
        b"A: \0",
        b"A: \x0b",
        b"A: b\rC: d",
        b"A: b\nHost: d",
        b"",
    ),
)
FIRST = (b"GET /ws HTTP/1.1", b"GET /ws?a HTTP/1.1", b"GET  /ws HTTP/1.1", b"GET /\xff HTTP/1.1")


@given(st.sampled_from(FIRST), st.lists(st.sampled_from(LINES), max_size=6))
def test_what_is_taken_is_right(first: bytes, more: list[bytes]) -> None:
    """To whatever opens a WebSocket, h11 says as well that it is one request, and has the same values in it."""
    request = b"\r\n".join([first, *HEAD.split(b"\r\n")[1:-1], *more, b"", b""])
    found = WebSocketHandshake(Web(origins=("https://a.example",)), (b"1.2",), 1000).received(request)
    http = h11.Connection(h11.SERVER)
    http.receive_data(request)
    try:
        read = http.next_event()
    except h11.RemoteProtocolError:
        assert isinstance(found, HttpRefusal)
        return
    assert isinstance(read, h11.Request)
    fields = list(read.headers)
    good = (
        not http.trailing_data[0]
        and read.target in (b"/ws", b"/ws?a")
        and not any(name in (b"content-length", b"transfer-encoding") for name, _ in fields)
        and [value for name, value in fields if name == b"sec-websocket-version"] == [b"13"]
        and [value for name, value in fields if name == b"origin"] in ([], [b"https://a.example"])
    )
    assert isinstance(found, AcceptedUpgrade) == (
        good and b" folded" not in more and b"A: b\nHost: d" not in more
    )
    if isinstance(found, AcceptedUpgrade):
        assert (b"v12.stomp" in found.answer) == ((b"sec-websocket-protocol", b"v12.stomp") in fields)


def test_bytes_behind_the_request() -> None:
    """What no client sends before the answer is a request that somebody smuggles."""
    found = WebSocketHandshake(Web(), (b"1.2",), 1000).received(HEAD + b"\r\n" + HEAD)
    assert found == HttpRefusal(
        HTTPStatus.BAD_REQUEST, "Nothing may follow the request before it is answered."
    )


APP = "https://app.example.net"


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ((), b"https://server.example.com", False),
        ((), b"null", False),
        ((APP,), b"https://app.example.net", True),
        ((APP,), b"http://app.example.net", False),
        ((APP,), b"https://app.example.net:8443", False),
        ((APP,), b"https://app.example.net.evil.example", False),
        ((APP,), b"https://app.example.net\r\nOrigin: https://evil.example", False),
        (("*",), b"null", True),
    ],
)
def test_origins(origins: tuple[str, ...], origin: bytes, allowed: bool) -> None:
    """Browsers come from pages of the sites that are named alone, also not from where the Host says."""
    found = asked(HEAD + b"Origin: " + origin + b"\r\n\r\n", Web(origins=origins))
    assert isinstance(found, AcceptedUpgrade) is allowed
    assert allowed or found.status == 403


# One port for all


def test_a_handshake_and_no_connect() -> None:
    """The time began with the connection; the ERROR comes as a message, and then the end."""
    relay = doors(connect_timeout=10.0)
    client = relay.client()
    relay.reactor.advance(9)
    client.sends(HEAD + b"\r\n")
    client.written()
    relay.reactor.advance(1.1)
    error, _, end = client.written().rpartition(b"\0\n\x88")
    assert error[:1] == bytes((TEXT,))
    assert b"ERROR\n" in error
    assert end == ended(1000)[1:]
    client.sends(masked(CLOSE, pack("!H", 1000)))
    assert client.ends == ["flush"]


# Messages


def test_text_where_it_is_and_binary_where_not() -> None:
    """To a client whose CONNECT was text, a body that is not UTF-8 comes as binary."""
    relay = doors()
    client, broker = session(relay)
    client.sends(masked(TEXT, SUBSCRIBE))
    for body, first in ((b"gr\xc3\xbc\xc3\x9fe", TEXT), (b"\xff\xfe", BINARY), (b"hello", TEXT)):
        message = MESSAGE.replace(b"hello", body)
        broker.sends(message)
        assert client.written() == said(first, message)


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (masked(TEXT, b"\xff"), 1007),
        (masked(0x01, b"\xe2\x82") + masked(0x80, b"x"), 1007),
        (masked(TEXT, b"\xe2\x82"), 1007),
        (b"\x81\x05Hello", 1002),
        (masked(0x83, b""), 1002),
        (masked(0xC1, b""), 1002),
        (masked(0x80, b""), 1002),
        (masked(0x01, b"\n") + masked(TEXT, b"\n"), 1002),
        (masked(0x09, b""), 1002),
        (b"\x89\xfe\x00\x7e" + MASK, 1002),
        (b"\x81\xfe\x00\x05" + MASK, 1002),
        (b"\x82\xff" + b"\xff" * 8 + MASK, 1002),
        (masked(CLOSE, b"\x03"), 1002),
        (masked(CLOSE, b"\x03\xed"), 1002),
        (masked(CLOSE, b"\x03\xe8\xff"), 1007),
        (masked(BINARY, b"\n" * 101), 1009),
        (masked(0x02, b"\n" * 60) + masked(0x80, b"\n" * 60), 1009),
    ],
)
def test_what_is_refused(wire: bytes, code: int) -> None:
    """The close code says why, the session is over, and what still comes is nobody's."""
    relay = doors(Web(message=100))
    client = opened(relay)
    client.sends(wire)
    written = client.written()
    assert written[:1] == b"\x88"
    assert written[2:4] == pack("!H", code)
    assert len(relay.service.state.sessions) == 0
    client.sends(masked(TEXT, CONNECT) * 3)
    assert client.written() == b""
    assert client.ends == []
    relay.reactor.advance(3)
    assert client.ends == ["abort"]


# Ends


def test_disconnect() -> None:
    """The RECEIPT, code 1000, the client's own close frame, the end."""
    relay = doors()
    client, broker = session(relay)
    client.sends(masked(TEXT, b"DISCONNECT\nreceipt:1\n\n\0"))
    broker.sends(b"RECEIPT\nreceipt-id:1\n\n\0")
    broker.disconnects()
    assert client.written() == said(TEXT, b"RECEIPT\nreceipt-id:1\n\n\0") + ended(1000)
    assert client.ends == []
    client.sends(masked(CLOSE, pack("!H", 1000)))
    assert client.ends == ["flush"]


# Pings


def test_silence_is_asked_and_then_the_end() -> None:
    """A ping after the interval, the end after another one; an answer, or anything else, begins it anew."""
    relay = doors(Web(ping_interval=20.0))
    client, _ = session(relay)
    relay.reactor.advance(19)
    assert client.written() == b""
    relay.reactor.advance(1.1)
    assert client.written() == said(PING, b"")
    client.sends(masked(PONG, b""))
    relay.reactor.advance(19.9)
    assert client.written() == b""
    relay.reactor.advance(0.2)
    assert client.written() == said(PING, b"")
    relay.reactor.advance(20)
    assert client.ends == ["abort"]


def test_of_many_pings_the_last_is_answered() -> None:
    """A flood of them has one answer in what came at once (RFC 6455, section 5.5.3)."""
    relay = doors()
    client, _ = session(relay)
    client.sends(b"".join(masked(PING, b"%d" % each) for each in range(FRAMES - 1)))
    assert client.written() == said(PONG, b"%d" % (FRAMES - 2))


def test_messages_that_wait_for_tokens() -> None:
    """What came in one piece, in more messages than one turn takes, is carried without more bytes of the client."""
    count = FRAMES + 4
    relay = doors(rates=RateLimits(Rates(frames=10, burst=0.5)))
    client, broker = session(relay)
    client.sends(masked(TEXT, b"SEND\ndestination:/queue/a\n\nhello\0") * count)
    for _ in range(10 * count):
        relay.reactor.advance(0.05)
    assert broker.written().count(b"SEND\n") == count


def test_no_answer_to_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something waits to be read, a pong would only wait behind it; and such a client is not asked."""
    relay = doors(Web(ping_interval=20.0))
    client, _ = session(relay)
    monkeypatch.setattr(WebLegProtocol, "waits", True)
    client.sends(masked(PING, b"x"))
    relay.reactor.advance(100)
    assert client.written() == b""
    assert client.ends == []


def test_nothing_is_loaded_without_need() -> None:
    """A relay whose listeners speak no WebSocket knows nothing of it; nor of the page for Prometheus, unless asked."""
    start = "from tests.service.harness import RelayHarness; RelayHarness(metrics='tcp:61681')"
    found = "print({'wsproto', 'h11', 'prometheus_client'} & set(sys.modules))"
    program = [sys.executable, "-c", f"import sys; {start}; {found}"]
    assert subprocess.run(program, cwd=ROOT, capture_output=True, check=True).stdout == b"set()\n"


# Who is refused before anything was said


TOO_MANY = b"message:too many connections\n"


def refused(first: bytes = HEAD + b"\r\n", **settings: Any) -> tuple[RelayHarness, FakeTransport]:
    """A client that is too many and said this."""
    relay = doors(clients=0, connect_timeout=10.0, **settings)
    client = relay.client()
    assert (client.written(), client.ends) == (b"", [])
    client.sends(first)
    return relay, client


def test_one_too_many_without_websocket() -> None:
    """Plain STOMP is answered as ever, once; a request that opens nothing gets its own status."""
    _, client = refused(CONNECT)
    assert client.written().startswith(b"ERROR\n" + TOO_MANY)
    assert client.ends == ["half"]
    client.sends(CONNECT)
    assert client.written() == b""
    _, client = refused(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.written().startswith(b"HTTP/1.1 404 ")
    assert client.ends == ["flush"]


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"", b"ERROR\n" + TOO_MANY),
        (b"G", b"ERROR\n" + TOO_MANY),
        (HEAD, b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\n"),
    ],
)
def test_one_too_many_that_says_too_little(first: bytes, told: bytes) -> None:
    """It is waited for as long as CONNECT may take, or until others are refused, or the relay stops."""
    for end in (lambda relay: relay.reactor.advance(10.1), more, stopped):
        relay, client = refused(first)
        relay.reactor.advance(9)
        assert (client.written(), client.ends) == (b"", [])
        end(relay)
        assert client.written().startswith(told)
        assert client.ends


def more(relay: RelayHarness) -> None:
    """As many more are refused as may linger."""
    for _ in range(LINGERING):
        relay.client()


def stopped(relay: RelayHarness) -> None:
    """The relay stops."""
    _ = relay.service.stopService()


def test_one_too_many_that_leaves() -> None:
    """Nothing is written to it, and its timer is gone."""
    relay, client = refused(b"G")
    client.protocol.readConnectionLost()
    assert client.written().startswith(b"ERROR\n")
    relay, client = refused(b"G")
    client.disconnects()
    relay.reactor.advance(11)
    assert client.written() == b""

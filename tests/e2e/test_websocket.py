"""STOMP over WebSocket as it is used: `@stomp/stompjs` in Node and in a browser, against a relay that runs."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import browsing, page, site, trusting
from tests.e2e import brokers, stompjs
from tests.e2e.certificates import Authority
from tests.e2e.raw import CONNECT, Closed, Connection, ScriptedBroker, headers
from tests.e2e.relay import RUN, launch, served, serving
from tests.e2e.stompjs import TALK

pytestmark = pytest.mark.e2e

HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def said(frame: bytes) -> bytes:
    """A client's message with this frame, whose mask changes nothing."""
    return b"\x82%c\x00\x00\x00\x00%b" % (0x80 | len(frame), frame)


def shaken(port: int, path: bytes, more: bytes = b"") -> tuple[Connection, bytes]:
    """A connection that asked for a WebSocket at this path, and the answer that it got."""
    client = Connection.to(port)
    client.write(HANDSHAKE.replace(b" /ws ", b" %b " % path)[:-2] + more + b"\r\n")
    return client, client.until(b"\r\n\r\n")


def message(body: bytes) -> bytes:
    """What a broker delivers."""
    return b"MESSAGE\nsubscription:1\nmessage-id:%b\ndestination:/queue/a\n\n%b\0" % (body, body)


def played(one: ScriptedBroker, other: ScriptedBroker) -> None:
    """A session that has begun loses one broker and goes on with the other one."""
    with one.accept() as broker:
        broker.connected()
        assert broker.frame().startswith(b"SUBSCRIBE\n")
        broker.write(message(b"before"))
    with other.accept() as broker:
        broker.connected()
        assert broker.frame().startswith(b"SUBSCRIBE\n")
        broker.write(message(b"behind") + message(b"end"))
        disconnect = broker.frame()
        assert disconnect.startswith(b"DISCONNECT\n")
        if b"receipt" in headers(disconnect):
            broker.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % headers(disconnect)[b"receipt"])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a relay to the built-in broker speaks WebSocket."""
    stompjs.modules()
    with served(tmp_path_factory.mktemp("websocket"), listener="web = true") as running:
        yield f"ws://127.0.0.1:{running.port}/ws"


@pytest.mark.parametrize("name", stompjs.SEEN)
def test_a_talk(url: str, name: str) -> None:
    """Sessions, ack modes, transactions, large messages: all is as it shall be."""
    assert stompjs.talk(name, url) == stompjs.SEEN[name]


@pytest.mark.ci
def test_compression(tmp_path: Path) -> None:
    """What Node's `ws` offers is taken, and all comes through as it was."""
    with served(tmp_path, listener="web.compression = true") as running:
        client, answer = shaken(running.port, b"/ws", b"Sec-WebSocket-Extensions: permessage-deflate\r\n")
        assert b"permessage-deflate; server_no_context_takeover" in answer
        client.close()
        url = f"ws://127.0.0.1:{running.port}/ws"
        assert stompjs.talk("large", url) == stompjs.SEEN["large"]


def test_heart_beats(url: str) -> None:
    """Both ways, five of them."""
    found = stompjs.talk("beats", url)
    assert found["alive"]
    assert found["agreed"] != "0,0"


@pytest.mark.ci
def test_over_tls(tmp_path: Path, authority: Authority) -> None:
    """`wss://` in Node and in a browser that trust the authority; of a browser that does not the log tells."""
    tls = f"[listener.main.tls]\n{authority.issue('relay').lines}"
    home = trusting(tmp_path / "home", authority.file)
    with (
        site(stompjs.library_page()) as origin,
        served(tmp_path, listener=f'web.origins = ["{origin}"]\n{tls}') as running,
    ):
        url = f"wss://localhost:{running.port}/ws"
        assert stompjs.talk("hello", url, authority.file) == stompjs.SEEN["hello"]
        with browsing(home) as browser, page(browser) as tab:
            tab.goto(origin)
            tab.evaluate(TALK, ["hello", url])
            assert tab.evaluate("() => end") == stompjs.SEEN["hello"]
            assert tab.complaints == []
        (tmp_path / "nobody").mkdir()
        with browsing(tmp_path / "nobody") as browser, page(browser) as tab:
            tab.goto(origin)
            tab.evaluate(TALK, ["hello", url])
            assert tab.evaluate("() => end.catch((error) => error.message)") == "closed with 1006"
        running.wait_for_log("client left: no TLS handshake: the peer does not accept our certificate")


@pytest.mark.parametrize("showing", [True, False])
def test_a_client_certificate(tmp_path: Path, authority: Authority, showing: bool) -> None:
    """Where one is required, who shows it gets its WebSocket, and who does not gets nothing."""
    theirs = authority.issue("client", client=True)
    trust = ssl.create_default_context(cafile=str(authority.file))
    if showing:
        trust.load_cert_chain(theirs.certificate, theirs.key)
    tls = f"web = true\n[listener.main.tls]\n{authority.issue('relay').lines}"
    wanted = f'client_ca = "{authority.file}"\nrequire_client_certificate = true\n'
    with served(tmp_path, listener=tls + wanted) as running:
        try:
            with Connection.to(running.port, trust) as client:
                client.write(HANDSHAKE)
                assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
                client.write(said(CONNECT))
                assert b"CONNECTED\n" in client.until(b"\0")
        except (OSError, Closed):
            assert not showing
        else:
            assert showing


def test_a_proxy_in_front(tmp_path: Path) -> None:
    """The header of the PROXY protocol comes first, then the request; the log has the client's address."""
    with (
        served(tmp_path, listener="web = true", by="haproxy:") as running,
        Connection.to(running.port) as client,
    ):
        client.write(b"PROXY TCP4 198.51.100.9 203.0.113.1 5555 443\r\n" + HANDSHAKE)
        assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
        client.write(said(CONNECT))
        assert b"CONNECTED\n" in client.until(b"\0")
        running.wait_for_log("from 198.51.100.9:5555 on main: connected")


@pytest.mark.ci
def test_a_handover(tmp_path: Path) -> None:
    """The library is told that this process goes away, and is back at once at the one that took over."""
    stompjs.modules()
    handover = f'handover = "{tmp_path / "handover"}"\nstop_timeout = 0'
    with served(tmp_path, listener="web = true", more=handover) as running:
        child = stompjs.begin("reconnects", f"ws://127.0.0.1:{running.port}/ws")
        child.wait_for_output('"ready"')
        before = len(child.output)
        again = launch(tmp_path, [*RUN, "-c", str(running.file), "--take-over"])
        with serving(again, [running.port]):
            child.wait_for_output('"ready"', start=before)
            with Connection.to(running.port) as other:
                other.connect()
                other.write(b"SEND\ndestination:/queue/stompjs\n\nend\0")
                assert stompjs.end(child) == {"closes": [1001, 1000]}


@pytest.mark.ci
@pytest.mark.broker
def test_a_failover_between_products(
    tmp_path: Path, rabbitmq: brokers.RabbitMQ, activemq: brokers.Broker
) -> None:
    """RabbitMQ dies, and Node and a browser's tab get their messages from ActiveMQ, on the one connection."""
    upstream = f'uri = "failover:({rabbitmq.uri},{activemq.uri})?randomize=false"'
    with (
        site(stompjs.library_page()) as origin,
        served(tmp_path, upstream, f'web.origins = ["{origin}"]') as running,
        browsing() as browser,
        page(browser) as tab,
    ):
        url = f"ws://127.0.0.1:{running.port}/ws"
        tab.goto(origin)
        tab.evaluate("() => { window.destination = '/queue/tab'; }")
        tab.evaluate(TALK, ["reconnects", url])
        child = stompjs.begin("reconnects", url)
        try:
            child.wait_for_output('"ready"')
            tab.wait_for_function("() => told.includes('ready')")
            rabbitmq.kill()
            with Connection.to(activemq.port) as other:
                other.connect()
                other.write(b"SEND\ndestination:/queue/stompjs\n\nend\0SEND\ndestination:/queue/tab\n\nend\0")
                assert stompjs.end(child) == {"closes": [1000]}
                assert tab.evaluate("() => end") == {"closes": [1000]}
            assert tab.complaints == []
        finally:
            rabbitmq.heal()


@pytest.mark.ci
@pytest.mark.parametrize("workers", [1, 2])
def test_a_reload(tmp_path: Path, workers: int) -> None:
    """A session over WebSocket goes on, with one process or several; who comes then comes by the new path."""
    with (
        ScriptedBroker() as one,
        served(tmp_path, f'uri = "{one.uri}"', 'web.path = "/ws"', workers=workers) as running,
    ):
        client, answer = shaken(running.port, b"/ws")
        assert answer.startswith(b"HTTP/1.1 101 ")
        client.write(said(CONNECT))
        broker = one.accept()
        broker.connected()
        line = running.reload(running.file.read_text().replace('"/ws"', '"/stomp"'))
        assert "the configuration is reloaded; changed: listener.main.web" in line
        client.write(said(b"SEND\ndestination:/queue/a\n\nstill here\0"))
        assert broker.frame().endswith(b"still here\0")
        for asked, wanted in ((b"/ws", b"404"), (b"/stomp", b"101")):
            other, answer = shaken(running.port, asked)
            assert answer.split(b" ")[1] == wanted
            other.close()
        client.close()
        broker.close()


def test_a_browser(tmp_path: Path) -> None:
    """A page of an origin that is named is served, and notices no failover; one of another origin is refused."""
    with (
        ScriptedBroker() as one,
        ScriptedBroker() as other,
        site(stompjs.library_page()) as origin,
        site(stompjs.library_page()) as stranger,
    ):
        upstream = f'uri = "failover:({one.uri},{other.uri})?randomize=false"'
        web = f'web.origins = ["{origin}"]'
        with served(tmp_path, upstream, web) as running, browsing() as browser:
            url = f"ws://127.0.0.1:{running.port}/ws"
            with page(browser) as tab:
                tab.goto(stranger)
                tab.evaluate(TALK, ["failover", url])
                assert tab.evaluate("() => end.catch((error) => error.message)") == "closed with 1006"
                running.wait_until(lambda: "HTTP 403" in running.log)
            with page(browser) as tab:
                tab.goto(origin)
                tab.evaluate(TALK, ["failover", url])
                played(one, other)
                assert tab.evaluate("() => end") == {"bodies": ["before", "behind", "end"], "closes": [1000]}
                assert tab.complaints == []

"""The admin endpoint: health, what is answered to which request, and requests to pause and resume brokers."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import maybeDeferred
from twisted.web.test.requesthelper import DummyChannel

from stomprelay import __version__
from stomprelay.config import Config
from stomprelay.relay.model.counters import COUNTERS
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.admin.requests import LONGEST, BadRequest, BrokerRequest, parse
from stomprelay.service.admin.site import site
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.relay import RelayService
from stomprelay.service.state import Sessions
from stomprelay.session.handshake import Credentials
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    SEND,
    FakeTransport,
    JournalHarness,
    RelayHarness,
    failover,
    listener,
    movable,
    upstream,
)
from tests.service.sockets import ANY_PORT, Peer, call, port_of, reactor, running


class Answer:
    """What the HTTP server answers to one request, whose body may come in several chunks."""

    def __init__(
        self,
        harness: RelayHarness,
        path: str,
        method: str = "GET",
        *chunks: bytes,
        factory: Any = None,
        **headers: str,
    ) -> None:
        channel = DummyChannel()
        channel.site = factory = factory or site(harness.service.state, harness.reactor)
        request: Any = factory.requestFactory(channel)
        headers.setdefault("host", "localhost")
        for name, value in headers.items():
            request.requestHeaders.addRawHeader(name.replace("_", "-"), value)
        request.gotLength(sum(map(len, chunks)))
        for chunk in chunks:
            request.handleContentChunk(chunk)
        request.requestReceived(method.encode(), path.encode(), b"HTTP/1.1")
        head, _, body = channel.transport.written.getvalue().partition(b"\r\n\r\n")
        self.status = int(head.split()[1])
        self.headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n")[1:])
        }
        self.text = body.decode()

    @property
    def error(self) -> str:
        """Why an order was refused."""
        error = json.loads(self.text)["error"]
        assert isinstance(error, str)
        return error


@pytest.fixture
def harness() -> RelayHarness:
    """Two listeners, one with a name that has to be quoted everywhere."""
    return RelayHarness(listener(name="public"), listener(name='odd"\\<name>', endpoint="tcp:61614"))


def test_health(harness: RelayHarness) -> None:
    """ok while clients are accepted."""
    answer = Answer(harness, "/healthz")
    assert (answer.status, answer.text) == (200, "ok\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_counts_need_no_look_at_sessions(pair: RelayHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks often how the relay is, and how many sessions it has, costs no more where these are many."""

    def looked_at(_: Sessions) -> Iterator[RelayDriver]:
        raise AssertionError("a session is looked at")

    pair.session()
    monkeypatch.setattr(Sessions, "__iter__", looked_at)
    assert Answer(pair, "/healthz").text == "ok\n"
    assert json.loads(Answer(pair, "/drain").text) == {"draining": False, "sessions": 1}
    assert Answer(pair, "/readyz").status == 200


def test_health_while_stopping(harness: RelayHarness) -> None:
    """A load balancer must send no more clients."""
    harness.session()
    _ = harness.service.stopService()
    answer = Answer(harness, "/healthz")
    assert (answer.status, answer.text) == (503, "stopping\n")
    assert json.loads(Answer(harness, "/overview").text)["stopping"] is True


def test_health_of_the_journal(tmp_path: Path) -> None:
    """A disk that fails is told; the relay is unfit only where nobody is read from because of it."""
    harness = JournalHarness(tmp_path)
    assert Answer(harness, "/healthz").text == "ok\n"
    harness.journal.written.trouble = "No space left on device"
    answer = Answer(harness, "/healthz")
    assert (answer.status, answer.text) == (
        200,
        "ok, but the journal cannot be written: No space left on device\n",
    )
    harness.journal.full = True
    answer = Answer(harness, "/healthz")
    assert (answer.status, answer.text) == (
        503,
        "nobody is read from: the journal cannot be written: No space left on device\n",
    )
    harness.journal.written.trouble = ""
    assert Answer(harness, "/healthz").status == 200


LABEL = r"\w+=\"(?:[^\"\\]|\\.)*\""
LINE = re.compile(
    r"(?:# (?:HELP|TYPE) .+|(?:stomprelay|process)_\w+(?:\{LABEL(?:,LABEL)*\})? \S+)".replace("LABEL", LABEL)
)


def test_metrics(harness: RelayHarness) -> None:
    """Every counter of every listener, in lines that Prometheus reads; gauges fall again."""
    client, broker = harness.session()
    client.sends(SEND)
    answer = Answer(harness, "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    for counter in COUNTERS:
        for name in ("public", r"odd\"\\<name>"):
            assert (
                sum(line.startswith(f'stomprelay_{counter}_total{{listener="{name}"}} ') for line in lines)
                == 1
            )
    assert 'stomprelay_sessions_connected_total{listener="public"} 1.0' in lines
    assert f'stomprelay_client_bytes_total{{listener="public"}} {len(CONNECT + SEND)}.0' in lines
    assert re.search(rf'^stomprelay_build_info{{.*,version="{__version__}"}} 1.0$', answer.text, re.MULTILINE)
    assert 'stomprelay_sessions{listener="public"} 1.0' in lines
    assert "stomprelay_connections 2.0" in lines
    for each in (client, broker):
        each.disconnects()
    lines = Answer(harness, "/metrics").text.splitlines()
    assert 'stomprelay_sessions{listener="public"} 0.0' in lines
    assert 'stomprelay_sessions_opened_total{listener="public"} 1.0' in lines
    assert "stomprelay_connections 0.0" in lines


def test_secrets_are_not_shown() -> None:
    """No page shows a passcode, neither the client's nor ours, nor our login; a client's tells who it is."""
    own = upstream(credentials=Credentials(b"our-login", b"our-secret"))
    harness = RelayHarness(listener(upstream=own))
    client = harness.client()
    client.sends(CONNECT.replace(b"\n\n", b"\nlogin:their-login\npasscode:their-secret\n\n"))
    harness.broker()
    for path in ("/", "/overview", "/metrics", "/healthz", "/livez", "/readyz", "/brokers", "/sessions"):
        text = Answer(harness, path).text
        for secret in ("our-login", "our-secret", "their-secret"):
            assert secret not in text
        assert ("their-login" in text) is (path == "/sessions")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/metric", 404),
        ("GET", "/status/", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/healthz/more", 404),
        ("GET", "/livez/", 404),
        ("GET", "/readyz/x", 404),
        ("GET", "/<script>", 404),
        ("POST", "/", 405),
        ("POST", "/healthz", 405),
        ("POST", "/metrics", 405),
        ("POST", "/livez", 405),
        ("DELETE", "/readyz", 405),
        ("POST", "/brokers", 405),
        ("PUT", "/brokers/pause", 405),
        ("GET", "/brokers/pause", 405),
        ("OPTIONS", "/brokers/pause", 405),
        ("POST", "/brokers/", 404),
        ("POST", "/sessions", 405),
        ("GET", "/sessions/x/kill", 405),
        ("POST", "/sessions/x", 404),
        ("POST", "/sessions//kill", 404),
        ("POST", "/sessions/x/y/kill", 404),
        ("POST", "/sessions/x/kill/", 404),
        ("GET", "/drain/cancel", 405),
        ("HEAD", "/", 200),
        ("HEAD", "/healthz", 200),
        ("HEAD", "/livez", 200),
        ("HEAD", "/readyz", 503),
        ("HEAD", "/metrics", 200),
    ],
)
def test_other_requests(harness: RelayHarness, method: str, path: str, status: int) -> None:
    """There is nothing else to see, and nothing to do."""
    answer = Answer(harness, path, method)
    assert answer.status == status
    assert method != "HEAD" or (answer.text == "" and int(answer.headers["content-length"]) > 0)
    assert "<script>" not in answer.text


# Requests to pause and resume

JSON = "application/json"


@pytest.fixture
def pair() -> RelayHarness:
    """A listener in front of two brokers."""
    return RelayHarness(listener(upstream=movable(failover(1, 2), drain_timeout=5.0)))


def order(harness: RelayHarness, what: str, body: str | bytes, **headers: str) -> Answer:
    """The answer to a POST of JSON."""
    body = body if isinstance(body, bytes) else body.encode()
    return Answer(harness, f"/brokers/{what}", "POST", body, **{"content_type": JSON, **headers})


def test_drain(pair: RelayHarness) -> None:
    """The answer says how many sessions there are; they stay, and a new client is told why it has none."""
    pair.session()
    drained = {"draining": True, "sessions": 1}
    answer = Answer(pair, "/drain", "POST", b"{}", content_type=JSON)
    assert (answer.status, json.loads(answer.text)) == (200, drained)
    assert json.loads(Answer(pair, "/drain").text) == drained
    refused = FakeTransport(pair.reactor.tcpServers[0][1].buildProtocol(UNIXAddress(None)))
    refused.protocol.makeConnection(refused)
    error = refused.written()
    assert error.startswith(b"ERROR\nmessage:no new connections\n")
    assert b"the relay is being drained: it keeps its clients and takes no others" in error
    assert Answer(pair, "/drain", "POST", b'{"within": 5}', content_type=JSON).status == 400
    answer = Answer(pair, "/drain/cancel", "POST", b"", content_type=JSON)
    assert json.loads(answer.text) == {"draining": False, "sessions": 1}
    taken = FakeTransport(pair.reactor.tcpServers[0][1].buildProtocol(UNIXAddress(None)))
    taken.protocol.makeConnection(taken)
    assert taken.written() == b""
    assert json.loads(Answer(pair, "/drain").text) == {"draining": False, "sessions": 2}


def states(answer: Answer) -> list[tuple[str, int, int]]:
    """State, sessions and those that are leaving, of every broker."""
    return [(each["state"], each["sessions"], each["moving"]) for each in json.loads(answer.text)["brokers"]]


def test_brokers_in_json(pair: RelayHarness) -> None:
    """Where each stands, and how it is."""
    pair.session()
    answer = Answer(pair, "/brokers")
    assert answer.status == 200
    assert answer.headers["content-type"] == JSON
    group = pair.service.state.brokers.configured[0].group.name
    assert json.loads(answer.text) == {
        "brokers": [
            {
                "uri": f"tcp://192.0.2.{number}:61613",
                "upstream": "main",
                "group": group,
                "state": state,
                "sessions": sessions,
                "moving": 0,
                "staying": 0,
                "stays": "",
                "waiting": 0,
            }
            for number, state, sessions in ((1, "up", 1), (2, "unknown", 0))
        ]
    }


def test_a_switch_over(pair: RelayHarness) -> None:
    """Paused, a broker finishes what a session is at, which then moves; resumed, it is as any other."""
    client, broker = pair.session()
    client.sends(b"BEGIN\ntransaction:t\n\n\0")
    answer = order(pair, "pause", '{"broker": "192.0.2.1:61613", "within": 30}')
    assert answer.status == 200
    assert states(answer) == [("paused", 1, 1), ("unknown", 0, 0)]
    other = pair.broker()
    assert other.written().startswith(b"CONNECT\n")
    other.sends(CONNECTED)
    broker.written()
    client.sends(b"COMMIT\ntransaction:t\nreceipt:1\n\n\0")
    broker.sends(b"RECEIPT\nreceipt-id:1\n\n\0")
    assert client.written() == b"RECEIPT\nreceipt-id:1\n\n\0"
    (receipt,) = re.findall(rb"DISCONNECT\nreceipt:(.*)\n\n\0", broker.written())
    broker.sends(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
    assert client.written() == b""
    client.sends(SEND)
    assert other.written() == SEND
    assert states(Answer(pair, "/brokers")) == [("paused", 0, 0), ("up", 1, 0)]
    assert states(order(pair, "resume", '{"broker": "*"}')) == [("up", 0, 0), ("up", 1, 0)]


def test_pausing_all_brokers_holds_clients(pair: RelayHarness) -> None:
    """Those that come, too; they are served when one is resumed."""
    order(pair, "pause", '{"broker": "*"}')
    client = pair.client()
    client.sends(CONNECT)
    pair.reactor.advance(60)
    assert client.written() == b""
    assert pair.reactor.tcpClients == []
    order(pair, "resume", '{"broker": "tcp://192.0.2.2:61613"}')
    broker = pair.broker()
    broker.sends(CONNECTED)
    assert client.written().startswith(b"CONNECTED\n")
    assert states(Answer(pair, "/brokers")) == [("paused", 0, 0), ("up", 1, 0)]


def test_a_broker_that_is_not_there(pair: RelayHarness) -> None:
    """404, and nothing is done."""
    for what in ("pause", "resume"):
        answer = order(pair, what, '{"broker": "<tcp://elsewhere>"}')
        assert answer.status == 404
        assert answer.error == 'there is no broker "<tcp://elsewhere>"'
        assert answer.headers["content-type"] == JSON
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("what", "body"), [("pause", ""), ("pause", '{"broker": "*", "within": -1}'), ("resume", "[]")]
)
def test_a_bad_order(pair: RelayHarness, what: str, body: str) -> None:
    """400 with the reason."""
    answer = order(pair, what, body)
    assert answer.status == 400
    assert "must be" in answer.error
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"],
)
def test_an_order_that_a_form_could_send(pair: RelayHarness, kind: str) -> None:
    """Browsers let pages of other sites send these without asking: refused."""
    answer = order(pair, "pause", '{"broker": "*"}', content_type=kind)
    assert answer.status == 415
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


def test_an_order_without_a_content_type(pair: RelayHarness) -> None:
    """Refused as any that is not JSON."""
    assert Answer(pair, "/brokers/pause", "POST", b'{"broker": "*"}').status == 415


def test_a_content_type_may_have_parameters(pair: RelayHarness) -> None:
    """And capitals."""
    assert (
        order(pair, "pause", '{"broker": "*"}', content_type="Application/JSON; charset=utf-8").status == 200
    )


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:61680"])
def test_an_order_from_a_web_page(pair: RelayHarness, origin: str) -> None:
    """None is taken from a page that is not ours: not even from one whose name leads here."""
    answer = order(pair, "pause", '{"broker": "*"}', origin=origin)
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["unknown"] * 2


def test_a_body_without_end(pair: RelayHarness) -> None:
    """Its end is waited for, it is not kept."""
    chunk = b" " * 1000
    longest = [chunk] * 4 + [b'{"broker": "*"}']
    assert Answer(pair, "/brokers/pause", "POST", *longest, content_type=JSON).status == 200
    answer = Answer(pair, "/brokers/resume", "POST", *[chunk] * 1000, b'{"broker": "*"}', content_type=JSON)
    assert answer.status == 413
    assert [state for state, *_ in states(Answer(pair, "/brokers"))] == ["paused"] * 2


def test_a_body_in_pieces(pair: RelayHarness) -> None:
    """As it may come."""
    body = b'{"broker": "*"}'
    pieces = [body[at : at + 1] for at in range(len(body))]
    assert Answer(pair, "/brokers/pause", "POST", *pieces, content_type=JSON).status == 200


# The body of such a request


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"broker": "*"}', BrokerRequest("*")),
        (b' {"broker":"tcp://a:61613","within":30}\n', BrokerRequest("tcp://a:61613", 30.0)),
        (b'{"within": 0.5, "broker": "a:61613"}', BrokerRequest("a:61613", 0.5)),
        (b'{"broker": "", "within": 0}', BrokerRequest("", 0.0)),
    ],
)
def test_an_order(body: bytes, expected: BrokerRequest) -> None:
    """Which broker, and how long it may take."""
    assert parse(body, timed=True) == expected


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "must be JSON"),
        (b"broker=*", "must be JSON"),
        (b'{"broker": "*"', "must be JSON"),
        (b"\xff\xfe", "must be JSON"),
        (b"[" * 4096, "must be JSON"),
        (b"[]", "must be an object"),
        (b'"*"', "must be an object"),
        (b"null", "must be an object"),
        (b"{}", '"broker" must be'),
        (b'{"broker": 1}', '"broker" must be'),
        (b'{"broker": null}', '"broker" must be'),
        (b'{"broker": "*", "within": "5"}', '"within" must be seconds'),
        (b'{"broker": "*", "within": true}', '"within" must be seconds'),
        (b'{"broker": "*", "within": null}', '"within" must be seconds'),
        (b'{"broker": "*", "within": -1}', '"within" must be seconds'),
        (b'{"broker": "*", "within": NaN}', '"within" must be seconds'),
        (b'{"broker": "*", "within": 1e999}', '"within" must be seconds'),
        (b'{"broker": "*", "within": %d}' % (LONGEST + 1), '"within" must be seconds'),
        (b'{"broker": "*", "wihtin": 1}', 'there is no "wihtin" here; there is broker and within'),
    ],
)
def test_what_is_not_an_order(body: bytes, words: str) -> None:
    """The reason names what is wrong."""
    with pytest.raises(BadRequest, match=words):
        parse(body, timed=True)


def test_a_time_where_none_has_a_meaning() -> None:
    """Resuming takes none, and does not pretend to."""
    with pytest.raises(BadRequest, match=json.dumps("within")):
        parse(b'{"broker": "*", "within": 1}', timed=False)
    assert parse(b'{"broker": "*"}', timed=False) == BrokerRequest("*")


# Over real sockets


MEMORY = Upstream("main", alone(Broker("memory:", "memory:")))


@dataclass(frozen=True)
class SocketAnswer:
    """What an HTTP server answered."""

    status: int
    headers: dict[str, str]
    body: str


class Relay:
    """A relay in front of the embedded broker, on free ports, with an admin endpoint."""

    def __init__(self, *listeners: Listener) -> None:
        config = Config(listeners or (Listener("public", ANY_PORT, MEMORY),), admin=ANY_PORT)
        self.service = RelayService(config, reactor)

    async def asks(self, path: str, method: str = "GET") -> SocketAnswer:
        """What the admin endpoint answers to a request."""
        return await self.answers(f"{method} {path} HTTP/1.0\r\n\r\n".encode())

    async def answers(self, request: bytes) -> SocketAnswer:
        """What it answers to this."""
        peer = await call(self.service.admin.getServiceNamed("admin"))
        peer.transport.write(request)
        head, _, body = (await peer.ended()).partition(b"\r\n\r\n")
        peer.transport.loseConnection()
        await peer.gone()
        first, *lines = head.decode("ascii").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return SocketAnswer(int(first.split()[1]), headers, body.decode("utf-8"))

    async def client(self, name: str = "public", connect: bytes = CONNECT) -> Peer:
        """A connected client of this listener."""
        peer = await call(self.service._listening.getServiceNamed(name))
        peer.transport.write(connect)
        assert (await peer.frame()).startswith(b"CONNECTED\n")
        return peer


@asynccontextmanager
async def open_relay(*listeners: Listener) -> AsyncIterator[Relay]:
    """A relay that runs while the block does."""
    relay = Relay(*listeners)
    async with running(relay.service):
        yield relay


async def leave(peer: Peer) -> None:
    """The client closes its connection."""
    peer.transport.loseConnection()
    await peer.gone()


@pytest_twisted.ensureDeferred
async def test_a_relay_that_stops_is_not() -> None:
    """Health can be asked for until the last client has gone: 503, for load balancers to look elsewhere."""
    relay = Relay()
    relay.service.privilegedStartService()
    relay.service.startService()
    client = await relay.client()
    stopped = maybeDeferred(relay.service.stopService)
    assert b"the relay is stopping" in await client.frame()
    answer = await relay.asks("/healthz")
    page = await relay.asks("/overview")
    assert (answer.status, answer.body) == (503, "stopping\n")
    assert json.loads(page.body)["stopping"] is True
    assert not stopped.called
    await leave(client)
    await stopped


def post(path: str, body: bytes, **headers: str) -> bytes:
    """A POST of JSON."""
    lines = {"content_type": "application/json", "content_length": f"{len(body)}", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.0\r\n{head}\r\n".encode() + body


@pytest_twisted.ensureDeferred
async def test_an_order_that_is_much_too_long() -> None:
    """It is read to its end so that the answer arrives, and not kept."""
    async with open_relay() as relay:
        answer = await relay.answers(post("/brokers/pause", b'{"broker": "*"}' + b" " * 3_000_000))
        after = await relay.asks("/brokers")
    assert answer.status == 413
    assert json.loads(after.body)["brokers"][0]["state"] != "paused"


@pytest_twisted.ensureDeferred
async def test_an_order_in_chunks_of_unknown_length() -> None:
    """As good as any other."""
    body = b'{"broker": "*"}'
    head = b"POST /brokers/pause HTTP/1.1\r\nhost: localhost:%d\r\nconnection: close\r\n"
    head += b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = b"".join(b"1\r\n%c\r\n" % octet for octet in body)
    own = Upstream("main", alone(Broker("memory:", "memory:")))
    async with open_relay(Listener("public", ANY_PORT, own)) as relay:
        head %= port_of(relay.service.admin.getServiceNamed("admin"))
        answer = await relay.answers(head + chunks + b"0\r\n\r\n")
    assert answer.status == 200

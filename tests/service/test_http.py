"""Health, metrics, the status page and orders, over real sockets."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape

import pytest
import pytest_twisted
from twisted.internet.defer import maybeDeferred

from stomprelay import __version__
from stomprelay.config import Config
from stomprelay.relay.model.counters import COUNTERS
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.metrics import metrics
from stomprelay.service.relayservice import RelayService
from stomprelay.service.status import SHOWN, status
from stomprelay.session.handshake import Credentials
from tests.service.house import CONNECT, SEND, House, listener, upstream
from tests.service.sockets import ANY_PORT, call, reactor, running
from tests.service.talker import Talker, until

MEMORY = Upstream("main", alone(Broker("memory:", "memory:")))


@dataclass(frozen=True)
class Answer:
    """What an HTTP server answered."""

    status: int
    headers: dict[str, str]
    body: str


class Relay:
    """A relay in front of the embedded broker, on free ports, with an admin endpoint."""

    def __init__(self, *listeners: Listener) -> None:
        config = Config(listeners or (Listener("public", ANY_PORT, MEMORY),), admin=ANY_PORT)
        self.service = RelayService(config, reactor)

    async def asks(self, path: str, method: str = "GET") -> Answer:
        """What the admin endpoint answers to a request."""
        return await self.answers(f"{method} {path} HTTP/1.0\r\n\r\n".encode())

    async def answers(self, request: bytes) -> Answer:
        """What it answers to this."""
        talker = await call(self.service.getServiceNamed("admin"))
        talker.transport.write(request)
        head, _, body = (await talker.ended()).partition(b"\r\n\r\n")
        talker.transport.loseConnection()
        await talker.gone()
        first, *lines = head.decode("ascii").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Answer(int(first.split()[1]), headers, body.decode("utf-8"))

    async def client(self, name: str = "public", connect: bytes = CONNECT) -> Talker:
        """A connected client of this listener."""
        talker = await call(self.service._doors.getServiceNamed(name))
        talker.transport.write(connect)
        assert (await talker.frame()).startswith(b"CONNECTED\n")
        return talker


@asynccontextmanager
async def open_relay(*listeners: Listener) -> AsyncIterator[Relay]:
    """A relay that runs while the block does."""
    relay = Relay(*listeners)
    async with running(relay.service):
        yield relay


async def leave(talker: Talker) -> None:
    """The client closes its connection."""
    talker.transport.loseConnection()
    await talker.gone()


def sample(text: str, name: str) -> int:
    """The value of one sample of a metrics page."""
    (value,) = re.findall(rf"(?m)^{re.escape(name)} (\d+)$", text)
    return int(value)


# Health


@pytest_twisted.ensureDeferred
async def test_a_relay_that_runs_is_healthy() -> None:
    """A monitor gets 200, and nothing keeps it from asking anew."""
    async with open_relay() as relay:
        answer = await relay.asks("/healthz")
    assert (answer.status, answer.body) == (200, "ok\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


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
    page = await relay.asks("/")
    assert (answer.status, answer.body) == (503, "stopping\n")
    assert f"<h1>stomprelay {__version__}, stopping</h1>" in page.body
    assert not stopped.called
    await leave(client)
    await stopped


# Metrics


@pytest_twisted.ensureDeferred
async def test_every_counter_of_every_listener_is_there_from_the_start() -> None:
    """With a line of help and its type, as Prometheus wants it."""
    doors = [Listener(name, ANY_PORT, MEMORY) for name in ("public", "inside")]
    async with open_relay(*doors) as relay:
        answer = await relay.asks("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body
    assert text.endswith("\n")
    for counter, meaning in COUNTERS.items():
        name = f"stomprelay_{counter}_total"
        block = (
            f"# HELP {name} {meaning}\n# TYPE {name} counter\n"
            f'{name}{{listener="public"}} 0\n{name}{{listener="inside"}} 0\n'
        )
        assert text.count(block) == 1
    assert f'stomprelay_info{{version="{__version__}"}} 1\n' in text
    for name in ("info", "sessions", "connections"):
        assert f"# TYPE stomprelay_{name} gauge\n" in text
    assert sample(text, 'stomprelay_sessions{listener="inside"}') == 0
    assert sample(text, "stomprelay_connections") == 0


@pytest_twisted.ensureDeferred
async def test_metrics_say_what_happened_and_what_is() -> None:
    """Counters of the listener where it was, gauges that fall again."""
    doors = [Listener(name, ANY_PORT, MEMORY) for name in ("public", "inside")]
    async with open_relay(*doors) as relay:
        client = await relay.client("inside")
        client.transport.write(SEND.replace(b"\n\n", b"\nreceipt:1\n\n"))
        assert (await client.frame()).startswith(b"RECEIPT\n")
        text = (await relay.asks("/metrics")).body
        await leave(client)
    assert sample(text, 'stomprelay_sessions{listener="inside"}') == 1
    assert sample(text, 'stomprelay_sessions{listener="public"}') == 0
    assert sample(text, "stomprelay_connections") == 2
    assert sample(text, 'stomprelay_sessions_opened_total{listener="inside"}') == 1
    assert sample(text, 'stomprelay_sessions_opened_total{listener="public"}') == 0
    assert sample(text, 'stomprelay_client_frames_total{listener="inside"}') == 1
    assert sample(text, 'stomprelay_client_bytes_total{listener="inside"}') == len(CONNECT) + len(SEND) + 10
    after = metrics(relay.service)
    assert sample(after, 'stomprelay_sessions{listener="inside"}') == 0
    assert sample(after, "stomprelay_connections") == 0
    assert sample(after, 'stomprelay_sessions_opened_total{listener="inside"}') == 1


# The status page


@pytest_twisted.ensureDeferred
async def test_the_page_shows_listeners_and_sessions() -> None:
    """Who is there, by address and versions, and how much went through."""
    async with open_relay() as relay:
        client = await relay.client()
        peer = f"127.0.0.1:{client.transport.getHost().port}"
        answer = await relay.asks("/")
        await leave(client)
    page = answer.body
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert f"<h1>stomprelay {__version__}, running</h1>" in page
    assert f"<tr><td>public</td><td>{ANY_PORT}</td><td>memory:</td>" in page
    assert "<h2>Sessions: 1</h2>" in page
    (row,) = re.findall(r"<tr><td>(relay-\w+-1)</td><td>public</td><td>(.*?)</td><td>(.*?)</td>", page)
    assert row[1:] == (peer, "1.2 to 1.2")
    assert f'<td class="number">{len(CONNECT)}</td>' in page
    assert "<h2>Sessions: 0</h2>" in status(relay.service)


@pytest_twisted.ensureDeferred
async def test_no_credentials_are_shown() -> None:
    """Neither the client's nor ours, on no page."""
    own = Upstream(
        "main", alone(Broker("memory:", "memory:")), credentials=Credentials(b"our-login", b"our-secret")
    )
    connect = CONNECT.replace(b"host:/\n", b"host:/\nlogin:their-login\npasscode:their-secret\n")
    async with open_relay(Listener("public", ANY_PORT, own)) as relay:
        client = await relay.client(connect=connect)
        for path in ("/", "/metrics", "/healthz"):
            body = (await relay.asks(path)).body
            for secret in ("our-login", "our-secret", "their-login", "their-secret"):
                assert secret not in body
        await leave(client)


def test_whatever_is_shown_is_escaped() -> None:
    """A name from the configuration is text, not markup."""
    broker = Broker("<b>broker & co</b>", "tcp:host=192.0.2.1:port=61613", "192.0.2.1")
    house = House(listener(name="<script>alert(1)</script>", upstream=upstream(broker=broker)))
    house.client()
    page = status(house.service)
    assert "<script>" not in page
    assert "<b>" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "<b>broker & co</b>" in unescape(page)


def test_the_page_has_an_end() -> None:
    """Of very many sessions it shows the first; their number is right."""
    house = House()
    for _ in range(SHOWN + 5):
        house.client()
    page = status(house.service)
    assert f"<h2>Sessions: {SHOWN + 5}</h2>" in page
    assert page.count("<td>192.0.2.7:4711</td>") == SHOWN


# HTTP


@pytest.mark.parametrize("path", ["/unknown", "/metric", "/status/", "/../etc/passwd", "/<script>"])
@pytest_twisted.ensureDeferred
async def test_nothing_else_is_there(path: str) -> None:
    """An unknown path is 404, and does not come back as markup."""
    async with open_relay() as relay:
        answer = await relay.asks(path)
    assert answer.status == 404
    assert "<script>" not in answer.body


# Orders


def post(path: str, body: bytes, **headers: str) -> bytes:
    """A POST of JSON."""
    lines = {"content_type": "application/json", "content_length": f"{len(body)}", **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"POST {path} HTTP/1.0\r\n{head}\r\n".encode() + body


@pytest_twisted.ensureDeferred
async def test_clients_are_held_while_the_broker_is_paused() -> None:
    """And get their CONNECTED when it is resumed."""
    async with open_relay() as relay:
        paused = await relay.answers(post("/brokers/pause", b'{"broker": "memory:"}'))
        talker = await call(relay.service._doors.getServiceNamed("public"))
        talker.transport.write(CONNECT)
        await until(lambda: any(session.relay.links for session in relay.service.everyone()))
        assert talker.heard == b""
        resumed = await relay.answers(post("/brokers/resume", b'{"broker": "memory:"}'))
        assert (await talker.frame()).startswith(b"CONNECTED\n")
        await leave(talker)
    states = [json.loads(answer.body)["brokers"][0]["state"] for answer in (paused, resumed)]
    assert states[0] == "paused"
    assert states[1] != "paused"


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
    head = (
        b"POST /brokers/pause HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n"
    )
    chunks = b"".join(b"1\r\n%c\r\n" % octet for octet in body)
    own = Upstream("main", alone(Broker("memory:", "memory:")))
    async with open_relay(Listener("public", ANY_PORT, own)) as relay:
        answer = await relay.answers(head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
    assert answer.status == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics"])
@pytest_twisted.ensureDeferred
async def test_one_can_look_and_not_touch(path: str) -> None:
    """HEAD is GET without a body; anything that would change something is refused."""
    async with open_relay() as relay:
        head = await relay.asks(path, "HEAD")
        post = await relay.asks(path, "POST")
    assert (head.status, head.body) == (200, "")
    assert int(head.headers["content-length"]) > 0
    assert post.status == 405


def test_no_admin_endpoint_unless_it_is_asked_for() -> None:
    """Only the listeners listen."""
    house = House()
    assert len(house.reactor.tcpServers) == 1
    with pytest.raises(KeyError):
        house.service.getServiceNamed("admin")

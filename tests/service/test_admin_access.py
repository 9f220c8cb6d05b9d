"""What the endpoint `admin` asks for before it answers, and what `metrics` can do without."""

import gc
import tracemalloc
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.address import IPv4Address
from twisted.internet.testing import StringTransport
from twisted.internet.threads import deferToThread

from stomprelay.config import Config
from stomprelay.remote.client import AdminClient, AdminCredentials, AdminError
from stomprelay.service.admin.pages import Token
from stomprelay.service.admin.site import metrics_site, site
from stomprelay.service.relay import RelayService
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.harness import RelayHarness, listener
from tests.service.sockets import ANY_PORT, port_of, reactor, running
from tests.service.test_admin import JSON, Answer, requests

TOKEN = b"0123456789abcdef"
LOCAL = IPv4Address("TCP", "127.0.0.1", 61680)


def basic(password: bytes, user: bytes = b"operator") -> str:
    """What a browser sends when it was asked for a password."""
    return f"Basic {b64encode(user + b':' + password).decode()}"


def ask(pair: RelayHarness, path: str, said: str | None, body: bytes = b"") -> Answer:
    """The answer of an endpoint with a token to a request that says this."""
    factory = site(pair.service.state, pair.reactor, (), TOKEN)
    headers = {} if said is None else {"authorization": said}
    method, chunks = ("POST", (body,)) if body else ("GET", ())
    return Answer(pair, path, method, *chunks, factory=factory, content_type=JSON, **headers)


@pytest.mark.parametrize(
    "said",
    [
        f"Bearer {TOKEN.decode()}",
        f"bearer   {TOKEN.decode()} ",
        basic(TOKEN),
        basic(TOKEN, b""),
        basic(TOKEN).replace("Basic", "BASIC"),
    ],
)
def test_what_says_the_token(pair: RelayHarness, said: str) -> None:
    """As a program says it, and as a browser does; pages and orders are as without one."""
    assert Token(TOKEN).said(said.encode())
    assert ask(pair, "/brokers", said).status == 200
    assert ask(pair, "/nothing", said).status == 404
    assert ask(pair, "/", said, b"{}").status == 405
    assert ask(pair, "/sessions", said).status == 200
    assert ask(pair, "/sessions/x/kill", said, b"{}").status == 404
    assert ask(pair, "/brokers/pause", said, b'{"broker": "*"}').status == 200
    assert all(each.broker.health.paused for each in pair.service.state.brokers)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1].decode()}",
        f"Bearer {TOKEN.decode()}x",
        f"Bearer {TOKEN.decode().upper()}",
        TOKEN.decode(),
        f"Digest {TOKEN.decode()}",
        f"Basic {TOKEN.decode()}",
        f"Basic {b64encode(TOKEN).decode()}",
        basic(b""),
        basic(TOKEN + b":"),
        "Basic \xff\xfe",
        "Basic ====",
        "Bearer " + "x" * 10_000,
    ],
)
def test_what_does_not_say_the_token(said: str) -> None:
    """Nothing, a part of it, more than it, what is malformed."""
    assert not Token(TOKEN).said(said.encode("latin-1"))


@pytest.mark.parametrize(
    "path", ["/", "/metrics", "/brokers", "/sessions", "/nothing", "/healthz/", "//livez", "/livez?x=1/"]
)
def test_without_the_token_nothing_is_shown_or_done(pair: RelayHarness, path: str) -> None:
    """Not even what is there, nor to another site that there is a token; but the probes answer to anybody."""
    factory = site(pair.service.state, pair.reactor, (), TOKEN)
    assert Answer(pair, path, factory=factory, host="attacker.example").status == 421
    pair.client()
    [session] = pair.service.state.sessions
    for said in (None, "Bearer wrong"):
        answer = ask(pair, path, said)
        if path.startswith("/livez"):
            assert answer.status == 200
            continue
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="stomprelay", charset="UTF-8"'
        assert "admin_token_file" in answer.error
        assert ask(pair, "/brokers/pause", said, b'{"broker": "*"}').status == 401
        assert ask(pair, f"/sessions/{session.name}/kill", said, b"{}").status == 401
    assert not session.over
    assert not any(each.broker.health.paused for each in pair.service.state.brokers)
    assert [ask(pair, probe, None).status for probe in ("/livez", "/readyz", "/healthz")] == [200, 503, 200]


def test_many_wrong_tokens(pair: RelayHarness, log: list[str]) -> None:
    """Cost no memory that stays, and few lines of the log, which do not show them."""
    channel: Any = site(pair.service.state, pair.reactor, (), TOKEN).buildProtocol(LOCAL)
    transport = StringTransport(hostAddress=LOCAL, peerAddress=IPv4Address("TCP", "192.0.2.9", 4711))
    channel.makeConnection(transport)

    def attempts(first: int, count: int) -> None:
        for number in range(first, first + count):
            head = b"GET /brokers HTTP/1.1\r\nhost: localhost:61680\r\nauthorization: Bearer guess%d\r\n\r\n"
            channel.dataReceived(head % number)
            assert transport.value().startswith(b"HTTP/1.1 401 Unauthorized\r\n")
            transport.clear()

    attempts(0, 200)
    gc.collect()
    tracemalloc.start()
    try:
        attempts(200, 1800)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    pair.reactor.advance(10)
    assert kept < 16384
    said = [line.partition("admin: ")[2] for line in log if "admin: " in line]
    assert said[0] == "a request from 192.0.2.9 sent a wrong token"
    assert (len(said), said[5]) == (6, "wrong token: and 1995 more in 10 s")
    assert not any("guess" in line for line in log)


OF_METRICS = """
GET    200 /livez /healthz /metrics
GET    503 /readyz
GET    404 / /brokers /sessions /state /state/whole
HEAD   200 /metrics
POST   405 /metrics
POST   404 /brokers/pause /brokers/resume /sessions/x/kill
DELETE 405 /livez
"""


@pytest.mark.parametrize(("method", "path", "status"), requests(OF_METRICS))
def test_metrics_can_do_nothing(pair: RelayHarness, method: str, path: str, status: int) -> None:
    """It has probes and counters; `Host` is looked at there, too."""
    factory = metrics_site(pair.service.state, pair.reactor)
    assert Answer(pair, path, method, b'{"broker": "*"}', factory=factory, content_type=JSON).status == status
    assert Answer(pair, path, method, factory=factory, host="attacker.example").status == 421
    assert not any(each.broker.health.paused for each in pair.service.state.brokers)


# Over real sockets


def config(**settings: Any) -> Config:
    """A relay on free ports, with both endpoints."""
    return Config((listener(endpoint=ANY_PORT),), admin=ANY_PORT, metrics=ANY_PORT, **settings)


@pytest_twisted.ensureDeferred
async def test_a_client_certificate(tmp_path: Path) -> None:
    """Stands in for a token: who has none is not heard, and no other relay is taken for ours."""
    authority, other = Authority(tmp_path, "authority"), Authority(tmp_path, "other")
    own, ours = authority.issue("relay"), authority.issue("operator", client=True)
    theirs = other.issue("stranger", client=True)
    tls = serving(own, client_ca=str(authority.file), require_client_certificate=True)
    service = RelayService(config(admin_tls=tls), reactor)
    async with running(service):
        port = port_of(service.admin.getServiceNamed("admin"))
        url, ca = f"https://localhost:{port}", str(authority.file)
        known = AdminCredentials(None, str(ours.certificate), str(ours.key), ca)
        [broker] = await deferToThread(AdminClient(url, known).brokers)
        assert broker.uri == "tcp://192.0.2.1:61613"
        pinned = known._replace(ca=None, own=str(own.certificate))
        assert await deferToThread(AdminClient(f"tcp:{port}", pinned).brokers) == [broker]
        for credentials in (
            known._replace(certificate=None),
            known._replace(certificate=str(theirs.certificate), key=str(theirs.key)),
            known._replace(ca=str(other.file)),
            pinned._replace(own=str(theirs.certificate)),
            pinned._replace(own=str(ours.certificate)),
        ):
            place = url if credentials.own is None else f"tcp:{port}"
            with pytest.raises(AdminError, match=r"^cannot ask the relay at"):
                await deferToThread(AdminClient(place, credentials).brokers)


@pytest.mark.parametrize(("place", "warned"), [("tcp:61680", True), ("tcp:61680:interface=127.0.0.1", False)])
def test_the_log_warns_of_a_token_that_is_read_on_the_way(log: list[str], place: str, warned: bool) -> None:
    """At the start, where others may reach the endpoint without TLS."""
    RelayHarness(admin=place, admin_token=TOKEN)
    assert any("whoever is on the way can read the token" in line for line in log) is warned
    assert TOKEN.decode() not in "".join(log)

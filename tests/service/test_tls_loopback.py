"""TLS over real sockets, through both endpoints: who is accepted, and what each end's log says of who is not."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer

from stomprelay.config import Config
from stomprelay.relay.model.group import Broker, Group, Reconnect, alone
from stomprelay.relay.model.listener import Listener, ServerTLS
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.service.endpoints import entrance, way
from stomprelay.service.reasons import spell
from stomprelay.service.relayservice import RelayService
from stomprelay.service.tls import trouble
from tests.e2e.certificates import Authority, Credentials
from tests.service.certificates import self_signed, serving
from tests.service.house import CONNECT, CONNECTED, MESSAGE, SEND
from tests.service.sockets import ANY_PORT, call, port_of, reactor, running
from tests.service.talker import PATIENCE, Accepting, Talker

UNTRUSTED = "TLS: certificate verify failed: "


@dataclass(frozen=True)
class Trust:
    """An authority, what it issued, and another authority that nobody here knows."""

    directory: Path
    authority: Authority
    stranger: Authority
    broker: Credentials
    client: Credentials

    @property
    def server(self) -> ServerTLS:
        return serving(self.broker)

    @property
    def demanding(self) -> ServerTLS:
        return serving(self.broker, client_ca=str(self.authority.file), require_client_certificate=True)

    @property
    def trusting(self) -> ClientTLS:
        return ClientTLS(ca=str(self.authority.file))

    def showing(self, own: Credentials) -> ClientTLS:
        return replace(self.trusting, certificate=str(own.certificate), key=str(own.key))


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> Trust:
    """Two authorities, and a certificate each for a broker and a client."""
    directory = tmp_path_factory.mktemp("loopback")
    authority, stranger = Authority(directory, "Authority"), Authority(directory, "Stranger")
    broker = authority.issue("Broker", ("localhost", "broker.example"))
    return Trust(directory, authority, stranger, broker, authority.issue("Client", client=True))


@implementer(IHandshakeListener)
class Shaker(Protocol):
    """One end of a TLS connection; `ended` fires with the reason that a leg would log."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.heard = b""
        self.asked_for: bytes | None = None
        self.ended: Deferred[str] = Deferred()

    def handshakeCompleted(self) -> None:
        transport: Any = self.transport
        self.asked_for = transport.getHandle().get_servername()
        if self.greeting:
            transport.write(self.greeting)

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
        assert self.transport is not None
        self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        layer: Any = self.transport
        self.ended.callback(trouble(layer) or spell(reason))


class Once(Factory):
    """Gives the one protocol of a test."""

    noisy = False

    def __init__(self, protocol: Any) -> None:
        self._only = protocol

    def buildProtocol(self, addr: object) -> Any:
        return self._only


@dataclass(frozen=True)
class Outcome:
    """What became of it. `heard`: what the client read of the server's greeting; `client`, `server`: the reasons of
    the ends; `asked_for`: the SNI.
    """

    heard: bytes
    client: str
    server: str
    asked_for: bytes | None


async def shake(server: ServerTLS, client: ClientTLS, host: str = "localhost") -> Outcome:
    """A client connects to a server that says hello when the handshake is done."""
    callee, caller = Shaker(b"hello"), Shaker()
    door = entrance(reactor, "door", ANY_PORT, Once(callee), server)
    async with running(door):
        await way(reactor, _broker(door, host), client).connect(Once(caller))
        reasons = [await end.ended.addTimeout(PATIENCE, reactor) for end in (caller, callee)]
    return Outcome(caller.heard, reasons[0], reasons[1], callee.asked_for)


def _broker(door: Any, host: str = "localhost") -> Broker:
    port = port_of(door)
    return Broker(f"ssl://{host}:{port}", f"tcp:host=127.0.0.1:port={port}", host, tls=True)


# Who is accepted


@pytest_twisted.ensureDeferred
async def test_a_certificate_of_a_known_authority_for_the_name(trust: Trust) -> None:
    """It is accepted, and the name is asked for by SNI."""
    outcome = await shake(trust.server, trust.trusting, "broker.example")
    assert outcome == Outcome(b"hello", "connection closed", "connection closed", b"broker.example")


@pytest_twisted.ensureDeferred
async def test_an_address_is_not_asked_for(trust: Trust) -> None:
    """SNI is for names only (RFC 6066, section 3); the certificate is for the address all the same."""
    outcome = await shake(trust.server, trust.trusting, "127.0.0.1")
    assert (outcome.heard, outcome.asked_for) == (b"hello", None)


@pytest_twisted.ensureDeferred
async def test_an_international_name_is_asked_for_in_ascii(trust: Trust) -> None:
    """As it stands in certificates and in DNS."""
    server = serving(trust.authority.issue("International", ("xn--bcher-kva.example",)))
    outcome = await shake(server, trust.trusting, "bücher.example")
    assert (outcome.heard, outcome.asked_for) == (b"hello", b"xn--bcher-kva.example")


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "not shown"])
@pytest_twisted.ensureDeferred
async def test_a_client_s_certificate_that_is_only_asked_for(trust: Trust, shown: bool) -> None:
    """The client may show one, and may not."""
    asking = replace(trust.demanding, require_client_certificate=False)
    client = trust.showing(trust.client) if shown else trust.trusting
    assert (await shake(asking, client)).heard == b"hello"


@pytest_twisted.ensureDeferred
async def test_a_self_signed_certificate_that_is_trusted_itself(trust: Trust) -> None:
    """The simplest way to run a broker with TLS."""
    own = self_signed(trust.directory, "Trusted")
    assert (await shake(serving(own), ClientTLS(ca=str(own.certificate)))).heard == b"hello"


# Who is not


@pytest_twisted.ensureDeferred
async def test_a_wrong_name(trust: Trust) -> None:
    """The reason says what the certificate is for and what it should have been for."""
    outcome = await shake(trust.server, trust.trusting, "elsewhere.example")
    names = "localhost, broker.example, 127.0.0.1"
    assert outcome.client == f"{UNTRUSTED}it is for {names}, not for elsewhere.example"
    assert outcome.server.startswith("TLS: ")
    assert outcome.heard == b""


@pytest_twisted.ensureDeferred
async def test_an_unknown_authority(trust: Trust) -> None:
    """The reason names the certificate; the other end hears an alert that its log explains."""
    assert await shake(serving(trust.stranger.issue("Strange")), trust.trusting) == Outcome(
        b"",
        f"{UNTRUSTED}its authority is not known here (certificate of Strange, level 0)",
        "TLS: the peer does not know the authority of our certificate (tlsv1 alert unknown ca)",
        None,
    )


@pytest_twisted.ensureDeferred
async def test_a_self_signed_certificate(trust: Trust) -> None:
    """The reason tells it from one of an unknown authority."""
    outcome = await shake(serving(self_signed(trust.directory, "Own")), trust.trusting)
    reason = "it is signed by itself, by no authority that is known here"
    assert outcome.client == f"{UNTRUSTED}{reason} (certificate of Own, level 0)"
    assert outcome.heard == b""


@pytest_twisted.ensureDeferred
async def test_an_expired_certificate(trust: Trust) -> None:
    """Both logs say that it expired, which is what an operator has to know."""
    outcome = await shake(serving(trust.authority.issue("Old", expired=True)), trust.trusting)
    assert outcome.client == f"{UNTRUSTED}it has expired (certificate of Old, level 0)"
    assert "expired" in outcome.server
    assert outcome.heard == b""


@pytest_twisted.ensureDeferred
async def test_a_certificate_of_tomorrow(trust: Trust) -> None:
    """Often a clock is wrong; the reason lets one think of it."""
    own = self_signed(trust.directory, "Early", begins=1)
    outcome = await shake(serving(own), ClientTLS(ca=str(own.certificate)))
    assert outcome.client == f"{UNTRUSTED}it is not valid yet (certificate of Early, level 0)"
    assert outcome.heard == b""


@pytest_twisted.ensureDeferred
async def test_a_client_s_certificate_does_not_serve_a_broker(trust: Trust) -> None:
    """What it was issued for counts."""
    outcome = await shake(serving(trust.authority.issue("Misused", client=True)), trust.trusting)
    assert outcome.client == f"{UNTRUSTED}it is not made for this purpose (certificate of Misused, level 0)"
    assert outcome.heard == b""


@pytest_twisted.ensureDeferred
async def test_no_certificate_where_one_is_demanded(trust: Trust) -> None:
    """Both ends' reasons say it, each from its side."""
    assert await shake(trust.demanding, trust.trusting) == Outcome(
        b"",
        "TLS: the peer demands a certificate of ours (tlsv13 alert certificate required)",
        "TLS: the peer did not show a certificate (peer did not return a certificate)",
        None,
    )


@pytest.mark.parametrize("demanded", [True, False], ids=["demanded", "asked for"])
@pytest_twisted.ensureDeferred
async def test_a_client_s_certificate_of_an_unknown_authority(trust: Trust, demanded: bool) -> None:
    """Whether it is demanded or only asked for: a wrong one is worse than none."""
    server = replace(trust.demanding, require_client_certificate=demanded)
    outcome = await shake(server, trust.showing(trust.stranger.issue("Strange client", client=True)))
    reason = "its authority is not known here (certificate of Strange client, level 0)"
    assert outcome.server == UNTRUSTED + reason
    assert outcome.heard == b""


@pytest_twisted.ensureDeferred
async def test_a_client_s_expired_certificate(trust: Trust) -> None:
    """The server's log names it."""
    expired = trust.authority.issue("Old client", client=True, expired=True)
    outcome = await shake(trust.demanding, trust.showing(expired))
    assert outcome.server == f"{UNTRUSTED}it has expired (certificate of Old client, level 0)"


# Peers that do not speak TLS


@pytest_twisted.ensureDeferred
async def test_a_broker_that_does_not_speak_tls(trust: Trust) -> None:
    """It answers in plain STOMP; the reason says what is wrong with that."""
    caller, broker = Shaker(), Accepting()
    door = entrance(reactor, "door", ANY_PORT, broker)
    async with running(door):
        await way(reactor, _broker(door), trust.trusting).connect(Once(caller))
        plain = await broker.accepted.get()
        plain.transport.write(b"ERROR\nmessage:Bad CONNECT\n\n\0")
        reason = await caller.ended.addTimeout(PATIENCE, reactor)
        plain.transport.loseConnection()
        await plain.gone()
    assert reason == "TLS: the peer does not speak TLS (wrong version number)"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "the peer speaks HTTP, not TLS (http request)"),
        (b"STOMP\naccept-version:1.2\nhost:/\n\n\0", "the peer does not speak TLS (wrong version number)"),
        (CONNECT, "the peer does not speak TLS (https proxy request)"),
    ],
    ids=["HTTP", "STOMP", "CONNECT"],
)
@pytest_twisted.ensureDeferred
async def test_a_client_that_does_not_speak_tls(trust: Trust, said: bytes, reason: str) -> None:
    """The listener's log says so; plain STOMP on the TLS port is the likeliest mistake of all."""
    callee = Shaker()
    door = entrance(reactor, "door", ANY_PORT, Once(callee), trust.server)
    async with running(door):
        caller = await call(door)
        caller.transport.write(said)
        said_of_it = await callee.ended.addTimeout(PATIENCE, reactor)
        caller.transport.loseConnection()
        await caller.gone()
    assert said_of_it == f"TLS: {reason}"


@pytest_twisted.ensureDeferred
async def test_a_client_that_says_nothing_at_all(trust: Trust) -> None:
    """A port scan, a monitor: no certificate is to blame."""
    callee = Shaker()
    door = entrance(reactor, "door", ANY_PORT, Once(callee), trust.server)
    async with running(door):
        caller = await call(door)
        caller.transport.loseConnection()
        await caller.gone()
        reason = await callee.ended.addTimeout(PATIENCE, reactor)
    assert "certificate" not in reason


# Through the relay


@pytest_twisted.ensureDeferred
async def test_the_log_says_why_a_broker_was_not_accepted(trust: Trust) -> None:
    """The client is told which upstream, and nothing of certificates."""
    door = entrance(reactor, "door", ANY_PORT, Once(Shaker()), trust.server)
    async with running(door):
        broker = _broker(door, "127.0.0.2")
        upstream = Upstream("main", alone(broker), tls=trust.trusting)
        service = RelayService(Config((Listener("public", ANY_PORT, upstream),)), reactor)
        with capturedLogs() as logs:
            async with running(service):
                caller = await call(service._doors.getServiceNamed("public"))
                caller.transport.write(CONNECT)
                answer = await caller.frame()
                caller.transport.loseConnection()
                await caller.gone()
    texts = [formatEvent(event) for event in logs]
    reason = f"{UNTRUSTED}it is for localhost, broker.example, 127.0.0.1, not for 127.0.0.2"
    refused = f"refused: broker {broker} did not connect: {reason}"
    assert [text for text in texts if text.endswith(refused)], texts
    assert answer.startswith(b"ERROR\nmessage:broker not available\n")
    assert b"upstream main" in answer
    assert b"certificate" not in answer


@pytest_twisted.ensureDeferred
async def test_from_tls_to_tls(trust: Trust) -> None:
    """A relay whose client and broker both speak TLS, with certificates of all four ends verified."""
    broker = Accepting()
    door = entrance(reactor, "door", ANY_PORT, broker, trust.demanding)
    async with running(door):
        upstream = Upstream("main", alone(_broker(door)), tls=trust.showing(trust.client))
        listener = Listener("public", ANY_PORT, upstream, tls=trust.demanding)
        service = RelayService(Config((listener,)), reactor)
        async with running(service):
            here = _broker(service._doors.getServiceNamed("public"))
            caller = Talker()
            await way(reactor, here, trust.showing(trust.client)).connect(Once(caller))
            caller.transport.write(CONNECT)
            there = await broker.accepted.get()
            assert (await there.frame()).startswith(b"CONNECT\n")
            there.transport.write(CONNECTED)
            assert (await caller.frame()).startswith(b"CONNECTED\nversion:1.2\n")
            caller.transport.write(SEND)
            assert (await there.frame()).endswith(b"\n\nhello\0")
            caller.transport.loseConnection()
            await caller.gone()
            await there.gone()


@pytest_twisted.ensureDeferred
async def test_from_broker_to_broker_with_tls(trust: Trust) -> None:
    """A session whose broker dies goes on with the next, past one that accepts and never shakes hands; a client that
    does not read when it happens gets what comes later.
    """
    first, second = Accepting(), Accepting()
    mute = Accepting()
    doors = [
        entrance(reactor, "first", ANY_PORT, first, trust.server),
        entrance(reactor, "mute", ANY_PORT, mute),
        entrance(reactor, "second", ANY_PORT, second, trust.server),
    ]
    async with running(doors[0]), running(doors[1]), running(doors[2]):
        options = Reconnect(randomize=False, initial_delay=0.0)
        group = Group("three", tuple(map(_broker, doors)), options)
        upstream = Upstream("main", (group,), tls=trust.trusting, connect_timeout=2.0)
        service = RelayService(Config((Listener("public", ANY_PORT, upstream, tls=trust.server),)), reactor)
        async with running(service):
            caller = Talker()
            here = _broker(service._doors.getServiceNamed("public"))
            await way(reactor, here, trust.trusting).connect(Once(caller))
            caller.transport.write(CONNECT)
            one = await first.accepted.get()
            await one.frame()
            one.transport.write(CONNECTED)
            assert (await caller.frame()).startswith(b"CONNECTED\n")
            one.transport.abortConnection()
            silent = await mute.accepted.get()
            two = await second.accepted.get()
            await two.frame()
            two.transport.write(CONNECTED)
            caller.transport.write(SEND)
            assert await two.frame() == SEND
            caller.transport.pauseProducing()
            two.transport.write(MESSAGE.replace(b"hello", b"x" * 3_000_000))
            two.transport.write(MESSAGE)
            caller.transport.resumeProducing()
            assert len(await caller.hears_all(3_000_000)) == 3_000_000
            await caller.hears(b"\n\nhello\0")
            caller.transport.loseConnection()
            for talker in (caller, silent, two):
                await talker.gone()

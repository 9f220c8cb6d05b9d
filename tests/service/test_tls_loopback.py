"""TLS over real sockets, through both endpoints: who is accepted, and what each end's log says of who is not."""

from collections.abc import Callable
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
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener, ServerTLS
from stomprelay.relay.model.upstream import ClientTLS, Upstream
from stomprelay.service.connection.failures import spell
from stomprelay.service.network.endpoints import client_endpoint, listening_service
from stomprelay.service.network.tls import certificate_problem
from stomprelay.service.relay import RelayService
from tests.e2e.certificates import Authority, Credentials
from tests.service.certificates import serving
from tests.service.harness import CONNECT
from tests.service.sockets import ANY_PORT, PATIENCE, call, port_of, reactor, running

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
class TLSPeer(Protocol):
    """One end of a TLS connection; `ended` fires with the reason that a leg would log."""

    def __init__(self, greeting: bytes = b"") -> None:
        self.greeting = greeting
        self.received = b""
        self.asked_for: bytes | None = None
        self.ended: Deferred[str] = Deferred()

    def handshakeCompleted(self) -> None:
        transport: Any = self.transport
        self.asked_for = transport.getHandle().get_servername()
        if self.greeting:
            transport.write(self.greeting)

    def dataReceived(self, data: bytes) -> None:
        self.received += data
        assert self.transport is not None
        self.transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        layer: Any = self.transport
        self.ended.callback(certificate_problem(layer) or spell(reason))


class Once(Factory):
    """Gives the one protocol of a test."""

    def __init__(self, protocol: Any) -> None:
        self._only = protocol

    def buildProtocol(self, addr: object) -> Any:
        return self._only


@dataclass(frozen=True)
class Outcome:
    """What became of it. `received`: what the client read of the server's greeting; `client`, `server`: the reasons of
    the ends; `asked_for`: the SNI.
    """

    received: bytes
    client: str
    server: str
    asked_for: bytes | None


async def handshake(server: ServerTLS, client: ClientTLS, host: str = "localhost") -> Outcome:
    """A client connects to a server that says hello when the handshake is done."""
    here, there = TLSPeer(), TLSPeer(b"hello")
    listening = listening_service(reactor, "listening", ANY_PORT, Once(there), server)
    async with running(listening):
        await client_endpoint(reactor, _broker(listening, host), client).connect(Once(here))
        reasons = [await end.ended.addTimeout(PATIENCE, reactor) for end in (here, there)]
    return Outcome(here.received, reasons[0], reasons[1], there.asked_for)


def _broker(listening: Any, host: str = "localhost") -> Broker:
    port = port_of(listening)
    return Broker(f"ssl://{host}:{port}", f"tcp:host=127.0.0.1:port={port}", host, tls=True)


# Who is not

PEERS: dict[str, tuple[Callable[[Trust], tuple[ServerTLS, ClientTLS]], str, str]] = {
    "an unknown authority": (
        lambda trust: (serving(trust.stranger.issue("Strange")), trust.trusting),
        f"{UNTRUSTED}its authority is not known here (certificate of Strange, level 0)",
        "TLS: the peer does not know the authority of our certificate (tlsv1 alert unknown ca)",
    ),
    "an expired certificate": (
        lambda trust: (serving(trust.authority.issue("Old", expired=True)), trust.trusting),
        f"{UNTRUSTED}it has expired (certificate of Old, level 0)",
        "expired",
    ),
    "no certificate where one is demanded": (
        lambda trust: (trust.demanding, trust.trusting),
        "TLS: the peer demands a certificate of ours (tlsv13 alert certificate required)",
        "TLS: the peer did not show a certificate (peer did not return a certificate)",
    ),
    "a client's expired certificate": (
        lambda trust: (
            trust.demanding,
            trust.showing(trust.authority.issue("Old client", client=True, expired=True)),
        ),
        "expired",
        f"{UNTRUSTED}it has expired (certificate of Old client, level 0)",
    ),
}


@pytest.mark.parametrize("peers", PEERS)
@pytest_twisted.ensureDeferred
async def test_who_is_not_accepted(trust: Trust, peers: str) -> None:
    """Each end's log says what an operator has to know: it names the other's certificate, or explains the alert."""
    sides, here, there = PEERS[peers]
    outcome = await handshake(*sides(trust))
    assert here in outcome.client
    assert there in outcome.server
    if "demanded" not in peers and "client" not in peers:
        assert (outcome.received, outcome.asked_for) == (b"", None)


# Peers that do not speak TLS


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
    server = TLSPeer()
    listening = listening_service(reactor, "listening", ANY_PORT, Once(server), trust.server)
    async with running(listening):
        client = await call(listening)
        client.transport.write(said)
        said_of_it = await server.ended.addTimeout(PATIENCE, reactor)
        client.transport.loseConnection()
        await client.gone()
    assert said_of_it == f"TLS: {reason}"


# Through the relay


@pytest_twisted.ensureDeferred
async def test_the_log_says_why_a_broker_was_not_accepted(trust: Trust) -> None:
    """The client is told which upstream, and nothing of certificates."""
    listening = listening_service(reactor, "listening", ANY_PORT, Once(TLSPeer()), trust.server)
    async with running(listening):
        broker = _broker(listening, "127.0.0.2")
        upstream = Upstream("main", alone(broker), tls=trust.trusting)
        service = RelayService(Config((Listener("public", ANY_PORT, upstream),)), reactor)
        with capturedLogs() as logs:
            async with running(service):
                client = await call(service._listening.getServiceNamed("public"))
                client.transport.write(CONNECT)
                answer = await client.frame()
                client.transport.loseConnection()
                await client.gone()
    texts = [formatEvent(event) for event in logs]
    reason = f"{UNTRUSTED}it is for localhost, broker.example, 127.0.0.1, not for 127.0.0.2"
    refused = f"upstream main: broker {broker} is down: did not connect: {reason} ("
    assert [text for text in texts if text.startswith(refused)], texts
    assert answer.startswith(b"ERROR\nmessage:broker not available\n")
    assert b"upstream main" in answer
    assert b"certificate" not in answer

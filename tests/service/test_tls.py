"""Certificates: which files can be used, which peers are believed, and what is said of the others.

Both ends shake hands in memory, as a listener and an upstream would make them; at the end on real sockets.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_twisted
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from OpenSSL import SSL
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from stomprelay.config import Config
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import ServerTLS
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.connection.failures import spell
from stomprelay.service.network import tls
from stomprelay.service.network.endpoints import listening_service
from stomprelay.service.relay import RelayService
from tests.e2e.certificates import Authority, Credentials
from tests.service.certificates import serving as table
from tests.service.harness import CONNECT, listener, upstream
from tests.service.sockets import ANY_PORT, Accepting, call, port_of, reactor, running

PROTOCOL: Any = None
"""Verification does not look at the protocol that asks for a connection."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files are."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(directory: Path) -> Authority:
    """Whom both sides know."""
    return Authority(directory, "authority")


@pytest.fixture(scope="module")
def strangers(directory: Path) -> Authority:
    """Whom nobody knows."""
    return Authority(directory, "strangers")


def serving(credentials: Credentials, **more: Any) -> tls.TLSConnections:
    """A listener that shows this certificate."""
    return tls.for_listener(table(credentials, **more))


def asking(
    authority: Authority, host: str = "localhost", own: Credentials | None = None
) -> tls.TLSConnections:
    """An upstream that knows this authority, and may have a certificate of its own."""
    certificate, key = (str(own.certificate), str(own.key)) if own else (None, None)
    return tls.for_broker(ClientTLS(str(authority.file), certificate, key), host)


class Handshake:
    """A handshake in memory between what a listener and what an upstream would make."""

    def __init__(self, server: tls.TLSConnections, client: tls.TLSConnections) -> None:
        self.server = server.serverConnectionForTLS(PROTOCOL)
        self.client = client.clientConnectionForTLS(PROTOCOL)
        self.server.set_accept_state()
        self.client.set_connect_state()
        self.failed: dict[str, SSL.Error] = {}
        for _ in range(8):
            self._step("client", self.client, self.server)
            self._step("server", self.server, self.client)

    def _step(self, name: str, one: SSL.Connection, other: SSL.Connection) -> None:
        if name not in self.failed:
            try:
                one.do_handshake()
                one.recv(100)
            except SSL.WantReadError:
                pass
            except SSL.Error as error:
                self.failed[name] = error
        try:
            other.bio_write(one.bio_read(1 << 16))
        except SSL.WantReadError:
            pass

    def trouble(self, side: str) -> str | None:
        """What the log would say."""
        layer: Any = SimpleNamespace(getHandle=lambda: getattr(self, side))
        return tls.certificate_problem(layer) or (spell(Failure(self.failed[side])) if self.failed else None)


def test_a_broker_that_is_who_it_should_be(directory: Path, authority: Authority) -> None:
    """A known authority, or one that it vouches for, and the right name; TLS 1.2 or newer."""
    for issuer in (authority, Authority(directory, "between", authority)):
        handshake = Handshake(serving(issuer.issue("good")), asking(authority))
        assert handshake.failed == {}
        assert handshake.trouble("client") is None
        assert handshake.client.get_protocol_version_name() in {"TLSv1.2", "TLSv1.3"}
        assert handshake.server.get_servername() == b"localhost"


@pytest.mark.parametrize("old", ["listener", "broker"])
def test_an_old_version_of_tls(authority: Authority, old: str) -> None:
    """Whoever has nothing newer than TLS 1.1 is not spoken to, neither as a client nor as a broker."""
    good = authority.issue("good")
    sides = {"listener": serving(good), "broker": asking(authority)}
    peers = SSL.Context(SSL.TLS_METHOD)
    peers.set_max_proto_version(SSL.TLS1_1_VERSION)
    peers.set_cipher_list(b"DEFAULT:@SECLEVEL=0")
    peers.use_certificate_file(str(good.certificate))
    peers.use_privatekey_file(str(good.key))
    other = tls.TLSConnections(lambda: peers, (), SSL.VERIFY_NONE)
    server, client = (sides["listener"], other) if old == "listener" else (other, sides["broker"])
    handshake = Handshake(server, client)
    assert ("server" if old == "listener" else "client") in handshake.failed


@pytest.mark.parametrize(
    ("host", "names", "words"),
    [
        ("localhost", ["a.example", "b.example"], "it is for a.example, b.example, not for localhost"),
        ("127.0.0.2", ["localhost"], "it is for localhost, 127.0.0.1, not for 127.0.0.2"),
    ],
)
def test_a_wrong_name(authority: Authority, host: str, names: list[str], words: str) -> None:
    """The names that the certificate is for are told."""
    handshake = Handshake(serving(authority.issue("wrong", names)), asking(authority, host))
    assert "client" in handshake.failed
    assert handshake.trouble("client") == f"TLS: certificate verify failed: {words}"


def test_a_certificate_without_any_name(directory: Path, authority: Authority) -> None:
    """One that has only a common name proves nothing, however trusted its authority."""
    issued = authority.issue("nameless")
    leaf = issued.leaf
    builder = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(leaf.issuer)
        .public_key(leaf.public_key())
        .serial_number(leaf.serial_number)
        .not_valid_before(leaf.not_valid_before_utc)
        .not_valid_after(leaf.not_valid_after_utc)
    )
    path = directory / "really-nameless.pem"
    path.write_bytes(builder.sign(authority._key, hashes.SHA256()).public_bytes(Encoding.PEM))
    server = tls.for_listener(ServerTLS(str(path), str(issued.key)))
    handshake = Handshake(server, asking(authority))
    assert "client" in handshake.failed
    assert "cannot be for localhost" in (handshake.trouble("client") or "")


@pytest.mark.parametrize("required", [True, False])
def test_clients_with_certificates(authority: Authority, strangers: Authority, required: bool) -> None:
    """Ours is let in, another's is not, and none only where none is required."""
    more = {"client_ca": str(authority.file), "require_client_certificate": required}
    server = serving(authority.issue("host"), **more)
    member = authority.issue("member", client=True)
    assert Handshake(server, asking(authority, own=member)).failed == {}
    stranger = Handshake(server, asking(authority, own=strangers.issue("nobody", client=True)))
    assert "server" in stranger.failed
    assert "authority is not known" in (stranger.trouble("server") or "")
    nobody = Handshake(server, asking(authority))
    assert ("server" in nobody.failed) is required


UNTRUSTED = "TLS: certificate verify failed: "
REFUSED: dict[str, tuple[Callable[[Authority, Authority], Handshake], str, str]] = {
    "an unknown authority": (
        lambda ours, theirs: Handshake(serving(theirs.issue("Strange")), asking(ours)),
        f"{UNTRUSTED}its authority is not known here (certificate of Strange, level 0)",
        "TLS: the peer does not know the authority of our certificate (tlsv1 alert unknown ca)",
    ),
    "an expired certificate": (
        lambda ours, theirs: Handshake(serving(ours.issue("Old", expired=True)), asking(ours)),
        f"{UNTRUSTED}it has expired (certificate of Old, level 0)",
        "certificate expired",
    ),
    "no certificate where one is demanded": (
        lambda ours, theirs: Handshake(demanding(ours), asking(ours)),
        "TLS: the peer demands a certificate of ours (tlsv13 alert certificate required)",
        "TLS: the peer did not show a certificate (peer did not return a certificate)",
    ),
    "a client's expired certificate": (
        lambda ours, theirs: Handshake(
            demanding(ours), asking(ours, own=ours.issue("Old client", client=True, expired=True))
        ),
        "certificate expired",
        f"{UNTRUSTED}it has expired (certificate of Old client, level 0)",
    ),
}


def demanding(authority: Authority) -> tls.TLSConnections:
    """A listener that lets in only whom this authority has issued a certificate."""
    return serving(authority.issue("host"), client_ca=str(authority.file), require_client_certificate=True)


@pytest.mark.parametrize("why", REFUSED)
def test_who_is_not_accepted(authority: Authority, strangers: Authority, why: str) -> None:
    """Each end's log says what an operator has to know: it names the other's certificate, or explains the alert."""
    shake, client, server = REFUSED[why]
    handshake = shake(authority, strangers)
    assert client in str(handshake.trouble("client"))
    assert server in str(handshake.trouble("server"))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "TLS: the peer speaks HTTP, not TLS (http request)"),
        (b"STOMP\nhost:/\n\n\0", "TLS: the peer does not speak TLS (wrong version number)"),
        (CONNECT, "TLS: the peer does not speak TLS (https proxy request)"),
    ],
    ids=["HTTP", "STOMP", "CONNECT"],
)
def test_a_client_that_does_not_speak_tls(authority: Authority, said: bytes, reason: str) -> None:
    """The log says so; plain STOMP on the TLS port is the likeliest mistake of all."""
    server = serving(authority.issue("host")).serverConnectionForTLS(PROTOCOL)
    server.set_accept_state()
    server.bio_write(said)
    with pytest.raises(SSL.Error) as caught:
        server.do_handshake()
    assert spell(Failure(caught.value)) == reason


@pytest_twisted.ensureDeferred
async def test_a_broker_that_is_not_accepted(tmp_path: Path) -> None:
    """The log says why; the client is told which upstream, and nothing of certificates; the broker hears nothing."""
    authority, accepting = Authority(tmp_path, "Authority"), Accepting()
    own = table(authority.issue("Broker", ("localhost", "broker.example")))
    listening = listening_service(reactor, "listening", ANY_PORT, accepting, own)
    async with running(listening):
        port = port_of(listening)
        broker = Broker(f"ssl://127.0.0.2:{port}", f"tcp:127.0.0.1:{port}", "127.0.0.2", tls=True)
        main = upstream(broker=broker, tls=ClientTLS(ca=str(authority.file)))
        service = RelayService(Config((listener(endpoint=ANY_PORT, upstream=main),)), reactor)
        with capturedLogs() as logs:
            async with running(service):
                client = await call(service._listening.getServiceNamed("public"))
                client.transport.write(CONNECT)
                answer = await client.frame()
                client.transport.loseConnection()
                await client.gone()
        server = await accepting.accepted.get()
        await server.gone()
    reason = f"{UNTRUSTED}it is for localhost, broker.example, 127.0.0.1, not for 127.0.0.2"
    refused = f"upstream main: broker {broker} is down: did not connect: {reason} ("
    assert [text for text in map(formatEvent, logs) if text.startswith(refused)]
    assert answer.startswith(b"ERROR\nmessage:broker not available\n")
    assert b"upstream main" in answer
    assert b"certificate" not in answer
    assert server.received == b""


def test_files_that_cannot_be_used(directory: Path, authority: Authority) -> None:
    """Each is told by the key that names it, with its path and the reason."""
    good, other = authority.issue("files"), authority.issue("others")
    garbage = directory / "garbage.pem"
    garbage.write_text("not PEM\n")
    secret = directory / "encrypted.key"
    secret.write_bytes(
        good.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    absent = str(directory / "absent.pem")
    certificate, key = str(good.certificate), str(good.key)
    cases: list[tuple[Any, str]] = [
        (ServerTLS(absent, key), f"certificate: {absent}: No such file or directory"),
        (ServerTLS(str(garbage), key), f"certificate: {garbage}: not a usable PEM file"),
        (ServerTLS(certificate, absent), f"key: {absent}: No such file or directory"),
        (ServerTLS(certificate, str(garbage)), f"key: {garbage}: not a usable PEM file"),
        (ServerTLS(certificate, str(secret)), f"key: {secret}: not a usable PEM file"),
        (ServerTLS(certificate, str(other.key)), f"key: {other.key}: it does not belong to the certificate"),
        (ServerTLS(certificate, key, absent), f"client_ca: {absent}: No such file"),
        (ServerTLS(certificate, key, str(garbage)), f"client_ca: {garbage}: no certificate in it"),
        (ClientTLS(ca=absent), f"ca: {absent}: No such file"),
        (ClientTLS(ca=str(garbage)), f"ca: {garbage}: no certificate in it"),
        (ClientTLS(certificate=absent, key=key), f"certificate: {absent}: No such file"),
    ]
    for settings, words in cases:
        with pytest.raises(tls.Unusable) as caught:
            tls.for_listener(settings) if isinstance(settings, ServerTLS) else tls.for_broker(
                settings, "localhost"
            )
        assert str(caught.value).startswith(words)

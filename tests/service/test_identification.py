"""Who a client is, found out by the service: by what method, for whom there is time, and what is counted and logged."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from OpenSSL.crypto import X509
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import capturedLogs, formatEvent

from stomprelay.auth.attempts import FREE, MOST, STEP
from stomprelay.auth.settings import AuthService, AuthSettings, BrokerLogin
from stomprelay.auth.tokens import Tokens, read_keys
from stomprelay.auth.users import Users
from stomprelay.relay.client.opening import REFUSAL
from stomprelay.relay.model.rules import Ground, Identity, Refusal
from stomprelay.service.clients import auth_service, identification
from stomprelay.service.clients.auth_service import Answer
from stomprelay.service.clients.identification import THREADS, WAITING, common_name
from stomprelay.service.connection.runtime import MOST as MOST_LINES
from tests.auth.issuing import NOW, USERS, public_pem, token
from tests.service.harness import CONNECTED, SEND, FakeTransport, RelayHarness, listener

TOKENS = Tokens(read_keys(public_pem()), ("ES256",), ("stomprelay",))
ERROR = b"ERROR\nmessage:access refused\n"


def connect(login: str | None = None, passcode: str | bytes | None = None) -> bytes:
    """CONNECT with these."""
    if isinstance(passcode, bytes):
        passcode = passcode.decode()
    said = f"login:{login}\n" if login is not None else ""
    said += f"passcode:{passcode}\n" if passcode is not None else ""
    return f"CONNECT\naccept-version:1.2\nhost:/\n{said}\n\0".encode()


class Harness(RelayHarness):
    """A relay whose listener asks who comes."""

    def __init__(self, most: int | None = None, renew: bytes | None = None, **settings: Any) -> None:
        settings.setdefault("users", Users.read(USERS))
        auth = AuthSettings("people", **settings)
        super().__init__(listener(auth="people", renew=renew, clients_per_user=most), auths=(auth,))
        self.service._identification._clock = lambda: int((NOW + self.reactor.seconds()) * 1e9)
        self.counters = self.service.state.sessions.listeners["public"].counters

    def says(self, *said: Any) -> FakeTransport:
        """A client that has sent its CONNECT."""
        client = self.client()
        client.sends(connect(*said))
        self.reactor.advance(0)
        return client

    def comes_in(self, *said: Any) -> bytes:
        """A client comes in; what its broker is told."""
        client = self.says(*said)
        broker = self.broker()
        told = broker.written()
        broker.sends(CONNECTED)
        assert client.written().startswith(b"CONNECTED\n")
        return told

    def is_refused(self, *said: Any) -> str:
        """A client is not let in; what the log has of it."""
        with capturedLogs() as logs:
            client = self.says(*said)
            assert client.written() == b""
            self.reactor.advance(REFUSAL)
        assert client.written().startswith(ERROR)
        assert client.ends
        assert self.reactor.tcpClients == []
        lines = [formatEvent(each) for each in logs]
        assert not any(str(each) in line for each in said if each for line in lines)
        return "\n".join(line for line in lines if "access refused" in line)

    @property
    def waiting(self) -> int:
        return self.service._identification._waiting


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done in threads is done at once."""
    monkeypatch.setattr(
        identification, "deferToThreadPool", lambda reactor, pool, call, *args: maybeDeferred(call, *args)
    )


def test_one_client_too_many_of_a_user() -> None:
    """Is told so at once: it is no stranger. Another user's comes in, and the first one's when there is room."""
    harness = Harness(most=1)
    harness.comes_in("alice", "secret")
    client = harness.says("alice", "secret")
    told = client.written()
    assert told.startswith(b"ERROR\nmessage:too many connections\n")
    assert b"the limit for one user is 1" in told
    assert client.ends
    harness.comes_in("bob", "geheim")
    assert harness.counters["logins_failed"] == 0


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (("alice", "wrong-one"), "(passcode): no such user, or another passcode"),
        (("nobody-known", "secret-one"), "(passcode): no such user, or another passcode"),
        (("carol",), "(passcode): no such user, or another passcode"),
        ((None, "secret-one"), "(passcode): no such user, or another passcode"),
        ((), "(missing): it has nothing by which it could be known"),
        (("alice", token(exp=NOW - 60)), "(token): it has expired"),
        (("alice", token(sub="")), "(token): its claim sub is no name"),
    ],
)
def test_who_is_refused(said: tuple[Any, ...], reason: str) -> None:
    """Each in the same way after the same time; the log has the reason, and nothing that the client said."""
    harness = Harness(tokens=TOKENS)
    line = harness.is_refused(*said)
    assert reason in line
    assert harness.counters["logins_failed"] == 1
    assert harness.counters["logins_unchecked"] == 0
    assert harness.waiting == 0


def test_a_newer_token() -> None:
    """It prolongs the session, which counts once; a bad one does not end it, nor do failures of its neighbours."""
    harness = Harness(most=1, renew=b"/relay/token", tokens=TOKENS, broker=BrokerLogin.USER)
    client = harness.says("whoever", token(exp=NOW + 20))
    broker = harness.broker()
    broker.written()
    broker.sends(CONNECTED)
    assert client.written().startswith(b"CONNECTED\n")

    def shows(newer: bytes) -> bytes:
        client.sends(b"SEND\ndestination:/relay/token\npasscode:%b\nreceipt:r\n\n\0" % newer)
        harness.reactor.advance(0)
        assert broker.written() == b""
        return client.written()

    assert shows(token(exp=NOW + 120)).startswith(b"RECEIPT\nreceipt-id:r\n\n\0")
    for _ in range(60):
        harness.reactor.advance(1)
    client.sends(SEND)
    assert SEND in broker.written()
    assert shows(token(exp=NOW + 10)) == b""
    assert shows(b"no-token") == b""
    assert harness.counters["logins_failed"] == 2
    for _ in range(2 * MOST):
        harness.says("alice", "wrong-one")
    assert harness.counters["logins_unchecked"] > 0
    assert shows(token(exp=NOW + 240)).startswith(b"RECEIPT\nreceipt-id:r\n\n\0")
    for _ in range(120):
        client.sends(b"\n")
        harness.reactor.advance(1)
    client.sends(SEND)
    assert SEND in broker.written()


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """The comparisons of passcodes that were begun: call one to have it done."""
    begun: list[Callable[[], None]] = []

    def later(reactor: Any, pool: Any, call: Any, *arguments: Any) -> Deferred[bool]:
        done: Deferred[bool] = Deferred()
        begun.append(lambda: done.callback(call(*arguments)))
        return done

    monkeypatch.setattr(identification, "deferToThreadPool", later)
    return begun


def test_passcodes_are_compared_a_few_at_a_time(compared: list[Callable[[], None]]) -> None:
    """Others wait, and those who went meanwhile cost nothing."""
    harness = Harness()
    said = (("alice", "secret"), ("alice", "wrong-one"), ("alice", "another"), ("bob", "geheim"))
    clients = [harness.says(*each) for each in said]
    assert len(compared) == THREADS == len(said) - 2
    assert harness.waiting == THREADS + 2
    clients[THREADS].disconnects()
    compared[0]()
    harness.reactor.advance(0)
    assert len(compared) == THREADS + 1
    compared[1]()
    compared[2]()
    harness.reactor.advance(0)
    assert len(compared) == THREADS + 1
    assert harness.waiting == 0
    assert len(harness.reactor.tcpClients) == 2


@pytest.mark.usefixtures("compared")
def test_no_more_wait_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are refused unseen, and it is counted apart."""
    monkeypatch.setattr(identification, "WAITING", 2)
    assert WAITING > 2
    harness = Harness()
    for _ in range(2):
        harness.says("alice", "secret")
    assert "(unchecked): too many clients wait" in harness.is_refused("alice", "secret")
    assert (harness.counters["logins_failed"], harness.counters["logins_unchecked"]) == (0, 1)


def test_an_address_that_fails_is_slowed_down() -> None:
    """Also who knows the passcode waits then; in the end no attempt is looked at, and that is no failure."""
    harness = Harness()
    for _ in range(FREE + 1):
        harness.says("alice", "wrong-one")
    harness.says("alice", "secret")
    assert harness.reactor.tcpClients == []
    harness.reactor.advance(STEP)
    assert len(harness.reactor.tcpClients) == 1
    for _ in range(MOST):
        harness.says("alice", "wrong-one")
        harness.reactor.advance(0)
    harness.reactor.advance(60)
    unchecked = harness.counters["logins_unchecked"]
    assert unchecked > 0
    assert harness.counters["logins_failed"] + unchecked == FREE + 1 + MOST


def test_many_guesses_at_once(compared: list[Callable[[], None]]) -> None:
    """An address that fails is slowed down also where it had not failed when all of its clients came."""
    harness = Harness()
    for number in range(WAITING):
        harness.says("alice", f"guess-{number}")
    while compared:
        compared.pop(0)()
        harness.reactor.advance(0)
    assert harness.counters["logins_failed"] <= FREE + THREADS
    assert harness.counters["logins_unchecked"] + harness.counters["logins_failed"] == WAITING


def test_a_client_that_goes_while_it_waits() -> None:
    """Nothing is compared for it, and it was no failure."""
    harness = Harness()
    for _ in range(FREE + 1):
        harness.says("alice", "wrong-one")
    client = harness.says("alice", "secret")
    client.disconnects()
    harness.reactor.advance(60)
    assert harness.reactor.tcpClients == []
    assert harness.counters["logins_failed"] == FREE + 1
    assert len(harness.service.state.sessions) == 0
    assert harness.waiting == 0


def test_what_nobody_thought_of(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    """It lets nobody in and is no failure of an address, and the log has it a few times."""

    def fails(*_: Any) -> bool:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Users, "verify", fails)
    harness = Harness()
    clients = [harness.says("alice", "secret") for _ in range(2 * MOST_LINES)]
    harness.reactor.advance(REFUSAL)
    assert all(client.written().startswith(ERROR) for client in clients)
    assert harness.counters["logins_unchecked"] == len(clients)
    assert len(harness.service._identification._attempts) == 0
    assert sum("it could not be found out who a client is" in line for line in log) == MOST_LINES
    assert harness.waiting == 0


def test_another_configuration() -> None:
    """Who comes from then on is known by it; who comes to a listener as it was before is not let in."""
    harness = Harness()
    changed = AuthSettings("people", Users.read(b"carol::\n"))
    harness.service._identification.change([changed])
    harness.is_refused("alice", "secret")
    harness.service._identification.change([])
    assert "not configured any more" in harness.is_refused("alice", "secret")


def test_the_relay_stops() -> None:
    """Whoever waits is told, and the threads end."""
    harness = Harness()
    harness.comes_in("alice", "secret")
    client = harness.says("alice", "wrong-one")
    pool = harness.service._identification._threads
    assert pool is not None
    stopped = harness.service.stopService()
    harness.reactor.advance(60)
    assert stopped is not None
    assert b"message:the relay is stopping\n" in client.written()
    assert not pool.started


# The HTTP service


class Service:
    """Answers in the place of the service."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Answer | Refusal) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._answer = answer
        monkeypatch.setattr(auth_service.AuthServiceClient, "ask", self._ask)

    async def _ask(self, *asked: Any) -> Answer | Refusal:
        self.asked.append(asked)
        return self._answer


HTTP = AuthService("http://127.0.0.1:1/")


def test_whom_the_service_lets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for whoever is not in the file."""
    service = Service(monkeypatch, Answer("dora", frozenset({"y"})))
    harness = Harness(service=HTTP, logins={})
    harness.comes_in("dave", "pass-of-dave")
    harness.comes_in("alice", "secret")
    [(claim, certificate, address, name, _)] = service.asked
    assert (claim.login, claim.passcode) == (b"dave", b"pass-of-dave")
    assert (certificate, address, name) == ("", "192.0.2.7", "public")
    assert sorted(each.relay.identity.user for each in harness.service.state.sessions) == ["alice", "dora"]


@pytest.mark.parametrize("reason", ["service", "unchecked"])
def test_whom_it_does_not_let_in(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Its no, and that it could not be asked, are counted apart; only the first is a failure of the address."""
    Service(monkeypatch, Refusal(Ground(reason), "because"))
    harness = Harness(service=HTTP)
    assert f"({reason}): because" in harness.is_refused("dave", "pass-of-dave")
    assert harness.counters["logins_unchecked" if reason == "unchecked" else "logins_failed"] == 1
    assert len(harness.service._identification._attempts) == (reason == "service")


def test_the_same_service_after_a_reload() -> None:
    """Its connections and what is remembered of it stay; another one has its own."""
    harness = Harness(service=HTTP)
    known = harness.service._identification._services["people"]
    harness.service._identification.change([AuthSettings("people", service=HTTP)])
    assert harness.service._identification._services == {"people": known}
    harness.service._identification.change([AuthSettings("people", service=AuthService("http://[::1]/"))])
    assert harness.service._identification._services["people"] is not known
    harness.service._identification.change([])
    assert harness.service._identification._services == {}


# Certificates


def certificate(*names: str) -> X509:
    """A certificate with these common names."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = (
        made.serial_number(1)
        .not_valid_before(datetime.now(UTC))
        .not_valid_after(datetime.now(UTC) + timedelta(1))
    )
    return X509.from_cryptography(made.sign(key, hashes.SHA256()))


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["alice"], "alice"),
        (["Jane Doe"], "Jane Doe"),
        ([], ""),
        (["alice", "bob"], ""),
        (["a\nb"], ""),
        ([" a"], ""),
    ],
)
def test_the_name_in_a_certificate(names: list[str], found: str) -> None:
    """One common name, and nothing that could be mistaken for another."""
    assert common_name(certificate(*names)) == found


def shows(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Clients show a certificate with these names; it was verified."""
    shown = certificate(*names)
    monkeypatch.setattr("stomprelay.service.connection.protocol.LegProtocol.certificate", shown)


def test_a_certificate_lets_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else the client says."""
    shows(monkeypatch, "carol")
    harness = Harness(certificates=True)
    harness.comes_in("alice", "wrong-one")
    [session] = harness.service.state.sessions
    assert session.relay.identity == Identity("carol", frozenset({"auditors"}), "carol")


def test_a_certificate_that_names_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as if there were none."""
    shows(monkeypatch)
    harness = Harness(certificates=True, users=None)
    assert "(certificate): it has shown no certificate that names somebody" in harness.is_refused(
        "alice", "secret-one"
    )

"""Who may come in, at a relay that runs: passcodes, tokens, certificates, over plain STOMP, TLS and WebSocket."""

import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.auth.issuing import ISSUER, USERS, public_pem, token
from tests.e2e import stompjs
from tests.e2e.brokers import Broker
from tests.e2e.certificates import Authority
from tests.e2e.raw import Connection, body
from tests.e2e.relay import ROOT, Relay, served

pytestmark = pytest.mark.e2e

REFUSED = b"ERROR\nmessage:access refused\n"


class Door(NamedTuple):
    """A relay that asks who comes, and its users file."""

    relay: Relay
    users: Path

    @property
    def port(self) -> int:
        return self.relay.port

    def connect(self, login: str, passcode: str) -> bytes:
        """Come in, say this, and return the answer."""
        with Connection.to(self.port) as client:
            return client.connect("1.2", login, passcode)

    def asked(self, expiry: float, login: str = "whoever") -> Connection:
        """A client with a token that is good for so many seconds; it has its answer still to read."""
        client = Connection.to(self.port)
        passcode = token(ISSUER, exp=time.time() + expiry).decode()
        client.write(
            f"CONNECT\naccept-version:1.2\nhost:/\nlogin:{login}\npasscode:{passcode}\n\n\0".encode()
        )
        return client


def put(folder: Path, users: bytes = USERS, logins: bytes = b"alice:guest:guest\n") -> None:
    """Write the files that the configuration names."""
    for name, content in (("users", users), ("logins", logins), ("issuer.pem", public_pem())):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)


PEOPLE = """
users = "users"
logins = "logins"
broker = "user"
[auth.people.token]
keys = "issuer.pem"
algorithms = ["ES256"]
audience = "stomprelay"
leeway = 0
"""


@contextmanager
def asking(
    directory: Path, uri: str = "memory:", listener: str = "", people: str = PEOPLE, workers: int = 1
) -> Iterator[Door]:
    """Run a relay that asks who comes. `listener` is in the table of its listener, or follows it."""
    put(directory)
    upstream = f'uri = "{uri}"\n[auth.people]\n{people}'
    with served(directory, upstream, f'auth = "people"\nweb = true\n{listener}', workers=workers) as running:
        yield Door(running, directory / "users")


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """A relay to the built-in broker."""
    with asking(tmp_path) as running:
        yield running


def test_a_users_file_that_is_read_anew(door: Door) -> None:
    """Whoever was added by `passwd` comes in then; a broken file changes nothing, and is named with its line."""
    command = [sys.executable, "-m", "stomprelay", "passwd", "--stdin", str(door.users), "dora"]
    subprocess.run(command, input=b"new-code\n", check=True, cwd=ROOT, timeout=60)
    assert door.relay.reload().endswith("reloaded; changed: auth.people.users")
    with Connection.to(door.port) as stays:
        assert stays.connect("1.2", "dora", "new-code").startswith(b"CONNECTED\n")
        good = door.users.read_bytes()
        door.users.write_bytes(good + b"erwin:broken\n")
        line = door.relay.reload()
        assert "the configuration is not reloaded" in line
        assert f"users: line {good.count(bytes([10])) + 1} has 2 fields in place of 3" in line
        assert "broken" not in line.partition("line ")[2]
        assert door.connect("dora", "new-code").startswith(b"CONNECTED\n")
        door.users.write_bytes(USERS)
        assert door.relay.reload().endswith("reloaded; changed: auth.people.users")
        assert door.connect("dora", "new-code").startswith(REFUSED)
        stays.write(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
        assert stays.frame().startswith(b"RECEIPT\n")


def test_a_certificate(tmp_path: Path, authority: Authority) -> None:
    """Its name lets in who shows it, whatever else it says; who shows none needs a passcode."""
    tls = f'[listener.main.tls]\n{authority.issue("relay").lines}client_ca = "{authority.file}"'
    trust = ssl.create_default_context(cafile=str(authority.file))
    with asking(tmp_path, "memory:", tls, f"certificates = true{PEOPLE}") as door:
        with Connection.to(door.port, trust) as client:
            assert client.connect("1.2", "alice", "wrong-code").startswith(REFUSED)
        with Connection.to(door.port, trust) as client:
            assert client.connect("1.2", "alice", "secret").startswith(b"CONNECTED\n")
        shown = authority.issue("carol", client=True)
        trust.load_cert_chain(shown.certificate, shown.key)
        with Connection.to(door.port, trust) as client:
            assert client.connect("1.2", "alice", "wrong-code").startswith(b"CONNECTED\n")


@pytest.mark.ci
def test_the_library_shows_a_newer_token(tmp_path: Path) -> None:
    """`@stomp/stompjs` stays when its first token expires, and is told when the newer one has."""
    stompjs.modules()
    with asking(tmp_path, people=f'{PEOPLE}renew = "/relay/token"') as door:
        begin = time.time()
        tokens = [token(ISSUER, exp=begin + good).decode() for good in (3, 4.5)]
        seen = stompjs.talk("renews", f"ws://127.0.0.1:{door.port}/ws#{','.join(tokens)}")
        assert time.time() >= begin + 4.5
        assert seen == {"error": "the token has expired", "taken": True}
        assert "eyJ" not in door.relay.log


@pytest.mark.ci
@pytest.mark.broker
def test_several_workers(tmp_path: Path, rabbitmq: Broker) -> None:
    """Each has users and keys."""
    with asking(tmp_path, rabbitmq.uri, workers=2) as door:
        for _ in range(4):
            assert door.connect("alice", "secret").startswith(b"CONNECTED\n")
            assert door.connect("alice", "wrong-code").startswith(REFUSED)


@pytest.mark.ci
@pytest.mark.broker
def test_rabbitmq_is_told_another_login(tmp_path: Path, rabbitmq: Broker) -> None:
    """What the map has for the user: never the passcode, or the token, that was shown to the relay."""
    with asking(tmp_path, rabbitmq.uri) as door:
        with Connection.to(door.port) as client:
            assert client.connect("1.2", "alice", "secret").startswith(b"CONNECTED\n")
            client.write(b"SUBSCRIBE\nid:1\ndestination:/queue/access\n\n\0")
            client.write(b"SEND\ndestination:/queue/access\n\nhello\0")
            assert body(client.frame()) == b"hello"
        with door.asked(60) as client:
            assert client.frame().startswith(b"CONNECTED\n")
        # RabbitMQ knows no bob, and says so itself.
        answer = door.connect("bob", "geheim")
        assert answer.startswith(b"ERROR\n")
        assert b"access refused" not in answer

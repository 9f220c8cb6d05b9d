"""docs/browsers.md as it stands: its configuration, its commands and its program for the page, before a broker."""

import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e import stompjs
from tests.e2e.brokers import Broker
from tests.e2e.certificates import Authority
from tests.e2e.child import PATIENCE, Child
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection
from tests.e2e.relay import ROOT, Relay, relay, run

pytestmark = pytest.mark.e2e

PAGE = (ROOT / "docs" / "browsers.md").read_text(encoding="utf-8")
SCENE = (ROOT / "config" / "browsers.toml").read_text(encoding="utf-8")
IN_NODE = """
global.WebSocket = require("ws");
let given = 0;
global.fetch = async () => new Response((given += 1, process.argv[2]));
const { Client } = require("@stomp/stompjs");
"""
"""What a browser has, and Node has not; its own site gives this token."""


def blocks(language: str) -> list[str]:
    """What stands on the page in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


class Door(NamedTuple):
    """The relay of the page: it, its port, the token of alice, its folder, and who its certificate is of."""

    relay: Relay
    port: int
    token: str
    folder: Path
    authority: Authority

    def connection(self) -> Connection:
        """A connection that is no browser's."""
        return Connection.to(self.port, ssl.create_default_context(cafile=str(self.authority.file)))


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory, memory: Broker, authority: Authority) -> Iterator[Door]:
    """The page's steps, from its keys to a relay that runs."""
    folder, own = tmp_path_factory.mktemp("browsers"), authority.issue("relay")
    (folder / "relay.pem").write_bytes(own.certificate.read_bytes())
    (folder / "relay.key").write_bytes(own.key.read_bytes())
    (folder / "broker.passcode").write_text("x\n")
    [keys] = [each for each in blocks("sh") if "openssl ecparam" in each]
    subprocess.run(keys, shell=True, cwd=folder, check=True, capture_output=True, timeout=60)
    [program] = blocks("python")
    command = [sys.executable, "-c", program]
    made = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    port = free_port()
    text = SCENE.replace("tcp:61614", f"tcp:{port}:interface=127.0.0.1")
    text = text.replace("tcp:61680", f"tcp:{free_port()}")
    text = text.replace("broker.example.net:61613", f"127.0.0.1:{memory.port}")
    (folder / "browsers.toml").write_text(text)
    with relay(folder, text, [port]) as running:
        yield Door(running, port, made.stdout.strip(), folder, authority)


def test_the_page_has_the_file() -> None:
    """What `stomprelay config browsers.toml` prints, but for the words at its beginning."""
    assert blocks("toml") == [SCENE.partition("\n\n")[2]]


def program(door: Door, folder: Path, changes: dict[str, str]) -> Child:
    """Start the page's program in Node, with these changes."""
    [text] = blocks("js")
    text = text.replace('import { Client } from "@stomp/stompjs";\n', IN_NODE)
    text = text.replace("relay.example.net:61614", f"localhost:{door.port}")
    for old, new in changes.items():
        text = text.replace(old, new)
    (folder / "page.js").write_text(text)
    environment = {"NODE_PATH": str(stompjs.modules()), "NODE_EXTRA_CA_CERTS": str(door.authority.file)}
    return Child("page", ["node", str(folder / "page.js"), door.token], env=environment)


def test_the_program_of_the_page(tmp_path: Path, door: Door, memory: Broker) -> None:
    """It connects, has a message, and shows new tokens, on one connection; nobody tells it of a mistake."""
    start = len(door.relay.log)
    often = "setInterval(() => renew().then(() => console.log(given)), 50)"
    child = program(door, tmp_path, {"setInterval(renew, 300_000)": often})
    try:
        child.wait_for_output("^3$")
        with Connection.to(memory.port) as backend:
            backend.connect()
            backend.write(b"SEND\ndestination:/queue/inbox.alice\n\nhello alice\0")
            child.wait_for_output("^hello alice$")
    finally:
        child.stop()
    assert child.output.count("hello") == 1
    assert re.findall(r"(?:connected|error): ", door.relay.log[start:]) == ["connected: "]


def test_a_page_that_is_denied_something(tmp_path: Path, door: Door) -> None:
    """The page's program does not do it again: it disconnects for good, so Node has nothing more to do."""
    inbox = {"/queue/inbox.alice": "/queue/inbox.bob"}
    child = program(door, tmp_path, inbox | {"setInterval(renew, 300_000);": "client.reconnectDelay = 100;"})
    try:
        assert child.exited(within=PATIENCE), child.last_words
    finally:
        child.stop()
    assert child.output.count("not allowed") == 1


@pytest.mark.parametrize(
    ("frame", "answer"),
    [
        (b"SEND\ndestination:/queue/orders\nreceipt:1\n\nx\0", b"RECEIPT\nreceipt-id:1\n"),
        (b"SUBSCRIBE\nid:1\ndestination:/topic/news.sport\nreceipt:1\n\n\0", b"RECEIPT\nreceipt-id:1\n"),
        (b"SUBSCRIBE\nid:1\ndestination:/queue/inbox.bob\n\n\0", b"ERROR\nmessage:not allowed\n"),
        (b"SEND\ndestination:/topic/news.sport\n\nx\0", b"ERROR\nmessage:not allowed\n"),
    ],
)
def test_what_alice_may_do(door: Door, frame: bytes, answer: bytes) -> None:
    """Also by STOMP over TLS, on the same port: what the rules say, and nothing else."""
    with door.connection() as client:
        assert client.connect("1.2", "", door.token).startswith(b"CONNECTED\n")
        client.write(frame)
        assert client.frame().startswith(answer)


def test_pages_of_other_sites(door: Door) -> None:
    """They get no WebSocket, whatever their user has."""
    with door.connection() as client:
        client.write(
            b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Origin: https://other.example\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 403 ")
    door.relay.wait_for_log("HTTP 403: .* not among the origins")


def test_a_certificate_that_is_not_trusted(door: Door) -> None:
    """The relay's log has what the client said of it."""
    with pytest.raises(ssl.SSLCertVerificationError):
        Connection.to(door.port, ssl.create_default_context())
    door.relay.wait_for_log("browsers: .*unknown ca")


def test_the_check_of_the_page(door: Door) -> None:
    """Alice may have her inbox, by the rule that is meant."""
    [commands] = [each for each in blocks("sh") if "stomprelay check" in each]
    checks = [line for line in commands.splitlines() if line.startswith("stomprelay check")]
    assert len(checks) == 2
    said = [run(door.folder, sys.executable, "-m", *line.split()) for line in checks]
    assert [each.returncode for each in said] == [0, 0]
    assert "a user's own inbox" in said[1].stdout

"""How to reach a broker, and the connection of one leg."""

import asyncio
import re
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from stomprelay.config import address
from stomprelay.pipeline.stomp import sockets
from stomprelay.pipeline.stomp.relay_thread import RelayThread
from stomprelay.pipeline.stomp.sockets import ASKED, FULL, LegConnection, SocketAddress, Unreachable, endpoint
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.frame import Limits
from tests.e2e.certificates import Authority


def test_addresses_lead_to_hosts_and_sockets() -> None:
    """Whatever can be had without Twisted."""
    ways = {"tcp://a:7": SocketAddress("a", 7), "stomp://a": SocketAddress("a", 61613)}
    ways |= {
        "tcp://[::1]:7": SocketAddress("::1", 7),
        "unix:/run/stomp": SocketAddress("", path="/run/stomp"),
    }
    ways["tcp:a:7:bindAddress=127.0.0.2"] = SocketAddress("a", 7, bind="127.0.0.2")
    assert {said: sockets.plain_endpoint(address.broker(said)) for said in ways} == ways


def test_what_needs_twisted_or_the_relay_is_told() -> None:
    """Each with what to write in its place."""
    for said, told in (
        ("memory:", "give the address of that relay"),
        ("ws://a/ws", r"ws://a/ws is STOMP over WebSocket.*tcp://host:port"),
        ("tls:a:7", r"tls:a:7 is an endpoint that only Twisted knows.*ssl://host:port"),
        ("autobahn:tcp\\:a", "only Twisted knows"),
    ):
        with pytest.raises(Unreachable, match=told):
            sockets.plain_endpoint(address.broker(said))


def test_reasons_in_a_few_words() -> None:
    """Of the system, of the resolver, and of others."""
    refused = ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)")
    assert sockets.spell(refused) == "connection refused"
    assert sockets.spell(socket.gaierror(-2, "Name or service not known")) == "host name not found"
    assert sockets.spell(TimeoutError()) == "connection timed out"
    assert sockets.spell(ConnectionResetError(104, "x")) == "connection reset"
    assert sockets.spell(ValueError("A  b")) == "a b"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give an authority."""
    return Authority(tmp_path_factory.mktemp("endpoint"), "authority")


def served(authority: Authority) -> ssl.SSLContext:
    """What a broker has that the authority knows."""
    issued = authority.issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    return context


def shaken(server_context: ssl.SSLContext, way: SocketAddress) -> str:
    """Shake hands with a server; return what went wrong, or nothing."""

    def serve() -> None:
        plain, _ = listening.accept()
        with plain:
            plain.settimeout(30)
            try:
                with server_context.wrap_socket(plain, server_side=True) as made:
                    made.recv(1)
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening, Owner() as owner:
        thread = threading.Thread(target=serve)
        thread.start()
        owner.open(way._replace(port=listening.getsockname()[1]))
        owner.turn(lambda: bool(owner.told))
        assert owner.line is not None
        owner.close(How.ABORT)
        thread.join(30)
        return owner.told[0].removeprefix("refused: ").removeprefix("made")


def test_certificates_are_verified(authority: Authority, tmp_path: Path) -> None:
    """By authority and by name; a folder of certificates is as good as a file."""
    context = served(authority)
    broker = address.broker("ssl://localhost:1")
    trusted = ClientTLS(ca=str(authority.file))
    assert shaken(context, endpoint(broker, trusted)) == ""
    (tmp_path / "a.pem").write_bytes(Path(authority.file).read_bytes())
    assert shaken(context, endpoint(broker, ClientTLS(ca=str(tmp_path)))) == ""
    told = shaken(context, endpoint(broker, ClientTLS(ca=str(authority.file), name="other.example")))
    assert re.search("certificate verify failed: .*other.example", told)
    assert "certificate verify failed" in shaken(context, endpoint(broker, ClientTLS()))


def test_files_that_cannot_be_used_are_told(authority: Authority, tmp_path: Path) -> None:
    """By option and path; a passphrase is never asked for."""
    broker = address.broker("ssl://localhost:1")
    (tmp_path / "nonsense").write_text("x")
    (tmp_path / "empty").mkdir()
    issued = authority.issue("client")
    for tls, text in (
        (ClientTLS(ca=str(tmp_path / "absent")), "tls.ca: .*absent: No such file"),
        (ClientTLS(ca=str(tmp_path / "nonsense")), "tls.ca: .*nonsense: TLS: "),
        (ClientTLS(ca=str(tmp_path / "empty")), "tls.ca: .*empty: no .pem file in it"),
        (ClientTLS(certificate=str(tmp_path / "absent"), key="x"), "tls.certificate: .*absent: No such file"),
    ):
        with pytest.raises(Unreachable, match=text):
            endpoint(broker, tls)
    given = ClientTLS(certificate=str(issued.certificate), key=str(issued.key))
    assert endpoint(broker, given).tls is not None


def test_a_peer_without_tls_is_told(owner: "Owner") -> None:
    """Instead of OpenSSL's riddle."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner.open(endpoint(address.broker(f"ssl://127.0.0.1:{server.getsockname()[1]}"), ClientTLS()))
        owner.turn(lambda: is_ready(server))
        with server.accept()[0] as peer:
            peer.sendall(b"ERROR\nmessage:no\n\n\0")
            owner.turn(lambda: bool(owner.told))
    assert owner.told[0].startswith("refused: TLS: ")


def test_a_handshake_has_its_time(owner: "Owner") -> None:
    """A peer that says nothing is as good as none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        owner.open(endpoint(address.broker(f"ssl://127.0.0.1:{server.getsockname()[1]}"), ClientTLS()), 0.05)
        owner.turn(lambda: bool(owner.told))
    assert owner.told == ["refused: connection timed out"]


def is_ready(sock: socket.socket) -> bool:
    """Tell whether there is something to accept."""
    return bool(select.select([sock], [], [], 0)[0])


class Owner(RelayThread):
    """Has a loop for one line and notes what it is told."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.told: list[str] = []
        self.data = b""
        self.line: LegConnection | None = None
        self.attempt: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.line is not None and "gone" not in self.told and self.close(How.ABORT):
            self.turn(lambda: "gone" in self.told)
        self.loop.close()

    def open(self, way: SocketAddress, within: float = 30) -> LegConnection:
        """Begin to connect a line."""
        line = self.line = LegConnection(self, Leg(Side.UPSTREAM, Limits()))

        async def opened() -> None:
            try:
                await line.open(way, within)
            except (OSError, ValueError) as error:
                self.told.append(f"refused: {sockets.spell(error)}")

        self.attempt = self.loop.create_task(opened())
        return line

    def close(self, how: How) -> bool:
        """Close the line, in the loop."""

        async def closed() -> bool:
            return self.line is not None and self.line.close(how)

        return self.loop.run_until_complete(closed())

    def made(self, leg: Leg) -> None:
        self.told.append("made")

    def received(self, leg: Leg, data: bytes) -> None:
        self.data += data

    def drained(self) -> None:
        self.told.append("drained")

    def lost(self, leg: Leg, reason: str) -> None:
        self.told.append(f"lost: {reason}")

    def gone(self, connection: LegConnection) -> None:
        self.told.append("gone")

    def turn(self, reached: Callable[[], bool]) -> None:
        """Work until something is so."""
        deadline = time.monotonic() + 30
        while not reached():
            assert time.monotonic() < deadline, self.told
            self.loop.run_until_complete(asyncio.sleep(0.001))


@pytest.fixture
def owner() -> Iterator[Owner]:
    """Give an owner of one line."""
    with Owner() as made:
        yield made


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Give somebody who listens."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(30)
        yield made


def opened(
    owner: Owner, server: socket.socket, way: SocketAddress | None = None
) -> tuple[LegConnection, socket.socket]:
    """Connect a line; return it and its peer."""
    way = way or SocketAddress("127.0.0.1")
    line = owner.open(way._replace(port=server.getsockname()[1]))
    owner.turn(lambda: is_ready(server))
    peer, _ = server.accept()
    peer.settimeout(30)
    if way.tls is None:
        owner.turn(lambda: owner.told == ["made"])
    return line, peer


def read(owner: Owner, peer: socket.socket, count: int) -> bytes:
    """Read so much, or up to the end, while the loop works."""
    got = b""
    ended = False

    def done() -> bool:
        nonlocal got, ended
        peer.setblocking(False)
        try:
            data = peer.recv(1 << 20)
            got, ended = got + data, not data
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        return ended or len(got) >= count

    owner.turn(done)
    return got


def test_what_cannot_be_written_waits(owner: Owner, server: socket.socket) -> None:
    """The line is full until a good part of it is gone."""
    line, peer = opened(owner, server)
    with peer:
        size = 0
        while not line.full:
            line.write(b"x" * FULL)
            size += FULL
        assert len(read(owner, peer, size)) == size
        owner.turn(lambda: not line.full)
        assert owner.told == ["made", "drained"]


def test_what_was_said_before_a_write_failed_is_heard(owner: Owner, server: socket.socket) -> None:
    """The reason why a broker hung up, as a rule."""
    line, peer = opened(owner, server)
    peer.sendall(b"ERROR")
    peer.close()
    for _ in range(3):  # the loop does not work: nothing is read before
        line.write(b"x")
        time.sleep(0.01)
    owner.turn(lambda: "gone" in owner.told)
    assert owner.data == b"ERROR"
    assert re.fullmatch("lost: (broken pipe|connection reset)", owner.told[1])


def test_a_peer_that_does_not_close_is_left(
    owner: Owner, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the time has come."""
    monkeypatch.setattr(sockets, "LINGER", 0.01)
    _, peer = opened(owner, server)
    with peer:
        owner.close(How.LINGER)
        owner.turn(lambda: owner.told == ["made", "gone"])


def test_tls_is_read_to_the_end(owner: Owner, server: socket.socket, authority: Authority) -> None:
    """All of it, also after a pause; and all that is written goes out before the end."""
    context = served(authority)
    way = endpoint(address.broker("ssl://localhost:1"), ClientTLS(ca=str(authority.file)))
    line, plain = opened(owner, server, way._replace(host="127.0.0.1"))
    with context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) as peer:
        peer.setblocking(False)
        owner.turn(lambda: shook(peer))
        peer.setblocking(True)
        peer.sendall(b"x" * 100_000)
        owner.turn(lambda: len(owner.data) == 100_000)
        line.hold(ASKED)
        peer.sendall(b"y" * 10)
        line.release(ASKED)
        owner.turn(lambda: len(owner.data) == 100_010)
        line.write(b"z" * 100_000)
        owner.close(How.FLUSH)
        assert len(read(owner, peer, 100_001)) == 100_000
    owner.turn(lambda: "gone" in owner.told)


def shook(peer: ssl.SSLSocket) -> bool:
    """Go on with a handshake; tell whether it is done."""
    try:
        peer.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True

"""How to reach a broker, and the connection of one leg."""

import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from selectors import BaseSelector, DefaultSelector

import pytest

from stomprelay.config import address
from stomprelay.pipeline.stomp.sockets import (
    ASKED,
    FULL,
    PRESSURE,
    Endpoint,
    LegSocket,
    Unreachable,
    endpoint,
    plain_endpoint,
    spell,
)
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.head import Limits
from tests.e2e.certificates import Authority


def test_addresses_lead_to_hosts_and_sockets() -> None:
    """Whatever can be had without Twisted."""
    assert plain_endpoint(address.broker("tcp://a:7")) == Endpoint("a", 7)
    assert plain_endpoint(address.broker("stomp://a")) == Endpoint("a", 61613)
    assert plain_endpoint(address.broker("tcp://[::1]:7")) == Endpoint("::1", 7)
    assert plain_endpoint(address.broker("tcp:a:7:bindAddress=127.0.0.2")) == Endpoint(
        "a", 7, bind="127.0.0.2"
    )
    assert plain_endpoint(address.broker("unix:/run/stomp")) == Endpoint("", path="/run/stomp")


def test_what_needs_twisted_or_the_relay_is_told() -> None:
    """Each with what to write in its place."""
    with pytest.raises(Unreachable, match="give the address of that relay"):
        plain_endpoint(address.broker("memory:"))
    with pytest.raises(Unreachable, match=r"ws://a/ws is STOMP over WebSocket.*tcp://host:port"):
        plain_endpoint(address.broker("ws://a/ws"))
    with pytest.raises(Unreachable, match=r"tls:a:7 is an endpoint that only Twisted knows.*ssl://host:port"):
        plain_endpoint(address.broker("tls:a:7"))
    with pytest.raises(Unreachable, match="only Twisted knows"):
        plain_endpoint(address.broker("autobahn:tcp\\:a"))


def test_a_connection_does_not_block(tmp_path: Path) -> None:
    """By name, by address, and by the path of a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with Endpoint(host, port).connect(30) as made, server.accept()[0] as peer:
                assert made.gettimeout() == 0
                peer.sendall(b"x")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        Endpoint("", path=str(tmp_path / "s")).connect(30).close()


def test_what_cannot_be_had_is_an_error() -> None:
    """In a few given."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused") as caught:
            Endpoint("127.0.0.1", taken.getsockname()[1]).connect(30)
    assert spell(caught.value) == "connection refused"
    assert spell(socket.gaierror(-2, "Name or service not known")) == "host name not found"
    assert spell(TimeoutError()) == "connection timed out"
    assert spell(ConnectionResetError(104, "x")) == "connection reset"
    assert spell(ValueError("A  b")) == "a b"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give an authority."""
    return Authority(tmp_path_factory.mktemp("endpoint"), "authority")


def shaken(server_context: ssl.SSLContext, way: Endpoint) -> str:
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

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with way._replace(port=listening.getsockname()[1]).connect(30) as made:
                return "" if isinstance(made, ssl.SSLSocket) else "no TLS"
        except OSError as error:
            return spell(error)
        finally:
            thread.join(30)


def test_certificates_are_verified(authority: Authority, tmp_path: Path) -> None:
    """By authority and by name; a folder of certificates is as good as a file."""
    issued = authority.issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
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
    assert (
        endpoint(broker, ClientTLS(certificate=str(issued.certificate), key=str(issued.key))).tls is not None
    )


def test_a_peer_without_tls_is_told() -> None:
    """Instead of OpenSSL's riddle."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        way = endpoint(address.broker(f"ssl://127.0.0.1:{server.getsockname()[1]}"), ClientTLS())

        def answer() -> None:
            with server.accept()[0] as peer:
                peer.sendall(b"ERROR\nmessage:no\n\n\0")
                peer.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(OSError, match=r"(?i)wrong.version|record|unexpected|eof") as caught:
            way.connect(30)
        thread.join(30)
    assert spell(caught.value).startswith("TLS: ")


class Owner:
    """Turns its selector for one line and notes what it is told."""

    def __init__(self) -> None:
        self.selector: BaseSelector = DefaultSelector()
        self.told: list[str] = []
        self.data = b""
        self.work: deque[Callable[[], None]] = deque()
        self.line: LegSocket | None = None

    def soon(self, what: Callable[[], None]) -> None:
        self.work.append(what)

    def made(self, line: LegSocket) -> None:
        self.told.append("made")

    def received(self, line: LegSocket, data: bytes) -> None:
        self.data += data

    def refused(self, line: LegSocket, reason: str) -> None:
        self.told.append(f"refused: {reason}")

    def lost(self, line: LegSocket, reason: str) -> None:
        self.told.append(f"lost: {reason}")

    def held(self, line: LegSocket, on: bool) -> None:
        self.told.append("held" if on else "released")

    def gone(self, line: LegSocket) -> None:
        self.told.append("gone")

    def turn(self, reached: Callable[[], bool]) -> None:
        """Work until something is so."""
        deadline = time.monotonic() + 30
        while not reached():
            assert time.monotonic() < deadline, self.told
            while self.work:
                self.work.popleft()()
            for key, mask in self.selector.select(0.01):
                key.data.ready(mask)
            if self.line is not None and self.line.eager:
                self.line.ready(1)


@pytest.fixture
def owner() -> Iterator[Owner]:
    """Give an owner of one line."""
    made = Owner()
    yield made
    if made.line is not None:
        made.line.close(How.ABORT, 0)
        while made.work:
            made.work.popleft()()
    made.selector.close()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Give somebody who listens."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(30)
        yield made


def opened(
    owner: Owner, server: socket.socket, way: Endpoint | None = None
) -> tuple[LegSocket, socket.socket]:
    """Connect a line; return it and its peer."""
    way = way or Endpoint("127.0.0.1")
    line = owner.line = LegSocket(
        owner, Leg(Side.UPSTREAM, Limits()), way._replace(port=server.getsockname()[1])
    )
    line.open(30)
    peer, _ = server.accept()
    peer.settimeout(30)
    if way.tls is None:
        owner.turn(lambda: owner.told == ["made"])
    return line, peer


def test_octets_pass_both_ways(owner: Owner, server: socket.socket) -> None:
    """In their order."""
    line, peer = opened(owner, server)
    with peer:
        line.write(b"hello ")
        line.write(b"there")
        assert peer.recv(11, socket.MSG_WAITALL) == b"hello there"
        peer.sendall(b"answer")
        owner.turn(lambda: owner.data == b"answer")


def test_what_cannot_be_written_waits(owner: Owner, server: socket.socket) -> None:
    """The line is full until a good part of it is gone."""
    line, peer = opened(owner, server)
    with peer:
        size = 0
        while not line.full:
            line.write(b"x" * FULL)
            size += FULL
        got = 0

        def read() -> bool:
            nonlocal got
            peer.setblocking(False)
            try:
                got += len(peer.recv(1 << 20))
            except BlockingIOError:
                pass
            return got == size

        owner.turn(read)
        assert not line.full


def test_a_held_line_is_not_read_from(owner: Owner, server: socket.socket) -> None:
    """While there is any reason not to; its owner hears of the first and of the last."""
    line, peer = opened(owner, server)
    with peer:
        line.hold(ASKED)
        line.hold(PRESSURE)
        peer.sendall(b"x")
        line.release(ASKED)
        for key, mask in owner.selector.select(0.1):
            key.data.ready(mask)
        assert owner.data == b""
        line.release(PRESSURE)
        owner.turn(lambda: owner.data == b"x")
        assert owner.told == ["made", "held", "released"]


def test_a_peer_that_closes_is_lost(owner: Owner, server: socket.socket) -> None:
    """After what it still said."""
    _, peer = opened(owner, server)
    with peer:
        peer.sendall(b"last given")
    owner.turn(lambda: owner.told == ["made", "lost: connection closed"])
    assert owner.data == b"last given"


def test_nobody_there_is_a_refusal(owner: Owner) -> None:
    """Told in the owner's own turn."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        owner.line = LegSocket(
            owner, Leg(Side.UPSTREAM, Limits()), Endpoint("127.0.0.1", taken.getsockname()[1])
        )
        owner.line.open(30)
        owner.turn(lambda: owner.told == ["refused: connection refused"])


def test_a_line_is_closed_when_all_is_written(owner: Owner, server: socket.socket) -> None:
    """The peer gets everything, and what it still says is for nobody."""
    line, peer = opened(owner, server)
    with peer:
        line.write(b"x" * 1_000_000)
        line.close(How.FLUSH, 5.0)
        assert line.deadline == 7.0
        peer.sendall(b"too late")
        got = b""

        def read() -> bool:
            nonlocal got
            peer.setblocking(False)
            try:
                data = peer.recv(1 << 20)
            except BlockingIOError:
                return False
            got += data
            return not data

        owner.turn(read)
        assert len(got) == 1_000_000
    owner.turn(lambda: "gone" in owner.told)
    assert owner.data == b""


def test_a_peer_that_does_not_close_is_left(owner: Owner, server: socket.socket) -> None:
    """When the time has come."""
    line, peer = opened(owner, server)
    with peer:
        line.close(How.LINGER, 5.0)
        line.late()
        assert owner.told == ["made", "gone"]


def test_a_line_that_takes_its_time_can_be_aborted(owner: Owner, server: socket.socket) -> None:
    """Whoever ends for good leaves no socket open."""
    line, peer = opened(owner, server)
    with peer:
        line.close(How.FLUSH, 5.0)
        line.close(How.ABORT, 5.0)
        line.close(How.ABORT, 5.0)
        assert owner.told == ["made", "gone"]


def test_an_aborted_line_is_reset(owner: Owner, server: socket.socket) -> None:
    """Nobody waits for anything."""
    line, peer = opened(owner, server)
    with peer:
        line.close(How.ABORT, 5.0)
        assert owner.told == ["made", "gone"]
        with pytest.raises(ConnectionResetError):
            peer.recv(1)
    line.write(b"x")
    line.close(How.ABORT, 5.0)
    assert owner.told == ["made", "gone"]


def test_a_line_may_be_closed_before_it_is_there(owner: Owner, server: socket.socket) -> None:
    """What comes of the attempt is thrown away."""
    line = LegSocket(owner, Leg(Side.UPSTREAM, Limits()), Endpoint("127.0.0.1", server.getsockname()[1]))
    line.open(30)
    line.close(How.ABORT, 5.0)
    owner.turn(lambda: owner.told == ["gone"])
    peer, _ = server.accept()
    with peer:
        assert peer.recv(1) == b""


def test_tls_is_read_to_the_end(owner: Owner, server: socket.socket, tmp_path: Path) -> None:
    """What TLS has read ahead is not seen by the selector, and comes all the same, also after a pause."""
    authority = Authority(tmp_path, "authority")
    issued = authority.issue("broker")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    way = endpoint(address.broker("ssl://localhost:1"), ClientTLS(ca=str(authority.file)))
    line, plain = opened(owner, server, way._replace(host="127.0.0.1"))
    with context.wrap_socket(plain, server_side=True) as peer:
        peer.sendall(b"x" * 100_000)
        owner.turn(lambda: len(owner.data) == 100_000)
        line.hold(ASKED)
        peer.sendall(b"y" * 10)
        line.release(ASKED)
        owner.turn(lambda: len(owner.data) == 100_010)
        line.write(b"z" * 100_000)
        peer.setblocking(True)
        got = b""
        while len(got) < 100_000:
            owner.turn(lambda: True)
            got += peer.recv(100_000)
        line.close(How.FLUSH, 0.0)
        assert peer.recv(1) == b""
    owner.turn(lambda: "gone" in owner.told)

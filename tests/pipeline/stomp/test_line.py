"""The connection of one leg."""

import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from selectors import BaseSelector, DefaultSelector

import pytest

from stomprelay.config import address
from stomprelay.pipeline.stomp.sockets import ASKED, FULL, PRESSURE, Endpoint, LegSocket, endpoint
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits
from tests.e2e.certificates import Authority


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

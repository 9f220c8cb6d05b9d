"""Writing at once: what the socket takes is sent, what it does not is queued, and nothing overtakes."""

import select
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet import tcp, unix
from twisted.internet.error import ConnectionDone
from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.protocol import Protocol
from twisted.internet.testing import MemoryReactor
from twisted.python.failure import Failure

from stomprelay.service.connection import protocol as direct
from stomprelay.service.connection.protocol import COMPILED
from stomprelay.service.network.sockets import Socket
from tests.service.sockets import socket_pair
from tests.service.test_sockets import Whole


class Ends:
    """A connection, of Twisted's or of ours, on a reactor that does nothing, and the peer's plain socket."""

    def __init__(self, *, ours_own: bool = False) -> None:
        self.peer, ours = socket_pair()
        address = ours.getpeername()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        self.peer.settimeout(5)
        self.reactor: Any = MemoryReactor()
        self.connection: tcp.Connection = (
            Socket(ours, Protocol(), address, self.reactor)
            if ours_own
            else tcp.Server(ours, Protocol(), address, None, 0, self.reactor)  # type: ignore[arg-type]
        )

    @property
    def waiting(self) -> Any:  # not bool, for it changes between two looks
        """Whether the reactor was asked to tell when the socket can be written to."""
        return self.connection in self.reactor.getWriters()

    def received(self, count: int) -> bytes:
        """What the peer receives, while the reactor does its part."""
        data = b""
        while len(data) < count:
            writers = [self.connection] if self.waiting else []
            readable, writable, _ = select.select([self.peer], writers, [], 5)
            assert readable or writable, len(data)
            if readable:
                data += self.peer.recv(65536)
            if writable:
                assert self.connection.doWrite() is None
        return data

    def close(self) -> None:
        self.peer.close()
        if hasattr(self.connection, "socket"):
            self.connection.socket.close()


@pytest.fixture(params=["python", "compiled"], autouse=True)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function in Python, and the compiled one: they do the same."""
    if request.param == "python":
        monkeypatch.setattr(direct, "send", direct.send_in_python)
    elif COMPILED is None:
        pytest.skip("it is not compiled here")


@pytest.fixture(params=["Twisted's", "ours"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """A connection, closed after the test."""
    ends = Ends(ours_own=request.param == "ours")
    yield ends
    ends.close()


def test_nothing_overtakes_what_is_queued(ends: Ends) -> None:
    """Part of it went at once, the rest goes when there is room; what comes meanwhile is put behind it, room or not."""
    data = bytes(range(256)) * 20_000
    direct.send(ends.connection, data)
    assert ends.waiting
    assert 0 < len(ends.connection.dataBuffer) + ends.connection._tempDataLen < len(data)
    first = ends.peer.recv(65536)
    direct.send(ends.connection, b"after")
    direct.send(ends.connection, b"wards")
    assert first + ends.received(len(data) + 10 - len(first)) == data + b"afterwards"
    assert not ends.waiting
    direct.send(ends.connection, b"now")
    assert ends.peer.recv(100) == b"now"


def test_an_error_is_left_to_the_reactor(ends: Ends) -> None:
    """Nothing is raised; the reactor finds the broken connection when it writes what was queued."""
    ends.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ends.peer.close()
    direct.send(ends.connection, b"hello")
    direct.send(ends.connection, b"hello")
    assert ends.waiting
    assert ends.connection.doWrite() is CONNECTION_LOST


@pytest.mark.parametrize("waits", [b"", b"queued"])
def test_a_connection_is_closed_when_all_is_written(ends: Ends, waits: bytes) -> None:
    """At once where nothing waits; otherwise as Twisted does it."""
    ended = Whole()
    ends.connection.protocol = ended
    if waits:
        ends.connection.write(waits)
    direct.close_when_written(ends.connection)
    assert (ended.told == []) == bool(waits)
    if waits:
        assert ends.connection.doWrite() is CONNECTION_DONE
        ends.connection.connectionLost(Failure(CONNECTION_DONE))
    assert ended.told == [ConnectionDone]
    assert not ends.reactor.getReaders()
    assert not ends.waiting
    assert ends.peer.recv(100) == waits
    assert ends.peer.recv(100) == b""


@pytest.mark.parametrize("kind", sorted(direct.PLAIN, key=repr))
def test_twisted_is_as_we_know_it(kind: type[tcp.Connection]) -> None:
    """The attributes that direct writing relies on; where this fails, `send` needs another look."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection: Any = object.__new__(kind)
        tcp.Connection.__init__(connection, ours, Protocol(), MemoryReactor())
        if isinstance(connection, (unix.Server, unix.Client)):
            connection._sendmsgQueue = []
        assert connection.connected == 0
        assert connection.TLS is False
        assert connection.dataBuffer == b""
        assert connection._tempDataBuffer == []
        assert connection.socket is ours
        connection.connected = 1
        connection.write(b"queued")
        assert connection._tempDataBuffer == [b"queued"]
        assert connection._isSendBufferFull() is False
        connection.bufferSize = 5
        assert connection._isSendBufferFull() is True
        assert connection.doWrite() is None
        assert theirs.recv(100) == b"queued"
        assert connection.dataBuffer == b""
        assert connection._tempDataBuffer == []
        connection.connected = 0

"""The way to the embedded broker: a pair of sockets, joined in the reactor's next turn."""

import os
import socket
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import CancelledError
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock

from stomprelay.service.memory import MemoryEndpoint, join
from tests.service.sockets import reactor
from tests.service.talker import Talker


class Keeper(Factory):
    """Keeps the protocols that it built; builds none when `closed`."""

    noisy = False

    def __init__(self, *, closed: bool = False) -> None:
        self.built: list[Talker] = []
        self.closed = closed

    def buildProtocol(self, addr: object) -> Any:
        if self.closed:
            return None
        self.built.append(Talker())
        return self.built[-1]


@pytest_twisted.ensureDeferred
async def test_octets_go_both_ways() -> None:
    """More than the kernel's buffers hold: the rest waits, and arrives in order."""
    inside, outside = Keeper(), Keeper()
    client = await MemoryEndpoint(reactor, inside).connect(outside)
    (broker,) = inside.built
    assert outside.built == [client]
    assert isinstance(client, Talker)
    data = bytes(range(256)) * 4096
    client.transport.write(data + b"end")
    assert await broker.hears(b"end") == data + b"end"
    broker.transport.write(b"thanks!")
    assert await client.hears(b"!") == b"thanks!"
    client.transport.loseConnection()
    await broker.ended()
    broker.transport.loseConnection()
    await client.gone()
    await broker.gone()


@pytest.mark.parametrize("first", ["client", "broker"])
@pytest_twisted.ensureDeferred
async def test_the_end_of_either_side_is_the_end_of_the_other(first: str) -> None:
    """As it is with any connection; what was said before arrives."""
    inside = Keeper()
    client = await MemoryEndpoint(reactor, inside).connect(Keeper())
    assert isinstance(client, Talker)
    (broker,) = inside.built
    one, other = (client, broker) if first == "client" else (broker, client)
    one.transport.write(b"farewell")
    one.transport.loseConnection()
    assert await other.ended() == b"farewell"
    other.transport.loseConnection()
    await one.gone()
    await other.gone()


@pytest_twisted.ensureDeferred
async def test_a_broker_that_takes_nobody_closes_the_connection() -> None:
    """So does every server that is stopping: the client is connected, and then is not."""
    client = await MemoryEndpoint(reactor, Keeper(closed=True)).connect(Keeper())
    assert isinstance(client, Talker)
    assert await client.ended() == b""
    client.transport.loseConnection()
    await client.gone()


def test_nothing_is_joined_before_the_next_turn() -> None:
    """Whoever connects has its answer before it hears of anything."""
    memory = MemoryReactorClock()
    joining = MemoryEndpoint(memory, Keeper()).connect(Keeper())
    assert not joining.called
    assert memory.adoptedStreamConnections == []
    assert [call.getTime() for call in memory.getDelayedCalls()] == [0.0]


def test_an_attempt_that_was_cancelled_joins_nobody() -> None:
    """It fails as cancelled, and nothing is left of it."""
    memory = MemoryReactorClock()
    connected = MemoryEndpoint(memory, Keeper()).connect(Keeper())
    failures: list[Any] = []
    connected.addErrback(failures.append)
    connected.cancel()
    assert failures[0].check(CancelledError)
    assert memory.getDelayedCalls() == []
    memory.advance(1)
    assert memory.adoptedStreamConnections == []


def test_no_sockets_left_is_a_failure_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is told so, and the reactor is not disturbed."""

    def exhausted() -> None:
        raise OSError(24, "Too many open files")

    memory = MemoryReactorClock()
    connected = MemoryEndpoint(memory, Keeper()).connect(Keeper())
    failures: list[Any] = []
    connected.addErrback(failures.append)
    monkeypatch.setattr(socket, "socketpair", exhausted)
    memory.advance(0)
    assert failures[0].check(OSError)
    assert "Too many open files" in failures[0].getErrorMessage()


def test_our_own_ends_are_closed_once_the_reactor_has_its_own() -> None:
    """Each connection costs two descriptors, not four."""
    memory = MemoryReactorClock()
    inside, outside = Keeper(), Keeper()
    join(memory, inside, outside)
    (first, family, factory), (second, other_family, other_factory) = memory.adoptedStreamConnections
    assert family == other_family == socket.AF_UNIX
    assert [factory, other_factory] == [inside, outside]
    for descriptor in (first, second):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_our_own_ends_are_closed_when_the_reactor_cannot_take_them() -> None:
    """Nothing leaks on the way to the error."""
    offered: list[int] = []

    class Full(MemoryReactorClock):
        def adoptStreamConnection(self, fileDescriptor: int, addressFamily: int, factory: Any) -> None:  # noqa: N802, N803
            offered.append(fileDescriptor)
            raise OSError(24, "Too many open files")

    with pytest.raises(OSError, match="Too many open files"):
        join(Full(), Keeper(), Keeper())
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(offered[0])

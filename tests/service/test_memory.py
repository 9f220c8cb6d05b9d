"""The way to the embedded broker, on the real reactor."""

import socket
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import error, reactor
from twisted.internet.testing import MemoryReactorClock

from stomprelay.service.embedded import MemoryEndpoint
from tests.service.talker import Accepting, Talker


@pytest_twisted.ensureDeferred
async def test_both_ends_talk() -> None:
    """What one says the other hears, more than a socket holds; and the end of one is the other's end."""
    broker, client = Accepting(), Accepting()
    ours: Any = await MemoryEndpoint(reactor, broker).connect(client)
    theirs: Talker = await broker.accepted.get()
    assert ours is await client.accepted.get()
    data = bytes(range(256)) * 20_000
    ours.transport.write(data)
    assert await theirs.hears_all(len(data)) == data
    theirs.transport.write(data)
    assert await ours.hears_all(len(data)) == data
    theirs.transport.loseConnection()
    await ours.gone()
    await theirs.gone()


@pytest_twisted.ensureDeferred
async def test_a_slow_reader_stops_the_writer() -> None:
    """The kernel holds little between the two, and a producer hears of it."""
    broker = Accepting()
    ours: Any = await MemoryEndpoint(reactor, broker).connect(Accepting())
    theirs: Talker = await broker.accepted.get()
    theirs.transport.pauseProducing()
    ours.transport.write(b"x" * 1_000_000)
    assert ours.transport._isSendBufferFull()
    theirs.transport.resumeProducing()
    await theirs.hears_all(1_000_000)
    ours.transport.loseConnection()
    await theirs.gone()


def test_nothing_happens_before_the_next_turn() -> None:
    """The caller is not called back while it connects; until then the attempt can be given up."""
    clock: Any = MemoryReactorClock()
    attempt: Any = MemoryEndpoint(clock, Accepting()).connect(Accepting())
    assert len(clock.getDelayedCalls()) == 1
    failures: list[Any] = []
    attempt.addErrback(failures.append)
    attempt.cancel()
    assert clock.getDelayedCalls() == []
    assert len(failures) == 1


def test_no_sockets_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt fails, as one over the network would."""

    def none() -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", none)
    clock: Any = MemoryReactorClock()
    failures: list[Any] = []
    _ = MemoryEndpoint(clock, Accepting()).connect(Accepting()).addErrback(failures.append)
    clock.advance(0)
    assert failures[0].check(OSError)


@pytest_twisted.ensureDeferred
async def test_a_broker_that_takes_nobody() -> None:
    """It stops: the client is connected, and at once not any more."""

    class Closed(Accepting):
        def buildProtocol(self, addr: object) -> Any:
            return None

    client = Accepting()
    await MemoryEndpoint(reactor, Closed()).connect(client)
    ours: Talker = await client.accepted.get()
    await ours.gone()
    assert ours.reason.check(error.ConnectionDone, error.ConnectionLost)

"""One leg's connection: what its driver is told, and how it ends."""

import gc
import weakref

import pytest
from twisted.internet import error

from stomprelay.service.connection.failures import ASKED, PRESSURE
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.session.effects import How
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.frame import Limits
from tests.service.harness import FakeTransport
from tests.service.scripted import DriverHarness

CLIENT, BROKER = Side.DOWNSTREAM, Side.UPSTREAM


@pytest.fixture
def harness() -> DriverHarness:
    """A connected client."""
    harness = DriverHarness()
    assert harness.said() == [("connected", CLIENT)]
    return harness


def test_a_connection_that_is_lost(harness: DriverHarness) -> None:
    """Recorded with a reason; then the leg is closed, and nothing of it is kept."""
    harness.transport.disconnects(error.ConnectionLost())
    assert harness.said() == [("lost", CLIENT, "connection reset")]
    assert harness.over == [harness.driver]
    assert harness.runtime.protocols == {}
    assert harness.runtime.sockets == 0
    assert harness.protocol.peer == harness.transport.getPeer()


def test_a_client_that_closes_its_direction(harness: DriverHarness) -> None:
    """It may still read: what becomes of its connection is the core's to decide, and nobody stops its reading."""
    harness.protocol.readConnectionLost()
    harness.protocol.readConnectionLost()
    assert harness.said() == [("half closed", CLIENT)]
    harness.protocol.hold(PRESSURE)
    harness.protocol.release(PRESSURE)
    assert (harness.said(), harness.transport.ends) == ([], [])
    harness.protocol.write(b"answer")
    harness.transport.disconnects(error.ConnectionLost())
    assert harness.said() == [("lost", CLIENT, "connection closed")]


def test_a_client_that_was_held_when_it_closed_its_direction(harness: DriverHarness) -> None:
    """That it is read from again is nothing that the core has to know: there is nothing to read."""
    harness.protocol.hold(ASKED)
    harness.said()
    harness.protocol.readConnectionLost()
    harness.protocol.release(ASKED)
    assert harness.said() == [("half closed", CLIENT)]


@pytest.mark.parametrize("ended", [False, True])
def test_a_broker_that_closes_its_direction(monkeypatch: pytest.MonkeyPatch, ended: bool) -> None:
    """It is lost: it will answer nothing. What is queued for it is written before the connection ends, and the peer,
    which has closed already, is not waited for, though its core ends the leg as any other.
    """
    harness = DriverHarness()
    protocol = LegProtocol(harness.driver, Leg(Side.UPSTREAM, Limits()))
    transport = FakeTransport(protocol)
    protocol.makeConnection(transport)
    harness.said()
    if ended:
        monkeypatch.setattr(harness.driver, "lost", lambda protocol, reason: protocol.close(How.LINGER))
    protocol.readConnectionLost()
    assert harness.said() == ([] if ended else [("lost", Side.UPSTREAM, "connection closed")])
    assert transport.ends == ["flush"]
    transport.disconnects()
    assert harness.said() == []
    assert harness.clock.getDelayedCalls() == []


@pytest.mark.parametrize("how", [How.FLUSH, How.LINGER])
def test_a_closed_connection_is_read_and_thrown_away(harness: DriverHarness, how: How) -> None:
    """Whatever stood against reading: the peer's end has to be seen."""
    harness.protocol.hold(PRESSURE)
    harness.said()
    harness.protocol.close(how)
    assert harness.transport.reading
    harness.transport.sends(b"x")
    assert harness.said() == []


@pytest.mark.parametrize("flushed", [True, False])
def test_a_peer_that_does_not_close(harness: DriverHarness, flushed: bool) -> None:
    """After the time to linger it is closed without it: in order when all was sent, else at once."""
    harness.protocol.close(How.LINGER)
    if flushed:
        harness.protocol.writeConnectionLost()
    harness.clock.advance(1.9)
    assert harness.transport.ends == ["half"]
    harness.clock.advance(0.1)
    assert harness.transport.ends == ["half", "flush" if flushed else "abort"]
    harness.transport.disconnects()
    assert harness.clock.getDelayedCalls() == []


def test_a_connection_that_comes_too_late(harness: DriverHarness) -> None:
    """Where an attempt cannot be cancelled any more, what comes of it is dropped, as is what was to be written."""
    protocol = LegProtocol(harness.driver, Leg(BROKER, Limits()))
    protocol.write(b"x")
    protocol.close(How.FLUSH)
    transport = FakeTransport(protocol)
    protocol.makeConnection(transport)
    assert transport.ends == ["abort"]
    transport.disconnects()
    assert harness.said() == []
    assert harness.runtime.sockets == 1


def test_a_lost_connection_is_freed_at_once() -> None:
    """Nothing of it waits for the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        harness = DriverHarness()
        harness.transport.sends(b"x")
        seen = weakref.finalize(harness.transport, int)
        driver = weakref.finalize(harness.driver, int)
        harness.transport.disconnects()
        harness.over.clear()
        harness.transport.protocol = None
        del harness
        assert not seen.alive
        assert not driver.alive
    finally:
        gc.enable()

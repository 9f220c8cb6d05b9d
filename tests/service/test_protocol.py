"""One leg's connection: what its driver is told, when it is read from, how it ends, and each effect on it."""

import gc
import weakref

import pytest
from twisted.internet import error
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from stomprelay.service.connection.failures import ASKED, PRESSURE
from stomprelay.service.connection.protocol import LegProtocol
from stomprelay.service.connection.runtime import spell_address
from stomprelay.session.effects import Close, How, Pause, Resume, Send
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
    """It is lost, as it will answer nothing; what is queued is written first, and nobody waits for its end."""
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


# Reasons not to read


STOPS, GOES_ON = ("read", Side.DOWNSTREAM, False), ("read", Side.DOWNSTREAM, True)


def test_what_stops_the_reading(harness: DriverHarness) -> None:
    """Pressure at once; a wish when something comes: until then the transport reads, and so sees the peer go."""
    for reason in (PRESSURE, ASKED):
        harness.protocol.hold(reason)
        assert harness.transport.reading == (reason == ASKED)
        assert harness.said() == [STOPS]
        harness.transport.sends(b"x" if reason == ASKED else b"")
        assert not harness.transport.reading
        harness.said()
        harness.protocol.release(reason)
        assert harness.transport.reading
        assert harness.said() == [GOES_ON]


@pytest.mark.parametrize("last", [ASKED, PRESSURE])
def test_reading_goes_on_when_the_last_reason_is_gone(harness: DriverHarness, last: int) -> None:
    """Whichever that is; and it is told once."""
    harness.protocol.hold(ASKED)
    harness.protocol.hold(PRESSURE)
    assert harness.protocol.reasons == ASKED | PRESSURE
    harness.protocol.release(ASKED if last == PRESSURE else PRESSURE)
    assert not harness.transport.reading
    assert harness.said() == [STOPS]
    harness.protocol.release(last)
    assert harness.transport.reading
    assert harness.said() == [GOES_ON]


# Effects


def test_effects_on_a_leg_that_is_gone(harness: DriverHarness) -> None:
    """Nothing is left to do, and nothing is raised."""
    gone = Leg(Side.UPSTREAM, Limits())
    harness.driver.perform([Send(gone, b"x"), Pause(gone), Resume(gone), Close(gone, How.FLUSH)])
    assert harness.transport.written() == b""
    assert harness.transport.ends == []


def test_a_stage_is_idle_without_connections(harness: DriverHarness) -> None:
    """Lingering ones count; who waits is told when the last is gone, and at once when none is there."""
    waited: list[object] = []
    first = harness.runtime.idle().addCallback(waited.append)
    assert harness.runtime.idle() is first
    harness.driver.perform([Close(harness.leg, How.LINGER)])
    assert waited == []
    harness.transport.disconnects()
    assert waited == [None]
    _ = harness.runtime.idle().addCallback(waited.append)
    assert waited == [None, None]


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (IPv4Address("TCP", "192.0.2.1", 1234), "192.0.2.1:1234"),
        (IPv6Address("TCP", "2001:db8::1", 1234), "[2001:db8::1]:1234"),
        (UNIXAddress(None), "a local socket"),
        (None, "a local socket"),
    ],
)
def test_an_address_in_words(address: object, text: str) -> None:
    """As one would write it."""
    assert spell_address(address) == text

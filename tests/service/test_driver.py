"""Performing: each effect does what it says, to the connection it names."""

from math import inf

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.logger import LogLevel, capturedLogs

from stomprelay.service.connection.driver import log_note, spell_address
from stomprelay.session.effects import Close, Event, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.head import Limits
from tests.service.scripted import DriverHarness


@pytest.fixture
def harness() -> DriverHarness:
    """A connected client."""
    harness = DriverHarness()
    assert harness.said() == [("connected", Side.DOWNSTREAM)]
    return harness


def test_send_writes_to_the_leg(harness: DriverHarness) -> None:
    """In order."""
    harness.driver.perform([Send(harness.leg, b"one"), Send(harness.leg, b"two")])
    assert harness.transport.written() == b"onetwo"


def test_effects_on_a_leg_that_is_gone(harness: DriverHarness) -> None:
    """Nothing is left to do, and nothing is raised."""
    gone = Leg(Side.UPSTREAM, Limits())
    harness.driver.perform([Send(gone, b"x"), Pause(gone), Resume(gone), Close(gone, How.FLUSH)])
    assert harness.transport.written() == b""
    assert harness.transport.ends == []


@pytest.mark.parametrize(("how", "end"), [(How.FLUSH, "flush"), (How.LINGER, "half"), (How.ABORT, "abort")])
def test_close(harness: DriverHarness, how: How, end: str) -> None:
    """Each way of ending is the transport's; the core hears nothing more, and its part is over."""
    harness.driver.perform([Wake(1.0), Close(harness.leg, how)])
    assert harness.transport.ends == [end]
    assert harness.over == [harness.driver]
    assert harness.runtime.protocols == {}
    harness.transport.sends(b"still here")
    harness.transport.disconnects()
    harness.clock.advance(10)
    assert harness.said() == []
    assert harness.clock.getDelayedCalls() == []


def test_pause_and_resume(harness: DriverHarness) -> None:
    """One chunk more may come, as the valve has it; the core is told that the leg is not read from."""
    harness.driver.perform([Pause(harness.leg)])
    assert harness.transport.reading
    harness.transport.sends(b"x")
    assert not harness.transport.reading
    harness.driver.perform([Resume(harness.leg)])
    assert harness.transport.reading
    side = Side.DOWNSTREAM
    assert harness.said() == [("read", side, False), ("received", side, b"x"), ("read", side, True)]


def test_wake(harness: DriverHarness) -> None:
    """At the time of the last `Wake`, once; infinity is never."""
    harness.driver.perform([Wake(1.0), Wake(3.0)])
    harness.clock.advance(2)
    assert harness.said() == []
    harness.clock.advance(1)
    assert harness.said() == [("woke", 3.0)]
    harness.driver.perform([Wake(4.0), Wake(inf)])
    harness.clock.advance(100)
    assert harness.said() == []


def test_wake_means_nothing_to_a_performer_without_legs(harness: DriverHarness) -> None:
    """The last effects of an input may come after the last leg is closed."""
    harness.driver.perform([Close(harness.leg, How.ABORT), Wake(1.0)])
    harness.transport.disconnects()
    assert harness.clock.getDelayedCalls() == []


def test_note(harness: DriverHarness) -> None:
    """What it looks like is for the driver to say."""
    harness.driver.perform([Note(Event.CONNECTED, "hello")])
    assert harness.said() == [("note", "hello")]


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
    ("event", "level"),
    [(Event.CONNECTED, LogLevel.info), (Event.LOST, LogLevel.warn), (Event.FOREIGN, LogLevel.warn)],
)
def test_a_note_in_the_log(event: Event, level: object) -> None:
    """Its fields are those of the form; what somebody may have to see to is a warning."""
    with capturedLogs() as events:
        log_note(
            Note(event, "hello {there}"),
            "{who}: {event}: {text}",
            DriverHarness().runtime.repeats,
            "x",
            who="me",
        )
    (said,) = events
    assert (said["who"], said["event"], said["text"]) == ("me", event.value, "hello {there}")
    assert said["log_level"] is level


def test_a_quiet_note_is_not_logged() -> None:
    """It is for the journal alone."""
    with capturedLogs() as events:
        log_note(
            Note(Event.ANSWERED, "hello", quiet=True), "{event}: {text}", DriverHarness().runtime.repeats, "x"
        )
    assert events == []


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

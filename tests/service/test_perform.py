"""Performing: each effect does what it says, to the connection it names."""

from math import inf

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.logger import LogLevel, capturedLogs

from stomprelay.service.connection.driver import log_note, spell_address
from stomprelay.session.effects import Close, Event, How, Note, Pause, Resume, Send, Wake
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits
from tests.service.ground import Ground


@pytest.fixture
def ground() -> Ground:
    """A connected client."""
    ground = Ground()
    assert ground.said() == [("connected", Side.DOWNSTREAM)]
    return ground


def test_send_writes_to_the_leg(ground: Ground) -> None:
    """In order."""
    ground.driver.perform([Send(ground.leg, b"one"), Send(ground.leg, b"two")])
    assert ground.wire.written() == b"onetwo"


def test_effects_on_a_leg_that_is_gone(ground: Ground) -> None:
    """Nothing is left to do, and nothing is raised."""
    gone = Leg(Side.UPSTREAM, Limits())
    ground.driver.perform([Send(gone, b"x"), Pause(gone), Resume(gone), Close(gone, How.FLUSH)])
    assert ground.wire.written() == b""
    assert ground.wire.ends == []


@pytest.mark.parametrize(("how", "end"), [(How.FLUSH, "flush"), (How.LINGER, "half"), (How.ABORT, "abort")])
def test_close(ground: Ground, how: How, end: str) -> None:
    """Each way of ending is the transport's; the core hears nothing more, and its part is over."""
    ground.driver.perform([Wake(1.0), Close(ground.leg, how)])
    assert ground.wire.ends == [end]
    assert ground.over == [ground.driver]
    assert ground.runtime.protocols == {}
    ground.wire.says(b"still here")
    ground.wire.goes()
    ground.clock.advance(10)
    assert ground.said() == []
    assert ground.clock.getDelayedCalls() == []


def test_pause_and_resume(ground: Ground) -> None:
    """One chunk more may come, as the valve has it; the core is told that the leg is not read from."""
    ground.driver.perform([Pause(ground.leg)])
    assert ground.wire.reading
    ground.wire.says(b"x")
    assert not ground.wire.reading
    ground.driver.perform([Resume(ground.leg)])
    assert ground.wire.reading
    side = Side.DOWNSTREAM
    assert ground.said() == [("read", side, False), ("received", side, b"x"), ("read", side, True)]


def test_wake(ground: Ground) -> None:
    """At the time of the last `Wake`, once; infinity is never."""
    ground.driver.perform([Wake(1.0), Wake(3.0)])
    ground.clock.advance(2)
    assert ground.said() == []
    ground.clock.advance(1)
    assert ground.said() == [("woke", 3.0)]
    ground.driver.perform([Wake(4.0), Wake(inf)])
    ground.clock.advance(100)
    assert ground.said() == []


def test_wake_means_nothing_to_a_performer_without_legs(ground: Ground) -> None:
    """The last effects of an input may come after the last leg is closed."""
    ground.driver.perform([Close(ground.leg, How.ABORT), Wake(1.0)])
    ground.wire.goes()
    assert ground.clock.getDelayedCalls() == []


def test_note(ground: Ground) -> None:
    """What it looks like is for the driver to say."""
    ground.driver.perform([Note(Event.CONNECTED, "hello")])
    assert ground.said() == [("note", "hello")]


def test_a_stage_is_idle_without_connections(ground: Ground) -> None:
    """Lingering ones count; who waits is told when the last is gone, and at once when none is there."""
    waited: list[object] = []
    first = ground.runtime.idle().addCallback(waited.append)
    assert ground.runtime.idle() is first
    ground.driver.perform([Close(ground.leg, How.LINGER)])
    assert waited == []
    ground.wire.goes()
    assert waited == [None]
    _ = ground.runtime.idle().addCallback(waited.append)
    assert waited == [None, None]


@pytest.mark.parametrize(
    ("event", "level"),
    [(Event.CONNECTED, LogLevel.info), (Event.LOST, LogLevel.warn), (Event.FOREIGN, LogLevel.warn)],
)
def test_a_note_in_the_log(event: Event, level: object) -> None:
    """Its fields are those of the form; what somebody may have to see to is a warning."""
    with capturedLogs() as events:
        log_note(Note(event, "hello {there}"), "{who}: {event}: {text}", who="me")
    (said,) = events
    assert (said["who"], said["event"], said["text"]) == ("me", event.value, "hello {there}")
    assert said["log_level"] is level


def test_a_quiet_note_is_not_logged() -> None:
    """It is for the journal alone."""
    with capturedLogs() as events:
        log_note(Note(Event.ANSWERED, "hello", quiet=True), "{event}: {text}")
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

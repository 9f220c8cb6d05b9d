"""Performing: each effect does what it says, to the connection it names."""

import pytest
from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress

from stomprelay.service.connection.runtime import spell_address
from stomprelay.session.effects import Close, How, Pause, Resume, Send
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.frame import Limits
from tests.service.scripted import DriverHarness


@pytest.fixture
def harness() -> DriverHarness:
    """A connected client."""
    harness = DriverHarness()
    assert harness.said() == [("connected", Side.DOWNSTREAM)]
    return harness


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

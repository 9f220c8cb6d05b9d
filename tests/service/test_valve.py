"""The valve: reasons not to read, and who is told."""

from typing import Any

import pytest

from stomprelay.service.connection.backpressure import ASKED, JOURNAL, PRESSURE, Valve
from tests.service.house import Wire


class Source:
    """Reads from a wire; writes down what it was told."""

    def __init__(self) -> None:
        self.transport: Any = Wire()
        self.told: list[bool] = []

    def read(self, on: bool) -> None:
        self.told.append(on)


@pytest.fixture
def source() -> Source:
    """It reads."""
    return Source()


def test_pressure_stops_the_reading_at_once(source: Source) -> None:
    """And its end starts it."""
    valve = Valve(source)
    valve.pauseProducing()
    assert not source.transport.reading
    assert source.told == [False]
    valve.resumeProducing()
    assert source.transport.reading
    assert source.told == [False, True]


def test_a_wish_is_fulfilled_when_something_comes(source: Source) -> None:
    """Until then the transport reads, and so sees the peer go."""
    valve = Valve(source)
    valve.hold(ASKED)
    assert source.transport.reading
    assert source.told == [False]
    assert valve.held
    valve.passed()
    assert not source.transport.reading
    valve.release(ASKED)
    assert source.transport.reading
    assert source.told == [False, True]


@pytest.mark.parametrize("last", [ASKED, PRESSURE])
def test_reading_goes_on_when_the_last_reason_is_gone(source: Source, last: int) -> None:
    """Whichever that is; and it is told once."""
    valve = Valve(source)
    valve.hold(ASKED)
    valve.hold(PRESSURE)
    valve.release(ASKED if last == PRESSURE else PRESSURE)
    assert not source.transport.reading
    assert source.told == [False]
    valve.release(last)
    assert source.transport.reading
    assert source.told == [False, True]


def test_what_is_said_twice_counts_once(source: Source) -> None:
    """Holding twice, releasing twice, releasing what was never held."""
    valve = Valve(source)
    valve.release(PRESSURE)
    valve.hold(PRESSURE)
    valve.hold(PRESSURE)
    valve.release(ASKED)
    assert source.told == [False]
    valve.release(PRESSURE)
    valve.release(PRESSURE)
    assert source.told == [False, True]


def test_what_comes_while_all_is_well_changes_nothing(source: Source) -> None:
    """`passed` is for what should not have come."""
    valve = Valve(source)
    valve.passed()
    assert source.transport.reading


def test_a_destination_that_is_gone_exerts_no_pressure(source: Source) -> None:
    """What becomes of the source is not for the valve to say."""
    valve = Valve(source)
    valve.pauseProducing()
    valve.stopProducing()
    assert source.transport.reading


def test_a_retired_valve_is_open_and_tells_nobody(source: Source) -> None:
    """What the peer still says is read, to be thrown away; later pressure means nothing."""
    valve = Valve(source)
    valve.hold(PRESSURE)
    valve.retire()
    assert source.transport.reading
    valve.hold(PRESSURE)
    valve.release(PRESSURE)
    valve.passed()
    valve.retire()
    assert source.transport.reading
    assert source.told == [False]


def test_a_valve_may_outlive_its_transport(source: Source) -> None:
    """Retired after the connection went, it touches nothing."""
    valve = Valve(source)
    valve.hold(PRESSURE)
    source.transport = None
    valve.retire()


def test_a_journal_without_room_stops_the_reading_at_once(source: Source) -> None:
    """As pressure does; and each reason has to go."""
    valve = Valve(source)
    valve.hold(JOURNAL)
    assert not source.transport.reading
    assert valve.reasons == JOURNAL
    valve.hold(PRESSURE)
    assert valve.reasons == JOURNAL | PRESSURE
    valve.release(JOURNAL)
    assert not source.transport.reading
    valve.release(PRESSURE)
    assert source.transport.reading
    assert source.told == [False, True]

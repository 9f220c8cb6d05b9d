"""The reading: reasons not to read, and who is told."""

from typing import Any

import pytest

from stomprelay.service.connection.backpressure import ASKED, JOURNAL, PRESSURE, ReadControl
from tests.service.house import Wire


class Source:
    """Reads from a wire; writes down what it was told."""

    def __init__(self) -> None:
        self.transport: Any = Wire()
        self.told: list[bool] = []

    def reading_changed(self, on: bool) -> None:
        self.told.append(on)


@pytest.fixture
def source() -> Source:
    """It reads."""
    return Source()


def test_pressure_stops_the_reading_at_once(source: Source) -> None:
    """And its end starts it."""
    reading = ReadControl(source)
    reading.pauseProducing()
    assert not source.transport.reading
    assert source.told == [False]
    reading.resumeProducing()
    assert source.transport.reading
    assert source.told == [False, True]


def test_a_wish_is_fulfilled_when_something_comes(source: Source) -> None:
    """Until then the transport reads, and so sees the peer go."""
    reading = ReadControl(source)
    reading.hold(ASKED)
    assert source.transport.reading
    assert source.told == [False]
    assert reading.held
    reading.received()
    assert not source.transport.reading
    reading.release(ASKED)
    assert source.transport.reading
    assert source.told == [False, True]


@pytest.mark.parametrize("last", [ASKED, PRESSURE])
def test_reading_goes_on_when_the_last_reason_is_gone(source: Source, last: int) -> None:
    """Whichever that is; and it is told once."""
    reading = ReadControl(source)
    reading.hold(ASKED)
    reading.hold(PRESSURE)
    reading.release(ASKED if last == PRESSURE else PRESSURE)
    assert not source.transport.reading
    assert source.told == [False]
    reading.release(last)
    assert source.transport.reading
    assert source.told == [False, True]


def test_what_is_said_twice_counts_once(source: Source) -> None:
    """Holding twice, releasing twice, releasing what was never held."""
    reading = ReadControl(source)
    reading.release(PRESSURE)
    reading.hold(PRESSURE)
    reading.hold(PRESSURE)
    reading.release(ASKED)
    assert source.told == [False]
    reading.release(PRESSURE)
    reading.release(PRESSURE)
    assert source.told == [False, True]


def test_what_comes_while_all_is_well_changes_nothing(source: Source) -> None:
    """`passed` is for what should not have come."""
    reading = ReadControl(source)
    reading.received()
    assert source.transport.reading


def test_a_destination_that_is_gone_exerts_no_pressure(source: Source) -> None:
    """What becomes of the source is not for the reading to say."""
    reading = ReadControl(source)
    reading.pauseProducing()
    reading.stopProducing()
    assert source.transport.reading


def test_a_retired_valve_is_open_and_tells_nobody(source: Source) -> None:
    """What the peer still says is read, to be thrown away; later pressure means nothing."""
    reading = ReadControl(source)
    reading.hold(PRESSURE)
    reading.retire()
    assert source.transport.reading
    reading.hold(PRESSURE)
    reading.release(PRESSURE)
    reading.received()
    reading.retire()
    assert source.transport.reading
    assert source.told == [False]


def test_a_valve_may_outlive_its_transport(source: Source) -> None:
    """Retired after the connection went, it touches nothing."""
    reading = ReadControl(source)
    reading.hold(PRESSURE)
    source.transport = None
    reading.retire()


def test_a_journal_without_room_stops_the_reading_at_once(source: Source) -> None:
    """As pressure does; and each reason has to go."""
    reading = ReadControl(source)
    reading.hold(JOURNAL)
    assert not source.transport.reading
    assert reading.reasons == JOURNAL
    reading.hold(PRESSURE)
    assert reading.reasons == JOURNAL | PRESSURE
    reading.release(JOURNAL)
    assert not source.transport.reading
    reading.release(PRESSURE)
    assert source.transport.reading
    assert source.told == [False, True]

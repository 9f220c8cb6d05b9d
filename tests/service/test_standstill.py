"""When a leg that is not read from is told of."""

from typing import Any

from twisted.internet.task import Clock

from stomprelay.journal.schema import JournalEvent
from stomprelay.service.connection.recording import QUIET, ReadingStop
from stomprelay.service.connection.timers import Timers

HELD, RELEASED = JournalEvent.HELD, JournalEvent.RELEASED


class Leg:
    """A leg that stands still; keeps what is told of it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.told: list[tuple[JournalEvent, dict[str, Any]]] = []
        self.over: Any = 0  # not int, for it changes between two looks
        alarms = Timers(self.clock, self.clock.seconds)
        self.standstill = ReadingStop(alarms, self.clock.seconds, "broker", self._tell, self._over)
        self.standstill.began("pressure")

    def _tell(self, event: JournalEvent, text: str, facts: dict[str, Any]) -> None:
        assert "broker" in text
        self.told.append((event, facts))

    def _over(self) -> None:
        self.over += 1


def test_it_is_told_at_once_and_over_when_it_is_quiet() -> None:
    """With the time that it took."""
    leg = Leg()
    assert leg.told == [(HELD, {"side": "broker", "reason": "pressure"})]
    leg.clock.advance(2.5)
    leg.standstill.resumed()
    leg.clock.advance(QUIET / 2)
    assert not leg.over
    leg.clock.advance(QUIET / 2)
    assert leg.told[1:] == [(RELEASED, {"side": "broker", "seconds": 2.5})]
    assert leg.over == 1
    assert leg.clock.getDelayedCalls() == []


def test_stop_and_go_is_one() -> None:
    """Only the time in which nothing was read counts."""
    leg = Leg()
    for _ in range(100):
        leg.clock.advance(0.25)
        leg.standstill.resumed()
        leg.clock.advance(QUIET * 0.9)
        leg.standstill.stopped()
    assert len(leg.told) == 1
    leg.standstill.resumed()
    leg.clock.advance(QUIET)
    assert leg.told[1:] == [(RELEASED, {"side": "broker", "seconds": 25.0})]


def test_an_alarm_that_comes_too_early() -> None:
    """It stands still again: nothing is over."""
    leg = Leg()
    leg.standstill.resumed()
    leg.standstill.stopped()
    leg.clock.advance(10 * QUIET)
    assert leg.over == 0


def test_it_ends_with_its_leg() -> None:
    """In the middle of it, or while it was quiet; and is told once."""
    for resumed in (False, True):
        leg = Leg()
        leg.clock.advance(3)
        if resumed:
            leg.standstill.resumed()
            leg.clock.advance(QUIET / 2)
        leg.standstill.end()
        assert leg.told[1:] == [(RELEASED, {"side": "broker", "seconds": 3.0})]
        leg.clock.advance(10)
        assert leg.over == 1
        assert leg.clock.getDelayedCalls() == []

"""Timers: many sleepers, one timer."""

from math import inf

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from stomprelay.service.connection.runtime import TICKS, Runtime, Timed


class Sleeper(Timed):
    """Writes down when it was woken."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.woken: list[float] = []

    def woke(self, now: float) -> None:
        self.woken.append(now)


@pytest.fixture
def clock() -> Clock:
    """It stands still until it is told."""
    return Clock()


@pytest.fixture
def runtime(clock: Clock) -> Runtime:
    """By that clock."""
    return Runtime(clock, clock.seconds)


def test_a_sleeper_is_woken_once_at_its_time(clock: Clock, runtime: Runtime) -> None:
    """Not before, and not again; where that time is over, in the next turn, never within `set_timer`."""
    sleeper = Sleeper(runtime)
    sleeper.set_timer(2.0)
    clock.advance(1.9)
    assert sleeper.woken == []
    clock.pump([0.1, 10.0])
    assert sleeper.woken == [2.0]
    sleeper.set_timer(3.0)
    assert sleeper.woken == [2.0]
    clock.advance(0)
    assert sleeper.woken == [2.0, 12.0]
    assert clock.getDelayedCalls() == []


def test_forgotten_sleepers_are_not_kept(clock: Clock, runtime: Runtime) -> None:
    """One sleeper that stays does not keep ten thousand that went."""
    lasting = Sleeper(runtime)
    lasting.set_timer(1000.0)
    for _ in range(10_000):
        sleeper = Sleeper(runtime)
        sleeper.set_timer(999.0)
        sleeper.stop_timer()
    assert len(runtime.timers) < 200
    clock.advance(1000)
    assert lasting.woken == [1000.0]


def test_a_sleeper_that_is_to_be_woken_ever_earlier(clock: Clock, runtime: Runtime) -> None:
    """It is woken once, at the last of its times, and the earlier ones are not kept."""
    sleeper = Sleeper(runtime)
    for number in range(1000):
        sleeper.set_timer(1000.0 - number / TICKS)
    assert len(runtime.timers) < 200
    clock.advance(1000.0 - 999 / TICKS)
    clock.advance(1000)
    assert sleeper.woken == [1000.0 - 999 / TICKS]
    assert clock.getDelayedCalls() == []


def test_a_sleeper_that_may_sleep_longer(clock: Clock, runtime: Runtime) -> None:
    """A later time replaces the one before; infinity means not at all."""
    sleeper, never = Sleeper(runtime), Sleeper(runtime)
    for each in (sleeper, never):
        each.set_timer(1.0)
    sleeper.set_timer(3.0)
    never.set_timer(inf)
    for _ in range(5):
        clock.advance(1)
    assert (sleeper.woken, never.woken) == ([3.0], [])
    assert clock.getDelayedCalls() == []


def test_those_of_one_tick_are_woken_together(clock: Clock, runtime: Runtime) -> None:
    """At its end: none before its time, and all in one turn of the reactor. All ticks share one timer."""
    sleepers = [[Sleeper(runtime) for _ in range(100)] for _ in range(10)]
    for tick, together in enumerate(sleepers):
        for number, sleeper in enumerate(together, 1):
            sleeper.set_timer(1.0 + (tick + number / 100) / TICKS)
    assert len(clock.getDelayedCalls()) == 1
    clock.advance(1.0)
    assert not any(sleeper.woken for sleeper in sleepers[0])
    clock.pump([1 / TICKS] * 10)
    for tick, together in enumerate(sleepers, 1):
        assert all(sleeper.woken == [1.0 + tick / TICKS] for sleeper in together)
    assert clock.getDelayedCalls() == []


def test_an_alarm_that_fails_is_told_and_stops_no_other(clock: Clock, runtime: Runtime) -> None:
    """The failure is logged; whoever comes after it is woken."""

    class Broken(Sleeper):
        def woke(self, now: float) -> None:
            raise ZeroDivisionError

    sleeper = Sleeper(runtime)
    Broken(runtime).set_timer(1.0)
    sleeper.set_timer(1.0)
    with capturedLogs() as events:
        clock.advance(1)
    assert sleeper.woken == [1.0]
    assert [event["log_failure"].type for event in events if "log_failure" in event] == [ZeroDivisionError]

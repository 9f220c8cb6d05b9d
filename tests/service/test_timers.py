"""Timers: many sleepers, one timer."""

from math import inf

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from stomprelay.service.connection.timers import Timed, Timers


class Bed(Timed):
    """Writes down when it was woken; may set its alarm again."""

    def __init__(self, alarms: Timers, again: float = inf) -> None:
        super().__init__()
        self.alarms = alarms
        self.again = again
        self.woken: list[float] = []

    def woke(self, now: float) -> None:
        self.woken.append(now)
        if self.again < inf:
            self.alarms.set(self, now + self.again)


@pytest.fixture
def clock() -> Clock:
    """It stands still until it is told."""
    return Clock()


@pytest.fixture
def alarms(clock: Clock) -> Timers:
    """By that clock."""
    return Timers(clock, clock.seconds)


def test_a_sleeper_is_woken_once_at_its_time(clock: Clock, alarms: Timers) -> None:
    """Not before, and not again."""
    bed = Bed(alarms)
    alarms.set(bed, 2.0)
    clock.advance(1.9)
    assert bed.woken == []
    clock.advance(0.1)
    assert bed.woken == [2.0]
    clock.advance(10)
    assert bed.woken == [2.0]
    assert clock.getDelayedCalls() == []


def test_no_timer_is_kept_for_those_that_are_gone(clock: Clock, alarms: Timers) -> None:
    """When the last that sleeps is woken, a later time of one that left means nothing."""
    gone, bed = Bed(alarms), Bed(alarms)
    alarms.set(gone, 9.0)
    alarms.set(bed, 1.0)
    alarms.forget(gone)
    clock.advance(1)
    assert bed.woken == [1.0]
    assert clock.getDelayedCalls() == []
    alarms.set(bed, 3.0)
    clock.advance(2)
    assert bed.woken == [1.0, 3.0]
    assert gone.woken == []


def test_many_sleepers_share_one_timer(clock: Clock, alarms: Timers) -> None:
    """A thousand alarms are one delayed call, and ring each at its time."""
    beds = [Bed(alarms) for _ in range(1000)]
    for number, bed in enumerate(beds):
        alarms.set(bed, 1.0 + number)
    assert len(clock.getDelayedCalls()) == 1
    for _ in range(1000):
        clock.advance(1)
    assert [bed.woken for bed in beds] == [[1.0 + number] for number in range(1000)]


def test_a_later_time_leaves_the_timer_alone(clock: Clock, alarms: Timers) -> None:
    """Moving on is free: the timer rings as it was set, and the sleeper is looked at again."""
    bed = Bed(alarms)
    alarms.set(bed, 1.0)
    before = clock.getDelayedCalls()
    for time in range(2, 50):
        alarms.set(bed, float(time))
    assert clock.getDelayedCalls() == before
    clock.advance(1)
    assert bed.woken == []
    clock.advance(48)
    assert bed.woken == [49.0]


def test_an_earlier_time_counts(clock: Clock, alarms: Timers) -> None:
    """An alarm may be set forward; the old time wakes nobody."""
    bed = Bed(alarms)
    alarms.set(bed, 5.0)
    alarms.set(bed, 1.0)
    clock.advance(1)
    assert bed.woken == [1.0]
    clock.advance(10)
    assert bed.woken == [1.0]


def test_infinity_is_never(clock: Clock, alarms: Timers) -> None:
    """An alarm that is taken back does not ring."""
    bed = Bed(alarms)
    alarms.set(bed, 1.0)
    alarms.set(bed, inf)
    clock.advance(10)
    assert bed.woken == []
    assert clock.getDelayedCalls() == []


def test_a_time_that_is_over_wakes_in_the_next_turn(clock: Clock, alarms: Timers) -> None:
    """Never within `set`, which the sleeper may have called itself."""
    clock.advance(5)
    bed = Bed(alarms)
    alarms.set(bed, 3.0)
    assert bed.woken == []
    clock.advance(0)
    assert bed.woken == [5.0]


def test_a_sleeper_that_wants_to_be_woken_at_once_again_starves_nobody(clock: Clock, alarms: Timers) -> None:
    """Others whose time has come are woken before it is woken again."""
    woken: list[str] = []

    class Restless(Bed):
        def woke(self, now: float) -> None:
            woken.append("restless")
            if len(woken) < 4:
                self.alarms.set(self, now)

    class Other(Bed):
        def woke(self, now: float) -> None:
            woken.append("other")

    alarms.set(Restless(alarms), 1.0)
    alarms.set(Other(alarms), 1.0)
    clock.advance(1)
    assert woken == ["restless", "other", "restless", "restless"]


def test_a_sleeper_may_set_its_alarm_again(clock: Clock, alarms: Timers) -> None:
    """A regular beat."""
    bed = Bed(alarms, again=2.0)
    alarms.set(bed, 1.0)
    clock.pump([1, 1, 1, 1, 1])
    assert bed.woken == [1.0, 3.0, 5.0]


def test_forgotten_sleepers_leave_no_timer(clock: Clock, alarms: Timers) -> None:
    """With the last sleeper goes the delayed call, however far its time."""
    beds = [Bed(alarms) for _ in range(10)]
    for number, bed in enumerate(beds):
        alarms.set(bed, 100.0 + number)
    for bed in beds:
        alarms.forget(bed)
    assert clock.getDelayedCalls() == []
    alarms.forget(beds[0])
    clock.advance(1000)
    assert all(bed.woken == [] for bed in beds)


def test_forgotten_sleepers_are_not_kept(clock: Clock, alarms: Timers) -> None:
    """One sleeper that stays does not keep ten thousand that went."""
    lasting = Bed(alarms)
    alarms.set(lasting, 1000.0)
    for _ in range(10_000):
        bed = Bed(alarms)
        alarms.set(bed, 999.0)
        alarms.forget(bed)
    assert len(alarms._heap) < 200
    clock.advance(1000)
    assert lasting.woken == [1000.0]


def test_an_alarm_that_fails_is_told_and_stops_no_other(clock: Clock, alarms: Timers) -> None:
    """The failure is logged; whoever comes after it is woken."""

    class Broken(Bed):
        def woke(self, now: float) -> None:
            raise ZeroDivisionError

    bed = Bed(alarms)
    alarms.set(Broken(alarms), 1.0)
    alarms.set(bed, 1.0)
    with capturedLogs() as events:
        clock.advance(1)
    assert bed.woken == [1.0]
    assert [event["log_failure"].type for event in events if "log_failure" in event] == [ZeroDivisionError]

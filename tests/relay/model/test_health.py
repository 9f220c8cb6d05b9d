"""When a broker is out, for how long, and how sessions come back to it one after the other."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.model.group import Checks, Health, Sight
from tests.relay.failing import middle


def failed(times: int, checks: Checks, now: float = 1000.0) -> Health:
    """A broker that failed so many times, each time right behind its pause."""
    health = Health()
    for _ in range(times):
        now = max(now, health.out_until)
        health.failed(checks, now, middle)
    return health


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 1), (2, 2), (3, 4), (4, 8), (6, 32), (7, 60), (8, 60), (2000, 60)]
)
def test_pauses_double_up_to_the_longest(failures: int, pause: float) -> None:
    """Each failure behind a pause doubles the next one."""
    health = failed(failures - 1, Checks())
    now = health.out_until
    health.failed(Checks(), now, middle)
    assert health.out_until - now == pytest.approx(pause)
    assert health.failures == failures


@pytest.mark.parametrize("threshold", [1, 3])
def test_one_outage_counts_once_however_many_see_it(threshold: int) -> None:
    """A thousand sessions that lose a broker in one instant, or within its pause, leave it the shortest pause."""
    checks = Checks(failures=threshold)
    health = Health()
    for each in range(1000):
        health.failed(checks, 1000.0 + each / 2000, middle)
    assert health.failures == threshold
    assert health.out_until == pytest.approx(1001.0, abs=0.01)


def test_a_failure_does_not_count_against_a_paused_broker() -> None:
    """What an operator restarts is not left out when he gives it back."""
    health = Health()
    health.answered()
    health.paused = True
    health.failed(Checks(), 1000.0, middle)
    assert health.up is False
    assert (health.failures, health.out(1000.0)) == (0, False)


def probed(health: Health) -> None:
    """A probe begins, which will show how it is."""
    health.doubted = False


def test_a_doubt_is_for_a_probe() -> None:
    """It changes nothing but that one is due, until that begins, or the broker answers or fails."""
    for ends in (probed, Health.answered, lambda health: health.failed(Checks(), 1000.0, middle)):
        health = Health()
        assert not health.doubted
        health.doubt(health.sight())
        assert (health.doubted, health.up, health.out(1000.0), health.failures) == (True, None, False, 0)
        ends(health)
        assert not health.doubted


def trouble(health: Health) -> None:
    """It fails."""
    health.failed(Checks(), 1000.0, middle)


def dropped(health: Health) -> None:
    """It closes the connection of a session that gives no cause."""
    health.lost(suspect=False)


def suspected(health: Health) -> None:
    """It closes the connection of a session that is suspected to be why."""
    health.lost(suspect=True)


Told = list[Callable[[Health], object]]


def seen(before: Told, after: Told) -> tuple[Health, Sight]:
    """A broker with what happened before and after a sight of it."""
    health = Health()
    for happens in before:
        happens(health)
    sight = health.sight()
    for happens in after:
        happens(health)
    return health, sight


def test_a_broker_that_still_serves_a_session() -> None:
    """It was well as long as one is there that joined before, whatever happened to others."""
    for after in [], [trouble], [dropped, Health.answered], [suspected]:
        health, sight = seen([Health.joined, Health.joined], [lambda health: health.left(1), *after])
        assert (health.well_since(sight), health.disproved(sight)) == (True, False)
        health.joined()
        health.left(2)
        health.answered()
        assert health.well_since(sight) is (after in ([], [suspected]))


@given(st.floats(0.1, 1000.0), st.lists(st.floats(0.0, 5.0), min_size=2, max_size=50))
def test_never_more_than_the_rate(rate: float, gaps: list[float]) -> None:
    """No slot lies in the past, and any two are as far apart as the rate demands."""
    health, now, slots = Health(), 1000.0, []
    for gap in gaps:
        now += gap
        slots.append(health.slot(rate, now))
        assert slots[-1] >= now
    assert all(later - sooner >= 1 / rate - 1e-9 for sooner, later in pairwise(slots))

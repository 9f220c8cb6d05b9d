"""Which sessions move while all is well: never too many at a time, and never back and forth."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.model.group import GRACE, Broker, Checks, Group, Policy, Reconnect, Shift
from stomprelay.service.brokers import Allowance

NOW = 1000.0
HOMEWARD = Reconnect(randomize=False, priority_backup=True)
BALANCED = (Policy.ROUND_ROBIN, Policy.RANDOM, Policy.LEAST_SESSIONS)
balanced = pytest.mark.parametrize("policy", BALANCED)


def group(
    *weights: int, policy: Policy = Policy.FAILOVER, reconnect: Reconnect | None = HOMEWARD
) -> tuple[Group, list[Broker]]:
    """A group of brokers called a, b, c, ... with these weights, all of them up."""
    brokers = [
        Broker(f"tcp://{name}:61613", f"tcp:{name}:61613", name, weight=weight)
        for name, weight in zip("abcdefgh", weights, strict=False)
    ]
    for broker in brokers:
        broker.health.answered()
    return Group("main", tuple(brokers), reconnect, policy), brokers


def out(broker: Broker) -> None:
    """It is down, and its pause runs."""
    broker.health.failed(Checks(), NOW, lambda: 0.5)


def perform(placed: dict[Broker, int], wishes: list[Shift]) -> None:
    """Everybody who is asked to move does."""
    for origin, target, sessions in wishes:
        placed[origin] -= sessions
        placed[target] += sessions


def test_a_group_that_changes_is_balanced_by_its_new_settings() -> None:
    """From a reload on: its sessions move, or stay, by the list and the options that it has then."""
    plain, brokers = group(1, 1, reconnect=Reconnect())
    a, b = brokers
    homeward, _ = group(1, 1)
    plain.take(homeward, (a, b))
    assert plain.shifts({a: 0, b: 1}, 10, NOW) == [Shift(b, a, 1)]
    alone, _ = group(1)
    plain.take(alone, (a,))
    assert not plain.balanced
    assert plain.shifts({a: 0, b: 1}, 10, NOW) == []


def test_priority_backup_brings_them_home() -> None:
    """To the first broker, from all others in their order, no more than allowed, and none from a paused one."""
    several, (a, b, c) = group(1, 1, 1)
    placed = {a: 3, b: 4, c: 5}
    assert several.shifts(placed, 100, NOW) == [Shift(b, a, 4), Shift(c, a, 5)]
    assert several.shifts(placed, 6, NOW) == [Shift(b, a, 4), Shift(c, a, 2)]
    assert several.shifts(placed, 1, NOW) == [Shift(b, a, 1)]
    assert several.shifts(placed, 0, NOW) == []
    assert several.shifts({a: 12}, 100, NOW) == []
    several, (a, b, c) = group(1, 1, 1)
    b.health.paused = True
    assert several.shifts({b: 4, c: 2}, 10, NOW) == [Shift(c, a, 2)]


def test_sessions_go_where_most_are() -> None:
    """Together: to the broker that has most; not to one that is down, nor from one that is paused."""
    several, (a, b, c) = group(1, 1, 1, policy=Policy.TOGETHER)
    assert several.shifts({a: 0, b: 0, c: 0}, 10, NOW) == []
    for broker, sessions in ((a, 1), (b, 3), (c, 2)):
        for _ in range(sessions):
            broker.health.joined()
    placed = {a: 1, b: 3, c: 2}
    assert several.shifts(placed, 10, NOW) == [Shift(a, b, 1), Shift(c, b, 2)]
    assert several.shifts(placed, 2, NOW) == [Shift(a, b, 1), Shift(c, b, 1)]
    a.health.paused = True
    assert several.shifts(placed, 10, NOW) == [Shift(c, b, 2)]
    b.health.failed(Checks(), NOW, lambda: 0.5)
    assert several.shifts(placed, 10, NOW + GRACE / 2) == []
    assert several.shifts(placed, 10, NOW + GRACE) == [Shift(b, c, 3)]


groups = st.integers(2, 6).flatmap(
    lambda size: st.tuples(
        st.lists(st.integers(1, 9), min_size=size, max_size=size),
        st.lists(st.integers(0, 300), min_size=size, max_size=size),
        st.lists(st.booleans(), min_size=size, max_size=size),
        st.integers(1, 50),
        st.sampled_from(Policy),
    )
)


@given(groups)
def test_it_converges_and_stays(case: tuple[list[int], list[int], list[bool], int, Policy]) -> None:
    """Asked again and again, the moves come to an end, lose nobody, keep to the allowance and send nobody back."""
    weights, held, well, most, policy = case
    several, brokers = group(*weights, policy=policy)
    for broker, is_well in zip(brokers, well, strict=True):
        if not is_well:
            out(broker)
    placed = dict(zip(brokers, held, strict=True))
    before = dict(placed)
    gained: set[Broker] = set()
    lost: set[Broker] = set()
    for _ in range(sum(held) + 1):
        wishes = several.shifts(placed, most, NOW)
        if not wishes:
            break
        assert sum(each.sessions for each in wishes) <= most
        assert all(each.sessions > 0 and each.target.health.up for each in wishes)
        perform(placed, wishes)
        assert min(placed.values()) >= 0
        gained |= {each.target for each in wishes}
        lost |= {each.origin for each in wishes}
    assert several.shifts(placed, most, NOW) == []
    assert several.shifts(placed, 1000, NOW) == []
    assert sum(placed.values()) == sum(held)
    if policy is Policy.TOGETHER:
        assert placed == before  # no session is known to be anywhere: see `test_sessions_go_where_most_are`
    elif policy is not Policy.FAILOVER:
        able = [each for each, is_well in zip(brokers, well, strict=True) if is_well]
        share = sum(before[each] for each in able) / max(sum(each.weight for each in able), 1)
        for each in able:
            # Nobody ends further from its share than it was, but for the one session that cannot be split.
            off, was = abs(placed[each] - share * each.weight), abs(before[each] - share * each.weight)
            assert off <= max(was, 1.0) + 1e-6
            if len(able) > 1:
                assert off <= max(1.0, 0.1 * share * each.weight) + 1e-6
    elif well[0]:
        assert placed[brokers[0]] == sum(held)


def test_an_allowance_by_the_second() -> None:
    """What the rate says each second, saved for no longer than one; 0 is none, ever."""
    allowance = Allowance(10.0)
    assert allowance.left(NOW) == 10
    allowance.spend(10)
    assert allowance.left(NOW) == 0
    assert allowance.left(NOW + 0.5) == 5
    assert allowance.left(NOW + 1) == 10
    allowance.spend(3)
    assert allowance.left(NOW + 1) == 7
    assert allowance.left(NOW + 100) == 10
    allowance = Allowance(0.0)
    assert [allowance.left(NOW + second) for second in range(3)] == [0, 0, 0]


@given(st.floats(0.1, 100.0), st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60))
def test_an_allowance_is_never_exceeded(rate: float, gaps: list[float]) -> None:
    """Whoever takes all there is gets no more than the rate, and what was saved at the start."""
    allowance = Allowance(rate)
    now, spent = NOW, 0
    for gap in gaps:
        now += gap
        left = allowance.left(now)
        assert 0 <= left <= rate + 1
        allowance.spend(left)
        spent += left
    assert spent <= (now - NOW) * rate + rate + 1 + 1e-6

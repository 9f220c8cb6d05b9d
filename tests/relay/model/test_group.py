"""In which order a new session tries the brokers of a group, under each policy; and the options of a failover URI."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.model.group import Broker, Group, Policy, Reconnect
from tests.relay.failing import middle

NOW = 1000.0
STEADY = Reconnect(randomize=False)


def group(
    *weights: int, policy: Policy = Policy.FAILOVER, reconnect: Reconnect | None = STEADY
) -> tuple[Group, list[Broker]]:
    """A group of brokers called a, b, c, ... with these weights."""
    brokers = [
        Broker(f"tcp://{name}:61613", f"tcp:{name}:61613", name, weight=weight)
        for name, weight in zip("abcdefgh", weights, strict=False)
    ]
    return Group("main", tuple(brokers), reconnect, policy), brokers


def names(order: list[Broker]) -> str:
    """The brokers' hosts in a row."""
    return "".join(broker.host for broker in order)


def test_failover_at_random_by_weight() -> None:
    """The first one of a random order is each as often as it weighs."""
    several, _ = group(1, 3, 6, reconnect=Reconnect(randomize=True))
    chance = Random(1).random
    first = Counter(names(several.order(NOW, chance))[0] for _ in range(2000))
    assert [first[each] / 2000 for each in "abc"] == pytest.approx([0.1, 0.3, 0.6], abs=0.04)


def test_so_many_passes() -> None:
    """A new client has one at least; no number of its own is that of all others."""
    given = (0, -1), (3, -1), (-1, 0), (2, 4)
    found = [Reconnect(attempts=later, startup_attempts=start).most(start=True) for later, start in given]
    assert found == [1, 3, 1, 4]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_round_robin_is_exact_and_smooth(weights: list[int]) -> None:
    """In every full turn each broker comes as often as it weighs, and it never lags behind its share by much."""
    several, brokers = group(*weights, policy=Policy.ROUND_ROBIN)
    total = sum(weights)
    for _ in range(2):
        found: Counter[Broker] = Counter()
        for step in range(1, total + 1):
            found[several.order(NOW, middle)[0]] += 1
            assert all(
                abs(found[each] - step * each.weight / total) < len(brokers) / 2 + 1 for each in brokers
            )
        assert [found[each] for each in brokers] == weights


def test_those_on_their_way_count() -> None:
    """A thousand sessions that search at once do not all choose the same broker; three of four the one of weight 3."""
    several, (a, b) = group(1, 3, policy=Policy.LEAST_SESSIONS)
    for _ in range(10):
        a.health.joined()
    for _ in range(1000):
        several.order(NOW, middle)[0].health.coming += 1
    assert (a.health.coming, b.health.coming) == (242, 758)

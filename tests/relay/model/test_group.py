"""In which order a new session tries the brokers of a group, under each policy; and the options of a failover URI."""

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle, permutations
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.model.group import Broker, Group, Policy, Reconnect, alone
from stomprelay.relay.model.health import Checks

NOW = 1000.0
STEADY = Reconnect(randomize=False)
POLICIES = tuple(Policy)


def sequence(*numbers: float) -> Callable[[], float]:
    """A chance that gives these numbers, over and over."""
    source: Iterator[float] = cycle(numbers)
    return lambda: next(source)


def middle() -> float:
    """A chance that favours nobody."""
    return 0.5


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


def out(broker: Broker, now: float = NOW) -> None:
    """Sessions found out that it is down."""
    broker.health.failed(Checks(), now, middle)


def test_a_plain_address_is_a_group_of_one() -> None:
    """It is called by its address, and has no way to re-connect."""
    broker = Broker("tcp://a:61613", "tcp:a:61613")
    (only,) = alone(broker)
    assert (only.name, only.brokers, only.reconnect) == ("tcp://a:61613", (broker,), None)
    assert only.order(NOW, middle) == [broker]


def test_it_shows_as_its_brokers() -> None:
    """Logs name all of them."""
    assert str(group(1, 1)[0]) == "tcp://a:61613,tcp://b:61613"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reconnect", [None, STEADY, Reconnect(), Reconnect(priority_backup=True)])
def test_an_order_has_every_broker_once(policy: Policy, reconnect: Reconnect | None) -> None:
    """Paused and out ones too: who may be tried is the schedule's to say."""
    several, (a, b, *_) = group(3, 1, 2, 1, policy=policy, reconnect=reconnect)
    a.health.pause()
    out(b)
    chance = random.Random(1).random
    for _ in range(50):
        assert sorted(names(several.order(NOW, chance))) == list("abcd")
        assert names(several.order(NOW, chance, several.brokers[2]))[0] == "c"


# Failover


def test_failover_keeps_the_list() -> None:
    """Without `randomize` everybody has the same order."""
    several, _ = group(1, 5, 9)
    assert {names(several.order(NOW, random.Random(7).random)) for _ in range(20)} == {"abc"}


def test_failover_at_random_has_all_orders() -> None:
    """With `randomize` each session has its own, and none is much more frequent than another."""
    several, _ = group(1, 1, 1, reconnect=Reconnect())
    chance = random.Random(1).random
    found = Counter(names(several.order(NOW, chance)) for _ in range(6000))
    assert set(found) == {"".join(each) for each in permutations("abc")}
    assert all(800 < count < 1200 for count in found.values())


def test_failover_at_random_by_a_script() -> None:
    """The lowest chance comes first where weights are equal; equal chances leave the order of the list."""
    several, _ = group(1, 1, 1, reconnect=Reconnect())
    assert names(several.order(NOW, sequence(0.9, 0.5, 0.1))) == "cba"
    assert names(several.order(NOW, sequence(0.5))) == "abc"
    assert names(several.order(NOW, sequence(0.0, 0.999999, 0.5))) == "acb"


def test_the_first_of_the_list_stays_first_with_priority_backup() -> None:
    """A random order is that of the others: sessions would only have to come back to it."""
    several, _ = group(1, 1, 1, reconnect=Reconnect(priority_backup=True))
    chance = random.Random(1).random
    assert {names(several.order(NOW, chance)) for _ in range(50)} == {"abc", "acb"}


@pytest.mark.parametrize("policy", POLICIES)
def test_one_that_is_preferred_comes_first(policy: Policy) -> None:
    """Whatever the policy; the others follow in the order of the list where nothing is random."""
    several, (_, b, _) = group(9, 1, 1, policy=policy)
    assert names(several.order(NOW, middle, b)) == "bac"
    stranger = group(1)[1][0]
    assert names(several.order(NOW, middle, stranger))[0] == "a"


# Round-robin


@pytest.mark.parametrize(
    ("weights", "turns"),
    [
        ((1, 1), "abab"),
        ((1, 1, 1), "abcabc"),
        ((5, 1, 1), "aabacaaaabacaa"),
        ((3, 1), "aabaaaba"),
        ((4,), "aa"),
    ],
)
def test_round_robin_by_weight(weights: tuple[int, ...], turns: str) -> None:
    """Heavy ones come more often, and not all at once."""
    several, _ = group(*weights, policy=Policy.ROUND_ROBIN)
    assert "".join(several.order(NOW, middle)[0].host for _ in turns) == turns


def test_round_robin_goes_on_with_the_neighbour() -> None:
    """Behind the one whose turn it is come those that follow it in the list."""
    several, _ = group(1, 1, 1, policy=Policy.ROUND_ROBIN)
    assert [names(several.order(NOW, middle)) for _ in range(4)] == ["abc", "bca", "cab", "abc"]


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


def test_round_robin_gives_no_turn_to_who_is_out_of_service() -> None:
    """Its turns are shared by all others, not by its neighbour alone; back in service it takes its turns again."""
    several, (_, b, c, _) = group(1, 1, 1, 1, policy=Policy.ROUND_ROBIN)
    b.health.pause()
    out(c)
    found = Counter(several.order(NOW, middle)[0].host for _ in range(100))
    assert found == {"a": 50, "d": 50}
    b.health.resume()
    back = NOW + 2  # the pause of c is over
    found = Counter(several.order(back, middle)[0].host for _ in range(100))
    assert all(abs(count - 25) <= 1 for count in found.values())


def test_round_robin_when_all_are_out_of_service() -> None:
    """Turns go on: those that are out before those that are paused."""
    several, (a, b, c) = group(1, 1, 1, policy=Policy.ROUND_ROBIN)
    for broker in (a, b):
        out(broker)
    c.health.pause()
    assert "".join(several.order(NOW, middle)[0].host for _ in range(4)) == "abab"
    a.health.pause()
    b.health.pause()
    assert sorted(names(several.order(NOW, middle))) == list("abc")


def test_a_preferred_broker_costs_no_turn() -> None:
    """Sessions that are moved do not disturb the turns of those that come."""
    several, (_, _, c) = group(1, 1, 1, policy=Policy.ROUND_ROBIN)
    found = ""
    for _ in range(6):
        found += several.order(NOW, middle)[0].host
        several.order(NOW, middle, c)
    assert found == "abcabc"


# Random


def test_random_by_weight() -> None:
    """Each comes first as often as it weighs, more or less."""
    several, _ = group(1, 2, 7, policy=Policy.RANDOM)
    chance = random.Random(1).random
    found = Counter(several.order(NOW, chance)[0].host for _ in range(10_000))
    assert abs(found["a"] - 1000) < 200
    assert abs(found["b"] - 2000) < 300
    assert abs(found["c"] - 7000) < 300


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_random_takes_any_chance(weights: list[int], source: random.Random) -> None:
    """From 0 up to 1, and however heavy they are."""
    several, brokers = group(*weights, policy=Policy.RANDOM)
    edge = sequence(0.0, 1 - 2**-53)
    assert sorted(names(several.order(NOW, edge))) == sorted(each.host for each in brokers)
    assert sorted(names(several.order(NOW, source.random))) == sorted(each.host for each in brokers)


# Least sessions


def serves(broker: Broker, sessions: int) -> None:
    """It gets so many more."""
    for _ in range(sessions):
        broker.health.joined()


def test_least_sessions() -> None:
    """The emptiest comes first, the fullest last; equals in random order."""
    several, (a, b, c) = group(1, 1, 1, policy=Policy.LEAST_SESSIONS)
    for broker, sessions in (a, 5), (b, 3), (c, 4):
        serves(broker, sessions)
    assert names(several.order(NOW, middle)) == "bca"
    a.health.left(1)
    serves(b, 1)
    chance = random.Random(1).random
    assert {names(several.order(NOW, chance))[0] for _ in range(50)} == set("abc")


def test_least_sessions_by_weight() -> None:
    """A broker of weight 3 is as full with 3 sessions as one of weight 1 with one."""
    several, (a, b) = group(3, 1, policy=Policy.LEAST_SESSIONS)
    for _ in range(400):
        serves(several.order(NOW, middle)[0], 1)
    assert (a.health.sessions, b.health.sessions) == (300, 100)


def test_those_on_their_way_count() -> None:
    """A thousand sessions that search at once do not all choose the same broker."""
    several, (a, b) = group(1, 1, policy=Policy.LEAST_SESSIONS)
    serves(a, 10)
    for _ in range(1000):
        several.order(NOW, middle)[0].health.coming += 1
    assert (a.health.coming, b.health.coming) == (495, 505)


def test_the_defaults_are_activemqs() -> None:
    """10 ms at first, doubled up to 30 s, random order, without end; the jitter is our own."""
    assert dataclasses.asdict(Reconnect()) == {
        "randomize": True,
        "initial_delay": 0.01,
        "longest_delay": 30.0,
        "exponential": True,
        "multiplier": 2.0,
        "jitter": 0.2,
        "attempts": -1,
        "startup_attempts": -1,
        "priority_backup": False,
        "timeout": inf,
        "warn_after": 10,
    }


MOST = [
    # attempts, startup_attempts; passes at start, passes after a loss
    (-1, -1, -1, -1),
    (-1, 0, 1, -1),
    (-1, 1, 1, -1),
    (-1, 3, 3, -1),
    (0, -1, 1, 0),
    (0, 0, 1, 0),
    (0, 3, 3, 0),
    (1, -1, 1, 1),
    (1, 0, 1, 1),
    (5, -1, 5, 5),
    (5, 0, 1, 5),
    (5, 3, 3, 5),
]


@pytest.mark.parametrize(("attempts", "startup", "at_start", "later"), MOST)
def test_how_many_passes(attempts: int, startup: int, at_start: int, later: int) -> None:
    """As in ActiveMQ: no limit of its own for the start means the other one; 0 forbids to re-connect, but a client
    that comes is always tried for once.
    """
    options = Reconnect(attempts=attempts, startup_attempts=startup)
    assert options.most(start=True) == at_start
    assert options.most(start=False) == later


def test_policies_by_name() -> None:
    """The configuration calls them so."""
    assert [policy.value for policy in Policy] == [
        "together", "failover", "round-robin", "random", "least-sessions",
    ]  # fmt: skip

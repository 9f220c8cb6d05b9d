"""What is done to brokers, from a seed."""

from itertools import islice

import pytest

from chaos.faults import BRIEF, DEADLY, LASTING, OFTEN, plan, storm


def test_a_seed_says_it_all() -> None:
    """The same seed gives the same blows, another seed others."""
    assert plan(1, 60, [True, True]) == plan(1, 60, [True, True])
    assert plan(1, 60, [True, True]) != plan(2, 60, [True, True])


def test_each_broker_has_a_plan_of_its_own() -> None:
    """Blows name their broker, and one plan is not the other one's copy."""
    one, two = plan(1, 600, [True, True])
    assert {blow.broker for blow in one} == {0}
    assert {blow.broker for blow in two} == {1}
    assert [blow.fault for blow in one] != [blow.fault for blow in two]


def test_a_longer_run_goes_on_where_the_shorter_one_ends() -> None:
    """So a failure is found again in a run that is cut short behind it."""
    short, long = plan(3, 30, [True])[0], plan(3, 90, [True])[0]
    assert long[: len(short)] == short
    assert len(long) > len(short)


@pytest.mark.parametrize("seed", range(20))
def test_blows_fit_into_the_time(seed: int) -> None:
    """None begins or ends after the run, each lasts as its kind does, and there is a breath between two."""
    for blows in plan(seed, 60, [True, False]):
        assert sum(blow.after + blow.lasting for blow in blows) <= 60
        for blow in blows:
            least, most = LASTING[blow.fault]
            assert least <= blow.lasting <= most
            assert blow.after >= 1


def test_all_kinds_come() -> None:
    """In a long run every kind of fault strikes; what kills only where messages outlive it."""
    durable, forgetful = plan(1, 3600, [True, False])
    assert {blow.fault for blow in durable} == set(LASTING)
    assert {blow.fault for blow in forgetful} == set(LASTING) - DEADLY


def test_no_time() -> None:
    """A run without time has no blows."""
    assert plan(1, 0, [True, True]) == [[], []]


def test_a_storm() -> None:
    """As many faults as are wanted, of every kind and soon after each other, the same for the same seed."""
    blows = list(islice(storm(1, 0, durable=True), 500))
    assert blows == list(islice(storm(1, 0, durable=True), 500))
    assert blows != list(islice(storm(1, 1, durable=True), 500))
    assert {blow.fault for blow in blows} == set(OFTEN) == set(BRIEF) == set(LASTING)
    assert sum(blow.after + blow.lasting for blow in blows) < 500 * 2
    assert {blow.fault for blow in islice(storm(1, 0, durable=False), 500)} == set(OFTEN) - DEADLY

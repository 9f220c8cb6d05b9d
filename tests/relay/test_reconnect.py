"""The options of a failover URI: their defaults, and how many passes they mean."""

import dataclasses
from math import inf

import pytest

from stomprelay.relay.model.group import Policy, Reconnect


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
    assert [policy.value for policy in Policy] == ["failover", "round-robin", "random", "least-sessions"]

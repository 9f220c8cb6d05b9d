"""Token buckets: never more than the rate and the burst allow, to each in the order in which he asked."""

from bisect import bisect_right
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stomprelay.relay.client.turns import Pace
from stomprelay.relay.model import rates as module
from stomprelay.relay.model.rates import (
    PLACES,
    Limit,
    Limiter,
    LimitTally,
    RateLimits,
    Rates,
    Scope,
    TokenBucket,
)

STEPS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=40)
"""Eighths of a second until somebody asks, and for how many tokens."""


def bucket(rate: float, burst: float) -> TokenBucket:
    """A bucket of frames, made at the time 0."""
    return TokenBucket(Scope.LISTENER, Limit.FRAMES, Rates(frames=rate, burst=burst), LimitTally(), 0.0)


@given(st.integers(1, 64), st.integers(1, 16), STEPS, st.data())
def test_never_more(rate: int, seconds: int, steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """By any time no more was used than came in, though some of what was taken is put back."""
    found, now, used = bucket(rate, seconds), 0.0, []
    for wait, tokens in steps:
        now += wait / 8
        at = found.take(tokens, now)
        back = data.draw(st.integers(0, tokens))
        found.give_back(back)
        used.append((at, tokens - back))
    for end, _ in used:
        assert sum(tokens for at, tokens in used if at <= end) <= rate * seconds + rate * end + 1e-6


@given(
    st.integers(1, 50),
    st.integers(1, 5000),
    st.lists(st.lists(st.integers(1, 400), min_size=1, max_size=20), min_size=1, max_size=6),
)
@example(1, 5, [[82], [84], [82]])
@example(1, 250, [[400] * 4] * 6)
def test_sessions_that_share_have_no_more(frames: int, size: int, waiting: list[list[int]]) -> None:
    """Whatever sizes their frames have, all goes on in the end, and each waits no longer than all need together."""
    limiter = Limiter(RateLimits(Rates(frames=frames, bytes=size)))
    paces = [Pace(limiter.buckets(0.0, None, "")) for _ in waiting]
    left = [sum(sizes) for sizes in waiting]
    ends = [[*accumulate(sizes)] for sizes in waiting]
    now, fed, carried = 0.0, [0] * len(waiting), [0] * len(waiting)
    limit = 2 + sum(left) / size + sum(map(len, waiting)) * (1 + 1 / frames)
    while any(left) or carried != [len(sizes) for sizes in waiting]:
        assert now <= limit
        for at, pace in enumerate(paces):
            there = bisect_right(ends[at], fed[at])
            if (left[at] or there > carried[at]) and pace.ready(0 if there > carried[at] else left[at], now):
                count, most = pace.begin()
                taken = min(most, left[at])
                left[at], fed[at] = left[at] - taken, fed[at] + taken
                done = min(count, bisect_right(ends[at], fed[at]) - carried[at])
                carried[at] += done
                pace.done(count - done, most - taken, begun=carried[at] < len(waiting[at]))
                assert sum(fed) <= size * (1 + now) + 1e-6
                assert sum(carried) <= frames * (1 + now) + 1e-6
        now = max(now + 1e-9, min((each.until for each in paces if each.waiting), default=now))


def test_what_all_share_is_divided() -> None:
    """Each of several workers has its part; what is not limited stays so."""
    assert Rates(connects=5, bytes=1000, burst=2.0, refuse=True).share(4) == Rates(
        connects=1.25, bytes=250, burst=2.0, refuse=True
    )


def test_connections_of_a_listener_and_of_an_address() -> None:
    """One too many for either takes no token of the other; where there is no address its limit does not hold."""
    limiter = Limiter(RateLimits(Rates(connects=3), Rates(connects=2)))
    assert [limiter.connect(0.0, "a") for _ in range(2)] == [None, None]
    refused = limiter.connect(0.0, "a")
    assert refused is not None
    assert (refused.scope, refused.spell()) == (Scope.ADDRESS, "the limit for one address is 2 a second")
    assert limiter.connect(0.0, None) is None
    refused = limiter.connect(0.0, "b")
    assert refused is not None
    assert refused.spell() == "the limit of this listener is 3 a second"
    assert limiter.connect(0.5, "a") is None
    assert {key: tally.refused for key, tally in limiter.tallies.items()} == {
        (Scope.LISTENER, Limit.CONNECTS): 1,
        (Scope.ADDRESS, Limit.CONNECTS): 1,
    }


def test_places_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of too many addresses those go whose buckets are full, which a new one is as well; else the oldest."""
    monkeypatch.setattr(module, "PLACES", 3)
    limiter = Limiter(RateLimits(address=Rates(connects=1, burst=2.0)))
    limiter.buckets(0.0, "full", "")
    for name in ("a", "b"):
        assert limiter.connect(0.0, name) is None
    assert limiter.connect(0.0, "c") is None
    assert sorted(limiter._places[Scope.ADDRESS]) == ["a", "b", "c"]
    assert limiter.connect(0.5, "a") is None
    assert limiter.connect(0.5, "d") is None
    assert sorted(limiter._places[Scope.ADDRESS]) == ["a", "c", "d"]
    assert limiter.connect(0.5, "a") is not None, "its bucket is the same one"
    assert PLACES > 1000


def test_nothing_is_kept_where_nothing_is_limited() -> None:
    """No bucket, and no place for an address or a user."""
    limiter = Limiter(RateLimits())
    assert limiter.buckets(0.0, "192.0.2.1", "ann") == ()
    assert limiter.connect(0.0, "192.0.2.1") is None
    assert not any(limiter._places.values())
    assert not limiter.asks_address

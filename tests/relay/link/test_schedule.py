"""Where a session looks for its broker, and when: each search with a clock of plain numbers."""

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from math import inf
from typing import Final
from unittest.mock import Mock, call

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.link.link import SHORTEST, Attempt, Schedule
from stomprelay.relay.model.group import REMEMBERED, Broker, Checks, Group, Policy, Reconnect
from stomprelay.session.handshake import Offer
from tests.relay.failing import middle

NOW: Final = 1000.0
STEADY: Final = Reconnect(randomize=False, jitter=0.0)
OFFER = Offer([], frozenset(), None)


class Search:
    """A session that searches in a group of brokers a, b, c, ..., and a clock."""

    def __init__(
        self,
        names: str = "abc",
        options: Reconnect | None = STEADY,
        *,
        rate: float = 0.0,
        chance: Callable[[], float] = middle,
        policy: Policy = Policy.FAILOVER,
    ) -> None:
        self.brokers = {name: Broker(f"tcp://{name}", f"tcp:{name}", name) for name in names}
        self.group = Group("main", tuple(self.brokers.values()), options, policy)
        self.schedule = Schedule(self.group, rate, chance, OFFER)
        self.now = NOW

    def begins(self, *, start: bool = False, prefer: str | None = None) -> None:
        """A client comes, or a broker is lost."""
        self.schedule.begin(self.now, start=start, prefer=None if prefer is None else self.brokers[prefer])

    def served(self, name: str) -> None:
        """A client came and this broker accepted it."""
        self.begins(start=True, prefer=name)
        assert self.schedule.next(self.now) == (self.brokers[name], self.now)
        self.schedule.ended()

    def goes(self) -> tuple[str, float]:
        """The next attempt: the broker and how long from now; the clock goes on to it."""
        attempt = self.schedule.next(self.now)
        assert attempt is not None
        assert attempt.broker is not None
        wait = attempt.at - self.now
        self.now = attempt.at
        return attempt.broker.host, round(wait, 6)

    def goes_on(self, attempts: int) -> str:
        """So many attempts: their brokers in a row, with a blank where there is a pause."""
        found = ""
        for _ in range(attempts):
            name, wait = self.goes()
            found += " " * bool(wait) + name
        return found

    def waits(self, passes: int) -> list[float]:
        """How long each of so many passes is waited for, where every attempt fails at once."""
        found = []
        for _ in range(passes):
            found.append(self.goes()[1])
            for _ in range(len(self.brokers) - 1):
                assert self.goes()[1] == 0
        return found

    def is_over(self) -> bool:
        """Whether the session is given up."""
        return self.schedule.next(self.now) is None

    def fails(self, name: str, pause: float = 1.0) -> None:
        """Somebody finds out that a broker is down."""
        self.brokers[name].health.failed(Checks(pause=pause), self.now, middle)

    def pauses(self, names: str, *, paused: bool = True) -> None:
        """An operator takes brokers out of service, or back."""
        for name in names:
            self.brokers[name].health.paused = paused


def test_pauses_begin_anew_when_a_broker_is_back() -> None:
    """Who waited for long, and is closed at once by the broker that is back, asks the next one soon."""
    search = Search("ab")
    search.served("a")
    search.begins()
    search.waits(10)
    search.schedule.reconsider(search.now)
    assert search.goes() == ("a", 0.0)
    search.schedule.found(search.now)
    search.begins()
    assert search.goes() == ("b", 0.01)


def test_an_attempt_does_not_stand_once_its_broker_is_out() -> None:
    """When its time has come others may have found out; it is tried later in the pass all the same."""
    search = Search(rate=1.0)
    search.brokers["b"].health.slot(1.0, NOW)  # somebody has the first slot
    search.served("a")
    search.begins(prefer="b")
    assert search.goes() == ("b", 1.0)
    search.fails("b", pause=60.0)
    assert not search.schedule.stands(search.now)
    assert search.goes_on(3) == "ca b"  # a, being left, is last of those that are well; b has slots
    assert search.schedule.stands(search.now)


def test_whoever_reconsiders_keeps_its_place() -> None:
    """Brokers that come and go do not push the sessions that wait further and further back."""
    search = Search("ab")
    lost = [Schedule(search.group, 500.0, middle, OFFER) for _ in range(1000)]
    for each in lost:
        each.begin(NOW, start=True, prefer=search.brokers["a"])
        assert each.next(NOW) == (search.brokers["a"], NOW)
        each.ended()
        each.begin(NOW, start=False, prefer=search.brokers["b"])
    before = [each.next(NOW) for each in lost]
    for _ in range(20):
        for each in lost:
            each.reconsider(NOW)
        assert [each.next(NOW) for each in lost] == before
    assert before[-1] is not None
    assert before[-1].at == pytest.approx(NOW + 999 / 500)


def test_sessions_on_their_way_count_once() -> None:
    """For the broker of their attempt, from `next` to the following call."""
    search = Search("ab", replace(STEADY, attempts=1, initial_delay=1.0))
    a, b = (each.health for each in search.brokers.values())
    search.begins(start=True)
    assert (a.coming, b.coming) == (0, 0)
    for _ in range(3):
        search.schedule.next(NOW)
        assert a.coming + b.coming <= 1
    assert search.is_over() or a.coming + b.coming == 1
    search.begins(prefer="b")
    assert (a.coming, b.coming) == (0, 0)
    search.schedule.next(NOW)
    assert (a.coming, b.coming) == (0, 1)
    search.schedule.reconsider(NOW)
    assert (a.coming, b.coming) == (0, 0)
    search.schedule.next(NOW)
    search.schedule.ended()
    search.schedule.ended()
    assert (a.coming, b.coming) == (0, 0)


options = st.builds(
    Reconnect,
    randomize=st.booleans(),
    initial_delay=st.floats(0.0, 5.0),
    longest_delay=st.floats(0.001, 10.0),
    exponential=st.booleans(),
    multiplier=st.floats(1.0, 10.0),
    jitter=st.floats(0.0, 1.0),
    attempts=st.integers(-1, 4),
    startup_attempts=st.integers(-1, 4),
    priority_backup=st.booleans(),
    timeout=st.one_of(st.just(inf), st.floats(0.1, 100.0)),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["try", "try", "try", "fail", "answer", "pause", "resume", "reconsider", "begin"]),
        st.integers(0, 3),
        st.floats(0.0, 20.0),
    ),
    max_size=60,
)


@given(
    options=options,
    size=st.integers(1, 4),
    policy=st.sampled_from(Policy),
    start=st.booleans(),
    rate=st.sampled_from([0.0, 0.5, 100.0]),
    script=steps,
    chances=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=7),
)
def test_whatever_happens(
    options: Reconnect,
    size: int,
    policy: Policy,
    start: bool,
    rate: float,
    script: list[tuple[str, int, float]],
    chances: list[float],
) -> None:
    """No attempt in the past, none on a paused broker, no delay over the longest, the end where there must be one."""
    search = Search("abcd"[:size], options, rate=rate, chance=cycle(chances).__next__, policy=policy)
    schedule, brokers = search.schedule, list(search.brokers.values())
    longest = max(options.longest_delay, SHORTEST) * (1 + options.jitter)
    search.begins(start=start)
    slots = 0
    for what, which, time in script:
        search.now += time / 10
        broker = brokers[which % size]
        match what:
            case "fail":
                broker.health.failed(Checks(), search.now, middle)
            case "answer":
                broker.health.answered()
            case "pause":
                broker.health.paused = True
            case "resume":
                broker.health.paused = False
            case "reconsider":
                schedule.reconsider(search.now)
            case "begin":
                search.begins(start=bool(which % 2), prefer=broker.host if which > 1 else None)
            case _:
                attempt = schedule.next(search.now)
                kept = all(each.health.paused for each in brokers)
                if attempt is None:
                    assert not kept
                    assert sum(each.health.coming for each in brokers) == 0
                    assert search.now >= schedule.deadline or 0 <= schedule._most <= schedule.passes
                elif attempt.broker is None:
                    assert kept
                    assert attempt.at == inf == schedule.deadline
                else:
                    slots += 1
                    assert not attempt.broker.health.paused
                    assert attempt.broker is schedule.last
                    assert search.now < schedule.deadline
                    wait = attempt.at - search.now
                    assert 0 <= wait <= longest + (slots / rate if rate else 0) + 1e-6
                    assert attempt.broker.health.coming == 1
                    if wait < time:
                        search.now = attempt.at
                        if schedule.stands(search.now):
                            attempt.broker.health.failed(Checks(), search.now, middle)
        assert sum(each.health.coming for each in brokers) <= 1


@given(
    options=options,
    size=st.integers(1, 5),
    paused=st.sets(st.integers(0, 4)),
    policy=st.sampled_from(Policy),
    start=st.booleans(),
    chances=st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=1, max_size=7),
)
def test_each_pass_has_each_broker_once(
    options: Reconnect, size: int, paused: set[int], policy: Policy, start: bool, chances: list[float]
) -> None:
    """Save the paused ones, without a wait in between, as many passes as there may be, then the end."""
    options = replace(options, timeout=inf)
    search = Search("abcde"[:size], options, chance=cycle(chances).__next__, policy=policy)
    names = [name for at, name in enumerate(search.brokers) if at not in paused]
    search.pauses("".join(name for name in search.brokers if name not in names))
    search.begins(start=start)
    if not names:
        assert search.schedule.next(search.now) == Attempt(None, inf)
        return
    most = options.most(start=start)
    for number in range(6 if most < 0 else most):
        tried = ""
        for at in range(len(names)):
            name, wait = search.goes()
            search.fails(name)
            tried += name
            assert search.schedule.passes == number
            if at:
                assert wait == 0
        assert sorted(tried) == names
    assert search.is_over() is (most >= 0)


def together(**brokers: int) -> Search:
    """A search of a session where all are to be together, and these brokers have so many already."""
    search = Search("".join(brokers), replace(STEADY, randomize=True), policy=Policy.TOGETHER)
    for name, sessions in brokers.items():
        for _ in range(sessions):
            health = search.brokers[name].health
            health.answered()
            health.joined()
    return search


def test_all_go_where_the_others_are() -> None:
    """Or where the last one was, for a while, unless that broker went down since; though it refuses once."""
    search = together(a=0, b=2)
    search.begins(start=True)
    assert search.goes() == ("b", 0.0)
    search.fails("b")
    assert search.goes_on(3).replace(" ", "") == "bbb"
    assert search.schedule.passes == 0
    search = together(a=0, b=1)
    assert search.group.home(search.now) is search.brokers["b"]
    search.brokers["b"].health.left(1)
    for after, order in ((0.0, "ba"), (REMEMBERED, "ab")):
        assert order == "".join(each.host for each in search.group.order(search.now + after, middle))
    search.fails("b")
    assert search.group.order(search.now, middle)[0].host == "a"


def test_the_others_leave_while_it_waits() -> None:
    """Who was to go back to a broker goes where the others are by then, or tries it last where they are nowhere yet."""
    for found in (True, False):
        search = together(a=1, b=0, c=0)
        search.served("a")
        search.begins()
        assert search.goes() == ("a", 0.01)
        search.brokers["a"].health.left(1)
        if found:
            search.brokers["b"].health.joined()
        assert not search.schedule.stands(search.now)
        assert search.goes() == ("b", 0.0)
        assert search.schedule.stands(search.now)


def test_all_processes_of_a_relay_go_to_one_broker() -> None:
    """What another has there counts, and so does what another finds gone."""
    search = together(a=1, b=0)
    a, b = (each.health for each in search.brokers.values())
    a.others = Mock(sessions=lambda: 0, gone=lambda: False)
    b.others = Mock(sessions=lambda: 2, gone=lambda: False)
    search.begins(start=True)
    assert search.goes()[0] == "b"
    b.others.gone = lambda: True
    search.begins(start=True)
    assert search.goes()[0] == "a"
    a.joined()
    a.failed(Checks(), search.now, middle, silent=True)
    assert a.gone(search.now)
    assert a.others.tell.call_args_list == [call(2, False), call(2, True)]

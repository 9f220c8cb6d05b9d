"""Pausing and resuming: what becomes of brokers, and what sessions are told."""

from pathlib import Path
from typing import Any

import pytest

from stomprelay.service.roster import ALL, Roster
from stomprelay.service.switchover import Switchover
from tests.service.diary import Diary
from tests.service.house import failover, listener, movable, upstream
from tests.service.understudy import Link, Rehearsal


class Stand:
    """Two brokers, and three sessions: one on each broker, one that is looking for one."""

    def __init__(self) -> None:
        self.roster = Roster([listener(upstream=movable(failover(1, 2), drain_timeout=5.0))])
        self.one, self.two = (entry.broker for entry in self.roster)
        self.plays = [Rehearsal() for _ in range(3)]
        for play, on in zip(self.plays, (self.one, self.two, None), strict=True):
            play.relay.links = (Link(on),)
        self.switchover = Switchover(lambda: [play.session for play in self.plays])
        self.told()

    def told(self) -> list[list[tuple[Any, ...]]]:
        """What each session was told since the last look."""
        return [play.said() for play in self.plays]


@pytest.fixture
def stand() -> Stand:
    """All is well."""
    return Stand()


def test_pausing_a_broker(stand: Stand, log: list[str]) -> None:
    """It is out of service, and its sessions are told to leave within the time that its upstream gives."""
    stand.one.health.sessions = 1
    stand.switchover.pause(stand.roster.named("192.0.2.1:61613"))
    assert stand.one.health.paused
    assert not stand.two.health.paused
    assert stand.told() == [[("leave", stand.one, 5.0, None)], [], []]
    assert log == [
        "info: upstream main: broker tcp://192.0.2.1:61613 is paused, its sessions (1) leave it",
    ]


def test_an_operator_may_say_how_long_it_takes(stand: Stand) -> None:
    """At once, too."""
    stand.switchover.pause(stand.roster.named(ALL), 0.0)
    assert stand.told() == [[("leave", stand.one, 0.0, None)], [("leave", stand.two, 0.0, None)], []]


def test_pausing_twice(stand: Stand, log: list[str]) -> None:
    """Sessions that are leaving are not told again; one that came late is; the log has it once."""
    stand.switchover.pause(stand.roster.named(ALL))
    stand.told()
    log.clear()
    stand.plays[0].relay.links[0].moving = True
    stand.plays[2].relay.links = (Link(stand.one),)
    stand.switchover.pause(stand.roster.named(ALL))
    assert stand.told() == [[], [("leave", stand.two, 5.0, None)], [("leave", stand.one, 5.0, None)]]
    assert log == []


def test_an_operator_who_loses_patience(stand: Stand) -> None:
    """A time that is said holds for sessions that are leaving, too."""
    stand.plays[0].relay.links[0].moving = True
    stand.switchover.pause(stand.roster.named("192.0.2.1:61613"), 0.0)
    assert stand.told() == [[("leave", stand.one, 0.0, None)], [], []]


def test_a_plain_address_is_paused_for_those_that_come(log: list[str]) -> None:
    """Who is there cannot go anywhere, which the log does not hide."""
    roster = Roster([listener(upstream=upstream())])
    Switchover(list).pause(roster.named(ALL))
    assert log == [
        "info: upstream main: broker tcp://192.0.2.1:61613 is paused, its sessions (0) stay, for it has no other"
    ]


def test_a_session_on_two_brokers(stand: Stand) -> None:
    """It leaves each of them; twice on one is told once."""
    stand.plays[0].relay.links = (Link(stand.one), Link(stand.two), Link(stand.one))
    stand.switchover.pause(stand.roster.named(ALL))
    told = stand.told()[0]
    assert sorted(str(place) for _, place, _, _ in told) == [str(stand.one), str(stand.two)]


def test_resuming_a_broker(stand: Stand, log: list[str]) -> None:
    """Every session is told: who waits for one tries at once."""
    stand.switchover.pause(stand.roster.named(ALL))
    stand.told()
    log.clear()
    stand.switchover.resume(stand.roster.named("tcp://192.0.2.1:61613"))
    assert not stand.one.health.paused
    assert stand.two.health.paused
    assert stand.told() == [[("reconsidered",)]] * 3
    assert log == ["info: upstream main: broker tcp://192.0.2.1:61613 is resumed"]


def test_resuming_what_was_not_paused(stand: Stand, log: list[str]) -> None:
    """Nothing changed, and nobody is told."""
    stand.switchover.resume(stand.roster.named(ALL))
    assert stand.told() == [[], [], []]
    assert log == []


def test_sessions_that_end_by_being_told(stand: Stand) -> None:
    """Who goes meanwhile spoils nothing for the others."""
    sessions = {play.session for play in stand.plays}
    switchover = Switchover(lambda: sessions)
    for play in stand.plays:
        play.relay.links = (Link(stand.one),)
        play.stage.over = sessions.discard
        play.client.goes()
    sessions.update(play.session for play in stand.plays)
    switchover.pause(stand.roster.named(ALL))
    assert sessions == set()


def test_the_journal_has_it(tmp_path: Path) -> None:
    """Each broker once, when it changes."""
    diary = Diary(tmp_path, listener(upstream=movable(failover(1, 2))))
    entries = diary.service.roster.named("192.0.2.1:61613")
    for _ in range(2):
        diary.service.switchover.pause(entries)
    for _ in range(2):
        diary.service.switchover.resume(entries)
    paused, resumed = diary.read()
    facts = {"upstream": "main", "broker": "tcp://192.0.2.1:61613"}
    assert (paused.event, paused.facts) == ("broker paused", facts)
    assert (resumed.event, resumed.facts) == ("broker resumed", facts)
    assert (paused.context.upstream, paused.context.broker) == ("main", "tcp://192.0.2.1:61613")

"""Pausing and resuming: what becomes of brokers, and what sessions are told."""

from pathlib import Path
from typing import Any

import pytest

from stomprelay.relay.link.link import BalanceMove
from stomprelay.service.brokers import ALL, Brokers, Pauses
from tests.service.harness import JournalHarness, failover, listener, movable, upstream
from tests.service.scripted import Link, ScriptedSession


class PausedBrokers:
    """Two brokers, and three sessions: one on each broker, one that is looking for one."""

    def __init__(self) -> None:
        self.brokers = Brokers([movable(failover(1, 2), drain_timeout=5.0)])
        self.one, self.two = (entry.broker for entry in self.brokers)
        self.scripted_sessions = [ScriptedSession() for _ in range(3)]
        for scripted, on in zip(self.scripted_sessions, (self.one, self.two, None), strict=True):
            scripted.relay.links = (Link(on),)
        self.switchover = Pauses([scripted.session for scripted in self.scripted_sessions])
        self.told()

    def told(self) -> list[list[tuple[Any, ...]]]:
        """What each session was told since the last look."""
        return [scripted.said() for scripted in self.scripted_sessions]


@pytest.fixture
def harness() -> PausedBrokers:
    """All is well."""
    return PausedBrokers()


def test_pausing_twice(harness: PausedBrokers, log: list[str]) -> None:
    """Sessions that are leaving are not told again; one that came late is; the log has it once."""
    harness.switchover.pause(harness.brokers.find(ALL))
    harness.told()
    log.clear()
    harness.scripted_sessions[0].relay.links[0].moving = BalanceMove(None, False, 0.0)
    harness.scripted_sessions[2].relay.links = (Link(harness.one),)
    harness.switchover.pause(harness.brokers.find(ALL))
    assert harness.told() == [[], [("leave", harness.two, 5.0, None)], [("leave", harness.one, 5.0, None)]]
    assert log == []


def test_whether_it_was_in_service(harness: PausedBrokers) -> None:
    """Who pauses or resumes a broker learns whether that changed anything."""
    health = harness.one.health
    assert (health.pause(), health.pause(), health.paused) == (True, False, True)
    assert (health.resume(), health.resume(), health.paused) == (True, False, False)


def test_a_plain_address_is_paused_for_those_that_come(log: list[str]) -> None:
    """Who is there cannot go anywhere, which the log does not hide."""
    brokers = Brokers([upstream()])
    Pauses([]).pause(brokers.find(ALL))
    assert log == [
        "info: upstream main: broker tcp://192.0.2.1:61613 is paused, its sessions (0) stay, for it has no other"
    ]


def test_the_journal_has_it(tmp_path: Path) -> None:
    """Each broker once, when it changes."""
    harness = JournalHarness(tmp_path, listener(upstream=movable(failover(1, 2))))
    entries = harness.service.state.brokers.find("192.0.2.1:61613")
    for _ in range(2):
        harness.service.state.pauses.pause(entries)
    for _ in range(2):
        harness.service.state.pauses.resume(entries)
    paused, resumed = harness.read()
    facts = {"upstream": "main", "broker": "tcp://192.0.2.1:61613"}
    assert (paused.event, paused.facts) == ("broker paused", facts)
    assert (resumed.event, resumed.facts) == ("broker resumed", facts)
    assert (paused.context.upstream, paused.context.broker) == ("main", "tcp://192.0.2.1:61613")

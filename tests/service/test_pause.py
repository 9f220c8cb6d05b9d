"""Pausing and resuming: what becomes of brokers, and what sessions are told."""

from pathlib import Path

from stomprelay.relay.link.link import BalanceMove
from stomprelay.service.brokers import ALL, Brokers, Pauses
from tests.service.harness import JournalHarness, failover, listener, movable, upstream
from tests.service.scripted import Link, ScriptedSession


def test_pausing_twice(log: list[str]) -> None:
    """Sessions that are leaving are not told again; one that came late is; the log has it once."""
    brokers = Brokers([movable(failover(1, 2), drain_timeout=5.0)])
    one, two = (entry.broker for entry in brokers)
    sessions = leaving, staying, late = [ScriptedSession() for _ in range(3)]
    leaving.relay.links, staying.relay.links = (Link(one),), (Link(two),)
    pauses = Pauses([each.session for each in sessions])
    pauses.pause(brokers.find(ALL))
    for each in sessions:
        each.said()
    log.clear()
    leaving.relay.links[0].moving = BalanceMove(None, False, 0.0)
    late.relay.links = (Link(one),)
    pauses.pause(brokers.find(ALL))
    told = [each.said() for each in sessions]
    assert told == [[], [("leave", two, 5.0, None)], [("leave", one, 5.0, None)]]
    assert log == []


def test_whether_it_was_in_service() -> None:
    """Who pauses or resumes a broker learns whether that changed anything."""
    [entry] = Brokers([upstream()])
    health = entry.broker.health
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

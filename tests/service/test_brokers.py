"""The brokers of a service: rounds of probes, sessions that go where they belong, pauses, and what they are called."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stomprelay.config.address import host_and_port
from stomprelay.relay.link.link import BalanceMove
from stomprelay.relay.model.group import Broker, Checks, Group
from stomprelay.service.brokers import ALL, WATCHED, Brokers, Pauses
from tests.service.harness import (
    CONNECT,
    FakeTransport,
    JournalHarness,
    RelayHarness,
    failover,
    listener,
    movable,
    result,
    upstream,
)
from tests.service.scripted import Link, ScriptedBrokers, ScriptedSession


def brokers_of(group: Group, **settings: Any) -> ScriptedBrokers:
    """The brokers of a relay in front of this group."""
    return ScriptedBrokers(RelayHarness(listener(upstream=movable(group, **settings))))


def client_of(brokers: ScriptedBrokers) -> FakeTransport:
    """A client, and a broker for it."""
    client = brokers.harness.client()
    client.sends(CONNECT)
    brokers.answer()
    return client


# Probes


def test_a_probe_finds_an_outage_that_no_client_met(log: list[str]) -> None:
    """And its end; each is told once, and sessions that come do not try that broker."""
    brokers = brokers_of(failover(1, 2), checks=Checks(probe=2.0, longest_pause=1.0))
    brokers.up = {2}
    brokers.pass_time(4)
    assert [line for line in log if "is down" in line] == [
        "warn: upstream main: broker tcp://192.0.2.1:61613 is down: it did not connect: connection refused "
        "(0 sessions lost it so far)"
    ]
    brokers.up = {1, 2}
    brokers.pass_time(4)
    assert re.fullmatch(
        "info: upstream main: broker tcp://192.0.2.1:61613 is back after [0-9.]+ s: 0 sessions lost it, "
        "0 went on elsewhere, 0 waited for it, [0-9]+ attempts? failed",
        log[-1],
    )
    assert sum("is back" in line for line in log) == 1


def test_probes_end_with_the_service() -> None:
    """One that is under way is not waited for."""
    here = RelayHarness(listener(upstream=upstream(checks=Checks(probe=1.0))))
    here.reactor.advance(3)
    assert len(here.reactor.tcpClients) == 1
    stopped = here.service.stopService()
    assert here.reactor.connectors[0].stoppedConnecting
    result(stopped)
    assert here.service.state.runtime.protocols == {}
    here.reactor.advance(0)
    assert here.reactor.getDelayedCalls() == []


# Balance


def test_sessions_return_to_the_preferred_broker() -> None:
    """As many a second as may; those that are not quiet stay until they are."""
    brokers = brokers_of(failover(1, 2, priority_backup=True), rebalance_rate=2.0)
    clients = [client_of(brokers) for _ in range(6)]
    assert brokers.sessions == [6, 0]
    brokers.fail(1)
    brokers.pass_time(2)
    assert brokers.sessions == [0, 6]
    clients[0].sends(b"BEGIN\ntransaction:t\n\n\0")
    brokers.up.add(1)
    seen = [0]
    for _ in range(30):
        brokers.pass_time(1)
        seen.append(brokers.sessions[0])
    assert brokers.sessions == [5, 1]
    assert all(after - before <= 3 for before, after in pairwise(seen))
    clients[0].sends(b"ABORT\ntransaction:t\n\n\0")
    brokers.pass_time(2)
    assert brokers.sessions == [6, 0]
    assert all(client.ends == [] for client in clients)


# Trouble


def test_a_round_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    """It is logged, its other parts are done, and the next one comes."""
    brokers = brokers_of(failover(1, 2, priority_backup=True))
    client_of(brokers)
    brokers.fail(1)
    brokers.up.add(1)
    calls: list[float] = []

    def fails(*_: object) -> list[object]:
        calls.append(brokers.harness.reactor.seconds())
        raise ZeroDivisionError

    monkeypatch.setattr(Group, "shifts", fails)
    brokers.pass_time(3)
    assert calls == [1.0, 2.0, 3.0]
    assert sum(line.startswith("critical: a round failed") for line in log) == 3


def confirmed(client: FakeTransport, broker: FakeTransport) -> None:
    """A SEND and its RECEIPT."""
    client.sends(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
    broker.sends(b"RECEIPT\nreceipt-id:1\n\n\0")


def measured(harness: RelayHarness) -> int:
    """How many samples there are of RECEIPTs."""
    times = harness.service.state.runtime.tallies.times
    return sum(found.count for (name, _), found in times.items() if name == "receipt")


def test_samples_are_taken_of_sessions_in_turn() -> None:
    """A few a second, of those that do something; each is left alone when there is a sample, or nothing to be one."""
    harness = RelayHarness(listener(), admin="tcp:0")
    pairs = [harness.session() for _ in range(WATCHED + 4)]
    for _ in range(2):
        for client, _ in pairs:
            client.sends(b"SEND\ndestination:/queue/a\n\nx\0")
        harness.reactor.advance(1)
        watched = [session.watched for session in harness.service.state.sessions]
        assert sum(watched) == WATCHED
        for pair in pairs:
            confirmed(*pair)
    assert measured(harness) >= WATCHED
    for _ in range(5):
        harness.reactor.advance(1)
    assert not any(session.watched for session in harness.service.state.sessions)


# Pausing and resuming


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


# Their names


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("tcp:host=broker.example:port=61613", "broker.example:61613"),
        ("tcp:broker.example:61613", "broker.example:61613"),
        (r"tcp:host=2001\:db8\:\:1:port=61613", "[2001:db8::1]:61613"),
        ("tls:broker.example:61614", "broker.example:61614"),
        ("unix:/run/broker.sock", None),
        ("memory:", None),
        ("own:parser", None),
        ("tcp:port=none", None),
    ],
)
def test_host_and_port(endpoint: str, words: str | None) -> None:
    """Of any endpoint that has both."""
    assert host_and_port(Broker("uri", endpoint)) == words

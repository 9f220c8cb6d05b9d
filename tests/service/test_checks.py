"""The rounds: probes, brokers that came back, and sessions that go where they belong."""

import re
from itertools import pairwise
from typing import Any

import pytest

from stomprelay.relay.model.group import Checks, Group
from stomprelay.service.brokers import WATCHED
from tests.service.harness import (
    CONNECT,
    FakeTransport,
    RelayHarness,
    failover,
    listener,
    movable,
    result,
    upstream,
)
from tests.service.scripted import ScriptedBrokers


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

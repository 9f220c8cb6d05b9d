"""The rounds: probes, brokers that came back, and sessions that go where they belong."""

import re
from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionLost, ConnectionRefusedError

from stomprelay.relay.model.group import Checks, Group
from stomprelay.service.brokers import WATCHED
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    FakeTransport,
    RelayHarness,
    failover,
    listener,
    movable,
    upstream,
)


def harness(*groups: Group, **settings: Any) -> RelayHarness:
    """A relay in front of these groups."""
    return RelayHarness(listener(upstream=movable(*groups, **settings)))


class ScriptedBrokers:
    """A harness whose brokers answer or not as the test says: by number, those in `up` do."""

    def __init__(self, harness: RelayHarness) -> None:
        self.harness = harness
        self.up = {1, 2, 3}
        self.transports: dict[int, list[FakeTransport]] = {1: [], 2: [], 3: []}

    def answer(self) -> None:
        """All attempts that are under way find their brokers, and those their CONNECTED."""
        reactor = self.harness.reactor
        while reactor.tcpClients:
            host, _, factory, _, _ = reactor.tcpClients.pop(0)
            number = int(host.rpartition(".")[2])
            if number not in self.up:
                reactor.tcpClients.append((host, 0, factory, 0, None))
                self.harness.refuse(ConnectionRefusedError())
                continue
            transport = FakeTransport(factory.buildProtocol(None), IPv4Address("TCP", host, 61613))
            transport.protocol.makeConnection(transport)
            self.transports[number].append(transport)
            if b"CONNECT\n" in transport.written():
                transport.sends(CONNECTED)

    def client(self) -> FakeTransport:
        """A client, and a broker for it."""
        client = self.harness.client()
        client.sends(CONNECT)
        self.answer()
        return client

    def fail(self, number: int) -> None:
        """A broker goes down with all its connections."""
        self.up.discard(number)
        transports, self.transports[number] = self.transports[number], []
        for transport in transports:
            if not transport.ends:
                transport.disconnects(ConnectionLost())
        self.answer()

    def pass_time(self, seconds: int) -> None:
        """Second by second; whoever is told DISCONNECT confirms it."""
        for _ in range(seconds):
            self.harness.reactor.advance(1)
            self.answer()
            for transports in self.transports.values():
                for transport in transports:
                    said = transport.written()
                    if not transport.ends and b"DISCONNECT\nreceipt:" in said:
                        receipt = said.partition(b"DISCONNECT\nreceipt:")[2].partition(b"\n")[0]
                        transport.sends(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
                        transport.disconnects()
            self.answer()

    @property
    def sessions(self) -> list[int]:
        """How many sessions each broker has."""
        return [entry.broker.health.sessions for entry in self.harness.service.state.brokers]


# Probes


def test_a_probe_finds_an_outage_that_no_client_met(log: list[str]) -> None:
    """And its end; each is told once, and sessions that come do not try that broker."""
    brokers = ScriptedBrokers(harness(failover(1, 2), checks=Checks(probe=2.0, longest_pause=1.0)))
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
    stopped: list[object] = []
    _ = here.service.stopService().addCallback(stopped.append)
    assert here.reactor.connectors[0].stoppedConnecting
    assert stopped == [None]
    assert here.service.state.runtime.protocols == {}
    here.reactor.advance(0)
    assert here.reactor.getDelayedCalls() == []


# Balance


def test_sessions_return_to_the_preferred_broker() -> None:
    """As many a second as may; those that are not quiet stay until they are."""
    brokers = ScriptedBrokers(harness(failover(1, 2, priority_backup=True), rebalance_rate=2.0))
    clients = [brokers.client() for _ in range(6)]
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
    brokers = ScriptedBrokers(harness(failover(1, 2, priority_backup=True)))
    brokers.client()
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

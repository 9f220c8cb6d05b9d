"""The rounds: probes, brokers that came back, and sessions that go where they belong."""

from itertools import pairwise
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionLost, ConnectionRefusedError

from stomprelay.relay.model.group import Group, Policy, Reconnect
from stomprelay.relay.model.health import Checks
from stomprelay.service import rounds
from tests.service.house import (
    CONNECT,
    CONNECTED,
    House,
    Wire,
    broker,
    failover,
    listener,
    movable,
    upstream,
)

NEVER = 1e9


def house(*groups: Group, **settings: Any) -> House:
    """A relay in front of these groups."""
    return House(listener(upstream=movable(*groups, **settings)))


class Sea:
    """A house whose brokers answer or not as the test says: by number, those in `up` do."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.up = {1, 2, 3}
        self.wires: dict[int, list[Wire]] = {1: [], 2: [], 3: []}

    def answer(self) -> None:
        """All attempts that are under way find their brokers, and those their CONNECTED."""
        reactor = self.house.reactor
        while reactor.tcpClients:
            host, _, factory, _, _ = reactor.tcpClients.pop(0)
            number = int(host.rpartition(".")[2])
            if number not in self.up:
                reactor.tcpClients.append((host, 0, factory, 0, None))
                self.house.refuse(ConnectionRefusedError())
                continue
            wire = Wire(factory.buildProtocol(None), IPv4Address("TCP", host, 61613))
            wire.protocol.makeConnection(wire)
            self.wires[number].append(wire)
            if b"CONNECT\n" in wire.written():
                wire.says(CONNECTED)

    def client(self) -> Wire:
        """A client, and a broker for it."""
        client = self.house.client()
        client.says(CONNECT)
        self.answer()
        return client

    def sink(self, number: int) -> None:
        """A broker goes down with all its connections."""
        self.up.discard(number)
        wires, self.wires[number] = self.wires[number], []
        for wire in wires:
            if not wire.ends:
                wire.goes(ConnectionLost())
        self.answer()

    def pass_time(self, seconds: int) -> None:
        """Second by second; whoever is told DISCONNECT confirms it."""
        for _ in range(seconds):
            self.house.reactor.advance(1)
            self.answer()
            for wires in self.wires.values():
                for wire in wires:
                    said = wire.written()
                    if not wire.ends and b"DISCONNECT\nreceipt:" in said:
                        receipt = said.partition(b"DISCONNECT\nreceipt:")[2].partition(b"\n")[0]
                        wire.says(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
                        wire.goes()
            self.answer()

    @property
    def sessions(self) -> list[int]:
        """How many sessions each broker has."""
        return [entry.broker.health.sessions for entry in self.house.service.roster]


def test_no_rounds_are_made_for_a_plain_address() -> None:
    """There is nothing to look after, and no timer."""
    assert House(listener(upstream=upstream())).reactor.getDelayedCalls() == []


def test_rounds_end_with_the_service() -> None:
    """No timer is left."""
    here = house()
    assert len(here.reactor.getDelayedCalls()) == 1
    here.reactor.advance(3)
    stopped: list[object] = []
    _ = here.service.stopService().addCallback(stopped.append)
    assert stopped == [None]
    assert here.reactor.getDelayedCalls() == []


# Probes


def test_a_plain_address_can_be_probed() -> None:
    """Every so many seconds, with a conversation of its own."""
    here = House(listener(upstream=upstream(checks=Checks(probe=10.0))))
    sea = Sea(here)
    sea.pass_time(40)
    (entry,) = here.service.roster
    assert 3 <= len(sea.wires[1]) <= 5
    assert entry.broker.health.up
    assert all(wire.ends[0] == "flush" for wire in sea.wires[1])
    assert here.service.sessions == 0


def test_a_probe_finds_an_outage_that_no_client_met(log: list[str]) -> None:
    """And its end; each is told once, and sessions that come do not try that broker."""
    sea = Sea(house(failover(1, 2), checks=Checks(probe=2.0, longest_pause=1.0)))
    sea.up = {2}
    sea.pass_time(4)
    assert [line for line in log if "is down" in line] == [
        "warn: upstream main: lost: broker tcp://192.0.2.1:61613 is down: it did not connect: connection refused"
    ]
    sea.up = {1, 2}
    sea.pass_time(4)
    assert log[-1] == "info: upstream main: connected: broker tcp://192.0.2.1:61613 is up again"
    assert sum("is up again" in line for line in log) == 1


def test_probes_end_with_the_service() -> None:
    """One that is under way is not waited for."""
    here = House(listener(upstream=upstream(checks=Checks(probe=1.0))))
    here.reactor.advance(3)
    assert len(here.reactor.tcpClients) == 1
    stopped: list[object] = []
    _ = here.service.stopService().addCallback(stopped.append)
    assert here.reactor.connectors[0].stoppedConnecting
    assert stopped == [None]
    assert here.service.stage.lines == {}
    here.reactor.advance(0)
    assert here.reactor.getDelayedCalls() == []


# Brokers that came back


def test_whoever_waits_hears_of_a_broker_that_came_back() -> None:
    """A session in a long pause need not wait for its end when another one, or a probe, found the broker up."""
    sea = Sea(house(failover(1, multiplier=1e9, longest_delay=NEVER)))
    sea.client()
    sea.sink(1)
    sea.pass_time(3)
    assert sea.house.service.roster.entries[0].state(NEVER) == "down"
    sea.up.add(1)
    sea.pass_time(60)
    assert sea.sessions == [0]
    sea.client()
    assert sea.sessions == [1]
    sea.pass_time(2)
    assert sea.sessions == [2]


# Balance


def test_sessions_return_to_the_preferred_broker() -> None:
    """As many a second as may; those that are not quiet stay until they are."""
    sea = Sea(house(failover(1, 2, priority_backup=True), rebalance_rate=2.0))
    clients = [sea.client() for _ in range(6)]
    assert sea.sessions == [6, 0]
    sea.sink(1)
    sea.pass_time(2)
    assert sea.sessions == [0, 6]
    clients[0].says(b"BEGIN\ntransaction:t\n\n\0")
    sea.up.add(1)
    seen = [0]
    for _ in range(30):
        sea.pass_time(1)
        seen.append(sea.sessions[0])
    assert sea.sessions == [5, 1]
    assert all(after - before <= 3 for before, after in pairwise(seen))
    clients[0].says(b"ABORT\ntransaction:t\n\n\0")
    sea.pass_time(2)
    assert sea.sessions == [6, 0]
    assert all(client.ends == [] for client in clients)


def test_sessions_spread_over_a_broker_that_came_back() -> None:
    """Up to their shares, and then no more: nothing goes back and forth."""
    group = Group("pair", (broker(1), broker(2)), Reconnect(initial_delay=0.0), Policy.LEAST_SESSIONS)
    sea = Sea(house(group, rebalance_rate=1.0))
    sea.up = {1}
    for _ in range(6):
        sea.client()
    assert sea.sessions == [6, 0]
    sea.up = {1, 2}
    sea.pass_time(30)
    assert sea.sessions in ([3, 3], [4, 2], [2, 4])
    there = len(sea.wires[1]), len(sea.wires[2])
    sea.pass_time(30)
    assert (len(sea.wires[1]), len(sea.wires[2])) == there


def test_balance_can_be_switched_off() -> None:
    """With a rate of nothing everybody stays."""
    sea = Sea(house(failover(1, 2, priority_backup=True), rebalance_rate=0.0))
    sea.client()
    sea.sink(1)
    sea.pass_time(2)
    sea.up.add(1)
    sea.pass_time(30)
    assert sea.sessions == [0, 1]


def test_a_session_that_was_asked_counts_where_it_goes() -> None:
    """While the first ones are on their way no more are sent than belong there."""
    group = Group("pair", (broker(1), broker(2)), Reconnect(initial_delay=0.0), Policy.LEAST_SESSIONS)
    sea = Sea(house(group, rebalance_rate=10.0))
    sea.up = {1}
    for _ in range(8):
        sea.client()
    sea.up = {1, 2}
    two = sea.house.service.roster.entries[1].broker
    two.health.answered()
    for _ in range(5):
        sea.house.reactor.advance(1)  # nobody confirms DISCONNECT
    moving = sum(
        link.moving or link.broker is not sea.house.service.roster.entries[0].broker
        for session in sea.house.service.everyone()
        for link in session.relay.links
    )
    assert 3 <= moving <= 4


# Trouble


def test_a_round_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    """It is logged, its other parts are done, and the next one comes."""
    sea = Sea(house(failover(1, 2, priority_backup=True)))
    sea.client()
    sea.sink(1)
    sea.up.add(1)
    calls: list[float] = []

    def fails(*_: object) -> list[object]:
        calls.append(sea.house.reactor.seconds())
        raise ZeroDivisionError

    monkeypatch.setattr(rounds, "moves", fails)
    sea.pass_time(3)
    assert calls == [1.0, 2.0, 3.0]
    assert sum(line.startswith("critical: a round failed") for line in log) == 3

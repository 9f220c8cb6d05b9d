"""Performing for a probe: a broker that is asked, and what becomes of the connection."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionLost, ConnectionRefusedError
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from stomprelay.relay.link.probe import Probe
from stomprelay.relay.model.group import Checks
from stomprelay.service.brokers.checks import ProbeDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.journal.journal import Journal
from stomprelay.service.network.endpoints import client_endpoint
from stomprelay.session.effects import Note
from tests.service.harness import CONNECTED, FakeTransport, JournalHarness, movable


class ProbeHarness:
    """A probe that has begun."""

    def __init__(self, journal: Journal | None = None, **settings: Any) -> None:
        self.reactor = MemoryReactorClock()
        self.runtime = Runtime(self.reactor, self.reactor.seconds)
        self.notes: list[Note] = []
        self.runtime.observe(lambda _: None, self.notes.append)
        self.upstream = movable(connect_timeout=5.0, **settings)
        self.broker = self.upstream.brokers[0]
        self.over: list[ProbeDriver] = []
        self.probe = Probe(self.upstream, self.broker, lambda: 0.5)
        ways = {self.broker: client_endpoint(self.reactor, self.broker, self.upstream.tls)}
        self.probing = ProbeDriver(self.runtime, "main", self.probe, ways, self.over.append, journal)
        self.probing.begin()

    def accepted(self) -> FakeTransport:
        """The broker's end."""
        transport = FakeTransport(
            self.reactor.tcpClients.pop()[2].buildProtocol(None), IPv4Address("TCP", "192.0.2.1", 61613)
        )
        transport.protocol.makeConnection(transport)
        return transport

    def refused(self) -> None:
        """The broker is not there."""
        factory: Any = self.reactor.tcpClients.pop()[2]
        factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
        self.reactor.advance(0)

    def ended(self) -> bool:
        """Whether it is over, and nothing is left of it."""
        return (
            self.over == [self.probing]
            and self.runtime.protocols == {}
            and self.runtime.sockets == 0
            and self.reactor.getDelayedCalls() == []
        )


def test_a_broker_that_is_well(log: list[str]) -> None:
    """It says CONNECTED, is told DISCONNECT, and is up; the log has nothing to say of it."""
    harness = ProbeHarness()
    broker = harness.accepted()
    assert broker.written().startswith(b"CONNECT\n")
    broker.sends(CONNECTED)
    assert broker.written().endswith(b"DISCONNECT\n\n\0")
    assert broker.ends == ["flush"]
    broker.disconnects()
    assert harness.ended()
    assert harness.broker.health.up
    assert log == []


def test_a_canary(log: list[str]) -> None:
    """A message goes where it is asked for, and the broker is up when that was received."""
    harness = ProbeHarness(checks=Checks(destination="/queue/canary"))
    broker = harness.accepted()
    broker.sends(CONNECTED)
    assert b"destination:/queue/canary\n" in broker.written()
    assert harness.over == []
    broker.sends(b"RECEIPT\nreceipt-id:probe\n\n\0")
    broker.disconnects()
    assert harness.ended()
    assert harness.broker.health.up
    assert log == []


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (lambda harness: harness.refused(), "it did not connect: connection refused"),
        (
            lambda harness: harness.accepted().disconnects(ConnectionLost()),
            "it closed the connection: connection reset",
        ),
        (lambda harness: harness.reactor.advance(5), "no CONNECTED in time"),
    ],
)
def test_a_broker_that_is_not(fails: Callable[[ProbeHarness], None], words: str, log: list[str]) -> None:
    """It is down, whoever watches is told why, the log leaves it to them, and nothing is left of the attempt."""
    harness = ProbeHarness()
    fails(harness)
    assert harness.ended()
    assert harness.broker.health.up is False
    assert [note.text for note in harness.notes] == [f"broker tcp://192.0.2.1:61613 is down: {words}"]
    assert log == []


def test_a_broker_that_accepts_and_never_answers() -> None:
    """It is not waited for any longer."""
    harness = ProbeHarness()
    broker = harness.accepted()
    harness.reactor.advance(5)
    assert broker.ends == ["abort"]
    broker.disconnects()
    assert harness.ended()
    assert harness.broker.health.up is False


@pytest.mark.parametrize("there", [True, False])
def test_a_stop(there: bool) -> None:
    """In the middle: nothing is learnt, and nothing stays."""
    harness = ProbeHarness()
    broker = harness.accepted() if there else None
    harness.probing.stop()
    if broker is not None:
        assert broker.ends == ["abort"]
        broker.disconnects()
    harness.reactor.advance(0)
    assert harness.ended()
    assert harness.broker.health.up is None


def test_the_journal_has_what_was_learnt(tmp_path: Path) -> None:
    """As something of the relay's own, with the upstream."""
    kept = JournalHarness(tmp_path)
    ProbeHarness(kept.journal).refused()
    (lost,) = kept.read()
    assert (lost.event, lost.context.upstream, lost.context.session) == ("lost", "main", "")
    assert lost.facts["upstream"] == "main"
    assert "192.0.2.1" in lost.text

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
from stomprelay.relay.model.health import Checks
from stomprelay.service.endpoints import way
from stomprelay.service.perform import Stage
from stomprelay.service.probing import LINGER, Probing
from tests.service.diary import Diary
from tests.service.house import CONNECTED, Wire, movable


class Asking:
    """A probe that has begun."""

    def __init__(self, **settings: Any) -> None:
        self.reactor = MemoryReactorClock()
        self.stage = Stage(self.reactor, self.reactor.seconds, lambda performer: None)
        self.upstream = movable(connect_timeout=5.0, **settings)
        self.broker = self.upstream.brokers[0]
        self.over: list[Probing] = []
        self.probe = Probe(self.upstream, self.broker, lambda: 0.5)
        ways = {self.broker: way(self.reactor, self.broker, self.upstream.tls)}
        self.probing = Probing(self.stage, "main", self.probe, ways, self.over.append)
        self.probing.begin()

    def accepted(self) -> Wire:
        """The broker's end."""
        wire = Wire(
            self.reactor.tcpClients.pop()[2].buildProtocol(None), IPv4Address("TCP", "192.0.2.1", 61613)
        )
        wire.protocol.makeConnection(wire)
        return wire

    def refused(self) -> None:
        """The broker is not there."""
        factory: Any = self.reactor.tcpClients.pop()[2]
        factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
        self.reactor.advance(0)

    def ended(self) -> bool:
        """Whether it is over, and nothing is left of it."""
        return (
            self.over == [self.probing]
            and self.stage.lines == {}
            and self.stage.sockets == 0
            and self.reactor.getDelayedCalls() == []
        )


def test_a_broker_that_is_well(log: list[str]) -> None:
    """It says CONNECTED, is told DISCONNECT, and is up; the log has nothing to say of it."""
    asking = Asking()
    broker = asking.accepted()
    assert broker.written().startswith(b"CONNECT\n")
    broker.says(CONNECTED)
    assert broker.written().endswith(b"DISCONNECT\n\n\0")
    assert broker.ends == ["flush"]
    broker.goes()
    assert asking.ended()
    assert asking.broker.health.up
    assert log == []


def test_a_canary(log: list[str]) -> None:
    """A message goes where it is asked for, and the broker is up when that was received."""
    asking = Asking(checks=Checks(destination="/queue/canary"))
    broker = asking.accepted()
    broker.says(CONNECTED)
    assert b"destination:/queue/canary\n" in broker.written()
    assert asking.over == []
    broker.says(b"RECEIPT\nreceipt-id:probe\n\n\0")
    broker.goes()
    assert asking.ended()
    assert asking.broker.health.up
    assert log == []


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (lambda asking: asking.refused(), "it did not connect: connection refused"),
        (
            lambda asking: asking.accepted().goes(ConnectionLost()),
            "it closed the connection: connection reset",
        ),
        (lambda asking: asking.reactor.advance(5), "no CONNECTED in time"),
    ],
)
def test_a_broker_that_is_not(fails: Callable[[Asking], None], words: str, log: list[str]) -> None:
    """It is down, the log has the reason as a warning, and nothing is left of the attempt."""
    asking = Asking()
    fails(asking)
    assert asking.ended()
    assert asking.broker.health.up is False
    assert log == [f"warn: upstream main: lost: broker tcp://192.0.2.1:61613 is down: {words}"]


def test_a_broker_that_accepts_and_never_answers() -> None:
    """It is not waited for any longer."""
    asking = Asking()
    broker = asking.accepted()
    asking.reactor.advance(5)
    assert broker.ends == ["abort"]
    broker.goes()
    assert asking.ended()
    assert asking.broker.health.up is False


def test_a_broker_that_does_not_close() -> None:
    """After a while it is closed without it."""
    asking = Asking()
    broker = asking.accepted()
    broker.says(CONNECTED)
    assert asking.over == [asking.probing]
    asking.reactor.advance(LINGER)
    assert broker.ends == ["flush", "abort"]
    broker.goes()
    assert asking.ended()


@pytest.mark.parametrize("there", [True, False])
def test_a_stop(there: bool) -> None:
    """In the middle: nothing is learnt, and nothing stays."""
    asking = Asking()
    broker = asking.accepted() if there else None
    asking.probing.stop()
    if broker is not None:
        assert broker.ends == ["abort"]
        broker.goes()
    asking.reactor.advance(0)
    assert asking.ended()
    assert asking.broker.health.up is None


def test_the_journal_has_what_was_learnt(tmp_path: Path) -> None:
    """As something of the relay's own, with the upstream."""
    asking = Asking()
    diary = Diary(tmp_path)
    asking.stage.journal = diary.journal
    asking.refused()
    (lost,) = diary.read()
    assert (lost.event, lost.context.upstream, lost.context.session) == ("lost", "main", "")
    assert lost.facts["upstream"] == "main"
    assert "192.0.2.1" in lost.text

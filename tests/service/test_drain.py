"""A stop that loses nothing: sessions have time to deliver what they took, and what is left then is counted."""

from typing import Any

import pytest
from twisted.internet.address import UNIXAddress

from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect
from stomprelay.relay.relay import Relay
from stomprelay.service.brokers import ALL
from tests.service.harness import CONNECTED, FakeTransport, RelayHarness, failover, listener, movable, result

SENDS = b"".join(b"SEND\ndestination:/queue/a\nreceipt:%d\n\n%d\0" % (number, number) for number in range(50))
RECEIPTS = b"".join(b"RECEIPT\nreceipt-id:%d\n\n\0" % number for number in range(50))


class Stopping:
    """A relay with one session, whose client sent fifty SENDs while its only broker was paused; it begins to stop."""

    def __init__(self, **settings: Any) -> None:
        main = movable(failover(1), confirm=True)
        self.relay = RelayHarness(listener(upstream=main, linger=1.0), **settings)
        self.client, broker = self.relay.session()
        self.pauses = self.relay.service.state.pauses
        self.brokers = self.relay.service.state.brokers.find(ALL)
        self.pauses.pause(self.brokers, 0.0)
        broker.disconnects()
        self.client.sends(SENDS)
        self.stopped: Any = self.relay.service.stopService()

    def resume(self) -> FakeTransport:
        """The broker is resumed, and takes the session again."""
        self.pauses.resume(self.brokers)
        self.relay.reactor.advance(1)
        broker = self.relay.broker()
        broker.sends(CONNECTED)
        return broker

    def lost(self) -> int:
        """What was counted."""
        return self.relay.service.state.sessions.possibly_lost()


def test_what_was_taken_is_delivered(log: list[str]) -> None:
    """All fifty arrive at the broker, once probes find it; then the client hears why it ends. No other comes in."""
    stopping = Stopping()
    service = stopping.relay.service
    assert stopping.relay.reactor.tcpServers[0][1].buildProtocol(UNIXAddress(None)) is None
    assert not next(iter(service._listening)).running
    stopping.relay.reactor.advance(10)
    assert (stopping.stopped.called, service._checks._loop.running) == (False, True)
    assert stopping.client.written() == b""
    broker = stopping.resume()
    assert broker.written().count(b"SEND\n") == 50
    broker.sends(RECEIPTS)
    broker.parts()
    heard = stopping.client.written()
    assert heard.startswith(RECEIPTS + b"ERROR\nmessage:the relay is stopping\n")
    for each in (stopping.client, broker):
        each.disconnects()
    result(stopping.stopped)
    assert stopping.lost() == 0
    assert stopping.relay.reactor.getDelayedCalls() == []
    assert not service._checks._loop.running
    told = [line for line in log if "stopping:" in line]
    assert told == [
        "info: stopping: 1 session with something left to deliver, within 20 s",
        "info: stopping: all is delivered after 11.0 s",
    ]


def test_what_is_left_then_is_counted(log: list[str]) -> None:
    """No receipt, one line for all sessions, and a count."""
    stopping = Stopping(stop_timeout=3.0)
    stopping.relay.reactor.advance(2.9)
    assert stopping.client.written() == b""
    stopping.relay.reactor.advance(0.2)
    heard = stopping.client.written()
    assert heard.startswith(b"ERROR\nmessage:the relay is stopping\n")
    assert b"RECEIPT" not in heard
    stopping.client.disconnects()
    result(stopping.stopped)
    assert stopping.lost() == 50
    assert "warn: 1 session ended with the relay after 3.1 s, SENDs that may be lost: 50" in log


def test_a_session_that_fails_keeps_nobody(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    """What one session raises is logged, and the others end all the same."""
    relay = RelayHarness()
    (bad, bad_broker), (good, good_broker) = relay.session(), relay.session()
    first = bad.protocol._owner
    handle = Relay.handle

    def failing(core: Relay, event: inputs.Input, now: float) -> list[Effect]:
        if core is first.relay and isinstance(event, inputs.StopBegan):
            raise RuntimeError("no")
        return handle(core, event, now)

    monkeypatch.setattr(Relay, "handle", failing)
    stopped = relay.service.stopService()
    assert good.written().startswith(b"ERROR\nmessage:the relay is stopping\n")
    assert any(line.startswith("critical: a session could not be ended") for line in log)
    relay.reactor.advance(20)
    assert bad.written().startswith(b"ERROR\nmessage:the relay is stopping\n")
    for each in (bad, bad_broker, good, good_broker):
        each.disconnects()
    result(stopped)

"""`/livez` and `/readyz`: whether a relay lives, and whether it is to be sent clients."""

import json
from pathlib import Path

import pytest
from twisted.internet.error import ConnectionRefusedError

from stomprelay.relay.model.listener import Match, Route
from tests.service.harness import (
    CONNECTED,
    JournalHarness,
    RelayHarness,
    failover,
    listener,
    movable,
    upstream,
)
from tests.service.test_admin import Answer

ADMIN = "tcp:61680:interface=127.0.0.1"
NO_BROKER = "listener public: no broker of upstream main is up"


def reasons(harness: RelayHarness) -> list[str]:
    """Why no clients are to be sent to it; none where it is ready."""
    answer = Answer(harness, "/readyz")
    assert answer.text.count("\n") == 1
    found = json.loads(answer.text)
    assert answer.status == (200 if found["ready"] else 503)
    assert found.keys() == ({"ready"} if found["ready"] else {"ready", "reasons"})
    return list(found.get("reasons", []))


def answers(harness: RelayHarness) -> None:
    """The broker that is asked is up."""
    asked = harness.broker()
    assert asked.written().startswith(b"CONNECT\n")
    asked.sends(CONNECTED)
    assert asked.written() == b"DISCONNECT\n\n\0"
    asked.disconnects()


@pytest.mark.parametrize("plain", [True, False])
def test_who_asks_has_the_brokers_asked(plain: bool) -> None:
    """A relay that was just started knows nothing of them, and without clients it would never know."""
    harness = RelayHarness(listener(upstream=upstream() if plain else movable(failover(1))), admin=ADMIN)
    harness.reactor.advance(5)
    assert harness.reactor.tcpClients == []
    assert reasons(harness) == [NO_BROKER]
    harness.reactor.advance(1)
    answers(harness)
    assert reasons(harness) == []
    harness.reactor.advance(5)
    assert harness.reactor.tcpClients == []


def test_questions_ask_a_broker_no_faster() -> None:
    """However often they come: one probe at a time, and pauses that grow."""
    harness = RelayHarness(listener(upstream=movable(failover(1))), admin=ADMIN)
    probes = 0
    for _ in range(60):
        for _ in range(10):
            assert reasons(harness) == [NO_BROKER]
        harness.reactor.advance(1)
        assert len(harness.reactor.tcpClients) <= 1
        if harness.reactor.tcpClients:
            probes += 1
            harness.refuse(ConnectionRefusedError())
    assert 3 <= probes <= 8


def test_each_listener_counts() -> None:
    """By its own upstream; where routes lead most clients may do without."""
    other = movable(failover(2), name="other")
    routed = movable(failover(3), name="routed")
    harness = RelayHarness(
        listener(upstream=movable(failover(1)), routes=(Route(Match.PREFIX, "/x", routed),)),
        listener(name="second", endpoint="tcp:61614", upstream=other),
        admin=ADMIN,
    )
    brokers = {each.upstream.name: each.broker.health for each in harness.service.state.brokers}
    brokers["main"].answered()
    assert reasons(harness) == ["listener second: no broker of upstream other is up"]
    brokers["other"].answered()
    assert reasons(harness) == []
    assert not brokers["routed"].doubted


def test_a_relay_that_stops() -> None:
    """Says so alone, while its clients end; it lives until then, but a load balancer must send no more clients."""
    harness = RelayHarness(admin=ADMIN)
    harness.session()
    _ = harness.service.stopService()
    assert reasons(harness) == ["draining: the relay stops"]
    health = Answer(harness, "/healthz")
    assert (health.status, health.text) == (503, "stopping\n")
    assert json.loads(Answer(harness, "/overview").text)["stopping"] is True
    alive = Answer(harness, "/livez")
    assert (alive.status, alive.text) == (200, '{"live": true}\n')


def test_a_relay_that_is_drained() -> None:
    """Says so alone, until clients are let in again; it is well otherwise, and the page and the status line say it."""
    harness = RelayHarness(admin=ADMIN)
    harness.session()
    before = reasons(harness)
    harness.service.state.sessions.drain(True)
    assert reasons(harness) == ["draining: new clients are refused"]
    health = Answer(harness, "/healthz")
    assert (health.status, health.text) == (200, "ok, but new clients are refused\n")
    assert json.loads(Answer(harness, "/overview").text)["draining"] is True
    assert harness.service._status().startswith("draining, 1 session,")
    harness.service.state.sessions.drain(False)
    assert reasons(harness) == before


def test_a_journal_that_cannot_be_written(tmp_path: Path) -> None:
    """A full disk, whatever becomes of the records."""
    harness = JournalHarness(tmp_path)
    harness.session()
    assert reasons(harness) == []
    harness.journal.written.trouble = "No space left on device"
    assert reasons(harness) == ["the journal cannot be written: No space left on device"]
    harness.journal.written.trouble = ""
    assert reasons(harness) == []

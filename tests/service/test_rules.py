"""Rules that are read anew while sessions run: all sessions have them, some in each turn of the reactor."""

import pytest

from stomprelay.relay.model.rules import AccessRules
from stomprelay.service import relay as service_relay
from tests.service.harness import CONNECT, SUBSCRIBE, RelayHarness, listener, upstream
from tests.service.test_reload import reload

NOTHING = AccessRules((), allow=False)


def test_many_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that takes too long is the last for now; those before CONNECT have them; who is gone is no trouble."""
    monkeypatch.setattr(service_relay, "RULING", 0.0)
    main = upstream()
    harness = RelayHarness(listener(upstream=main))
    early = harness.client()
    sessions = [harness.session() for _ in range(6)]
    for client, _ in sessions:
        client.sends(SUBSCRIBE)
    reload(harness, listener(upstream=main, rules=NOTHING))
    assert sum(b"DISCONNECT" in broker.value() for _, broker in sessions) == 1
    sessions[0][0].disconnects()
    harness.reactor.pump([0] * 6)
    for _, broker in sessions:
        if b"DISCONNECT\nreceipt:" in broker.value():
            broker.parts()
    assert len(harness.service.state.sessions) == 1
    early.sends(CONNECT)
    harness.broker()
    assert len(harness.service.state.sessions) == 1

"""One relay and its two connections, on a reactor in memory."""

import pytest

from stomprelay.service.connection.protocol import LegProtocol
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    SEND,
    FakeTransport,
    RelayHarness,
)


def test_a_client_is_not_read_while_its_broker_is_awaited() -> None:
    """Two chunks that came too soon are kept, and pass when the broker is there."""
    harness = RelayHarness()
    client = harness.client()
    client.sends(CONNECT)
    for _ in range(2):
        assert client.reading
        client.sends(SEND)
    assert not client.reading
    broker = harness.broker()
    broker.sends(CONNECTED)
    assert client.reading
    assert broker.written().endswith(SEND + SEND)


EARLY = [
    b"SEND\ndestination:/queue/a\n\nx\0",
    b"JUMP\n\n\0",
    b"CONNECT\naccept-version:9.9\nhost:/\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:abc\n\n\0",
    b"CONNECT\naccept-version:1.2\nhost:/\n" + b"x:y\n" * 100000,
    b"x" * 1000000,
]


@pytest.mark.parametrize("early", EARLY, ids=lambda early: repr(early[:60]))
def test_bad_input_before_connect(early: bytes) -> None:
    """It gets an ERROR, and no broker is bothered."""
    harness = RelayHarness()
    client = harness.client()
    client.sends(early)
    assert client.written().startswith(b"ERROR\n")
    assert client.ends == ["half"]
    assert harness.reactor.tcpClients == []


def test_secrets_stay_out_of_the_log(log: list[str]) -> None:
    """Whatever goes wrong with a CONNECT that has a passcode in it."""
    harness = RelayHarness()
    secret = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:me\npasscode:hush\n\n\0"
    for said in (secret, secret[:-3], secret.replace(b"1.2", b"9.9"), secret.replace(b"\n\n", b"\nx\n\n")):
        client = harness.client()
        client.sends(said)
        client.disconnects()
    client = harness.client()
    client.sends(secret)
    broker = harness.broker()
    broker.sends(b"ERROR\nmessage:bad passcode hush\n\n\0")
    assert log
    assert not any("hush" in line for line in log), log


def all_ends(harness: RelayHarness, *transports: FakeTransport) -> None:
    """The relay closes all these connections, and nothing is left of their session."""
    for transport in transports:
        assert transport.ends == ["half"]
        transport.disconnects()
    assert len(harness.service.state.sessions) == 0
    assert harness.reactor.getDelayedCalls() == []


def test_a_relay_that_fails(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has an ERROR, all connections end, and the log has the traceback, without what the error says."""
    harness = RelayHarness()
    client, broker = harness.session()
    secret = "hunter" + "2"

    def fails(*_: object) -> None:
        raise ValueError(secret)

    monkeypatch.setattr("stomprelay.relay.single.Single.to_broker", fails)
    client.sends(SEND)
    assert client.written().startswith(b"ERROR\nmessage:the relay failed\n")
    all_ends(harness, client, broker)
    (fault,) = [line for line in log if "ValueError" in line]
    assert "in fails" in fault
    assert secret not in "".join(log)


def test_an_effect_that_cannot_be_performed(log: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are performed, then the session ends: nobody knows in what state it is."""
    harness = RelayHarness()
    client, broker = harness.session()

    def fails(self: LegProtocol, data: bytes) -> None:
        raise OSError("no buffer space")

    monkeypatch.setattr(LegProtocol, "write", fails)
    client.sends(SEND)
    all_ends(harness, client, broker)
    assert any("an effect failed: OSError" in line for line in log)

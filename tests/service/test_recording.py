"""A session whose journal is kept: what is recorded of its frames, its events and its stops."""

from pathlib import Path

import pytest
from twisted.internet import error

from stomprelay.journal.settings import ALL, WhenFull
from stomprelay.relay.client.shutdown import ECHO
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    MESSAGE,
    SEND,
    FakeTransport,
    JournalHarness,
    Recorded,
    failover,
    listener,
    movable,
)

NAMED = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:geheim\nclient-id:erp\n\n\0"


@pytest.fixture
def harness(tmp_path: Path) -> JournalHarness:
    """A relay in front of one broker that keeps a journal with whole bodies."""
    return JournalHarness(tmp_path, bodies=ALL)


def brief(told: list[Recorded]) -> list[tuple[str, ...]]:
    """Whose frames, and the commands of them; or which event."""
    commands = [[frame.partition(b"\n")[0].decode() for frame in each.frames] for each in told]
    both = zip(told, commands, strict=True)
    return [(each.event,) if each.event else (each.context.side, *frames) for each, frames in both]


def test_a_client_that_half_closes(harness: JournalHarness) -> None:
    """It vanished; a DISCONNECT that it did not send is not recorded, though its broker is sent one."""
    client, broker = harness.session()
    client.sends(SEND)
    client.protocol.readConnectionLost()
    harness.reactor.advance(ECHO)
    broker.parts()
    broker.disconnects()
    told = brief(harness.read())
    assert told[-3:] == [("client", "SEND"), ("broker", "RECEIPT"), ("vanished",)]
    assert not any("DISCONNECT" in each for each in told)
    assert client.ends == ["flush"]


def test_a_session(harness: JournalHarness) -> None:
    """Frames as they came, each leg's counted; what was learnt from them comes behind them."""
    client, broker = harness.session()
    client.sends(SEND)
    broker.sends(MESSAGE + MESSAGE)
    client.sends(b"DISCONNECT\nreceipt:bye\n\n\0")
    broker.sends(b"RECEIPT\nreceipt-id:bye\n\n\0")
    client.disconnects()
    found = harness.read()
    assert brief(found) == [
        ("client", "CONNECT"),
        ("broker", "CONNECTED"),
        ("connected",),
        ("client", "SEND"),
        ("broker", "MESSAGE", "MESSAGE"),
        ("client", "DISCONNECT"),
        ("broker", "RECEIPT"),
        ("disconnected",),
    ]
    assert found[3].frames == (SEND.removesuffix(b"\0"),)
    assert [each.number for each in found if each.context.side == "broker"] == [0, 1, 3]
    assert [each.number for each in found if each.context.side == "client"] == [0, 1, 2]


def test_the_broker_that_a_leg_leads_to(tmp_path: Path) -> None:
    """After a failover it is another one, of which frames are counted from the start."""
    harness = JournalHarness(tmp_path, listener(upstream=movable(failover(1, 2), failover(3))))
    client = harness.client()
    client.sends(CONNECT)
    transports = [harness.broker(), harness.broker()]
    for transport in transports:
        transport.sends(CONNECTED)
    transports[1].disconnects(error.ConnectionLost())
    harness.broker().sends(CONNECTED)
    brokers = [each.context.broker for each in harness.read() if each.context.side == "broker"]
    assert sorted(brokers) == [f"tcp://192.0.2.{number}:61613" for number in (1, 2, 3)]


def test_secrets(tmp_path: Path) -> None:
    """In what waits to be written there is neither passcode nor a header that is to be left out, nor its bytes."""
    harness = JournalHarness(tmp_path, bodies=ALL, redact=("token",))
    client = harness.client()
    for octet in NAMED:
        client.sends(bytes([octet]))
    broker = harness.broker()
    broker.sends(CONNECTED)
    said = SEND.replace(b"\n\n", b"\ntoken:geheim\nToken: geheim\n\n")
    client.sends(said)
    for octet in said:
        client.sends(bytes([octet]))
    broker.sends(MESSAGE.replace(b"\n\n", b"\ntoken:geheim\n\n"))
    batch = harness.journal._queue.take()
    assert batch is not None
    assert batch.frames == 5
    assert b"geheim" not in bytes(batch.data)


def pressed(harness: JournalHarness) -> list[Recorded]:
    """The events of back-pressure since the last look."""
    return [each for each in harness.read() if each.event.startswith("back-pressure")]


def test_back_pressure(harness: JournalHarness) -> None:
    """When it begins; and that it is over, once it is for a second, with all the time that it took."""
    client, _ = harness.session()
    client.fills()
    (held,) = pressed(harness)
    assert (held.event, held.facts) == ("back-pressure on", {"side": "broker", "reason": "pressure"})
    assert held.context.session
    for _ in range(3):
        harness.reactor.advance(0.5)
        client.drains()
        harness.reactor.advance(0.1)
        client.fills()
    assert pressed(harness) == []
    harness.reactor.advance(10)
    client.drains()
    harness.reactor.advance(0.9)
    assert pressed(harness) == []
    harness.reactor.advance(0.2)
    (released,) = pressed(harness)
    assert released.event == "back-pressure off"
    assert released.facts == {"side": "broker", "seconds": pytest.approx(11.5)}
    client.fills()
    assert len(pressed(harness)) == 1


def test_back_pressure_ends_with_its_leg(harness: JournalHarness) -> None:
    """No timer is left."""
    client, broker = harness.session()
    client.fills()
    harness.reactor.advance(2)
    client.disconnects()
    broker.disconnects()
    assert [each.event for each in pressed(harness)] == ["back-pressure on", "back-pressure off"]
    assert len(harness.service.state.sessions) == 0
    assert harness.reactor.getDelayedCalls() == []


def test_a_client_that_says_too_much_without_a_broker(tmp_path: Path) -> None:
    """Here it is the relay that asks."""
    harness = JournalHarness(tmp_path, listener(upstream=movable(failover(1, 2), resend_buffer=10)))
    client, broker = harness.session()
    broker.disconnects(error.ConnectionLost())
    client.sends(SEND)
    (held,) = pressed(harness)
    assert held.facts == {"side": "client", "reason": "relay"}
    harness.broker().sends(CONNECTED)
    harness.reactor.advance(1)
    (released,) = pressed(harness)
    assert released.facts["side"] == "client"


def full(tmp_path: Path, *listeners: object) -> JournalHarness:
    """A relay whose journal takes little and blocks."""
    return JournalHarness(tmp_path, *listeners, queue=3000, when_full=WhenFull.BLOCK)  # type: ignore[arg-type]


def fill(harness: JournalHarness, client: FakeTransport) -> None:
    """A client says so much that the journal has no room."""
    while not harness.journal.full:
        client.sends(SEND)
    assert not client.reading


def test_everybody_is_held_while_the_journal_is_full(tmp_path: Path) -> None:
    """Clients and brokers, and those that come now as soon as they are connected; nothing is lost."""
    harness = full(tmp_path)
    client, broker = harness.session()
    other = harness.session()
    fill(harness, client)
    assert not any(transport.reading for transport in (client, broker, *other))
    late = harness.session()
    assert not any(transport.reading for transport in late)
    silent = harness.client()
    assert silent.reading
    assert harness.journal.dropped.blocks == 0
    [held] = pressed(harness)
    assert (held.event, held.facts) == ("back-pressure on", {"side": "", "reason": "journal"})
    harness.journal._release()
    assert all(transport.reading for transport in (client, broker, *other, *late))
    assert [each.event for each in harness.read()] == ["back-pressure off"]


def test_who_said_goodbye_hears_it_confirmed(tmp_path: Path) -> None:
    """Its broker is read from, full or not."""
    harness = full(tmp_path)
    client, broker = harness.session()
    other, _ = harness.session()
    client.sends(b"DISCONNECT\nreceipt:bye\n\n\0")
    fill(harness, other)
    assert broker.reading
    broker.sends(b"RECEIPT\nreceipt-id:bye\n\n\0")
    assert client.written().endswith(b"RECEIPT\nreceipt-id:bye\n\n\0")

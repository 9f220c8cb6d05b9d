"""What the relay does for its clients, it does for those over WebSocket: one look at each."""

from pathlib import Path

import pytest

from stomprelay.relay.model.listener import Web
from tests.service.harness import (
    CONNECTED,
    MESSAGE,
    SEND,
    SUBSCRIBE,
    JournalHarness,
    RelayHarness,
    failover,
    listener,
    movable,
    upstream,
)
from tests.service.test_websocket import HEAD, TEXT, doors, ended, masked, opened, said, session


def test_the_journal(tmp_path: Path) -> None:
    """It has the frames of STOMP, and nothing of the messages that they came in."""
    relay = JournalHarness(tmp_path, listener(web=Web()))
    client, broker = session(relay)
    relay.read()
    client.sends(masked(TEXT, SUBSCRIBE + SEND[:9]) + masked(TEXT, SEND[9:]))
    broker.sends(MESSAGE)
    assert client.written() == said(TEXT, MESSAGE)
    frames = [frame for each in relay.read() for frame in each.frames]
    assert frames == [each.partition(b"\n\n")[0] + b"\n\n" for each in (SUBSCRIBE, SEND, MESSAGE)]


def test_traces() -> None:
    """A SEND gets its trace on the way to the broker, and a client never sees one."""
    relay = doors(trace=True)
    client, broker = session(relay)
    client.sends(masked(TEXT, SUBSCRIBE + SEND))
    assert b"\nrelay-trace:" in broker.written()
    broker.sends(MESSAGE.replace(b"\n\n", b"\nrelay-trace:1-2\n\n"))
    assert client.written() == said(TEXT, MESSAGE)


def test_a_fan_out() -> None:
    """A SEND goes to both groups, and has its RECEIPT when both have given theirs."""
    relay = RelayHarness(
        listener(web=Web(), upstream=movable(failover(1), failover(2), quorum=2)),
    )
    client = opened(relay)
    client.sends(masked(TEXT, b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"))
    brokers = [relay.broker(), relay.broker()]
    for broker in brokers:
        broker.sends(CONNECTED)
        broker.written()
    client.written()
    client.sends(masked(TEXT, SEND.replace(b"\n\n", b"\nreceipt:r\n\n")))
    for broker in brokers:
        assert client.written() == b""
        wire = broker.written()
        assert b"hello\0" in wire
        receipt = next(line for line in wire.split(b"\n") if line.startswith(b"receipt:"))
        broker.sends(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt.removeprefix(b"receipt:"))
    assert b"RECEIPT\nreceipt-id:r\n" in client.written()


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_versions(version: str) -> None:
    """Whatever a client speaks, and says by its subprotocol, a broker of 1.2 gets its own; and back."""
    relay = doors(upstream=upstream(versions=frozenset({b"1.2"})))
    name = f"v{version.replace('.', '')}.stomp".encode()
    client = relay.client()
    client.sends(HEAD + b"Sec-WebSocket-Protocol: %b\r\n\r\n" % name)
    assert b"\r\nSec-WebSocket-Protocol: %b\r\n" % name in client.written()
    client.sends(masked(TEXT, b"CONNECT\naccept-version:%b\nhost:/\n\n\0" % version.encode()))
    broker = relay.broker()
    broker.sends(CONNECTED)
    assert b"\nversion:%b\n" % version.encode() in client.written()
    broker.written()
    client.sends(masked(TEXT, SUBSCRIBE + b"SEND\ndestination:/queue/a\nkey:a\\nb\n\n\0"))
    escaped = b"a\\\\nb" if version == "1.0" else b"a\\nb"
    assert b"\nkey:%b\n" % escaped in broker.written()
    broker.sends(MESSAGE)
    assert MESSAGE[MESSAGE.index(b"message-id") :] in client.written()


def test_a_drained_relay() -> None:
    """Clients that it has stay; who comes then is told in its WebSocket to come again later."""
    relay = doors()
    client, broker = session(relay)
    relay.service.state.sessions.drain(True)
    other = opened(relay)
    other.sends(masked(TEXT, b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"))
    told = other.written()
    assert b"ERROR\nmessage:no new connections\n" in told
    assert told.endswith(ended(1013))
    broker.written()
    client.sends(masked(TEXT, SEND))
    assert broker.written() == SEND

"""Slow readers on either side: the relay stops reading on the other one and holds little."""

import contextlib

import pytest

from tests.e2e.flood import MUCH, Flood
from tests.e2e.raw import Connection
from tests.e2e.rig import MESSAGE, SEND, Rig, exchange

pytestmark = pytest.mark.e2e


def hold(rig: Rig, frame: bytes, sender: Connection, reader: Connection) -> None:
    """Have one side of a session send more of this frame than the other side reads, which reads on in the end. The
    relay keeps little of it, and another session goes on meanwhile.
    """
    memory = rig.relay.memory()
    flood = Flood(sender, frame.replace(b"content-length:5\n\nhello", b"\n" + b"x" * 65000))
    flood.run()
    assert flood.written < MUCH / 4
    assert rig.relay.memory() - memory < 16 << 20
    other_client, other_broker = rig.session()
    exchange(other_client, other_broker)
    flood.arrives(reader)
    for end in (sender, reader, other_client, other_broker):
        end.close()


def test_a_client_that_does_not_read(rig: Rig) -> None:
    """The relay stops reading from the broker, keeps little, and goes on when the client reads on."""
    client, broker = rig.session()
    hold(rig, MESSAGE, broker, client)


def test_a_broker_that_does_not_read(rig: Rig) -> None:
    """The relay stops reading from the client, keeps little, and goes on when the broker reads on."""
    client, broker = rig.session()
    hold(rig, SEND, client, broker)


@pytest.mark.ci
@pytest.mark.parametrize("cut", [False, True], ids=["closes", "is cut"])
def test_clients_that_leave_while_the_broker_does_not_read(rig: Rig, cut: bool) -> None:
    """Nobody takes what they sent; their descriptors and those to the broker are free all the same."""
    before = rig.relay.descriptors()
    sessions = [rig.session() for _ in range(2)]
    assert rig.relay.descriptors() == before + 4
    for client, _ in sessions:
        flood = Flood(client, SEND.replace(b"content-length:5\n\nhello", b"\n" + b"x" * 65000))
        flood.run()
        assert flood.written < MUCH / 4
    for client, _ in sessions:
        if cut:
            client.reset()
        else:
            client.close()
    rig.relay.wait_until(lambda: rig.relay.descriptors() == before)
    for _, broker in sessions:
        broker.close()
    other_client, other_broker = rig.session()
    exchange(other_client, other_broker)
    other_client.close()
    other_broker.close()


def test_a_client_that_dies_without_having_read(rig: Rig) -> None:
    """What the relay still held for it is given up, and the broker connection ends."""
    client, broker = rig.session()
    flood = Flood(broker, MESSAGE)
    flood.run()
    client.reset()
    with contextlib.suppress(ConnectionError):
        flood.finish()
        while True:
            broker.write(MESSAGE)
    broker.close()

"""Slow readers on either side: the relay stops reading on the other one and holds little."""

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

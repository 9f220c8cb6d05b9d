"""Clients and brokers that die, and a relay that is stopped: what the other side gets to know."""

from pathlib import Path

import pytest

from tests.e2e.raw import GOODBYE, Connection, ScriptedBroker
from tests.e2e.relay import served
from tests.e2e.rig import CONNECT, MESSAGE, SEND, Rig, error

pytestmark = pytest.mark.e2e


FRAMES = [b"SEND\ndestination:/queue/a\ncontent-length:100\n\n" + b"x" * 100 + b"\0", b"ACK\nid:1\n\n\0"]
CUTS = [(frame, cut) for frame in FRAMES for cut in (1, 4, 10, frame.index(b"\n\n") + 1, len(frame) - 1)]


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize(("frame", "cut"), CUTS)
def test_a_client_that_dies_in_mid_frame(rig: Rig, frame: bytes, cut: int, reset: bool) -> None:
    """Its broker connection ends at once, by a DISCONNECT, and the broker has seen whole frames only."""
    client, broker = rig.session()
    client.write(SEND + frame[:cut])
    assert broker.frame() == SEND
    if reset:
        client.reset()
    else:
        client.close()
    assert broker.rest().strip(b"\n") == GOODBYE
    broker.close()


@pytest.mark.ci
@pytest.mark.parametrize("cut", [0, 1, 8, 30, len(MESSAGE) - 1])
def test_a_broker_that_closes_in_a_session(rig: Rig, cut: int) -> None:
    """The client gets the whole frames that came and then an ERROR."""
    client, broker = rig.session()
    broker.write(MESSAGE + MESSAGE[:cut])
    broker.close()
    assert client.frame() == MESSAGE
    error(client)


def test_the_relay_stops_with_open_sessions(tmp_path: Path) -> None:
    """SIGTERM ends sessions on both sides, with an ERROR and a DISCONNECT, and the process."""
    with ScriptedBroker() as scripted:
        with served(tmp_path, f'uri = "{scripted.uri}"') as running:
            client = Connection.to(running.port)
            client.write(CONNECT)
            broker = scripted.accept()
            broker.connected()
            assert client.frame().startswith(b"CONNECTED\n")
        error(client)
        assert broker.rest().strip(b"\n") == GOODBYE
        broker.close()

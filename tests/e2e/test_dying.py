"""Clients that die: what their broker gets to know."""

import pytest

from tests.e2e.raw import GOODBYE
from tests.e2e.rig import SEND, Rig

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

"""One STOMP connection: its decoder follows its state and its dialect."""

import pytest

from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import FrameError, ProtocolError
from stomprelay.wire.frame import Limits

sides = pytest.mark.parametrize("side", Side, ids=lambda side: side.value)


def test_connect_is_raw_and_what_follows_is_not() -> None:
    """One chunk, three frames: the dialect changes from one frame to the next."""
    leg = Leg(Side.DOWNSTREAM, Limits())
    leg.decoder.feed(b"\r\nCONNECT\r\npasscode:a\\tb\r\n\r\n\0\nSEND\nk:a\\cb\n\n\0SEND\nk:\\t\n\n\0")
    frames = leg.decoder.frames()
    assert next(frames).headers(leg.dialect) == [(b"passcode", b"a\\tb")]
    leg.enter(LegState.CONNECTING, V1_2)
    assert leg.dialect is V1_2
    leg.enter(LegState.CONNECTED)
    assert leg.dialect is V1_2
    assert next(frames).headers(leg.dialect) == [(b"k", b"a:b")]
    with pytest.raises(FrameError, match="undefined escape"):
        next(frames)


@sides
def test_a_closed_leg(side: Side) -> None:
    """Nothing may be written to it, and nothing that comes on it is a frame."""
    leg = Leg(side, Limits())
    leg.enter(LegState.CLOSED)
    assert leg.closed
    leg.decoder.feed(b"RECEIPT\n\n\0")
    with pytest.raises(ProtocolError):
        list(leg.decoder.frames())

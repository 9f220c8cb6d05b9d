"""One STOMP connection: its decoder follows its state and its dialect."""

import pytest

from stomprelay.session.leg import Leg, Side, State
from stomprelay.wire.dialect import V1_1, V1_2
from stomprelay.wire.errors import FrameError, ProtocolError
from stomprelay.wire.frame import Limits

sides = pytest.mark.parametrize("side", Side, ids=lambda side: side.value)


def test_connect_is_raw_and_what_follows_is_not() -> None:
    """One chunk, three frames: the dialect changes from one frame to the next."""
    leg = Leg(Side.DOWNSTREAM, Limits())
    leg.decoder.feed(b"\r\nCONNECT\r\npasscode:a\\tb\r\n\r\n\0\nSEND\nk:a\\cb\n\n\0SEND\nk:\\t\n\n\0")
    frames = leg.decoder.frames()
    assert next(frames).headers(leg.dialect) == [(b"passcode", b"a\\tb")]
    leg.enter(State.CONNECTING, V1_2)
    assert leg.dialect is V1_2
    leg.enter(State.CONNECTED)
    assert leg.dialect is V1_2
    assert next(frames).headers(leg.dialect) == [(b"k", b"a:b")]
    with pytest.raises(FrameError, match="undefined escape"):
        next(frames)


def test_what_comes_while_a_leg_binds_waits() -> None:
    """A client that does not wait for CONNECTED loses nothing: its frames are read once it is there."""
    leg = Leg(Side.DOWNSTREAM, Limits())
    leg.decoder.feed(b"CONNECT\n\n\0SEND\nn:1\n\n\0SE")
    next(leg.decoder.frames())
    leg.enter(State.CONNECTING, V1_1)
    leg.decoder.feed(b"ND\nn:2\n\n\0")
    assert leg.decoder.buffered == len(b"SEND\nn:1\n\n\0SEND\nn:2\n\n\0")
    leg.enter(State.CONNECTED)
    assert [frame.raw(b"n") for frame in leg.decoder.frames()] == [b"1", b"2"]


def test_a_broker_that_greets_and_delivers_at_once() -> None:
    """CONNECTED and MESSAGE in one chunk, the second by the facts that the first settled."""
    leg = Leg(Side.UPSTREAM, Limits())
    leg.decoder.feed(b"\nCONNECTED\nversion:1.1\nsession:a\\c\n\n\0\nMESSAGE\nmessage-id:ID\\c1\n\n\0\n")
    frames = leg.decoder.frames()
    assert next(frames).headers(leg.dialect) == [(b"version", b"1.1"), (b"session", b"a\\c")]
    leg.enter(State.CONNECTED, V1_1)
    assert next(frames).header(b"message-id", leg.dialect) == b"ID:1"


def test_a_second_connect() -> None:
    """It is never understood, whatever it says."""
    leg = Leg(Side.DOWNSTREAM, Limits())
    leg.enter(State.CONNECTED, V1_2)
    leg.decoder.feed(b"CONNECT\naccept-version:1.2\n\n\0")
    with pytest.raises(ProtocolError, match="CONNECT is not allowed here"):
        list(leg.decoder.frames())


@sides
def test_a_closed_leg(side: Side) -> None:
    """Nothing may be written to it, and nothing that comes on it is a frame."""
    leg = Leg(side, Limits())
    leg.enter(State.CLOSED)
    assert leg.closed
    leg.decoder.feed(b"RECEIPT\n\n\0")
    with pytest.raises(ProtocolError):
        list(leg.decoder.frames())

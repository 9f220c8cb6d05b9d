"""The frames of one chunk on their way from leg to leg."""

from stomprelay.relay.forward import carry
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State
from stomprelay.wire.errors import ProtocolError, Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import MESSAGE, SEND, SUBSCRIBE

SENDS = b"SEND\ndestination:/queue/a\n\n1\0SEND\ndestination:/queue/b\n\n2\0"
ALL = frozenset({SEND, MESSAGE, SUBSCRIBE})
NONE: frozenset[bytes] = frozenset()


def heard(side: Side, data: bytes) -> Leg:
    """A connected leg on which this came."""
    leg = Leg(side, Limits())
    leg.enter(State.CONNECTED)
    leg.decoder.feed(data)
    return leg


def unasked(frame: Frame) -> bytes | None:
    """For frames that nobody looks at."""
    raise AssertionError(f"{frame} was looked at")


def test_what_is_untouched_passes_without_a_look() -> None:
    """The whole chunk is one and the same object."""
    leg = heard(Side.DOWNSTREAM, SENDS)
    data, frames, failure = carry(leg, ALL, unasked)
    assert data is SENDS
    assert (frames, failure) == (2, None)


def test_a_new_head_and_none() -> None:
    """Of three frames one gets a new head, one stays behind, one passes."""
    leg = heard(Side.DOWNSTREAM, SENDS + b"SEND\ndestination:/queue/c\n\n3\0")
    heads = iter([b"SEND\nx:y\n\n", b"", None])
    data, frames, failure = carry(leg, NONE, lambda _: next(heads))
    assert data == b"SEND\nx:y\n\n1\0SEND\ndestination:/queue/c\n\n3\0"
    assert (frames, failure) == (3, None)


def test_nothing_passes() -> None:
    """Then there is nothing to write."""
    leg = heard(Side.DOWNSTREAM, SENDS)
    assert carry(leg, NONE, lambda _: b"") == (b"", 2, None)
    assert carry(leg, NONE, unasked) == (b"", 0, None)


def test_nothing_is_read_behind_a_goodbye() -> None:
    """DISCONNECT is the last frame, whether it passes or not."""
    leg = heard(Side.DOWNSTREAM, b"DISCONNECT\n\n\0" + SENDS)
    assert carry(leg, ALL, lambda _: None) == (b"DISCONNECT\n\n\0", 1, None)
    leg = heard(Side.DOWNSTREAM, b"DISCONNECT\n\n\0" + SENDS)
    assert carry(leg, ALL, lambda _: b"") == (b"", 1, None)


def test_what_was_right_before_what_is_wrong() -> None:
    """The frames before a bad one pass, and so they do before one that is refused."""
    leg = heard(Side.DOWNSTREAM, SENDS + b"SENT\n\n\0")
    data, frames, failure = carry(leg, ALL, unasked)
    assert (data, frames) == (SENDS, 2)
    assert isinstance(failure, ProtocolError)

    def refuse(frame: Frame) -> bytes | None:
        raise Refused("no")

    data, frames, failure = carry(heard(Side.DOWNSTREAM, SENDS), NONE, refuse)
    assert (data, frames) == (b"", 1)
    assert isinstance(failure, Refused)


def test_the_lf_behind_a_brokers_frame() -> None:
    """Once a broker was seen to write one behind its frames, one that comes a chunk late is written in its place."""
    message = b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/queue/a\n\nx\0"
    leg = heard(Side.UPSTREAM, message + b"\n" + message)
    assert carry(leg, ALL, unasked).data == message + b"\n" + message + b"\n"
    leg = heard(Side.UPSTREAM, message)
    assert carry(leg, ALL, unasked).data == message
    client = heard(Side.DOWNSTREAM, SENDS + b"\n" + SENDS)
    assert carry(client, ALL, unasked).data == SENDS + b"\n" + SENDS

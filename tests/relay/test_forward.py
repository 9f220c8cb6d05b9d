"""Frames on their way into one write: as which slices, with which heads, and RECEIPTs of the relay's own."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.effects import NOTHING, Joiner, NewHead
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import CLIENT_COMMANDS

WIRES = [b"SEND\ndestination:/queue/%d\n\n%b\0" % (number, b"x" * number) for number in range(6)]


def frames(data: bytes) -> list[Frame]:
    """The frames of one chunk."""
    decoder = Decoder(V1_2, CLIENT_COMMANDS, Limits())
    decoder.feed(data)
    return list(decoder.frames())


def received(side: Side, data: bytes) -> Leg:
    """A connected leg on which this came."""
    leg = Leg(side, Limits())
    leg.enter(LegState.CONNECTED)
    leg.decoder.feed(data)
    return leg


def as_it_came(frame: Frame) -> None:
    """For frames that pass."""


def carry(leg: Leg, new_head: NewHead) -> tuple[bytes, int]:
    """What is written of the frames that a leg has, and how many were looked at."""
    joiner = Joiner()
    joiner.carry(leg.decoder.frames(), new_head)
    return joiner.take(trails=leg.decoder.trails), joiner.frames


# One by one


KINDS = ["as it came", "new head", "lines", "lines and new head", "ours", "carried"]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(KINDS))))
def test_any_mixture(script: list[tuple[int, str]]) -> None:
    """Whatever is put in comes out in its order, in whatever way it is put in."""
    chunk = frames(b"".join(WIRES))
    joiner = Joiner()
    expected = b""
    for number, kind in script:
        frame, wire = chunk[number], WIRES[number]
        body = wire[frame.body - frame.start :]
        match kind:
            case "ours":
                joiner.write(b"OURS\n\n\0")
                expected += b"OURS\n\n\0"
            case "new head":
                joiner.add(frame, b"SEND\nnew:head\n\n")
                expected += b"SEND\nnew:head\n\n" + body
            case "lines":
                joiner.add(frame, None, b"receipt:1\n")
                expected += b"SEND\nreceipt:1\n" + wire[5:]
            case "lines and new head":
                joiner.add(frame, b"SEND\nnew:head\n\n", b"receipt:1\n")
                expected += b"SEND\nreceipt:1\nnew:head\n\n" + body
            case "carried":
                joiner.carry(iter(chunk[number:]), as_it_came)
                assert joiner.frames == len(chunk) - number
                expected += b"".join(WIRES[number:])
            case _:
                joiner.add(frame, None)
                expected += wire
    assert joiner.take() == expected


# The frames of a leg


def test_the_lf_behind_a_brokers_frame() -> None:
    """Once a peer was seen to write one behind its frames, one that comes a chunk late is written in its place; not
    behind a frame that is not the chunk's last.
    """
    message = b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/queue/a\n\nx\0"
    leg = received(Side.UPSTREAM, message + b"\n" + message)
    assert carry(leg, as_it_came)[0] == message + b"\n" + message + b"\n"
    leg = received(Side.UPSTREAM, message)
    assert carry(leg, as_it_came)[0] == message
    leg = received(Side.UPSTREAM, message + b"\n" + message + message)
    heads = iter([None, None, NOTHING])
    assert carry(leg, lambda _: next(heads))[0] == message + b"\n" + message

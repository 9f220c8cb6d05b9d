"""Frames on their way into one write."""

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.forward import Pieces
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Frame
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import CLIENT_COMMANDS

WIRES = [b"SEND\ndestination:/queue/%d\n\n%b\0" % (number, b"x" * number) for number in range(6)]


def frames(data: bytes) -> list[Frame]:
    """The frames of one chunk."""
    decoder = Decoder(V1_2, CLIENT_COMMANDS, Limits())
    decoder.feed(data)
    return list(decoder.frames())


def test_neighbours_stay_one_slice() -> None:
    """A chunk all of whose frames pass as they came is not even copied."""
    pieces = Pieces()
    chunk = frames(b"".join(WIRES))
    for frame in chunk:
        pieces.add(frame, None)
    assert pieces.take() is chunk[0].data


def test_a_gap_between_frames_does_not_pass() -> None:
    """EOLs between frames are beats, and nobody else's."""
    pieces = Pieces()
    for frame in frames(b"\n\n".join(WIRES[:2]) + b"\r\n"):
        pieces.add(frame, None)
    assert pieces.take() == WIRES[0] + b"\n" + WIRES[1]


def test_lines_put_in_front() -> None:
    """They stand behind the command, whether the head is a new one or not."""
    (frame,) = frames(WIRES[3])
    pieces = Pieces()
    pieces.add(frame, None, b"receipt:1\n")
    pieces.add(frame, b"SEND\na:b\n\n", b"receipt:2\n")
    assert pieces.take() == (b"SEND\nreceipt:1\ndestination:/queue/3\n\nxxx\0SEND\nreceipt:2\na:b\n\nxxx\0")


def test_what_was_taken_is_forgotten() -> None:
    """And what was cleared is never written."""
    (frame,) = frames(WIRES[1])
    pieces = Pieces()
    assert pieces.take() == b""
    pieces.add(frame, None)
    assert pieces.take() == WIRES[1]
    pieces.add(frame, None)
    pieces.clear()
    pieces.write(b"RECEIPT\n\n\0")
    assert pieces.take() == b"RECEIPT\n\n\0"


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["as it came", "new head", "lines", "ours"]))))
def test_any_mixture(script: list[tuple[int, str]]) -> None:
    """Whatever is added comes out in its order."""
    data = b"".join(WIRES)
    chunk = frames(data)
    pieces = Pieces()
    expected = b""
    for number, kind in script:
        frame, wire = chunk[number], WIRES[number]
        if kind == "ours":
            pieces.write(b"OURS\n\n\0")
            expected += b"OURS\n\n\0"
        elif kind == "new head":
            pieces.add(frame, b"SEND\nnew:head\n\n")
            expected += b"SEND\nnew:head\n\n" + wire[frame.body - frame.start :]
        elif kind == "lines":
            pieces.add(frame, None, b"receipt:1\n")
            expected += b"SEND\nreceipt:1\n" + wire[5:]
        else:
            pieces.add(frame, None)
            expected += wire
    assert pieces.take() == expected

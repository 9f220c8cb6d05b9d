"""Frames on their way into one write: as which slices, with which heads, and RECEIPTs of the relay's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.effects import Outbox
from stomprelay.relay.forward import NOTHING, Joiner, NewHead, give_receipts
from stomprelay.session.effects import Event, Note, Send
from stomprelay.session.leg import Leg, Side, State
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, V1_2
from stomprelay.wire.errors import ProtocolError, Refused
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import CLIENT_COMMANDS, SEND

WIRES = [b"SEND\ndestination:/queue/%d\n\n%b\0" % (number, b"x" * number) for number in range(6)]
SENDS = b"SEND\ndestination:/queue/a\n\n1\0SEND\ndestination:/queue/b\n\n2\0"


def frames(data: bytes) -> list[Frame]:
    """The frames of one chunk."""
    decoder = Decoder(V1_2, CLIENT_COMMANDS, Limits())
    decoder.feed(data)
    return list(decoder.frames())


def received(side: Side, data: bytes) -> Leg:
    """A connected leg on which this came."""
    leg = Leg(side, Limits())
    leg.enter(State.CONNECTED)
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


def test_a_gap_between_frames_does_not_pass() -> None:
    """EOLs between frames are beats of one leg, and pass to no other."""
    joiner = Joiner()
    for frame in frames(b"\n\n".join(WIRES[:2]) + b"\r\n"):
        joiner.add(frame, None)
    assert joiner.take() == WIRES[0] + b"\n" + WIRES[1]


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


def refuse(frame: Frame) -> bytes | None:
    """For frames that cannot be carried."""
    raise Refused("no")


def refuse_sends(frame: Frame) -> bytes | None:
    """For frames of which SENDs cannot be carried."""
    return refuse(frame) if frame.command == SEND else None


@pytest.mark.parametrize(
    ("data", "new_head", "error", "written", "count"),
    [
        (SENDS + b"SENT\n\n\0", as_it_came, ProtocolError, SENDS, 2),
        (SENDS, refuse, Refused, b"", 1),
        (b"SUBSCRIBE\n\n\0" + SENDS, refuse_sends, Refused, b"SUBSCRIBE\n\n\0", 2),
    ],
    ids=["not a frame", "the first is refused", "the second is refused"],
)
def test_what_was_right_before_what_is_wrong(
    data: bytes,
    new_head: NewHead,
    error: type[Exception],
    written: bytes,
    count: int,
) -> None:
    """The error is raised; what came before it is still to be written."""
    joiner = Joiner()
    with pytest.raises(error):
        joiner.carry(received(Side.DOWNSTREAM, data).decoder.frames(), new_head)
    assert joiner.frames == count
    assert joiner.take() == written


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


# RECEIPTs of the relay's own


@pytest.mark.parametrize(
    ("version", "spelled"),
    [(b"1.0", b"a:b\\"), (b"1.1", b"a\\cb\\\\"), (b"1.2", b"a\\cb\\\\")],
)
def test_all_receipts_in_one_send(version: bytes, spelled: bytes) -> None:
    """As the client's version spells them, with a note for each; they take the place of a beat."""
    client = Leg(Side.DOWNSTREAM, Limits(), DIALECTS[version])
    outbox = Outbox()
    give_receipts([b"a:b\\", b"\xff"], client, outbox, 7.0)
    wire = b"RECEIPT\nreceipt-id:%b\n\n\0\nRECEIPT\nreceipt-id:\xff\n\n\0\n" % spelled
    notes = [
        Note(Event.ANSWERED, f"receipt {each} is given by the relay", {"receipt": each}, quiet=True)
        for each in ("a:b\\", "\\xff")
    ]
    assert outbox.drain() == [Send(client, wire), *notes]
    assert client.heartbeat.sent_at == 7.0

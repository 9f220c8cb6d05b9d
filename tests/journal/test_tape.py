"""From decoded frames to the parts of a block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import Block, Kind, Recorded, decode, sealed
from stomprelay.journal.capture import ALL, Capture, Rule
from stomprelay.journal.tape import Tape
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.limits import Limits

CONNECT = b"CONNECT\naccept-version:1.2\nlogin:me\npasscode:geheim\n\n\0"
BODIES = [b"", b"x", b"hello world", b"\0nul\0", b"y" * 300]


def send(number: int, body: bytes) -> bytes:
    """A SEND, as octets."""
    return b"SEND\ndestination:/queue/%d\ncontent-length:%d\n\n%b\0" % (number % 3, len(body), body)


def client(capture: Capture, *, traced: bool = False) -> Tape:
    """The tape of a client that said CONNECT, which was cut."""
    tape = opening(capture, traced=traced)
    hears(tape, CONNECT)
    tape.cut()
    tape.leg.enter(State.CONNECTING, V1_2)
    tape.leg.enter(State.CONNECTED)
    return tape


def opening(capture: Capture, *, traced: bool = False) -> Tape:
    """The tape of a client that said nothing yet."""
    return Tape(Leg(Side.DOWNSTREAM, Limits()), capture, traced=traced)


def hears(tape: Tape, data: bytes) -> None:
    """Octets come on its leg."""
    tape.leg.decoder.feed(data)
    for _ in tape.leg.decoder.frames():
        pass


def cut(tape: Tape) -> tuple[int, list[Recorded]]:
    """What a reader gets of the next block."""
    number, sizes, payload = tape.cut()
    (found,) = decode(sealed(Kind.FRAMES, 1, number, b"[]", sizes, payload))
    assert isinstance(found, Block)
    assert tape.frames == []
    return found.number, list(found.frames)


@pytest.mark.parametrize("many", [1, 2, 100])
@pytest.mark.parametrize("most", [0, 3, ALL])
def test_heads_and_what_is_kept_of_bodies(many: int, most: int) -> None:
    """Of each frame, with the size that the body had; the count goes on from block to block."""
    tape = client(Capture(most))
    said = [(number, BODIES[number % len(BODIES)]) for number in range(many)]
    hears(tape, b"".join(send(*each) for each in said))
    expected = [
        Recorded(send(number, body).removesuffix(body + b"\0"), body[:most], len(body))
        for number, body in said
    ]
    assert cut(tape) == (1, expected)
    hears(tape, send(0, b"more"))
    assert cut(tape)[0] == 1 + many


def test_heads_that_repeat() -> None:
    """The decoder shares them; each is recorded."""
    tape = client(Capture())
    hears(tape, send(0, b"a") * 3)
    assert [each.head for each in cut(tape)[1]] == [send(0, b"a")[:-2]] * 3


def test_a_passcode_is_in_no_block() -> None:
    """Neither whole nor octet by octet; and what follows CONNECT in its chunk is recorded, too."""
    tape = opening(Capture(ALL))
    for octet in CONNECT:
        hears(tape, bytes([octet]))
    number, (connect,) = cut(tape)
    assert number == 0
    assert connect == (b"CONNECT\naccept-version:1.2\nlogin:me\npasscode:***\n\n", b"", 0)


def test_secrets_of_other_frames() -> None:
    """Each is looked into, the first as well as the rest."""
    tape = client(Capture(ALL, redact=["token"]))
    hears(tape, b"SEND\ntoken:a\ndestination:/q\n\nx\0" * 3)
    assert cut(tape) == (1, [Recorded(b"SEND\ntoken:***\ndestination:/q\n\n", b"x", 1)] * 3)


def test_bodies_by_destination() -> None:
    """In one block."""
    tape = client(Capture(1, [Rule("/queue/0", ALL), Rule("/queue/1", 0)]))
    hears(tape, b"".join(send(number, b"body") for number in range(3)))
    assert [each.kept for each in cut(tape)[1]] == [b"body", b"", b"b"]


def test_frames_that_the_relay_gave_a_trace() -> None:
    """It stands in the recorded head, as if the client had said it; frames without one pass as they came."""
    tape = client(Capture(), traced=True)
    hears(tape, b"SEND\ndestination:/q\nrelay-trace:forged\n\nx\0" + b"BEGIN\ntransaction:1\n\n\0")
    tape.frames[0].trace = b"relay-1-7"
    heads = [each.head for each in cut(tape)[1]]
    assert heads == [b"SEND\nrelay-trace:relay-1-7\ndestination:/q\n\n", b"BEGIN\ntransaction:1\n\n"]


@given(
    st.lists(st.sampled_from(BODIES), min_size=1, max_size=8),
    st.lists(st.integers(1, 200)),
    st.sampled_from([0, 2, ALL]),
)
def test_however_the_octets_are_cut(bodies: list[bytes], cuts: list[int], most: int) -> None:
    """The frames of all blocks are the frames that came, in their order, each once, and counted."""
    tape = client(Capture(most))
    data = b"".join(send(number, body) for number, body in enumerate(bodies))
    found: list[Recorded] = []
    for size in [*cuts, len(data)]:
        chunk, data = data[:size], data[size:]
        hears(tape, chunk)
        if tape.frames:
            number, frames = cut(tape)
            assert number == 1 + len(found)
            found += frames
    assert [(each.kept, each.size) for each in found] == [(body[:most], len(body)) for body in bodies]

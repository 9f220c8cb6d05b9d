"""What comes over a WebSocket, divided: in whatever pieces, the same bytes and faults that wsproto alone finds."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed

from stomprelay.service.network import messages
from stomprelay.service.network.messages import Division, framed_in_python
from tests.service.test_websocket import BINARY, CLOSE, PING, TEXT, masked, said

MOST = 70_000
FRAGMENT, REST = 0x01, 0x80
"""First bytes: a text of which more comes, and the last of it."""

compiled = pytest.mark.skipif(messages._COMPILED is None, reason="needs the compiled part")


def taken(division: Division, data: bytes) -> tuple[bytes, list[bytes]]:
    """What is taken of these bytes, and what is left to wsproto."""
    payloads: list[bytes] = []
    others = list(division.others(data, payloads))
    return b"".join(payloads), others


def heard(pieces: list[bytes], *, divided: bool) -> tuple[bytes, list[bytes], int | None]:
    """All payloads, what pings said, and the code of the fault, if there is one; 0 where the client closes."""
    division, frames = Division(MOST), FrameProtocol(client=False, extensions=[])
    payloads: list[bytes] = []
    pings: list[bytes] = []
    try:
        for piece in pieces:
            for part in division.others(piece, payloads) if divided else [piece]:
                frames.receive_bytes(part)
                for opcode, payload, _, _ in frames.received_frames():
                    if opcode is Opcode.PING:
                        assert isinstance(payload, bytes)
                        pings.append(payload)
                    elif opcode is Opcode.CLOSE:
                        return b"".join(payloads), pings, 0
                    elif opcode in (Opcode.TEXT, Opcode.BINARY):
                        assert not isinstance(payload, tuple)
                        payloads.append(payload.encode() if isinstance(payload, str) else bytes(payload))
    except ParseFailed as error:
        return b"".join(payloads), pings, error.code
    return b"".join(payloads), pings, None


@compiled
@pytest.mark.parametrize("size", [1, 7, 8, 125, 126, 1000, 65535, 65536, MOST])
def test_messages_of_all_sizes(size: int) -> None:
    """Messages beside each other, in each of the three ways to say a length, are taken at once."""
    payload = random.Random(size).randbytes(size)
    division = Division(MOST)
    assert taken(division, masked(BINARY, payload) + masked(BINARY, b"next")) == (payload + b"next", [])
    assert division.first == Opcode.BINARY


@compiled
def test_what_is_for_others() -> None:
    """What controls the connection, has many fragments, is empty, too large or not masked, goes on whole."""
    others = [
        masked(PING, b"there?"),
        masked(FRAGMENT, b"one") + masked(PING, b""),
        masked(REST, b" two"),
        masked(TEXT, b""),
        b"\x81\x02no",
        b"\xc1" + masked(TEXT, b"deflated")[1:],
        b"\x81\xfe\x00\x03" + masked(TEXT, b"abc")[2:],
        masked(BINARY, bytes(MOST + 1)),
        b"\x82\xff" + b"\xff" * 12 + b"more",
    ]
    for other in others:
        found, rest = taken(Division(MOST), masked(TEXT, b"before") + other)
        assert (found, b"".join(rest)) == (b"before", other)


@compiled
def test_wsproto_gets_each_fragment_to_its_end() -> None:
    """A ping in two pieces between messages: none of its bytes is taken for a message."""
    division, ping = Division(MOST), masked(PING, b"there?")
    assert taken(division, masked(TEXT, b"a") + ping[:9]) == (b"a", [ping[:9]])
    assert taken(division, ping[9:] + masked(TEXT, b"b")) == (b"b", [ping[9:]])


@compiled
def test_a_head_in_pieces_is_awaited() -> None:
    """Whose message it is cannot be told before the head is there."""
    division, whole = Division(MOST), masked(TEXT, b"x" * 300)
    for at in range(7):
        assert taken(division, whole[at : at + 1]) == (b"", [])
    assert taken(division, whole[7:]) == (b"x" * 300, [])


@compiled
@pytest.mark.parametrize(
    "wrong", [b"\xff", b"ab\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"cut \xe2\x82"]
)
def test_text_that_is_not_utf8(wrong: bytes) -> None:
    """It is refused as wsproto refuses it, what came before counts; as a binary message it may pass."""
    whole = masked(TEXT, b"good") + masked(TEXT, b"12345678" + wrong)
    payloads: list[bytes] = []
    with pytest.raises(ParseFailed) as caught:
        list(Division(MOST).others(whole, payloads))
    assert caught.value.code == CloseReason.INVALID_FRAME_PAYLOAD_DATA
    assert payloads == [b"good"]
    assert taken(Division(MOST), masked(BINARY, wrong)) == (wrong, [])


def test_without_the_compiled_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """wsproto reads all."""
    monkeypatch.setattr(messages, "_COMPILED", None)
    division, whole = Division(MOST), masked(TEXT, b"a") + masked(PING, b"")
    assert taken(division, whole) == (b"", [whole])
    assert division.first == 0


@compiled
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)), st.booleans())
def test_what_goes_is_framed_alike(payload: bytes, binary: bool) -> None:
    """By the compiled part as without it: text where it is UTF-8."""
    assert messages.framed(payload, binary) == framed_in_python(payload, binary)


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
@pytest.mark.parametrize("frames", [messages.framed, framed_in_python])
def test_lengths_of_what_goes(frames: Callable[[bytes, bool], bytes], size: int) -> None:
    """Each of the three ways to say a length; a character that is cut makes it binary."""
    assert frames(b"x" * size, False) == said(TEXT, b"x" * size)
    assert frames(b"x" * size, True) == said(BINARY, b"x" * size)
    assert frames(b"x" * size + b"\xc3", False) == said(BINARY, b"x" * size + b"\xc3")


FRAGMENTS = st.one_of(
    st.tuples(st.sampled_from([TEXT, BINARY, FRAGMENT, REST, PING]), st.text(max_size=60).map(str.encode)),
    st.tuples(st.sampled_from([TEXT, BINARY, CLOSE, 0x83, 0xC1]), st.binary(max_size=140)),
)


@given(st.lists(FRAGMENTS, max_size=8), st.randoms(use_true_random=False))
def test_any_pieces_are_what_wsproto_reads(fragments: list[tuple[int, bytes]], chance: random.Random) -> None:
    """However the bytes are cut, payloads, pings and the fault are those that wsproto finds in the same pieces. It
    keeps back a character that is not whole, which a fault may come behind.
    """
    whole = b"".join(
        masked(first, payload[:125] if first in (PING, CLOSE) else payload) for first, payload in fragments
    )
    cuts = sorted(chance.randrange(len(whole) + 1) for _ in range(chance.randrange(6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    (payload, pings, fault), expected = heard(pieces, divided=True), heard(pieces, divided=False)
    assert (pings, fault) == expected[1:]
    assert payload == expected[0] or (fault and payload.startswith(expected[0]))

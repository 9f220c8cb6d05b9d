"""What comes over a WebSocket, divided: in whatever pieces, the same bytes and faults that wsproto alone finds."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wsproto.frame_protocol import CloseReason, FrameProtocol, Opcode, ParseFailed

from stomprelay.service.network import websocket
from stomprelay.service.network.websocket import Division, framed_in_python
from tests.service.test_websocket import BINARY, CLOSE, PING, PONG, TEXT, masked, said

MOST = 70_000
FRAGMENT, REST = 0x01, 0x80
"""First bytes: a text of which more comes, and the last of it."""

compiled = pytest.mark.skipif(websocket._COMPILED is None, reason="needs the compiled part")


def taken(division: Division, data: bytes) -> tuple[bytes, list[bytes]]:
    """What is taken of these bytes, and what is left to wsproto."""
    payloads: list[bytes] = []
    others = list(division.others(data, payloads))
    return b"".join(payloads), others


def heard(pieces: list[bytes], *, divided: bool) -> tuple[bytes, list[bytes], int | None]:
    """All payloads, what the last ping of each piece said, and the code of the fault, if there is one; 0 where the
    client closes.
    """
    division, frames = Division(MOST), FrameProtocol(client=False, extensions=[])
    payloads: list[bytes] = []
    pings: list[bytes] = []
    try:
        for piece in pieces:
            ping = None
            try:
                for part in division.others(piece, payloads) if divided else [piece]:
                    frames.receive_bytes(part)
                    for opcode, payload, _, _ in frames.received_frames():
                        if opcode is Opcode.PING:
                            assert isinstance(payload, bytes)
                            ping = payload
                        elif opcode is Opcode.CLOSE:
                            return b"".join(payloads), pings, 0
                        elif opcode in (Opcode.TEXT, Opcode.BINARY):
                            assert not isinstance(payload, tuple)
                            payloads.append(payload.encode() if isinstance(payload, str) else bytes(payload))
            finally:
                pinged = division.pinged()
                pings += [each for each in (ping if pinged is None else pinged,) if each is not None]
    except ParseFailed as error:
        return b"".join(payloads), pings, error.code
    return b"".join(payloads), pings, None


@compiled
def test_fragments_and_pings() -> None:
    """A message in fragments is taken as it comes, also with empty ones, and with pings between them."""
    division = Division(MOST)
    first = masked(FRAGMENT, b"one") + masked(PING, b"") + masked(PONG, b"x") + masked(0, b"")
    assert taken(division, first) == (b"one", [])
    assert division.pinged() == b""
    rest = masked(REST, b" two") + masked(TEXT, b"") + masked(PING, b"there?")
    assert taken(division, rest) == (b" two", [])
    assert (division.pinged(), division.pinged()) == (b"there?", None)


@compiled
def test_what_is_for_others() -> None:
    """What is compressed, not masked, goes on with nothing, or says its length as it must not, goes on whole."""
    others = [
        masked(CLOSE, b"\x03\xe8"),
        masked(REST, b" two"),
        b"\x81\x02no",
        b"\xc1" + masked(TEXT, b"deflated")[1:],
        b"\x81\xfe\x00\x03" + masked(TEXT, b"abc")[2:],
        masked(PING, bytes(126)),
        masked(0x09, b"in fragments"),
        b"\x82\xff" + b"\xff" * 12 + b"more",
    ]
    for other in others:
        found, rest = taken(Division(MOST), masked(TEXT, b"before") + other)
        assert (found, b"".join(rest)) == (b"before", other)


@compiled
@pytest.mark.parametrize(
    ("first", "wrong", "code"),
    [
        (b"", masked(BINARY, bytes(MOST + 1))[:14], CloseReason.MESSAGE_TOO_BIG),
        (b"", b"\x82\xff\x7f" + b"\xff" * 11, CloseReason.MESSAGE_TOO_BIG),
        (masked(FRAGMENT, bytes(MOST)), masked(REST, b"x"), CloseReason.MESSAGE_TOO_BIG),
        (masked(FRAGMENT, b"one"), masked(TEXT, b"another"), CloseReason.PROTOCOL_ERROR),
        (masked(FRAGMENT, b"one"), masked(FRAGMENT, b"another"), CloseReason.PROTOCOL_ERROR),
    ],
)
def test_what_is_wrong(first: bytes, wrong: bytes, code: int) -> None:
    """What its head tells is refused before any of it comes."""
    payloads: list[bytes] = []
    with pytest.raises(ParseFailed) as caught:
        list(Division(MOST).others(first + wrong, payloads))
    assert caught.value.code == code


@compiled
@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)), st.booleans())
def test_what_goes_is_framed_alike(payload: bytes, binary: bool) -> None:
    """By the compiled part as without it: text where it is UTF-8."""
    assert websocket.framed(payload, binary) == framed_in_python(payload, binary)


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
@pytest.mark.parametrize("frames", [websocket.framed, framed_in_python])
def test_lengths_of_what_goes(frames: Callable[[bytes, bool], bytes], size: int) -> None:
    """Each of the three ways to say a length; a character that is cut makes it binary."""
    assert frames(b"x" * size, False) == said(TEXT, b"x" * size)
    assert frames(b"x" * size, True) == said(BINARY, b"x" * size)
    assert frames(b"x" * size + b"\xc3", False) == said(BINARY, b"x" * size + b"\xc3")


RIGHT = st.sampled_from([TEXT, BINARY, FRAGMENT, 0, REST, PING, PONG])
ODD = st.sampled_from([TEXT, BINARY, CLOSE, 0x83, 0xC1])
FRAGMENTS = st.tuples(RIGHT, st.text(max_size=60).map(str.encode)) | st.tuples(ODD, st.binary(max_size=140))


@given(st.lists(FRAGMENTS, max_size=8), st.randoms(use_true_random=False))
def test_any_pieces_are_what_wsproto_reads(fragments: list[tuple[int, bytes]], chance: random.Random) -> None:
    """Payloads, pings and the fault; but wsproto keeps back half a character, which a fault may come behind."""
    most = {PING: 125, PONG: 125, CLOSE: 125}
    whole = b"".join(masked(first, payload[: most.get(first)]) for first, payload in fragments)
    cuts = sorted(chance.randrange(len(whole) + 1) for _ in range(chance.randrange(6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    (payload, pings, fault), expected = heard(pieces, divided=True), heard(pieces, divided=False)
    assert (pings, fault) == expected[1:]
    assert payload == expected[0] or (fault and payload.startswith(expected[0]))

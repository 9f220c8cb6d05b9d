"""Blocks of frames that are alike: literally, expanded, damaged at every byte, and with numbers of nonsense."""

from struct import pack
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import (
    CONTRADICTION,
    EXPANDED,
    MAGIC,
    Block,
    BlockKind,
    Damage,
    RecordedFrame,
    decode,
    expand,
)
from tests.journal.made import SEND, frames

FIRST, THIRD = (frames((SEND, b"%d" % number), number=number) for number in (0, 2))


def group(first: bytes, cuts: list[tuple[int, int]], *values: list[bytes]) -> bytes:
    """A group whose other heads have these values."""
    told = b"".join(value + b"\n" for each in values for value in each)
    places = b"".join(pack("<HH", *cut) for cut in cuts)
    return pack("<IIHH", len(values) + 1, len(told), len(first), len(cuts)) + places + first + told


def alike(bodies: list[int], payload: bytes) -> bytes:
    """A block of these groups."""
    inner = pack("<qQBBHI", 7, 1, BlockKind.ALIKE, 0, 2, len(bodies)) + b"[]"
    inner += pack(f"<{len(bodies)}I", *bodies) + payload
    return MAGIC + pack("<II", len(inner), crc32(inner)) + inner


ACKS = group(b"ACK\nid:1\nx:y\n\n", [(7, 8), (11, 12)], [b"23", b"y"], [b"", b"zz"]) + group(b"NACK\n\n", [])
BLOCK = alike([0, 5, 0, 9], ACKS)
READ = Block(
    0,
    7,
    1,
    BlockKind.FRAMES,
    b"[]",
    (14, 0, 0, 15, 0, 5, 14, 0, 0, 6, 0, 9),
    b"ACK\nid:1\nx:y\n\nACK\nid:23\nx:y\n\nACK\nid:\nx:zz\n\nNACK\n\n",
)


def test_the_bytes_of_a_block() -> None:
    """The format, byte by byte: it is on disks, so it cannot change."""
    literal = (
        b"\x06SJ\x0b\x67\x00\x00\x00" + pack("<I", crc32(BLOCK[12:])) + b"\x07\x00\x00\x00\x00\x00\x00\x00"
        b"\x01\x00\x00\x00\x00\x00\x00\x00"
        b"\x03\x00\x02\x00\x04\x00\x00\x00[]"
        b"\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00"
        b"\x03\x00\x00\x00\x09\x00\x00\x00\x0e\x00\x02\x00"
        b"\x07\x00\x08\x00\x0b\x00\x0c\x00"
        b"ACK\nid:1\nx:y\n\n"
        b"23\ny\n\nzz\n"
        b"\x01\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00"
        b"NACK\n\n"
    )
    assert literal == BLOCK


def test_it_is_read_as_one_of_frames() -> None:
    """Nobody above knows that heads were shortened; it takes the bytes that it takes."""
    first, second = decode(BLOCK * 2)
    assert isinstance(first, Block)
    assert first._replace(spared=0) == READ
    assert first.length == second.offset == len(BLOCK)
    assert isinstance(first.kind, BlockKind)
    assert list(first.frames) == [
        RecordedFrame(b"ACK\nid:1\nx:y\n\n", b"", 0),
        RecordedFrame(b"ACK\nid:23\nx:y\n\n", b"", 5),
        RecordedFrame(b"ACK\nid:\nx:zz\n\n", b"", 0),
        RecordedFrame(b"NACK\n\n", b"", 9),
    ]


def test_a_flipped_bit() -> None:
    """In any byte: no head is taken for good, and its neighbours are read."""
    for at in range(len(BLOCK)):
        for bit in range(8):
            data = bytearray(FIRST + BLOCK + THIRD)
            data[len(FIRST) + at] ^= 1 << bit
            first, damage, third = decode(bytes(data))
            assert isinstance(first, Block)
            assert isinstance(third, Block)
            assert (first.number, third.number) == (0, 2)
            assert isinstance(damage, Damage)
            assert (damage.offset, damage.length, damage.torn) == (len(FIRST), len(BLOCK), False)


@pytest.mark.parametrize(
    ("frames", "payload"),
    [
        (1, b""),
        (0, group(b"A\n\n", [])),
        (2, group(b"A\n\n", [])),
        (1, group(b"A\n\n", [])[:-1]),
        (1, group(b"A\n\n", [])[:11]),
        (1, group(b"A\n\n", []) + b"x"),
        (1, pack("<IIHH", 0, 0, 0, 0) + group(b"A\n\n", [])),
        (2, group(b"A\n\n", [(1, 1)], [b"a"])[:-1]),
        (2, group(b"A\n\n", [(1, 1)], [b"a", b"b"])),
        (2, group(b"A\n\n", [(1, 1)], [b"a\nb"])),
        (2, group(b"A\n\n", [(0, 1), (1, 1)], [b"a"])),
        (2, group(b"A\n\n", [(1, 0)], [b"a"])),
        (2, group(b"A\n\n", [(1, 4)], [b"a"])),
        (3, group(b"A\n\n", [(1, 2), (1, 2)], [b"a", b"b"], [b"a", b"b"])),
        (2, group(b"A\n\n", [], [b"a"])),
        (1, pack("<IIHH", 1, 1, 2, 0) + b"A\nx"),
        (1, pack("<IIHH", 1, 0xFFFFFFFF, 0xFFFF, 0xFFFF)),
        (0xFFFFFFFF, pack("<IIHH", 0xFFFFFFFF, 0, 3, 0) + b"A\n\n"),
        (1, b"x" * (EXPANDED + 1)),
        (2, group(b"A", [(0, 1)], [b"x" * EXPANDED])),
    ],
)
def test_numbers_of_nonsense(frames: int, payload: bytes) -> None:
    """They are told for what they are, also where the checksum is right."""
    with pytest.raises(ValueError, match=CONTRADICTION):
        expand(payload, frames)
    if frames < 10:
        block = alike([0] * frames, payload)
        assert list(decode(block)) == [Damage(0, len(block), CONTRADICTION)]


def test_what_would_become_too_long() -> None:
    """A few bytes do not fill the memory: up to EXPANDED they are heads, and beyond it a damage."""
    head = b"x" * 1024
    assert expand(pack("<IIHH", 1024, 0, 1024, 0) + head, 1024) == [head] * 1024
    for count, cuts in ((1025, []), (1025, [(0, 0)])):
        with pytest.raises(ValueError, match=CONTRADICTION):
            expand(group(head, cuts, *[[b""] * len(cuts)] * (count - 1)), count)


@given(
    st.lists(
        st.tuples(
            st.lists(
                st.binary(max_size=5).map(lambda text: text.replace(b"\n", b"%")), min_size=1, max_size=4
            ),
            st.lists(st.binary(max_size=5), min_size=0, max_size=5),
        ),
        max_size=4,
    )
)
def test_round_trips(made: list[tuple[list[bytes], list[bytes]]]) -> None:
    """Whatever is shared, and whatever differs."""
    heads: list[bytes] = []
    payload = b""
    for shared, told in made:
        values = [[value.replace(b"\n", b"") for _ in shared[1:]] for value in told]
        first, cuts = shared[0], []
        for piece in shared[1:]:
            cuts.append((len(first), len(first) + 1))
            first += b"?" + piece
        payload += group(first, cuts, *values)
        heads.append(first)
        for each in values:
            heads.append(shared[0] + b"".join(map(bytes.__add__, each, shared[1:])))
    assert expand(payload, len(heads)) == heads

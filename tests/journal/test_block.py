"""Blocks as bytes: literally, torn at every byte, with every byte damaged; those of frames that are alike expanded."""

from collections.abc import Sequence
from struct import pack
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import (
    CONTRADICTION,
    EXPANDED,
    MAGIC,
    MOST,
    Block,
    BlockKind,
    Damage,
    RecordedFrame,
    decode,
    encode,
    expand,
    walk,
)
from tests.journal.made import SEND, event, frames

INNER = (
    b"\x15\xcd\x5b\x07\x00\x00\x00\x00"  # time 123456789
    b"\x05\x00\x00\x00\x00\x00\x00\x00"  # number
    b"\x01\x00"  # frames
    b"\x02\x00"  # bytes of the context
    b"\x02\x00\x00\x00"  # how many frames
    b"[]"
    b"\x06\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00"
    b"\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00"
    b"SEND\n\nab"
    b"BEGIN\n\n"
)
LITERAL = b"\x06SJ\x0b" + b"\x41\x00\x00\x00" + b"\xaf\x3f\x23\xaa" + INNER
READ = Block(0, 123456789, 5, BlockKind.FRAMES, b"[]", (6, 2, 2, 7, 0, 256), b"SEND\n\nabBEGIN\n\n")
FIRST, SECOND, THIRD = (frames((SEND, b"%d" % number), number=number) for number in range(3))


def whole(data: bytes) -> list[Block]:
    """The blocks of data that is not damaged."""
    found = list(decode(data))
    assert not [item for item in found if isinstance(item, Damage)]
    return [item for item in found if isinstance(item, Block)]


def numbers(found: Sequence[Block | Damage]) -> list[int]:
    """Which of the three blocks were read."""
    return [item.number for item in found if isinstance(item, Block)]


def test_the_bytes_of_a_block() -> None:
    """The format, byte by byte: it is on disks, so it cannot change."""
    assert encode(BlockKind.FRAMES, 123456789, 5, b"[]", READ.sizes, READ.payload) == LITERAL
    assert list(decode(LITERAL)) == [READ]


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.integers(0, (1 << 64) - 1),
            st.binary(max_size=40),
            st.lists(
                st.tuples(st.binary(max_size=30), st.binary(max_size=30), st.integers(0, (1 << 32) - 1))
            ),
        ),
        max_size=5,
    )
)
def test_round_trips(made: list[tuple[int, int, bytes, list[tuple[bytes, bytes, int]]]]) -> None:
    """What was encoded is decoded, in any number and of any content."""
    data = b""
    for time, number, context, found in made:
        sizes = [size for head, kept, of in found for size in (len(head), len(kept), of)]
        payload = b"".join([head + kept for head, kept, _ in found])
        data += encode(BlockKind.FRAMES, time, number, context, sizes, payload)
    assert [
        (block.time, block.number, block.context, [tuple(frame) for frame in block.frames])
        for block in whole(data)
    ] == made


def test_a_torn_end() -> None:
    """Cut at any byte, the last block is damage that is known for a torn end; what is before it is read."""
    for keep in range(len(SECOND)):
        found = list(decode(FIRST + SECOND[:keep]))
        assert numbers(found) == [0]
        damages = [item for item in found if isinstance(item, Damage)]
        assert [(each.offset, each.length, each.torn) for each in damages] == (
            [(len(FIRST), keep, True)] if keep else []
        )
        assert all(each.reason.startswith("torn") for each in damages)


@pytest.mark.parametrize("alike", [False, True])
def test_a_flipped_bit(alike: bool) -> None:
    """In any byte, lowest or highest: the block is not taken for good, and its neighbours are read."""
    middle = ALIKE if alike else SECOND
    for at in range(len(middle)):
        for bit in (1, 0x80):
            data = bytearray(FIRST + middle + THIRD)
            data[len(FIRST) + at] ^= bit
            found = list(decode(bytes(data)))
            assert numbers(found) == [0, 2], (at, bit)
            damage = found[1]
            assert isinstance(damage, Damage)
            assert (damage.offset, damage.length, damage.torn) == (len(FIRST), len(middle), False)
            assert damage.reason


@given(st.binary(max_size=200))
def test_garbage(garbage: bytes) -> None:
    """Any bytes are read to their end, once."""
    at = 0
    for item in decode(garbage):
        assert item.offset == at
        at += item.length
    assert at == len(garbage)


@pytest.mark.parametrize("zeros", [1, 3, 4, 35, 36, 5000, (1 << 20) + 7])
def test_zeros_at_the_end(zeros: int) -> None:
    """What a power failure leaves of a file that had grown: nothing is in it, so it counts as torn."""
    for end in (b"", b"\x01"):
        data = FIRST + bytes(zeros) + end
        found = list(decode(data))
        assert list(walk(Source(data, 999).more, len(data))) == found
        assert isinstance(found[-1], Damage)
        assert (found[-1].offset, found[-1].length) == (len(FIRST), zeros + len(end))
        assert found[-1].torn is (not end)
    assert [type(item) for item in decode(FIRST + bytes(zeros) + SECOND)] == [Block, Damage, Block]


def test_a_torn_block_with_good_ones_behind_it() -> None:
    """That is damage, and no torn end."""
    found = list(decode(FIRST + SECOND[:-1] + THIRD))
    assert numbers(found) == [0, 2]
    assert not [item for item in found if isinstance(item, Damage) and item.torn]


def block(
    length: int | None = None, kind: int = 1, sizes: bytes = b"", count: int = 0, rest: bytes = b""
) -> bytes:
    """A block of this content with a checksum that is right."""
    inner = pack("<qQBBHI", 1, 2, kind, 0, 0, count) + sizes + rest
    return MAGIC + pack("<II", len(inner) if length is None else length, crc32(inner)) + inner


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (block(length=23), "a block cannot be 23 octets long"),
        (block(length=MOST + 1), f"a block cannot be {MOST + 1} octets long"),
        (block(kind=4), "a block of a kind that is not known, 4"),
        (block(count=1), "its lengths contradict each other"),
        (block(count=0xFFFFFFFF), "its lengths contradict each other"),
        (block(count=1, sizes=pack("<III", 1, 1, 1), rest=b"a"), "its lengths contradict each other"),
        (block(count=1, sizes=pack("<III", 1, 0, 1), rest=b"ab"), "its lengths contradict each other"),
        (block(length=1 << 20, count=1 << 20), "its lengths contradict each other"),
        (FIRST[:-1] + b"?", "the checksum is wrong"),
        (b"hello", "no block begins here"),
        (FIRST[1:], "no block begins here"),
        (MAGIC + pack("<II", 23, 0), "a block cannot be 23 octets long"),
    ],
)
def test_reasons(data: bytes, reason: str) -> None:
    """A damage says what it is, also where the checksum is right."""
    assert list(decode(data)) == [Damage(0, len(data), reason)]
    assert next(decode(data + THIRD)) == Damage(0, len(data), reason)


class Source:
    """Bytes in pieces of some size."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data = data
        self._piece = piece
        self.most = 0

    def more(self, wanted: int) -> bytes:
        """The next ones."""
        self.most = max(self.most, wanted)
        piece, self._data = self._data[: self._piece], self._data[self._piece :]
        return piece


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 36, 37, 50, 1000])
def test_pieces(piece: int) -> None:
    """A source is read the same in pieces of any size, damage included."""
    data = FIRST + b"x" * 50 + SECOND + SECOND[:-1] + MAGIC[:3] + THIRD
    data += event() + MAGIC * 20 + bytes(60) + THIRD + SECOND[:40]
    assert list(walk(Source(data, piece).more, len(data))) == list(decode(data))


def test_a_source_that_ends_too_early() -> None:
    """What it has is read; what it lacks is no damage."""
    found = list(walk(Source(FIRST + SECOND, 10).more, len(FIRST + SECOND) + 500))
    assert numbers(found) == [0, 1]
    assert len(found) == 2
    whole = len(FIRST) - 12
    for size, told in ((len(FIRST) - 1, len(FIRST) + 100), (20, 30)):
        (damage,) = walk(Source(FIRST[:size], 10).more, told)
        assert damage == Damage(0, size, f"torn: {size - 12} of {whole} octets are there", torn=True)
    for told in (100, 10):
        assert list(walk(Source(b"", 1).more, told)) == []


def test_a_length_that_was_damaged_does_not_fill_the_memory() -> None:
    """Bytes are asked for in moderate numbers: what cannot be a block's length is not waited for."""
    data = FIRST + block(length=MOST, count=1 << 30) + b"x" * 5000 + THIRD
    source = Source(data, 100)
    found = list(walk(source.more, MOST * 2))
    assert numbers(found)[0] == 0
    assert source.most <= 1 << 20


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
ALIKE = alike([0, 5, 0, 9], ACKS)
HEADS_ALIKE = (b"ACK\nid:1\nx:y\n\n", b"ACK\nid:23\nx:y\n\n", b"ACK\nid:\nx:zz\n\n", b"NACK\n\n")
SIZES_ALIKE = (14, 0, 0, 15, 0, 5, 14, 0, 0, 6, 0, 9)
READ_ALIKE = Block(0, 7, 1, BlockKind.FRAMES, b"[]", SIZES_ALIKE, b"".join(HEADS_ALIKE))


def test_the_bytes_of_a_block_of_frames_that_are_alike() -> None:
    """The format, byte by byte: it is on disks, so it cannot change."""
    literal = (
        b"\x06SJ\x0b\x67\x00\x00\x00" + pack("<I", crc32(ALIKE[12:])) + b"\x07\x00\x00\x00\x00\x00\x00\x00"
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
    assert literal == ALIKE


def test_it_is_read_as_one_of_frames() -> None:
    """Nobody above knows that heads were shortened; it takes the bytes that it takes."""
    first, second = decode(ALIKE * 2)
    assert isinstance(first, Block)
    assert first._replace(spared=0) == READ_ALIKE
    assert first.length == second.offset == len(ALIKE)
    assert isinstance(first.kind, BlockKind)
    wanted = [RecordedFrame(head, b"", size) for head, size in zip(HEADS_ALIKE, (0, 5, 0, 9), strict=True)]
    assert list(first.frames) == wanted


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
def test_heads_that_are_alike_round_trip(made: list[tuple[list[bytes], list[bytes]]]) -> None:
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

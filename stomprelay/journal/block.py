"""Blocks: how records stand in a segment, one block for the frames of one chunk, or for one event.

All numbers are little-endian. A block is

    magic   4   ACK, "SJ", 0x0b: where to go on after damage
    length  4   octets that follow the checksum
    check   4   CRC-32 of them
    time    8   nanoseconds since 1970
    number  8   frames of this leg before this block, those that were dropped included
    kind    1   a `Kind`
    zero    1
    context 2   octets of the context
    frames  4   how many
    context     JSON, see `schema.Context`
    sizes       three numbers of 4 octets for each frame: of its head (with the blank line), of what is kept of its
                body, of the body
    payload     for each frame its head and what is kept of its body; for an event JSON; for a header, too

So a reader that lost its way finds the next block by its magic, and nothing that it reads is taken for good without
its checksum.
"""

from array import array
from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from sys import byteorder
from typing import Final, NamedTuple
from zlib import crc32

MAGIC: Final = b"\x06SJ\x0b"
_OUTER: Final = Struct("<4sII")
_INNER: Final = Struct("<qQBBHI")
MOST: Final = 1 << 30
"""No block is longer: a length beyond it is damage."""
SIZES: Final = 3


class Kind(IntEnum):
    """What a block holds."""

    HEADER = 0
    FRAMES = 1
    EVENT = 2


_KINDS: Final = frozenset(map(int, Kind))


class Recorded(NamedTuple):
    """One frame of a block. `head` goes from the command to the blank line; `kept` is what is kept of the body, the
    whole of it where it is as long as `size`.
    """

    head: bytes
    kept: bytes
    size: int


class Block(NamedTuple):
    """A block that was read. `offset` is where it began in its segment; `sizes` are those of its frames, in a row."""

    offset: int
    time: int
    number: int
    kind: Kind
    context: bytes
    sizes: Sequence[int]
    payload: bytes

    @property
    def frames(self) -> Iterator[Recorded]:
        """Its frames, in the order in which they came."""
        at, payload, sizes = 0, self.payload, self.sizes
        for index in range(0, len(sizes), SIZES):
            body = at + sizes[index]
            end = body + sizes[index + 1]
            yield Recorded(payload[at:body], payload[body:end], sizes[index + 2])
            at = end


class Damage(NamedTuple):
    """What could not be read: so many octets from `offset` on, and why. `torn`: the file ended within a block, as it
    does when its writer was killed.
    """

    offset: int
    length: int
    reason: str
    torn: bool = False


def encode(
    kind: Kind, time: int, number: int, context: bytes, sizes: Sequence[int], payload: bytes
) -> list[bytes]:
    """A block as pieces to be written one behind the other."""
    numbers = array("I", sizes)
    if byteorder != "little":
        numbers.byteswap()
    rest = b"".join(
        [
            _INNER.pack(time, number, kind, 0, len(context), len(sizes) // SIZES),
            context,
            numbers.tobytes(),
        ]
    )
    return [_OUTER.pack(MAGIC, len(rest) + len(payload), crc32(payload, crc32(rest))), rest, payload]


def decode(data: bytes, at: int = 0) -> Iterator[Block | Damage]:
    """All that is in a segment's bytes from `at` on, in order, damage included: nothing is left out in silence."""
    size = len(data)
    while at < size:
        found = _block(data, at)
        if isinstance(found, Block):
            yield found
            at += _OUTER.size + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        after = _next(data, at + 1)
        yield Damage(at, after - at, found, torn=after == size and found.startswith("torn"))
        at = after


def _next(data: bytes, at: int) -> int:
    """Where the next whole block begins, or the end."""
    while True:
        at = data.find(MAGIC, at)
        if at < 0:
            return len(data)
        if isinstance(_block(data, at), Block):
            return at
        at += 1


def _block(data: bytes, at: int) -> Block | str:
    """The block here, or what is wrong with it."""
    if len(data) - at < _OUTER.size:
        return "torn in its first octets"
    magic, length, check = _OUTER.unpack_from(data, at)
    if magic != MAGIC:
        return "no block begins here"
    at_rest = at + _OUTER.size
    if length < _INNER.size or length > MOST:
        return f"a block cannot be {length} octets long"
    end = at_rest + length
    if end > len(data):
        return f"torn: {len(data) - at_rest} of {length} octets are there"
    if crc32(data[at_rest:end]) != check:
        return "the checksum is wrong"
    time, number, kind, _, context, frames = _INNER.unpack_from(data, at_rest)
    at_context = at_rest + _INNER.size
    at_sizes = at_context + context
    at_payload = at_sizes + 4 * SIZES * frames
    sizes = array("I", data[at_sizes:at_payload])
    if byteorder != "little":
        sizes.byteswap()
    kept = sum(sizes[0::SIZES]) + sum(sizes[1::SIZES])
    if kind not in _KINDS or at_payload > end or (kind == Kind.FRAMES and at_payload + kept != end):
        return "its lengths contradict each other"
    return Block(at, time, number, Kind(kind), data[at_context:at_sizes], sizes, data[at_payload:end])

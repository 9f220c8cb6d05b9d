"""Blocks: how a segment stores records. A block has the frames of one chunk, or one event, or is the segment's header.

All numbers are little-endian. A block is

    magic   4   ACK, "SJ", 0x0b; with it a reader finds the next block after damage
    length  4   number of bytes after the checksum
    check   4   CRC-32 of the bytes after the checksum
    time    8   nanoseconds since 1970
    number  8   number of frames of this leg before this block, including dropped frames
    kind    1   a `BlockKind`
    zero    1   always 0
    context 2   number of bytes of the context
    frames  4   number of frames
    context     JSON, see `schema.Context`; in release 0.2.0 with spaces behind it
    sizes       three numbers of 4 bytes for each frame: the size of its head (with the blank line), of the recorded
                part of its body, and of its body
    payload     for each frame its head and the recorded part of its body; for an event or a header JSON; release
                0.2.0 wrote spaces behind the JSON of a header

Release 0.2.0 also wrote blocks of kind `ALIKE`, for frames whose heads are alike. This software only reads them. In
place of `sizes`, such a block has the size of each body, 4 bytes. Nothing of the bodies is recorded. The payload is
groups of neighbouring frames:

    frames  4   number of frames
    values  4   number of bytes of the values
    first   2   number of bytes of the first head
    cuts    2   number of cuts
    cuts        two numbers of 2 bytes for each cut: begin and end of a part of the first head that may differ in others
    first       the first head
    values      for each other head, and for each cut, the text in the place of the cut, followed by an LF

No cut and no value has an LF in it. Each other head is the first head with its own values in the places of the cuts.

The texts of damages say "octets": users see them in the output of `stomprelay journal` and in the pipeline's tables.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from struct import Struct, unpack_from
from typing import Final, NamedTuple
from zlib import crc32

MAGIC: Final = b"\x06SJ\x0b"
_OUTER: Final = Struct("<4sII")
_INNER: Final = Struct("<qQBBHI")
_HEAD: Final = Struct("<4sIIqQBBHI")
MOST: Final = 1 << 30
"""The greatest length of a block. A greater length is damage."""
SIZES: Final = 3
FRAME_SIZES: Final = 4 * SIZES
OVERHEAD: Final = _HEAD.size
"""Bytes of a block without its context, its sizes and its payload."""
_CHUNK: Final = 1 << 20
EXPANDED: Final = 1 << 20
"""The most bytes of all heads of a block together, so that a small `ALIKE` block in a file cannot fill the memory."""
CONTRADICTION: Final = "its lengths contradict each other"
_GROUP: Final = Struct("<IIHH")
NO_BLOCK: Final = "no block begins here"
_ZEROS: Final = "nothing but zeros from here on"


class BlockKind(IntEnum):
    """The kinds of blocks. A block of kind `ALIKE` is read as one of kind `FRAMES`."""

    HEADER = 0
    FRAMES = 1
    EVENT = 2
    ALIKE = 3


_KINDS: Final = tuple(BlockKind)
_new: Final = tuple.__new__


@lru_cache(1024)
def _numbers(count: int) -> Struct:
    return Struct(f"<{count}I")


pack_sizes: Final = Struct("<3I").pack
"""Packs the sizes of a frame for a block: of its head, of the recorded part of its body, of its body."""


class RecordedFrame(NamedTuple):
    """A frame of a block: its head with the blank line, the recorded part of its body, and the body's size."""

    head: bytes
    kept: bytes
    size: int


class Block(NamedTuple):
    """A block. `offset` is its place in the segment. `sizes` has three numbers for each frame. `spared`: how many bytes
    of `sizes` and `payload` the file does not have, because it has the block in the shorter form `ALIKE`.
    """

    offset: int
    time: int
    number: int
    kind: BlockKind
    context: bytes
    sizes: Sequence[int]
    payload: bytes
    spared: int = 0

    @property
    def length(self) -> int:
        """Return the number of bytes that the block has in its segment."""
        return _HEAD.size + len(self.context) + 4 * len(self.sizes) + len(self.payload) - self.spared

    @property
    def frames(self) -> Iterator[RecordedFrame]:
        """Yield the frames of the block, in the order in which they were received."""
        at, payload, sizes = 0, self.payload, self.sizes
        for index in range(0, len(sizes), SIZES):
            body = at + sizes[index]
            end = body + sizes[index + 1]
            yield _new(RecordedFrame, (payload[at:body], payload[body:end], sizes[index + 2]))
            at = end


class Damage(NamedTuple):
    """Damage: `length` unreadable bytes from `offset` on, and the reason. `torn`: the file ends within a block."""

    offset: int
    length: int
    reason: str
    torn: bool = False


def encode(kind: int, time: int, number: int, context: bytes, sizes: Sequence[int], payload: bytes) -> bytes:
    """Return a block as bytes. `sizes` may be numbers, or bytes that are encoded already."""
    packed = sizes if isinstance(sizes, bytes) else _numbers(len(sizes)).pack(*sizes)
    inner = _INNER.pack(time, number, kind, 0, len(context), len(packed) // FRAME_SIZES)
    rest = b"".join([inner, context, packed, payload])
    return _OUTER.pack(MAGIC, len(rest), crc32(rest)) + rest


def decode(data: bytes, at: int = 0) -> Iterator[Block | Damage]:
    """Yield the blocks and damages in a segment's bytes from `at` on, in order. Each byte is in a block or damage."""
    return _Reader(data, at, len(data), lambda _: b"").blocks()


def walk(more: Callable[[int], bytes], size: int) -> Iterator[Block | Damage]:
    """Yield the same as `decode` for a source of `size` bytes. `more(n)` must return the next n bytes of the source or
    a few more, and empty bytes at its end.
    """
    return _Reader(b"", 0, size, more).blocks()


class _Reader:
    """Reads a source block by block. `_data`: the part in memory, from offset `_base` on. `_at`: a place in it."""

    __slots__ = ("_at", "_base", "_data", "_end", "_more", "_view")

    def __init__(self, data: bytes, at: int, end: int, more: Callable[[int], bytes]) -> None:
        self._data = data
        self._view = memoryview(data)
        self._at = at
        self._base = 0
        self._end = end
        self._more = more

    def _has(self, need: int) -> bool:
        """Read until `need` bytes from `_at` on are in memory. Return False if the source ends before that."""
        while len(self._data) - self._at < need:
            lacking = need - (len(self._data) - self._at)
            if self._base + self._at + need > self._end:
                return False
            piece = self._more(max(lacking, _CHUNK))
            if not piece:
                self._end = self._base + len(self._data)
                return False
            self._base += self._at
            self._data = self._data[self._at :] + piece
            self._view = memoryview(self._data)
            self._at = 0
        return True

    def _rest(self) -> bytes:
        """Return all bytes from `_at` on."""
        while not self._has(self._end - self._base - self._at):
            pass  # the source was shorter than announced; `_has` has corrected `_end`
        return self._data[self._at :]

    def blocks(self) -> Iterator[Block | Damage]:
        """Yield the blocks and damages in the source, in order."""
        while self._base + self._at < self._end:
            found = self._block()
            if isinstance(found, Block):
                yield found
                self._at += found.length
            elif self._base + self._at < self._end:
                yield self._damage(found)

    def _damage(self, reason: str) -> Damage:
        """Return a damage from `_at` up to the next whole block, or to the end. Set `_at` to the end of the damage."""
        start = self._base + self._at
        zeros = not self._data[self._at]
        self._at += 1
        while True:
            at = self._data.find(MAGIC, self._at)
            if at >= 0:
                zeros = False
                self._at = at
                if isinstance(self._block(), Block):
                    break
                self._at += 1
                continue
            at = max(self._at, len(self._data) - len(MAGIC) + 1)
            zeros = zeros and not self._data[self._at : at].strip(b"\0")
            self._at = at
            if not self._has(len(MAGIC)):
                zeros = not self._rest().strip(b"\0") and zeros
                self._at = self._end - self._base
                break
        after = self._base + self._at
        if after < self._end:
            return Damage(start, after - start, reason)
        return Damage(start, after - start, _ZEROS if zeros else reason, zeros or reason.startswith("torn"))

    def _block(self) -> Block | str:
        """Return the block at `_at`, or the reason why there is no block."""
        data, at = self._data, self._at
        if len(data) - at < _HEAD.size:
            if not self._has(_HEAD.size):
                return self._stump()
            data, at = self._data, self._at
        magic, length, check, time, number, kind, _, context, frames = _HEAD.unpack_from(data, at)
        if magic != MAGIC:
            return NO_BLOCK
        if length < _INNER.size or length > MOST:
            return f"a block cannot be {length} octets long"
        sized = 4 * (1 if kind == BlockKind.ALIKE else SIZES)
        if _INNER.size + context + sized * frames > length:
            return CONTRADICTION
        end = at + _OUTER.size + length
        if end > len(data):
            if not self._has(_OUTER.size + length):
                return f"torn: {self._end - self._base - at - _OUTER.size} of {length} octets are there"
            data, at = self._data, self._at
            end = at + _OUTER.size + length
        if crc32(self._view[at + _OUTER.size : end]) != check:
            return "the checksum is wrong"
        at_context = at + _HEAD.size
        at_sizes = at_context + context
        at_payload = at_sizes + sized * frames
        sizes = _numbers(sized // 4 * frames).unpack_from(data, at_sizes)
        if kind >= len(_KINDS):
            return f"a block of a kind that is not known, {kind}"
        if kind == BlockKind.ALIKE:
            return self._expanded(time, number, data[at_context:at_sizes], sizes, data[at_payload:end])
        if kind == BlockKind.FRAMES and at_payload + sum(sizes) - sum(sizes[2::SIZES]) != end:
            return CONTRADICTION
        # Block(...) would take twice as long.
        return _new(
            Block,
            (
                self._base + at,
                time,
                number,
                _KINDS[kind],
                data[at_context:at_sizes],
                sizes,
                data[at_payload:end],
                0,
            ),
        )

    def _expanded(
        self, time: int, number: int, context: bytes, bodies: Sequence[int], payload: bytes
    ) -> Block | str:
        """Convert an `ALIKE` block to a block of kind `FRAMES`. Return the new block, or why that is impossible."""
        try:
            heads = expand(payload, len(bodies))
        except ValueError:
            return CONTRADICTION
        sizes = [0] * (SIZES * len(heads))
        sizes[0::SIZES] = map(len, heads)
        sizes[2::SIZES] = bodies
        whole = b"".join(heads)
        spared = 4 * (len(sizes) - len(bodies)) + len(whole) - len(payload)
        offset = self._base + self._at
        return Block(offset, time, number, BlockKind.FRAMES, context, tuple(sizes), whole, spared)

    def _stump(self) -> str:
        """Return why there is no block at `_at`. The rest of the source is too short for a block."""
        left = self._rest()
        if not MAGIC.startswith(left[: len(MAGIC)]):
            return NO_BLOCK
        if len(left) < _OUTER.size:
            return "torn in its first octets"
        _, length, _ = _OUTER.unpack_from(left)
        if length < _INNER.size or length > MOST:
            return f"a block cannot be {length} octets long"
        return f"torn: {len(left) - _OUTER.size} of {length} octets are there"


def expand(payload: bytes, frames: int) -> list[bytes]:
    """Return the heads of all `frames` in the payload of a block of kind `ALIKE`. Raises `ValueError` if the payload's
    numbers contradict each other.
    """
    if len(payload) > EXPANDED:
        raise ValueError(CONTRADICTION)
    heads: list[bytes] = []
    at = size = 0
    while at < len(payload):
        if len(payload) - at < _GROUP.size:
            raise ValueError(CONTRADICTION)
        count, valued, length, cuts = _GROUP.unpack_from(payload, at)
        at_first = at + _GROUP.size + 4 * cuts
        at_values = at_first + length
        at, at_cuts = at_values + valued, at + _GROUP.size
        if at > len(payload) or not 0 < count <= frames - len(heads):
            raise ValueError(CONTRADICTION)
        first, values = payload[at_first:at_values], payload[at_values:at].split(b"\n")
        places = [0, *unpack_from(f"<{2 * cuts}H", payload, at_cuts), length]
        if places != sorted(places):
            raise ValueError(CONTRADICTION)
        shared = [first[begin:end] for begin, end in zip(places[::2], places[1::2], strict=True)]
        size += length + (count - 1) * sum(map(len, shared)) + valued - len(values) + 1
        if values.pop() or len(values) != (count - 1) * cuts or size > EXPANDED:
            raise ValueError(CONTRADICTION)
        heads.append(first)
        if cuts:
            form = b"%b".join([piece.replace(b"%", b"%%") for piece in shared])
            heads += map(form.__mod__, zip(*[iter(values)] * cuts, strict=True))
        else:
            heads += [first] * (count - 1)
    if len(heads) != frames:
        raise ValueError(CONTRADICTION)
    return heads

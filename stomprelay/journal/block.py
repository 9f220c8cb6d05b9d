"""Blocks: how records stand in a segment, one block for the frames of one chunk, or for one event.

All numbers are little-endian. A block is

    magic   4   ACK, "SJ", 0x0b: by which a reader finds the next block after damage
    length  4   bytes that follow the checksum
    check   4   CRC-32 of them
    time    8   nanoseconds since 1970
    number  8   frames of this leg before this block, those that were dropped included
    kind    1   a `BlockKind`
    zero    1
    context 2   bytes of the context
    frames  4   how many
    context     JSON, see `schema.Context`
    sizes       three numbers of 4 bytes for each frame: of its head (with the blank line), of what is kept of its
                body, of the body
    payload     for each frame its head and what is kept of its body; for an event JSON; for a header, too

So a reader finds the next block after damage by its magic, and returns no block whose checksum is wrong.

The texts of damages say "octets": users see them in the output of `stomprelay journal` and in the pipeline's tables.
"""

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

MAGIC: Final = b"\x06SJ\x0b"
_OUTER: Final = Struct("<4sII")
_INNER: Final = Struct("<qQBBHI")
_HEAD: Final = Struct("<4sIIqQBBHI")
MOST: Final = 1 << 30
"""No block is longer: a length beyond it is damage."""
SIZES: Final = 3
_CHUNK: Final = 1 << 20
_SMALL: Final = 4096
NO_BLOCK: Final = "no block begins here"
_CONTRADICTION: Final = "its lengths contradict each other"
_ZEROS: Final = "nothing but zeros from here on"


class BlockKind(IntEnum):
    """What a block holds."""

    HEADER = 0
    FRAMES = 1
    EVENT = 2


_KINDS: Final = tuple(BlockKind)
_new: Final = tuple.__new__


@lru_cache(1024)
def _numbers(count: int) -> Struct:
    """The format of this many sizes."""
    return Struct(f"<{count}I")


class RecordedFrame(NamedTuple):
    """One frame of a block. `head` goes from the command to the blank line; `kept` is the recorded part of the body,
    whose length was `size`.
    """

    head: bytes
    kept: bytes
    size: int


class Block(NamedTuple):
    """A block that was read. `offset` is where it begins in its segment; `sizes` has three numbers for each frame."""

    offset: int
    time: int
    number: int
    kind: BlockKind
    context: bytes
    sizes: Sequence[int]
    payload: bytes

    @property
    def length(self) -> int:
        """How many bytes of its segment it takes."""
        return _HEAD.size + len(self.context) + 4 * len(self.sizes) + len(self.payload)

    @property
    def frames(self) -> Iterator[RecordedFrame]:
        """Its frames, in the order in which they came."""
        at, payload, sizes = 0, self.payload, self.sizes
        for index in range(0, len(sizes), SIZES):
            body = at + sizes[index]
            end = body + sizes[index + 1]
            yield _new(RecordedFrame, (payload[at:body], payload[body:end], sizes[index + 2]))
            at = end


class Damage(NamedTuple):
    """What could not be read: `length` bytes from `offset` on, and why. `torn`: the file ends within a block, as it
    does when its writer was killed.
    """

    offset: int
    length: int
    reason: str
    torn: bool = False


def encode(
    kind: BlockKind, time: int, number: int, context: bytes, sizes: Sequence[int], payload: bytes
) -> list[bytes]:
    """Return a block as pieces that are to be written one behind the other."""
    rest = b"".join(
        [
            _INNER.pack(time, number, kind, 0, len(context), len(sizes) // SIZES),
            context,
            _numbers(len(sizes)).pack(*sizes),
        ]
    )
    return [_OUTER.pack(MAGIC, len(rest) + len(payload), crc32(payload, crc32(rest))), rest, payload]


def sealed(kind: int, time: int, number: int, context: bytes, sizes: Sequence[int], payload: bytes) -> bytes:
    """Return the same block in one piece. This is faster for small blocks, of which there are many."""
    if len(payload) > _SMALL:
        return b"".join(encode(BlockKind(kind), time, number, context, sizes, payload))
    count, named = len(sizes), len(context)
    rest = _INNER.pack(time, number, kind, 0, named, count // SIZES) + context + _numbers(count).pack(*sizes)
    rest += payload
    return _OUTER.pack(MAGIC, len(rest), crc32(rest)) + rest


def decode(data: bytes, at: int = 0) -> Iterator[Block | Damage]:
    """All that is in a segment's bytes from `at` on, in order: each byte is in a block or in a damage."""
    return _all(_Window(data, at, len(data), lambda _: b""))


def walk(more: Callable[[int], bytes], size: int) -> Iterator[Block | Damage]:
    """The same of a source of `size` bytes: `more(n)` returns its next bytes, not many more than n, and none where it
    ends before `size`. No more of it is kept in memory than the longest block needs.
    """
    return _all(_Window(b"", 0, size, more))


class _Window:
    """The part of a source that is in memory: `data`, which begins at the source's offset `base`; `at` is an index in
    `data`, `end` the source's size.
    """

    __slots__ = ("at", "base", "data", "end", "more", "view")

    def __init__(self, data: bytes, at: int, end: int, more: Callable[[int], bytes]) -> None:
        self.data = data
        self.view = memoryview(data)
        self.at = at
        self.base = 0
        self.end = end
        self.more = more

    def read(self, need: int) -> bool:
        """Read until `need` bytes are there from `at` on; return False where the source ends before."""
        while len(self.data) - self.at < need:
            lacking = need - (len(self.data) - self.at)
            if self.base + self.at + need > self.end:
                return False
            piece = self.more(max(lacking, _CHUNK))
            if not piece:
                self.end = self.base + len(self.data)
                return False
            self.base += self.at
            self.data = self.data[self.at :] + piece
            self.view = memoryview(self.data)
            self.at = 0
        return True

    def rest(self) -> bytes:
        """Read all that is left and return it from `at` on; call it near the end only."""
        while not self.read(self.end - self.base - self.at):
            pass  # the source is shorter than it promised; now that is known
        return self.data[self.at :]


def _all(window: _Window) -> Iterator[Block | Damage]:
    while window.base + window.at < window.end:
        found = _block(window)
        if isinstance(found, Block):
            yield found
            window.at += found.length
        elif window.base + window.at < window.end:
            yield _damage(window, found)


def _damage(window: _Window, reason: str) -> Damage:
    """The damage from here to where the next whole block begins, or to the end; `window` is there then."""
    start = window.base + window.at
    zeros = not window.data[window.at]
    window.at += 1
    while True:
        at = window.data.find(MAGIC, window.at)
        if at >= 0:
            zeros = False
            window.at = at
            if isinstance(_block(window), Block):
                break
            window.at += 1
            continue
        at = max(window.at, len(window.data) - len(MAGIC) + 1)
        zeros = zeros and not window.data[window.at : at].strip(b"\0")
        window.at = at
        if not window.read(len(MAGIC)):
            zeros = not window.rest().strip(b"\0") and zeros
            window.at = window.end - window.base
            break
    after = window.base + window.at
    if after < window.end:
        return Damage(start, after - start, reason)
    return Damage(start, after - start, _ZEROS if zeros else reason, zeros or reason.startswith("torn"))


def _block(window: _Window) -> Block | str:
    """Return the block that begins here, or what is wrong with it."""
    data, at = window.data, window.at
    if len(data) - at < _HEAD.size:
        if not window.read(_HEAD.size):
            return _stump(window)
        data, at = window.data, window.at
    magic, length, check, time, number, kind, _, context, frames = _HEAD.unpack_from(data, at)
    if magic != MAGIC:
        return NO_BLOCK
    if length < _INNER.size or length > MOST:
        return f"a block cannot be {length} octets long"
    if _INNER.size + context + 4 * SIZES * frames > length:
        return _CONTRADICTION
    end = at + _OUTER.size + length
    if end > len(data):
        if not window.read(_OUTER.size + length):
            return f"torn: {window.end - window.base - at - _OUTER.size} of {length} octets are there"
        data, at = window.data, window.at
        end = at + _OUTER.size + length
    if crc32(window.view[at + _OUTER.size : end]) != check:
        return "the checksum is wrong"
    at_context = at + _HEAD.size
    at_sizes = at_context + context
    at_payload = at_sizes + 4 * SIZES * frames
    sizes = _numbers(SIZES * frames).unpack_from(data, at_sizes)
    if kind >= len(_KINDS):
        return f"a block of a kind that is not known, {kind}"
    if kind == BlockKind.FRAMES and at_payload + sum(sizes) - sum(sizes[2::SIZES]) != end:
        return _CONTRADICTION
    # Block(...) would take twice as long.
    return _new(
        Block,
        (
            window.base + at,
            time,
            number,
            _KINDS[kind],
            data[at_context:at_sizes],
            sizes,
            data[at_payload:end],
        ),
    )


def _stump(window: _Window) -> str:
    """Return what is wrong with an end that is too short for a block."""
    left = window.rest()
    if not MAGIC.startswith(left[: len(MAGIC)]):
        return NO_BLOCK
    if len(left) < _OUTER.size:
        return "torn in its first octets"
    _, length, _ = _OUTER.unpack_from(left)
    if length < _INNER.size or length > MOST:
        return f"a block cannot be {length} octets long"
    return f"torn: {len(left) - _OUTER.size} of {length} octets are there"

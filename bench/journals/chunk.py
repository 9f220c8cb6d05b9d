"""The frames of one chunk as a block, the way the relay writes it: what heads share is there once, see
`stomprelay.journal.alike`; with bodies, or of a single frame, whole heads.
"""

from collections.abc import Sequence
from struct import Struct, pack
from typing import Any, Final, NamedTuple
from zlib import crc32

from stomprelay.journal.block import MAGIC, BlockKind, encode

_OUTER: Final = Struct("<4sII")
_INNER: Final = Struct("<qQBBHI")
_GROUP: Final = Struct("<IIHH")
_BODY: Final = bytes(range(32, 127)) * 700


class Alike(NamedTuple):
    """Neighbours that are alike: `head` has a `%d` or `%b` for each value, `rows` the values of each frame, `bodies`
    the size of the body of each; empty for none.
    """

    head: bytes
    rows: Sequence[tuple[Any, ...]]
    bodies: Sequence[int] = ()


def chunk(time: int, number: int, context: bytes, parts: Sequence[Alike], kept: int = 0) -> bytes:
    """Return a block. `number`: frames of the leg before it; `kept`: bytes of each body that are recorded, at most."""
    count = sum([len(part.rows) for part in parts])
    if count < 2 or kept:
        return _whole(time, number, context, parts, kept)
    bodies: list[int] = []
    for part in parts:
        bodies += part.bodies or [0] * len(part.rows)
    rest = b"".join(
        [
            _INNER.pack(time, number, BlockKind.ALIKE, 0, len(context), count),
            context,
            pack(f"<{count}I", *bodies),
            *[_group(part) for part in parts],
        ]
    )
    return _OUTER.pack(MAGIC, len(rest), crc32(rest)) + rest


def _group(part: Alike) -> bytes:
    """The heads of a part: the first one whole, of the others their values."""
    head, rows, _ = part
    begin, *slots = head.split(b"%")
    form = b"".join([b"%" + slot[:1] + b"\n" for slot in slots])
    cuts = []
    at = len(begin)
    for slot, value in zip(slots, (form % rows[0]).split(b"\n"), strict=False):
        end = at + len(value)
        cuts += [at, end]
        at = end + len(slot) - 1
    first, values = head % rows[0], b"".join(map(form.__mod__, rows[1:]))
    numbers = _GROUP.pack(len(rows), len(values), len(first), len(slots))
    return b"".join((numbers, pack(f"<{len(cuts)}H", *cuts), first, values))


def _whole(time: int, number: int, context: bytes, parts: Sequence[Alike], kept: int) -> bytes:
    sizes: list[int] = []
    pieces: list[bytes] = []
    for head, rows, bodies in parts:
        for row, size in zip(rows, bodies or [0] * len(rows), strict=True):
            whole, body = head % row, _BODY[: min(size, kept)]
            sizes += (len(whole), len(body), size)
            pieces += (whole, body)
    return b"".join(encode(BlockKind.FRAMES, time, number, context, sizes, b"".join(pieces)))

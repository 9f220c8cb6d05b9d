"""The frames of one chunk as a block, the way the relay writes it."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stomprelay.journal.block import BlockKind, encode

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
    sizes: list[int] = []
    pieces: list[bytes] = []
    for head, rows, bodies in parts:
        for row, size in zip(rows, bodies or [0] * len(rows), strict=True):
            whole, body = head % row, _BODY[: min(size, kept)]
            sizes += (len(whole), len(body), size)
            pieces += (whole, body)
    return encode(BlockKind.FRAMES, time, number, context, sizes, b"".join(pieces))

"""Frames whose heads are alike, as they stand in a block of kind `ALIKE`: what they share is there once. Release 0.2.0
wrote such blocks. They are only read now.

The block has the size of each body, 4 bytes, in place of the sizes of its frames; nothing is kept of bodies. Its
payload is groups of neighbouring frames. All numbers are little-endian. A group is

    frames  4   how many
    values  4   bytes of the values
    first   2   bytes of the first head
    cuts    2   how many
    cuts        two numbers of 2 bytes for each: where in the first head that begins and ends which may differ in others
    first       the first head
    values      for each other head what it has in the place of each cut, with an LF behind it

No cut has an LF in it, nor has a value. A head is the first one with its values in the places of the cuts.
"""

from collections.abc import Sequence
from struct import Struct, unpack_from
from typing import Final

EXPANDED: Final = 1 << 20
"""Bytes of all heads of a block at most: what takes few bytes in a file does not fill the memory."""
CONTRADICTION: Final = "its lengths contradict each other"
_GROUP: Final = Struct("<IIHH")


def expand(payload: bytes, frames: int) -> list[bytes]:
    """Return the heads of so many frames. Raises `ValueError` if the numbers contradict each other."""
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
        shared = _shared(first, unpack_from(f"<{2 * cuts}H", payload, at_cuts))
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


def _shared(first: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Return the pieces of a group's first head before, between and behind the cuts. Raises `ValueError`."""
    places = [0, *cuts, len(first)]
    if places != sorted(places):
        raise ValueError(CONTRADICTION)
    return [first[begin:end] for begin, end in zip(places[::2], places[1::2], strict=True)]

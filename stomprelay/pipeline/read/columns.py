"""Frames to columns: what a frame's head, sizes and body are in a row of `frames`.

`FRAME_COLUMNS` is the compiled twin of `FrameColumns` where it was built; nothing but speed depends on which it is.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from stomprelay import PURE
from stomprelay.journal.block import SIZES
from stomprelay.pipeline.read import heads
from stomprelay.pipeline.spark import arrow
from stomprelay.wire.dialect import Dialect


class FrameColumns:
    """Collects rows one behind the other; `arrays` returns the columns that only frames have."""

    def __init__(self) -> None:
        self._rows: list[tuple[bytes | None, ...]] = []
        self._ends = [0]
        self._names: list[bytes] = []
        self._values: list[bytes] = []
        self._sizes: list[int | None] = []
        self._body_sizes: list[int | None] = []
        self._bodies: list[bytes | None] = []

    def add(self, payload: bytes, sizes: Sequence[int], spoken: Dialect) -> None:
        """Add the frames of a block; see `Block` for what payload and sizes are."""
        names, values, ends, bodies = self._names, self._values, self._ends, self._bodies
        rows, read, fields = self._rows, heads.read, heads.fields
        at = 0
        last: bytes | None = None
        headers: dict[bytes, bytes] = {}
        row: tuple[bytes | None, ...] = ()
        total = ends[-1]
        for size, kept in zip(sizes[0::SIZES], sizes[1::SIZES], strict=True):
            body = at + size
            head = payload[at:body]
            if head != last:
                last = head
                command, headers = read(head, spoken)
                row = (command, *fields(command, headers))
            rows.append(row)
            total += len(headers)
            ends.append(total)
            names += headers
            values += headers.values()
            at = body + kept
            bodies.append(payload[body:at] if kept else None)
        body_sizes = sizes[2::SIZES]
        self._body_sizes += body_sizes
        self._sizes += [head + body + 1 for head, body in zip(sizes[0::SIZES], body_sizes, strict=True)]

    def blank(self) -> None:
        """Add a row that is no frame: all columns are null in it."""
        self._rows.append((None,) * (1 + len(heads.COLUMNS)))
        self._ends.append(self._ends[-1])
        self._sizes.append(None)
        self._body_sizes.append(None)
        self._bodies.append(None)

    def arrays(self) -> dict[str, pa.Array]:
        """Return the columns by name."""
        commands, *named = zip(*self._rows, strict=True)
        made = {"command": arrow.text(commands)}
        for name, texts in zip(heads.COLUMNS, named, strict=True):
            made[name] = arrow.text(texts)
        made["size"] = pa.array(self._sizes, pa.int64())
        made["body_size"] = pa.array(self._body_sizes, pa.int64())
        made["body"] = pa.array(self._bodies, pa.binary())
        made["headers"] = headers_of(made["command"], self._ends, self._names, self._values)
        return made


def headers_of(commands: pa.Array, ends: Any, names: Any, values: Any) -> pa.Array:
    """Return the column `headers`, see `arrow.mapping`: null where there is no command."""
    return arrow.mapping(ends, names, values, commands.is_null() if commands.null_count else None)


def _compiled() -> type[FrameColumns]:
    if PURE:
        return FrameColumns
    try:
        from stomprelay.pipeline.read._columns import FrameColumns as Compiled
    except ImportError:
        return FrameColumns
    return Compiled


FRAME_COLUMNS: Final = _compiled()
"""The compiled twin; `FrameColumns` itself where it was not built, or nothing compiled is wanted."""

"""Frames to columns: command and headers of a recorded frame, its sizes and its body, in a row of `frames`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from stomprelay.journal.block import SIZES
from stomprelay.pipeline.spark import arrow
from stomprelay.wire import names
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_2, Dialect

COLUMNS: Final = ("destination", "subscription", "message_id", "ack", "receipt", "transaction")
"""The columns that hold headers."""

Named = tuple[bytes | None, ...]
"""The names of the headers for each of `COLUMNS`; None where the command has none for it."""

Head = tuple[bytes, dict[bytes, bytes]]
"""A command, and its headers by name; of repeated ones the first."""


def _named(
    subscription: bytes | None = None, ack: bytes | None = None, receipt: bytes = names.RECEIPT_HEADER
) -> Named:
    return names.DESTINATION, subscription, names.MESSAGE_ID, ack, receipt, names.TRANSACTION


USUAL: Final = _named()
NAMED: Final = {
    names.MESSAGE: _named(names.SUBSCRIPTION, names.ACK_HEADER),
    names.SUBSCRIBE: _named(names.ID, names.ACK_HEADER),
    names.UNSUBSCRIBE: _named(names.ID),
    names.ACK: _named(names.SUBSCRIPTION, names.ID),
    names.NACK: _named(names.SUBSCRIPTION, names.ID),
    names.RECEIPT: _named(receipt=names.RECEIPT_ID),
    names.ERROR: _named(receipt=names.RECEIPT_ID),
}
"""The `Named` of each command; other commands have `USUAL`."""


@lru_cache
def dialect(version: str) -> Dialect:
    """Return the dialect of this version; without a version, the one that all have in common up to CONNECT."""
    return replace(DIALECTS.get(version.encode(), V1_2 if version else V1_0), strict=False)


def read(head: bytes, spoken: Dialect) -> Head:
    """Return command and headers of a frame's bytes, from the command to the blank line. Never raises."""
    if not spoken.padded and b"\\" not in head and b"\r" not in head:
        command, *lines = head.split(b"\n")
        del lines[-2:]
        try:
            headers = dict([line.split(b":", 1) for line in lines])
        except ValueError:  # a line without a colon
            return _with_care(head, spoken)
        return (command, headers) if len(headers) == len(lines) else _with_care(head, spoken)
    return _with_care(head, spoken)


def fields(command: bytes, headers: dict[bytes, bytes]) -> tuple[bytes | None, ...]:
    """Return the values for each of `COLUMNS`."""
    get: Any = headers.get  # for None, too
    return tuple(map(get, NAMED.get(command, USUAL)))


def _with_care(head: bytes, spoken: Dialect) -> Head:
    line, _, rest = head.partition(b"\n")
    command = line.removesuffix(b"\r")
    crlf = command != line
    rest = rest.removesuffix(b"\n")
    rest = rest.removesuffix(b"\r") if rest.endswith(b"\n\r") or rest == b"\r" else rest
    headers: dict[bytes, bytes] = {}
    for name, value in spoken.read(rest, crlf=crlf, escaped=command not in names.UNESCAPED):
        headers.setdefault(name, value)
    return command, headers


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
        rows = self._rows
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
        """Add a row that is not a frame: all its columns are null."""
        self._rows.append((None,) * (1 + len(COLUMNS)))
        self._ends.append(self._ends[-1])
        self._sizes.append(None)
        self._body_sizes.append(None)
        self._bodies.append(None)

    def arrays(self) -> dict[str, pa.Array]:
        """Return the columns by name."""
        commands, *named = zip(*self._rows, strict=True)
        made = {"command": arrow.text(commands)}
        for name, texts in zip(COLUMNS, named, strict=True):
            made[name] = arrow.text(texts)
        made["size"] = pa.array(self._sizes, pa.int64())
        made["body_size"] = pa.array(self._body_sizes, pa.int64())
        made["body"] = pa.array(self._bodies, pa.binary())
        events = made["command"].is_null() if made["command"].null_count else None
        made["headers"] = arrow.mapping(self._ends, self._names, self._values, events)
        return made

"""Command and headers of a recorded frame, and which headers have columns of their own."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

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
    """Return the dialect of this version; without one, what all have in common up to CONNECT."""
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

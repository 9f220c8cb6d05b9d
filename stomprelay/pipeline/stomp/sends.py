"""Rows on their way out: which columns a row may have (see `docs/pipeline.md`), and the SEND that it becomes.

Columns of the source that have no place in a SEND are not sent, so that what was read can be written as it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import BinaryType, BooleanType, MapType, StringType, StructType

from stomprelay.config.table import nearest
from stomprelay.pipeline.stomp.columns import STORED
from stomprelay.pipeline.stomp.options import Sink
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.names import CONTENT_LENGTH, DESTINATION, RECEIPT_HEADER, RESERVED, TRANSACTION

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "destination": (StringType,),
    "body": (BinaryType, StringType),
    "content_type": (StringType,),
    "content_length": (BooleanType,),
    "key": (StringType,),
    "headers": (MapType,),
}
_UNSENT: Final = (frozenset(STORED.names) | {"receiver", "sequence"}) - frozenset(_TYPES)
_FRAMES: Final = frozenset(
    {
        *(name.decode() for name in (DESTINATION, CONTENT_LENGTH, RECEIPT_HEADER, TRANSACTION, *RESERVED)),
        "id",
        "relay-copy",
        "relay-resent",
        "relay-trace",
    }
)


class SchemaError(ValueError):
    """Rows that cannot be sent; the text names the column or the row."""


def check(schema: StructType, sink: Sink) -> None:
    """Raise `SchemaError` unless rows of this schema can be sent."""
    names = schema.fieldNames()
    for field in schema.fields:
        if field.name in _UNSENT:
            continue
        if field.name not in _TYPES:
            raise SchemaError(
                f'format("stomp"): cannot send the column {field.name}; {nearest(field.name, _TYPES)}'
            )
        texts = not isinstance(field.dataType, MapType) or (
            isinstance(field.dataType.keyType, StringType)
            and isinstance(field.dataType.valueType, StringType)
        )
        if not isinstance(field.dataType, _TYPES[field.name]) or not texts:
            kinds = " or ".join(kind.__name__.removesuffix("Type").lower() for kind in _TYPES[field.name])
            wanted = "map<string,string>" if field.name == "headers" else kinds
            raise SchemaError(
                f'format("stomp"): the column {field.name} must be {wanted}, not {field.dataType.simpleString()}'
            )
    if "body" not in names:
        raise SchemaError('format("stomp"): needs a column body')
    if "destination" not in names and sink.destination is None:
        raise SchemaError('format("stomp"): needs a column destination, or the option destination')


class SendFrames:
    """Makes header lines and bodies of SENDs. `place`: the beginning of keys for rows without one."""

    def __init__(self, sink: Sink, place: str) -> None:
        self._place = place
        self._destination = sink.destination
        self._key = _line(sink.key_header, "")[:-1]
        self._unsent = _FRAMES | {sink.key_header}
        self._constant = {
            name.decode(): _line(name.decode(), value.decode()) for name, value in sink.headers.items()
        }
        self._constants = b"".join(self._constant.values())
        self._destinations: dict[str, bytes] = {}

    def of(self, batch: Any, first: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield header lines and body for each row; `first` is the number of the first. Raises `SchemaError`."""
        count = batch.num_rows
        names = batch.schema.names
        bodies = batch.column("body").cast(pa.binary()).to_pylist()
        others = [
            batch.column(name).to_pylist() if name in names else [None] * count
            for name in ("content_type", "content_length", "key", "headers")
        ]
        fixed = self._destination
        destinations = [fixed] * count if fixed is not None else batch.column("destination").to_pylist()
        place, known = self._place, self._destinations
        for number, (destination, kind, length, key, said, body) in enumerate(
            zip(destinations, *others, (each or b"" for each in bodies), strict=True),
            first,
        ):
            line = known.get(destination) or self._addressed(destination, number)
            made = self._key + V1_2.encode((f"{place}/{number}" if key is None else key).encode())
            # ActiveMQ takes a message without content-length for text. A body with a NUL would end there (STOMP 1.2).
            counted = b"" if length is False and b"\0" not in body else b"content-length:%d\n" % len(body)
            yield b"%b%b%b%b\n" % (line, self._others(said, kind), counted, made), body

    def _addressed(self, destination: str | None, number: int) -> bytes:
        if not destination:
            raise SchemaError(f'format("stomp"): row {number} of {self._place} has no destination')
        line = self._destinations[destination] = _line("destination", destination)
        return line

    def _others(self, said: list[tuple[str, str | None]] | None, kind: str | None) -> bytes:
        """Return the header lines of a row's `headers` and `content_type`, and of the options."""
        if not said and kind is None:
            return self._constants
        lines: dict[str, bytes] = {}
        if kind is not None:
            lines["content-type"] = _line("content-type", kind)
        for name, value in said or ():
            if value is not None and name and name not in lines and name not in self._unsent:
                lines[name] = _line(name, value)
        for name, line in self._constant.items():
            lines.setdefault(name, line)
        return b"".join(lines.values())


def _line(name: str, value: str) -> bytes:
    return V1_2.write_line(name.encode(), value.encode()) + b"\n"

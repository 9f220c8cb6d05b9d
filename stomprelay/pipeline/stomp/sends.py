"""Rows on their way out: what a row must have, and the SEND that it becomes.

destination string
    Where it goes, unless the option `destination` is given for all rows.
body binary or string
    The body; null is an empty one.
content_type string, optional
    Header `content-type`.
content_length boolean, optional
    Whether the SEND has a `content-length`: ActiveMQ takes a message with one for bytes (`BytesMessage`), without one
    for text (`TextMessage`). Null is true, and so is false for a body with a NUL, which would end there otherwise
    (STOMP 1.2, "Body").
key string, optional
    What makes the message known again (option `keyHeader`). Where it is missing or null, a key is made of the place of
    the row: `<id>/<batch>/<partition>/<row>`.
headers map<string,string>, optional
    All other headers. Names that belong to the frame or to a broker are left out: `destination`, `content-length`,
    `receipt`, `transaction`, `id`, `ack`, `message-id`, `subscription`, `redelivered`, `receipt-id`, `JMSXUserID`, and
    what the relay itself adds. A header of the row goes before one of the same name in the options.

Other columns of the source (`receiver`, `sequence`, `message_id`, `subscription`, `redelivered`, `received`) are not
sent, so that what was read can be written. Any further column is refused.
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
_CONTENT_TYPE: Final = "content-type"
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
        fixed = self._destination
        destinations = [fixed] * count if fixed is not None else batch.column("destination").to_pylist()
        types = batch.column("content_type").to_pylist() if "content_type" in names else [None] * count
        lengths = batch.column("content_length").to_pylist() if "content_length" in names else [None] * count
        keys = batch.column("key").to_pylist() if "key" in names else [None] * count
        maps = batch.column("headers").to_pylist() if "headers" in names else [None] * count
        place, known = self._place, self._destinations
        for number, (destination, kind, length, key, said, body) in enumerate(
            zip(destinations, types, lengths, keys, maps, (each or b"" for each in bodies), strict=True),
            first,
        ):
            line = known.get(destination) or self._addressed(destination, number)
            made = self._key + V1_2.encode((f"{place}/{number}" if key is None else key).encode())
            if length is False and b"\0" not in body:
                yield b"%b%b%b\n" % (line, self._others(said, kind), made), body
            else:
                others = self._others(said, kind)
                yield b"%b%bcontent-length:%d\n%b\n" % (line, others, len(body), made), body

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
            lines[_CONTENT_TYPE] = _line(_CONTENT_TYPE, kind)
        for name, value in said or ():
            if value is not None and name and name not in lines and name not in self._unsent:
                lines[name] = _line(name, value)
        for name, line in self._constant.items():
            lines.setdefault(name, line)
        return b"".join(lines.values())


def _line(name: str, value: str) -> bytes:
    return V1_2.write_line(name.encode(), value.encode()) + b"\n"
